"""GatedLogit: two forecasts of the reward, of which the better one plays; a second model when things change."""

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
from delaytron.kernels.explore import allowed_label, n_allowed
from delaytron.kernels.linear import row_of
from delaytron.kernels.logit import (
    FIELDS,
    LEAST_SLOPE,
    NEVER,
    NOW,
    START,
    bandit_gradient,
    check_memory,
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
from delaytron.records import Array, Play, Row, Size, Stream

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
    return One(*(softmax_part[field] for field in SOFTMAX), *memory, *no_rewards(n_runs, size), np.zeros((n_runs, 3)))


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
    return 1.0 + float(min(0.1 * state.squares.size, 8.0))


# Unknown labels: what a "wrong" says about labels that were hardly ever right.
#
# A "wrong" about a label raises the others in proportion to their chances. A label that nobody saw confirmed has hardly
# any chance where the model is sure of another one, and that one can be refuted there for ever: the true one never
# rises. So a label with fewer than three confirmations is credited with more than its chance: with half the share of
# rows on which it may be right,
#
# .. math::
#     f = \frac{1 + c}{1 / h + m}, \qquad h = \frac{1 + C}{K + M}
#
# after c confirmations in m answered plays; h is the mean share of the other unknown labels, with C confirmations in M
# plays. No label is tried for the sake of trying: an unknown one rises where the others are refuted, until it is
# played there. Of seventy rare labels hardly one is tried, since h falls with every try; of fifty frequent ones none is
# lost.
CONFIRMED = 3.0
CREDIT = 0.5


@kernel
def credit_unknown(state: Any, label: int) -> float:
    """Write to `g` with how much more than its chance each label is credited after a "wrong"; return the sum."""
    K = state.plays.size
    plays, right, all_plays = 0.0, 0.0, 0.0
    for k in range(K):
        all_plays += state.plays[k]
        if state.confirmations[k] < CONFIRMED:
            plays += state.plays[k]
            right += state.confirmations[k]
    answered = min(1.0, state.answers[SO_FAR] / max(1.0, all_plays))  # of the plays
    state.g[:] = 0.0
    total = 0.0
    for k in range(K):
        if k != label and state.confirmations[k] < CONFIRMED:
            own, hits = answered * state.plays[k], state.confirmations[k]
            # As in the formula, without 1 / h: labels without any confirmation must get the same bits.
            share = (1.0 + hits) * (1.0 + right - hits) / (K + answered * plays + own * (right - hits))
            state.g[k] = CREDIT * share
            total += state.g[k]
    return total


@kernel
def credited_gradient(state: Any, label: int, reward: float) -> float:
    """Write the gradient of an answer with respect to the scores to `g`; return its squared length."""
    credit = credit_unknown(state, label) if reward < 1.0 else 0.0
    if credit == 0.0:
        return float(bandit_gradient(state.p, label, reward, state.g))
    # The target of a "wrong": the other labels in proportion to chance and credit.
    share = (1.0 - reward) / (1.0 - state.p[label] + credit)
    squares = 0.0
    for k in range(state.g.size):
        slope = state.p[k] - share * (state.p[k] + state.g[k]) if k != label else state.p[k] - reward
        state.g[k] = slope if slope * slope >= LEAST_SLOPE * LEAST_SLOPE else 0.0
        squares += state.g[k] * state.g[k]
    return squares


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
def weigh_labels(
    state: Any, floor: float, x: Row, parts: tuple[float, float], allowed: Any, scores: Array, p: Array
) -> int:
    """Fill in the probabilities of the labels, given what `see` returned; return the greedy one of the leading part."""
    indices, values = x.indices, x.values
    K = n_allowed(allowed, p.size)
    share = trust(state.gate)
    greedy = 0
    if share > 0.0:
        top = score_row(state, indices, values, squared_length(state, parts[0]), parts[1], scores)
        if allowed is not None:
            top = hide_others(allowed, scores)
        greedy = first_of(scores, top)
        softmax(scores, top, state.p)
        state.g[:] = NEVER
        for i in range(K):
            state.g[allowed_label(allowed, i)] = 1.0
        weigh_known_gaps(state, state.g, state.p, greedy, 0.0, allowed, p)
    else:
        p[:] = 0.0
    if share < 1.0:
        length = write_row(state, indices, values)
        score_labels(state, indices, values)
        score_variances(state, indices, values, length)
        best = allowed_label(allowed, 0)
        for i in range(1, K):
            r = allowed_label(allowed, i)
            if state.q[r] > state.q[best]:
                best = r
        if share < 0.5:
            greedy = best
            for k in range(scores.size):
                scores[k] = state.q[k]
        weigh_posteriors(state, state.answers[SO_FAR], best, allowed)
        for i in range(K):
            r = allowed_label(allowed, i)
            p[r] = share * p[r] + (1.0 - share) * state.v[r]
    if floor > 0.0:
        for i in range(K):
            r = allowed_label(allowed, i)
            p[r] = floor + (1.0 - K * floor) * p[r]
    return greedy


@kernel
def count_row(state: Any, x: Row) -> tuple[float, float]:
    """Standardise a row, and if it is new add it to the statistics; return what `see` does."""
    more, along = see(state, x.indices, x.values)
    if counts and is_first(state):
        write_row(state, x.indices, x.values)
        compare_row(state, x.indices, x.values)
    return more, along


@kernel
def learn_answer(state: Any, replay: int, x: Row, label: int, reward: float) -> float:
    """Let one model learn from an answer; return its forecast of the reward before."""
    indices, values = x.indices, x.values
    share = trust(state.gate)
    state.answers[SO_FAR] += 1.0
    state.confirmations[label] += reward
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
    return int(weigh_labels(state, params.floor, x, count_row(state, x), allowed, scores, p))


@kernel
def note_one(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Count the play, answered or not."""
    state.plays[label] += 1.0


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
def copy_rows(state: Any, player: int) -> None:
    """Give the other model what the player knows of rows: the statistics, and the sample to compare with."""
    other = 1 - player
    copy_table(state.features[player], state.features[other])
    copy_numbers(state.cells[player], state.cells[other])
    copy_numbers(state.squares[player], state.squares[other])
    copy_numbers(state.seen[player], state.seen[other])
    copy_numbers(state.belief[player], state.belief[other])
    copy_table(state.sample[player], state.sample[other])
    copy_table(state.sample_indices[player], state.sample_indices[other])
    copy_numbers(state.sample_size[player], state.sample_size[other])
    copy_numbers(state.samples[player], state.samples[other])


@kernel
def forget_everything(model: Any, now: int) -> None:
    """Forget all answers; answers to rounds before this one will not be learned."""
    forget_answers(model)
    forget_rewards(model)
    forget_all(model)
    model.gate[:] = 0.0
    model.clock[START] = now


@kernel
def tick_two(state: Any, params: Any, now: int, outstanding: int) -> None:  # noqa: ARG001
    """Let a challenger begin after an alarm; refresh the models when their rows have grown by a sixteenth."""
    player = state.roles[PLAYER]
    # A challenger that leads is about to win: a second alarm must not set it back.
    born = is_alarmed(state, now) and not (state.roles[LIVES] == 1 and lead(state.watch) > 0.0)
    if born:
        copy_rows(state, player)
        state.roles[LIVES] = 1
        state.roles[BIRTHS] += 1
        begin_contest(state)
    for turn in range(1 + state.roles[LIVES]):
        model = model_at(state, player if turn == 0 else 1 - player)
        begins = born and turn == 1
        if begins:
            forget_everything(model, now)
        model.clock[NOW] = now
        if begins or is_due(model):
            refresh_model(model, params)


@kernel
def policy_of_two(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """Let a living challenger see the row, and the player choose."""
    player = state.roles[PLAYER]
    greedy = 0
    for turn in range(state.roles[LIVES] if counts else 0, -1, -1):
        model = model_at(state, player if turn == 0 else 1 - player)
        parts = count_row(model, x)
        if turn == 0:
            greedy = weigh_labels(model, params.floor, x, parts, allowed, scores, p)
    return greedy


@kernel
def note_two(state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array) -> None:  # noqa: ARG001
    """Count the play, answered or not."""
    player = state.roles[PLAYER]
    for turn in range(1 + state.roles[LIVES]):
        state.plays[player if turn == 0 else 1 - player, label] += 1.0


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


def begin_class_of_two(state: Any, label: int) -> None:
    """Give a new class the largest rate of all classes, in both models."""
    state.rates[:, label] = state.rates[:, :label].max(axis=1)


def rule_of(name: str, state: Any, kernels: tuple[Any, Any, Any, Any], init: Any, begin_class: Any) -> Rule:
    """Return the rule for one model alone, or for two."""
    tick, policy, note, step = kernels
    return Rule(
        name,
        Params,
        fill(policy, see=observe, counts=True, squared_constant=squared_constant),
        fill(step, squared_constant=squared_constant, gradient=credited_gradient),
        state,
        init,
        tick,
        note=note,
        look=fill(policy, see=standardize_row, counts=False, squared_constant=squared_constant),
        scratch=("z", "u", "scores", "p", "g", "row", "q", "v"),
        ties="shares",
        begin_class=begin_class,
        standardizable=False,
        corrects_exactly=False,
    )


WATCHED = rule_of("gated_logit", Two, (tick_two, policy_of_two, note_two, step_two), init_two, begin_class_of_two)
ALONE = rule_of(
    "gated_logit_alone", One, (tick_one, policy_of_one, note_one, step_one), init_one, bandit_logit.begin_class
)


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
    r"""Plays by the better of two forecasts of the reward: a softmax over the labels, or a regression for each.

    Two parts forecast the reward of every label, on rows that the learner standardises itself. The softmax part is
    `BanditLogit` with a larger constant in the row and one kept answer learned again with every new one: it assumes
    that one label is right, and is the better one wherever that is so. The pointwise part has a logistic regression for
    each label and explores nearly as Thompson sampling does: it learns from clicks, prices and graded answers. With L_A
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

    def count_changes(self) -> tuple[int, ...]:
        """Return how many challengers began, won and were dropped; empty without drift.

        A model asks after every round: so only an array is read.
        """
        return tuple(self.state.roles[BIRTHS : DROPS + 1].tolist()) if self.drift else ()

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
            return LinearForm(W[:, :-1], np.zeros(len(W)), standard, offset=W[:, -1])
        standard = Standard(centre, inverse, squared_constant=float(_squared_constant(model)))
        return LinearForm(W[:, :-1], W[:, -1], standard)

    @property
    def weights(self) -> Array:
        """The weights of the part that leads, those of the constant last, as a (K, d + 1) matrix, a copy."""
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
