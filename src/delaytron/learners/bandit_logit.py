"""BanditLogit, the default: a multinomial logit that standardises its rows itself and needs no tuning."""

from math import sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np

from delaytron.checks import check_integer, check_number, check_scale, shown
from delaytron.compiler.kernel import fill, interpreted, kernel, slot
from delaytron.errors import InvalidInput
from delaytron.kernels.centred import first_of, hide_others, score_row, squared_length
from delaytron.kernels.drift import count_answer, has_changed
from delaytron.kernels.inverse_gaps import count_label, weigh_gaps
from delaytron.kernels.linear import row_of
from delaytron.kernels.memory import forget_all
from delaytron.kernels.softmax import softmax
from delaytron.kernels.standard import ZERO, D, is_due
from delaytron.kernels.standard_rows import observe, standardize_row
from delaytron.learners.base import Learner
from delaytron.learners.logit_state import SO_FAR, Remembering, State, forget_answers, init, init_remembering, refresh
from delaytron.learners.logit_step import forget_none, learn, learn_kept, learn_once
from delaytron.learners.looking import Contributions, with_own_scratch
from delaytron.learners.options import Common
from delaytron.learners.rule import Rule
from delaytron.learners.scoring import score_parts
from delaytron.matrices import check_matrix
from delaytron.records import Array, Play, Row, Stream

learn_again: Any = slot()  # (state, times, indices, values, label, reward): learn from those kept, and keep this one
see: Any = slot()  # (state, indices, values) -> two parts of its length: standardise a row, and count it in or not
forget_kept: Any = slot()  # (state): forget those kept


class Params(NamedTuple):
    """The step, the least probability of a label, the share forgotten with an answer, and how often each is learned."""

    lr: float
    floor: float
    forget: float
    replay: int


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Refresh means, deviations and rates when the rows have grown by a sixteenth; begin again after a change."""
    changed = has_changed(state, now)
    if changed:
        forget_answers(state, now)
        forget_kept(state)
    if changed or is_due(state):
        refresh(state, params)


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Explore by inverse gaps of the chances that the model gives to every label."""
    more, along = see(state, x.indices, x.values)
    top = score_row(state, x.indices, x.values, squared_length(state, more), along, scores)
    if allowed is not None:
        top = hide_others(allowed, scores)
    greedy = first_of(scores, top)
    softmax(scores, top, state.p)
    weigh_gaps(state, state.p, greedy, params.floor, allowed, p)
    return greedy


