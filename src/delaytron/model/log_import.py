"""`Model.learn_from`: the decisions of a log, recorded with their probabilities and answered as late as in the log."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.answers import Answering
from delaytron.checks import check_bool
from delaytron.errors import ConflictingFeedback, InvalidInput, Setting, shown
from delaytron.journal.ids import check_id
from delaytron.learners.predictions import Scratch, look, private_scratch
from delaytron.logs.log import check_log, learning_order
from delaytron.logs.schema import DENSE, NAMED, decode_features, kind_of
from delaytron.model.encoders import FeatureEncoder, VectorEncoder, make_encoder
from delaytron.model.engine import Elsewhere, Engine
from delaytron.records import Ints, Moment, Row

if TYPE_CHECKING:
    from delaytron.logs.log import Log

BATCH = 500  # decisions and answers in one transaction
FIRST_ANSWERS = ("accepted", "corrected", "late")  # replies to an answer that is the first one
Z_95 = 1.959963984540054  # half of the 95 % interval of a normal distribution, in deviations

Advance = Callable[[int], object]


class Learned(NamedTuple):
    """What `Model.learn_from` recorded.

    Attributes
    ----------
    recorded, recorded_before : int
        Decisions of the log that are in the model since this call; those that it had already.
    answered, answered_after_expiry : int
        Decisions of both kinds that have an answer; those whose answer was late: kept, and not learned from.
    omitted : dict
        Numbers of decisions that were left out, by the reason: `bad_id` or `features`.
    unused_answers : dict
        Numbers of outcomes that were not used, by the reason: `conflicting` or `again`.
    mean_reward, mean_reward_margin : float or None
        The mean reward of the policy that was logged, and half of its 95 % interval; from 0 to 1.
    """

    recorded: int
    recorded_before: int
    answered: int
    answered_after_expiry: int
    omitted: dict[str, int]
    unused_answers: dict[str, int]
    mean_reward: float | None
    mean_reward_margin: float | None


def learn_from(
    engine: Engine, log: "Log", prefix: str, skip_bad: bool, started: Callable[[int], Advance] | None = None
) -> Learned:
    """Record the decisions of a log and their outcomes, a few hundred in one transaction; see `Model.learn_from`.

    `started` is called with the number of decisions, and returns a function that is called with the number of decisions
    recorded since its last call.
    """
    check_log(log)
    check_bool("skip_bad", skip_bad)
    if not isinstance(prefix, str):
        raise InvalidInput.of("prefix", "a string", prefix)
    check_answers(engine.state.answering, log)
    recording = _Recording(engine, log, prefix)
    if not skip_bad:
        recording.check_all()
    engine.state.learner.compile()
    advance = (lambda _: None) if started is None else started(len(log))
    rows, is_outcome = learning_order(log)
    for begin in range(0, rows.size, BATCH):
        batch = slice(begin, begin + BATCH)
        engine.run(partial(recording.take, rows[batch].tolist(), is_outcome[batch].tolist()))
        advance(int(np.count_nonzero(~is_outcome[batch])))
    return recording.result()


def check_answers(answering: Answering, log: "Log") -> None:
    """Raise InvalidInput if a learner cannot take the outcomes of a log."""
    if answering.feedback_type == "label":
        raise InvalidInput(
            "this learner learns from the right class, and a log has rewards", "choose another learner for the model"
        )
    between = np.flatnonzero((log.outcomes > 0) & (log.outcomes < 1))
    if not answering.rewards and between.size:
        issued, reward = log.table["id"][int(between[0])].as_py(), log.outcomes[between[0]]
        raise InvalidInput(
            f"decision {shown(issued)}: this learner takes right or wrong only, got the reward {reward}",
            "choose another learner for the model",
        )


class _Recording:
    """Copies the decisions of a log into a model, and counts them."""

    def __init__(self, engine: Engine, log: "Log", prefix: str) -> None:
        self.engine = engine
        self.log = log
        self.ids = [prefix + issued for issued in log.table["id"].to_pylist()]
        self.encode_row = _row_encoder(log, engine.state.encoder)
        self.labels = _labels_of(log, engine)
        self.counts: Counter[str] = Counter()
        self.omitted: Counter[str] = Counter()
        self.unused: Counter[str] = Counter()
        self._buffers: Scratch = {}
        self._left_out: set[int] = set()
        self._known: dict[int, float] = {}  # answers that the model had before, by row
        self._rewards: list[float] = []
        self._weights: list[float] = []

    def check_all(self) -> None:
        """Raise InvalidInput for the first decision that cannot be recorded."""
        encoder = make_encoder(**self.engine.state.encoder.settings())  # the model's own would remember the names
        for row, issued in enumerate(self.ids):
            try:
                check_id(issued)
                self.encode_row(encoder, row)
            except InvalidInput as problem:
                hint = ("leave such decisions out by ", Setting("skip_bad", "True"))
                raise InvalidInput(f"row {row} of the log: {problem}", hint) from None

    def take(self, rows: list[int], is_outcome: list[bool], now: Moment) -> None:
        """Record and answer some decisions; an operation, one transaction."""
        # Again for each transaction: between two of them a class may be added, and compiled code checks no lengths.
        self._buffers = private_scratch(self.engine.state.learner)
        for row, answers in zip(rows, is_outcome, strict=True):
            (self.answer if answers else self.decide)(row, now)

    def decide(self, row: int, now: Moment) -> None:
        """Record the decision of a row, unless the model has it already or it cannot be recorded."""
        issued, state = self.ids[row], self.engine.state
        reason = "bad_id"
        try:
            check_id(issued)
            known = self.engine.store.known(issued)
            if known is not None:
                self.counts["before"] += 1
                if known.value is not None:
                    self._known[row] = known.value
                    self._count_answer(row, known.value)
                return
            reason = "features"
            x = self.encode_row(state.encoder, row)
        except InvalidInput:
            self.omitted[reason] += 1
            self._left_out.add(row)
            return
        every = self.labels if self.log.allowed is None else self.labels[self.log.allowed[row]]
        allowed = np.sort(every)
        # What looks best to the model itself: a decision of its own would have it as well.
        best = look(state.learner, x, allowed, self._buffers)[0]
        restricted = None if np.array_equal(allowed, state.classes.allowed(None)) else allowed
        label, prob = int(self.labels[self.log.labels[row]]), float(self.log.probs[row])
        self.engine.record(now, issued, Elsewhere(x, label, prob, restricted, best))
        self.counts["recorded"] += 1

    def answer(self, row: int, now: Moment) -> None:
        """Answer the decision of a row by its outcome."""
        value = float(self.log.outcomes[row])
        if row in self._left_out:
            return
        if row in self._known:
            self.unused["conflicting"] += self._known[row] != value
            return
        given = (None, None, value) if self.engine.state.answering.rewards else (value == 1.0, None, None)
        try:
            replied = self.engine.answer(now, self.ids[row], *given)
        except ConflictingFeedback:  # another process has answered since the decision was recorded
            self.unused["conflicting"] += 1
            return
        if replied in FIRST_ANSWERS:
            self.counts["late"] += replied == "late"
            self._count_answer(row, value)
        else:
            self.unused["again"] += 1

    def _count_answer(self, row: int, value: float) -> None:
        self._rewards.append(value)
        self._weights.append(1.0 if self.log.weights is None else float(self.log.weights[row]))

    def result(self) -> Learned:
        """Return the counts and the mean reward."""
        counts, mean, margin = self.counts, None, None
        rewards, weights = np.array(self._rewards), np.array(self._weights)
        if rewards.size:
            mean = float(weights @ rewards / weights.sum())
        if mean is not None and rewards.size > 1:
            spread = float(np.sum((weights * (rewards - mean)) ** 2)) * rewards.size / (rewards.size - 1)
            margin = Z_95 * sqrt(spread) / float(weights.sum())
        return Learned(
            counts["recorded"],
            counts["before"],
            rewards.size,
            counts["late"],
            dict(+self.omitted),
            dict(+self.unused),
            mean,
            margin,
        )


def _labels_of(log: "Log", engine: Engine) -> Ints:
    """Return the labels of the model by those of a log; raise InvalidInput if the model lacks a class."""
    names = engine.state.classes.names
    labels: dict[Any, int] = {str(name): label for label, name in enumerate(names)}
    labels |= {name: label for label, name in enumerate(names)}  # 17 is another class than "17" if there are both
    missing = [name for name in log.classes if name not in labels and str(name) not in labels]
    if missing:
        raise InvalidInput(
            f"the log has the class {shown(missing[0])}, which the model does not have",
            f"call add_class({shown(missing[0])}) first",
        )
    return np.array([labels.get(name, labels.get(str(name))) for name in log.classes], np.int64)


def _row_encoder(log: "Log", encoder: FeatureEncoder) -> Callable[[FeatureEncoder, int], Row]:
    """Return a function that encodes a row of a log, by its number; raise InvalidInput if the features do not fit."""
    kind = kind_of(log.table.schema)
    vectors = isinstance(encoder, VectorEncoder)
    if kind == NAMED:
        if vectors:
            raise InvalidInput(
                f"the log has named features, and the model takes vectors of {encoder.n_features} numbers",
                ("make it with ", Setting("features", '"hashed"')),
            )
        texts = log.table["features"]
        return lambda encoder, row: encoder.encode(decode_features(texts[row].as_buffer()))
    X = log.features
    if encoder.n_features != log.n_features or not (vectors or (encoder.sparse and kind != DENSE)):
        raise InvalidInput(
            f"the log has vectors of {log.n_features} numbers, and the model takes other features",
            ("make it with ", Setting("features", str(log.n_features))),
        )
    if not encoder.sparse:
        return lambda encoder, row: encoder.encode(X[row])

    def hashed_row(_: FeatureEncoder, row: int) -> Row:
        # A model with as many hashed features exported it: the rows have their places already, and no names.
        places = slice(X.indptr[row], X.indptr[row + 1])
        return Row(X.indices[places].astype(np.uint32), X.data[places].astype(np.float64))

    return hashed_row
