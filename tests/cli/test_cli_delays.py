"""`delaytron delays`: the numbers of the library, a picture, and one clear line when something is wrong."""

import gzip
import json

import pytest
from pyarrow import csv
from typer.testing import CliRunner

from delaytron import cli
from delaytron.cli.delays import BLOCKS
from delaytron.delays import Trace, example, parse
from delaytron.delays.fits import summarize
from optional import REAL_DATA

real = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs the real traces: DELAYTRON_DATA names no folder")
LOG = """\
shown,clicked,seconds
2024-05-31T10:00,2024-05-31T10:05,300
2024-05-31T10:01,,
2024-05-31T10:02,2024-05-31T10:02,0
"""


SMALL = ["--samples", "300", "--rounds", "200", "--runs", "1"]
NOTES = ("delaytron: note: times: numbers taken as seconds", "delaytron: note: waiting times: 1 round in a unit")


def delaytron(*args, columns=80):
    return CliRunner().invoke(
        cli.app, ["delays", *map(str, args)], env={"COLUMNS": str(columns)}, prog_name="delaytron"
    )


def output_of(*args, **options):
    result = delaytron(*args, **options)
    assert result.exit_code == 0, result.output
    assert result.stderr == "" or result.stderr.startswith(NOTES)
    assert result.stderr.count("\n") <= 1
    return result.stdout


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


@real
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["college", "dengue", "retweets"])
def test_a_real_trace_fits_on_the_screen(name, columns):
    text = output_of(name, columns=columns)
    summary = summarize(example(name))
    assert all(len(line) <= columns for line in text.splitlines())
    assert f"{summary.n_rounds:,} rounds, {summary.never:.1%} never answered" in text
    for number in (*summary.quantiles.values(), summary.pending.highest, summary.coming.highest):
        assert f" {number:,} " in text
    for fit in summary.fits:
        assert f"{fit.text} " in text
        assert f" {fit.log_likelihood:.3f} " in text
        assert f" {fit.distance:.3f} " in text
    assert f"  delaytron run --delay trace:{name}\n  delaytron run --delay {summary.models[0]}\n" in text
    assert {BLOCKS[0], BLOCKS[-1]} <= set(text) or name == "dengue"


@real
def test_times_are_shown_in_their_units():
    line = next(line for line in output_of("college").splitlines() if line.startswith("time "))
    assert " ".join(line.split()) == "time 1.2 min 3.6 min 1.3 h 21 h 5.5 d 13 d 54 d 164 d"


@real
def test_json_holds_exactly_the_numbers_of_the_library():
    document = json.loads(output_of("college", "--json"))
    summary = summarize(example("college"))
    assert document["rounds"] == 59_835
    assert document["never"] == summary.never == 21_600 / 59_835
    assert document["quantiles"] == {str(share): delay for share, delay in summary.quantiles.items()}
    assert document["quantiles_in_seconds"]["0.5"] == summary.waits[0.5]
    assert document["pending"] == {"mean": summary.pending.mean, "highest": summary.pending.highest}
    assert [fit["log_likelihood"] for fit in document["fits"]] == [fit.log_likelihood for fit in summary.fits]
    assert document["suggested_delays"] == summary.models


def test_columns_are_named_and_the_hint_names_them_too(log):
    text = output_of(log, "--event", "shown", "--outcome", "clicked")
    assert "log.csv: 3 rounds, 33.3% never answered, 66.7% only after the last" in text
    assert f"  delaytron run --delay trace:{log},event=shown,outcome=clicked\n" in text
    document = json.loads(output_of(log, "--wait", "seconds", "--rate", "0.1", "--json"))
    assert document["quantiles"]["1.0"] == Trace.from_file(log, wait="seconds", rate=0.1).delays[0] == 30


@pytest.mark.parametrize(
    "flags", [["--event", "shown", "--outcome", "clicked"], ["--wait", "seconds", "--rate", "0.5", "--unit", "s"]]
)
def test_the_hint_is_played_as_it_is_printed(log, flags):
    words = next(line for line in delaytron(log, *flags).stdout.splitlines() if "--delay trace:" in line).split()
    result = CliRunner().invoke(cli.app, [*words[1:], *SMALL, "--json"])
    assert result.exit_code == 0, result.output
    (played,) = json.loads(result.stdout)
    assert played["delay"] == words[-1] == str(parse(words[-1]))


def test_a_name_that_the_notation_cannot_write_is_left_to_python(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG.replace("seconds", '"a,rate=2"'))
    assert "dt.delays.Trace.from_file(" in delaytron(path, "--wait", "a,rate=2").stdout


