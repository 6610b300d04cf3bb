"""The command line: the same numbers as the library, readable help, one clear line when something is wrong."""

import gzip
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import typer
from pyarrow import csv
from pyarrow import parquet as pq
from sklearn.datasets import load_iris
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.experiments.compare import compare
from delaytron.simulation.results import mean_of

GAMMAS = ["--set", "gamma=0.2", "--set", "gamma=0.4"]
SMALL = ["--samples", "500", "--rounds", "800", "--runs", "2"]
HEAVY = ("numba", "scipy", "pyarrow", "matplotlib", "sklearn", "joblib")


def delaytron(*args, columns=120):
    return CliRunner().invoke(cli.app, list(map(str, args)), env={"COLUMNS": str(columns)}, prog_name="delaytron")


def output_of(*args, **options):
    result = delaytron(*args, **options)
    assert result.exit_code == 0, result.output
    assert all(is_expected(line) for line in result.stderr.splitlines())
    return result.stdout


def is_expected(line):
    """Whether a line on stderr is a note on parameters, or the progress of a comparison."""
    return line.startswith("delaytron: note: ") or re.fullmatch(r"delaytron: .*: error .* \(\d+ of \d+\)", line)


def rows_of(*args):
    return json.loads(output_of("run", *args, *SMALL, "--json"))


def play(learner, delay, **parameters):
    data = dt.datasets.load("synsep", n_samples=500)
    return dt.simulate(learner, data, delay=delay, rounds=800, runs=2, **parameters)


@pytest.fixture
def few_learners():
    """A registry of five learners: all others would take minutes to compile, and tests/learners plays each."""
    every = dict(dt.LEARNERS)
    for name in every.keys() - {dt.DEFAULT_LEARNER, "delaytron", "pab", "gap", "perceptron"}:
        del dt.LEARNERS[name]
    yield
    dt.LEARNERS.clear()
    dt.LEARNERS.update(every)  # in their order


def examples(*command):
    help_text = output_of(*command, "--help", columns=80)
    lines = help_text.partition("Examples")[2].splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("delaytron ")]


