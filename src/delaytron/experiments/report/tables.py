"""The tables of a report: every result, and what it took."""

import os
import platform
from collections import defaultdict
from collections.abc import Sequence

from delaytron.experiments.report.model import Section, Table
from delaytron.experiments.runs import Condition
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store
from delaytron.formats import assignments, compact, versions
from delaytron.simulation.results import mean_of

RESULT_COLUMNS = ("data", "learner", "delay", "setting", "error", "greedy error", "runs")


def results_section(found: Sequence[Outcome]) -> Section:
    """Return every line with its chosen setting and errors."""
    rows = tuple(
        (
            outcome.condition.data,
            outcome.condition.title,
            outcome.condition.delay,
            assignments(outcome.run.parameters) or "-",
            mean_of(outcome.result.final_error),
            float(outcome.result.greedy_error.mean()),
            outcome.run.runs,
        )
        for outcome in found
    )
    text = (
        "Error of the played labels over all rounds: mean over the runs and 95 % interval by Student's t. Greedy: the "
        "label with the highest score would have been wrong. A number D as delay is uniform on 1, ..., D."
    )
    return Section("Results", text, Table(RESULT_COLUMNS, rows))


def times_section(conditions: Sequence[Condition], store: Store) -> Section | None:
    """Return the minutes that each learner took on each data set; None where nothing was noted."""
    minutes = _minutes(conditions, store)
    if not minutes:
        return None
    titles, data = (
        list(dict.fromkeys(getattr(condition, name) for condition in conditions)) for name in ("title", "data")
    )
    rows = [(title, *(round(minutes[title, d], 2) for d in data)) for title in titles]
    full = tuple((*row, round(sum(minutes[row[0], d] for d in data), 2)) for row in rows)
    text = f"Minutes by the clock, tuning included: {sum(minutes.values()):.1f} in all."
    return Section("Time", text, Table(("learner", *data, "all"), full))


def _minutes(conditions: Sequence[Condition], store: Store) -> dict[tuple[str, str], float]:
    """Return the minutes by learner and data set; a job that shared the clock with others counts its share."""
    owner = {
        run.key: (condition.title, condition.data)
        for condition in conditions
        for run in (*condition.reported, *condition.tuning)
    }
    minutes: dict[tuple[str, str], float] = defaultdict(float)
    for timing in store.timings():
        for key in set(timing.runs) & owner.keys():
            minutes[owner[key]] += timing.seconds / timing.side_by_side / len(timing.runs) / 60
    return minutes


def facts(spec: Spec, found: Sequence[Outcome], store: Store) -> dict[str, str]:
    """Return what was played, on what."""
    conditions = [outcome.condition for outcome in found]
    runs = {
        run.key: run for condition in conditions for run in (*condition.reported, *condition.tuning) if store.has(run)
    }
    played = sum(run.n_rounds for run in runs.values())
    memory = [timing.memory for timing in store.timings() if runs.keys() & set(timing.runs)]
    tuning = [len_runs for condition in conditions for len_runs in {run.runs for run in condition.tuning}]
    tuned = f", settings chosen by {_span(tuning)} others" if tuning else ""
    return {
        "data sets": ", ".join(dict.fromkeys(condition.data for condition in conditions)),
        "learners": ", ".join(dict.fromkeys(condition.title for condition in conditions)),
        "delays": ", ".join(dict.fromkeys(condition.delay for condition in conditions)),
        "runs": f"{_span([o.run.runs for o in found])} of {spec.rounds:,} rounds, seed {spec.seed}{tuned}",
        "rounds in all": f"{compact(played)} ({played:,})",
        "peak memory of a process": f"{max(memory) / 1e9:.2f} GB" if memory else "not noted",
        "report written on": f"{os.cpu_count()} cores, {platform.system()}, {platform.machine()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def _span(numbers: Sequence[int]) -> str:
    """Return the least and the largest of some numbers.

    Examples
    --------
    >>> _span([5, 20, 20]), _span([3])
    ('5 to 20', '3')
    """
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
