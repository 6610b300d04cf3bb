"""`Learner`, the base of all learners: it decides, keeps open decisions in its Book, and applies late answers."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count, repeat
from operator import index
from pathlib import Path
from threading import RLock
from types import FrameType
from typing import Any, ClassVar, Self, TypeAlias, cast
from weakref import WeakSet

import numpy as np

from delaytron.answers import Answering, reply
from delaytron.checks import as_kind, as_stream, check_integer, check_matrix, installed_memory, is_sparse
from delaytron.errors import DelaytronError, InvalidInput, UnknownDecision, shown
from delaytron.kernels.linear import as_matrix
from delaytron.kernels.loop import BEGUN, GREEDY, LABEL, NOTHING, NOW, PLAYED, PROB
from delaytron.learners.arguments import (
    COMMON,
    GAMMAS,
    Common,
    as_kind_of_row,
    as_row,
    fix_parameters,
    own_parameters,
    read_allowed,
    read_answer,
    read_common,
    stored_as,
)
from delaytron.learners.book import NO_LABELS, Book, End, Kept, RoundBlock, columns_of
from delaytron.learners.predictions import (
    Contributions,
    contributions_of,
    look,
    new_scratch,
    score_seen_rows,
)
from delaytron.learners.rule import Rule, no_runs, sharing_ties, stack
from delaytron.learners.standardize import standardizing
from delaytron.records import NEVER, Array, Bools, Columns, Decision, Ints, Moment, Play, Row, Size
from delaytron.rng import stream

MOST = 2**31 - 1  # classes, and features: as many as 32-bit indices can tell apart
NOTHING_TO_APPLY = (False, 0, NOTHING, 0)
NO_ROW = Row(None, np.empty(0))
NOT_COPIED = {"rule", "scratch", "_lock", "_run_round", "_run_reward", "_running"}  # what a copy makes itself
WIDENED = 16  # classes by which a state is widened to find out which of its axes are those of classes
CHANGES = ("born", "won", "dropped")  # what happens to challengers, in the order in which it can within a round

Axes: TypeAlias = dict[str, list[int]]  # of every field of a state, the axes that have an entry for each class


def _event(end: End) -> tuple[bool, int, int, int]:
    """Return the event of a round as compiled code takes it: right, label, kind, serial."""
    answer = int(end.value or 0)
    return answer == 1, answer, end.event, end.serial


class Learner:
    """A learner that decides now, and learns later (or never) whether that was right.

    The first decision fixes whether it works on dense rows or on sparse ones; others are converted. A call that raises
    because of its arguments changes nothing. Whatever exception interrupts a call, no answer is applied twice and none
    is lost; only the interpreter (NUMBA_DISABLE_JIT, for debugging) can be interrupted within an update. Threads may
    share a learner.

    Parameters
    ----------
    seed : int, optional
        Random seed of the exploration; drawn from the operating system by default.
    expire_after : int, optional
        Stop waiting for an answer that has not come when this many rounds have passed.
    on_expiry : {"drop", "wrong"}
        Forget such a decision; or count it as wrong, and correct that when an answer comes after all.
    correct_within : int, optional
        How many rounds after its expiry a decision that counted as wrong can be corrected; its row is kept until then.
        By default ten times `expire_after`; 0 allows no corrections.
    standardize : bool
        Standardise every row by the rows so far and append a constant; `weights` then has d + 1 columns.
    ties : {"first", "random"}, optional
        Of labels with equal scores the first one is greedy; or they share its chance, so that a learner that knows
        nothing yet plays all of them. By default as the learner's paper has it.
    """

    rule: Rule
    name: ClassVar[str]
    feedback_type: ClassVar[str] = "correct"
    """Which feedback this learner takes: whether the label was `correct`, or the true `label`."""
    takes_rewards: ClassVar[bool] = False
    """Whether the answer may also be a `reward` from 0 (wrong) to 1 (right)."""
    remark: ClassVar[str] = ""
    """Why its errors mean something else than those of most others, where they do."""
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {"gamma": GAMMAS}
    """The values of its parameters among which a comparison chooses."""
    state: Any
    sparse: bool
    scratch: tuple[Array, Array, Array]
    _is_compiled: bool
    _run_round: Callable[..., Any]
    _run_reward: Callable[..., Any] | None
    _draws: np.random.Generator
    _allocates = True  # False while a file is read: its numbers become the state

    def __init_subclass__(cls) -> None:
        fix_parameters(cls, set(own_parameters(cls)) - {"params", "common"})

    def __init__(self, n_classes: int, n_features: int, params: Any, common: Common) -> None:
        options, expiry = read_common(self, common)
        self.n_classes = check_integer("n_classes", n_classes, at_least=2, at_most=MOST)
        self.n_features = check_integer("n_features", n_features, at_least=1, at_most=MOST)
        self.seed = int(options["seed"])
        self.expire_after = options["expire_after"]
        self.on_expiry = str(options["on_expiry"])
        self.correct_within = options["correct_within"]
        self.standardize = bool(options["standardize"])
        self.ties = options["ties"]
        self.rule = sharing_ties(self.rule) if self.ties == "random" and self.rule.ties == "first" else self.rule
        self.rule = standardizing(self.rule) if self.standardize else self.rule
        self.params = params
        self.book = Book(expiry)
        self._lock = RLock()
        _alive.add(self)
        self._running: FrameType | None = None  # the call that is changing the learner, or was interrupted
        self._at_hand: tuple[Row, Array, str | None, Moment | None] | RoundBlock = (NO_ROW, np.empty(0), None, None)
        self._rewind()
        too_large = InvalidInput(
            f"n_classes={self.n_classes} and n_features={self.n_features} need more memory than there is",
            "take fewer of them",
        )
        # Linux grants memory that it does not have, and kills the process once it is used: compare first.
        if 8 * self.n_classes * (self.n_features + 3) > (installed_memory() or sys.maxsize):
            raise too_large
        try:
            if self._allocates:
                self._reset_state(sparse=False)
            self._labels = np.arange(self.n_classes)
        except (MemoryError, ValueError) as problem:  # NumPy raises ValueError for a size that no memory can hold
            raise problem if isinstance(problem, InvalidInput) else too_large from None

    # Decide.

    def decide(self, x: Any, allowed: Any = None) -> Decision[int, int]:
        """Play one round: apply the answers that came, then choose a label for `x`.

        Parameters
        ----------
        x : 1-D array, list, or one CSR row
            The example.
        allowed : list of labels, optional
            Choose among these only; `prob` is the probability within them. By default among all.
        """
        row = as_row(x, self.n_features, None)
        labels = self._labels if allowed is None else read_allowed(self, allowed)
        decision: Decision[int, int] = self._decision(self.play_round(row, labels))
        return decision

    def decide_many(self, X: Any, allowed: Any = None) -> list[Decision[int, int]]:
        """Play a round for each row, as `decide` would one after another; return the decisions.

        It takes a fraction of the time, unless decisions expire or the learner is a pool. Raises InvalidInput for rows
        or labels that the learner does not take.

        Examples
        --------
        >>> import delaytron as dt
        >>> learner = dt.BanditLogit(n_classes=3, n_features=2, seed=0)
        >>> [decision.round for decision in learner.decide_many([[1.0, 2.0], [0.5, 3.0]])]
        [1, 2]
        """
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        labels = self._labels if allowed is None else read_allowed(self, allowed)
        first, columns = self.play_rounds(rows, labels)
        return [self._decision(play) for play in plays_of(first, columns)]

    def play_round(
        self, row: Row, labels: Ints, id: str | None = None, now: Moment | None = None, u: float | None = None
    ) -> Play:
        """Play the next round with a checked row, among these labels; return it.

        With an `id` it is a decision of a model, which expires decisions itself, by facts of its journal. `u` replaces
        the draw of the round.
        """
        with self._lock:
            self._enter()
            expires = id is None and self.book.expires
            play = self._play_expiring(row, labels, u) if expires else self._play(row, labels, id, now, u)
            self._running = None
        return play

    def play_chosen(self, row: Row, labels: Ints, label: int, id: str | None = None, now: Moment | None = None) -> Play:
        """Play the next round with a label that was chosen elsewhere among these labels; return it.

        What the rule notes of the round is what it would note if it had chosen that label itself.
        """
        with self._lock:
            if self.rule.extras and self.rule.peek is not None:
                self._begin_round(row)
                p = look(self, row, labels)[1]
                if p[label] > 0:  # the middle of its share of [0, 1), far from where rounding could matter
                    u = min(float(p[:label].sum() + 0.5 * p[label]), float(np.nextafter(1.0, 0.0)))
                    return self.play_round(row, labels, id, now, u)
            return self.play_round(row, np.array([label]), id, now)

    def _begin_round(self, row: Row) -> None:
        """Let the clock tick and apply what arrived, as `_play` would next: what is left of the round is the choice.

        A replay knows what was noted and plays the round in one go; both must end with the same bits. The marks keep
        the clock from ticking twice.
        """
        self._enter()
        now = self.book.rounds + 1
        if now == 1:
            self._reset_state(sparse=row.indices is not None)
        seen = as_kind_of_row(row, self.n_features, self.sparse)
        if not self._is_compiled:
            self._compile(seen)
        self.book.marks[NOW] = now
        self._run_part(
            self._outstanding(now), Play(now, seen, 0, 0, 0.0, np.empty(len(self.rule.extras))), NOTHING_TO_APPLY
        )
        self._apply(self.book.to_apply())
        self._running = None

    def _play_expiring(self, row: Row, labels: Ints, u: float | None = None) -> Play:
        """Expire what is due by rounds, play the next round, and release what was not corrected in time."""
        due = self.book.due(self.book.rounds + 1)
        if not (due and self.book.expiry.as_wrong):  # else an instance of a pool becomes free
            self._prepare()  # what can fail fails before anything changes
        for number in due:
            self.book.expire(number)
        play = self._play(row, labels, u=u)
        self._release_due()
        return play

    def _release_due(self) -> None:
        """Release what can no longer be corrected, after the round that applied its expiry."""
        for number in self.book.releasable(self.book.rounds):
            self.book.release(number)

    def play_rounds(
        self, rows: Any, labels: Ints, ids: list[str] | None = None, now: Moment | None = None
    ) -> tuple[int, Columns]:
        """Play a round for each checked row, to the same bits as one after another.

        Returns the number of the first round, and what was chosen in all of them. Where nothing but the clock happens
        between two rounds, all but the first are one call of compiled code.
        """
        with self._lock:
            self._enter()
            together = rows.shape[0] > 1 and self.book.expiry.rounds == NEVER and not self.rule.per_round_state
            # The first alone: it applies the answers that came, and round 1 fixes the kind of rows.
            given = [rows[i : i + 1] if is_sparse(rows) else rows[i] for i in range(1 if together else rows.shape[0])]
            plays = []
            for i, x in enumerate(given):
                row = as_row(x, self.n_features, None)
                plays.append(self._play(row, labels, ids[i], now) if ids else self._play_expiring(row, labels))
            columns = columns_of(plays, plays[0].extra.size)
            if together:
                rest = self._play_block(rows[1:], labels, None if ids is None else ids[1:], now)
                joined: Any = map(np.concatenate, zip(columns, rest, strict=True))
                columns = Columns(*joined)
            self._running = None
        return plays[0].round, columns

    def _play(
        self, row: Row, labels: Ints, id: str | None = None, moment: Moment | None = None, u: float | None = None
    ) -> Play:
        """Tick, apply what arrived in the order of rounds, choose, file: the order of effects of kernels.loop."""
        book = self.book
        now = book.rounds + 1
        if now == 1:
            self._reset_state(sparse=row.indices is not None)
        if self.sparse != (row.indices is not None):
            row = as_kind_of_row(row, self.n_features, self.sparse)
        if self.rule.per_round_state:
            self._prepare()
        if not self._is_compiled:
            self._compile(row)
        book.marks[NOW] = now
        events = book.to_apply() if book.arrived else book.arrived
        end = book.ended[events[0]] if events else None
        if len(events) > 1 or (end is not None and 0 < (end.value or 0) < 1):
            # More than the one event that the call below can take: let the clock tick, then apply them one by one.
            past = book.play(events[0])
            self._run_part(self._outstanding(now), past, NOTHING_TO_APPLY)
            self._apply(events)
            end = None
        extra = np.empty(len(self.rule.extras))
        # What `_recover` needs to file the round, if an exception comes between the choice and its filing.
        self._at_hand = (row, extra, id, moment)
        drawn = self._draws.random()  # also where `u` replaces it: a round takes one draw
        if end is not None:
            past, event = book.play(events[0]), _event(end)
        else:
            past, event = Play(now, row, 0, 0, 0.0, extra), NOTHING_TO_APPLY
        greedy, label, prob = self._run_round(
            self.state,
            self.params,
            self._outstanding(now),
            past,
            event,
            row,
            labels,
            drawn if u is None else u,
            self.scratch,
            extra,
        )
        if end is not None:
            book.close(events[0])
            book.arrived.clear()
        play = Play(now, row, greedy, label, prob, extra)
        book.file(Kept(play, id, moment))
        return play

    def _play_block(self, rows: Any, labels: Ints, ids: list[str] | None, now: Moment | None) -> Columns:
        """Play a round for each row in one call of compiled code: nothing arrived, and nothing expires."""
        first, n_rounds = self.book.rounds + 1, rows.shape[0]
        kept = as_stream(as_kind(rows, self.sparse).copy(), NO_LABELS)  # a copy: it is kept until the answers come
        labels_ = np.empty((2, n_rounds), np.int64)
        extra = np.empty((n_rounds, len(self.rule.extras)))
        columns = Columns(labels_[0], labels_[1], np.empty(n_rounds), extra)
        moments = None if now is None else np.tile(np.array(now, np.int64), (n_rounds, 1))
        block = RoundBlock(np.arange(first, first + n_rounds), kept, columns, ids, moments)
        self._at_hand = block
        before = (first - 1, self.book.pending)
        draws = self._draws.random(n_rounds)
        self.rule.play_rounds.compiled(
            self.state, self.params, before, kept, labels, draws, self.scratch, block.columns
        )
        self.book.file_block(block)
        return columns

    def _outstanding(self, now: int) -> int:
        """Return how many rounds wait in round `now`, itself included; NOTHING if its clock needs no tick (again)."""
        return self.book.pending + 1 if self.rule.keeps_clock and self.book.marks[BEGUN] < now else NOTHING

    def _run_part(self, outstanding: int, past: Play, event: tuple[bool, int, int, int]) -> None:
        """Run a part of a round in which nothing is chosen."""
        rest = (past.x, self._labels, float(NOTHING), self.scratch, past.extra)
        self._run_round(self.state, self.params, outstanding, past, event, *rest)

    def _apply(self, numbers: list[int]) -> None:
        """Apply the events of these rounds."""
        for number in numbers:
            past, end = self.book.play(number), self.book.ended[number]
            if not self._is_compiled:
                self._compile(past.x)
            if end.value is not None and 0 < end.value < 1:
                run = self._compile_reward(past)
                run(self.state, self.params, past, end.value, end.event, end.serial, self.book.marks)
            else:
                self._run_part(NOTHING, past, _event(end))
            self.book.close(number)
        self.book.arrived.clear()

    def _prepare(self) -> None:
        """Get ready for the next round; what can fail fails here, before anything has changed."""

    def _decision(self, play: Play) -> Any:
        """Return a round as the caller sees it."""
        return Decision(play.round, play.round, play.label, play.greedy, play.prob)

    def compile(self) -> None:
        """Load the machine code for a decision, or compile it, which takes seconds."""
        row = Row(np.zeros(1, np.uint32), np.ones(1)) if self.sparse else Row(None, np.ones(self.n_features))
        with self._lock:
            if not self._is_compiled:
                self._compile(row)

    def _compile(self, row: Row) -> None:
        """Load or compile the machine code for rows of this kind, before anything changes: compiling may fail."""
        extra = np.empty(len(self.rule.extras))
        past = Play(1, row, 0, 0, 0.5, extra)
        event = (True, 1, 0, 1)
        entry = self.rule.play_round.ready(
            self.state, self.params, 1, past, event, row, self._labels, 0.5, self.scratch, extra
        )
        vars(self).update(_run_round=entry, _is_compiled=True)

    def _compile_reward(self, past: Play) -> Callable[..., Any]:
        """Return the machine code for a reward between 0 and 1."""
        if self._run_reward is None:
            self._run_reward = self.rule.deliver_reward.ready(self.state, self.params, past, 0.5, 0, 1, self.book.marks)
        return self._run_reward

    # Learn.

    def feedback(
        self, id: int, correct: bool | None = None, *, label: int | None = None, reward: float | None = None
    ) -> str:
        """Give the answer to a decision: at any time, in any order; it is applied when the next round begins.

        Returns "accepted"; "duplicate" if the same answer was given before; "corrected" after an expiry that counted as
        wrong; "late" after one that was dropped or can no longer be corrected, which teaches nothing. Raises
        UnknownDecision if there is no such decision, ConflictingFeedback if it was answered differently, and
        InvalidInput for an answer that the learner does not take.

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
        return self.answer(id, read_answer(self, correct, label, reward))

    def answer(self, id: Any, value: float) -> str:
        """Queue a checked answer, to be applied when the next round begins; return and raise as `feedback` does."""
        with self._lock:
            self._enter()
            number = self._number(id)
            said = "accepted"
            if number not in self.book.kept or number in self.book.ended:
                answering = Answering(self.feedback_type, self.takes_rewards, tuple(range(self.n_classes)))
                said = reply(cast(Any, number), self.book.known(number), value, answering)
            if said in ("accepted", "corrected"):
                if 0 < value < 1:
                    self._compile_reward(self.book.play(number))  # before the answer is accepted
                self.book.answer(number, value)
            elif said == "late":
                self.book.answer_late(number, value)
            self._running = None
            return said

    def take(self, number: int, value: float) -> None:
        """Queue the first answer to a kept decision."""
        with self._lock:
            self._enter()
            if 0 < value < 1:
                self._compile_reward(self.book.play(number))
            self.book.answer(number, value)
            self._running = None

    def _number(self, id: Any) -> int:
        """Return the round of an id, or raise UnknownDecision."""
        if type(id) is int and 1 <= id <= self.book.rounds:
            return id
        try:
            if not isinstance(id, bool) and 1 <= index(id) <= self.book.rounds:
                return index(id)
        except TypeError:
            pass
        if isinstance(id, Decision):
            hint = f"give its id, {shown(id.id)}"
        elif isinstance(id, str) and id.isdecimal():
            hint = "ids of a learner are integers: give int(id)"
        else:
            rounds = self.book.rounds
            hint = f"known are 1 to {rounds}" if rounds else "none was issued yet, call decide first"
        raise UnknownDecision(f"decision {shown(id)} was never issued", hint)

    def flush(self) -> None:
        """Apply the answers that have come now, not when the next round begins; no round is played, no clock ticks."""
        with self._lock:
            self._enter()
            self._apply(self.book.to_apply())
            self._running = None

    def end(self, how: Callable[[Book, int], None], number: int) -> None:
        """End the wait for a kept decision; `how` is Book.expire, Book.release or Book.cancel."""
        with self._lock:
            self._enter()
            how(self.book, number)
            self._running = None

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
            self._enter()
            new = _with_another_class(self)
            vars(self).update(new)  # all at once: compiled code trusts that they fit
            self._running = None
        return self.n_classes - 1

    def check_growth(self, n_classes: int) -> None:
        """Raise InvalidInput if the learner cannot take classes until there are this many."""
        if not self.rule.grows:
            raise InvalidInput(
                f"{self.name} cannot take another class while it learns", f"make a new one with n_classes={n_classes}"
            )
        twin: Any = object.__new__(type(self))
        vars(twin)["_allocates"] = False
        twin.__init__(**self.settings() | {"n_classes": n_classes})  # some parameters have limits that depend on it
        _class_axes(self, self.size(self.sparse))

    @property
    def pending(self) -> int:
        """How many decisions still wait for an answer; one that expired does not."""
        return self.book.pending

    @property
    def changes(self) -> dict[str, int | bool]:
        """Whether a challenger learns beside the model, and how many began, won and were dropped; empty if none can."""
        return {}

    def count_changes(self) -> tuple[int, ...]:
        """Return how many challengers began, won and were dropped, in the order of `CHANGES`; empty if none can."""
        return ()

    # Interruptions.

    def _enter(self) -> None:
        """Begin a change, under the lock: complete what an exception interrupted, refuse a call from within a call.

        The lock is reentrant, because an exception may have kept this thread from releasing it. So a signal handler or
        a finalizer gets past it, and is recognised by the call that it interrupted, which is on the stack.
        """
        if self._running is not None:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None:
                if frame is self._running:
                    raise DelaytronError(
                        f"this {type(self).__name__} is in the middle of another call of the same thread",
                        "do not call it in a signal handler or a finalizer",
                    )
                frame = frame.f_back
            self._recover()
        # Cleared by the last line of every call, not in a `finally`: if it is still set, that call was cut short.
        self._running = sys._getframe(1)

    def _recover(self) -> None:
        """Complete what was interrupted: close what was applied, file the round that was chosen, take back draws."""
        self.book.recover()
        marks = self.book.marks
        if marks[PLAYED] > self.book.rounds:
            if isinstance(self._at_hand, RoundBlock):
                self.book.file_block(self._at_hand)
            else:
                row, extra, issued, moment = self._at_hand
                now, greedy, label = marks[[PLAYED, GREEDY, LABEL]].astype(np.int64).tolist()
                self.book.file(Kept(Play(now, row, greedy, label, float(marks[PROB]), extra), issued, moment))
        if self.book.remembers:  # not of a model, which releases by facts
            self._release_due()
        self._rewind()

    def _rewind(self) -> None:
        """Let exploration go on with the draws after the last decision's."""
        self._draws = stream(self.seed, "exploration")
        cast(np.random.PCG64, self._draws.bit_generator).advance(self.book.rounds)  # a round takes one draw

    # Look: nothing is explored, nothing changes.

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
        return contributions_of(self, row, self._held_weights(self.state))

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        return self._score(X, lambda: self._held_weights(self.state))

    def _score(self, X: Any, weights: Callable[[], Array]) -> Array:
        """Score all rows by the weights of one moment, while no other thread changes them."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            return score_seen_rows(self, rows, weights())

    @property
    def weights(self) -> Array:
        """The weights as a (K, d) matrix, a copy."""
        with self._lock:
            return self.weights_of(self.state)

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state as a (K, d) matrix, a copy."""
        return self._matrix(self._held_weights(state))

    def _held_weights(self, state: Any) -> Array:
        """Return the weights of a state in the layout of `kernels.linear`."""
        return cast(Array, state.W)

    def _matrix(self, W: Array) -> Array:
        return np.array(as_matrix(W, self.n_classes, self.sparse and not self.rule.standardizes), order="C")

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:  # noqa: ARG002
        """Return a mask of the rounds whose play was right."""
        return np.asarray(labels == y)

    # State, copies, files.

    def size(self, sparse: bool) -> Size:
        """Return the size of the state: classes, features, dense or sparse."""
        return Size(self.n_classes, self.n_features, sparse)

    def _with_capacity(self, n_rounds: int) -> Any:  # noqa: ARG002
        """Return the state as a batch of one, with room for `n_rounds` more open rounds; only a pool needs room."""
        return stack(self.state)

    def _state_bytes(self, sparse: bool) -> int:
        """Return how much memory the state of one run takes."""
        return sum(field.nbytes for field in self.rule.init(stack(self.params), self.size(sparse)))

    def _reset_state(self, sparse: bool) -> None:
        """Start from zero, with weights for dense or for sparse rows."""
        stacked = self.rule.init(stack(self.params), self.size(sparse))
        state = type(stacked)(*(field[0] for field in stacked))
        self.book.marks[:] = 0.0
        # All at once: compiled code trusts that state, kind of rows and scratch fit together.
        vars(self).update(sparse=sparse, state=state, **self._fresh_scratch(self.book.marks))

    def _fresh_scratch(self, marks: Array) -> dict[str, Any]:
        scratch = (*new_scratch(self.n_classes), marks)
        return {"scratch": scratch, "_is_compiled": False, "_run_reward": None}

    def restore(self, sparse: bool, state: Any, book: Book) -> None:
        """Take over a saved state; exploration goes on with the draws after the last decision's."""
        vars(self).update(sparse=sparse, state=state, book=book, **self._fresh_scratch(book.marks))
        self._rewind()

    def save(self, path: str | Path) -> None:
        """Write the learner with its open decisions to one safetensors file; `delaytron.load` reads it."""
        from delaytron.learners.files import save  # noqa: PLC0415 - files.py knows all learners

        with self._lock:
            self._enter()
            save(self, path)
            self._running = None

    def export_onnx(self, path: str | Path) -> None:
        """Write the greedy prediction as an ONNX graph, which runs without this package; needs the extra `onnx`.

        Rows `X` of 64-bit floats give `label` (as `predict` does), `scores` and, where the learner has a softmax,
        `probabilities` that it gives to the labels. Sums are rounded in another order than in `predict`: a label can
        differ where two scores agree to some 14 digits. See docs/howto/onnx.md.
        """
        from delaytron.learners.onnx import export  # noqa: PLC0415 - onnx.py imports this module

        export(self, path)

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ["n_classes", "n_features", *own_parameters(type(self)), *COMMON]
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> Any:
        # A learner with the same settings is made, and takes over the rest. The rule of some learners depends on their
        # settings: it is found again and not copied, because it consists of functions and runs are grouped by identity.
        return _make, (type(self), self.settings()), self._fields()

    def __setstate__(self, fields: dict[str, Any]) -> None:
        vars(self).update(fields)
        self.state = type(self.state)(*map(_own, self.state))  # joblib passes large arrays as read-only memory maps
        self.book.marks = _own(self.book.marks)
        vars(self).update(self._fresh_scratch(self.book.marks))

    def __deepcopy__(self, memo: Any) -> Self:
        twin = self._knowing(self.sparse, self.state)
        twin._lock = RLock()
        _alive.add(twin)
        twin._running = None
        twin.__setstate__(self._fields())
        return twin

    def _fields(self) -> dict[str, Any]:
        """Return copies of all that a learner knows, while no other thread changes it."""
        with self._lock:
            self._enter()
            fields = deepcopy({name: value for name, value in vars(self).items() if name not in NOT_COPIED})
            self._running = None
        return fields

    def _knowing(self, sparse: bool, state: Any) -> Self:
        """Return a learner like this one but for its state, which is not copied."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, sparse=sparse, state=state)
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._shown_settings().items())})"

    def _repr_html_(self) -> str:
        from delaytron.notebooks import facts, page  # noqa: PLC0415 - for notebooks only

        known = {"rounds played": self.book.rounds, "waiting for an answer": self.book.pending}
        return page(type(self).__name__, facts(known | self._shown_settings()))

    def _shown_settings(self) -> dict[str, Any]:
        """Return the settings that a repr shows: all but common ones that have their default; always the seed."""
        return {k: v for k, v in self.settings().items() if k == "seed" or k not in COMMON or v != COMMON[k]}


fix_parameters(Learner, {"n_classes", "n_features", *COMMON})


# A fork copies the locks, but not the threads that hold them: the child would wait for ever, and for a state that is
# half updated. So a fork waits until no thread is within a learner.
_alive: WeakSet[Learner] = WeakSet()
_held: list[Learner] = []


def _hold_all() -> None:
    while True:
        try:
            learners = list(_alive)
            break
        except RuntimeError:  # another thread makes learners: the set has changed
            pass
    for learner in learners:
        learner._lock.acquire()
        _held.append(learner)


def _release_all() -> None:
    while _held:
        _held.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)


def plays_of(first: int, columns: Columns) -> Iterator[Play]:
    """Iterate over rounds without their rows."""
    greedy, label, prob, extra = columns
    return map(Play, count(first), repeat(NO_ROW), greedy.tolist(), label.tolist(), prob.tolist(), extra)


def _make(cls: type[Learner], settings: Any) -> Learner:
    return cls(**settings)


def _own(field: Any) -> Any:
    return field if field.flags.writeable else np.array(field)


def _with_another_class(learner: Learner) -> dict[str, Any]:
    """Return what changes in a learner that gets one more class, of which it knows nothing; raise if it cannot."""
    K = learner.n_classes
    learner.check_growth(K + 1)
    twin = type(learner)(**learner.settings() | {"n_classes": K + 1})
    size = twin.size(learner.sparse)
    axes = _class_axes(twin, size)
    stacked = twin.rule.init(stack(twin.params), size)
    fields = {name: field[0] for name, field in stacked._asdict().items()}
    # The classes so far keep their values; the new one, and the padding, have those of an untrained learner.
    for name, field in fields.items():
        part = tuple(slice(K) if axis in axes[name] else slice(None) for axis in range(field.ndim))
        field[part] = getattr(learner.state, name)[part]
    state = type(stacked)(**fields)
    if twin.rule.begin_class is not None:
        twin.rule.begin_class(state, K)
    return {
        stored_as("n_classes"): K + 1,
        "params": twin.params,
        "rule": twin.rule,
        "state": state,
        "_labels": twin._labels,
        **twin._fresh_scratch(learner.book.marks),
    }


def _class_axes(twin: Learner, size: Size) -> Axes:
    """Return every field's axes that have an entry for each class; raise InvalidInput if one mixes classes.

    A state for many more classes shows it: those axes are longer by as many, padded or not.
    """
    params = no_runs(twin.params)
    some = twin.rule.init(params, size)
    more = twin.rule.init(params, size._replace(n_classes=size.n_classes + WIDENED))
    longer = {name: np.subtract(getattr(more, name).shape, getattr(some, name).shape)[1:] for name in some._fields}
    if not all(np.isin(by, (0, WIDENED)).all() for by in longer.values()):
        raise InvalidInput(f"{twin.name} with these settings cannot take another class", "use matrix='diagonal'")
    return {name: np.flatnonzero(by).tolist() for name, by in longer.items()}
