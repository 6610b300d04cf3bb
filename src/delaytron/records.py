"""Records that packages exchange: named tuples of numbers and arrays."""

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.int32]
Rounds = NDArray[np.uint32]  # unsigned: an index that cannot be negative costs the compiled loop nothing to check
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

NEVER = int(np.iinfo(np.int64).max // 2)  # the delay of feedback that is lost; t + NEVER still fits into 64 bits


class Moment(NamedTuple):
    """A time in ns, by the wall clock and by the steady clock that decides about expiry."""

    wall: int
    clock: int


Id = TypeVar("Id", int, str)
Label = TypeVar("Label")


class Decision(NamedTuple, Generic[Id, Label]):
    """A decision; feedback refers to it by its `id`. Labels of a learner are numbers, those of a model are names."""

    id: Id
    round: int
    label: Label
    greedy: Label
    prob: float

    def _repr_html_(self: Any) -> str:
        from delaytron.notebooks import facts, page  # noqa: PLC0415 - for notebooks only

        return page("Decision", facts(self._asdict()))


class Row(NamedTuple):
    """One example: a dense row (`indices` is None), or the non-zeros of a sparse one."""

    indices: Any
    values: Array


class Play(NamedTuple):
    """A round as it was played: everything that an update by its answer needs."""

    round: int
    x: Row
    greedy: int
    label: int
    prob: float
    extra: Array  # what else the learner stored for the update


class Columns(NamedTuple):
    """The choices of rounds that were played together."""

    greedy: Ints
    label: Ints
    prob: Array
    extra: Array


class Size(NamedTuple):
    """The size of a state: classes, features, dense or sparse rows, and how many rounds may be open at once."""

    n_classes: int
    n_features: int
    sparse: bool
    n_open: int = 1


class Stream(NamedTuple):
    """The examples and their labels: dense (`indptr` and `indices` are None) or CSR."""

    indptr: Any
    indices: Any
    values: Array
    y: Ints


class Scenarios(NamedTuple):
    """What happens to a run apart from its learner; each array has one entry per scenario.

    In round t (from 0) the answers to the rounds `arrivals[starts[t]:starts[t + 1]]`, ascending, are delivered,
    then row `rows[t]` is shown, and `draws[t]` decides what is explored. `kinds` has the kind of event of each
    arrival, and `waiting` how many rounds wait for an answer in round t, itself included; both are empty without
    expiry. Where delays depend on the outcome, the events of both outcomes are there: those that only one of them has
    carry a condition in `kinds`, and `waiting` is empty, since the loop has to count. `flips` says for each round
    whether noise flips its answer (bit 0: if it is a "wrong", bit 1: if it is a "right"); it is empty without noise.
    """

    rows: Rounds
    draws: Array
    starts: Rounds
    arrivals: Rounds
    kinds: Bytes
    flips: Bytes
    waiting: Rounds


class Span(NamedTuple):
    """The rounds start..stop-1, and how many rounds ahead their rows are prefetched (0: not at all).

    Prefetching pays where rows are read in random order from more memory than the caches hold; elsewhere it costs.
    """

    start: int
    stop: int
    ahead: int


class RoundRing(NamedTuple):
    """The columns of the open rounds, a ring whose length is a power of two, and the mistakes so far.

    `mistakes` counts the played labels that were wrong and, second, the greedy ones. `losses` sums up the hinge of the
    scores and, second, the part of it from rounds whose greedy label was wrong; it is empty if they are not needed.
    `ended` counts the rounds that wait no longer, where the scenario does not say how many wait.
    """

    greedy: Labels
    label: Labels
    prob: Array
    extra: Array
    mistakes: Ints
    losses: Array
    ended: Ints


class Run(NamedTuple):
    """One replayed run: a number per round, and the weights after the last update."""

    labels: Ints
    greedy: Ints
    probs: Array
    correct: Bools
    weights: Array
