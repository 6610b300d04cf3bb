"""Worlds: rows with an expected reward for every label, several of which may be good."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from delaytron.checks import check_integer, check_number
from delaytron.datasets import Dataset
from delaytron.errors import InvalidInput
from delaytron.records import Array
from delaytron.rng import stream

VISITORS = ("student", "parent", "retired")
ADS = ("shoes", "books", "garden", "games")
AD_RATES = np.array([[0.30, 0.25, 0.15, 0.55], [0.55, 0.30, 0.25, 0.20], [0.20, 0.35, 0.60, 0.15]])
HOURS = 24


class World(NamedTuple):
    """A data set whose labels are the best ones, and the expected reward of each label on each row."""

    data: Dataset
    rewards: Array


def contexts(high: float = 0.1, low: float = 0.05, count: int = 4) -> World:
    """Return as many rows as labels, one-hot: on each another label has the rate `high`, all others have `low`.

    Examples
    --------
    >>> contexts(0.5, 0.25, count=2).rewards
    array([[0.5 , 0.25],
           [0.25, 0.5 ]])
    """
    check_rates(high, low, "high", "low")
    size = check_integer("count", count, at_least=2, at_most=1000)
    eye = np.eye(size)
    return _world("contexts", eye, low + (high - low) * eye)


def ads(factor: float = 1.0) -> World:
    """Return three kinds of visitors at each hour of the day, and how often each clicks on four ads, times a factor.

    Examples
    --------
    >>> world = ads(0.1)
    >>> world.data.n_rows, float(world.rewards.max().round(6))
    (72, 0.06)
    """
    if not 0 < check_number("factor", factor) <= 1:
        raise InvalidInput.of("factor", "in (0, 1]", factor)
    kinds = np.repeat(np.arange(len(VISITORS)), HOURS)
    hours = np.tile(np.arange(HOURS, dtype=np.float64), len(VISITORS))
    X = np.column_stack([np.eye(len(VISITORS))[kinds], hours])
    return _world("ads", X, factor * AD_RATES[kinds], ADS, (*VISITORS, "hour"))


def linear_world(
    classes: int = 5, base_rate: float = 0.5, features: int = 20, n_samples: int = 20_000, seed: int = 0
) -> World:
    """Return normal rows; the logit of a label's reward is linear in the row, with random weights and intercepts.

    Parameters
    ----------
    base_rate : float
        The mean reward over all rows and labels: one number that is added to all logits makes it so.

    Examples
    --------
    >>> world = linear_world(classes=3, base_rate=0.01, n_samples=500)
    >>> world.rewards.shape, round(float(world.rewards.mean()), 6)
    ((500, 3), 0.01)
    """
    K = check_integer("classes", classes, at_least=2, at_most=10_000)
    d = check_integer("features", features, at_least=1, at_most=10_000)
    n = check_integer("n_samples", n_samples, at_least=1, at_most=1_000_000)
    if not 0 < check_number("base_rate", base_rate) < 1:
        raise InvalidInput.of("base_rate", "in (0, 1)", base_rate)
    rng = stream(seed, "linear world")
    X = rng.standard_normal((n, d))
    weights = rng.standard_normal((K, d)) / np.sqrt(d)
    logits = X @ weights.T + 0.3 * rng.standard_normal(K)
    low, high = -50.0, 50.0
    for _ in range(60):  # the mean grows with the shift
        shift = (low + high) / 2
        low, high = (low, shift) if _sigmoid(logits + shift).mean() > base_rate else (shift, high)
    return _world("linear_world", X, _sigmoid(logits + shift))


WORLDS: dict[str, Callable[..., World]] = {"contexts": contexts, "ads": ads, "linear_world": linear_world}


def check_rates(right: float, wrong: float, right_name: str, wrong_name: str) -> None:
    """Raise InvalidInput unless both are rates and the first is the larger one."""
    for name, rate in ((wrong_name, wrong), (right_name, right)):
        if not 0 <= check_number(name, rate) <= 1:
            raise InvalidInput.of(name, "in [0, 1]", rate)
    if right <= wrong:
        raise InvalidInput.of(right_name, f"above {wrong_name}, {wrong:g}", right)


def _world(name: str, X: Array, rewards: Array, labels: tuple[str, ...] = (), features: tuple[str, ...] = ()) -> World:
    labels = labels or tuple(map(str, range(rewards.shape[1])))
    data = Dataset(X, rewards.argmax(axis=1), name, labels, feature_names=features)
    return World(data, rewards)


def _sigmoid(logits: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-logits)))