class TestRun:
    def test_standardize_is_for_all_learners_of_the_run(self):
        rows = rows_of("delaytron", "ova_logistic", "--delay", "50", "--gamma", "0.1", "--standardize")
        for row, learner in zip(rows, ("delaytron", "ova_logistic"), strict=True):
            assert row["parameters"] == {"gamma": 0.1, "standardize": True}
            expected = play(learner, 50, gamma=0.1, standardize=True)
            assert row["final_errors"] == expected.final_error.tolist()

    def test_json_holds_exactly_the_numbers_of_the_library(self):
        (row,) = rows_of("delaytron", "--delay", "50", "--gamma", "0.1", "--seed", "3")
        expected = play("delaytron", 50, gamma=0.1, seed=3)
        assert row["final_errors"] == expected.final_error.tolist()
        assert row["final_greedy_errors"] == expected.greedy_error.tolist()
        assert row["error"] == mean_of(expected.final_error).value
        assert row["error_margin"] == mean_of(expected.final_error).margin
        assert (row["learner"], row["dataset"], row["delay"]) == ("delaytron", "synsep", "uniform:50")
        assert (row["rounds"], row["runs"], row["seed"], row["sampling"]) == (800, 2, 3, "replacement")
        assert row["versions"]["delaytron"] == dt.__version__
        assert row["best"]
        assert row["rounds_per_second"] > 0

    def test_the_default_learner_needs_no_parameter(self):
        (row,) = rows_of()
        assert (row["learner"], row["parameters"]) == (dt.DEFAULT_LEARNER, {}) == ("bandit_logit", {})
        assert row["final_errors"] == play("bandit_logit", 1000).final_error.tolist()

    def test_every_learner_meets_every_delay_and_gamma(self):
        rows = rows_of("banditron", "perceptron", "--delay", "1,30", "--delay", "fixed:7", "--gamma", "0.1,0.3")
        assert [(row["learner"], row["delay"], row["parameters"].get("gamma")) for row in rows] == [
            *(("banditron", d, g) for d in ("uniform:1", "uniform:30", "fixed:7") for g in (0.1, 0.3)),
            *(("perceptron", d, None) for d in ("uniform:1", "uniform:30", "fixed:7")),
        ]
        expected = play("banditron", "fixed:7", gamma=[0.1, 0.3])
        assert [rows[4]["final_errors"], rows[5]["final_errors"]] == expected.final_error.reshape(2, 2).tolist()
        assert sum(row["best"] for row in rows) == 6

    def test_a_delay_with_a_comma_stays_whole(self):
        rows = rows_of("--delay", "lognormal:20,1.5+missing:0.2", "--delay", "3,4")
        assert [row["delay"] for row in rows] == [
            "lognormal:20,1.5+missing:0.2",
            "uniform:3",
            "uniform:4",
        ]

    def test_set_makes_a_grid_for_the_learners_that_take_it(self):
        flags = ["--set", "tracker=cumulative,instant", "--set", "restart=true", "--gamma", "0.1", "--delay", "20"]
        rows = rows_of("delaytron", "adaptive_delaytron", *flags)
        assert [row["parameters"] for row in rows] == [
            {"gamma": 0.1},
            {"gamma": 0.1, "tracker": "cumulative", "restart": True},
            {"gamma": 0.1, "tracker": "instant", "restart": True},
        ]
        assert (
            rows[2]["final_errors"]
            == play("adaptive_delaytron", 20, gamma=0.1, tracker="instant", restart=True).final_error.tolist()
        )

    def test_set_wins_over_the_default_gamma(self):
        assert [row["parameters"]["gamma"] for row in rows_of("delaytron", *GAMMAS)] == [0.2, 0.4]

    def test_what_comes_twice_is_played_once(self):
        (row,) = rows_of("delaytron", "delaytron", "--delay", "5,5", "--gamma", "0.1", "--gamma", "0.10")
        assert row["runs"] == 2

    def test_sampling_and_workers_reach_the_simulation(self):
        (row,) = rows_of("delaytron", "--sampling", "epochs", "--workers", "1", "--gamma", "0.1")
        assert row["final_errors"] == play("delaytron", 1000, gamma=0.1, sampling="epochs").final_error.tolist()

    def test_a_single_run_has_no_margin(self):
        (row,) = json.loads(output_of("run", *SMALL, "--runs", "1", "--json"))
        assert row["error_margin"] is None

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_table_shows_a_line_per_row_and_marks_the_best(self, columns):
        flags = ["adaptive_delaytron", "--delay", "1,1000", "--gamma", "0.05,0.5", *SMALL]
        lines = output_of("run", *flags, columns=columns).splitlines()
        shown = [line.split() for line in lines if line.startswith("adaptive_delaytron ")]
        rows = json.loads(output_of("run", *flags, "--json"))
        assert [cells[1:3] for cells in shown] == [["1", "0.05"], ["1", "0.5"], ["1000", "0.05"], ["1000", "0.5"]]
        assert [cells[3] for cells in shown] == [f"{row['error']:.4f}" for row in rows]
        assert [cells[5].endswith("*") for cells in shown] == [row["best"] for row in rows]
        assert [cells[6:9] for cells in shown] == [
            [f"{row['greedy_error']:.4f}", "±", f"{row['greedy_error_margin']:.4f}"] for row in rows
        ]
        assert max(map(len, lines)) <= columns
        assert any(line.startswith("2 runs of 800 rounds") for line in lines)

    @pytest.mark.parametrize("flags", [[], ["delaytron", "--gamma", "0.1,0.2"], ["perceptron", "--runs", "1"]])
    def test_the_table_ends_with_the_error_of_the_most_frequent_class(self, flags):
        data = dt.datasets.load("synsep", n_samples=500)
        majority = 1 - np.bincount(data.y).max() / 500
        lines = output_of("run", *SMALL, *flags).splitlines()
        (place,) = [i for i, line in enumerate(lines) if line.startswith("always the most")]
        assert lines[place].split()[3:] == ["any", f"{majority:.4f}"]
        assert lines[place + 1].strip() == "frequent class"
        rows = json.loads(output_of("run", *SMALL, *flags, "--json"))
        assert {row["majority_error"] for row in rows} == {majority}

    def test_of_a_stream_it_is_that_of_all_rows(self, tmp_path):
        path = tmp_path / "clicks.svm"
        path.write_text("".join(f"{i % 5 // 4} {i % 3 + 1}:1\n" for i in range(100)))
        (row,) = json.loads(output_of("run", "--data", path, "--stream", "--rounds", "40", "--runs", "1", "--json"))
        assert row["majority_error"] == pytest.approx(0.2)
        assert (row["learner"], row["rounds"]) == (dt.DEFAULT_LEARNER, 40)

    def test_the_table_of_one_setting_marks_nothing(self):
        assert "*" not in output_of("run", "banditron", "perceptron", *SMALL)


