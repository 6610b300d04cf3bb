"""Vowpal Wabbit's own bandit learner, as a point of orientation.

It is another learner (epsilon-greedy over cost-sensitive regression, single precision, hashed features), and it
knows no delay: every answer is learned from at once.
"""

from time import thread_time

import numpy as np
from scipy import sparse


def learn_seconds(X, y, n_classes):
    """Seconds of ``Workspace.learn`` with ``--cbify K`` alone, called once per row on examples parsed beforehand.

    A thousand examples are parsed, then learned.
    """
    from vowpalwabbit import Workspace  # noqa: PLC0415 - only here, and only for measurements

    # Unhashed, integer feature names are addresses, and cbify then learns badly or not at all: three classes
    # with one feature each stay at chance (VW 9.11.9); hashed, they are learned at once.
    options = f"--cbify {n_classes} --epsilon 0.02 --random_seed 0 --hash all --quiet"
    lines = _lines(X, y)
    seconds = 0.0
    with Workspace(options) as vw:
        for first in range(0, len(lines), 1000):
            examples = [vw.parse(line) for line in lines[first : first + 1000]]
            begin = thread_time()
            for example in examples:
                vw.learn(example)
            seconds += thread_time() - begin
            for example in examples:
                vw.finish_example(example)
    return seconds


def _lines(X, y):
    """Rows as VW text: "label | index:value ..."."""
    labels = np.asarray(y).tolist()
    return [f"{label + 1} | {text}" for label, text in zip(labels, feature_texts(X), strict=True)]


def feature_texts(X):
    """Rows as VW text without a label, zeros left out: "index:value ..."."""
    X = sparse.csr_array(X)
    texts = []
    for t in range(X.shape[0]):
        row = slice(X.indptr[t], X.indptr[t + 1])
        pairs = zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)
        texts.append(" ".join(f"{j}:{v:.9g}" for j, v in pairs))
    return texts
