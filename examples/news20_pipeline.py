"""A scikit-learn pipeline that sorts messages into twenty groups, with late "right" or "wrong" as its only feedback.

The messages are those of 20 Newsgroups, as counts of their words. Run it with a number to read fewer of them.
"""

import sys

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

import delaytron as dt
from delaytron.sklearn import DelayedClassifier

DELAYS = {"at once": 1, "up to 1,000 messages later": 1000, "as late, and every fifth never": "1000+missing:0.2"}


def main() -> None:
    train, test = (dt.datasets.load("news20", part=part) for part in ("train", "test"))
    some = np.random.default_rng(0).permutation(train.n_rows)[: int(sys.argv[1]) if len(sys.argv) > 1 else None]
    X, y = train.X[some], train.y[some]
    print(f"{len(y):,} messages to learn from, {test.n_rows:,} to be sorted afterwards")
    for words, delay in DELAYS.items():
        pipeline = make_pipeline(TfidfTransformer(sublinear_tf=True), DelayedClassifier(delay=delay, random_state=0))
        pipeline.fit(X, y)
        curve = pipeline[-1].error_curve_
        wrong = np.diff(curve * np.arange(1, len(y) + 1), prepend=0)  # in each round, 1 or 0
        print(f"feedback {words}:")
        print(f"  wrong while learning {curve[-1]:.3f}, in the last quarter {wrong[-len(y) // 4 :].mean():.3f}")
        print(f"  wrong afterwards     {1 - pipeline.score(test.X, test.y):.3f}")
    full = make_pipeline(TfidfTransformer(sublinear_tf=True), SGDClassifier(random_state=0)).fit(X, y)
    print(f"a linear classifier that gets every label: wrong {1 - full.score(test.X, test.y):.3f}")


if __name__ == "__main__":
    main()
