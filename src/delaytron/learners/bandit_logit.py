"""BanditLogit, the default learner: a multinomial logit that standardises its rows itself and needs no tuning."""

from collections import namedtuple
from math import sqrt
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from delaytron.checks import check_integer, check_matrix, check_number, check_scale
from delaytron.compiler.kernel import fill, interpreted, kernel, slot
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import padded, row_of, squared_norm, zero_weights
from delaytron.kernels.logit import (
    FIELDS,
    N_BETS,
    NEVER,
    NOW,
    START,
    bandit_gradient,
    count_answer,
    count_from,
    count_label,
    empty_memory,
    forget_all,
    has_changed,
    keep,
    place_of,
    softmax,
    weigh_gaps,
)
from delaytron.kernels.standardize import (
    COUNT,
    D_OF_BIAS,
    FAR_BELOW,
    FIRST,
    GROWTH,
    INVERSE,
    LACKING,
    LAST,
    MEAN_SUM,
    N_CELLS,
    NEXT,
    ROWS,
    SPARSE,
    SUM,
    SUM_OF_BIAS,
    ZERO,
    D,
    add_step,
    clear_shift,
    count_gradient,
    count_zeros,
    empty_features,
    first_of,
    fold_shift,
    hide_others,
    is_due,
    is_unseen,
    none_seen,
    observe,
    rate_of,
    refresh_constant,
    refresh_feature,
    refresh_zero,
    score_row,
    set_next_refresh,
    squared_length,
    standardize_row,
)
from delaytron.learners.arguments import Common
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import (
    Contributions,
    LinearForm,
    score_parts,
    standardized_form,
    with_own_scratch,
)
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size, Stream

RATE = 0.7  # of a step, times lr and the root mean square of the weights
LEAST_SIZE = 1.3  # lower bound of that root mean square
SMOOTHING = 0.1  # of the rates of the classes
SO_FAR, BEFORE = 0, 1  # cells of `answers`: those so far, and those at the last refresh


class State(NamedTuple):
    """The model, the statistics of the rows (`kernels.standardize`), and the counts of each label.

    `power` sums up the squared gradients of every class, `rates` are its steps as of the last refresh; `answers` counts
    those so far and those at the last refresh; `p` and `g` are buffers for a softmax and its gradient. `shift`, `base`,
    `known`, `scores`, `p` and `g` are padded to whole vectors.
    """

    W: Array
    bias: Array
    shift: Array
    base: Array
    features: Array
    cells: Array
    z: Array
    u: Array
    power: Array
    rates: Array
    plays: Array
    confirmations: Array
    known: Array
    answers: Array
    scores: Array
    p: Array
    g: Array
    seen: Ints
    squares: Array
    clock: Array
    bets: Array


Remembering: Any = cast(Any, namedtuple)("Remembering", (*State._fields, *FIELDS), module=__name__)


def init(params: Any, size: Size) -> State:
    """Return W = 0, C = 0 and no counts."""
    n_runs = params.lr.size
    K = size.n_classes
    d = size.n_features
    cells = np.zeros((n_runs, N_CELLS))
    cells[:, D_OF_BIAS] = FIRST**-0.5
    features = empty_features(n_runs, size)
    features[(..., D) if size.sparse else (slice(None), D)] = FIRST**-0.5
    return State(
        W=zero_weights(n_runs, size),
        bias=np.zeros((n_runs, K)),
        shift=np.zeros((n_runs, padded(K))),
        base=padded_with(FAR_BELOW, n_runs, K),
        features=features,
        cells=cells,
        z=np.zeros((n_runs, d)),
        u=np.zeros((n_runs, d)),
        power=np.zeros((n_runs, K)),
        rates=np.repeat(RATE * LEAST_SIZE * params.lr[:, None], K, axis=1),
        plays=np.zeros((n_runs, K)),
        confirmations=np.zeros((n_runs, K)),
        known=padded_with(NEVER, n_runs, K),
        answers=np.zeros((n_runs, 2)),
        scores=np.zeros((n_runs, padded(K))),
        p=np.zeros((n_runs, padded(K))),
        g=np.zeros((n_runs, padded(K))),
        seen=none_seen(n_runs, size),
        squares=np.zeros((n_runs, d)),
        clock=np.zeros((n_runs, 3)),
        bets=np.zeros((n_runs, N_BETS, 3)),
    )


