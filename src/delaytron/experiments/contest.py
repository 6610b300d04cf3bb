"""The best of all learners at the largest delay against the best of the paper's without any."""

from collections.abc import Iterable, Sequence
from math import hypot

from delaytron.compare import remark
from delaytron.comparisons import assignments
from delaytron.delays import as_delay
from delaytron.experiments.findings import Cell, Section, Table
from delaytron.experiments.summary import Outcome
from delaytron.results import mean_of
from delaytron.simulate import learner_class
from delaytron.worlds import mean_wait

PAPER = ("banditron", "delaytron", "adaptive_delaytron", "soba")
COLUMNS = ("data", "the paper's best, delay 1", "error", "our best, delay {}", "its error", "ratio", "lower")


def contest(found: Sequence[Outcome]) -> Section | None:
    """Return who wins on every data set; None where nobody played with and without delay.

    On both sides the learner, too, is the one with the lowest error on the seeds of the tuning. Only learners with the
    paper's feedback take part: told right or wrong for one label.
    """
    fair = [outcome for outcome in found if not remark(learner_class(outcome.run.learner))]
    longest = max((o.line.delay for o in fair), key=lambda delay: _wait(delay, fair), default="1")
    rows = list(filter(None, (_row(data, longest, fair) for data in dict.fromkeys(o.line.data for o in fair))))
    if not rows or longest == "1":
        return None
    won = sum(row[-1] == "ours" for row in rows)
    tied = sum(row[-1] == "neither" for row in rows)
    text = (
        f"Ours, with delays up to {longest}, has the lower error on {won} of {len(rows)} data sets, the paper's, "
        f"without delay, on {len(rows) - won - tied}; on {tied} the 95 % interval of the difference has 0 in it. "
        "Setting and learner are chosen on other seeds than those reported."
    )
    columns = tuple(column.format(longest) for column in COLUMNS)
    return Section("Our best with delay, the paper's best without", text, Table(columns, tuple(rows)))


def _wait(delay: str, found: Sequence[Outcome]) -> float:
    run = found[0].run
    return mean_wait(as_delay(delay), run.rounds, run.seed)


def _row(data: str, longest: str, fair: Iterable[Outcome]) -> tuple[Cell, ...] | None:
    on_it = [outcome for outcome in fair if outcome.line.data == data]
    paper = [o for o in on_it if o.run.learner in PAPER and o.line.delay == "1"]
    ours = [o for o in on_it if o.line.delay == longest]
    if not paper or not ours:
        return None
    theirs, best = (min(side, key=lambda outcome: outcome.chosen_by) for side in (paper, ours))
    error, other = mean_of(theirs.result.final_error), mean_of(best.result.final_error)
    lower = "ours" if other.value < error.value else "the paper's"
    if not abs(error.value - other.value) > hypot(error.margin, other.margin):  # a single run has no margin: NaN
        lower = "neither"
    ratio = other.value / error.value if error.value else None
    return data, _named(theirs), error, _named(best), other, ratio, lower


def _named(outcome: Outcome) -> str:
    return f"{outcome.line.title} {assignments(outcome.run.parameters)}".strip()
