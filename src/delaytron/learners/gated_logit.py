"""GatedLogit, the default learner: two forecasts of the reward, the better one plays; a second model when things change."""

from collections import namedtuple
from math import exp, sqrt
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from delaytron.checks import check_bool, check_integer, check_matrix, check_scale
from delaytron.compiler.kernel import fill, interpreted, kernel, slot, taker
from delaytron.kernels.drift import (
    BIRTHS,
    DRIFT,
    DROPS,
    LIVES,
    PLAYER,
    WINS,
    begin_contest,
    bet,
    check_roles,
    is_alarmed,
    judge,
    lead,
    no_drift,
)
from delaytron.kernels.explore import allowed_label, exclude_others, n_allowed
from delaytron.kernels.linear import row_of
from delaytron.kernels.logit import (
    FIELDS,
    NEVER,
    NOW,
    START,
    check_memory,
    count_label,
    empty_memory,
    forget_all,
    keep,
    middle_of,
    softmax,
    weigh_known_gaps,
)
from delaytron.kernels.pointwise import (
    COMMON,
    POINTWISE,
    check_samples,
    compare_row,
    fade_rewards,
    forget_rewards,
    is_first,
    learn_reward,
    no_rewards,
    place_zeros,
    score_labels,
    score_variances,
    weigh_posteriors,
    write_row,
)
from delaytron.kernels.standardize import (
    LAST,
    ZERO,
    D,
    first_of,
    hide_others,
    is_due,
    observe,
    score_row,
    squared_length,
    standardize_row,
)
from delaytron.learners import bandit_logit
from delaytron.learners.arguments import Common
from delaytron.learners.bandit_logit import (
    SO_FAR,
    check_floor,
    check_forget,
    forget_answers,
    learn,
    refresh,
    share_kept,
)
from delaytron.learners.book import Book
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import Contributions, LinearForm, Standard, score_parts, with_own_scratch
from delaytron.learners.rule import Rule
from delaytron.records import Array, Ints, Play, Row, Size, Stream

# The state: one model, or two of them and what decides between them.
#
# A model is that of `bandit_logit` (the softmax part), the logistic regressions of `kernels.pointwise`, a ring of the
# last answers and the gate between the two forecasts. Where drift is watched, every field of a model has a leading axis
# of two; the second model is untouched memory until a challenger is born.
OF_SOFTMAX, OF_POINTWISE, FORECAST = range(3)  # cells of `gate`: the squared errors so far, and the last forecast

SOFTMAX = tuple(field for field in bandit_logit.State._fields if field != "bets")
One: Any = cast(Any, namedtuple)("One", (*SOFTMAX, *FIELDS, *POINTWISE, "gate"), module=__name__)
Two: Any = cast(Any, namedtuple)("Two", (*One._fields, *DRIFT), module=__name__)
model_at: Any = taker(One)


class Params(NamedTuple):
    """The factor of steps, the least probability of a label, the share forgotten per answer, the number of replays."""

    lr: float
    floor: float
    forget: float
    replay: int


def init_one(params: Any, size: Size) -> Any:
    """Return a model that has seen nothing."""
    n_runs = params.lr.size
    softmax_part = bandit_logit.init(params, size)._asdict()
    memory = empty_memory(n_runs, size)
    return One(
        *(softmax_part[field] for field in SOFTMAX), *memory, *no_rewards(n_runs, size), np.zeros((n_runs, 3))
    )


def init_two(params: Any, size: Size) -> Any:
    """Return two models that have seen nothing, of which the first plays alone."""
    n_runs = params.lr.size
    twice = init_one(params._replace(lr=np.repeat(params.lr, 2)), size)
    models = (field.reshape(n_runs, 2, *field.shape[1:]) for field in twice)
    return Two(*models, *no_drift(n_runs, size))


# The softmax part has a larger constant than `bandit_logit`: with 1, what all rows share would have to be learned by
# rare one-hot columns, too.
@kernel
def squared_constant(state: Any) -> float:
    """Return the square of the constant behind the features."""
    return 1.0 + min(0.1 * state.squares.size, 8.0)


# Unknown labels: a label is tried while the model is unsure, until it is known (`kernels.logit`) or not worth it.
#
# Of a label with c confirmations in m plays the share of rows on which it is right is about f = (1 + c) / (1 / h + m),
# where h is the mean share among all unknown labels. To know it takes some 3 / f tries, each of which costs what the
# best label would have earned more, top - f. If the rest of the stream is as long as what was seen, n rows, knowing it
# earns n f. So a label with n f^2 < 3 (top - f) is not worth a try: seventy rare labels are not tried one by one, and
# of fifty frequent ones none is given up.
TRIES_TO_KNOW = 3.0


