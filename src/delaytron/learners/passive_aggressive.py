"""Perceptron and passive-aggressive learners: with full information, PAB and exact PA with bandit feedback."""

from math import inf, isinf
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_choice, check_exploration, check_integer, check_scale
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily, follow_greedily, rival_of
from delaytron.kernels.linear import add_row, padded, score, score_of, squared_norm, zero_weights
from delaytron.learners.arguments import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.learner import Learner
from delaytron.learners.rule import Rule, true_label
from delaytron.records import Array, Play, Row, Size


class Aggression(NamedTuple):
    """The checked parameters, and the two numbers that the formula uses."""

    C: float
    variant: str
    cap: float
    slack: float


def read_aggression(C: Any, variant: Any) -> Aggression:
    """Return C and the variant, checked: PA-I caps the step at C, PA-II damps it by 1/(2C).

    Examples
    --------
    >>> read_aggression(0.5, "II")
    Aggression(C=0.5, variant='II', cap=inf, slack=1.0)
    """
    word = check_choice("variant", variant, ("PA", "I", "II"))
    limit = inf if isinstance(C, float) and isinf(C) and C > 0 else check_scale("C", C)
    return Aggression(limit, word, limit if word == "I" else inf, 1.0 / (2.0 * limit) if word == "II" else 0.0)


@kernel
def tau(loss: float, norm: float, cap: float, slack: float) -> float:
    """Return the step along a direction of squared length `norm` that repairs a loss; 0 for an empty row."""
    if loss <= 0.0 or norm <= 0.0:
        return 0.0
    return min(cap, loss / (norm + slack))


class ScoringState(NamedTuple):
    """The weights, and a buffer for the scores of one row, which an answer needs."""

    W: Array
    scores: Array


def scoring_state(params: Any, size: Size) -> ScoringState:
    """W = 0."""
    n_runs = params[0].size
    return ScoringState(zero_weights(n_runs, size), np.zeros((n_runs, padded(size.n_classes))))


@kernel
def separate(W: Array, scores: Array, upper: int, lower: int, x: Row, cap: float, slack: float) -> None:
    """Move two classes apart until the upper one beats the lower one by 1."""
    loss = 1.0 - scores[upper] + scores[lower]
    move = tau(loss, 2.0 * squared_norm(x.values), cap, slack)
    if move > 0.0:
        add_row(W, upper, move, x.indices, x.values)
        add_row(W, lower, -move, x.indices, x.values)


class PerceptronParams(NamedTuple):
    """No parameters; the compiler needs at least one field."""

    eta: float = 1.0


@kernel
def perceptron_step(state: Any, params: Any, past: Play, y: int) -> None:
    """On a mistake of the greedy label at prediction time: W[y] += x, W[greedy] -= x."""
    if past.greedy != y:
        add_row(state.W, y, params.eta, past.x.indices, past.x.values)
        add_row(state.W, past.greedy, -params.eta, past.x.indices, past.x.values)


class Perceptron(Learner):
    r"""The Perceptron in Kesler's multiclass form; it gets the true label, delayed like any feedback.

    .. math:: W \leftarrow W + 1[\hat y \ne y]\; x \otimes (e_y - e_{\hat y})

    Examples
    --------
    >>> learner = Perceptron(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, label=2)
    'accepted'
    >>> learner.decide([1.0, 0.0]).label
    2
    """

    name = "perceptron"
    remark = "gets the true label, not only right or wrong"
    rule = Rule(name, PerceptronParams, follow_greedily, perceptron_step, observation=true_label)
    feedback_type = "label"
    grid = {}

    def __init__(self, n_classes: int, n_features: int, **common: Unpack[Common]) -> None:
        super().__init__(n_classes, n_features, PerceptronParams(), common)


class PaParams(NamedTuple):
    """The limits of a step, and K."""

    cap: float
    slack: float
    n_classes: int


@kernel
def pa_step(state: Any, params: Any, past: Play, y: int) -> None:
    """Move y up and its best rival down, by the loss that the present W has on the row."""
    score(state.W, past.x.indices, past.x.values, state.scores)
    rival = rival_of(state.scores, None, params.n_classes, y)
    separate(state.W, state.scores, y, rival, past.x, params.cap, params.slack)


