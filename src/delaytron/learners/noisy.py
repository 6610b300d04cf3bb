"""Noisy bandit feedback (RCNBF, RCINE), and feedback on sets of labels (Dilute)."""

from functools import cache
from math import comb, inf, sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_bool, check_choice, check_exploration, check_flip_rates, check_integer
from delaytron.compiler.kernel import kernel
from delaytron.errors import InvalidInput, Setting
from delaytron.kernels.explore import (
    MAX_SMALLER_SIDE,
    add_per_label,
    add_per_set,
    add_to_all,
    argmax,
    explore_greedily,
    holds,
    n_numbers,
    put_best,
    put_ranked,
)
from delaytron.kernels.linear import add_row, padded, score, squared_norm, zero_weights
from delaytron.kernels.logit import adagrad_step, sigmoid
from delaytron.learners.arguments import DEFAULT_GAMMA, Common
from delaytron.learners.learner import Learner
from delaytron.learners.rule import Rule
from delaytron.records import Array, Bools, Ints, Play, Row, Size

BINS = 100
PART = 0.2  # the share of the predictions that counts as the most confident ones

LOOKS_WRONG, LOOKS_RIGHT = 0, 1  # first axis of a tally; the others are the bin of the prediction, and the answer


@kernel
def count_answer(tally: Ints, side: int, predicted: float, answer: int) -> None:
    """Count an answer under the probability of a "right" that was predicted for it."""
    place = int(predicted * BINS) if predicted > 0.0 else 0
    tally[side, min(place, BINS - 1), answer] += 1


@kernel
def confident_errors(tally: Ints, side: int, otherwise: float) -> float:
    """Return the share of answers that contradict the most confident predictions of one side.

    Whole bins are taken from the confident end on, until they hold the share `PART` of the predictions.
    """
    total, taken, contrary = 0, 0, 0
    for b in range(BINS):
        total += tally[side, b, 0] + tally[side, b, 1]
    for i in range(BINS):
        b = BINS - 1 - i if side == LOOKS_RIGHT else i
        if taken < PART * total:
            taken += tally[side, b, 0] + tally[side, b, 1]
            contrary += tally[side, b, 1 - side]
    return contrary / taken if taken > 0 else otherwise


LR = 1.0  # learning rate of the model of the answers
HIGHEST = 0.45  # the largest estimate of a rate, so that 1 - rho0 - rho1 stays at .1 or above


class RcnbfParams(NamedTuple):
    """Exploration rate, and the rates at which a "wrong" is flipped to "right" and a "right" to "wrong"."""

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
def rcnbf_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += U~ with the known rates."""
    noisy_update(state.W, params.rho0, params.rho1, past, answer)


@kernel
def rcnbf_revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add the part of U~ that a "right" has and a "wrong" has not."""
    noisy_revision(state.W, params.rho0, params.rho1, past, reward)


class EstimatingParams(NamedTuple):
    """Exploration rate, the number of answers between two estimates of the rates, and K."""

    gamma: float
    block: int
    n_classes: int


class Estimating(NamedTuple):
    """The weights; a logistic model V of the answers with its scores; the tally of answers, their number, the rates."""

    W: Array
    V: Array
    G: Array
    scores: Array
    tally: Ints
    heard: Ints
    rates: Array


def init_estimating(params: Any, size: Size) -> Estimating:
    """W = 0, V = 0, G = 1, both rates 0."""
    n_runs = params.gamma.size
    W, V, G = (zero_weights(n_runs, size) for _ in range(3))
    scores = np.zeros((n_runs, padded(size.n_classes)))
    tally = np.zeros((n_runs, 2, BINS, 2), np.int64)
    return Estimating(W, V, G + 1.0, scores, tally, np.zeros((n_runs, 1), np.int64), np.zeros((n_runs, 2)))


@kernel
def listen(state: Any, params: Any, past: Play, correct: bool) -> None:
    """Tally an answer against the prediction of V, and update V; after a block, read the rates from the tally."""
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
    """Correct W with the present rates; V and the tally count the "right" as one more answer."""
    noisy_revision(state.W, state.rates[0], state.rates[1], past, reward)
    listen(state, params, past, True)


