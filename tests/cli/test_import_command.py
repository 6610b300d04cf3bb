"""`delaytron import` as a user calls it: what it prints, and one line for what is wrong."""

import gzip
import json

import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.cli import outputs
from dsjson_lines import DRINKS, MULTI, event, outcome, write

pytestmark = pytest.mark.xdist_group("bandit_logit")


def delaytron(*args):
    return CliRunner().invoke(cli.app, list(map(str, args)), prog_name="delaytron", env={"COLUMNS": "100"})


def document_of(*args):
    result = delaytron("import", *args, "--bits", 10, "--seed", 7, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args):
    """Assert that a call ends with exit code 2 and one line; return it."""
    result = delaytron("import", *args)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
    return result.stderr


@pytest.fixture
def log(tmp_path):
    lines = [event(f"e{i}", i % 3, 0.5, float(i % 2)) for i in range(8)]
    lines += [event("e3"), event("late"), outcome("late", 1.0), outcome("nobody", 1.0), event("open"), "{", "[INFO]"]
    return write(tmp_path / "events.dsjson", lines)


def test_the_document(log, tmp_path):
    found = document_of(log, "--journal", tmp_path / "shop.db")
    assert found == {
        "journal": str(tmp_path / "shop.db"),
        "logs": [str(log)],
        "events": 11,
        "imported": 10,
        "imported_before": 0,
        "answered": 9,
        "answered_after_expiry": 0,
        "open": 1,
        "omitted": {"duplicate": 1, "damaged": 1, "other": 1},
        "unused_answers": {"no_event": 1},
        "class_names": DRINKS,
        "classes_by": "_tag",
        "varying_actions": 0,
        "reward_scale": [0.0, 1.0],
        "mean_reward": 5 / 9,
        "mean_reward_margin": pytest.approx(1.959964 * (20 / 81 / 8) ** 0.5),
        "warnings": [],
    }
    assert delaytron("verify", tmp_path / "shop.db").exit_code == 0
    with dt.Model.open(tmp_path / "shop.db") as model:
        assert [waiting.id for waiting in model.open_decisions()] == ["open"]
    again = document_of(log, "--journal", tmp_path / "shop.db")
    assert (again["imported"], again["imported_before"], again["answered"], again["open"]) == (0, 10, 9, 1)
    assert again["omitted"] == found["omitted"]


def test_the_table(log, tmp_path):
    result = delaytron("import", log, "--journal", tmp_path / "shop.db", "--bits", 10)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for part in (
        "events imported 10",
        "events answered 9",
        "decisions open now 1",
        "left out: an earlier line has its id 1",
        "left out: not valid JSON 1",
        "answers not used: there is no such event 1",
        "classes, by _tag 3",
        "mean reward of the logged policy 0.5556 ± 0.3443",
        "classes, identified by _tag: Cappucino, Cold brew, Latte",
        "dt.Model.open(",
    ):
        assert part in words


