"""What a model knows, as a fold over facts: the same facts in the same order make the same state, to the bit."""

from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from delaytron.journal.answers import Answering
from delaytron.journal.clock import Moment
from delaytron.kernels import loop
from delaytron.learners.base import Learner
from delaytron.learners.compiling import compile_all
from delaytron.learners.ledger import CANCELLED, LAPSED, RELEASED
from delaytron.learners.many import play_many
from delaytron.model.classes import Classes, Name
from delaytron.model.encoding import FeatureEncoder
from delaytron.model.tally import Tally
from delaytron.model.waiting import Wait
from delaytron.records import Ints, Play, Row


class Unanswered(NamedTuple):
    """A decision without an answer."""

    round: int
    label: int
    now: Moment


class Core:
    """A learner with names for its features and classes, and ids for its decisions.

    `open` has the decisions that wait for an answer, in the order of their rounds; `lapsed` those that expired as wrong
    and may be corrected.
    """

    def __init__(
        self, learner: Learner, encoder: FeatureEncoder, classes: Classes, wait: Wait | None, as_wrong: bool
    ) -> None:
        self.learner = learner
        self.encoder = encoder
        self.classes = classes
        self.wait = wait
        self.as_wrong = as_wrong
        self.open: dict[str, Unanswered] = {}
        self.lapsed: dict[str, Unanswered] = {}
        self.tally = Tally(len(classes.names))

    @property
    def rounds(self) -> int:
        """How many decisions were made."""
        return self.learner.ledger.rounds

    @property
    def answering(self) -> Answering:
        """Which answers are taken; noise flips right and wrong, and cannot flip a reward."""
        learner = self.learner
        rewards = learner.takes_rewards and not learner.feedback_model.flips
        return Answering(learner.feedback_type, rewards, tuple(self.classes.names), self.as_wrong)

    def warm_up(self) -> None:
        """Have the machine code for a decision, which takes seconds where none is on disk yet."""
        n_features = self.learner.n_features
        row = Row(np.zeros(1, np.uint32), np.ones(1)) if self.encoder.sparse else Row(None, np.ones(n_features))
        compile_all(self.learner, row)

    def decide(self, id: str, row: Row, labels: Ints, now: Moment) -> Play:
        """Play a round, under an id that is new."""
        play = self.learner._play_row(row, labels)
        self._wait_for(id, play, now)
        return play

    def _wait_for(self, id: str, play: Play, now: Moment) -> None:
        self.open[id] = Unanswered(play.round, play.label, now)
        self.tally.played[play.label] += 1

    def decide_many(
        self, ids: list[str], rows: Any, labels: Ints, now: Moment
    ) -> tuple[list[int], list[int], list[float]]:
        """Play a round for each row; return the greedy labels, those played, and their probabilities."""
        first, (greedy, label, prob, _) = play_many(self.learner, rows, labels)
        played = label.tolist()
        self.open.update(zip(ids, map(Unanswered, range(first, first + len(ids)), played, repeat(now)), strict=True))
        for k, count in enumerate(np.bincount(label, minlength=len(self.tally.played)).tolist()):
            self.tally.played[k] += count
        return greedy.tolist(), played, prob.tolist()

    def adopt(self, id: str, chosen: Play, now: Moment) -> Play:
        """Play a round in which somebody else chose, with this probability; `chosen` has the round of nobody yet.

        Its row is counted in as any other. What the learner notes of the moment is that of `chosen`, if it has it.
        """
        play = self._play_as(chosen)
        self._wait_for(id, play, now)
        return play

    def _play_as(self, chosen: Play) -> Play:
        played = self.learner._play_row(chosen.x, np.array([chosen.label]))
        extra = chosen.extra if chosen.extra.size else played.extra
        play = played._replace(greedy=chosen.greedy, prob=chosen.prob, extra=extra)
        self.learner.ledger.plays[play.round] = play
        return play

    def issue(self, row: Row, labels: Ints) -> Play:
        """Play a round and forget it: a token will tell of it."""
        return self._hand_out(self.learner._play_row(row, labels))

    def adopt_issued(self, chosen: Play) -> Play:
        """Play a round in which somebody else chose, and forget it: a token will tell of it."""
        return self._hand_out(self._play_as(chosen))

    def _hand_out(self, play: Play) -> Play:
        self.learner._release(play.round)
        self.tally.played[play.label] += 1
        self.tally.issued += 1
        return play

    def answer_to_token(self, round: int) -> float | None:
        """Return what was answered to a decision that a token tells of; None if nothing was."""
        answer = self.learner.ledger.answers[round - 1]
        return None if answer == RELEASED else float(answer)

    def redeem(self, play: Play, value: float, wait: int) -> None:
        """Take the answer to a decision that a token told of, so many ns after it was made."""
        self.learner._take_back(play)
        self.learner._take_answer(play.round, self._learned(value))
        self.tally.answer(play.label, self._reward(play.label, value), wait)
        self.tally.redeemed += 1

    def answer(self, id: str, value: float, now: Moment) -> None:
        """Take the answer to a decision that is open, or lapsed."""
        decided = self.open.get(id) or self.lapsed[id]
        self.learner._take_answer(decided.round, self._learned(value))
        self.tally.late += id in self.lapsed
        self.open.pop(id, None)
        self.lapsed.pop(id, None)
        self.tally.answer(decided.label, self._reward(decided.label, value), now.clock - decided.now.clock)

    def _learned(self, value: float) -> float:
        """Return an answer as the learner takes it."""
        return value if self.learner.takes_rewards else int(value)

    def _reward(self, label: int, value: float) -> float:
        """Return the reward that an answer means."""
        return float(value == label) if self.learner.feedback_type == "label" else value

    def expire(self, id: str) -> None:
        """Wait no longer for the answer to a decision."""
        decided = self.open[id]
        self._end_wait(decided, loop.EXPIRED if self.as_wrong else loop.DROPPED, LAPSED)
        if self.as_wrong:
            self.lapsed[id] = decided
        del self.open[id]
        self.tally.expired += 1

    def cancel(self, id: str) -> None:
        """Want no answer to a decision."""
        self._end_wait(self.open[id], loop.DROPPED, CANCELLED)
        del self.open[id]
        self.tally.cancelled += 1

    def _end_wait(self, decided: Unanswered, kind: int, answer: int) -> None:
        if self.learner.ledger.waits(decided.round):  # unless an interruption came right after it
            self.learner._end_wait(decided.round, kind, answer)

    def due(self, now: Moment, round: int) -> list[str]:
        """Return the ids whose wait is over at a moment, when a round begins."""
        ids: list[str] = []
        if self.wait is not None:
            for waiting_id, decided in self.open.items():  # the first ones have waited longest
                if not self._is_due(decided, now, round):
                    break
                ids.append(waiting_id)
        return ids

    def _is_due(self, decided: Unanswered, now: Moment, round: int) -> bool:
        rounds, clock = self.wait or Wait()
        if rounds is not None:
            return round - decided.round >= rounds
        return clock is not None and now.clock - decided.now.clock >= clock

    def expires_at(self, wall: int) -> int | None:
        """Return until when the answer to a decision of a moment is waited for; None where no time is set."""
        _, clock = self.wait or Wait()
        return None if clock is None else wall + clock

    def add_class(self, name: Name) -> None:
        """Add a class, or let a retired one come back."""
        if self.classes.check_new(name) in self.classes.names:
            self.classes.add(name)
            return
        if self.learner.n_classes == len(self.classes.names):  # unless an interruption came right after it
            self.learner.add_class()
        self.tally.make_room(self.learner.n_classes)
        self.classes.add(name)

    def retire_class(self, name: Name) -> None:
        """Let a class not be chosen any more."""
        self.classes.retire(self.classes.check_retirable(name))
