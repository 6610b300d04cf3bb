"""The default learner under answers that are missing, flipped, later if they are bad, or that come in batches.

python benchmarks/hostile.py
"""

import argparse
import heapq

import numpy as np

import delaytron as dt
from report import error_cell

SEED, ROUNDS, RUNS = 2, 100_000, 10
DATASETS = ("digits", "usps", "ecoli", "abalone", "fashion_mnist")
WAITS = {"any answer": (500, 500), '"wrong" ten times later': (500, 5000), '"right" ten times later': (5000, 500)}
ONLINE_ROUNDS, ONLINE_RUNS = 20_000, 5
BOUGHT = ((0.5, 0.1), (0.1, 0.2), (0.05, 0.6))  # how often each banner makes either kind of visitor buy
BATCHES, VISITORS, LAST, BATCH_RUNS = (1, 100, 300, 500), 1500, 500, 40
FEEDBACK = {
    "every answer, D = 1": {"delay": 1},
    "every answer, D = 5000": {"delay": 5000},
    "80 % of the answers missing, D = 5000": {"delay": "uniform:5000+missing:0.8"},
    "10 % of the answers flipped, D = 1": {"delay": 1, "noise": (0.1, 0.1)},
    "10 % of the answers flipped, D = 5000": {"delay": 5000, "noise": (0.1, 0.1)},
}


def simulated(data, options):
    result = dt.simulate(dt.DEFAULT_LEARNER, data, rounds=ROUNDS, runs=RUNS, seed=SEED, n_jobs=1, **options)
    return result.final_error


def print_simulated():
    data = {name: dt.datasets.load(name) for name in DATASETS}
    print("| | " + " | ".join(data) + " |\n|---|" + "--:|" * len(data))
    for name, options in FEEDBACK.items():
        cells = [error_cell(simulated(rows, options)) for rows in data.values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def play_online(data, waits, seed):
    """Return the error where the answer decides how long it takes: uniform on 1..waits[0] if right, else waits[1]."""
    rng = np.random.default_rng([SEED, seed])
    learner = dt.BanditLogit(data.n_classes, data.X.shape[1], seed=seed)
    due, wrong = [], 0
    for t, i in enumerate(rng.integers(data.n_rows, size=ONLINE_ROUNDS)):
        while due and due[0][0] <= t:
            _, number, right = heapq.heappop(due)
            learner.feedback(number, correct=right)
        decision = learner.decide(data.X[i])
        right = bool(decision.label == data.y[i])
        wrong += not right
        heapq.heappush(due, (t + int(rng.integers(1, waits[not right] + 1)), decision.id, right))
    return wrong / ONLINE_ROUNDS


def print_online():
    """Print the errors of digits, where delays depend on the answer."""
    data = dt.datasets.load("digits")
    print("\n| delays up to 500 | digits |\n|---|--:|")
    for name, waits in WAITS.items():
        print(f"| {name} | {error_cell([play_online(data, waits, seed) for seed in range(ONLINE_RUNS)])} |", flush=True)


def play_batches(name, batch, seed):
    """Return how often the last visitors buy on average, if answers come in batches of this size."""
    rng = np.random.default_rng(seed)
    learner = dt.LEARNERS[name](len(BOUGHT), 2, seed=seed)
    waiting, rates = [], []
    for kind in rng.integers(2, size=VISITORS):
        decision = learner.decide(np.eye(2)[kind])
        rates.append(BOUGHT[decision.label][kind])
        waiting.append((decision.id, bool(rng.random() < rates[-1])))
        if len(waiting) == batch:
            for number, bought in waiting:
                learner.feedback(number, correct=bought)
            waiting.clear()
    return np.mean(rates[-LAST:])


def print_batches():
    """Print the rates of buying, by the size of a batch of answers."""
    names = (dt.DEFAULT_LEARNER, "ova_logistic")
    print("\n| answers in a batch | " + " | ".join(names) + " |\n|--:|" + "--:|" * len(names))
    for batch in BATCHES:
        cells = [error_cell([play_batches(name, batch, seed) for seed in range(BATCH_RUNS)]) for name in names]
        print(f"| {batch} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print_simulated()
    print_online()
    print_batches()
