"""Delays that depend on the outcome of a round, on its true class or on its row: what they need, and their draws."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import did_you_mean
from delaytron.delays.models import OWN, SHUFFLED, ByClass, ByOutcome, Delay, OfRows, WithMissing, as_delay, one_line
from delaytron.delays.traces import Trace
from delaytron.errors import InvalidInput, Setting
from delaytron.records import Ints


class Rows(NamedTuple):
    """What delays may depend on: the rows that the rounds show, and the data that they are from."""

    shown: NDArray[Any]
    data: "Labelled"


class Labelled(NamedTuple):
    """The classes of the rows of a data set and, if they were recorded, the delays in rounds of each row."""

    labels: Ints
    class_names: tuple[str, ...]
    delays: Ints | None

    def rows(self, shown: NDArray[Any]) -> Rows:
        """Return what is known of rounds that show these rows."""
        return Rows(shown, self)


def parts(delay: Delay) -> Iterator[Delay]:
    """Iterate over a model and all models in it.

    Examples
    --------
    >>> [str(part) for part in parts(as_delay("right=10+missing:0.5/wrong=recorded"))][1:]
    ['uniform:10+missing:0.5', 'uniform:10', 'recorded']
    """
    yield delay
    inner: list[Delay | None] = []
    if isinstance(delay, WithMissing):
        inner = [delay.model]
    elif isinstance(delay, ByOutcome):
        inner = [delay.right, delay.wrong]
    elif isinstance(delay, ByClass):
        inner = [*delay.models.values(), delay.default]
    for one in inner:
        if one is not None:
            yield from parts(one)


def traces(delay: Delay) -> list[Trace]:
    """Return the recorded delays in a model."""
    return [part for part in parts(delay) if isinstance(part, Trace)]


def halves(delay: Delay) -> tuple[Delay, Delay]:
    """Return the models of answers that say "right" and of those that say "wrong": mostly twice the same."""
    return (delay.right, delay.wrong) if isinstance(delay, ByOutcome) else (delay, delay)


def depends_on_outcome(delay: Delay) -> bool:
    """Whether the delay of a round depends on what its answer says."""
    return isinstance(delay, ByOutcome)


def depends_on_rows(delay: Delay) -> bool:
    """Whether the delay of a round depends on its row or its class."""
    return any(isinstance(part, ByClass | OfRows) for part in parts(delay))


def as_independent(value: Any, what: str) -> Delay:
    """Return a delay model that depends on chance alone; raise InvalidInput, with `what` needs one, for others.

    Examples
    --------
    >>> as_independent(100, "a bound")
    Uniform(D=100)
    """
    delay = as_delay(value)
    if depends_on_outcome(delay) or depends_on_rows(delay):
        on = "outcomes" if depends_on_outcome(delay) else "rows"
        raise InvalidInput(
            f"{what} needs delays that do not depend on {on}, got {one_line(delay)}",
            "take another delay, such as lognormal:100,1.5",
            parameter="delay",
            value=str(delay),
        )
    return delay


def sample_for(delay: Delay, n_rounds: int, rng: np.random.Generator, rows: Rows | None) -> Any:
    """Return the delays of rounds that show these rows; `rows` may be None for a model that depends on chance alone."""
    if rows is None or not depends_on_rows(delay):
        return delay.sample(n_rounds, rng)
    if isinstance(delay, WithMissing):
        return delay._lose(sample_for(delay.model, n_rounds, rng, rows), n_rounds, rng)
    if isinstance(delay, ByClass):
        return _by_class(delay, n_rounds, rng, rows)
    own = cast(Ints, rows.data.delays)  # `check_fits` has refused data without
    if not isinstance(delay, OfRows) or not delay.shuffled:
        return own[rows.shown]
    passes = [rng.permutation(own) for _ in range(-(-n_rounds // own.size))]
    return np.concatenate(passes)[:n_rounds]


def _by_class(delay: ByClass, n_rounds: int, rng: np.random.Generator, rows: Rows) -> Ints:
    """Return delays by the true class; every model draws from the same random numbers."""
    labels = rows.data.labels[rows.shown]
    drawn = np.empty(n_rounds, np.int64)
    for label in np.unique(labels).tolist():
        model = cast(Delay, delay.models.get(rows.data.class_names[label], delay.default))  # see `check_fits`
        drawn[labels == label] = sample_for(model, n_rounds, deepcopy(rng), rows)[labels == label]
    return drawn


def check_fits(delay: Delay, data: Labelled, n_rounds: int) -> None:
    """Raise InvalidInput if delays that depend on rows cannot be played on these."""
    for part in parts(delay):
        if isinstance(part, OfRows):
            if data.delays is None:
                hint = ("load them with ", Setting("decided", "COLUMN"), " and ", Setting("answered", "COLUMN"))
                raise InvalidInput(f"the rows have no recorded delays, and the delay is {part}", hint)
            if n_rounds > data.delays.size and not part.shuffled:
                raise InvalidInput.of(
                    "rounds",
                    f"at most {data.delays.size}, as rows with their own delays are played once, in the order of time",
                    n_rounds,
                    f"give fewer, or the delay {SHUFFLED!r} in place of {OWN!r}",
                )
        if isinstance(part, ByClass):
            for name in part.models:
                if name not in data.class_names:
                    near = did_you_mean(name, data.class_names) or f"the first one is {data.class_names[0]}"
                    raise InvalidInput(
                        f"the delay {one_line(part)} names {name!r}, which is not a class of the data", near
                    )
            left = [name for name in data.class_names if name not in part.models]
            if part.default is None and left:
                problem = f"the delay {one_line(part)} has no model for the class {left[0]!r}"
                raise InvalidInput(problem, "give a default, in text /else=MODEL")
