"""Random streams, and the ways to play one."""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

import delaytron as dt
from delaytron.compiler.kernel import Kernel
from delaytron.kernels.loop import ANSWER_EVENT, CORRECTION_EVENT, NOTHING
from delaytron.records import Play
from delaytron.rng import stream as random_stream

NEVER = 10**9


def by_learner(names):
    """Return test parameters; the tests of one learner run in one process, which then compiles it once."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


def learn(learner, past, answer):
    """Apply the answer to a past round, by the compiled function that `Learner` calls in every round."""
    _run_part(learner, past, (bool(answer == 1), int(answer), ANSWER_EVENT, 1), past.x, NOTHING, past.extra)


def correct_late(learner, past):
    """Let a past round that was counted as wrong be right after all."""
    _run_part(learner, past, (True, 1, CORRECTION_EVENT, 1), past.x, NOTHING, past.extra)


def choose(learner, row, u=0.5, extra=None):
    """Return the greedy label, the played one and its probability, as a round with this draw chooses them."""
    extra = np.empty(len(learner.rule.extras)) if extra is None else extra
    return _run_part(learner, Play(1, row, 0, 0, 0.0, extra), (False, 0, NOTHING, 0), row, u, extra)


def _run_part(learner, past, event, row, u, extra):
    parts = NOTHING, past, event, row, learner._labels, float(u), learner.scratch, extra
    return learner.rule.play_round(learner.state, learner.params, *parts)


class Story(NamedTuple):
    """What happens in one run; its draws are those of a learner with this seed."""

    X: object
    y: np.ndarray
    delays: np.ndarray
    n_classes: int
    seed: int

    @property
    def draws(self):
        return random_stream(self.seed, "exploration").random(len(self.y))

    @property
    def dense(self):
        return self.X if isinstance(self.X, np.ndarray) else self.X.toarray()

    def rows(self):
        return [self.X[t] if isinstance(self.X, np.ndarray) else csr_matrix(self.X)[t] for t in range(len(self.y))]


@st.composite
def stories(draw, sparse=None, max_rounds=60, general=False):
    """Dense or CSR, K from 2 to 30, heavy delays, many answers that never come; rows in `general` position or not."""
    seed = draw(st.integers(0, 2**32))
    n_classes, T = draw(st.integers(2, 30)), draw(st.integers(1, max_rounds))
    d = draw(st.integers(3 if general else 1, 40))
    longest, missing = draw(st.sampled_from([1, 2, 7, 100])), draw(st.sampled_from([0.0, 0.4]))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, d)) * (rng.random((T, d)) < draw(st.sampled_from([1.0] if general else [0.3, 1.0])))
    delays = np.where(rng.random(T) < missing, NEVER, rng.integers(1, longest + 1, T))
    is_sparse = draw(st.booleans()) if sparse is None else sparse
    return Story(csr_array(X) if is_sparse else X, rng.integers(0, n_classes, T), delays, n_classes, seed)


def clusters(n_rows, n_classes, n_features, spread=1.2, seed=0):
    """Return rows around one point for each class, and the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    return spread * rng.normal(size=(n_classes, n_features))[y] + rng.normal(size=(n_rows, n_features)), y


@contextmanager
def interpreter():
    """Run every kernel as plain Python."""
    compiled = Kernel.__dict__["compiled"]
    Kernel.compiled = property(lambda self: self.interpreted)
    try:
        yield
    finally:
        Kernel.compiled = compiled


def make(cls, story, **settings):
    return cls(story.n_classes, story.X.shape[1], seed=story.seed, **settings)


def play_compiled(learner, story, noise=None):
    return dt.replay(learner, story.X, story.y, story.delays, story.draws, noise)


def play_interpreted(learner, story, noise=None):
    with interpreter():
        return play_compiled(learner, story, noise)


def split_noise(options):
    """Return the options that are a learner's, and the noise, which is the simulator's."""
    return {name: value for name, value in options.items() if name != "noise"}, options.get("noise")


def flips_of(seed, noise, n_rounds):
    """Return of every round whether a "wrong" is flipped, and whether a "right" is, as `replay` with this seed does."""
    draws = random_stream(seed, "noise").random(n_rounds)
    return np.stack([draws < rho for rho in noise or (0.0, 0.0)], axis=1)


def play_online(learner, story, between=lambda learner, t: learner, noise=None):
    """Play through decide and feedback; `between` may replace the learner before each round, `noise` flips answers."""
    decisions, shuffle, flips = [], np.random.default_rng(story.seed), flips_of(story.seed, noise, len(story.y))
    for t, x in enumerate(story.rows()):
        learner = between(learner, t)
        due = [s for s in range(t) if s + story.delays[s] == t]
        for s in shuffle.permutation(due):
            answer(learner, decisions[s], story.y[s], flips[s])
        decisions.append(learner.decide(x))
    labels, greedy, probs = (np.array([getattr(d, name) for d in decisions]) for name in ("label", "greedy", "prob"))
    correct = np.array([is_right(decision, y) for decision, y in zip(decisions, story.y, strict=True)])
    return dt.Run(labels, greedy, probs, correct, learner.weights), learner


def is_right(decision, y):
    return int(y) in getattr(decision, "labels", (decision.label,))


def known_rounds(learner):
    """Return what the book of a learner knows of each round."""
    return [learner.book.known(number) for number in range(1, learner.book.rounds + 1)]


def answer(learner, decision, y, flips=(False, False)):
    if learner.feedback_type == "label":
        return learner.feedback(decision.id, label=int(y))
    right = is_right(decision, y)
    return learner.feedback(decision.id, correct=bool(right != flips[int(right)]))


def same_bits(a, b):
    """Whether two runs (or arrays) are equal to the bit."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return all(same_bits(x, y) for x, y in zip(a, b, strict=True))