class TestFiles:
    def test_csv_holds_every_checkpoint_of_every_run(self, tmp_path):
        path = tmp_path / "long.csv"
        stdout = output_of("run", "perceptron", "adaptive_delaytron", "--set", "restart=true", *SMALL, "--csv", path)
        assert stdout.endswith(f"wrote {path}\n")
        table = csv.read_csv(path)
        expected = [play("perceptron", 1000), play("adaptive_delaytron", 1000, gamma=0.01, restart=True)]
        assert table["error_rate"].to_pylist() == [e for result in expected for e in result.error_rate.ravel()]
        assert table["gamma"].null_count == expected[0].error_rate.size
        assert table.column_names[-5:] == ["run", "round", "error_rate", "greedy_error_rate", "majority_error"]
        assert table["majority_error"].unique().to_pylist() == [expected[0].majority_error]
        assert set(table.column_names[:-5]) == {"learner", "dataset", "form", "delay", "gamma", "restart"}

    @pytest.mark.parametrize("flags", ["", "--gamma 0.1,0.2 --delay 3 --delay lognormal:9,1+missing:0.1", "--rounds 1"])
    def test_plot_makes_a_figure(self, tmp_path, flags):
        path = tmp_path / "curves.png"
        stdout = output_of("run", "delaytron", "perceptron", *SMALL, *flags.split(), "--plot", path)
        assert stdout.endswith(f"wrote {path}\n")
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert path.stat().st_size > 10_000

    def test_a_figure_without_any_error_is_drawn(self, tmp_path):
        dt.simulate("perceptron", ([[1.0], [1.0]], [0, 1]), rounds=1).plot(tmp_path / "flat.png")
        assert (tmp_path / "flat.png").exists()

    def test_output_makes_the_folder_with_all_three_files(self, tmp_path):
        folder = tmp_path / "new" / "results"
        result = delaytron("run", *SMALL, "--output", folder, "--json")
        assert result.exit_code == 0
        assert json.loads((folder / "results.json").read_text()) == json.loads(result.stdout)
        assert csv.read_csv(folder / "results.csv")["learner"].unique().to_pylist() == [dt.DEFAULT_LEARNER]
        assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
        assert result.stderr.splitlines() == [f"wrote {path}" for path in map(folder.joinpath, FILES)]


FILES = ("results.csv", "results.json", "curves.png")


def test_infinity_is_text_in_json():
    (row,) = rows_of("pab", "--set", "C=inf")
    assert row["parameters"]["C"] == "inf"


THREE = ["synsep", "--learner", "delaytron,pab", "--learner", "perceptron", "--delay", "1,60", "--budget", "3", *SMALL]


