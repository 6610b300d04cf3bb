"""The claims of the paper's experiments one by one: what each means in numbers, and how often it is so.

A claim is looked at in every case there is (data set, learner, delay). It holds if it is so in nine of ten of them, and
partly if in half.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from delaytron.experiments.report.curves import CLOSE, NEAR, Evidence, close, first_below, slope
from delaytron.experiments.report.model import FEW_RUNS_NOTE, Cell, Claim, Section, Table, has_few_runs, with_runs
from delaytron.experiments.report.tables import Facts, beside_majority
from delaytron.experiments.selection import Outcome

REFERENCES = ("banditron", "soba")
HOLDS = 0.9  # share of the cases
PARTLY = 0.5
AS_STEEP = 0.8  # of another slope, and still comparable


class Case(NamedTuple):
    """What was measured on one data set at one delay; whether the claim is true of it, if that is asked."""

    value: Cell
    true: bool | None = None


def claims(outcomes: Sequence[Outcome], facts: Facts | None = None) -> list[Claim]:
    """Judge every claim by the outcomes of an experiment."""
    evidence = Evidence(outcomes)
    return [
        _slopes(evidence),
        _with_majority(_final_errors(evidence), facts or {}),
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
        "of Banditron and of SOBA without delay; steeper is allowed, as who is late has to catch up",
        lambda *at: slope(evidence.curve(*at)),
        lambda own, theirs: own <= AS_STEEP * theirs,
        lambda *at: slope(evidence.curve(*at)),
    )


def _final_errors(evidence: Evidence) -> Claim:
    return _beside_references(
        evidence,
        "b",
        "With delay the final error is close to that of the references without delay.",
        f"Final error. Close: at most {CLOSE} times that of Banditron and of SOBA without delay, or {NEAR} above",
        evidence.final,
        close,
        evidence.final_with_interval,
    )


def _with_majority(claim: Claim, facts: Facts) -> Claim:
    """Put the error of the most frequent class beside the errors of a claim, and say what few runs mean."""
    table = beside_majority(claim.table._replace(rows=with_runs(claim.table.rows)), facts)
    few = has_few_runs(Section(claim.key, "", table))
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
    """Hold a number of every case against that of each reference without delay; count for each, and for all.

    `value` is what is compared, `cell` what the table shows of it.
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


def _exceptions(rows: list[ClaimRow], with_no_delay: bool) -> Iterator[str]:
    """Name the cases in which it is not so, learner by learner."""
    for learner in dict.fromkeys(row.learner for row in rows):
        named = []
        for row in rows:
            delays = [d for d, case in row.cases.items() if case.true is False and (with_no_delay or d != "1")]
            if delays and row.learner == learner:
                named.append(f"{row.data} ({', '.join(delays)})")
        if named:
            yield f"{learner} on {', '.join(named)}"


def _table(rows: list[ClaimRow]) -> Table:
    delays = list(rows[0].cases) if rows else []
    shown = [name for name in REFERENCES if any(row.references[name] is not None for row in rows)]
    columns = ("data", "learner", *(f"delay {d}" for d in delays), *(f"{name}, delay 1" for name in shown))
    return Table(columns, tuple((*_cells(row), *(row.references[name] for name in shown)) for row in rows))


def _cells(row: ClaimRow) -> tuple[Cell, ...]:
    return row.data, row.learner, *(case.value for case in row.cases.values())
