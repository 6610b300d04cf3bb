"""Exact passive-aggressive with bandit feedback (after Matsushima et al., 2010, and Arora and Manwani, 2020)."""

from math import inf
from typing import Any, NamedTuple, Unpack

from delaytron.checks import check_choice, check_exploration, check_integer
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import explore_greedily, rival_of
from delaytron.kernels.linear import add_row, score, squared_norm
from delaytron.learners.aggression import ScoringState, read_aggression, scoring_state, separate
from delaytron.learners.base import Learner
from delaytron.learners.options import DEFAULT_GAMMA, GAMMAS, Common
from delaytron.learners.pab import repair_score
from delaytron.learners.rule import Rule
from delaytron.records import Array, Play

ALL, BEST, SCORE = 0, 1, 2
REFUTE = {"all": ALL, "best": BEST, "score": SCORE}


class Params(NamedTuple):
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
def step(state: Any, params: Any, past: Play, correct: bool) -> None:
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

    after a "right"; a "wrong" says less, and `refute` says what is made of it. A "right" that comes after its
    round expired as "wrong" is applied as it comes.

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
    rule = Rule(name, Params, explore_greedily, step, ScoringState, scoring_state)
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
        params = Params(self.gamma, cap, slack, REFUTE[self.refute], check_integer("n_classes", n_classes, at_least=2))
        super().__init__(n_classes, n_features, params, common)