class TestCompare:
    def compared(self, **options):
        data = dt.datasets.load("synsep", n_samples=500)
        tuning_data = dt.datasets.load("synsep", n_samples=500, seed=options.get("seed", 0) + 1_000_003)
        defaults = {"delays": [1, 60], "rounds": 800, "runs": 2, "budget": 3, "tuning_data": tuning_data}
        return compare(data, ["delaytron", "pab", "perceptron"], **defaults | options)

    def test_json_holds_exactly_the_numbers_of_the_library(self):
        document = json.loads(output_of("compare", *THREE, "--seed", "2", "--tuning-runs", "1", "--json"))
        expected = self.compared(seed=2, tuning_runs=1)
        assert [row["final_errors"] for row in document["results"]] == [
            entry.result.final_error.tolist() for entry in expected.entries
        ]
        assert [row["parameters"].get("gamma") for row in document["results"]] == [
            entry.setting.get("gamma") for entry in expected.entries
        ]
        assert [row["settings_tried"] for row in document["results"]] == [3, 3, 3, 3, 2, 2]
        assert (document["dataset"], document["rounds"], document["runs"]) == ("synsep", 800, 2)
        assert (document["tuning_runs"], document["budget"], document["left_out"]) == (1, 3, [])
        assert (document["seed"], document["tuning_seed"]) == (2, 1_000_005)
        assert document["results"][0]["tuned"] == ["gamma", "standardize"]

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_table_has_a_line_per_learner_the_best_first(self, columns):
        stdout = output_of("compare", *THREE, columns=columns)
        expected = dict(sorted(self.compared().learners.items(), key=lambda item: item[0] == "perceptron"))
        lines = [line for line in stdout.splitlines() if line.startswith(tuple(expected))]
        assert [line.split()[0].rstrip("¹") for line in lines] == list(expected)
        assert max(map(len, stdout.splitlines())) <= columns
        for line, entries in zip(lines, expected.values(), strict=True):
            assert all(f"{entry.result.final_error.mean():.4f}" in line for entry in entries)
        assert stdout.index("always the most") < stdout.index("\nfor reference") < stdout.index("\nperceptron¹")
        assert "¹ gets the true label" in stdout
        assert "gamma=" in stdout
        majority = f"{self.compared().majority_error:.4f}"
        (line,) = [line for line in stdout.splitlines() if line.startswith("always the most")]
        assert line.split()[3:] == [majority] * 2

    def test_a_note_says_how_often_rows_are_repeated(self, tmp_path):
        path = tmp_path / "kinds.csv"
        path.write_text("x,y,kind\n" + "".join(f"{k},{k % 7},{'ab'[k % 2]}\n" for k in range(40)))
        small = ["--label", "kind", "--delay", "2", "--runs", "1"]
        note = "more rounds than rows: 40 rows drawn with replacement, each 2.5 times on average"
        for words in (["compare", path, "--learner", "bandit_logit"], ["run", "--data", path]):
            assert note in " ".join(delaytron(*map(str, words), *small, "--rounds", "100").stdout.split())
            assert "more rounds" not in delaytron(*map(str, words), *small, "--rounds", "40").stdout
        shown = delaytron("run", "--data", str(path), *small, "--rounds", "100", "--sampling", "epochs").stdout
        assert "40 rows in epochs, each 2.5 times on average" in " ".join(shown.split())

    @pytest.mark.usefixtures("few_learners")
    def test_the_default_learner_plays_untuned_beside_all_others(self):
        flags = ["synsep", "--delay", "1", "--budget", "2", *SMALL, "--rounds", "200"]
        document = json.loads(output_of("compare", *flags, "--json"))
        rows = {row["learner"]: row for row in document["results"]}
        assert rows.keys() == dt.LEARNERS.keys()
        default = rows[dt.DEFAULT_LEARNER]
        assert (default["tuned"], default["parameters"]) == ([], {})
        assert (default["settings_tried"], default["tuning_seconds"]) == (1, 0.0)
        assert rows["pab"]["settings_tried"] == 2
        assert {row["majority_error"] for row in rows.values()} == {self.compared().majority_error}
        table = output_of("compare", "synsep", "--learner", dt.DEFAULT_LEARNER, "--delay", "1", *SMALL)
        (line,) = [line for line in table.splitlines() if line.startswith(dt.DEFAULT_LEARNER)]
        assert "untuned" in line

    def test_learners_that_cannot_play_are_listed_with_the_reason(self):
        flags = [*THREE, "--noise", "0.1,0.2"]
        reason = "perceptron learns from the true label; leave out noise"
        assert f"perceptron cannot play: {reason}" in " ".join(output_of("compare", *flags).split())
        document = json.loads(output_of("compare", *flags, "--json"))
        assert [row["learner"] for row in document["left_out"]] == ["perceptron"]
        assert document["results"][0]["parameters"]["noise"] == [0.1, 0.2]

    def test_delays_can_be_numbers_and_models(self):
        flags = ["digits", "--learner", "perceptron", "--delay", "5", "--delay", "lognormal:20,1.5", "--rounds", "99"]
        document = json.loads(output_of("compare", *flags, "--runs", "1", "--json"))
        assert [row["delay"] for row in document["results"]] == ["5", "lognormal:20,1.5"]
        assert document["results"][0]["error_margin"] is None

    def test_output_makes_the_folder_with_all_three_files(self, tmp_path):
        folder = tmp_path / "new" / "comparison"
        result = delaytron("compare", *THREE, "--output", folder, "--json")
        assert result.exit_code == 0
        assert json.loads((folder / "comparison.json").read_text()) == json.loads(result.stdout)
        assert csv.read_csv(folder / "comparison.csv")["learner"].to_pylist() == [
            name for name in ("delaytron", "pab", "perceptron") for _ in range(2)
        ]
        assert (folder / "comparison.png").read_bytes().startswith(b"\x89PNG")
        written = [line for line in result.stderr.splitlines() if line.startswith("wrote")]
        assert [line.split(".")[-1] for line in written] == ["csv", "json", "png"]

    def test_plot_and_csv(self, tmp_path):
        picture, lines = tmp_path / "errors.svg", tmp_path / "errors.csv"
        stdout = output_of("compare", *THREE, "--plot", picture, "--csv", lines)
        assert stdout.endswith(f"wrote {picture}\nwrote {lines}\n")
        assert "perceptron" in picture.read_text()
        assert csv.read_csv(lines).num_rows == 6

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["sinsep"], ", got 'sinsep'; did you mean synsep?"),
            (["synsep", "--learner", "pap"], ", got 'pap'; did you mean pab?"),
            (["synsep", "--learner", "pab,"], "learner must be one of"),
            (["synsep", "--delay", "0"], "--delay must be an integer of at least 1, got 0"),
            (["synsep", "--budget", "0"], "budget must be an integer of at least 1, got 0"),
            (["synsep", "--tuning-runs", "0"], "--tuning-runs must be an integer of at least 1, got 0"),
            (["synsep", "--workers", "0"], "workers must be an integer of at least 1, got 0"),
            (["synsep", "--on-expiry", "wrong"], "--on-expiry wrong needs --expire-after n"),
            (["synsep", "--correct-within", "9"], "--correct-within needs --on-expiry wrong"),
            (["synsep", "--noise", "0.1"], "--noise must be two numbers, got '0.1'; give them as in --noise 0.1,0.2"),
            (["synsep", "--learner", "perceptron", "--noise", "0.1,0.2"], "no learner can play: perceptron: "),
            (["synsep", "--plot", "errors.txt"], "got 'errors.txt'; end it in .png, .pdf, .svg"),
            (["digits", "--samples", "9"], "data set digits takes no options; got --samples"),
            ([], "Missing argument"),
            (
                ["--data", "digits"],
                "No such option: --data; the data set is an argument, as in delaytron compare digits",
            ),
        ],
    )
    def test_bad_input_is_one_line_and_exit_code_2(self, flags, message):
        result = delaytron("compare", *flags)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("delaytron: ")
        assert message in line


