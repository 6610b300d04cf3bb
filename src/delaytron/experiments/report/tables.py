"""The tables of a report: every result, the data, and what it took."""

import os
import platform
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from delaytron.experiments.facts import DataFacts
from delaytron.experiments.report.model import (
    FEW_RUNS,
    FEW_RUNS_NOTE,
    Row,
    Section,
    Table,
    estimate,
    span,
)
from delaytron.experiments.runs import Condition, RunSpec
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store
from delaytron.formats import assignments, compact, versions
from delaytron.simulation.results import MAJORITY

RESULT_COLUMNS = ("data", "learner", "delay", "setting", "error", "greedy error", "runs")
UNTUNED = "untuned"  # a learner that plays with its defaults: there was nothing to choose
RESULTS_TEXT = (
    "The error is the share of rounds in which the played label was wrong: mean over the runs and 95 % interval by "
    "Student's t. Greedy error: the label with the highest score would have been wrong. A number D as delay is uniform "
    f"on 1, ..., D. The lines “{MAJORITY}” are exact: no learner, the same label in every round."
)

Facts = Mapping[str, DataFacts]


def results_section(outcomes: Sequence[Outcome], facts: Facts) -> Section:
    """Return every condition with its chosen setting and errors, and the error of the most frequent class."""
    rows = [*map(_majority_row, facts.values()), *map(_result_row, outcomes)]
    few = any(outcome.run.runs < FEW_RUNS for outcome in outcomes)
    text = f"{RESULTS_TEXT}\n\n{FEW_RUNS_NOTE}" if few else RESULTS_TEXT
    return Section("Results", text, Table(RESULT_COLUMNS, tuple(rows)))


def _result_row(outcome: Outcome) -> Row:
    return (
        outcome.condition.data,
        outcome.condition.title,
        outcome.condition.delay,
        assignments(outcome.run.parameters) or UNTUNED,
        estimate(outcome.result.final_error),
        estimate(outcome.result.greedy_error),
        outcome.run.runs,
    )


def _majority_row(facts: DataFacts) -> Row:
    return facts.name, MAJORITY, "any", "-", facts.majority_error, None, None


def results_file(outcomes: Sequence[Outcome], facts: Facts) -> Table:
    """Return every condition for a spreadsheet: the error of the most frequent class in a column of its own."""
    columns = (*RESULT_COLUMNS, "majority error")
    rows = [(*_result_row(outcome), _majority_error(outcome.condition.data, facts)) for outcome in outcomes]
    return Table(columns, tuple(rows))


def _majority_error(data: str, facts: Facts) -> float | None:
    known = facts.get(data)
    return None if known is None else known.majority_error


def beside_majority(table: Table, facts: Facts) -> Table:
    """Return a table whose rows begin with a data set, with the error of its most frequent class in a last column."""
    if not facts:
        return table
    rows = tuple((*row, _majority_error(str(row[0]), facts)) for row in table.rows)
    return Table((*table.columns, "most frequent class"), rows)


def data_section(facts: Facts) -> Section | None:
    """Return what is known of every data set; None where nothing is."""
    if not facts:
        return None
    columns = ("data", "rows", "features", "classes", "most frequent class", "played as")
    rows = tuple((f.name, f.rows, f.features, f.classes, f.majority_error, f.storage) for f in facts.values())
    text = (
        f"What the learners saw, and the error of {MAJORITY}. Rows that are mostly zeros are played in sparse form, "
        "which is faster."
    )
    return Section("Data", text, Table(columns, rows))


def times_section(conditions: Sequence[Condition], store: Store) -> Section | None:
    """Return the minutes that each learner took on each data set; None where nothing was noted."""
    minutes = _minutes(conditions, store)
    if not minutes:
        return None
    data = _distinct(condition.data for condition in conditions)
    titles = _distinct(condition.title for condition in conditions)
    rows = tuple(_times_row(title, [minutes[title, name] for name in data]) for title in titles)
    text = f"Minutes by the clock, tuning included: {sum(minutes.values()):.1f} in all."
    return Section("Time", text, Table(("learner", *data, "all"), rows))


def _times_row(title: str, minutes: Sequence[float]) -> Row:
    return title, *(round(one, 2) for one in minutes), round(sum(minutes), 2)


def _minutes(conditions: Iterable[Condition], store: Store) -> dict[tuple[str, str], float]:
    """Return the minutes by learner and data set; a job that shared the clock with others counts its share."""
    owner = {run.key: (condition.title, condition.data) for condition in conditions for run in _runs(condition)}
    minutes: dict[tuple[str, str], float] = defaultdict(float)
    for timing in store.timings():
        for key in set(timing.runs) & owner.keys():
            minutes[owner[key]] += timing.seconds / timing.side_by_side / len(timing.runs) / 60
    return minutes


def what_was_played(spec: Spec, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return data, learners, delays, rounds, runs and seeds in a few words each."""
    conditions = [outcome.condition for outcome in outcomes]
    return {
        "data sets": ", ".join(_distinct(condition.data for condition in conditions)),
        "learners": ", ".join(_distinct(condition.title for condition in conditions)),
        "delays": ", ".join(_distinct(condition.delay for condition in conditions)),
        "rounds": f"{spec.rounds:,}",
        "runs": f"{_runs_in_words(outcomes)}, seed {spec.seed}",
        "settings": _tuning_in_words(conditions),
    }


def _runs_in_words(outcomes: Sequence[Outcome]) -> str:
    counts = {outcome.run.runs for outcome in outcomes}
    return f"{span(counts)} of each" if len(counts) == 1 else f"{span(counts)} (every table says which)"


def _tuning_in_words(conditions: Sequence[Condition]) -> str:
    if all(condition.untuned for condition in conditions):
        return "as given"
    tuning = [run.runs for condition in conditions for run in condition.tuning]
    chosen = f"chosen on {span(tuning)} other runs" if tuning else "chosen on the reported runs, which flatters"
    untuned = _distinct(condition.title for condition in conditions if condition.untuned)
    return f"{chosen}; untuned: {', '.join(untuned)}" if untuned else chosen


def how_it_was_made(outcomes: Sequence[Outcome], store: Store) -> dict[str, str]:
    """Return how much was played, on what machine and by what versions."""
    runs = {run.key: run for outcome in outcomes for run in _runs(outcome.condition) if store.has(run)}
    rounds = sum(run.n_rounds for run in runs.values())
    memory = [timing.memory for timing in store.timings() if runs.keys() & set(timing.runs)]
    return {
        "rounds in all": f"{compact(rounds)} ({rounds:,})",
        "peak memory of a process": f"{max(memory) / 1e9:.2f} GB" if memory else "not noted",
        "report written on": f"{os.cpu_count()} cores, {platform.system()}, {platform.machine()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def _runs(condition: Condition) -> tuple[RunSpec, ...]:
    return (*condition.reported, *condition.tuning)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
