r"""Standardised rows for any learner: `standardize=True` puts this around its rule.

.. math::
    z_j = \mathrm{clip}\Big(\frac{x_j - \mu_j}{\sigma_j},\, -5,\, 5\Big), \qquad
    \text{the learner sees } \frac{(z_1, \dots, z_d, 1)}{\|(z_1, \dots, z_d, 1)\|}

with the mean and the deviation of every feature over the rows seen so far; a feature that never varied gives 0. No
answers are needed, so the statistics are never late. They are refreshed at the tick of a round only, see
`kernels.standardize`. An answer is applied to its row as it is standardised when the answer comes.

A standardised row has no zeros to skip. So a sparse row is written out as a dense one, the learner's state is one for
d + 1 dense features, and a round takes O(K d) for dense and sparse rows alike; both give the same bits.
"""

from functools import cache, partial
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.compiler.kernel import fill, interpreted, kernel, slot
from delaytron.kernels.linear import row_of, squared_norm
from delaytron.kernels.standardize import (
    empty_features,
    is_due,
    none_seen,
    observe,
    refresh_statistics,
    standardize_row,
)
from delaytron.learners.rule import Rule, extended_state, step_late
from delaytron.records import Array, Ints, Play, Row, Size, Stream

if TYPE_CHECKING:
    from delaytron.learners.learner import Learner

base_pick: Any = slot()
base_step: Any = slot()
base_tick: Any = slot()
base_revise: Any = slot()
base_look: Any = slot()


class Statistics(NamedTuple):
    """The statistics of `kernels.standardize`, and a buffer for one row."""

    seen: Ints
    features: Array
    squares: Array
    z: Array


OWN_FIELDS = ("row_seen", "row_features", "row_squares", "row")  # the last one has a constant behind the features


@kernel
def statistics_of(state: Any) -> Statistics:
    """Return the statistics in a state, under the names that `kernels.standardize` uses."""
    return Statistics(state.row_seen, state.row_features, state.row_squares, state.row[: state.row_squares.size])


@kernel
def write_out(indices: Any, values: Array, out: Array) -> None:
    """Write a row with all its zeros to the beginning of `out`."""
    if indices is None:
        for j in range(values.size):
            out[j] = values[j]
    else:
        out[:] = 0.0
        for i in range(values.size):
            out[indices[i]] = values[i]


@kernel
def add_constant(row: Array) -> None:
    """Put a constant 1 behind the features, and divide all by the length of the row."""
    row[row.size - 1] = 1.0
    shrink = 1.0 / sqrt(squared_norm(row))
    for j in range(row.size):
        row[j] *= shrink


@kernel
def pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Add the row to the statistics, and let the base play it standardised."""
    write_out(x.indices, x.values, state.row)
    statistics = statistics_of(state)
    observe(statistics, None, statistics.z)
    add_constant(state.row)
    greedy, label, prob = base_pick(state, params, Row(None, state.row), allowed, u, scratch, extra)
    return greedy, label, prob


@kernel
def seen_now(state: Any, x: Row) -> Row:
    """Write a row, standardised as of now, to `state.row`; return that: the next call overwrites it."""
    write_out(x.indices, x.values, state.row)
    statistics = statistics_of(state)
    standardize_row(statistics, None, statistics.z)
    add_constant(state.row)
    return Row(None, state.row)


@kernel
def look(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Let the base look at the standardised row, without adding it to the statistics."""
    return int(base_look(state, params, seen_now(state, x), allowed, scores, p))


@kernel
def as_seen_now(state: Any, past: Play) -> Play:
    """Return a round with its row as it is standardised now."""
    return Play(past.round, seen_now(state, past.x), past.greedy, past.label, past.prob, past.extra)


@kernel
def step(state: Any, params: Any, past: Play, observation: Any) -> None:
    """Let the base learn from the row as it is standardised now."""
    base_step(state, params, as_seen_now(state, past), observation)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Let the base correct a "wrong" with the row as it is standardised now."""
    base_revise(state, params, as_seen_now(state, past), reward)


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:
    """Refresh the statistics if that is due, then let the base's clock tick."""
    statistics = statistics_of(state)
    if is_due(statistics):
        refresh_statistics(statistics, state.row_features.T, False)
    base_tick(state, params, now, outstanding)


def state_with_rows(own: type) -> Any:
    """Return the class of such states with the statistics."""
    return extended_state("Standardizing", own._fields, OWN_FIELDS)  # type: ignore[attr-defined]


def init(base: Rule, params: Any, size: Size) -> Any:
    """Return the base's state for standardised rows, before any row was seen."""
    n_runs = params[0].size
    written_out = size._replace(sparse=False)
    own = base.init(params, written_out._replace(n_features=size.n_features + 1))
    rows = none_seen(n_runs, written_out), empty_features(n_runs, written_out), np.zeros((n_runs, size.n_features))
    return state_with_rows(base.state)(*own, *rows, np.zeros((n_runs, size.n_features + 1)))


@cache
def standardizing(base: Rule) -> Rule:
    """Return a rule around the base that sees standardised rows; the base itself if it is not `standardizable`."""
    if not base.standardizable:
        return base
    slots = base.as_base("pick", "step", "tick", "revise")
    can_look = base.slots["look"] is not None
    if can_look:
        slots |= base.as_base("look")
    return Rule(
        f"standardizing({base.name})",
        base.params,
        None,
        step=fill(step, **slots),
        state=state_with_rows(base.state),
        init=partial(init, base),
        tick=fill(tick, **slots),
        observation=base.observation,
        extras=base.extras,
        revise=step_late if base.revise is step_late else fill(revise, **slots),
        pick=fill(pick, **slots),
        is_correct=base.is_correct,
        look=fill(look, **slots) if can_look else None,
        scratch=("row", *base.scratch),
        ties=base.ties,
        restricts=base.restricts,
        grows=base.grows,
        begin_class=base.begin_class,
        standardizes=True,
        softmax=base.softmax,
        corrects_exactly=base.corrects_exactly,
    )


@kernel
def standardize_all(stream: Stream, statistics: Statistics, out: Array) -> None:
    """Write every row of the stream to `out`, standardised."""
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        row = out[i]
        write_out(x.indices, x.values, row)
        own = Statistics(statistics.seen, statistics.features, statistics.squares, row[: row.size - 1])
        standardize_row(own, None, own.z)
        add_constant(row)


_standardize_all = fill(standardize_all, "standardize_all")
_statistics_of = interpreted(statistics_of)


def standardized_rows(learner: "Learner", rows: Stream, n_rows: int) -> Array:
    """Return dense or CSR rows as the learner would see them now: standardised, with a constant behind the features."""
    out = np.empty((n_rows, learner.n_features + 1))
    _standardize_all(rows, _statistics_of(learner.state), out)
    return out


def standardized_row(learner: "Learner", row: Row) -> Array:
    """Return one row as `standardized_rows` does."""
    indptr = None if row.indices is None else np.array([0, row.values.size])
    values = row.values[None] if row.indices is None else row.values
    return np.asarray(standardized_rows(learner, Stream(indptr, row.indices, values, np.empty(0, np.int64)), 1)[0])
