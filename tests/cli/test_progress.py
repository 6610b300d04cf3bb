"""Progress of commands, and what is on disk after an interruption or on a full disk; absurd numbers and flags."""

import errno
import json
import threading
from pathlib import Path

import pytest
from pyarrow import csv
from typer.testing import CliRunner

from delaytron import cli
from delaytron.cli import outputs
from delaytron.experiments.compare import PreparedComparison

SMALL = ["--samples", "300", "--rounds", "200", "--runs", "2"]
COMPARE = ["compare", "synsep", "--learner", "delaytron,perceptron", "--delay", "1,9", "--budget", "2", *SMALL]


def delaytron(*args):
    return CliRunner().invoke(cli.app, list(map(str, args)), prog_name="delaytron")


class TestCompare:
    def test_without_a_terminal_there_is_a_line_per_learner_and_delay(self):
        result = delaytron(*COMPARE, "--json")
        lines = result.stderr.splitlines()
        assert [line.partition(": error ")[0] for line in lines] == [
            f"delaytron: {name}, delay {delay}" for name in ("delaytron", "perceptron") for delay in (1, 9)
        ]
        errors = [f"{row['error']:.4f}" for row in json.loads(result.stdout)["results"]]
        assert [line.partition(": error ")[2].split()[0] for line in lines] == errors
        assert lines[-1].endswith("(4 of 4)")

    def test_what_is_there_after_a_learner_outlives_an_interruption(self, tmp_path, monkeypatch):
        def interrupted(self, *args):
            entries = every(self, *args)
            yield next(entries)
            yield next(entries)
            yield next(entries)
            raise KeyboardInterrupt

        every = PreparedComparison.entries
        monkeypatch.setattr(PreparedComparison, "entries", interrupted)
        assert delaytron(*COMPARE, "--output", tmp_path).exit_code == 130
        assert sorted(path.name for path in tmp_path.iterdir()) == ["comparison.csv", "comparison.json"]
        document = json.loads((tmp_path / "comparison.json").read_text())
        assert [(row["learner"], row["delay"]) for row in document["results"]] == [
            ("delaytron", "1"),
            ("delaytron", "9"),
        ]
        assert csv.read_csv(tmp_path / "comparison.csv")["learner"].to_pylist() == ["delaytron"] * 2