def padded_with(number: float, n_runs: int, n_classes: int) -> Array:
    """Return zeros for the classes, and this number in the padding."""
    classes = np.full((n_runs, padded(n_classes)), number)
    classes[:, :n_classes] = 0.0
    return classes


def init_remembering(params: Any, size: Size) -> Any:
    """Return the same with an empty memory of answers."""
    return Remembering(*init(params, size), *empty_memory(params.lr.size, size))


@kernel
def forget_answers(state: Any) -> None:
    """Forget everything but the statistics of the rows; the next refresh makes the steps large again."""
    state.W[:] = 0.0
    for field in (state.bias, state.shift, state.power, state.plays, state.confirmations, state.answers):
        field[:] = 0.0
    for cell in (SUM_OF_BIAS, LACKING, MEAN_SUM):
        state.cells[cell] = 0.0
    if state.seen[SPARSE]:
        state.features[:, SUM] = 0.0
    else:
        state.features[SUM] = 0.0
    state.known[: state.plays.size] = 0.0


@kernel
def share_kept(state: Any, forget: float) -> float:
    """Return the share of the counts that remains after the answers since the last refresh."""
    if forget > 0.0:
        return float((1.0 - forget) ** (state.answers[SO_FAR] - state.answers[BEFORE]))
    return 1.0