class Rcnbf(Learner):
    r"""RCNBF: Delaytron's update for noisy answers f, with rates rho0 = P(f=1 | wrong) and rho1 = P(f=0 | right).

    .. math::
        W \leftarrow W + x \otimes \Big( \frac{f - \rho_0}{(1 - \rho_0 - \rho_1) P(\tilde y)} e_{\tilde y}
        - e_{\hat y} \Big)

    With `estimate` (RCINE, here as a stream) a logistic model predicts every answer from x and the label. Of the plays
    whose label it ranks first, the most confident fifth should all be right, and of the other plays all wrong: after
    each block of answers, the shares with the opposite answer, at most .45, become the rates. The first block uses 0.
    Noise in the labels themselves is counted, too. A "right" after an expiry as "wrong" is corrected exactly, with the
    present rates.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    rho0, rho1 : float
        The rates, at least 0 with a sum below 1.
    estimate : bool
        Estimate the rates; `rates` returns the present ones.
    block : int
        The number of answers between two estimates.

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
    rule = Rule(name, RcnbfParams, explore_greedily, rcnbf_step, revise=rcnbf_revise)

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
        K = check_integer("n_classes", n_classes, at_least=2)
        self.gamma = check_exploration(gamma)
        self.rho0, self.rho1 = check_flip_rates(rho0, rho1)
        self.estimate = check_bool("estimate", estimate)
        self.block = check_integer("block", block, at_least=1)
        params: Any = RcnbfParams(self.gamma, self.rho0, self.rho1)
        if self.estimate:
            if self.rho0 or self.rho1:
                raise InvalidInput(
                    (Setting("estimate", "True"), " estimates the rates itself"),
                    ("leave out ", Setting("rho0"), " and ", Setting("rho1")),
                    parameter="estimate",
                )
            self.rule = ESTIMATING
            self.takes_rewards = False  # type: ignore[misc] # it counts right and wrong answers
            params = EstimatingParams(self.gamma, self.block, K)
        super().__init__(K, n_features, params, common)

    @property
    def rates(self) -> tuple[float, float]:
        """The rates (rho0, rho1) that updates use now."""
        with self._lock:  # a block that ends changes both
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


MOST_SETS = 2**53  # one uniform float64 cannot index more


class SetDecision(NamedTuple):
    """A decision for a set: `labels`, of which `label` is the lowest; `prob` is the probability of the set."""

    id: int
    round: int
    label: int
    greedy: int
    prob: float
    labels: tuple[int, ...]

    def _repr_html_(self) -> str:
        from delaytron.notebooks import facts, page  # noqa: PLC0415 - for notebooks only

        return page("Decision", facts(self._asdict()))


class DiluteParams(NamedTuple):
    """Exploration rate, the size of a set, the number of such sets, and the estimator."""

    gamma: float
    m: int
    n_sets: int
    per_set: bool


class State(NamedTuple):
    """The weights, and a buffer: what one answer adds to the row of each label, as multiples of x."""

    W: Array
    change: Array


def init(params: Any, size: Size) -> State:
    """W = 0."""
    n_runs = params.gamma.size
    return State(zero_weights(n_runs, size), np.zeros((n_runs, size.n_classes)))


@kernel
def pick(
    state: Any,
    params: Any,
    x: Row,
    allowed: Any,  # noqa: ARG001 - a set is drawn from all labels
    u: float,
    scratch: tuple[Array, Array],
    extra: Array,
) -> tuple[int, int, float]:
    """Play the m best labels or, with probability gamma, any m; store the set that is played and the best one."""
    scores, marks = scratch
    score(state.W, x.indices, x.values, scores)
    half, exploit = extra.size // 2, 1.0 - params.gamma
    extra[:] = 0.0
    put_best(scores, params.m, marks, extra, half)
    if u >= exploit:
        rank = int((u - exploit) / params.gamma * params.n_sets)
        put_ranked(min(rank, params.n_sets - 1), params.n_sets, params.m, marks.size, extra)
    # P(S) = (1 - gamma) 1[S is the best set] + gamma / C(K, m): exploration may draw the best set, too.
    prob = exploit
    for i in range(half):
        if u < exploit:
            extra[i] = extra[half + i]
        elif extra[i] != extra[half + i]:
            prob = 0.0
    label = 0
    while label < marks.size - 1 and not holds(extra, 0, label):
        label += 1
    return argmax(scores, None, marks.size), label, prob + params.gamma / params.n_sets


@kernel
def is_correct(label: int, extra: Array, y: int) -> bool:  # noqa: ARG001
    """Return whether the true label is in the set that was played."""
    return holds(extra, 0, y)


@kernel
def add_right(change: Array, params: Any, past: Play, reward: float) -> None:
    """Add the part of the estimate that a "right" has and a "wrong" has not, or a share of it for a reward."""
    before = change[0]  # the same for all labels
    if params.per_set:
        add_per_set(past.extra, params.m, params.n_sets, past.prob, change)
    else:
        add_per_label(past.extra, params.m, params.gamma, change)
    if reward < 1.0:
        for r in range(change.size):
            change[r] = before + reward * (change[r] - before)


@kernel
def dilute_step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """W += (ehat - e_greedy) (x) x; the set estimator subtracts tau2 / (tau1 - tau2) whatever the answer is."""
    state.change[:] = -(params.m - 1.0) / (state.change.size - params.m) if params.per_set else 0.0
    reward = 1.0 * answer
    if reward > 0.0:
        add_right(state.change, params, past, reward)
    state.change[past.greedy] -= 1.0
    add_to_all(state.W, state.change, past.x.indices, past.x.values)


@kernel
def dilute_revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Add what a "right" has and a "wrong" has not."""
    state.change[:] = 0.0
    add_right(state.change, params, past, reward)
    add_to_all(state.W, state.change, past.x.indices, past.x.values)