class TestRegistries:
    def test_learners_lists_the_registry(self):
        rows = json.loads(output_of("learners", "--json"))
        assert {row["learner"]: row["class_name"] for row in rows} == {n: c.__name__ for n, c in dt.LEARNERS.items()}
        by_name = {row["learner"]: row for row in rows}
        assert by_name["delaytron"]["parameters"] == {"gamma": 2.0**-6, "eta": 1.0}
        assert (by_name["delaytron"]["feedback_type"], by_name["perceptron"]["feedback_type"]) == ("correct", "label")
        assert by_name["delaytron"]["description"] == "Delaytron, the paper's Algorithm 1."

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_tables_name_everything(self, columns):
        learners = output_of("learners", columns=columns)
        assert all(name in learners and cls.__name__ in learners for name, cls in dt.LEARNERS.items())
        assert "tracker=cumulative" in learners


EXAMPLE_FILES = ("iris.csv", "clicks.parquet", "clicks.svm.gz", "log.csv")


def write_example_files():
    """Write the files that the examples in the help texts read, into the current folder."""
    iris = load_iris(as_frame=True)
    iris.data.assign(species=iris.target_names[iris.target]).to_csv("iris.csv", index=False)
    clicks = np.arange(600) % 3 == 0
    pq.write_table(
        pa.table({"clicked": clicks, "hour": np.arange(600) % 24, "site": ["a", "b"] * 300}), "clicks.parquet"
    )
    with gzip.open("clicks.svm.gz", "wt") as file:
        file.writelines(f"{int(click)} {i % 24 + 1}:1 30:{i / 600}\n" for i, click in enumerate(clicks))
    with open("log.csv", "w") as file:
        file.writelines(
            ["asked,known,words,team\n", *(f"{t},{t + t % 90},{t % 11},{'ab'[t % 2]}\n" for t in range(300))]
        )


class TestHelp:
    @pytest.mark.parametrize("command", [[], ["run"], ["compare"], ["learners"], ["datasets"]])
    def test_examples_run(self, command, tmp_path, monkeypatch, request):
        if command == ["compare"]:
            request.getfixturevalue("few_learners")
        monkeypatch.chdir(tmp_path)
        write_example_files()
        found = examples(*command)
        assert len(found) >= 2
        for example in found:
            played = example[0] in ("run", "compare") and "--help" not in example
            size = ["--rounds", "200", "--runs", "2"] if played else []
            size += ["--samples", "500"] if size and not {"digits", *EXAMPLE_FILES} & set(example) else []
            size += ["--budget", "1"] if example[0] == "compare" else []
            assert delaytron(*example, *size).exit_code == 0, example

    def test_help_imports_nothing_heavy(self):
        code = f"import sys; from delaytron import cli; {HELP}; print([m for m in {HEAVY} if m in sys.modules])"
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert printed.splitlines()[-1] == "[]"

    def test_version(self):
        assert output_of("--version") == f"delaytron {dt.__version__}\n"