class TestLogs:
    def test_long_runs_log_every_tenth_and_short_ones_nothing(self, monkeypatch):
        flags = ["run", "--samples", "300", "--rounds", "500", "--runs", "4", "--workers", "1"]
        assert delaytron(*flags).stderr == ""
        monkeypatch.setattr(outputs, "LONG", 2000)
        lines = delaytron(*flags).stderr.splitlines()
        assert lines[-1] == "delaytron: 100 % of 2,000 rounds"
        assert all(line.endswith(" % of 2,000 rounds") for line in lines)

    def test_several_learners_log_a_line_each(self, monkeypatch):
        monkeypatch.setattr(cli.run, "LONG", 10)
        lines = delaytron("run", "delaytron", "perceptron", *SMALL).stderr.splitlines()
        assert [line.partition(": error")[0] for line in lines] == [
            "delaytron: delaytron, delay 1000",
            "delaytron: perceptron, delay 1000",
        ]

    def test_threads_do_not_lose_a_tenth(self, capsys):
        log = outputs.TenthLog(4000, "rounds")
        threads = [threading.Thread(target=lambda: [log(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.done == 4000
        assert len(capsys.readouterr().err.splitlines()) == 10


class TestFullDisk:
    @pytest.mark.parametrize("name", ["results.csv", "results.json"])
    def test_the_file_is_named(self, name, tmp_path, monkeypatch):
        def full(path, content):
            if path.name == name:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(outputs, "replace_file", full)
        result = delaytron("run", *SMALL, "--output", tmp_path, "--json")
        assert result.exit_code == 2
        line = result.stderr.splitlines()[-1]
        assert (
            line == f"delaytron: cannot write '{tmp_path / name}': No space left on device; make room, then try again"
        )

    def test_a_figure_is_named(self, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
        result = delaytron("run", *SMALL, "--plot", tmp_path / "curves.png")
        assert result.exit_code == 2
        assert str(tmp_path / "curves.png") in result.stderr
        assert "No space left on device" in result.stderr

    def test_a_device_is_written_to_and_not_replaced(self):
        assert delaytron("run", *SMALL, "--csv", "/dev/null").exit_code == 0
        assert not Path("/dev/null").is_file()


class TestParameters:
    @pytest.mark.parametrize("flags", [["--gamma", "0.1"], ["--set", "gamma=0.1"]])
    def test_a_parameter_that_no_learner_takes_is_refused(self, flags):
        result = delaytron("run", "exp3", *SMALL, *flags)
        assert (result.exit_code, result.stdout) == (2, "")
        named = "banditron, delaytron, adaptive_delaytron, hinge_delaytron, ..."
        expected = f"gamma is not a parameter of exp3 (eta); name a learner that takes it: {named}"
        assert result.stderr == f"delaytron: {expected}\n"

    def test_where_some_take_it_the_others_are_named(self):
        result = delaytron("run", "exp3", "delaytron", "perceptron", *SMALL, "--gamma", "0.1", "--set", "eta=1")
        assert result.exit_code == 0
        assert result.stderr.splitlines() == [
            "delaytron: note: exp3, perceptron do not take gamma",
            "delaytron: note: perceptron does not take eta",
        ]

    def test_the_default_gamma_needs_no_note(self):
        result = delaytron("run", "exp3", "delaytron", *SMALL, "--json")
        assert (result.exit_code, result.stderr) == (0, "")
        assert [row["parameters"] for row in json.loads(result.stdout)] == [{}, {"gamma": 0.01}]


HUGE = 10**30
ABSURD = [
    (["run", "--rounds", 2**63 - 1], "rounds must be at most 4294967294, got 9223372036854775807"),
    (["run", "--runs", HUGE], f"runs must be at most 1000000, got {HUGE}"),
    (["run", "--workers", HUGE], f"workers must be at most 1024, got {HUGE}"),
    (["run", "--delay", "1e400"], "--delay must be an integer"),
    (["run", "delaytron", "--gamma", "1e400"], "gamma must be a finite number, got inf"),
    (["compare", "synsep", "--rounds", HUGE], f"rounds must be at most 4294967294, got {HUGE}"),
    (["compare", "synsep", "--tuning-runs", HUGE], f"--tuning-runs must be at most 1000000, got {HUGE}"),
    (["bounds", "--rounds", HUGE], f"rounds must be at most 4294967294, got {HUGE}"),
    (["bounds", "--data", "digits", "--runs", HUGE], f"runs must be at most 1000000, got {HUGE}"),
    (["bounds", "--norm", "1e400"], "norm must be a finite number or an array of them, got inf"),
]


@pytest.mark.parametrize(("args", "message"), ABSURD, ids=[" ".join(map(str, args[:4])) for args, _ in ABSURD])
def test_absurd_numbers_are_one_line_and_exit_code_2(args, message):
    result = delaytron(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert message in line


def test_an_absurd_budget_is_all_settings():
    assert delaytron("compare", "synsep", "--learner", "exp3", "--delay", "1", "--budget", HUGE, *SMALL).exit_code == 0


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("run", ["--workers", "--input", "--scale"]),
        ("compare", ["--workers", "--input", "--scale"]),
        ("bounds", ["--workers", "--input", "--scale"]),
        ("experiment", ["--workers", "--share"]),
        ("reproduce", ["--workers", "--share"]),
    ],
)
def test_flags_have_the_same_names_in_all_commands(command, flags):
    text = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"}).output
    known = {word for line in text.splitlines() for word in line.split() if word.startswith("--")}
    assert set(flags) <= known
    assert not {"--threads", "--n-jobs"} & known
    assert "--features" not in known
    assert ("--scale" in known) == ("--scale" in flags)
