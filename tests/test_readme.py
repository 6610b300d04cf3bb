"""The README: its example runs, its links lead somewhere, and its table has the figures of docs/results."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs" / "results" / "README.md").read_text().partition("## All of them")[2]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
RECORDS = ("vowpal.csv", "results.csv", "contest.csv", "digits_runs.csv")  # a later one has more runs of the same
RUNS = {("ova_logistic", "digits"): 200}
VOWPAL = {
    "Vowpal Wabbit, no delay": "vowpal_wabbit tuned, raw rows",
    "the same, scaled by all rows": "vowpal_wabbit tuned",
}


def test_there_is_one_example():
    assert len(PYTHON) == 1


def test_the_example_runs(capsys):
    exec(PYTHON[0], {})  # noqa: S102
    pending, accuracy = capsys.readouterr().out.split()
    assert int(pending) == 100
    assert float(accuracy) > 0.95


def test_no_table_is_wider_than_a_screen():
    assert max(len(row) for row in table_of(README)) <= 6


def test_there_is_one_picture_and_one_table():
    assert README.count("![") == 1
    assert len(re.findall(r"^\|---", README, re.MULTILINE)) == 1


def test_it_is_short():
    assert len(README.splitlines()) <= 75


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def records():
    """Return the rows of the stored results, over a million rounds, by learner, data set and delay."""
    found = {}
    for name in RECORDS:
        with (ROOT / "docs" / "results" / name).open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get("rounds", "1000000") == "1000000"]
        found |= {(row["learner"], row["data"], row["delay"]): row for row in rows}
    return found


def learner_of(title):
    """Return the learner that a row of the table is about, if it is about one."""
    named = re.match(r"\**`(\w+)`\**(, standardised)?", title)
    return named[1] + (named[2] or "") if named else VOWPAL.get(title)


def table_of(text):
    """Return the cells of the first table."""
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]


def cells():
    """Yield learner, data set, delay and text of every measured error, in the README and in the results."""
    yield from measured([list(column) for column in zip(*table_of(README), strict=True)])
    yield from measured(table_of(RESULTS))


def measured(table):
    (_, *names), *rows = table
    for title, *texts in rows:
        learner = learner_of(title)
        delay = "1" if "no delay" in title or title in VOWPAL else "5000"
        if learner:
            yield from ((learner, data, delay, text) for data, text in zip(names, texts, strict=True))


@pytest.mark.parametrize(("learner", "data", "delay", "text"), list(cells()))
def test_every_figure_is_a_stored_one_with_its_interval(learner, data, delay, text):
    row = records()[learner, data, delay]
    error, margin = text.split(" ± ")
    digits = len(error.partition(".")[2])
    assert error == f"{100 * float(row['error']):.{digits}f}"
    assert margin == f"{100 * float(row['error margin']):.{digits}f}"
    assert int(row["runs"]) == (5 if "vowpal" in learner else RUNS.get((learner, data), 20))


def test_there_are_figures():
    assert len(list(cells())) == (4 + 11) * 8
