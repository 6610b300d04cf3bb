"""Vowpal Wabbit as an entrant of the bake-off: a class with `decide` and `feedback`, for docs/results/bakeoff.toml.

It plays `--cb_explore K`: a prediction is a distribution over the labels, from which the label is drawn here, with a
seed; an answer is a cost with the probability of its label. So it plays the rows that all others play.
"""

import numpy as np

BITS = 20  # of the table of weights: collisions are rare
UNTOUCHED = "--epsilon 0.05"  # the default of VW, spelt out
MINUS_ONE = "--minus_one"  # not VW's: costs of -1 and 1 instead of 0 and 1
MOST_TEXTS = 50_000  # rows whose text is kept: most rows are shown many times


class VowpalWabbit:
    """Vowpal Wabbit with these options beside `--cb_explore K`."""

    def __init__(self, n_classes, n_features, seed, options=UNTOUCHED):  # noqa: ARG002 - rows say how many
        from vowpalwabbit import Workspace  # noqa: PLC0415 - the tests of what needs none of it go without

        given = options.split()
        self.right, self.wrong = (-1, 1) if MINUS_ONE in given else (0, 1)
        own = " ".join(word for word in given if word != MINUS_ONE)
        # Unhashed integer names are addresses, with which VW 9.11.9 learns badly: see vowpal.py.
        self._vw = Workspace(f"--cb_explore {n_classes} {own} --hash all -b {BITS} --random_seed {seed} --quiet")
        self._rng = np.random.default_rng(seed)
        self._open = {}
        self._texts = {}
        self._round = 0

    def decide(self, x):
        text = self._text(x)
        p = np.maximum(self._vw.predict(f"| {text}"), 0.0)
        label = int(np.searchsorted(np.cumsum(p), self._rng.random() * p.sum(), side="right"))
        label = min(label, p.size - 1)
        self._round += 1
        self._open[self._round] = label, p[label] / p.sum(), text
        return label

    def feedback(self, round, /, correct):
        label, prob, text = self._open.pop(round)
        cost = self.right if correct else self.wrong
        self._vw.learn(f"{label + 1}:{cost}:{prob:.9g} | {text}")

    def _text(self, x):
        key = x.tobytes()
        text = self._texts.get(key)
        if text is None:
            places = np.flatnonzero(x).tolist()
            text = " ".join(f"{j}:{v:.9g}" for j, v in zip(places, x[places].tolist(), strict=True))
            if len(self._texts) < MOST_TEXTS:
                self._texts[key] = text
        return text
