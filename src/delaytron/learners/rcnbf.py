"""Noisy bandit feedback (Agarwal and Manwani, 2021): RCNBF knows how often answers lie, RCINE finds it out."""

from math import inf, sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_bool, check_exploration, check_integer
from delaytron.compiler.kernel import kernel
from delaytron.errors import InvalidInput
from delaytron.kernels.explore import argmax, explore_greedily
from delaytron.kernels.linear import add_row, padded, score, squared_norm, zero_weights
from delaytron.kernels.logistic import adagrad_step, sigmoid
from delaytron.kernels.quantiles import BINS, LOOKS_RIGHT, LOOKS_WRONG, confident_errors, count_answer
from delaytron.learners.base import Learner
from delaytron.learners.feedback import read_noise
from delaytron.learners.options import DEFAULT_GAMMA, Common
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Size

LR = 1.0  # of the model of the answers
HIGHEST = 0.45  # rate that is believed; so 1 - rho0 - rho1 stays at .1 or above


class Params(NamedTuple):
    """Exploration rate, and how often a "wrong" comes as "right" and a "right" as "wrong"."""

    gamma: float
    rho0: float
    rho1: float


@kernel
def noisy_update(W: Array, rho0: float, rho1: float, past: Play, answer: Any) -> None:
    """W += U~, whose expectation over the noise is Banditron's; a "wrong" may move the played row, too."""
    excess = 1.0 * answer - rho0
    move = excess / ((1.0 - rho0 - rho1) * past.prob)
    if past.label == past.greedy:
        add_row(W, past.label, move - 1.0, past.x.indices, past.x.values)
    else:
        add_row(W, past.label, move, past.x.indices, past.x.values)
        add_row(W, past.greedy, -1.0, past.x.indices, past.x.values)


@kernel
def noisy_revision(W: Array, rho0: float, rho1: float, past: Play, reward: float) -> None:
    """Add what U~ lacked when the answer was counted as wrong; it is affine in the answer."""
    add_row(W, past.label, reward / ((1.0 - rho0 - rho1) * past.prob), past.x.indices, past.x.values)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += U~ with the known rates."""
    noisy_update(state.W, params.rho0, params.rho1, past, answer)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add the part of U~ that a "right" has and a "wrong" has not."""
    noisy_revision(state.W, params.rho0, params.rho1, past, reward)


class EstimatingParams(NamedTuple):
    """Exploration rate, after how many answers the rates are estimated anew, and K."""

    gamma: float
    block: int
    n_classes: int


class Estimating(NamedTuple):
    """The weights; a logistic model V of the answers and room for its scores; their tally, number, and rates."""

    W: Array
    V: Array
    G: Array
    scores: Array
    tally: Ints
    heard: Ints
    rates: Array


def init_estimating(params: Any, size: Size) -> Estimating:
    """W = 0, V = 0, G = 1, and answers that do not lie."""
    n_runs = params.gamma.size
    W, V, G = (zero_weights(n_runs, size) for _ in range(3))
    scores = np.zeros((n_runs, padded(size.n_classes)))
    tally = np.zeros((n_runs, 2, BINS, 2), np.int64)
    return Estimating(W, V, G + 1.0, scores, tally, np.zeros((n_runs, 1), np.int64), np.zeros((n_runs, 2)))


@kernel
def listen(state: Any, params: Any, past: Play, correct: bool) -> None:
    """Tally what the model V predicted of an answer, and teach V; after a block, read the rates from the tally."""
    norm = squared_norm(past.x.values)
    if 0.0 < norm < inf:
        score(state.V, past.x.indices, past.x.values, state.scores)
        side = LOOKS_RIGHT if past.label == argmax(state.scores, None, params.n_classes) else LOOKS_WRONG
        predicted = sigmoid(state.scores[past.label] / sqrt(norm))
        answer = 1 if correct else 0
        count_answer(state.tally, side, predicted, answer)
        error = (predicted - answer) / sqrt(norm)
        adagrad_step(state.V, state.G, past.label, error, LR, past.x.indices, past.x.values)
    state.heard[0] += 1
    if state.heard[0] >= params.block:
        for i in range(2):  # rho0 from what looks wrong, rho1 from what looks right
            state.rates[i] = max(0.0, min(HIGHEST, confident_errors(state.tally, i, state.rates[i])))
        state.heard[0] = 0
        state.tally[:] = 0


@kernel
def step_estimating(state: Any, params: Any, past: Play, correct: bool) -> None:
    """W += U~ with the rates of the last block."""
    noisy_update(state.W, state.rates[0], state.rates[1], past, correct)
    listen(state, params, past, correct)


@kernel
def revise_estimating(state: Any, params: Any, past: Play, reward: float) -> None:
    """Correct W with the present rates; the model and the tally take the "right" as one more answer."""
    noisy_revision(state.W, state.rates[0], state.rates[1], past, reward)
    listen(state, params, past, True)


class Rcnbf(Learner):
    r"""RCNBF: Delaytron's update for answers f that lie, at the rates rho0 = P(f=1 | wrong) and rho1 = P(f=0 | right).

    .. math::
        W \leftarrow W + x \otimes \Big( \frac{f - \rho_0}{(1 - \rho_0 - \rho_1) P(\tilde y)} e_{\tilde y}
        - e_{\hat y} \Big)

    With `estimate` (RCINE, here as a stream) a logistic model predicts every answer from x and the label. Of the
    plays whose label looks best to it, the most confident fifth should all be right, and of the others all wrong:
    after each block of answers, the shares of those that were answered otherwise, at most .45, become the rates. The
    first block takes 0. A label that is noisy itself counts as a lie. A "right" that comes after its round expired
    as "wrong" is corrected exactly, with the present rates.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    rho0, rho1 : float
        The rates, at least 0 with a sum below 1.
    estimate : bool
        Find the rates out; `rates` tells those in force.
    block : int
        After how many answers to do so again.

    Examples
    --------
    >>> learner = Rcnbf(n_classes=3, n_features=2, rho0=0.1, rho1=0.2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.rates
    (0.1, 0.2)
    """

    name = "rcnbf"
    takes_rewards = True
    rule = Rule(name, Params, explore_greedily, step, revise=revise)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        rho0: float = 0.0,
        rho1: float = 0.0,
        estimate: bool = False,
        block: int = 50_000,
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        (self.rho0, self.rho1) = read_noise((rho0, rho1))
        self.estimate = check_bool("estimate", estimate)
        self.block = check_integer("block", block, at_least=1)
        params: Any = Params(self.gamma, self.rho0, self.rho1)
        if self.estimate:
            if self.rho0 or self.rho1:
                raise InvalidInput("estimate=True finds the rates out: leave out rho0 and rho1")
            self.rule = ESTIMATING
            self.takes_rewards = False  # type: ignore[misc] # it counts how often answers lie
            params = EstimatingParams(self.gamma, self.block, n_classes)
        super().__init__(n_classes, n_features, params, common)

    @property
    def rates(self) -> tuple[float, float]:
        """The rates (rho0, rho1) in force."""
        rho0, rho1 = self.state.rates.tolist() if self.estimate else (self.rho0, self.rho1)
        return rho0, rho1


ESTIMATING = Rule(
    "rcnbf_estimating",
    EstimatingParams,
    explore_greedily,
    step_estimating,
    Estimating,
    init_estimating,
    revise=revise_estimating,
)
