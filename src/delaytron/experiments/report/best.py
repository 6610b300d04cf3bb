"""The best of all learners at the largest delay against the best of the paper's without any."""

from collections.abc import Iterable, Sequence
from math import hypot

from delaytron.delays import as_delay
from delaytron.experiments.report.model import Row, Section, Table, estimate, with_runs
from delaytron.experiments.report.tables import UNTUNED, Facts, beside_majority
from delaytron.experiments.selection import Outcome
from delaytron.formats import assignments
from delaytron.simulation.scenarios import mean_wait
from delaytron.simulation.simulate import learner_class

PAPER = ("banditron", "delaytron", "adaptive_delaytron", "soba")
WINNERS = ("with delay", "without", "neither")
COLUMNS = ("data", "the paper's best, delay 1", "error", "best of all, delay {}", "its error", "ratio", "lower")


def best_against_paper(outcomes: Sequence[Outcome], facts: Facts | None = None) -> Section | None:
    """Return who wins on every data set; None where nobody played with and without delay.

    On both sides the learner, too, is the one with the lowest error on the seeds of the tuning. Only learners with the
    paper's feedback take part: right or wrong for one label.
    """
    fair = with_papers_feedback(outcomes)
    longest = longest_delay(fair)
    data = dict.fromkeys(outcome.condition.data for outcome in fair)
    rows = [row for name in data if (row := _row(name, longest, fair))]
    if not rows or longest == "1":
        return None
    columns = tuple(column.format(longest) for column in COLUMNS)
    text = f"{_counts(rows, longest)} {_choice_in_words(fair)}"
    return Section("The best against the paper's", text, beside_majority(Table(columns, with_runs(rows)), facts or {}))


def _choice_in_words(outcomes: Sequence[Outcome]) -> str:
    """Say on which runs setting and learner are chosen; an untuned learner has none but those reported."""
    untuned = untuned_beside_tuned(outcomes)
    if not all(o.condition.tuning or o.condition.title in untuned for o in outcomes):
        return "Setting and learner are chosen on the reported runs."
    where = "Setting and learner are chosen on other seeds than those reported."
    return f"{where} Untuned, and judged by the reported runs: {', '.join(untuned)}." if untuned else where


def untuned_beside_tuned(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the titles of the learners with a single setting, where others were tuned."""
    conditions = [outcome.condition for outcome in outcomes]
    if not any(condition.tuning for condition in conditions):
        return []
    return list(dict.fromkeys(condition.title for condition in conditions if condition.untuned))


def with_papers_feedback(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes of learners whose feedback is right or wrong for one label."""
    return [outcome for outcome in outcomes if not learner_class(outcome.run.learner).remark]


def longest_delay(outcomes: Sequence[Outcome]) -> str:
    """Return the delay with the longest wait; 1 where nothing was played."""
    delays = dict.fromkeys(outcome.condition.delay for outcome in outcomes)
    return max(delays, key=lambda delay: _wait(delay, outcomes[0]), default="1")


def lower(one: Outcome, other: Outcome) -> int:
    """Return 1 if the first has the lower error, -1 if the second, 0 where the margins do not tell them apart."""
    first = estimate(one.result.final_error)
    second = estimate(other.result.final_error)
    gap = second.value - first.value
    if not abs(gap) > hypot(first.margin, second.margin):  # a single run has no margin: NaN
        return 0
    return 1 if gap > 0 else -1


def best(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome with the lowest error on the seeds of the tuning."""
    return min(outcomes, key=lambda outcome: outcome.chosen_by)


def _counts(rows: Sequence[Row], longest: str) -> str:
    won, lost, undecided = (sum(row[-1] == winner for row in rows) for winner in WINNERS)
    return (
        f"The best of all learners, with delays up to {longest}, has the lower error on {won} of {len(rows)} data "
        f"sets, the best of the paper's, without delay, on {lost}; on {undecided} they differ by less than about their "
        "95 % margin."
    )


def _wait(delay: str, outcome: Outcome) -> float:
    return mean_wait(as_delay(delay), outcome.run.rounds, outcome.run.seed)


def _row(data: str, longest: str, fair: Iterable[Outcome]) -> Row | None:
    on_it = [outcome for outcome in fair if outcome.condition.data == data]
    paper = [o for o in on_it if o.run.learner in PAPER and o.condition.delay == "1"]
    late = [o for o in on_it if o.condition.delay == longest]
    if not paper or not late:
        return None
    theirs = best(paper)
    ours = best(late)
    error = estimate(theirs.result.final_error)
    other = estimate(ours.result.final_error)
    winner = {1: WINNERS[0], -1: WINNERS[1], 0: WINNERS[2]}[lower(ours, theirs)]
    ratio = other.value / error.value if error.value else None
    return data, _named(theirs), error, _named(ours), other, ratio, winner


def _named(outcome: Outcome) -> str:
    return f"{outcome.condition.title} {assignments(outcome.run.parameters) or f'({UNTUNED})'}"
