"""What a service takes at most, so that no client can make it run out of memory, disk or time."""

from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from delaytron.errors import InvalidInput
from delaytron.service.messages import NewModel
from delaytron.service.problems import TooLarge, TooMany

MOST_CLIENTS = 10_000  # whose rates are remembered


class Limits(NamedTuple):
    """The limits: of sizes, of counts, of seconds, and of requests per second by one client."""

    body_bytes: int = 1_000_000
    body_seconds: float = 10.0
    batch: int = 1_000
    features: int = 10_000
    classes: int = 1_000
    weights: int = 50_000_000
    models: int = 100
    open_decisions: int = 1_000_000
    rate: float | None = None


def check_model(limits: Limits, wanted: NewModel) -> None:
    """Raise if a model would be too large."""
    n_classes = len(wanted.classes)
    check_classes(limits, n_classes)
    n_features = _n_features(wanted)
    if n_features * n_classes > limits.weights:
        raise InvalidInput(
            f"a model must have {limits.weights:,} weights at most, got {n_features:,} features times "
            f"{n_classes:,} classes; give fewer bits or features"
        )


def _n_features(wanted: NewModel) -> int:
    if isinstance(wanted.features, int):
        return wanted.features
    return 2**wanted.bits if isinstance(wanted.features, str) else len(wanted.features)


def check_classes(limits: Limits, count: int) -> None:
    """Raise if a model would have too many classes."""
    if count > limits.classes:
        raise InvalidInput(f"a model must have {limits.classes:,} classes at most, got {count:,}")


def check_room(limits: Limits, n_models: int) -> None:
    """Raise if there is no room for another model."""
    if n_models >= limits.models:
        raise TooMany(
            f"there are {limits.models:,} models already, which is the limit; use one of them, or another service"
        )


def check_open(limits: Limits, n_open: int, more: int) -> None:
    """Raise if too many decisions would wait for an answer."""
    if n_open + more > limits.open_decisions:
        raise TooMany(
            f"{limits.open_decisions:,} decisions wait for an answer already, the limit; answer or cancel some, "
            "or start the service with a larger --max-open"
        )


def check_batch(limits: Limits, count: int) -> None:
    """Raise if there are too many in a batch."""
    if count > limits.batch:
        raise TooLarge(f"a batch must have {limits.batch:,} entries at most, got {count:,}; send several batches")


def check_features(limits: Limits, features: Any) -> None:
    """Raise if there are too many features in one request, at any depth."""
    left = limits.features
    todo = [features]
    while todo:
        value = todo.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            todo.extend(value.values() if isinstance(value, dict) else value)
        if left < 0:
            raise InvalidInput(f"a decision must have {limits.features:,} features at most, got more; leave some out")


class RateLimit:
    """A bucket of tokens for each client: as many as `rate` drop in every second, and it holds those of two.

    Examples
    --------
    >>> limit = RateLimit(1.0, clock=lambda: 0.0)
    >>> limit.take("a"), limit.take("a")
    (None, None)
    >>> limit.take("a")
    Traceback (most recent call last):
    ...
    delaytron.service.problems.TooMany: more than 1 requests per second; try again in 1 s
    """

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # client -> tokens, and when there were so many

    def take(self, client: str) -> None:
        """Let one request of a client pass, or raise."""
        now = self._clock()
        size = 2 * max(1.0, self._rate)
        tokens, since = self._buckets.pop(client, (size, now))
        tokens = min(size, tokens + (now - since) * self._rate)
        self._buckets[client] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]  # the one that has been silent longest
        if tokens < 1:
            seconds = (1 - tokens) / self._rate
            raise TooMany(f"more than {self._rate:g} requests per second; try again in {ceil(seconds)} s", seconds)
