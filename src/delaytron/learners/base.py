"""The online object: decide now, learn whenever the answer comes. The same for every learner."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from delaytron.errors import DelaytronError
from delaytron.learners import growing, rounds
from delaytron.learners.compiling import compile_all, compile_reward
from delaytron.learners.looking import Contributions, contributions_of, look
from delaytron.learners.many import as_plays, play_many
from delaytron.learners.options import read_allowed, read_answer
from delaytron.learners.rows import as_kind_of_row, as_row
from delaytron.learners.standardize import score_seen_rows
from delaytron.learners.stateful import Stateful
from delaytron.matrices import check_matrix
from delaytron.records import Array, Decision, Ints, Play, Row


class Learner(Stateful):
    """A learner that decides now, and gets to know later (or never) what came of it.

    The first decision fixes whether it works on dense rows or on sparse ones; others are converted. An error leaves all
    as it was; whatever exception interrupts a call, the next one goes on exactly. Threads may share a learner.

    Parameters
    ----------
    seed : int, optional
        Fixes the exploration and the noise; by default nobody knows it before.
    noise : (rho0, rho1), optional
        Rehearse with false feedback: a "wrong" arrives as "right" at the rate rho0, a "right" as "wrong" at rho1.
    expire_after : int, optional
        Stop waiting for an answer that has not come when this many rounds have passed.
    on_expiry : {"drop", "wrong"}
        Forget such a decision; or count it as wrong, and correct that when a "right" comes after all.
    average : bool
        Let `predict`, `scores` and `weights` use the average of the weights over all rounds.
    standardize : bool
        See every row standardised by the rows so far, with a constant behind it; `weights` then has d + 1 columns.
    ties : {"first", "random"}, optional
        Of labels with equal scores the first one is greedy; or they share its chance, so that a learner that knows
        nothing yet plays all of them. By default as the learner's paper has it.
    """

    def decide(self, x: Any, allowed: Any = None) -> Decision[int, int]:
        """Play one round: apply the answers that came, then choose a label for `x`.

        Parameters
        ----------
        x : 1-D array, list, or one CSR row
            The example.
        allowed : list of labels, optional
            Choose among these only; `prob` is the probability within them. By default among all.
        """
        given = as_row(x, self.n_features, None)
        labels = self._labels if allowed is None else read_allowed(self, allowed)
        return cast("Decision[int, int]", self._decision(self._play_row(given, labels)))

    def _play_row(self, given: Row, labels: Ints) -> Play:
        """Play one round with a checked row, among these labels."""
        with self._lock:
            rounds.recover(self)
            self._interrupted = True
            now = self.ledger.rounds + 1
            if now == 1:
                self._reset_state(sparse=given.indices is not None)
            row = as_kind_of_row(given, self.n_features, self.sparse)
            self._prepare(now)
            compile_all(self, row)
            rounds.begin(self, now)
            play = rounds.choose(self, now, row, labels)
            self._interrupted = False
            return play

    def decide_many(self, X: Any, allowed: Any = None) -> list[Decision[int, int]]:
        """Play a round for each row, as `decide` would one after another, in a fraction of the time.

        Examples
        --------
        >>> import delaytron as dt
        >>> learner = dt.BanditLogit(n_classes=3, n_features=2, seed=0)
        >>> [decision.round for decision in learner.decide_many([[1.0, 2.0], [0.5, 3.0]])]
        [1, 2]
        """
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        labels = self._labels if allowed is None else read_allowed(self, allowed)
        return [self._decision(play) for play in as_plays(*play_many(self, rows, labels))]

    def feedback(
        self, id: int, correct: bool | None = None, *, label: int | None = None, reward: float | None = None
    ) -> str:
        """Give the answer to a decision: at any time, in any order; it is applied when the next round begins.

        Returns "accepted"; "duplicate" when the same answer was known already; "expired" or "cancelled" when the wait
        had ended without one. The last three change nothing.

        Parameters
        ----------
        id : int
            That of the decision.
        correct : bool
            Whether the played label was right.
        label : int
            The true label, for learners that learn from it.
        reward : float
            From 0 (wrong) to 1 (right), for learners that take one.
        """
        return self._take_answer(id, read_answer(self, correct, label, reward))

    def _take_answer(self, id: int, answer: float) -> str:
        """Let a checked answer wait to be applied."""
        with self._lock:
            rounds.recover(self)
            if 0 < answer < 1 and self.ledger.plays:
                compile_reward(self)  # before the answer is accepted
            self._interrupted = True
            reply = self.ledger.answer(id, answer)
            self._interrupted = False
            if isinstance(reply, DelaytronError):
                raise reply
            return reply

    def flush(self) -> None:
        """Apply the answers that came now; this is not a round, so no clock moves."""
        with rounds.changing(self):
            rounds.apply_arrived(self)

    def _prepare(self, now: int) -> None:
        """Get ready for a round; what can fail fails here, before anything has changed."""

    def _decision(self, play: Play) -> Any:
        """Return what the caller gets to know of a round."""
        return Decision(play.round, play.round, play.label, play.greedy, play.prob)

    def add_class(self) -> int:
        """Add a class of which nothing is known; decisions may be open. Return its label, the number of classes so far.

        Examples
        --------
        >>> import delaytron as dt
        >>> learner = dt.BanditLogit(n_classes=2, n_features=1, seed=0)
        >>> learner.add_class(), learner.n_classes
        (2, 3)
        """
        with self._lock:
            rounds.recover(self)
            return growing.add_class(self)

    def _end_wait(self, number: int, kind: int, answer: int) -> None:
        """Wait no longer for the answer to an open decision."""
        with rounds.changing(self):
            self.ledger.end(number, kind, answer)

    def _release(self, number: int) -> None:
        """Keep an open decision no longer; its answer, if it comes, comes with the decision."""
        with rounds.changing(self):
            self.ledger.release(number)

    def _take_back(self, play: Play) -> None:
        """Wait again for the answer to a decision that was released."""
        with rounds.changing(self):
            self.ledger.take_back(play)

    @property
    def pending(self) -> int:
        """How many decisions still wait for an answer; one that expired does not."""
        return self.ledger.pending

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row; explores nothing and changes nothing."""
        return np.asarray(np.argmax(self.scores(X), axis=1), np.int64)

    def probabilities(self, x: Any, allowed: Any = None) -> Array:
        """Return with which probability each label would be played now; explores nothing and changes nothing.

        Examples
        --------
        >>> import delaytron as dt
        >>> learner = dt.Banditron(n_classes=4, n_features=1, gamma=0.5, seed=0)
        >>> learner.probabilities([1.0], allowed=[1, 3]).tolist()
        [0.0, 0.75, 0.0, 0.25]
        """
        row = as_row(x, self.n_features, None)
        labels = self._labels if allowed is None else read_allowed(self, allowed)
        with self._lock:
            return look(self, row, labels)[1]

    def contributions(self, x: Any) -> Contributions:
        """Return the scores of one row in parts: a constant, and what each of its features adds.

        Examples
        --------
        >>> import delaytron as dt
        >>> learner = dt.Banditron(n_classes=2, n_features=2, gamma=0.5, seed=0)
        >>> learner.feedback(learner.decide([3.0, 1.0], allowed=[1]).id, correct=False)
        'accepted'
        >>> learner.flush()
        >>> learner.contributions([1.0, 2.0]).parts.tolist()
        [[0.0, 0.0], [-3.0, -2.0]]
        """
        row = as_row(x, self.n_features, None)
        with self._lock:
            return self._contributions(as_kind_of_row(row, self.n_features, self.sparse))

    def _contributions(self, row: Row) -> Contributions:
        return contributions_of(self, row, self._scoring_weights())

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        return self._score(X, self._scoring_weights)

    def _score(self, X: Any, weights: Callable[[], Array]) -> Array:
        """Score all rows by the weights of one moment, while no other thread changes them."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            return score_seen_rows(self, rows, weights())

    @property
    def weights(self) -> Array:
        """The weights as a (K, d) matrix, a copy."""
        with self._lock:
            return self._matrix(self._scoring_weights())

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state as a (K, d) matrix, a copy, not averaged."""
        return self._matrix(self._held_weights(state))


CHANGING = (
    Learner._play_row,
    play_many,
    Learner._take_answer,
    Learner.flush,
    Learner.add_class,
    Learner._end_wait,
    Learner._release,
    Learner._take_back,
)
rounds.ENTRIES.update(call.__code__ for call in CHANGING)