@kernel
def judge_labels(state: Any, top: float, allowed: Any) -> None:
    """Write to `g` which labels are known, or not worth a try on a row on which the best has a chance of `top`."""
    plays, right, unknown = 0.0, 1.0, 0.0
    for k in range(state.plays.size):
        if state.known[k] < 1.0:
            plays += state.plays[k]
            right += state.confirmations[k]
            unknown += 1.0
    rate = (state.plays.size + plays) / right  # one over the mean share
    rows = float(state.seen[LAST])
    state.g[:] = NEVER
    for i in range(n_allowed(allowed, state.plays.size)):
        k = allowed_label(allowed, i)
        state.g[k] = state.known[k]
        if state.known[k] < 1.0:
            share = (1.0 + state.confirmations[k]) / (rate + state.plays[k])
            if rows * share * share < TRIES_TO_KNOW * (top - share):
                state.g[k] = 1.0


# The gate: which forecast of the rewards so far was better?
#
# With L_A and L_B, the squared errors of the softmax part and of the pointwise part, the softmax part plays with
# probability :math:`\omega = \sigma(\sqrt{1 + L_B} + 2 (L_B - L_A))`. The root favours it as long as the difference may
# be chance: where one label is right it explores better than its forecasts show.
CERTAIN = 37.0  # beyond it omega is 0 or 1 to the last digit


@kernel
def trust(gate: Array) -> float:
    """Return omega, the probability that the softmax part plays; 0 or 1 where the other one is as good as refuted."""
    lead_of_softmax = sqrt(1.0 + gate[OF_POINTWISE]) + 2.0 * (gate[OF_POINTWISE] - gate[OF_SOFTMAX])
    if lead_of_softmax > CERTAIN:
        return 1.0
    if lead_of_softmax < -CERTAIN:
        return 0.0
    return 1.0 / (1.0 + exp(-lead_of_softmax))


see: Any = slot()  # (state, indices, values) -> two parts of its length: standardise a row; `observe` also counts it
counts: Any = slot()  # whether it does


