"""The sections of a report on results, theory, data and times, and the facts at its beginning and end."""

import os
import platform
from collections import defaultdict
from collections.abc import Sequence

from delaytron.experiments.report.model import (
    FEW_RUNS,
    FEW_RUNS_NOTE,
    UNTUNED,
    Cell,
    Facts,
    Row,
    Section,
    Table,
    distinct,
    estimate,
    span,
)
from delaytron.experiments.spec import Condition, RunSpec, Spec
from delaytron.experiments.store import Outcome, RunStore
from delaytron.experiments.theory import TheorySpec
from delaytron.formats import assignments, compact, versions
from delaytron.simulation.results import MAJORITY, Mean

RESULT_COLUMNS = ("data", "learner", "delay", "setting", "error", "greedy error", "runs")
RESULTS_TEXT = (
    "The error is the share of rounds in which the played label was wrong: mean over the runs and 95 % interval by "
    "Student's t. Greedy error: the label with the highest score would have been wrong. A number D as delay is uniform "
    f"on 1, ..., D. The lines “{MAJORITY}” are exact: no learner, the same label in every round."
)


def results_section(outcomes: Sequence[Outcome], facts: Facts) -> Section:
    """Return every condition with its chosen setting and errors, and the error of the most frequent class."""
    majority: list[Row] = [(f.name, MAJORITY, "any", "-", f.majority_error, None, None) for f in facts.values()]
    rows = [*majority, *map(_result_row, outcomes)]
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


def results_file(outcomes: Sequence[Outcome], facts: Facts) -> Table:
    """Return every condition for a spreadsheet, with the error of the most frequent class in a column of its own."""
    columns = (*RESULT_COLUMNS, "majority error")
    known = {name: one.majority_error for name, one in facts.items()}
    rows = [(*_result_row(outcome), known.get(outcome.condition.data)) for outcome in outcomes]
    return Table(columns, tuple(rows))


THEORY_COLUMNS = (
    "data",
    "delay",
    "statement",
    "of",
    "bound",
    "measured",
    "share",
    "hinge regret",
    "norm of W",
    "loss of W",
)


def theory_section(specs: Sequence[TheorySpec], store: RunStore) -> Section | None:
    """Return measured regret beside the bounds; None if nothing was played."""
    if not specs:
        return None
    rows: list[tuple[Cell, ...]] = []
    for spec in specs:
        for row in store.theory.read(spec):
            bound, measured = float(row.bound), Mean(*map(float, row.measured))
            rows.append(
                (
                    spec.dataset,
                    spec.delay,
                    row.statement,
                    f"{row.bounded}, {row.learner}",
                    bound,
                    measured,
                    measured.value / bound,
                    None if row.stated is None else Mean(*map(float, row.stated)),
                    float(row.norm),
                    float(row.loss),
                )
            )
    spec = specs[0]
    text = (
        f"Regret in the gated hinge or the hinge, or mistakes, measured in {spec.runs} runs of {spec.rounds:,} rounds "
        f"with gamma = {spec.gamma:g}, mean and 95 % interval, beside bounds on their expectation. Each row has the "
        "step that its bound prescribes, and weights W to compare with: for SynSep the smallest known ones without "
        "loss, else "
        "those for which loss and bound add up to least; the loss of W is the mean of a round. Theorems 1 and 3 are "
        "the paper's, and true in the gated hinge (Theorem 1 for the answered rounds). The paper states them for the "
        "hinge regret, which is shown beside them; where that is above the bound, the statement is false. R1 to R4 are "
        f"proved in docs/explanation/theory.md. Bounds that, with the loss of W, are above {spec.rounds:,} promise no "
        "more than weights of 0 give. A number D as delay is uniform on 1, ..., D."
    )
    return Section("Theory", text, Table(THEORY_COLUMNS, tuple(rows)))


def data_section(facts: Facts) -> Section | None:
    """Return the facts of every data set; None if there are none."""
    if not facts:
        return None
    columns = ("data", "rows", "features", "classes", "most frequent class", "played as")
    rows = tuple((f.name, f.rows, f.features, f.classes, f.majority_error, f.storage) for f in facts.values())
    text = (
        f"What the learners saw, and the error of {MAJORITY}. Rows that are mostly zeros are played in sparse form, "
        "which is faster."
    )
    return Section("Data", text, Table(columns, rows))


def times_section(conditions: Sequence[Condition], store: RunStore) -> Section | None:
    """Return the minutes of each learner on each data set, tuning included; None if there are no timings."""
    owner = {run.key: (condition.title, condition.data) for condition in conditions for run in _runs(condition)}
    minutes: dict[tuple[str, str], float] = defaultdict(float)
    for timing in store.timings():
        for key in set(timing.runs) & owner.keys():  # a job that shared the machine with others counts its share
            minutes[owner[key]] += timing.seconds / timing.side_by_side / len(timing.runs) / 60
    if not minutes:
        return None
    data = distinct(condition.data for condition in conditions)
    rows: list[Row] = []
    for title in distinct(condition.title for condition in conditions):
        own = [minutes[title, name] for name in data]
        rows.append((title, *(round(one, 2) for one in own), round(sum(own), 2)))
    text = f"Minutes by the clock, tuning included: {sum(minutes.values()):.1f} in all."
    return Section("Time", text, Table(("learner", *data, "all"), tuple(rows)))


def what_was_played(spec: Spec, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return data, learners, delays, rounds, runs and seeds in a few words each."""
    conditions = [outcome.condition for outcome in outcomes]
    counts = {outcome.run.runs for outcome in outcomes}
    runs = f"{span(counts)} of each" if len(counts) == 1 else f"{span(counts)} (every table says which)"
    tuning = [run.runs for condition in conditions for run in condition.tuning]
    untuned = distinct(condition.title for condition in conditions if condition.untuned)
    settings = f"chosen on {span(tuning)} other runs" if tuning else "chosen on the reported runs, which is biased"
    if all(condition.untuned for condition in conditions):
        settings = "as given"
    elif untuned:
        settings += f"; untuned: {', '.join(untuned)}"
    return {
        "data sets": ", ".join(distinct(condition.data for condition in conditions)),
        "learners": ", ".join(distinct(condition.title for condition in conditions)),
        "delays": ", ".join(distinct(condition.delay for condition in conditions)),
        "rounds": f"{spec.rounds:,}",
        "runs": f"{runs}, seed {spec.seed}",
        "settings": settings,
    }


def how_it_was_made(outcomes: Sequence[Outcome], store: RunStore) -> dict[str, str]:
    """Return the number of rounds, the peak memory, the machine and the versions."""
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
