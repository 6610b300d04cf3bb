"""The claims of the paper's experiments: the meaning of each in numbers, and in how many cases it is true.

A claim is tested in every case (data set, learner, delay). It holds if it is true in nine of ten of them, and partly if
in half.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from delaytron.delays import as_delay
from delaytron.experiments.report.model import (
    FEW_RUNS,
    FEW_RUNS_NOTE,
    Cell,
    Claim,
    Estimate,
    Facts,
    Table,
    beside_majority,
    estimate,
    with_runs,
)
from delaytron.experiments.store import Outcome
from delaytron.records import Array
from delaytron.simulation.results import Result, index_from_which_below
from delaytron.simulation.scenarios import mean_wait

LEARNERS = ("delaytron", "adaptive_delaytron", "adaptive_delaytron, instant")
CLOSE = 1.1  # an error of at most this multiple of another is close to it
NEAR = 0.01  # and so is one that is at most this much higher
WAITS = 10_000  # rounds of which the mean delay orders the delays
LAST_PART = 10  # slopes are fitted from T / 10 to T


class Evidence:
    """The mean error curves of the chosen settings, by data set, learner and delay."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        results = {(o.condition.data, o.condition.title, o.condition.delay): o.result for o in outcomes}
        self.results: dict[tuple[str, str, str], Result] = results
        self.data = list(dict.fromkeys(data for data, _, _ in results))
        self.learners = [name for name in LEARNERS if any(title == name for _, title, _ in results)]
        delays = {delay for _, title, delay in results if title in LEARNERS}
        self.delays = sorted(delays, key=lambda delay: mean_wait(as_delay(delay), WAITS, 0))

    def curve(self, data: str, learner: str, delay: str) -> tuple[Array, Array] | None:
        """Return rounds and mean errors so far."""
        result = self.results.get((data, learner, delay))
        return None if result is None else (result.rounds.astype(float), result.error_rate.mean(axis=0))

    def final(self, data: str, learner: str, delay: str) -> float | None:
        """Return the mean final error."""
        curve = self.curve(data, learner, delay)
        return None if curve is None else float(curve[1][-1])

    def final_with_interval(self, data: str, learner: str, delay: str) -> Estimate | None:
        """Return the mean final error, its interval and its number of runs."""
        result = self.results.get((data, learner, delay))
        return None if result is None else estimate(result.final_error)


def close(error: float, reference: float) -> bool:
    """Whether an error is close to another, or below it."""
    return error <= max(CLOSE * reference, reference + NEAR)


def slope(curve: tuple[Array, Array] | None) -> float | None:
    """Return the slope of log error against log rounds over the last part."""
    if curve is None:
        return None
    rounds, errors = curve
    last = (rounds >= rounds[-1] / LAST_PART) & (errors > 0)
    return float(np.polyfit(np.log(rounds[last]), np.log(errors[last]), 1)[0]) if last.sum() > 1 else None


def first_below(curve: tuple[Array, Array] | None, target: float | Array) -> float | None:
    """Return the round after which errors stay at or below a target, interpolated; None if they do not."""
    if curve is None:
        return None
    rounds, errors = curve
    place = index_from_which_below(errors, target)
    over = errors - target
    if not place:
        return None if place is None else float(rounds[0])
    share = over[place - 1] / (over[place - 1] - over[place])
    return float(np.exp(np.interp(share, [0, 1], np.log(rounds[place - 1 : place + 1]))))


REFERENCES = ("banditron", "soba")
HOLDS = 0.9  # share of the cases
PARTLY = 0.5
AS_STEEP = 0.8  # of another slope, and still comparable


class Case(NamedTuple):
    """What was measured on one data set at one delay, and whether the claim is true there; None if not tested."""

    value: Cell
    true: bool | None = None


def claims(outcomes: Sequence[Outcome], facts: Facts | None = None) -> list[Claim]:
    """Judge every claim by the outcomes of an experiment."""
    evidence = Evidence(outcomes)
    return [
        _slopes(evidence),
        _final_errors(evidence, facts or {}),
        _adaptive(evidence),
        _rounds_needed(evidence),
        _meeting(evidence),
    ]


def _slopes(evidence: Evidence) -> Claim:
    return _beside_references(
        evidence,
        "a",
        "With delay the error falls about as steeply as that of the references without delay.",
        f"Slope of log error against log rounds from T/10 to T. Comparable: at least {AS_STEEP} times as steep as that "
        "of Banditron and of SOBA without delay; steeper is allowed, as a learner with delay has to catch up",
        lambda *at: slope(evidence.curve(*at)),
        lambda own, theirs: own <= AS_STEEP * theirs,
        lambda *at: slope(evidence.curve(*at)),
    )


def _final_errors(evidence: Evidence, facts: Facts) -> Claim:
    claim = _beside_references(
        evidence,
        "b",
        "With delay the final error is close to that of the references without delay.",
        f"Final error. Close: at most {CLOSE} times that of Banditron and of SOBA without delay, or {NEAR} above",
        evidence.final,
        close,
        evidence.final_with_interval,
    )
    table = beside_majority(claim.table._replace(rows=with_runs(claim.table.rows)), facts)
    few = any(isinstance(cell, Estimate) and cell.runs < FEW_RUNS for row in table.rows for cell in row)
    reason = f"{claim.reason}\n\nErrors with their 95 % intervals. {FEW_RUNS_NOTE}" if few else claim.reason
    return claim._replace(reason=reason, table=table)