HELP = "; ".join(
    f"cli.app({command}, standalone_mode=False)" for command in (["run", "--help"], ["compare", "--help"], ["learners"])
)

BAD = [
    (["delaytrom"], ", got 'delaytrom'; did you mean delaytron?"),
    (["adaptive-delaytron"], "did you mean adaptive_delaytron?"),
    (["zzz"], "learner must be one of bandit_logit, gated_logit, banditron, "),
    (["--data", "sinsep"], ", got 'sinsep'; did you mean synsep?"),
    (
        ["--gamma", "0.1"],
        "gamma is not a parameter of bandit_logit (lr, explore_floor, replay, forget); name a learner that",
    ),
    (["delaytron", "--gamma", "0"], "gamma must be in (0, 1], got 0"),
    (["delaytron", "--gamma", "0.1,1.3"], "gamma must be in (0, 1], got 1.3"),
    (["delaytron", "--gamma", "many"], "gamma must be a finite number, got 'many'"),
    (["delaytron", "--gamma", "nan"], "gamma must be a finite number, got nan"),
    (["--delay", "0", "--data", "absent.csv"], "--delay must be an integer of at least 1, got 0"),
    (["--delay", "log2.csv"], "got 'log2.csv'; did you mean trace:log2.csv?"),
    (["--delay", "0"], "--delay must be an integer of at least 1, got 0"),
    (["--delay", "often"], "else=MODEL, got 'often'"),
    (["--delay", "trace:/nowhere/trace.txt"], "cannot read the trace '/nowhere/trace.txt'"),
    (["--runs", "0"], "runs must be an integer of at least 1, got 0"),
    (["--rounds", "0"], "rounds must be an integer of at least 1, got 0"),
    (["--seed", "-1"], "seed must be an integer of at least 0, got -1"),
    (["--workers", "0"], "workers must be an integer of at least 1, got 0"),
    (["--samples", "0"], "--samples must be an integer of at least 1, got 0"),
    (["--data", "digits"], "data set digits takes no options; got --samples"),
    (["--sampling", "sometimes"], "sampling must be one of replacement, epochs, drawn, got 'sometimes'"),
    (
        ["delaytron", "--set", "etta=1"],
        "a parameter of delaytron must be one of gamma, eta, got 'etta'; did you mean eta?",
    ),
    (["delaytron", "--set", "seed=1"], "a parameter of delaytron must be one of gamma, eta, got 'seed'"),
    (["--stream"], "--stream reads files, and synsep is a named data set; leave --stream out"),
    (["--noise", "a,b"], "--noise must be two numbers, got 'a,b'; give them as in --noise 0.1,0.2"),
    (["--set", "eta"], "--set must be NAME=VALUE, got 'eta'; give it as in --set eta=0.5"),
    (["delaytron", "--set", "eta=0"], "eta must be above 0, got 0"),
    (["perceptron", "--set", "eta=1"], "perceptron takes no parameters, got 'eta'; leave it out"),
    (["exp3", "--gamma", "0.1"], "gamma is not a parameter of exp3 (eta); name a learner that takes it: banditron, "),
    (["exp3", "perceptron", "--gamma", "0.1"], "gamma is not a parameter of exp3, perceptron (eta); "),
    (["delaytron", "adaptive_delaytron", "--set", "tracker=fast"], "tracker must be one of cumulative, instant"),
    (["--plot", "/nowhere/curves.png"], "cannot write '/nowhere/curves.png': there is no folder '/nowhere'"),
    (["--plot", "curves.jpeg2"], "got 'curves.jpeg2'; end it in .png, .pdf, .svg"),
    (["--csv", "/"], "cannot write '/': it is a folder"),
    (["--output", __file__], "there is a file of this name; choose another"),
]