class PassiveAggressive(Learner):
    r"""Multiclass passive-aggressive: PA, PA-I, PA-II; it gets the true label, delayed like any feedback.

    .. math::
        \ell = \max\big(0,\ 1 - (Wx)_y + \max_{j \ne y} (Wx)_j\big), \qquad
        W \leftarrow W + \tau\, x \otimes (e_y - e_j), \qquad
        \tau = \frac{\ell}{2\|x\|^2},\ \ \min\Big(C, \frac{\ell}{2\|x\|^2}\Big)\ \text{or}\
        \frac{\ell}{2\|x\|^2 + 1/(2C)}

    Parameters
    ----------
    C : float
        Aggressiveness of the variants I and II, above 0.
    variant : {"PA", "I", "II"}
        Repair the loss in full; at most by C; or damped by 1/(2C).

    Examples
    --------
    >>> learner = PassiveAggressive(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, label=2)
    'accepted'
    >>> learner.flush()
    >>> learner.weights[:, 0].tolist()
    [-0.5, 0.0, 0.5]
    """

    name = "passive_aggressive"
    remark = "gets the true label, not only right or wrong"
    rule = Rule(name, PaParams, follow_greedily, pa_step, ScoringState, scoring_state, observation=true_label)
    feedback_type = "label"
    grid = {"C": (inf, 1.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-8), "variant": ("I", "II")}

    def __init__(
        self, n_classes: int, n_features: int, *, C: float = inf, variant: str = "PA", **common: Unpack[Common]
    ) -> None:
        self.C, self.variant, cap, slack = read_aggression(C, variant)
        super().__init__(
            n_classes, n_features, PaParams(cap, slack, check_integer("n_classes", n_classes, at_least=2)), common
        )


class PabParams(NamedTuple):
    """Exploration rate, and the limits of a step."""

    gamma: float
    cap: float
    slack: float


@kernel
def repair_score(W: Array, past: Play, sign: float, cap: float, slack: float) -> None:
    """Move the played label's score just far enough that sign (W x) >= 1."""
    loss = 1.0 - sign * score_of(W, past.label, past.x.indices, past.x.values)
    move = tau(loss, squared_norm(past.x.values), cap, slack)
    if move > 0.0:
        add_row(W, past.label, sign * move, past.x.indices, past.x.values)


@kernel
def pab_step(state: Any, params: Any, past: Play, correct: bool) -> None:
    """The loss is taken with the present W: a passive-aggressive step corrects the model as it is now."""
    repair_score(state.W, past, 1.0 if correct else -1.0, params.cap, params.slack)


