"""The headline of a report: the main result in one sentence with its numbers, and the ranking behind it."""

from collections.abc import Iterable, Sequence
from math import hypot
from typing import NamedTuple

from delaytron.delays import as_delay
from delaytron.experiments.report.model import (
    FEW_RUNS,
    FEW_RUNS_NOTE,
    UNTUNED,
    Facts,
    Row,
    Section,
    Table,
    beside_majority,
    estimate,
    shown,
    with_runs,
)
from delaytron.experiments.store import Outcome
from delaytron.formats import assignments
from delaytron.simulation.scenarios import mean_wait
from delaytron.simulation.simulate import learner_class

PAPER = ("banditron", "delaytron", "adaptive_delaytron", "soba")
WINNERS = ("with delay", "without", "neither")
COLUMNS = ("data", "the paper's best, delay 1", "error", "best of all, delay {}", "its error", "ratio", "lower")


def best_against_paper(outcomes: Sequence[Outcome], facts: Facts | None = None) -> Section | None:
    """Return the best learner with delay against the paper's best without, per data set; None if either is missing.

    On both sides the learner, too, is chosen by the error on the tuning seeds. Only learners with the paper's feedback
    take part: right or wrong for one label.
    """
    fair = with_papers_feedback(outcomes)
    longest = longest_delay(fair)
    data = dict.fromkeys(outcome.condition.data for outcome in fair)
    rows: list[Row] = []
    for name in data:
        paper = [o for o in fair if o.condition.data == name and o.run.learner in PAPER and o.condition.delay == "1"]
        late = [o for o in fair if o.condition.data == name and o.condition.delay == longest]
        if paper and late:
            theirs, ours = (min(group, key=lambda outcome: outcome.chosen_by) for group in (paper, late))
            error, other = estimate(theirs.result.final_error), estimate(ours.result.final_error)
            winner = {1: WINNERS[0], -1: WINNERS[1], 0: WINNERS[2]}[lower(ours, theirs)]
            ratio = other.value / error.value if error.value else None
            rows.append((name, _with_parameters(theirs), error, _with_parameters(ours), other, ratio, winner))
    if not rows or longest == "1":
        return None
    columns = tuple(column.format(longest) for column in COLUMNS)
    won, lost, undecided = (sum(row[-1] == winner for row in rows) for winner in WINNERS)
    untuned = untuned_beside_tuned(fair)
    choice = "Setting and learner are chosen on the reported runs."
    if all(o.condition.tuning or o.condition.title in untuned for o in fair):
        choice = "Setting and learner are chosen on other seeds than those reported."
        if untuned:
            choice += f" Untuned, and judged by the reported runs: {', '.join(untuned)}."
    text = (
        f"The best of all learners, with delays up to {longest}, has the lower error on {won} of {len(rows)} data "
        f"sets, the best of the paper's, without delay, on {lost}; on {undecided} they differ by less than about their "
        f"95 % margin. {choice}"
    )
    return Section("The best against the paper's", text, beside_majority(Table(columns, with_runs(rows)), facts or {}))


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
    return max(
        delays,
        key=lambda delay: mean_wait(as_delay(delay), outcomes[0].run.rounds, outcomes[0].run.seed),
        default="1",
    )


def lower(one: Outcome, other: Outcome) -> int:
    """Return 1 if the first has the clearly lower error, -1 if the second, 0 if they differ by less than the margin."""
    first = estimate(one.result.final_error)
    second = estimate(other.result.final_error)
    gap = second.value - first.value
    if not abs(gap) > hypot(first.margin, second.margin):  # also if a margin is NaN, that of a single run
        return 0
    return 1 if gap > 0 else -1


def _with_parameters(outcome: Outcome) -> str:
    return f"{outcome.condition.title} {assignments(outcome.run.parameters) or f'({UNTUNED})'}"


CLEARLY = (
    "Clearly fewer: the two errors differ by more than both 95 % margins together (root of the sum of their squares)."
)
THE_PAPERS = "the best of the paper's learners"
THE_OTHERS = "the best of the other learners"
THE_NEXT = "the next best learner"
THE_LEADER = "the best learner"


class Duel(NamedTuple):
    """Two learners on one data set; the verdict is 1 if the first is clearly lower, -1 if the second is, else 0."""

    data: str
    first: Outcome
    second: Outcome
    verdict: int

    @property
    def turned(self) -> "Duel":
        """The same from the other side."""
        return Duel(self.data, self.second, self.first, -self.verdict)


class Ranking(NamedTuple):
    """The duels at the largest delay, one per data set with at least two learners.

    Parameters
    ----------
    sides : (str, str)
        What the first learners of the duels have in common, and the second ones.
    """

    delay: str
    late: Sequence[Outcome]
    sides: tuple[str, str]
    duels: Sequence[Duel]


def rank(outcomes: Sequence[Outcome], paper: bool = False) -> Ranking:
    """Compare learners at the largest delay; learners and settings are chosen on the tuning seeds.

    Parameters
    ----------
    paper : bool
        Whether to compare the best of the other learners with the best of the paper's, instead of the two best.
    """
    compared = with_papers_feedback(outcomes) or list(outcomes)
    delay = longest_delay(compared)
    late = [outcome for outcome in compared if outcome.condition.delay == delay]
    data = list(dict.fromkeys(outcome.condition.data for outcome in late))
    against_paper, against_next = [], []
    for name in data:
        ranked = sorted((o for o in late if o.condition.data == name), key=lambda outcome: outcome.chosen_by)
        papers = [o for o in ranked if o.run.learner in PAPER]
        others = [o for o in ranked if o.run.learner not in PAPER]
        if paper and papers and others:
            against_paper.append(Duel(name, others[0], papers[0], lower(others[0], papers[0])))
        if len(ranked) > 1:
            against_next.append(Duel(name, ranked[0], ranked[1], lower(ranked[0], ranked[1])))
    if against_paper:
        return Ranking(delay, late, (THE_OTHERS, THE_PAPERS), against_paper)
    return Ranking(delay, late, (THE_LEADER, THE_NEXT), against_next)