def test_the_notes(tmp_path):
    multi = [{"id": name, "price": 1} for name in DRINKS]
    priced = [{"id": name, "price": 2} for name in DRINKS]
    bare = {key: value for key, value in event("", multi=multi).items() if key != "EventId"}
    lines = [
        event("e0"),
        event("e1", multi=multi),
        event("e2", multi=priced, reward=0.0) | {"_original_label_cost": -1.0},
        event("e3", multi=multi, pdrop=0.5),
        bare,
    ]
    log = write(tmp_path / "log.dsjson", lines)
    result = delaytron("import", log, "--journal", tmp_path / "a.db", "--bits", 10)
    words = " ".join(result.stdout.split())
    for part in (
        "classes, identified by number: 1, 2, 3",
        f"not by _tag: {log}, line 2 has an action without one of its own",
        "the own features of 3 classes vary between events, and are left out; --action-features adds them to the rows",
        "1 events have no EventId; their ids are their file and line",
        "1 rewards say whether the service chose as its caller did (apprentice mode)",
        "1 events have a weight, since similar ones were dropped (pdrop)",
    ):
        assert part in words, words
    result = delaytron("import", log, "--journal", tmp_path / "b.db", "--bits", 10, "--action-features")
    assert "vary between events; rows have them under _action" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("noise", "advice"),
    [
        (0, "--action Action.topic identifies them, or say --action number if"),
        (1, "give every action an id of its own"),
    ],
)
def test_a_warning_says_that_action_numbers_do_not_identify_actions(tmp_path, noise, advice):
    orders = [["sport", "news", "art"], ["art", "sport", "news"], ["news", "art", "sport"]]
    orders[2][0] = "art" if noise else "news"  # twice in one event
    lines = [
        event(f"e{k}", reward=1.0, multi=[{"Action": {"topic": topic, "age": 1}} for topic in order])
        for k, order in enumerate(orders)
    ]
    log = write(tmp_path / "log.dsjson", lines)
    result = delaytron("import", log, "--journal", tmp_path / "a.db", "--bits", 10, "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert result.stderr == f"delaytron: warning: {warning}\n"
    assert "the n-th action differs between events" in warning
    assert advice in warning
    asked = "number" if noise else "Action.topic"
    assert document_of(log, "--journal", tmp_path / "b.db", "--action", asked)["warnings"] == []
    shown = delaytron("evaluate", log, "--policy", "uniform", "--json")
    assert shown.stderr == f"delaytron: warning: {log}: {warning}\n"
    assert json.loads(shown.stdout)["warnings"] == [f"{log}: {warning}"]
    shown = delaytron("evaluate", log, "--policy", "uniform", "--action", asked, "--json")
    assert (shown.stderr, json.loads(shown.stdout)["warnings"], json.loads(shown.stdout)["classes"]) == ("", [], 3)


def test_several_logs_and_options(tmp_path):
    first = tmp_path / "january.dsjson.gz"
    first.write_bytes(gzip.compress(json.dumps(event("e0", reward=-1.0)).encode()))
    second = write(tmp_path / "february.dsjson", [event("e1", 1, reward=5.0), event("e2", 2), outcome("e0", 0.0)])
    found = document_of(
        *[first, second, "--journal", tmp_path / "shop.db", "--reward-scale", "-1,5", "--default-reward", 2],
        *["--classes", "Latte,Cold brew", "--classes", "Cappucino", "--action", "i.id", "--learner", "delaytron"],
        *["--set", "gamma=0.25", "--ngrams", 2, "--expire-after", "30d", "--on-expiry", "wrong", "--strict"],
        *["--correct-within", "60d"],
    )
    assert (found["classes_by"], found["class_names"]) == ("i.id", ["Latte", "Cold brew", "Cappucino"])
    assert (found["reward_scale"], found["mean_reward"]) == ([-1.0, 5.0], pytest.approx(2.0))
    assert found["unused_answers"] == {"conflicting": 1}
    with dt.Model.open(tmp_path / "shop.db") as model:
        asked = model._engine.recipe.asked
        assert (asked["learner"], asked["parameters"], asked["ngrams"]) == ("delaytron", {"gamma": 0.25}, 2)
        assert (asked["expire_after"], asked["on_expiry"]) == ({"rounds": None, "clock": 30 * 86400 * 10**9}, "wrong")
        assert asked["correct_within"] == {"rounds": None, "clock": 60 * 86400 * 10**9}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--reward-scale", "1"], "--reward-scale must be two numbers, got '1'; give them as in --reward-scale 0,5"),
        (["--reward-scale", "a,b"], "--reward-scale must be two numbers"),
        (["--reward-scale", "0,inf"], "--reward-scale must be two numbers"),
        (["--reward-scale", "1,0"], "--reward-scale must be two numbers, the lower one first, got 1,0"),
        (["--default-reward", "nan"], "--default-reward must be a finite number"),
        (["--default-reward", "-1"], "--default-reward must be from 0 to 1, got -1"),
        (["--classes", "one"], "classes must be at least two distinct names"),
        (["--learner", "bandit_logic"], "learner must be"),
        (["--set", "lr=1,2"], "--set must have one value for lr, got 2"),
        (["--set", "gamma=1"], "a parameter of bandit_logit must be"),
        (
            ["--classes", "Tea,Water"],
            "there must be at least one event that can be read, got none (by _tag no action is one of Tea, Water)",
        ),
        (["--expire-after", "soon"], "--expire-after must be"),
        (["--on-expiry", "wrong"], "--on-expiry wrong needs --expire-after"),
        (["--correct-within", "9"], "--correct-within needs --on-expiry wrong"),
        (
            ["--expire-after", "9", "--on-expiry", "wrong", "--correct-within", "9d"],
            "--correct-within must be a number of decisions, got '9d'; give it in the unit of --expire-after 9",
        ),
        (["--bits", "99"], "bits must be"),
        (["--strict"], "line 9: an earlier line has the id 'e3'; fix it, or leave it out: run without --strict"),
    ],
)
def test_wrong_options_are_one_line(log, tmp_path, args, words):
    assert words in refused(log, "--journal", tmp_path / "shop.db", *args)
    assert not (tmp_path / "shop.db").exists()


def test_wrong_files_are_one_line(log, tmp_path):
    journal = ["--journal", tmp_path / "shop.db"]
    assert "cannot read" in refused(tmp_path / "absent.dsjson", *journal)
    assert "it must be a file" in refused(tmp_path, *journal)
    assert "Missing option '--journal'" in refused(log)
    assert "there is no folder" in refused(log, "--journal", tmp_path / "none" / "shop.db")
    slots = write(tmp_path / "ccb.dsjson", [{"c": {"_multi": MULTI, "_slots": [{}]}}])
    assert "ccb.dsjson, line 1: it is of conditional contextual bandits or slates" in refused(slots, *journal)
    empty = write(tmp_path / "empty.dsjson", [])
    assert "there must be at least one event that can be read, got none" in refused(empty, *journal)
    scaled = write(tmp_path / "scaled.dsjson", [event("e0", reward=3.0)])
    assert "got 3; the log has 3 to 3: --reward-scale LOW,HIGH maps them" in refused(scaled, *journal)
    assert not (tmp_path / "shop.db").exists()
    own = tmp_path / "own.db"
    dt.Model(["a", "b"], journal=own).close()
    assert "was not created by an import" in refused(log, "--journal", own)


def test_a_long_one_shows_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "LONG", 50)
    monkeypatch.setattr("delaytron.model.log_import.BATCH", 6)
    log = write(tmp_path / "log.dsjson", [event(f"e{i}") for i in range(60)])
    result = delaytron("import", log, "--journal", tmp_path / "shop.db", "--bits", 10)
    assert result.stderr.splitlines() == [f"delaytron: {10 * tenth} % of 60 decisions" for tenth in range(1, 11)]


def test_the_help_has_an_example():
    assert "delaytron import events.dsjson --journal shop.db" in delaytron("import", "--help").stdout