@kernel
def refresh(state: Any, params: Any) -> None:
    """Bring statistics and rates up to date with all rows and gradients so far."""
    share = share_kept(state, params.forget)
    state.cells[SUM_OF_BIAS] *= share
    refresh_constant(state)
    if state.seen[SPARSE]:
        n_varying = refresh_features(state, state.features, share, True)
    else:
        n_varying = refresh_features(state, state.features.T, share, False)
    clear_shift(state)
    set_next_refresh(state)
    # After a restart refresh as often as at the beginning, although many rows were seen before.
    rounds = int(state.clock[NOW] - state.clock[START])
    state.seen[NEXT] = min(state.seen[NEXT], state.seen[ROWS] + max(1, rounds // GROWTH))
    if share < 1.0:
        fade(state, share)  # after the statistics, which divide by the rows as they were counted
    refresh_classes(state, params.lr * size_of_weights(state, n_varying))
    state.answers[BEFORE] = state.answers[SO_FAR]


@kernel
def refresh_features(state: Any, table: Any, share: float, sparse: bool) -> int:
    """Bring the table of features up to date (here with a row per feature in either case); return how many vary.

    A feature that begins to vary gets the mean sum of the others: with its own, of 0, its steps would be huge until the
    next refresh.
    """
    rows = float(state.seen[ROWS])
    new = float(state.seen[ROWS] - state.seen[LAST])
    known = state.cells[MEAN_SUM]
    state.cells[MEAN_SUM] = 0.0
    n_varying = 0
    for j in range(state.squares.size):
        feature = table[j]
        if sparse and is_unseen(feature, state.squares[j]):
            continue
        if sparse:
            # Before its D and ZERO change: the shift counts steps along the present ones.
            fold_shift(state, feature, state.W[j])
            count_zeros(feature, new - feature[COUNT])
        varied = feature[INVERSE] > 0.0
        refresh_feature(feature, state.squares, j, rows, new)
        state.squares[j] *= kept_rows(rows, share) / rows
        if feature[INVERSE] > 0.0:
            feature[SUM] = share * (feature[SUM] if varied else feature[SUM] + known)
            state.cells[MEAN_SUM] += feature[SUM]
            n_varying += 1
        feature[D] = rate_of(feature[SUM], state.bias.size)
        if sparse:
            refresh_zero(state, feature, state.W[j])
    state.cells[MEAN_SUM] /= max(1, n_varying)
    return n_varying


@kernel
def kept_rows(rows: float, share: float) -> int:
    """Return how many rows remain, rounded to the nearest: rounded down, a small count could never grow."""
    return max(1, int(share * rows + 0.5))


@kernel
def fade(state: Any, share: float) -> None:
    """Multiply all counts by this share, so that later rows and answers weigh more."""
    rows = kept_rows(float(state.seen[ROWS]), share)
    state.seen[NEXT] += rows - state.seen[ROWS]
    state.seen[ROWS] = rows
    state.seen[LAST] = rows
    state.answers[SO_FAR] *= share
    for field in (state.power, state.plays, state.confirmations):
        for i in range(field.size):
            field[i] *= share
    for k in range(state.plays.size):
        state.known[k] = 0.0
        count_label(state, k, 0.0, 0.0)


@kernel
def size_of_weights(state: Any, n_varying: int) -> float:
    """Return the root mean square of the weights, at least `LEAST_SIZE`: steps grow in proportion to the weights."""
    total = 0.0
    for i in range(state.W.shape[0]):
        if not (state.seen[SPARSE] and state.squares[i] == 0.0):  # a feature that never varied has no weights
            total += squared_norm(state.W[i])
    return max(LEAST_SIZE, sqrt(total / (max(1, n_varying) * state.power.size)))


@kernel
def refresh_classes(state: Any, rate: float) -> None:
    """Give larger steps to classes whose gradients were smaller than those of the others."""
    mean = 0.0
    for k in range(state.power.size):
        mean += state.power[k] / state.power.size
    for k in range(state.power.size):
        state.rates[k] = RATE * rate * sqrt((SMOOTHING + mean) / (SMOOTHING + state.power[k]))


DAMPING = 0.3
gradient: Any = slot()  # (state, label, reward) -> its squared length: write the gradient of an answer to `g`


@kernel
def gradient_of_answer(state: Any, label: int, reward: float) -> float:
    """Write the gradient of an answer with respect to the scores to `g`; return its squared length."""
    return float(bandit_gradient(state.p, label, reward, state.g))


@kernel
def learn(state: Any, indices: Any, values: Array, label: int, reward: float) -> float:
    """Take one damped AdaGrad step on the likelihood of the answer; return the label's probability before the step."""
    more, along = standardize_row(state, indices, values)
    length = squared_length(state, more)
    top = score_row(state, indices, values, length, along, state.scores)
    softmax(state.scores, top, state.p)
    chance = float(state.p[label])
    power = gradient(state, label, reward)
    if power > 0.0:
        spread = count_gradient(state, indices, values, power / length) / length
        damp_steps(state, spread, 1.0 / sqrt(length))
        add_step(state, indices, values, along, state.g)
    return chance


@kernel
def damp_steps(state: Any, spread: float, scale: float) -> None:
    """Turn the gradient in `g` into steps, damped like implicit ones, which do not overshoot the minimum by much."""
    for k in range(state.power.size):
        g = state.g[k]
        state.power[k] += g * g
        rate = state.rates[k]
        state.g[k] = -scale * rate * g / (1.0 + DAMPING * rate * spread * abs(g))


@kernel
def forget_none(state: Any) -> None:
    """Do nothing: no answers are kept."""


@kernel
def learn_once(state: Any, times: int, indices: Any, values: Array, label: int, reward: float) -> None:
    """Do nothing: no answers are kept."""


@kernel
def learn_kept(state: Any, times: int, indices: Any, values: Array, label: int, reward: float) -> None:
    """Learn again from `times` of the kept answers, then keep this one."""
    for i in range(times if state.kept[0] > 0 else 0):
        place = place_of(state, i, times)
        size = state.kept_size[place]
        row = state.kept_values[place, :size]
        if indices is None:
            learn(state, indices, row, state.kept_label[place], state.kept_reward[place])
        else:
            learn(state, state.kept_indices[place, :size], row, state.kept_label[place], state.kept_reward[place])
    keep(state, indices, values, label, reward)


learn_again: Any = slot()  # (state, times, indices, values, label, reward): learn from kept answers, and keep this one
see: Any = slot()  # (state, indices, values) -> two parts of its length: standardise a row; `observe` also counts it
forget_kept: Any = slot()  # (state): forget the kept answers


class Params(NamedTuple):
    """The factor of steps, the least probability of a label, the share forgotten per answer, the number of replays."""

    lr: float
    floor: float
    forget: float
    replay: int


@kernel
def tick(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Refresh means, deviations and rates when the rows have grown by a sixteenth; restart after a drift."""
    changed = has_changed(state, now)
    if changed:
        count_from(state, now)
        forget_answers(state)
        forget_kept(state)
    if changed or is_due(state):
        refresh(state, params)


@kernel
def policy(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Explore by inverse-gap weighting of the probabilities that the model gives to the labels."""
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
    """Count the play, answered or not."""
    count_label(state, label, 1.0, 0.0)


@kernel
def step(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Learn from an answer (right, wrong, or a reward between), unless a restart came after its round."""
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


@kernel
def one(state: Any) -> float:  # noqa: ARG001
    """Return 1: the constant behind the features."""
    return 1.0


def rule_of(name: str, state: Any, init_state: Any, again: Any, forget: Any) -> Rule:
    """Return the rule for a state with a memory of answers, or without one."""
    tick_ = fill(tick, forget_kept=forget)
    step_ = fill(step, learn_again=again, squared_constant=one, gradient=gradient_of_answer)
    return Rule(
        name,
        Params,
        fill(policy, see=observe, squared_constant=one),
        step_,
        state,
        init_state,
        tick_,
        note=note,
        look=fill(policy, see=standardize_row, squared_constant=one),
        scratch=("z", "u", "scores", "p", "g"),
        ties="shares",
        begin_class=begin_class,
        standardizable=False,
        softmax=lambda _state, _params: 1.0,
        corrects_exactly=False,
    )


def begin_class(state: Any, label: int) -> None:
    """Give a new class the largest rate of all classes."""
    state.rates[label] = state.rates[:label].max()


def check_floor(floor: Any, n_classes: Any) -> float:
    """Return the least probability of every label; raise InvalidInput if K of them exceed 1."""
    number, K = check_number("explore_floor", floor), check_integer("n_classes", n_classes, at_least=2)
    if not 0.0 <= number <= 1.0 / K:
        allowed = f"from 0 to 1/K = {1 / K:g}"
        raise InvalidInput.of("explore_floor", allowed, floor, "K labels share a probability of 1")
    return number


def check_forget(forget: Any) -> float:
    """Return the share of the counts to forget with every answer; raise InvalidInput if it is not one."""
    share = check_number("forget", forget)
    if not 0.0 <= share < 1.0:
        raise InvalidInput.of("forget", "at least 0 and below 1", forget, "0 forgets nothing, 0.001 slowly")
    return share


_score_stream = fill(score_stream, "bandit_logit.score_stream", squared_constant=one)
_standardize_row = interpreted(standardize_row)
_squared_length = interpreted(fill(squared_length, squared_constant=one))


class BanditLogit(Learner):
    r"""A multinomial logit on rows that it standardises itself, with inverse-gap weighting: the default learner.

    .. math::
        p = \mathrm{softmax}(W z), \qquad
        g = \nabla\big[-\rho \log p_{\tilde y} - (1 - \rho) \log (1 - p_{\tilde y})\big], \qquad
        W_k \leftarrow W_k - \frac{r_k\, g_k}{1 + 0.3\, r_k v |g_k|} D z, \quad v = \langle D z, z\rangle

    where z is the standardised row with a constant, divided by its length, :math:`\rho` the answer (1 right, 0 wrong,
    or a reward between), D the diagonal of AdaGrad over the features and r_k that over the classes. Label r is played
    with probability :math:`l / (K l + \gamma_r (p_b - p_r))`, l = 1 - p_b: see `kernels.logit`. Nothing needs
    to be set, and raw features are fine: scale, shift and constant columns change nothing.

    Gradients use the weights, means and deviations of the moment when the answer comes, so an old answer is as good
    as a new one. A "right" after an expiry as "wrong" is applied as one more answer. `weights` are those of the
    standardised features, the constant last: (K, d + 1).

    If a betting test finds that answers are right half as often as before, it forgets all but the statistics of the
    rows, and ignores answers to earlier rounds: see `kernels.logit`.

    Parameters
    ----------
    lr : float
        Multiplies every step, above 0.
    explore_floor : float
        The least probability of every label, from 0 to 1/K; 0.01 makes the log usable for off-policy evaluation.
    replay : int
        How many of the last 1000 answers to learn from again with every answer.
    forget : float
        The share of the counts to forget with every answer, from 0 to below 1: for streams that drift slowly.

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
        self.explore_floor = check_floor(explore_floor, n_classes)
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

    def _linear_form(self) -> LinearForm:
        table = self.state.features.T if self.sparse else self.state.features
        return standardized_form(self.weights_of(self.state), table, sharpness=1.0)

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