@kernel
def note(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Count the play; it needs no answer."""
    count_label(state, label, 1.0, 0.0)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Learn from an answer: right, wrong, or a reward between 0 and 1."""
    reward = 1.0 * answer
    if not count_answer(state, past.round, reward):
        return
    state.answers[SO_FAR] += 1.0
    count_label(state, past.label, 0.0, reward)
    learn(state, past.x.indices, past.x.values, past.label, reward)
    learn_again(state, params.replay, past.x.indices, past.x.values, past.label, reward)


@kernel
def score_stream(state: Any, stream: Stream, scores: Array, out: Array) -> None:
    """Write the scores of every row of the stream to `out`."""
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        more, along = standardize_row(state, x.indices, x.values)
        score_row(state, x.indices, x.values, squared_length(state, more), along, scores)
        for k in range(out.shape[1]):
            out[i, k] = scores[k]


def rule_of(name: str, state: Any, init_state: Any, again: Any, forget: Any) -> Rule:
    """Return the rule for a state that keeps answers, or for one that keeps none."""
    tick_, step_ = fill(tick, forget_kept=forget), fill(step, learn_again=again)
    return Rule(
        name,
        Params,
        fill(policy, see=observe),
        step_,
        state,
        init_state,
        tick_,
        note=note,
        look=fill(policy, see=standardize_row),
        scratch=("z", "u", "scores", "p", "g"),
        ties="shares",
        begin_class=begin_class,
        standardizable=False,
    )


def begin_class(state: Any, label: int) -> None:
    """Let a new class take steps as large as any other."""
    state.rates[label] = state.rates[:label].max()


_score_stream = fill(score_stream, "bandit_logit.score_stream")
_standardize_row = interpreted(standardize_row)
_squared_length = interpreted(squared_length)


class BanditLogit(Learner):
    r"""A multinomial logit on rows that it standardises itself, exploring by inverse gaps: the default learner.

    .. math::
        p = \mathrm{softmax}(W z), \qquad
        g = \nabla\big[-\rho \log p_{\tilde y} - (1 - \rho) \log (1 - p_{\tilde y})\big], \qquad
        W_k \leftarrow W_k - \frac{r_k\, g_k}{1 + 0.3\, r_k v |g_k|} D z, \quad v = \langle D z, z\rangle

    where z is the standardised row with a constant, divided by its length, :math:`\rho` the answer (1 right, 0 wrong,
    or a reward between), D the diagonal of AdaGrad over the features and r_k that over the classes. Label r is played
    with probability :math:`l / (K l + \gamma_r (p_b - p_r))`, l = 1 - p_b: see `kernels.inverse_gaps`. Nothing needs
    to be set, and raw features are fine: scale, shift and constant columns change nothing.

    Gradients use the weights, means and deviations of the moment when the answer comes, so an old answer is as good
    as a new one. A "right" that comes after its round expired as "wrong" is applied as it comes. `weights` are
    those of the standardised features, the constant last: (K, d + 1).

    Parameters
    ----------
    lr : float
        Multiplies every step, above 0.
    explore_floor : float
        The least probability of every label, from 0 to 1/K; 0.01 lets others evaluate their policies on the log.
    replay : int
        With every answer learn again from so many of the last 1000.
    forget : float
        With every answer, forget this share of the counts, from 0 to below 1: for streams that drift slowly.

    Examples
    --------
    >>> learner = BanditLogit(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 250.0])
    >>> learner.feedback(decision.id, reward=0.7)
    'accepted'
    >>> learner.decide([1.1, 190.0]).round
    2
    """

    name = "bandit_logit"
    averages = False
    takes_rewards = True
    grid = {}
    rule = rule_of(name, State, init, learn_once, forget_none)

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        lr: float = 1.0,
        explore_floor: float = 0.0,
        replay: int = 0,
        forget: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        self.lr = check_scale("lr", lr)
        self.explore_floor = check_floor(explore_floor, check_integer("n_classes", n_classes, at_least=2))
        self.replay = check_integer("replay", replay, at_least=0)
        self.forget = check_forget(forget)
        if self.replay:
            self.rule = REMEMBERING
        params = Params(self.lr, self.explore_floor, self.forget, self.replay)
        super().__init__(n_classes, n_features, params, common)

    def scores(self, X: Any) -> Array:
        """Return the logits of every row, as an (n, K) array."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            state = self.state._replace(z=np.empty_like(self.state.z))
            return score_parts(rows, self.n_classes, self.sparse, lambda *args: _score_stream(state, *args))

    def _contributions(self, row: Row) -> Contributions:
        state = with_own_scratch(self)
        more, _ = _standardize_row(state, row.indices, row.values)
        scale = 1.0 / sqrt(_squared_length(state, more))
        z = state.z[: row.values.size] * scale
        if row.indices is None:
            return Contributions(state.bias * scale, state.W * z)
        K = self.n_classes
        rates = state.features[row.indices, D] * state.features[row.indices, ZERO]
        W = state.W[row.indices, :K] + np.outer(rates, state.shift[:K])
        return Contributions(state.base[:K] * scale, np.ascontiguousarray((W * z[:, None]).T))

    @property
    def weights(self) -> Array:
        """The weights of the standardised features and, last, of the constant, as a (K, d + 1) matrix, a copy."""
        with self._lock:
            return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state."""
        features = self._matrix(state.W)
        if self.sparse:
            features += np.outer(state.shift[: self.n_classes], state.features[:, D] * state.features[:, ZERO])
        return np.column_stack([features, state.bias])


REMEMBERING = rule_of("bandit_logit_replay", Remembering, init_remembering, learn_kept, forget_all)


def check_floor(floor: Any, n_classes: int) -> float:
    """Return the least probability of a label, or raise."""
    number = check_number("explore_floor", floor)
    if not 0.0 <= number <= 1.0 / n_classes:
        raise InvalidInput(f"explore_floor must be from 0 to 1/K = {1 / n_classes:g}, got {shown(floor)}")
    return number


def check_forget(forget: Any) -> float:
    """Return the share that is forgotten with an answer, or raise."""
    number = check_number("forget", forget)
    if not 0.0 <= number < 1.0:
        raise InvalidInput(f"forget must be at least 0 and below 1, got {shown(forget)}")
    return number
