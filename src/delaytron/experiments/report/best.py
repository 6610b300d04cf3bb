"""The best of all learners at the largest delay against the best of the paper's without any."""

from collections.abc import Iterable, Sequence
from math import hypot

from delaytron.delays import as_delay
from delaytron.experiments.report.model import Cell, Section, Table
from delaytron.experiments.selection import Outcome
from delaytron.formats import assignments
from delaytron.simulation.results import mean_of
from delaytron.simulation.scenarios import mean_wait
from delaytron.simulation.simulate import learner_class

PAPER = ("banditron", "delaytron", "adaptive_delaytron", "soba")
WINNERS = ("with delay", "without", "neither")
COLUMNS = ("data", "the paper's best, delay 1", "error", "best of all, delay {}", "its error", "ratio", "lower")


def best_against_paper(found: Sequence[Outcome]) -> Section | None:
    """Return who wins on every data set; None where nobody played with and without delay.

    On both sides the learner, too, is the one with the lowest error on the seeds of the tuning. Only learners with the
    paper's feedback take part: told right or wrong for one label.
    """
    fair = [outcome for outcome in found if not learner_class(outcome.run.learner).remark]
    delays = dict.fromkeys(outcome.condition.delay for outcome in fair)
    longest = max(delays, key=lambda delay: _wait(delay, fair), default="1")
    rows = list(filter(None, (_row(data, longest, fair) for data in dict.fromkeys(o.condition.data for o in fair))))
    if not rows or longest == "1":
        return None
    columns = tuple(column.format(longest) for column in COLUMNS)
    chosen = "other seeds than those reported" if all(o.condition.tuning for o in fair) else "the reported runs"
    text = f"{_counts(rows, longest)} Setting and learner are chosen on {chosen}."
    return Section("The best of all with delay, the paper's best without", text, Table(columns, tuple(rows)))


def _counts(rows: Sequence[tuple[Cell, ...]], longest: str) -> str:
    won, lost, open_ = (sum(row[-1] == who for row in rows) for who in WINNERS)
    return (
        f"The best of all learners, with delays up to {longest}, has the lower error on {won} of {len(rows)} data "
        f"sets, the best of the paper's, without delay, on {lost}; on {open_} they differ by less than about their "
        "95 % margin."
    )


def _wait(delay: str, found: Sequence[Outcome]) -> float:
    run = found[0].run
    return mean_wait(as_delay(delay), run.rounds, run.seed)


def _row(data: str, longest: str, fair: Iterable[Outcome]) -> tuple[Cell, ...] | None:
    on_it = [outcome for outcome in fair if outcome.condition.data == data]
    paper = [o for o in on_it if o.run.learner in PAPER and o.condition.delay == "1"]
    ours = [o for o in on_it if o.condition.delay == longest]
    if not paper or not ours:
        return None
    theirs, best = (min(side, key=lambda outcome: outcome.chosen_by) for side in (paper, ours))
    error, other = mean_of(theirs.result.final_error), mean_of(best.result.final_error)
    lower = WINNERS[0] if other.value < error.value else WINNERS[1]
    if not abs(error.value - other.value) > hypot(error.margin, other.margin):  # a single run has no margin: NaN
        lower = WINNERS[2]
    ratio = other.value / error.value if error.value else None
    return data, _named(theirs), error, _named(best), other, ratio, lower


def _named(outcome: Outcome) -> str:
    return f"{outcome.condition.title} {assignments(outcome.run.parameters)}".strip()
