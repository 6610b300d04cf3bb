"""How soon learners recover when all labels change their meaning, and what `forget` is worth where rows drift slowly.

python benchmarks/drift.py
"""

import argparse
from itertools import product
from typing import NamedTuple

import numpy as np

import delaytron as dt
from report import error_cell

ROUNDS, HALF, RUNS, WINDOW, BEFORE = 100_000, 50_000, 5, 2000, 10_000
AS_GOOD = 1.2  # times the error before
DELAYS = (1, 5000)
DATASETS = ("digits", "ecoli", "usps", "fashion_mnist", "synnonsep", "abalone", "cifar10")
LEARNERS = (("bandit_logit", {}), ("ova_logistic", {}), ("ova_logistic", {"standardize": True, "gamma": 0.01}))
FORGET = (0.0, 1e-4, 1e-3, 1e-2)
SLOW_ROUNDS, TURN = 40_000, 20_000


class Outcome(NamedTuple):
    """The error before the change; rounds until the change is noticed, until as good at first, and as good again."""

    before: float
    noticed: float
    at_first: float
    again: float


def no_fixed_point(n_classes, rng):
    """Return a permutation that leaves no label where it was."""
    order = rng.permutation(n_classes)
    return order if (order != np.arange(n_classes)).all() else no_fixed_point(n_classes, rng)


def play(name, parameters, data, delay, seed):
    """Play a stream whose labels change their meaning half way."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(data.n_rows, size=ROUNDS)
    y = data.y[rows]
    y[HALF:] = no_fixed_point(data.n_classes, rng)[y[HALF:]]
    learner = dt.LEARNERS[name](data.n_classes, data.X.shape[1], seed=seed, **parameters)
    run = dt.replay(learner, data.X[rows], y, rng.integers(1, delay + 1, size=ROUNDS), rng.random(ROUNDS))
    wrong = ~run.correct
    before = wrong[HALF - BEFORE : HALF].mean()
    again = [rounds_until(part, AS_GOOD * before) for part in (wrong[:HALF], wrong[HALF:])]
    return Outcome(before, noticed(run.probs, data.n_classes), *again)


def noticed(probs, n_classes):
    """Return how many rounds after the change all labels were equally likely, as at a new start; infinite if never."""
    equal = np.flatnonzero(np.isclose(probs[BEFORE:], 1 / n_classes, rtol=1e-9, atol=0))
    return BEFORE + equal[0] - HALF if equal.size else np.inf


def rounds_until(wrong, error):
    """Return after how many rounds a window had at most this error; infinite if none had."""
    sums = np.concatenate([[0], np.cumsum(wrong)])
    good = np.flatnonzero(sums[WINDOW:] - sums[:-WINDOW] <= error * WINDOW)
    return good[0] + WINDOW if good.size else np.inf


def rounds_cell(rounds):
    """Return the median and, in brackets, the worst."""
    median, worst = (f"{n:,.0f}" if np.isfinite(n) else "never" for n in (np.median(rounds), max(rounds)))
    return f"{median} ({worst})"


def cells_of(outcomes):
    before, *rounds = zip(*outcomes, strict=True)
    return [error_cell(before), *map(rounds_cell, rounds)]


def print_changes():
    print("| | D | learner | error before | noticed | as good at first | as good again |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for name in DATASETS:
        data = dt.datasets.load(name)
        for delay, (learner, options) in product(DELAYS, LEARNERS):
            cells = cells_of([play(learner, options, data, delay, seed) for seed in range(RUNS)])
            said = "".join(f", {key}={value}" for key, value in options.items())
            print(f"| {name} | {delay} | {learner}{said} | " + " | ".join(cells) + " |", flush=True)


def slow_error(forget, seed):
    """Return the error on rows of five classes around points that go round."""
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=SLOW_ROUNDS)
    angle = 2 * np.pi * np.arange(SLOW_ROUNDS)[:, None] / TURN
    points = 1.2 * rng.normal(size=(2, 5, 6))
    X = np.cos(angle) * points[0, y] + np.sin(angle) * points[1, y] + 0.5 * rng.normal(size=(SLOW_ROUNDS, 6))
    learner = dt.BanditLogit(5, 6, seed=seed, forget=forget)
    return (~dt.replay(learner, X, y, np.ones(SLOW_ROUNDS, int), rng.random(SLOW_ROUNDS)).correct).mean()


def print_forgetting():
    errors = {forget: np.array([slow_error(forget, seed) for seed in range(RUNS)]) for forget in FORGET}
    print("\n| forget | error | difference from 0, paired |\n|--:|--:|--:|")
    for forget, wrong in errors.items():
        print(f"| {forget} | {error_cell(wrong)} | {error_cell(wrong - errors[0.0])} |")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print_changes()
    print_forgetting()