class TestTrouble:
    @pytest.mark.parametrize(("flags", "message"), BAD, ids=[" ".join(flags) for flags, _ in BAD])
    def test_bad_input_is_one_line_and_exit_code_2(self, flags, message):
        result = delaytron("run", *SMALL, *flags)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("delaytron: ")
        assert message in line

    @pytest.mark.skipif(typer.__version__ < "0.29", reason="only later versions say which type they need")
    def test_a_value_that_is_not_a_number_is_one_line_with_the_type_needed(self):
        line = "delaytron: --rounds must be an integer, got '1e6'; see delaytron run --help\n"
        assert delaytron("run", "--rounds", "1e6").stderr == line

    def test_a_name_like_no_other_gets_no_hint(self):
        assert "did you mean" not in delaytron("run", "zzz").stderr

    @pytest.mark.parametrize("flags", [["run", "--runs", "two"], ["run", "--speed", "9"], ["walk"]])
    def test_wrong_usage_is_one_line_and_exit_code_2(self, flags):
        result = delaytron(*flags)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("delaytron: ")

    @pytest.mark.parametrize(
        ("problem", "code", "line"),
        [
            (KeyboardInterrupt(), 130, "delaytron: interrupted"),
            (
                OSError(28, "No space left on device"),
                2,
                "delaytron: No space left on device; make room, then try again",
            ),
            (OSError(28, "No space", "a.csv"), 2, "delaytron: cannot use 'a.csv': No space; make room, then try again"),
            (
                MemoryError(),
                2,
                "delaytron: not enough memory; try fewer --rounds, --runs, --workers or features",
            ),
            (dt.InvalidInput("one\nand two", "or three"), 2, "delaytron: one and two; or three"),
        ],
    )
    def test_interruption_and_machine_trouble_are_one_line(self, monkeypatch, problem, code, line):
        def fail(*args, **options):
            raise problem

        monkeypatch.setattr(cli.run, "simulate", fail)
        result = delaytron("run", *SMALL)
        assert (result.exit_code, result.stderr, result.stdout) == (code, line + "\n", "")


class TestModule:
    """`python -m delaytron` as a user runs it."""

    def run(self, *args):
        return subprocess.run([sys.executable, "-m", "delaytron", *args], capture_output=True, text=True, check=False)

    def test_prints_json_and_nothing_else(self):
        done = self.run("run", "banditron", "--delay", "9", "--gamma", "0.2", *SMALL, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)[0]["final_errors"] == play("banditron", 9, gamma=0.2).final_error.tolist()

    def test_bad_input_is_one_line_without_a_traceback(self):
        done = self.run("run", "delaytron", "--gamma", "1.3")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "delaytron: --gamma must be in (0, 1], got 1.3\n"


def test_a_learner_that_plays_sets_runs_with_its_own_defaults():
    (row,) = json.loads(output_of("run", "dilute", *SMALL, "--json"))
    assert row["learner"] == "dilute"


def test_noise_and_expiry_are_played_and_written(tmp_path):
    feedback_model = ["--noise", "0.1,0.2", "--expire-after", "50", "--on-expiry", "wrong"]
    output_of("run", "delaytron", *SMALL, *feedback_model, "--output", tmp_path)
    text = (tmp_path / "results.csv").read_text()
    assert "noise" in text.splitlines()[0]
    assert "0.1,0.2" in text


@pytest.mark.parametrize("within", [0, 30])
def test_how_long_an_expiry_can_be_corrected_is_played(within):
    expiry = {"expire_after": 20, "on_expiry": "wrong"}
    flags = ["--delay", "70", "--expire-after", "20", "--on-expiry", "wrong"]
    shown = [
        json.loads(output_of("run", "delaytron", *SMALL, *flags, *more, "--json"))[0]["final_errors"]
        for more in (["--correct-within", within], ["--correct-within", 50], [])
    ]
    expected = [
        play("delaytron", 70, gamma=0.01, **expiry, **more).final_error.tolist()
        for more in ({"correct_within": within}, {"correct_within": 50}, {})
    ]
    assert shown == expected
    assert shown[0] != shown[1] == shown[2]  # an answer after 70 rounds is corrected within 50, and by default


def test_a_misspelt_option_before_the_command_is_one_line():
    result = delaytron("--vrsion")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "delaytron: No such option: --vrsion (Possible options: --version); see delaytron --help"
    ]


@pytest.mark.parametrize(
    ("lines", "cell"),
    [
        ("sunny,hot,no\nsunny,mild,yes\nrainy,hot,no\n", "no"),
        ("sunny,hot,maybe\nsunny,mild,yes\nrainy,hot,no\n", "sunny"),
    ],
)
def test_a_first_row_that_seems_to_be_data_is_noted(tmp_path, lines, cell):
    path = tmp_path / "weather.csv"
    path.write_text(lines)
    note = f"header: the first row, with {cell!r}, which is also a value of its column; if it is data, pass"
    words = ["run", "--data", path, "--label", "-1", "--runs", "1", "--delay", "1", "--json"]
    result = delaytron(*words)
    assert (result.exit_code, json.loads(result.stdout)[0]["rounds"]) == (0, 2)
    assert f"delaytron: note: {note} header=False (--no-header)" in result.stderr.splitlines()
    assert note in delaytron(*words, "--stream").stderr
    result = delaytron(*words, "--no-header")
    assert (json.loads(result.stdout)[0]["rounds"], "header" in result.stderr) == (3, False)