class Pab(Learner):
    r"""Bandit passive-aggressive: the score of the played label should be at least 1 if right, at most -1 if wrong.

    .. math::
        \ell = \max(0,\ 1 - s\,(Wx)_{\tilde y}), \quad s = \pm 1, \qquad
        W_{\tilde y} \leftarrow W_{\tilde y} + s \tau x, \qquad
        \tau = \frac{\ell}{\|x\|^2},\ \ \min\Big(C, \frac{\ell}{\|x\|^2}\Big)\ \text{or}\
        \frac{\ell}{\|x\|^2 + 1/(2C)}

    It uses both outcomes and no 1/P, so a small gamma suffices. A "right" after an expiry as "wrong" is applied as one
    more answer: steps depend on the present W, so the "wrong" cannot be undone exactly.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    C : float
        Aggressiveness of the variants I and II, above 0.
    variant : {"PA", "I", "II"}
        Repair the loss in full; at most by C; or damped by 1/(2C).

    Examples
    --------
    >>> learner = Pab(n_classes=2, n_features=2, seed=0)
    >>> decision = learner.decide([2.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> float(learner.scores([2.0, 0.0])[0, decision.label])
    1.0
    """

    name = "pab"
    rule = Rule(name, PabParams, explore_greedily, pab_step, corrects_exactly=False)
    grid = {"gamma": GAMMAS, "C": (inf, 0.25, 2.0**-4, 2.0**-6), "variant": ("I",)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        C: float = inf,
        variant: str = "PA",
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.C, self.variant, cap, slack = read_aggression(C, variant)
        super().__init__(n_classes, n_features, PabParams(self.gamma, cap, slack), common)


ALL, BEST, SCORE = 0, 1, 2
REFUTE = {"all": ALL, "best": BEST, "score": SCORE}


class ExactParams(NamedTuple):
    """Exploration rate, the limits of a step, what a "wrong" demands, and K."""

    gamma: float
    cap: float
    slack: float
    refute: int
    n_classes: int


@kernel
def threshold(losses: Array, K: int, rho: float, taken: float) -> float:
    """Return the root of sum_j max(0, l_j - theta) = taken + rho theta, by Newton's method from the left.

    The sum is convex and piecewise linear, so theta only grows and is exact after a few rounds.
    """
    theta, before = 0.0, -1.0
    while theta > before:
        total, count = -taken, rho
        for j in range(K):
            if losses[j] > theta:
                total += losses[j]
                count += 1.0
        before, theta = theta, total / count if count > rho else theta
    return theta


@kernel
def repair_margins(state: Any, params: Any, past: Play, sign: float) -> None:
    """Solve min ||W' - W||^2 such that sign ((W'x)_label - (W'x)_j) >= 1 for every other class j.

    The scores W x come in, and the losses take their place. The multipliers are
    tau_j = max(0, l_j - theta) / ||x||^2, with theta from the Karush-Kuhn-Tucker conditions.
    """
    norm = squared_norm(past.x.values)
    losses = state.scores
    K = params.n_classes
    if norm <= 0.0:
        return
    own = losses[past.label]
    for j in range(K):
        losses[j] = 1.0 - sign * (own - losses[j])
    losses[past.label] = 0.0
    theta = threshold(losses, K, norm / (norm + params.slack), 0.0)
    if theta > params.cap * norm:  # PA-I: the multipliers may add up to C
        theta = threshold(losses, K, 0.0, params.cap * norm)
    moved = 0.0
    for j in range(K):
        if losses[j] > theta:
            move = (losses[j] - theta) / norm
            moved += move
            add_row(state.W, j, -sign * move, past.x.indices, past.x.values)
    if moved > 0.0:
        add_row(state.W, past.label, sign * moved, past.x.indices, past.x.values)


@kernel
def exact_step(state: Any, params: Any, past: Play, correct: bool) -> None:
    """All margins are taken with the present W."""
    score(state.W, past.x.indices, past.x.values, state.scores)
    if correct or params.refute == ALL:
        repair_margins(state, params, past, 1.0 if correct else -1.0)
    elif params.refute == BEST:  # the weakest thing that "wrong" implies
        rival = rival_of(state.scores, None, params.n_classes, past.label)
        separate(state.W, state.scores, rival, past.label, past.x, params.cap, params.slack)
    else:
        repair_score(state.W, past, -1.0, params.cap, params.slack)


class ExactPa(Learner):
    r"""Exact passive-aggressive: the smallest move that meets one margin constraint per class.

    .. math::
        \min_{W'} \tfrac12 \|W' - W\|^2 \ \text{ such that }\
        (W'x)_{\tilde y} - (W'x)_j \ge 1 \ \ (j \ne \tilde y), \qquad
        \tau_j = \frac{\max(0,\ \ell_j - \theta)}{\|x\|^2}, \qquad \theta = \sum_j \max(0,\ \ell_j - \theta)

    after a "right"; a "wrong" implies less, and `refute` chooses what. A "right" after an expiry as "wrong" is applied
    as one more answer.

    Parameters
    ----------
    gamma : float
        Exploration rate in (0, 1].
    C : float
        Aggressiveness of the variants I and II, above 0.
    variant : {"PA", "I", "II"}
        Meet the constraints; with multipliers that add up to at most C; or with a squared slack weighed by C.
    refute : {"all", "best", "score"}
        After a "wrong": every other class must beat the played one by 1; only the best other one; or PAB's step.

    Examples
    --------
    >>> learner = ExactPa(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 0.0])
    >>> learner.feedback(decision.id, correct=True)
    'accepted'
    >>> learner.flush()
    >>> sorted(learner.weights[:, 0].round(6).tolist())
    [-0.333333, -0.333333, 0.666667]
    """

    name = "exact_pa"
    rule = Rule(name, ExactParams, explore_greedily, exact_step, ScoringState, scoring_state, corrects_exactly=False)
    grid = {"gamma": GAMMAS, "C": (inf, 2.0**-4, 2.0**-6), "variant": ("I",), "refute": tuple(REFUTE)}

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        gamma: float = DEFAULT_GAMMA,
        C: float = inf,
        variant: str = "PA",
        refute: str = "all",
        **common: Unpack[Common],
    ) -> None:
        self.gamma = check_exploration(gamma)
        self.C, self.variant, cap, slack = read_aggression(C, variant)
        self.refute = check_choice("refute", refute, REFUTE)
        params = ExactParams(
            self.gamma, cap, slack, REFUTE[self.refute], check_integer("n_classes", n_classes, at_least=2)
        )
        super().__init__(n_classes, n_features, params, common)
