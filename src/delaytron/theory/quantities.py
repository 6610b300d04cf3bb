"""Quantities of a sequence of delays that enter the bounds: missing, pending and outstanding rounds, and sums.

Rounds count from 1 in the formulas, as in the paper; entry i of an array belongs to round i + 1. The answer to
round t comes with round :math:`r_t = t + d_t`, and never if that is after T. It is applied before that round
predicts (`timing="before"`, as all learners here do), or after it (`timing="after"`, as Algorithm 1 is typeset).
All are exact, in linear time, and raise InvalidInput unless delays are integers of at least 1, one per round.
"""

from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_bool, check_choice, check_integers
from delaytron.errors import InvalidInput
from delaytron.records import Bools, Ints

TIMINGS = ("before", "after")
TRACKERS = ("cumulative", "instant")


class Quantities(NamedTuple):
    """The quantities of the delays of a run that bounds take, by the names of their arguments."""

    n_rounds: int
    missing: int
    delay_received: int
    total_delay: int
    outstanding: int
    max_outstanding: int


def measure(delays: Any, *, timing: str = "before") -> Quantities:
    """Return all quantities of delays that enter a bound.

    Examples
    --------
    >>> measure([1, 3, 1, 2, 2, 1, 4, 1])
    Quantities(n_rounds=8, missing=2, delay_received=10, total_delay=15, outstanding=5, max_outstanding=1)
    """
    given = _checked(delays)
    waits = outstanding(given, timing=timing)
    return Quantities(
        n_rounds=given.size,
        missing=int(missing(given).sum()),
        delay_received=delay_received(given),
        total_delay=total_delay(given),
        outstanding=int(waits.sum()),
        max_outstanding=int(waits.max()),
    )


def missing(delays: Any) -> Bools:
    r"""Return which rounds are never answered: the set :math:`M = \{t : t + d_t > T\}`, which always has round T.

    Examples
    --------
    >>> np.flatnonzero(missing([1, 3, 1, 2, 2, 1, 4, 1])) + 1
    array([7, 8])
    """
    return _due(_checked(delays)) > len(delays)


def waiting(delays: Any) -> Ints:
    r"""Count the pending rounds in each round, itself included, after the answers that come with it: m_t.

    .. math:: m_t = t - \sum_{s \le t} |S_s|, \qquad \sum_t m_t = \sum_t \min(d_t, T - t + 1)

    The paper prints :math:`\min(d_t, T - t - 1)`, which is wrong by two.

    Examples
    --------
    >>> waiting([1, 3, 1, 2, 2, 1, 4, 1])
    array([1, 1, 2, 2, 2, 2, 1, 2])
    """
    arrivals = _arrivals(_checked(delays))
    changes = np.subtract(1, arrivals, out=arrivals)  # in place: allocating takes longer than the arithmetic
    return np.cumsum(changes, out=changes)


def outstanding(delays: Any, *, timing: str = "before") -> Ints:
    r"""Count the earlier rounds whose answers are not yet applied when each round predicts: o_t.

    .. math::
        o_t = m_t - 1, \quad \sum_t o_t = \sum_t \min(d_t - 1, T - t) \quad \text{(before)}, \qquad
        o_t = m_{t-1}, \quad \sum_t o_t = \sum_t \min(d_t, T - t) \quad \text{(after)}

    Examples
    --------
    >>> int(outstanding([1, 3, 1, 2, 2, 1, 4, 1]).sum())
    5
    >>> int(outstanding([1, 3, 1, 2, 2, 1, 4, 1], timing="after").sum())
    11
    """
    before = check_choice("timing", timing, TIMINGS) == "before"
    counts = waiting(delays)
    if before:
        counts -= 1
    else:
        counts[1:] = counts[:-1]
        counts[0] = 0
    return counts


def max_outstanding(delays: Any, *, timing: str = "before") -> int:
    """The largest o_t.

    Examples
    --------
    >>> max_outstanding([3, 3, 3, 3, 3])
    2
    """
    return int(outstanding(delays, timing=timing).max())


def delay_received(delays: Any) -> int:
    r"""Sum the delays of the rounds that are answered, :math:`\sum_{t \notin M} d_t`.

    Examples
    --------
    >>> delay_received([1, 3, 1, 2, 2, 1, 4, 1])
    10
    """
    given = _checked(delays)
    return int(given.sum(where=~missing(given)))