@kernel
def weigh_labels(state: Any, floor: float, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Fill in the probabilities of the labels by one model; return the greedy label of the part that leads."""
    indices, values = x.indices, x.values
    more, along = see(state, indices, values)
    share = trust(state.gate)
    length = 0.0
    if share < 1.0 or (counts and is_first(state)):
        length = write_row(state, indices, values)
        if counts and is_first(state):
            compare_row(state, indices, values)
    greedy = 0
    exclude = True
    if share > 0.0:
        exclude = False
        top = score_row(state, indices, values, squared_length(state, more), along, scores)
        if allowed is not None:
            top = hide_others(allowed, scores)
        greedy = first_of(scores, top)
        softmax(scores, top, state.p)
        judge_labels(state, state.p[greedy], allowed)
        weigh_known_gaps(state, state.g, state.p, greedy, 0.0, allowed, p)
    if exclude:
        p[:] = 0.0
    if share < 1.0:
        score_labels(state, indices, values)
        score_variances(state, indices, values, length)
        top = -NEVER
        best = 0
        for i in range(n_allowed(allowed, p.size)):
            r = allowed_label(allowed, i)
            if state.q[r] > top:
                best = r
                top = state.q[r]
        weigh_posteriors(state, state.answers[SO_FAR], best, allowed)
        for i in range(n_allowed(allowed, p.size)):
            r = allowed_label(allowed, i)
            p[r] = share * p[r] + (1.0 - share) * state.v[r]
        if share < 0.5:
            greedy = best
            for k in range(scores.size):
                scores[k] = state.q[k]
    if floor > 0.0:
        K = n_allowed(allowed, p.size)
        for i in range(K):
            r = allowed_label(allowed, i)
            p[r] = floor + (1.0 - K * floor) * p[r]
    return greedy


@kernel
def watch_row(state: Any, x: Row) -> None:
    """Add a row to the statistics of a model that does not play."""
    observe(state, x.indices, x.values)
    if is_first(state):
        write_row(state, x.indices, x.values)
        compare_row(state, x.indices, x.values)


@kernel
def learn_answer(state: Any, replay: int, x: Row, label: int, reward: float) -> float:
    """Let one model learn from an answer; return its forecast of the reward before."""
    indices, values = x.indices, x.values
    share = trust(state.gate)
    state.answers[SO_FAR] += 1.0
    count_label(state, label, 0.0, reward)
    of_softmax = learn(state, indices, values, label, reward)
    length = write_row(state, indices, values)  # from `z`, which `learn` wrote
    of_pointwise = learn_reward(state, indices, values, label, reward, length)
    state.gate[OF_SOFTMAX] += (reward - of_softmax) * (reward - of_softmax)
    state.gate[OF_POINTWISE] += (reward - of_pointwise) * (reward - of_pointwise)
    for i in range(replay if state.kept[0] > 0 else 0):
        place = middle_of(state, i, replay)
        size = state.kept_size[place]
        row = state.kept_values[place, :size]
        if indices is None:
            learn(state, indices, row, state.kept_label[place], state.kept_reward[place])
        else:
            learn(state, state.kept_indices[place, :size], row, state.kept_label[place], state.kept_reward[place])
    keep(state, indices, values, label, reward)
    return share * of_softmax + (1.0 - share) * of_pointwise


@kernel
def refresh_model(state: Any, params: Any) -> None:
    """Bring the statistics of one model up to date, and let it forget what it should."""
    share = share_kept(state, params.forget)
    refresh(state, params)
    place_zeros(state)
    if share < 1.0:
        fade_rewards(state, share)
        state.gate[OF_SOFTMAX] *= share
        state.gate[OF_POINTWISE] *= share


# One model alone.


@kernel
def tick_one(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Refresh means, deviations and rates when the rows have grown by a sixteenth."""
    state.clock[NOW] = now
    if is_due(state):
        refresh_model(state, params)


@kernel
def policy_of_one(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Choose by the gate."""
    return int(weigh_labels(state, params.floor, x, allowed, scores, p))


@kernel
def note_one(
    state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array  # noqa: ARG001
) -> None:
    """Count the play, answered or not."""
    count_label(state, label, 1.0, 0.0)


@kernel
def step_one(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Learn from an answer (right, wrong, or a reward between)."""
    learn_answer(state, params.replay, past.x, past.label, 1.0 * answer)


# Two models: the second one lives during a contest only.


@kernel
def copy_numbers(source: Array, target: Array) -> None:
    """Copy an array of one axis: compiled kernels allocate nothing, and an assignment of slices might."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def copy_table(source: Array, target: Array) -> None:
    """Copy an array of two axes."""
    for i in range(source.shape[0]):
        copy_numbers(source[i], target[i])


@kernel
def begin_again(player: Any, challenger: Any, now: int) -> None:
    """Make the challenger a copy of the player that has forgotten all answers: only what is known of rows remains."""
    copy_table(player.features, challenger.features)
    copy_numbers(player.cells, challenger.cells)
    copy_numbers(player.squares, challenger.squares)
    copy_numbers(player.seen, challenger.seen)
    copy_numbers(player.belief, challenger.belief)
    copy_table(player.sample, challenger.sample)
    copy_table(player.sample_indices, challenger.sample_indices)
    copy_numbers(player.sample_size, challenger.sample_size)
    copy_numbers(player.samples, challenger.samples)
    forget_answers(challenger)
    forget_rewards(challenger)
    forget_all(challenger)
    challenger.gate[:] = 0.0
    challenger.clock[NOW] = now
    challenger.clock[START] = now


@kernel
def tick_two(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Let a challenger begin after an alarm; refresh the models when their rows have grown by a sixteenth."""
    player = state.roles[PLAYER]
    born = False
    # A challenger that leads is about to win: a second alarm must not set it back.
    if is_alarmed(state, now) and not (state.roles[LIVES] == 1 and lead(state.watch) > 0.0):
        begin_again(model_at(state, player), model_at(state, 1 - player), now)
        state.roles[LIVES] = 1
        state.roles[BIRTHS] += 1
        begin_contest(state)
        born = True
    for turn in range(1 + state.roles[LIVES]):
        model = model_at(state, player if turn == 0 else 1 - player)
        model.clock[NOW] = now
        if is_due(model) or (born and turn == 1):
            refresh_model(model, params)


@kernel
def policy_of_two(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Let the player choose, and a living challenger see the row."""
    player = state.roles[PLAYER]
    if counts and state.roles[LIVES] == 1:
        watch_row(model_at(state, 1 - player), x)
    return int(weigh_labels(model_at(state, player), params.floor, x, allowed, scores, p))


@kernel
def note_two(
    state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array  # noqa: ARG001
) -> None:
    """Count the play, answered or not."""
    for turn in range(1 + state.roles[LIVES]):
        model = model_at(state, state.roles[PLAYER] if turn == 0 else 1 - state.roles[PLAYER])
        count_label(model, label, 1.0, 0.0)


@kernel
def step_two(state: Any, params: Any, past: Play, answer: Any) -> None:
    """Learn from an answer (right, wrong, or a reward between); a model learns of decisions since its beginning."""
    reward = 1.0 * answer
    bet(state, past.round, past.label, reward)
    player = state.roles[PLAYER]
    learned = 0
    for turn in range(1 + state.roles[LIVES]):
        model = model_at(state, player if turn == 0 else 1 - player)
        if past.round >= model.clock[START]:
            model.gate[FORECAST] = learn_answer(model, params.replay, past.x, past.label, reward)
            learned += 1
    if learned == 2:  # both could forecast it
        judge(state, reward, state.gate[player, FORECAST], state.gate[1 - player, FORECAST])


def begin_class_of_one(state: Any, label: int) -> None:
    """Give a new class the largest rate of all classes."""
    state.rates[label] = state.rates[:label].max()


def begin_class_of_two(state: Any, label: int) -> None:
    """Do so in both models."""
    state.rates[:, label] = state.rates[:, :label].max(axis=1)


def rule_of(name: str, state: Any, kernels: tuple[Any, Any, Any, Any], init: Any, begin_class: Any) -> Rule:
    """Return the rule for one model alone, or for two."""
    tick, policy, note, step = kernels
    return Rule(
        name,
        Params,
        fill(policy, see=observe, counts=True, squared_constant=squared_constant),
        fill(step, squared_constant=squared_constant),
        state,
        init,
        tick,
        note=note,
        look=fill(policy, see=standardize_row, counts=False, squared_constant=squared_constant),
        scratch=("z", "u", "scores", "p", "g", "row", "q", "v"),
        ties="shares",
        begin_class=begin_class,
        standardizable=False,
        softmax=lambda _state, _params: 1.0,
        corrects_exactly=False,
    )


WATCHED = rule_of("gated_logit", Two, (tick_two, policy_of_two, note_two, step_two), init_two, begin_class_of_two)
ALONE = rule_of("gated_logit_alone", One, (tick_one, policy_of_one, note_one, step_one), init_one, begin_class_of_one)


@kernel
def score_stream(model: Any, stream: Stream, scores: Array, out: Array) -> None:
    """Write the scores of every row of the stream, those of the part that leads, to `out`."""
    share = trust(model.gate)
    for i in range(out.shape[0]):
        x = row_of(stream.indptr, stream.indices, stream.values, i)
        more, along = standardize_row(model, x.indices, x.values)
        if share < 0.5:
            write_row(model, x.indices, x.values)
            score_labels(model, x.indices, x.values)
            for k in range(out.shape[1]):
                out[i, k] = model.q[k]
        else:
            score_row(model, x.indices, x.values, squared_length(model, more), along, scores)
            for k in range(out.shape[1]):
                out[i, k] = scores[k]


_score_stream = fill(score_stream, "gated_logit.score_stream", squared_constant=squared_constant)
_standardize_row = interpreted(standardize_row)
_write_row = interpreted(write_row)
_squared_length = interpreted(fill(squared_length, squared_constant=squared_constant))
_squared_constant = interpreted(squared_constant)
_trust = interpreted(trust)
_model_at = interpreted(model_at)


class GatedLogit(Learner):
    r"""The better of two forecasts of the reward, a softmax over the labels and a regression for each: the default.

    Two parts forecast the reward of every label, on rows that the learner standardises itself. The softmax part is
    `BanditLogit` with a larger constant in the row and one kept answer learned again with every new one: it assumes
    that one label is right, and is the better one wherever that is so. The pointwise part has a logistic regression for
    each label and explores nearly as Thompson sampling does: it learns from clicks, prices, graded answers. With L_A
    and L_B, their squared errors so far, the first one plays with probability

    .. math::
        \omega = \sigma\big(\sqrt{1 + L_B} + 2 (L_B - L_A)\big), \qquad P = \omega P_A + (1 - \omega) P_B

    so the choice between them needs no setting, and the logged probability is exact. Answers are learned with what is
    known when they come; a "right" after an expiry as "wrong" is applied as one more answer.

    If rewards halve, a challenger begins: a second model that learns from the answers since. Whichever forecasts better
    plays, so that neither a true change nor a burst of bad answers costs much (`kernels.drift`). `changes` counts.

    `weights` are those of the part that leads, on standardised features, the constant last: (K, d + 1).

    Parameters
    ----------
    lr : float
        Multiplies every step of the softmax part, above 0.
    explore_floor : float
        The least probability of every label, from 0 to 1/K; 0.01 makes the log usable for off-policy evaluation.
    replay : int
        How many of the last 1000 answers the softmax part learns again with every answer.
    forget : float
        The share of the evidence to forget with every answer, from 0 to below 1: for streams that drift slowly.
    drift : bool
        Whether a challenger may begin.

    Examples
    --------
    >>> learner = GatedLogit(n_classes=3, n_features=2, seed=0)
    >>> decision = learner.decide([1.0, 250.0])
    >>> learner.feedback(decision.id, reward=0.7)
    'accepted'
    >>> learner.decide([1.1, 190.0]).round
    2
    >>> learner.changes
    {'challenger': False, 'born': 0, 'won': 0, 'dropped': 0}
    """

    name = "gated_logit"
    takes_rewards = True
    grid = {}
    rule = WATCHED

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        *,
        lr: float = 1.0,
        explore_floor: float = 0.0,
        replay: int = 1,
        forget: float = 0.0,
        drift: bool = True,
        **common: Unpack[Common],
    ) -> None:
        self.lr = check_scale("lr", lr)
        self.explore_floor = check_floor(explore_floor, n_classes)
        self.replay = check_integer("replay", replay, at_least=0)
        self.forget = check_forget(forget)
        self.drift = check_bool("drift", drift)
        if not self.drift:
            self.rule = ALONE
        super().__init__(n_classes, n_features, Params(self.lr, self.explore_floor, self.forget, self.replay), common)

    def restore(self, sparse: bool, state: Any, book: Book) -> None:
        """Take over a saved state; raise ValueError if compiled code cannot trust its roles and kept rows."""
        size = self.size(sparse)
        check_memory(state, size)
        check_samples(state, size)
        if self.drift:
            check_roles(state.roles)
        super().restore(sparse, state, book)

    @property
    def changes(self) -> dict[str, int | bool]:
        """Whether a challenger learns beside the model, and how many began, won and were dropped so far."""
        with self._lock:
            roles = self.state.roles if self.drift else np.zeros(5, np.int64)
            names = {"born": BIRTHS, "won": WINS, "dropped": DROPS}
            return {"challenger": bool(roles[LIVES])} | {name: int(roles[cell]) for name, cell in names.items()}

    def _player(self, state: Any) -> Any:
        """Return the model that plays."""
        return _model_at(state, int(state.roles[PLAYER])) if self.drift else state

    def scores(self, X: Any) -> Array:
        """Return the scores of every row by the part that leads, as an (n, K) array; raise InvalidInput for other rows.

        Those of the softmax part are the logits of the classes, those of the pointwise part the logits of a reward.
        """
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            model = self._player(with_own_scratch(self))
            return score_parts(rows, self.n_classes, self.sparse, lambda *args: _score_stream(model, *args))

    def _contributions(self, row: Row) -> Contributions:
        model = self._player(with_own_scratch(self))
        more, _ = _standardize_row(model, row.indices, row.values)
        K = self.n_classes
        if _trust(model.gate) < 0.5:
            _write_row(model, row.indices, row.values)
            z = model.row[: row.values.size]
            M = model.M if row.indices is None else model.M[row.indices, :K].T
            return Contributions(model.belief[COMMON] + model.offset, np.ascontiguousarray(M * z))
        scale = 1.0 / sqrt(_squared_length(model, more))
        z = model.z[: row.values.size] * scale
        if row.indices is None:
            return Contributions(model.bias * scale, model.W * z)
        rates = model.features[row.indices, D] * model.features[row.indices, ZERO]
        W = model.W[row.indices, :K] + np.outer(rates, model.shift[:K])
        return Contributions(model.base[:K] * scale, np.ascontiguousarray((W * z[:, None]).T))

    def _linear_form(self) -> LinearForm:
        model = self._player(self.state)
        W = self.weights_of(self.state)
        table = model.features.T if self.sparse else model.features
        centre, inverse, zero = (row.copy() for row in table[:3])
        if _trust(model.gate) < 0.5:
            standard = Standard(centre, inverse, zero, 0.0)
            return LinearForm(W[:, :-1], np.zeros(len(W)), standard, offset=W[:, -1], sharpness=1.0)
        standard = Standard(centre, inverse, np.zeros_like(zero), float(_squared_constant(model)))
        return LinearForm(W[:, :-1], W[:, -1], standard, sharpness=1.0)

    @property
    def weights(self) -> Array:
        """The weights of the part that leads, on its features and, last, the constant, as a (K, d + 1) matrix, a copy."""
        with self._lock:
            return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state."""
        model = self._player(state)
        if _trust(model.gate) < 0.5:
            return np.column_stack([self._matrix(model.M), model.belief[COMMON] + model.offset])
        features = self._matrix(model.W)
        if self.sparse:
            features += np.outer(model.shift[: self.n_classes], model.features[:, D] * model.features[:, ZERO])
        return np.column_stack([features, model.bias])
