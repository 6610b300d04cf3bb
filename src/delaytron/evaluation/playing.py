"""Learners that learn from a log: from all of it, or only from the decisions that they would have made themselves.

`learn_along` lets a learner learn from every decision of the log, with the label and the probability of the log. What
it would play in round t depends on the rounds before and on outcomes that had come by then, so with these
probabilities w r - sum over labels of pi r is 0 on average given the past: the estimates are of the mean value of the
policies that the learner went through.

`play_by_rejection` (Li, Chu, Langford and Wang, 2011) lets it play: round t is accepted with probability
least pi(label) / prob, where `least` is the smallest probability in the log. A round with label a is then accepted
with probability least pi(a): every round as often as any other, with the labels that the learner would play. What it
accepts is a run of its own, and it learns from nothing else.

In both, an outcome reaches the learner before the first decision that was made after it had come; in a log without
times, before the next one.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.evaluation.features import rows_of
from delaytron.evaluation.policies import Advance, allowed_labels
from delaytron.learners import Learner
from delaytron.learners.looking import look, room_to_look
from delaytron.learners.rows import as_row
from delaytron.matrices import check_matrix, is_sparse
from delaytron.records import Array, Bools, Ints, Row

if TYPE_CHECKING:
    from delaytron.logs.log import Log

NOW = np.iinfo(np.int64).min


class Replayed(NamedTuple):
    """The probabilities in every round, and which rounds were accepted."""

    probabilities: Array
    accepted: Bools


class FixedDraw:
    """Stands in for the exploration of a learner: the next draw is known."""

    u = 0.0

    def random(self) -> float:
        """Return it."""
        return self.u


def time_order(log: "Log") -> Ints:
    """Return the rounds in the order in which they were decided."""
    if log.decided_at is None:
        return np.arange(len(log))
    return np.argsort(log.decided_at, kind="stable")


def learn_along(log: "Log", learner: Learner, advance: Advance) -> Array:
    """Return the probabilities of a learner that learns from all decisions of a log."""
    student = _Student(log, learner)
    for t, row, labels in student.rounds():
        greedy, _ = student.look(t, row, labels)
        student.take(t, row, labels, greedy, float(log.probs[t]))
        advance(1)
    return student.probabilities


def play_by_rejection(log: "Log", learner: Learner, draws: Array, advance: Advance) -> Replayed:
    """Let a learner play on a log: it accepts the decisions that are as its own would be."""
    student = _Student(log, learner)
    accepted = np.zeros(len(log), np.bool_)
    share = acceptance(log)
    for t, row, labels in student.rounds():
        greedy, p = student.look(t, row, labels)
        prob = float(p[log.labels[t]])
        accepted[t] = draws[t] < prob * share[t]
        if accepted[t]:
            student.take(t, row, labels, greedy, prob)
        advance(1)
    return Replayed(student.probabilities, accepted)


def acceptance(log: "Log") -> Array:
    """Return with which probability the label of each round is accepted if the policy plays it for sure."""
    every = log.probs if log.probabilities is None else log.probabilities[log.probabilities > 0]
    return np.minimum(1.0, min(float(every.min()), float(log.probs.min())) / log.probs)


class _Student:
    """A learner that takes decisions of a log for its own."""

    def __init__(self, log: "Log", learner: Learner) -> None:
        self.log = log
        self.learner = learner
        self.X: Any = check_matrix(rows_of(log), learner.n_features)
        learner._reset_state(sparse=is_sparse(self.X))
        self.room = room_to_look(learner)
        self.probabilities = np.empty((len(log), log.n_classes))
        self.coming: list[tuple[int, int, float]] = []  # when, which decision, and the reward
        self.draw = FixedDraw()

    def rounds(self) -> Iterator[tuple[int, Row, Ints]]:
        """Iterate over the rounds; before each, what had come by then is learned."""
        allowed = allowed_labels(self.log)
        for t in time_order(self.log).tolist():
            self._hear(t)
            x = self.X[t : t + 1] if is_sparse(self.X) else self.X[t]
            yield t, as_row(x, self.learner.n_features, self.learner.sparse), allowed[t]

    def _hear(self, t: int) -> None:
        now = NOW if self.log.decided_at is None else int(self.log.decided_at[t])
        heard = False
        while self.coming and self.coming[0][0] <= now:
            _, number, reward = heappop(self.coming)
            self.learner._take_answer(number, reward if self.learner.takes_rewards else int(reward))
            heard = True
        if heard:
            self.learner.flush()

    def look(self, t: int, row: Row, labels: Ints) -> tuple[int, Array]:
        """Return the greedy label and the probabilities of a round."""
        greedy, p = look(self.learner, row, labels, self.room)
        self.probabilities[t] = p
        return greedy, p

    def take(self, t: int, row: Row, labels: Ints, greedy: int, prob: float) -> None:
        """Let the learner have played the label of the log with this probability; its outcome will come."""
        label = int(self.log.labels[t])
        play = self._played(t, row, labels, label)
        play = play._replace(greedy=greedy, label=label, prob=prob)
        self.learner.ledger.plays[play.round] = play
        reward = float(self.log.outcomes[t])
        if not np.isnan(reward):
            heappush(self.coming, (self._received(t), play.round, reward))

    def _played(self, t: int, row: Row, labels: Ints, label: int) -> Any:
        """Play a round so that the label comes out; a learner that notes something of it must see all labels."""
        if not self.learner.rule.extras:
            return self.learner._play_row(row, np.array([label]))
        p = self.probabilities[t]
        self.draw.u = min(float(p[:label].sum() + 0.5 * p[label]), np.nextafter(1.0, 0.0))
        vars(self.learner)["_draws"] = self.draw
        return self.learner._play_row(row, labels)

    def _received(self, t: int) -> int:
        if self.log.decided_at is None:
            return int(NOW)
        times = self.log.decided_at if self.log.received_at is None else self.log.received_at
        return int(times[t])
