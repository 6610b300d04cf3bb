"""The cost of silent wrong answers, with a fifth of the right ones after the expiry.

A decision that is right is answered, by four in five within the window and by one in five up to three windows
later; one that is wrong is never answered (a click comes, or it does not). Four ways to deal with it, on the same
rows, delays and draws: all reported (the wrong answers come, too: the reference), dropped, counted as wrong for
good, and counted as wrong until a late "right" corrects it. Played through the online object.
"""

import sys

import numpy as np
from scipy.sparse import csr_matrix

import delaytron as dt

WINDOW, LATE = 500, 0.2
WAYS = {
    "all reported": {},
    "dropped": {"expire_after": WINDOW},
    "wrong for good": {"expire_after": WINDOW, "on_expiry": "wrong"},
    "wrong, corrected": {"expire_after": WINDOW, "on_expiry": "wrong"},
}
LEARNERS = {
    "delaytron": {"gamma": 2.0**-5},
    "adaptive_delaytron": {"gamma": 2.0**-5},
    "hinge_delaytron": {"gamma": 2.0**-5, "B": 100.0},
    "soba": {"gamma": 2.0**-5},
    "pab": {"gamma": 2.0**-8, "C": 2.0**-6, "variant": "I"},
    "ova_logistic": {"gamma": 2.0**-8},
}


def draw_delays(n_rounds, rng):
    """Return delays of the right answers: within the window, or for a fifth of them up to three windows."""
    late = rng.random(n_rounds) < LATE
    return np.where(late, rng.integers(WINDOW + 1, 3 * WINDOW, n_rounds), rng.integers(1, WINDOW + 1, n_rounds))


def play(name, way, data, examples, n_rounds, seed):
    """Return the error of the played labels over all rounds."""
    rng = np.random.default_rng(seed)
    rows, delays = rng.integers(data.n_rows, size=n_rounds), draw_delays(n_rounds, rng)
    learner = dt.LEARNERS[name](data.n_classes, data.n_features, seed=seed, **LEARNERS[name], **WAYS[way])
    due, wrong = {}, 0
    for t, row in enumerate(rows):
        for number, right in due.pop(t, ()):
            learner.feedback(number, correct=right)
        decision = learner.decide(examples[row])
        right = bool(decision.label == data.y[row])
        wrong += not right
        reported = right or way == "all reported"
        in_time = delays[t] <= WINDOW or way != "wrong for good"
        if reported and in_time:
            due.setdefault(t + delays[t], []).append((decision.id, right))
    return wrong / n_rounds


def main(n_rounds=100_000, runs=3):
    for dataset in ("synsep", "synnonsep"):
        data = dt.datasets.load(dataset, n_samples=10_000)
        examples = [csr_matrix(data.X)[i] for i in range(data.n_rows)]
        print(f"{dataset}, {n_rounds} rounds, {runs} runs: mean error (lowest to highest run)")
        for name in LEARNERS:
            cells = []
            for way in WAYS:
                errors = [play(name, way, data, examples, n_rounds, seed) for seed in range(runs)]
                cells.append(f"{way} {np.mean(errors):.4f} ({min(errors):.4f}-{max(errors):.4f})")
            print(f"  {name:20}", "  ".join(cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