def test_a_header_is_not_noted(tmp_path):
    path = tmp_path / "weather.csv"
    path.write_text("sky,heat,play\nsunny,mild,yes\nrainy,hot,no\n")
    assert "header" not in delaytron("run", "--data", path, "--label", "play", "--runs", "1", "--delay", "1").stderr


LOG = "asked,known,x,y\n" + "".join(
    f"2024-05-{1 + t // 20:02} 10:{t % 20:02},{known},{t % 7},{'ab'[t % 2]}\n"
    for t in range(200)
    for known in [f"2024-05-{2 + t // 20:02} 09:00" if t % 5 else ""]
)


class TestTimes:
    @pytest.fixture
    def log(self, tmp_path):
        (tmp_path / "log.csv").write_text(LOG)
        return tmp_path / "log.csv"

    @pytest.fixture
    def times(self):
        return ["--label", "y", "--decided", "asked", "--answered", "known"]

    def test_a_log_is_played_with_its_own_delays(self, log, times):
        data = dt.datasets.load(log, label="y", decided="asked", answered="known")
        (row,) = json.loads(output_of("run", "delaytron", "--data", log, *times, "--runs", "2", "--json"))
        expected = dt.simulate("delaytron", data, delay="recorded", runs=2, gamma=0.01)
        assert (row["delay"], row["rounds"]) == ("recorded", 200)
        assert row["final_errors"] == expected.final_error.tolist()
        shown = delaytron("run", "delaytron", "--data", log, *times)
        assert "note: delays: rounds from 'asked' to 'known', 20.0% never answered" in shown.stderr
        assert "note: rows: all 200, in the order of their decisions" in shown.stderr
        more = ["--delay", "shuffled", "--delay", "1,9", "--rounds", "100"]
        rows = json.loads(output_of("run", "delaytron", "--data", log, *times, *more, "--json"))
        assert [(row["delay"], row["rounds"]) for row in rows] == [
            ("shuffled", 100),
            ("uniform:1", 100),
            ("uniform:9", 100),
        ]

    def test_a_comparison_plays_it_too(self, log, times, few_learners):
        flags = ["--learner", "delaytron", "--runs", "2", "--tuning-runs", "1", "--budget", "1", "--json"]
        (row,) = json.loads(output_of("compare", log, *times, *flags))["results"]
        assert (row["delay"], row["rounds"]) == ("recorded", 200)

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--rounds", "201"], "--rounds must be at most 200, as rows with their own delays are played once"),
            (["--shuffle"], "--shuffle would tear the rows from the order of their decisions; leave it out"),
            (["--stream"], "--decided needs all rows in memory, to sort them; leave --stream out"),
            (["--delay", "class:c=3"], "names 'c', which is not a class of the data"),
        ],
    )
    def test_what_cannot_be_played_is_one_line(self, log, times, flags, message):
        result = delaytron("run", "delaytron", "--data", log, *times, *flags)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr.splitlines()[-1]

    def test_both_times_are_named_as_options(self, log):
        result = delaytron("run", "delaytron", "--data", log, "--label", "y", "--decided", "asked")
        assert "--decided needs --answered; name both, as in --answered COLUMN" in result.stderr

    def test_rows_without_times_say_how_to_name_them(self):
        result = delaytron("run", "delaytron", "--delay", "recorded", *SMALL)
        said = "the rows have no recorded delays, and the delay is recorded; load them with --decided COLUMN and"
        assert said in result.stderr

    def test_delays_by_outcome_are_played(self):
        (row,) = rows_of("delaytron", "--delay", "right=fixed:3/wrong=lognormal:50,1", "--gamma", "0.2")
        expected = play("delaytron", "right=fixed:3/wrong=lognormal:50,1", gamma=0.2)
        assert row["final_errors"] == expected.final_error.tolist()
        assert row["delay"] == "right=fixed:3/wrong=lognormal:50,1"

    def test_bounds_have_none_of_them(self):
        result = delaytron("bounds", "--delay", "right=1/wrong=2", "--rounds", "100")
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert "which is not known here" in result.stderr or "needs delays that do not depend" in result.stderr