def total_delay(delays: Any) -> int:
    r"""Sum all delays, :math:`\sum_t d_t`.

    A missing answer counts with its huge delay. Answers after round T change nothing in a run, so the bounds also hold
    with delays that are cut there; their sum is that of `waiting`.

    Examples
    --------
    >>> total_delay([1, 3, 1, 2, 2, 1, 4, 1]), int(waiting([1, 3, 1, 2, 2, 1, 4, 1]).sum())
    (15, 13)
    """
    given = _checked(delays)
    # Delays of missing answers would overflow a sum of 64 bits: high and low halves are summed on their own.
    return (int((given >> 32).sum()) << 32) + int((given & 0xFFFFFFFF).sum())


def counting_sum(delays: Any, *, timing: str = "before") -> int:
    r"""Count the updates that are applied between the prediction and the update of a round: the sum of Lemma 1.

    .. math::
        \sum_t \sum_{s \in S_t} \Big[ |S_{t,s}| + \sum_{r=s}^{t-1} |S_r| \Big]
        = \#\{q < s : s \le q + d_q,\; q, s \notin M\} \le \sum_{t \notin M} d_t

    for `timing="after"`. Before, the inner sum starts at s + 1, the pairs are those with :math:`s < q + d_q`, and they
    are at most :math:`\sum_{t \notin M} (d_t - 1)`. Each pair of rounds that overlap counts once, so the factor 2 of
    the lemma is not needed.

    Examples
    --------
    >>> counting_sum([1, 3, 1, 2, 2, 1, 4, 1]), counting_sum([1, 3, 1, 2, 2, 1, 4, 1], timing="after")
    (4, 8)
    """
    given = _checked(delays)
    comes = ~missing(given)
    arrivals = _arrivals(given)
    applied = np.cumsum(arrivals, out=arrivals)
    if check_choice("timing", timing, TIMINGS) == "after":
        applied[1:] = applied[:-1]
    asked: Ints = np.cumsum(comes) - comes  # earlier rounds that are answered at some time
    return int((asked - applied).sum(where=comes))


def epochs(delays: Any, *, tracker: str = "cumulative", count_self: bool = True) -> Ints:
    r"""Return the epoch of the doubling of Adaptive Delaytron in each round, with the learner's own options.

    .. math:: e_t = \min\Big\{ e : \sum_{s \le t} m_s < 2^e \Big\}, \qquad \sum_{t : e_t = e} m_t < \tfrac34\, 2^e

    That is `tracker="cumulative"`; with "instant" the largest m_s so far takes the place of the sum. Without
    `count_self` every m_s is one less. At most one epoch begins in a round. The paper claims :math:`2^{e-1}` for the
    second sum, which is false.

    Examples
    --------
    >>> epochs([1, 3, 1, 2, 2, 1, 4, 1])
    array([1, 2, 3, 3, 4, 4, 4, 4])
    """
    counts = waiting(delays) - (not check_bool("count_self", count_self))
    sums = check_choice("tracker", tracker, TRACKERS) == "cumulative"
    reached = np.cumsum(counts) if sums else np.maximum.accumulate(counts)
    starts = np.searchsorted(reached, 2 ** np.arange(62))  # at index starts[e] epoch e + 1 begins
    return np.cumsum(np.bincount(starts, minlength=counts.size + 1)[: counts.size])


def _checked(delays: Any) -> Ints:
    if not hasattr(delays, "__len__") or getattr(delays, "ndim", 1) == 0:
        raise InvalidInput.of("delays", "one integer per round", delays)
    given = check_integers("delays", delays, len(delays), low=1)
    if not given.size:
        raise InvalidInput.of("delays", "those of at least one round", got="none")
    return given


def _due(delays: Ints) -> Ints:
    """r_t for each round t."""
    due = np.arange(1, delays.size + 1)
    due += delays
    return due


def _arrivals(delays: Ints) -> Ints:
    """|S_t| for each round t."""
    beyond = delays.size + 1
    due = _due(delays)
    return np.bincount(np.minimum(due, beyond, out=due), minlength=beyond + 1)[1:beyond]
