"""The JSON that commands print: documented records, and every command prints its own."""

import json
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.cli import documents

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
SAMPLES = ["--samples", "300"]
PLAYED = ["--rounds", "200", "--runs", "2"]
EXPERIMENT = """
name = "small"
data = ["digits"]
rounds = 50
runs = 2
delays = [3]
[[learners]]
name = "delaytron"
gamma = [0.1, 0.2]
"""
LOG = ["event,outcome", *(f"{t},{t + 7 * t % 31 + 1 if t % 5 else ''}" for t in range(1, 60))]
DOCUMENTS = {  # a command, the record that it prints, and words with which it is called
    "run": (
        list[documents.RunRow],
        ["run", "delaytron", "pab", "--set", "C=inf", "--delay", "3", "--delay", "fixed:2", *SAMPLES, *PLAYED],
    ),
    "compare": (
        documents.ComparisonDocument,
        ["compare", "synsep", "--learner", "delaytron,perceptron,dilute", "--budget", "2", *SAMPLES, *PLAYED],
    ),
    "experiment": (list[documents.OutcomeRow], ["experiment", "spec.toml"]),
    "reproduce": (list[documents.OutcomeRow], ["reproduce", "--quick", "--only", "digits", "--share", "0.002"]),
    "learners": (list[documents.LearnerRow], ["learners"]),
    "datasets": (list[documents.DatasetRow], ["datasets"]),
    "datasets_show": (documents.DatasetDocument, ["datasets", "show", "digits"]),
    "delays": (documents.DelaysDocument, ["delays", "log.csv"]),
    "bounds": (documents.BoundsDocument, ["bounds", "--rounds", "300", "--delay", "9+missing:0.1"]),
    "bounds_with_data": (
        list[documents.StudyDocument],
        ["bounds", "--data", "synsep", "--delay", "9", *SAMPLES, *PLAYED],
    ),
    "verify": (documents.VerifyDocument, ["verify", "router.db"]),
    "export": (documents.ExportDocument, ["export", "router.db", "decisions.parquet"]),
    "compact": (documents.CompactDocument, ["compact", "router.db", "--older-than", "30d"]),
    "import": (documents.ImportDocument, ["import", "events.dsjson", "--journal", "shop.db"]),
    "evaluate": (
        documents.EvaluationDocument,
        ["evaluate", "decisions.parquet", "--policy", "uniform", "--policy", "logged", "--method", "ips"],
    ),
    "doctor": (documents.Installation, ["doctor"]),
}
ACTIONS = [{"id": "tea"}, {"id": "coffee"}]
EVENT = {"EventId": "e1", "_label_cost": -1, "_label_probability": 0.5, "_label_Action": 1, "c": {"_multi": ACTIONS}}
SEVERAL_SHAPES = {"bounds"}  # with and without what was measured


def document_of(args, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "spec.toml").write_text(EXPERIMENT)
    (folder / "log.csv").write_text("\n".join(LOG))
    (folder / "events.dsjson").write_text(json.dumps(EVENT))
    with dt.Model(["small", "large"], features=2, journal="router.db", seed=0) as model:
        model.feedback(model.decide([0.5, 1.0]).id, reward=0.7)
    log = dt.logs.from_arrays(
        features=[[1.0]] * 4, labels=[0, 1, 1, 0], probs=[0.5] * 4, rewards=[1, 0, 1, 1], n_classes=2
    )
    if args[0] == "evaluate":
        log.write_parquet("decisions.parquet")
    result = CliRunner().invoke(cli.app, [*args, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def as_record(document, command):
    """Return what the record of a command keeps of a document; raise where a key is missing or of another type."""
    return msgspec.to_builtins(msgspec.convert(document, DOCUMENTS[command][0], strict=True))


def objects():
    """Return the records, each with the JSON Schemas of its keys."""
    _, parts = msgspec.json.schema_components([record for record, _ in DOCUMENTS.values()])
    return {name: part["properties"] for name, part in parts.items() if "properties" in part}


def commands_with_json(group, path=""):
    """Yield the names of the commands that take --json."""
    for name, command in group.commands.items():
        if any("--json" in param.opts for param in command.params):
            yield path + name
        if hasattr(command, "commands"):
            yield from commands_with_json(command, f"{name}_")


def test_every_command_is_tried():
    assert {*commands_with_json(typer.main.get_command(cli.app)), "bounds_with_data"} == DOCUMENTS.keys()


@pytest.mark.parametrize("command", DOCUMENTS)
def test_documents_keep_to_their_records(command, tmp_path, monkeypatch):
    document = document_of(DOCUMENTS[command][1], tmp_path, monkeypatch)
    assert as_record(document, command) == document  # all keys, and no others
    assert document


def test_extreme_numbers_keep_to_their_records(tmp_path, monkeypatch):
    document = document_of(["bounds", "--rounds", "300", "--norm", "1e160"], tmp_path, monkeypatch)
    assert "inf" in {row["bound"] for row in document["bounds"]}
    assert as_record(document, "bounds") == document


def test_another_document_is_noticed(tmp_path, monkeypatch):
    row = document_of(DOCUMENTS["run"][1], tmp_path, monkeypatch)[0]
    another = [row | {"data": "synsep"}]
    assert as_record(another, "run") != another
    for change in ({"rounds": "many"}, {"error": None}):
        with pytest.raises(msgspec.ValidationError, match=next(iter(change))):
            as_record([row | change], "run")


def test_a_key_is_of_one_type_wherever_it_is():
    types = {}
    for properties in objects().values():
        for key, schema in properties.items():
            types.setdefault(key, set()).add(json.dumps(schema, sort_keys=True))
    assert {key for key, several in types.items() if len(several) > 1} == SEVERAL_SHAPES


def test_the_page_names_every_command_and_every_key():
    keys = {key for properties in objects().values() for key in properties}
    assert {f"`{name}`" for name in [*keys, *DOCUMENTS] if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize("command", DOCUMENTS)
def test_the_page_has_a_true_example_of_every_document(command):
    _, _, rest = PAGE.partition(f"\n## `{command}`\n")
    example = json.loads(rest.partition("```json\n")[2].partition("```")[0])
    assert as_record(example, command) == example
