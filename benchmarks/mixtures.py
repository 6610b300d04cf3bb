"""How soon the default learner finds every class of a mixture of many Gaussian ones, and how many it loses.

python benchmarks/mixtures.py
"""

import argparse
from typing import NamedTuple

import numpy as np

import delaytron as dt
from report import error_cell

DELAYS = (1, 1000, 5000)
SPREAD = 1.2  # of the centres, in deviations of the noise
LAST, LEAST_RIGHT = 10_000, 0.3  # a class is lost if less than this share of its last rounds is right


class Mixture(NamedTuple):
    """How many classes and features it has, and what is played of it."""

    n_classes: int
    n_features: int
    rounds: int
    runs: int


MIXTURES = (Mixture(50, 30, 60_000, 10), Mixture(200, 50, 600_000, 3))


def play(mixture, delay, seed):
    """Return the labels, and whether they were played."""
    K, d, T, _ = mixture
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=T)
    X = SPREAD * rng.normal(size=(K, d))[y] + rng.normal(size=(T, d))
    delays = rng.integers(1, delay + 1, size=T)
    return y, dt.replay(dt.BanditLogit(K, d, seed=seed), X, y, delays, rng.random(T)).correct


def last_found(y, right, n_classes):
    """Return the first round by which every class was played right; infinite if one never was."""
    found, first = np.unique(y[right], return_index=True)
    return np.flatnonzero(right)[first].max() + 1 if found.size == n_classes else np.inf


def lost(y, right, n_classes):
    """Return how many classes are lost in the end."""
    shown = np.bincount(y[-LAST:], minlength=n_classes)
    played = np.bincount(y[-LAST:][right[-LAST:]], minlength=n_classes)
    return (played < LEAST_RIGHT * shown).sum()


def print_row(mixture, delay):
    plays = [play(mixture, delay, seed) for seed in range(mixture.runs)]
    found = [last_found(y, right, mixture.n_classes) for y, right in plays]
    losses = [lost(y, right, mixture.n_classes) for y, right in plays]
    rounds = [f"{np.mean(found):,.0f}", f"{max(found):,.0f}"]
    error = error_cell([(~right).mean() for _, right in plays])
    cells = [*mixture, delay, *rounds, f"{sum(losses)} in {np.count_nonzero(losses)}", error]
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("| K | d | rounds | runs | D | last class found, mean | worst | classes lost in runs | error |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for mixture in MIXTURES:
        for delay in DELAYS:
            print_row(mixture, delay)