def test_a_note_says_how_numbers_were_read(log, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("seconds\n300\n5\n")
    note = "delaytron: note: header 'seconds' skipped, numbers taken as rounds; "
    assert delaytron(path).stderr.startswith(f"{note}--wait seconds --rate R takes them as waiting times")
    result = CliRunner().invoke(cli.app, ["run", "--delay", f"trace:{path}+missing:0.1", *SMALL])
    assert result.stderr.startswith(f"{note}trace:{path},wait=seconds,rate=R takes them as waiting times")
    assert delaytron(path, "--wait", "seconds", "--rate", 1).stderr == ""
    rate = "delaytron: note: waiting times: 1 round in a unit of them; "
    assert delaytron(log, "--wait", "seconds").stderr == f"{rate}--rate R says otherwise\n"
    result = CliRunner().invoke(cli.app, ["run", "--delay", f"trace:{log},wait=seconds", *SMALL])
    assert result.stderr == f"{rate}--delay trace:{log},wait=seconds,rate=R says otherwise\n"
    path.write_text("delay_in_rounds\n300\n5\n")
    assert delaytron(path).stderr == ""


def test_a_name_with_a_space_is_quoted_in_the_hint(tmp_path):
    path = tmp_path / "my delays.txt"
    path.write_text("3\n1\n2\n")
    assert f"  delaytron run --delay 'trace:{path}'\n" in output_of(path)


def test_a_trace_with_nothing_to_fit_is_shown(tmp_path):
    path = tmp_path / "delays.txt"
    path.write_text("7\n-1\n7\n7\n")
    assert "delaytron run --delay fixed:7+missing:0.25\n" in output_of(path)
    path.write_text("-1\n-1\n")
    text = output_of(path)
    assert "2 rounds, 100.0% never answered" in text
    assert "mean is" not in text
    assert text.endswith(f"To play these delays:\n  delaytron run --delay trace:{path}\n")
    assert json.loads(output_of(path, "--json"))["mean_delay"] is None


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_picture_is_drawn(log, tmp_path, ending, start):
    picture = tmp_path / f"delays.{ending}"
    text = output_of(log, "--wait", "seconds", "--plot", picture)
    assert picture.read_bytes().startswith(start)
    assert text.endswith(f"wrote {picture}\n")


def test_a_figure_shows_missing_answers_and_fitted_models(log, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        output_of(log, "--wait", "seconds", "--plot", tmp_path / "delays.svg")
    words = (tmp_path / "delays.svg").read_text()
    for word in ("log.csv: 3 rounds, 33.3% never answered", "lognormal:", "pareto:", "recorded", "mean 2, highest 3"):
        assert word in words


def test_a_folder_gets_numbers_and_a_picture(log, tmp_path):
    folder = tmp_path / "out"
    text = output_of(log, "--wait", "seconds", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["delays.csv", "delays.json", "delays.png"]
    assert csv.read_csv(folder / "delays.csv").column("delay").to_pylist() == [1, 300]
    assert json.loads((folder / "delays.json").read_text())["rounds"] == 3
    assert text.count("wrote ") == 3


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        ("PAR1...", [], "log.csv: a trace is CSV, TSV, text or .npy, not Parquet"),
        ("event,outcome\n5,4\n", [], "log.csv, line 2: the outcome 4 lies before its event 5"),
        ("event,outcome\n5,soon\n", [], "log.csv, line 2: outcome must be numbers or ISO times"),
        ("a,b\n5,6\n", [], "got a, b; name the columns by --event COLUMN --outcome COLUMN, or --wait COLUMN --rate R"),
        ("a,b\n5,6\n", ["--event", "a", "--outcome", "c"], "there must be one column 'c'; the columns are a, b"),
        (
            "a,b\n5,6\n",
            ["--event", "a"],
            "columns must be named by --event COLUMN --outcome COLUMN, or --wait COLUMN --rate R, got --event",
        ),
        ("a,b\n5,6\n", ["--rate", "2"], "columns must be named by --event"),
        ("a,b\n5,6\n", ["--wait", "a", "--rate", "0"], "rate must be above 0, got 0.0"),
        ("event,outcome\n5\n", [], "log.csv, line 2: must have 2 cells like the first row, got 1"),
        ("", [], "log.csv: there is no delay in this file"),
        ("event,outcome\n", [], "log.csv: there is no row below the header"),
        ("3\n", ["--plot", "delays.txt"], "got 'delays.txt'; end it in .png, .pdf, .svg"),
    ],
)
def test_something_wrong_is_one_line_and_exit_code_2(tmp_path, content, flags, message):
    path = tmp_path / "log.csv"
    path.write_text(content)
    complain(message, path, *flags)


def complain(message, *args):
    result = delaytron(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("delaytron: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_files_that_cannot_be_read_are_one_line_and_exit_code_2(tmp_path):
    complain("no such file; published are college, dengue, retweets; check the name", tmp_path / "absent.csv")
    complain("Is a directory", tmp_path)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(LOG.encode())[:-12])
    complain(f"{cut}, line 4: cannot be read any further: Compressed file ended", cut)


def test_a_published_trace_that_is_missing_is_an_error_with_its_address(tmp_path, monkeypatch):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
    complain("retweets is not on this machine; put retweet_delays.csv.gz, from https://", "retweets")
    complain("the example retweets takes no columns; leave wait out", "retweets", "--wait", "seconds")


@real
@pytest.mark.parametrize("delay", ["trace:college", "lognormal:53.2,3.09+missing:0.361"])
def test_the_suggested_commands_can_be_played(delay):
    assert f"delaytron run --delay {delay}\n" in output_of("college")
    result = CliRunner().invoke(cli.app, f"run --delay {delay} --samples 500 --rounds 800 --runs 1 --json".split())
    assert json.loads(result.stdout)[0]["delay"] == delay


@real
def test_the_examples_in_the_help_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outcomes.csv").write_text(LOG.replace("shown", "created_at").replace("clicked", "resolved_at"))
    (tmp_path / "delays.txt").write_text("3\n1\n2\n")
    (tmp_path / "waits.csv").write_text(LOG)
    lines = [line.split() for line in output_of("--help").splitlines() if line.startswith(" delaytron delays ")]
    assert len(lines) == 4
    for _, _, *args in lines:
        output_of(*args)
    assert (tmp_path / "delays.png").exists()