def headline(ranking: Ranking, facts: Facts) -> str:
    """Return which learner is best at the largest delay, with errors and intervals; "" if there are no outcomes."""
    if ranking.duels:
        return f"{_when(ranking.delay)}, {_sentence(ranking.duels, ranking.sides, facts)}."
    if not ranking.late:
        return ""
    outcome = ranking.late[0]
    data, title = outcome.condition.data, outcome.condition.title
    return f"{_when(ranking.delay)}, on {data} the error of {title} is {_error(outcome)}{_majority(data, facts)}."


def small_print(ranking: Ranking, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the notes on the headline and the intervals, with the learners that are not compared, and why."""
    notes = [CLEARLY] if any(duel.verdict for duel in ranking.duels) else []
    compared = {outcome.condition.title for outcome in with_papers_feedback(outcomes)}
    titles: dict[str, list[str]] = {}
    for title, name in dict.fromkeys((outcome.condition.title, outcome.run.learner) for outcome in outcomes):
        if compared and title not in compared:
            titles.setdefault(learner_class(name).remark, []).append(title)
    left_out = [f"{' and '.join(names)} ({reason})" for reason, names in titles.items()]
    notes += [f"Not compared: {', '.join(left_out)}."] if left_out else []
    notes += [FEW_RUNS_NOTE] if any(outcome.run.runs < FEW_RUNS for outcome in outcomes) else []
    return notes


def ranking_section(ranking: Ranking, facts: Facts) -> Section | None:
    """Return the ranking behind the headline, per data set; None if there are no two learners."""
    if not ranking.duels:
        return None
    first, second = ranking.sides
    columns = ("data", first.removeprefix("the "), "error", second.removeprefix("the "), "its error", "clearly lower")
    rows = []
    for duel in ranking.duels:
        one, other = duel.first.condition.title, duel.second.condition.title
        own, theirs = estimate(duel.first.result.final_error), estimate(duel.second.result.final_error)
        rows.append((duel.data, one, own, other, theirs, {1: one, -1: other, 0: "neither"}[duel.verdict]))
    titles = untuned_beside_tuned(ranking.late)
    untuned = f" (untuned, and judged by the reported runs: {', '.join(titles)})" if titles else ""
    text = (
        f"{_when(ranking.delay)}: the headline, data set by data set. The runs that choose the settings choose the "
        f"learners, too{untuned}; “neither” is where the errors differ by less than both 95 % margins together."
    )
    return Section("At the largest delay", text, beside_majority(Table(columns, with_runs(rows)), facts))


def _when(delay: str) -> str:
    """Return the beginning of a sentence about a delay.

    Examples
    --------
    >>> _when("1"), _when("5000"), _when("fixed:30")
    ('Without delay', 'With delays of up to 5,000 rounds', 'At delay fixed:30')
    """
    if delay == "1":
        return "Without delay"
    return f"With delays of up to {int(delay):,} rounds" if delay.isdigit() else f"At delay {delay}"


def _sentence(duels: Sequence[Duel], sides: tuple[str, str], facts: Facts) -> str:
    """Return a sentence about the side that wins more often, the first in a draw; about both if nothing is clear."""
    if sum(duel.verdict for duel in duels) < 0:
        return _sentence([duel.turned for duel in duels], (sides[1], sides[0]), facts)
    won = [duel for duel in duels if duel.verdict > 0]
    first = _named([duel.first for duel in duels], sides[0])
    second = _named([duel.second for duel in duels], sides[1])
    shown_duel = (won or duels)[0]
    example = (
        f"on {shown_duel.data} the error of {shown_duel.first.condition.title} is {_error(shown_duel.first)}, "
        f"that of {shown_duel.second.condition.title} {_error(shown_duel.second)}{_majority(shown_duel.data, facts)}"
    )
    if not won:
        return f"{first} and {second} are too close to call {_where(duels)}: {example}"
    return f"{first} makes clearly fewer errors than {second} {_where(duels)}: {example}"


def _named(side: Sequence[Outcome], description: str) -> str:
    """Return the learner of one side, or the description if it is not the same on all data sets."""
    titles = {outcome.condition.title for outcome in side}
    if len(titles) > 1:
        return description
    name = titles.pop()
    return f"{name}, {description}," if description in (THE_PAPERS, THE_NEXT) else name


def _where(duels: Sequence[Duel]) -> str:
    if len(duels) == 1:
        return f"on {duels[0].data}"
    won = sum(duel.verdict > 0 for duel in duels)
    lost = sum(duel.verdict < 0 for duel in duels)
    if not won:
        return f"on all {len(duels)} data sets"
    rest = [f"more on {lost}"] * bool(lost)
    rest += [f"too close to call on {len(duels) - won - lost}"] * (won + lost < len(duels))
    return f"on {won} of {len(duels)} data sets" + (f" ({', '.join(rest)})" if rest else "")


def _error(outcome: Outcome) -> str:
    return shown(estimate(outcome.result.final_error)._replace(shows_runs=True))


def _majority(data: str, facts: Facts) -> str:
    if data not in facts:
        return ""
    return f", and that of always playing the most frequent class {shown(facts[data].majority_error)}"
