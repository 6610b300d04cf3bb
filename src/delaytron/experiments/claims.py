"""The claims of the paper's experiments one by one: what each means in numbers, and how often it is so.

A claim is looked at in every case there is (data set, learner, delay). It holds if it is so in nine of ten of them, and
partly if in half.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from delaytron.experiments.findings import Cell, Claim, Table
from delaytron.experiments.summary import Outcome
from delaytron.records import Array
from delaytron.results import Result

LEARNERS = ("delaytron", "adaptive_delaytron", "adaptive_delaytron, instant")
REFERENCES = ("banditron", "soba")
HOLDS, PARTLY = 0.9, 0.5  # shares of the cases
CLOSE = 1.1  # times an error is still close to it
NEAR = 0.01  # and so is what differs by a hundredth
FLATTER = 0.05  # by which a slope may be flatter than another and still be comparable
LAST_PART = 10  # slopes are those of the last nine tenths of the rounds: from T / 10 to T


class Case(NamedTuple):
    """What was measured on one data set at one delay; whether the claim is true of it, if that is asked."""

    value: Cell
    true: bool | None = None


class Evidence:
    """The mean error curves of the chosen settings, by data set, learner and delay."""

    def __init__(self, found: Iterable[Outcome]) -> None:
        results = {(o.line.data, o.line.title, o.line.delay): o.result for o in found}
        self.results: dict[tuple[str, str, str], Result] = results
        self.data = list(dict.fromkeys(data for data, _, _ in results))
        self.learners = [name for name in LEARNERS if any(title == name for _, title, _ in results)]
        self.delays = list(dict.fromkeys(delay for _, title, delay in results if title in LEARNERS))

    def curve(self, data: str, learner: str, delay: str = "1") -> tuple[Array, Array] | None:
        """Return rounds and mean errors so far."""
        result = self.results.get((data, learner, delay))
        return None if result is None else (result.rounds.astype(float), result.error_rate.mean(axis=0))

    def final(self, data: str, learner: str, delay: str = "1") -> float | None:
        """Return the mean final error."""
        curve = self.curve(data, learner, delay)
        return None if curve is None else float(curve[1][-1])


def claims(found: Sequence[Outcome]) -> list[Claim]:
    """Judge every claim by the outcomes of an experiment."""
    evidence = Evidence(found)
    return [judge(evidence) for judge in (_slopes, _final_errors, _adaptive, _rounds_needed, _meeting)]


def _slopes(evidence: Evidence) -> Claim:
    def slope(data: str, learner: str, delay: str) -> Case:
        own, reference = (_slope(evidence.curve(data, *at)) for at in ((learner, delay), ("banditron", "1")))
        return Case(own, None if own is None or reference is None else own <= reference + FLATTER)

    return _claim(
        "a",
        "With delay the error falls about as steeply as that of the references without delay.",
        "Slope of log error against log rounds from T/10 to T. Comparable: at most "
        f"{FLATTER} flatter than Banditron's without delay (steeper is allowed: who is late has to catch up)",
        _rows(evidence, slope, lambda data, name: _slope(evidence.curve(data, name))),
    )


def _final_errors(evidence: Evidence) -> Claim:
    def close(data: str, learner: str, delay: str) -> dict[str, bool]:
        own, theirs = evidence.final(data, learner, delay), {n: evidence.final(data, n) for n in REFERENCES}
        return {n: _close(own, error) for n, error in theirs.items() if own is not None and error is not None}

    def final(data: str, learner: str, delay: str) -> Case:
        answers = close(data, learner, delay)
        return Case(evidence.final(data, learner, delay), all(answers.values()) if answers else None)

    cases = [close(*case) for case in product(evidence.data, evidence.learners, evidence.delays) if case[2] != "1"]
    counts = [f"to {name}'s in {sum(c.get(name, False) for c in cases)}" for name in REFERENCES]
    return _claim(
        "b",
        "With delay the final error is close to that of the references without delay.",
        f"Final error. Close: at most {CLOSE} times that of Banditron and that of SOBA without delay, or {NEAR} above "
        f"({', '.join(counts)} cases, to both)",
        _rows(evidence, final, evidence.final),
    )


def _adaptive(evidence: Evidence) -> Claim:
    def ratio(data: str, learner: str, delay: str) -> Case:
        own, fixed = (evidence.final(data, name, delay) for name in (learner, "delaytron"))
        if own is None or fixed is None:
            return Case(None)
        return Case(own / fixed if fixed else None, _close(own, fixed))

    rows = _rows(evidence, ratio, lambda *_: None)
    return _claim(
        "c",
        "Adaptive Delaytron needs to know neither T nor the delays, and is comparable to Delaytron.",
        f"Its final error as a multiple of Delaytron's at the same delay. Comparable: at most {CLOSE} times, or {NEAR} "
        "above. It takes no T by construction; nor, from W = 0, does Delaytron, whose constant step changes no label",
        [row for row in rows if row.learner != "delaytron"],
        with_no_delay=True,
    )


def _rounds_needed(evidence: Evidence) -> Claim:
    def needed(data: str, learner: str) -> list[float | None]:
        curves = [evidence.curve(data, learner, delay) for delay in evidence.delays]
        target = CLOSE * max((curve[1][-1] for curve in curves if curve is not None), default=0.0)
        return [_first_below(curve, target) for curve in curves]

    def rounds(data: str, learner: str, delay: str) -> Case:
        place, all_needed = evidence.delays.index(delay), needed(data, learner)
        own, less = all_needed[place], all_needed[place - 1] if place else None
        return Case(own, None if own is None or less is None else own >= less)

    return _claim(
        "d",
        "The more delay, the more rounds until it converges.",
        f"Rounds after which the error stays below {CLOSE} times the highest final error among the delays of this "
        "learner. So it is where it takes no fewer rounds than with the next smaller delay",
        _rows(evidence, rounds, lambda *_: None),
    )


def _meeting(evidence: Evidence) -> Claim:
    def meets(data: str, learner: str, delay: str) -> Case:
        own, reference = evidence.curve(data, learner, delay), evidence.curve(data, "banditron")
        if own is None or reference is None:
            return Case(None)
        round_ = _first_below(own, np.maximum(CLOSE * reference[1], reference[1] + NEAR))
        return Case(round_, round_ is not None)

    return _claim(
        "e",
        "After enough rounds the curves with delay meet Banditron's without delay.",
        f"Rounds after which the error stays within {CLOSE} times Banditron's at the same round, or {NEAR} above",
        _rows(evidence, meets, lambda *_: None),
    )


class Row(NamedTuple):
    """One learner on one data set: a case for each delay, and the references without delay."""

    data: str
    learner: str
    cases: dict[str, Case]
    references: dict[str, Cell]


def _rows(
    evidence: Evidence, case: Callable[[str, str, str], Case], reference: Callable[[str, str], Cell]
) -> list[Row]:
    return [
        Row(
            data,
            learner,
            {delay: case(data, learner, delay) for delay in evidence.delays},
            {name: reference(data, name) for name in REFERENCES},
        )
        for learner in evidence.learners
        for data in evidence.data
    ]


def _claim(key: str, statement: str, meaning: str, rows: list[Row], with_no_delay: bool = False) -> Claim:
    """Count in how many cases with delay it is so; without delay there is nothing to show."""
    asked = [c.true for row in rows for delay, c in row.cases.items() if with_no_delay or delay != "1"]
    answers = [answer for answer in asked if answer is not None]
    if not answers:
        return Claim(key, statement, "not tested", f"{meaning}. The experiment has no such runs.", _table(rows))
    share = sum(answers) / len(answers)
    verdict = "holds" if share >= HOLDS else "partly" if share >= PARTLY else "does not hold"
    exceptions = "; ".join(_exceptions(rows, with_no_delay))
    reason = f"{meaning}: so in {sum(answers)} of {len(answers)} cases."
    return Claim(key, statement, verdict, reason + (f" Not so: {exceptions}." if exceptions else ""), _table(rows))


def _exceptions(rows: list[Row], with_no_delay: bool) -> Iterator[str]:
    """Name the cases in which it is not so, learner by learner."""
    for learner in dict.fromkeys(row.learner for row in rows):
        named = []
        for row in rows:
            delays = [d for d, case in row.cases.items() if case.true is False and (with_no_delay or d != "1")]
            if delays and row.learner == learner:
                named.append(f"{row.data} ({', '.join(delays)})")
        if named:
            yield f"{learner} on {', '.join(named)}"


def _table(rows: list[Row]) -> Table:
    delays = list(rows[0].cases) if rows else []
    shown = [name for name in REFERENCES if any(row.references[name] is not None for row in rows)]
    columns = ("data", "learner", *(f"delay {d}" for d in delays), *(f"{name}, delay 1" for name in shown))
    return Table(columns, tuple((*_cells(row), *(row.references[name] for name in shown)) for row in rows))


def _cells(row: Row) -> tuple[Cell, ...]:
    return row.data, row.learner, *(case.value for case in row.cases.values())


def _close(error: float, reference: float) -> bool:
    return error <= max(CLOSE * reference, reference + NEAR)


def _slope(curve: tuple[Array, Array] | None) -> float | None:
    """Return the slope of log error against log rounds over the last part."""
    if curve is None:
        return None
    rounds, errors = curve
    last = (rounds >= rounds[-1] / LAST_PART) & (errors > 0)
    return float(np.polyfit(np.log(rounds[last]), np.log(errors[last]), 1)[0]) if last.sum() > 1 else None


def _first_below(curve: tuple[Array, Array] | None, target: float | Array) -> float | None:
    """Return the round after which errors stay at or below a target; None if they are above it at the end."""
    if curve is None:
        return None
    rounds, errors = curve
    above = np.flatnonzero(errors > target)
    first = above[-1] + 1 if above.size else 0
    return float(rounds[first]) if first < rounds.size else None
