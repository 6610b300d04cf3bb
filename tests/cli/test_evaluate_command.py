"""`delaytron evaluate`: what it shows, writes and refuses."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from dsjson_lines import event, write
from known_logs import K, make_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("logs")
    made = make_log(5, 600)
    made.log.write_parquet(place / "log.parquet")
    dt.logs.write_dsjson(made.log, place / "log.dsjson")
    np.save(place / "policy.npy", made.policy)
    learner = dt.Banditron(K, 2, gamma=0.3, seed=0)
    learner.decide(made.log.features[0])
    learner.save(place / "old.safetensors")
    return place


def run(folder, *args):
    return CliRunner().invoke(cli.app, ["evaluate", str(folder / "log.parquet"), *args])


def test_a_table_of_policies(folder):
    shown = run(folder, "--policy", "uniform", "--policy", str(folder / "policy.npy"), "--method", "snips")
    assert shown.exit_code == 0, shown.output
    made = make_log(5, 600)
    found = dt.evaluate(made.log, made.policy, "snips")
    assert f"{found.value:.4f}" in shown.output
    assert f"{found.low:.4f} to {found.high:.4f}" in shown.output
    assert "snips; 600 of 600 decisions, 600 with an outcome" in shown.output


def test_policies_of_all_kinds(folder):
    kinds = ["logged", "always:1", "banditron:gamma=0.3", str(folder / "old.safetensors")]
    policies = [word for kind in kinds for word in ("--policy", kind)]
    document = json.loads(run(folder, *policies, "--method", "ips", "--quantity", "error", "--json").stdout)
    assert [entry["policy"] for entry in document["evaluations"]] == kinds
    log = make_log(5, 600).log
    assert document["evaluations"][0]["value"] == pytest.approx(1 - log.outcomes.mean())
    learned = dt.evaluate(log, "banditron", "ips", quantity="error", gamma=0.3)
    assert document["evaluations"][2]["value"] == pytest.approx(learned.value, rel=1e-12)


def test_dsjson_gives_the_same_values(folder):
    args = ["--policy", "uniform", "--policy", "always:2", "--method", "ips", "--json"]
    one, other = (
        CliRunner().invoke(cli.app, ["evaluate", str(folder / name), *args]) for name in ("log.parquet", "log.dsjson")
    )
    first, second = ([entry["value"] for entry in json.loads(shown.stdout)["evaluations"]] for shown in (one, other))
    assert first == pytest.approx(second, rel=1e-9)


def test_files_are_written(folder, tmp_path):
    shown = run(folder, "--policy", "uniform", "--policy", "logged", "--output", str(tmp_path / "out"))
    assert shown.exit_code == 0, shown.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "evaluation.csv",
        "evaluation.json",
        "evaluation.png",
    ]
    rows = list(csv.DictReader((tmp_path / "out" / "evaluation.csv").read_text().splitlines()))
    document = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert [float(row["value"]) for row in rows] == [entry["value"] for entry in document["evaluations"]]
    assert (tmp_path / "out" / "evaluation.png").read_bytes().startswith(b"\x89PNG")


def test_warnings_are_printed(folder, tmp_path):
    labels = make_log(5, 600).log.labels
    rare = (labels + 1) % K
    rare[:9] = labels[:9]
    np.save(tmp_path / "rare.npy", np.eye(K)[rare])
    args = ["--policy", str(tmp_path / "rare.npy"), "--policy", "uniform", "--method", "ips"]
    shown = " ".join(run(folder, *args).output.split())
    assert "rare.npy: the policy overlaps too little with the log" in shown
    shown_warnings = [entry["warnings"] for entry in json.loads(run(folder, *args, "--json").stdout)["evaluations"]]
    assert [bool(warnings) for warnings in shown_warnings] == [True, False]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--policy", "unifrm"], "did you mean uniform?"),
        (["--policy", "nothing.npy"], "nothing.npy cannot be read"),
        (["--policy", "banditron:0.3"], "NAME:PARAMETER=VALUE"),
        (["--policy", "banditron:gama=0.3"], "gama"),
        (["--policy", "uniform", "--method", "magic"], "method must be one of"),
        (["--policy", "uniform", "--wait", "7d"], "--wait is for --missing"),
        (["--policy", "uniform", "--plot", "figure.txt"], "a figure must be a file of a known format"),
        ([], "Missing option '--policy'"),
    ],
)
def test_bad_input_is_one_line(folder, args, message):
    shown = run(folder, *args)
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_everything_that_is_missing_is_named_at_once():
    shown = CliRunner().invoke(cli.app, ["evaluate"])
    assert shown.exit_code == 2
    assert shown.stderr == "delaytron: Missing LOG, --policy; see delaytron evaluate --help\n"


def test_lines_that_cannot_be_used_and_journals_name_options(folder, tmp_path):
    lines = [event(f"e{k}", k % 3, reward=-float(k)) for k in range(3)]
    lines += [{key: value for key, value in event("bare").items() if key not in ("_label_probability", "p")}]
    log = str(write(tmp_path / "log.dsjson", lines))
    shown = CliRunner().invoke(cli.app, ["evaluate", log, "--policy", "logged"])
    assert shown.stderr.endswith(
        "got -1.0: --reward-scale LOW,HIGH maps those from LOW to HIGH to 0 to 1; --skip-bad leaves such lines out\n"
    )
    words = ["evaluate", log, "--policy", "logged", "--reward-scale=-2,0"]
    shown = CliRunner().invoke(cli.app, words)
    assert "log the probability with which the action was taken; --skip-bad leaves such lines out" in shown.stderr
    assert json.loads(CliRunner().invoke(cli.app, [*words, "--skip-bad", "--json"]).stdout)["rounds"] == 3
    with dt.Model(["a", "b"], features=1, journal=tmp_path / "shop.db"):
        pass
    shown = CliRunner().invoke(cli.app, ["evaluate", str(tmp_path / "shop.db"), "--policy", "logged"])
    path = tmp_path / "shop"
    assert shown.stderr.endswith(f"is a journal; write its log first: delaytron export {path}.db {path}.parquet\n")


@pytest.mark.parametrize("name", ["none.parquet", "log.xlsx"])
def test_bad_logs_are_one_line(folder, name):
    (folder / "log.xlsx").write_bytes(b"")
    shown = CliRunner().invoke(cli.app, ["evaluate", str(folder / name), "--policy", "uniform"])
    assert shown.exit_code == 2
    assert name in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
