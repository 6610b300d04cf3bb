"""The headline of a report: what came out, in one sentence with its numbers and no more than the intervals allow."""

from collections.abc import Sequence
from typing import NamedTuple

from delaytron.experiments.report.best import (
    PAPER,
    best,
    longest_delay,
    lower,
    untuned_beside_tuned,
    with_papers_feedback,
)
from delaytron.experiments.report.model import (
    FEW_RUNS,
    FEW_RUNS_NOTE,
    Row,
    Section,
    Table,
    estimate,
    shown,
    with_runs,
)
from delaytron.experiments.report.tables import Facts, beside_majority
from delaytron.experiments.selection import Outcome
from delaytron.simulation.simulate import learner_class

CLEARLY = (
    "Clearly fewer: the two errors differ by more than both 95 % margins together (root of the sum of their squares)."
)
THE_PAPERS = "the best of the paper's learners"
THE_OTHERS = "the best of the other learners"
THE_NEXT = "the next best learner"
THE_LEADER = "the best learner"


def small_print(sentence: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Return what has to be known to read the headline and the intervals."""
    notes = [CLEARLY] if "clearly" in sentence else []
    notes += [f"Not compared: {', '.join(left_out)}."] if (left_out := _left_out(outcomes)) else []
    notes += [FEW_RUNS_NOTE] if any(outcome.run.runs < FEW_RUNS for outcome in outcomes) else []
    return notes


def _left_out(outcomes: Sequence[Outcome]) -> list[str]:
    """Name the learners that take no part in the headline, and why."""
    compared = {outcome.condition.title for outcome in with_papers_feedback(outcomes)}
    titles: dict[str, list[str]] = {}
    for title, name in dict.fromkeys((outcome.condition.title, outcome.run.learner) for outcome in outcomes):
        if compared and title not in compared:
            titles.setdefault(learner_class(name).remark, []).append(title)
    return [f"{' and '.join(names)} ({reason})" for reason, names in titles.items()]


class Duel(NamedTuple):
    """Two learners on one data set: 1 where the first is clearly lower, -1 where the second is, else 0."""

    data: str
    first: Outcome
    second: Outcome
    verdict: int

    @property
    def turned(self) -> "Duel":
        """The same from the other side."""
        return Duel(self.data, self.second, self.first, -self.verdict)


class Ranking(NamedTuple):
    """Who meets whom at the largest delay, on every data set where there are two.

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
    """Let learners meet at the largest delay; learners and settings are chosen on the seeds of the tuning.

    Parameters
    ----------
    paper : bool
        Whether the best of the other learners meets the best of the paper's, instead of the best the next best.
    """
    compared = with_papers_feedback(outcomes) or list(outcomes)
    delay = longest_delay(compared)
    late = [outcome for outcome in compared if outcome.condition.delay == delay]
    data = list(dict.fromkeys(outcome.condition.data for outcome in late))
    duels = _against_paper(late, data) if paper else []
    if duels:
        return Ranking(delay, late, (THE_OTHERS, THE_PAPERS), duels)
    return Ranking(delay, late, (THE_LEADER, THE_NEXT), _against_next(late, data))


def headline(ranking: Ranking, facts: Facts) -> str:
    """Return who is best at the largest delay, by how much, and how sure that is."""
    if ranking.duels:
        return f"{_when(ranking.delay)}, {_sentence(ranking.duels, ranking.sides, facts)}."
    return f"{_when(ranking.delay)}, {_alone(ranking.late[0], facts)}." if ranking.late else ""


def ranking_section(ranking: Ranking, facts: Facts) -> Section | None:
    """Return the headline data set by data set; None where no two learners met."""
    if not ranking.duels:
        return None
    first, second = ranking.sides
    columns = ("data", first.removeprefix("the "), "error", second.removeprefix("the "), "its error", "clearly lower")
    rows = with_runs(map(_duel_row, ranking.duels))
    text = (
        f"{_when(ranking.delay)}: the headline, data set by data set. The runs that choose the settings choose the "
        f"learners, too{_untuned_in_words(ranking.late)}; “neither” is where the intervals do not tell the two apart."
    )
    return Section("At the largest delay", text, beside_majority(Table(columns, rows), facts))


def _untuned_in_words(late: Sequence[Outcome]) -> str:
    titles = untuned_beside_tuned(late)
    return f" (untuned, and judged by the reported runs: {', '.join(titles)})" if titles else ""


def _duel_row(duel: Duel) -> Row:
    first = duel.first.condition.title
    second = duel.second.condition.title
    return (
        duel.data,
        first,
        estimate(duel.first.result.final_error),
        second,
        estimate(duel.second.result.final_error),
        {1: first, -1: second, 0: "neither"}[duel.verdict],
    )


def _when(delay: str) -> str:
    """Return a delay as the beginning of a sentence.

    Examples
    --------
    >>> _when("1"), _when("5000"), _when("fixed:30")
    ('Without delay', 'With delays of up to 5,000 rounds', 'At delay fixed:30')
    """
    if delay == "1":
        return "Without delay"
    return f"With delays of up to {int(delay):,} rounds" if delay.isdigit() else f"At delay {delay}"


def _against_paper(late: Sequence[Outcome], data: Sequence[str]) -> list[Duel]:
    duels = []
    for name in data:
        papers = [o for o in late if o.condition.data == name and o.run.learner in PAPER]
        others = [o for o in late if o.condition.data == name and o.run.learner not in PAPER]
        if papers and others:
            duels.append(_duel(name, best(others), best(papers)))
    return duels


def _against_next(late: Sequence[Outcome], data: Sequence[str]) -> list[Duel]:
    duels = []
    for name in data:
        ranked = sorted((o for o in late if o.condition.data == name), key=lambda outcome: outcome.chosen_by)
        if len(ranked) > 1:
            duels.append(_duel(name, *ranked[:2]))
    return duels


def _duel(data: str, first: Outcome, second: Outcome) -> Duel:
    return Duel(data, first, second, lower(first, second))


def _sentence(duels: Sequence[Duel], sides: tuple[str, str], facts: Facts) -> str:
    """Tell of the side that wins more often; of neither where nothing is clear."""
    if sum(duel.verdict for duel in duels) < 0:
        return _sentence([duel.turned for duel in duels], (sides[1], sides[0]), facts)
    won = [duel for duel in duels if duel.verdict > 0]
    first = _named([duel.first for duel in duels], sides[0])
    second = _named([duel.second for duel in duels], sides[1])
    example = _example((won or duels)[0], facts)
    if not won:
        return f"{first} and {second} are too close to call {_where(duels)}: {example}"
    return f"{first} makes clearly fewer errors than {second} {_where(duels)}: {example}"


def _named(side: Sequence[Outcome], description: str) -> str:
    """Return the learner of one side; where it is another one on each data set, what they have in common."""
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


def _example(duel: Duel, facts: Facts) -> str:
    own = f"the error of {duel.first.condition.title} is {_error(duel.first)}"
    other = f"that of {duel.second.condition.title} {_error(duel.second)}"
    return f"on {duel.data} {own}, {other}{_majority(duel.data, facts)}"


def _error(outcome: Outcome) -> str:
    return shown(estimate(outcome.result.final_error)._replace(tells_runs=True))


def _majority(data: str, facts: Facts) -> str:
    if data not in facts:
        return ""
    return f", and that of always playing the most frequent class {shown(facts[data].majority_error)}"


def _alone(outcome: Outcome, facts: Facts) -> str:
    data = outcome.condition.data
    return f"on {data} the error of {outcome.condition.title} is {_error(outcome)}{_majority(data, facts)}"