def _beside_references(
    evidence: Evidence,
    key: str,
    statement: str,
    meaning: str,
    value: Callable[[str, str, str], float | None],
    alike: Callable[[float, float], bool],
    cell: Callable[[str, str, str], Cell],
) -> Claim:
    """Compare a number of every case with that of each reference without delay; count the true ones per reference.

    `value` is the number that is compared, `cell` what the table shows.
    """

    def answers(data: str, learner: str, delay: str) -> dict[str, bool]:
        own = value(data, learner, delay)
        theirs = {name: value(data, name, "1") for name in REFERENCES}
        return {n: alike(own, other) for n, other in theirs.items() if own is not None and other is not None}

    def case(data: str, learner: str, delay: str) -> Case:
        verdicts = answers(data, learner, delay)
        return Case(cell(data, learner, delay), all(verdicts.values()) if verdicts else None)

    late = [answers(*at) for at in product(evidence.data, evidence.learners, evidence.delays) if at[2] != "1"]
    counts = [f"{sum(a[n] for a in late if n in a)} beside {n}" for n in REFERENCES if any(n in a for a in late)]
    counted = f"{meaning} ({', '.join(counts)})" if counts else meaning
    return _claim(key, statement, counted, _rows(evidence, case, lambda data, name: cell(data, name, "1")))


def _adaptive(evidence: Evidence) -> Claim:
    def ratio(data: str, learner: str, delay: str) -> Case:
        own = evidence.final(data, learner, delay)
        fixed = evidence.final(data, "delaytron", delay)
        if own is None or fixed is None:
            return Case(None)
        return Case(own / fixed if fixed else None, close(own, fixed))

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
    def needed(data: str, learner: str) -> dict[str, float | None]:
        curves = {delay: evidence.curve(data, learner, delay) for delay in evidence.delays}
        played = {delay: curve for delay, curve in curves.items() if curve is not None}
        target = CLOSE * max((errors[-1] for _, errors in played.values()), default=0.0)
        return {delay: first_below(curve, target) for delay, curve in played.items()}

    def rounds(data: str, learner: str, delay: str) -> Case:
        all_needed = needed(data, learner)
        if delay not in all_needed:
            return Case(None)
        shorter = list(all_needed)[: list(all_needed).index(delay)]
        own = all_needed[delay]
        less = all_needed[shorter[-1]] if shorter else None
        return Case(own, None if own is None or less is None else own > less)

    return _claim(
        "d",
        "The more delay, the more rounds until it converges.",
        f"Rounds after which the error stays below {CLOSE} times the highest final error among the delays of this "
        "learner, interpolated between checkpoints. So it is where it takes more than with the next smaller delay",
        _rows(evidence, rounds, lambda *_: None),
    )


def _meeting(evidence: Evidence) -> Claim:
    def meets(data: str, learner: str, delay: str) -> Case:
        own = evidence.curve(data, learner, delay)
        reference = evidence.curve(data, "banditron", "1")
        if own is None or reference is None:
            return Case(None)
        round_ = first_below(own, np.maximum(CLOSE * reference[1], reference[1] + NEAR))
        return Case(round_, round_ is not None)

    return _claim(
        "e",
        "After enough rounds the curves with delay meet Banditron's without delay.",
        f"Rounds after which the error stays within {CLOSE} times Banditron's at the same round, or {NEAR} above: the "
        "test of (b) with Banditron alone, here with the round from which on it is passed",
        _rows(evidence, meets, lambda *_: None),
    )


class ClaimRow(NamedTuple):
    """One learner on one data set: a case for each delay, and the references without delay."""

    data: str
    learner: str
    cases: dict[str, Case]
    references: dict[str, Cell]


def _rows(
    evidence: Evidence, case: Callable[[str, str, str], Case], reference: Callable[[str, str], Cell]
) -> list[ClaimRow]:
    return [
        ClaimRow(
            data,
            learner,
            {delay: case(data, learner, delay) for delay in evidence.delays},
            {name: reference(data, name) for name in REFERENCES},
        )
        for learner in evidence.learners
        for data in evidence.data
    ]


def _claim(key: str, statement: str, meaning: str, rows: list[ClaimRow], with_no_delay: bool = False) -> Claim:
    """Count the true cases and return the verdict; cases without delay are counted only `with_no_delay`."""
    asked = [c.true for row in rows for delay, c in row.cases.items() if with_no_delay or delay != "1"]
    answers = [answer for answer in asked if answer is not None]
    if not answers:
        return Claim(key, statement, "not tested", f"{meaning}. The experiment has no such runs.", _table(rows))
    share = sum(answers) / len(answers)
    verdict = "holds" if share >= HOLDS else "partly" if share >= PARTLY else "does not hold"
    exceptions = []
    for learner in dict.fromkeys(row.learner for row in rows):
        named = []
        for row in rows:
            delays = [d for d, case in row.cases.items() if case.true is False and (with_no_delay or d != "1")]
            if delays and row.learner == learner:
                named.append(f"{row.data} ({', '.join(delays)})")
        if named:
            exceptions.append(f"{learner} on {', '.join(named)}")
    reason = f"{meaning}: so in {sum(answers)} of {len(answers)} cases."
    if exceptions:
        reason += f" Not so: {'; '.join(exceptions)}."
    return Claim(key, statement, verdict, reason, _table(rows))


def _table(rows: list[ClaimRow]) -> Table:
    delays = list(rows[0].cases) if rows else []
    shown = [name for name in REFERENCES if any(row.references[name] is not None for row in rows)]
    columns = ("data", "learner", *(f"delay {d}" for d in delays), *(f"{name}, delay 1" for name in shown))
    cells = (
        (row.data, row.learner, *(case.value for case in row.cases.values()), *(row.references[name] for name in shown))
        for row in rows
    )
    return Table(columns, tuple(cells))