@cache
def rule_for(numbers: int) -> Rule:
    """Return the rule whose extras hold two sets of `numbers` numbers each."""
    extras = ("number",) * 2 * numbers
    return Rule(
        "dilute",
        DiluteParams,
        None,
        dilute_step,
        State,
        init,
        revise=dilute_revise,
        pick=pick,
        is_correct=is_correct,
        extras=extras,
        restricts=False,
        grows=False,
    )


class Dilute(Learner):
    r"""Banditron's update for dilute feedback: a set S of m labels is played, f = 1[y in S] is the answer.

    .. math::
        W \leftarrow W + x \otimes (\hat e - e_{\hat y}), \qquad
        \hat e = \Pi^{-1} f 1_S, \qquad
        \Pi = (1 - \gamma) 1_{\hat S} 1_{\hat S}^\top + \gamma \big[ c_2 11^\top + (c_1 - c_2) I \big]

    With probability 1 - gamma the m best labels :math:`\hat S` are played, else any m, which contain a given label with
    probability :math:`c_1 = m/K` and two given ones with :math:`c_2 = m(m-1)/(K(K-1))`. `decide` returns a
    `SetDecision`, whose `labels` are S; `feedback(id, correct=...)` says whether the true label is one of them. A
    "right" after an expiry as "wrong" is corrected exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    m : int
        Number of labels to play, below K.
    estimator : {"inclusion", "set"}
        As above; or :math:`\hat e_r = (f 1[r \in S] / P(S) - \tau_2) / (\tau_1 - \tau_2)` with
        :math:`\tau_i = \binom{K-i}{m-i}`, which has the same mean and, as a rule, twice the variance.

    Examples
    --------
    >>> learner = Dilute(n_classes=5, n_features=2, m=3, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> decision.labels
    (0, 1, 2)
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    """

    name = "dilute"
    takes_rewards = True
    remark = "plays sets of labels: wrong is a set without the true one"
    rule = rule_for(1)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        m: int = 2,
        estimator: str = "inclusion",
        **common: Unpack[Common],
    ) -> None:
        K = check_integer("n_classes", n_classes, at_least=2)
        self.gamma, self.m = check_exploration(gamma), check_integer("m", m, at_least=1)
        self.estimator = check_choice("estimator", estimator, ("inclusion", "set"))
        if self.m >= K:
            raise InvalidInput.of("m", f"below n_classes = {K}", m, "play fewer labels")
        n_sets = comb(K, self.m) if min(self.m, K - self.m) <= MAX_SMALLER_SIDE else MOST_SETS
        if n_sets >= MOST_SETS:
            raise InvalidInput(
                f"{K} labels have 2^53 or more sets of m = {m}, too many to draw from", "choose an m near 1 or near K"
            )
        self.rule = rule_for(n_numbers(K))
        super().__init__(K, n_features, DiluteParams(self.gamma, self.m, n_sets, self.estimator == "set"), common)

    def _decision(self, play: Play) -> SetDecision:
        """Return a round as the caller sees it, with the set."""
        every = np.arange(self.n_classes)
        extras = np.broadcast_to(play.extra, (self.n_classes, play.extra.size))
        labels = tuple(every[self._is_correct(every, extras, every)].tolist())
        return SetDecision(play.round, play.round, play.label, play.greedy, play.prob, labels)

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:  # noqa: ARG002
        """Return a mask of the rounds in which the true label was in the set."""
        numbers = extras[np.arange(len(y)), y >> 5].astype(np.int64)
        return np.asarray(numbers >> (y & 31) & 1, np.bool_)
