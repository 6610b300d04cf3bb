"""The Book of a learner against a plain model of it: any order of changes, each interrupted at any line."""

import sys
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delaytron.answers import Known, Status
from delaytron.kernels.loop import ANSWER_EVENT, APPLIED, CORRECTION_EVENT, EXPIRY_EVENT
from delaytron.learners import book as book_module
from delaytron.learners.book import NO_EVENT, Book, Expiry, Kept, RoundBlock, columns_of
from delaytron.records import Moment, Play, Row, Stream

N_FEATURES = 3
EXPIRIES = {
    "never": Expiry(),
    "dropped": Expiry(3),
    "dropped by time": Expiry(clock=4),
    "wrong": Expiry(2, as_wrong=True),
    "wrong, released": Expiry(2, as_wrong=True, release_rounds=5),
    "wrong, released at once": Expiry(2, as_wrong=True, release_rounds=2),
    "wrong, released by time": Expiry(4, 3, as_wrong=True, release_rounds=9, release_clock=6),
}


class Interrupted(BaseException):
    """Raised by the trace function, as a signal handler would."""


def interrupted(action, line):
    """Run an action; return whether an exception at this line of the module of the Book interrupted it."""
    left = line

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != book_module.__file__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


@dataclass
class Round:
    """What the model knows of a round."""

    clock: int
    status: Status = Status.OPEN
    value: float | None = None
    event: int = NO_EVENT
    kept: bool = True

    @property
    def correctable(self):
        return self.kept and self.status == Status.EXPIRED and self.event != ANSWER_EVENT


@dataclass
class Model:
    """A plain Book: a list of rounds, searched whenever something is asked."""

    expiry: Expiry
    remembers: bool
    clock: int = 0
    rounds: list = field(default_factory=list)

    def numbers(self, wanted):
        return [number for number, one in enumerate(self.rounds, 1) if wanted(one)]

    def at(self, number):
        return self.rounds[number - 1]

    def known(self, number):
        one = self.at(number)
        if one.kept or self.remembers:
            return Known(one.status, one.value, correctable=one.correctable)
        return None

    def is_over(self, number, now, rounds, clock):
        by_clock = self.clock - self.at(number).clock >= clock
        return now - number >= rounds or by_clock

    def due(self):
        expiry, now = self.expiry, len(self.rounds) + 1
        waiting = self.numbers(lambda one: one.status == Status.OPEN)
        return [number for number in waiting if self.is_over(number, now, expiry.rounds, expiry.clock)]

    def releasable(self):
        expiry, now = self.expiry, len(self.rounds)
        expired = self.numbers(lambda one: one.correctable)
        return [number for number in expired if self.is_over(number, now, expiry.release_rounds, expiry.release_clock)]

    def file(self, count):
        self.rounds += [Round(self.clock) for _ in range(count)]

    def answer(self, number, value):
        one = self.at(number)
        one.event = CORRECTION_EVENT if one.status == Status.EXPIRED and one.event == NO_EVENT else ANSWER_EVENT
        one.status, one.value = Status.ANSWERED, value

    def answer_late(self, number, value):
        self.at(number).value = value

    def expire(self, number):
        one = self.at(number)
        one.status = Status.EXPIRED
        if self.expiry.as_wrong:
            one.event = EXPIRY_EVENT
        else:
            one.kept = False

    def cancel(self, number):
        self.at(number).status, self.at(number).kept = Status.CANCELLED, False

    def release(self, number):
        one = self.at(number)
        one.kept = one.event != NO_EVENT
        one.event = ANSWER_EVENT if one.kept else NO_EVENT

    def apply(self, number):
        one = self.at(number)
        one.kept = one.event == EXPIRY_EVENT
        one.event = NO_EVENT

    def seen(self):
        """Return all that can be seen of the model; `seen` returns the same of a Book."""
        events = self.numbers(lambda one: one.event != NO_EVENT)
        return (
            len(self.rounds),
            len(self.numbers(lambda one: one.status == Status.OPEN)),
            [self.known(number) for number in range(1, len(self.rounds) + 1)],
            self.numbers(lambda one: one.kept),
            [(number, self.at(number).event, self.at(number).value) for number in events],
            self.due(),
            self.releasable(),
        )


def seen(book, clock):
    return (
        book.rounds,
        book.pending,
        [book.known(number) for number in range(1, book.rounds + 1)],
        sorted(book.kept),
        [(number, book.ended[number].event, book.ended[number].value) for number in book.to_apply()],
        book.due(book.rounds + 1, clock),
        book.releasable(book.rounds, clock),
    )


def play_of(number, sparse):
    """Return a round in which every value follows from its number."""
    values = np.array([number, -1.0, 0.5])
    indices = np.arange(N_FEATURES, dtype=np.uint32) if sparse else None
    return Play(number, Row(indices, values), number % 3, number % 4, 1 / (1 + number), np.array([2.0 * number]))


def block_of(numbers, sparse, clock):
    plays = [play_of(number, sparse) for number in numbers]
    values = np.array([play.x.values for play in plays])
    if sparse:
        starts = N_FEATURES * np.arange(len(plays) + 1)
        indices = np.tile(np.arange(N_FEATURES, dtype=np.uint32), len(plays))
        stream = Stream(starts, indices, values.ravel(), np.empty(0, np.int64))
    else:
        stream = Stream(None, None, values, np.empty(0, np.int64))
    moments = np.tile(np.array([0, clock]), (len(plays), 1))
    return RoundBlock(np.array(numbers), stream, columns_of(plays, 1), [f"id{n}" for n in numbers], moments)


def apply_event(book, number, applied):
    """Do what a learner does: compiled code applies an event and marks its serial, then the Book is closed."""
    end = book.ended[number]
    applied.append((number, end.event, end.value))
    book.marks[APPLIED] = end.serial
    book.close(number)


class BookMachine(RuleBasedStateMachine):
    """Change a Book and its model in the same way; before each change, try it on copies that are interrupted."""

    @initialize(expiry=st.sampled_from(sorted(EXPIRIES)), remembers=st.booleans(), sparse=st.booleans())
    def begin(self, expiry, remembers, sparse):
        self.model = Model(EXPIRIES[expiry], remembers)
        self.book = Book(EXPIRIES[expiry], remembers)
        self.sparse = sparse
        self.applied, self.expected = [], []
        self.line = self.line_of_recovery = 0

    def change(self, on_book, on_model, again=lambda book: True):
        """Change both. `again` says whether an interrupted and recovered change has to be done again."""
        before = self.model.seen()
        on_model(self.model)
        after = self.model.seen()
        line = 1
        while self.attempt(twin := self.book.copy(), on_book, again, line, before, after):
            assert seen(twin, self.model.clock) == after, f"interrupted at line {line}"
            line += 1
        self.attempt(self.book, on_book, again, self.line, before, after)

    def attempt(self, book, on_book, again, line, before, after):
        """Change a book, interrupted at a line (never, if it is 0); recover, which may be interrupted, and do it again.

        Return whether it was interrupted. Between the two it must be as before, or as after the change.
        """
        if not interrupted(lambda: on_book(book), line):
            return False
        interrupted(book.recover, self.line_of_recovery)
        book.recover()
        if again(book):
            on_book(book)
        else:
            assert seen(book, self.model.clock) == after != before
        return True

    @rule(line=st.integers(0, 12), line_of_recovery=st.integers(0, 12))
    def be_interrupted(self, line, line_of_recovery):
        """Choose where the next changes are interrupted."""
        self.line, self.line_of_recovery = line, line_of_recovery

    @rule(more=st.integers(1, 4))
    def wait(self, more):
        self.model.clock += more

    @rule()
    def file(self):
        number, clock = len(self.model.rounds) + 1, self.model.clock
        entry = Kept(play_of(number, self.sparse), f"id{number}", Moment(0, clock))
        self.change(lambda book: book.file(entry), lambda model: model.file(1))

    @rule(count=st.integers(1, 4))
    def file_block(self, count):
        first = len(self.model.rounds) + 1
        block = block_of(range(first, first + count), self.sparse, self.model.clock)
        self.change(lambda book: book.file_block(block), lambda model: model.file(count))

    def choose(self, data, wanted):
        return data.draw(st.sampled_from(self.model.numbers(wanted)))

    @precondition(lambda self: self.model.numbers(lambda one: one.status == Status.OPEN or one.correctable))
    @rule(data=st.data(), value=st.sampled_from([0.0, 0.25, 1.0]))
    def answer(self, data, value):
        number = self.choose(data, lambda one: one.status == Status.OPEN or one.correctable)
        self.change(
            lambda book: book.answer(number, value),
            lambda model: model.answer(number, value),
            lambda book: book.known(number).status != Status.ANSWERED,
        )

    @precondition(lambda self: self.model.remembers and self.model.numbers(is_released))
    @rule(data=st.data(), value=st.sampled_from([0.0, 1.0]))
    def answer_late(self, data, value):
        number = self.choose(data, is_released)
        self.change(
            lambda book: book.answer_late(number, value),
            lambda model: model.answer_late(number, value),
            lambda book: book.known(number).value is None,
        )

    @precondition(lambda self: self.model.numbers(lambda one: one.status == Status.OPEN))
    @rule(data=st.data())
    def cancel(self, data):
        number = self.choose(data, lambda one: one.status == Status.OPEN)
        self.change(
            lambda book: book.cancel(number), lambda model: model.cancel(number), lambda book: book.is_open(number)
        )

    @precondition(lambda self: self.model.due())
    @rule()
    def expire(self):
        for number in self.book.due(self.book.rounds + 1, self.model.clock):
            self.expire_one(number)

    def expire_one(self, number):
        self.change(
            lambda book: book.expire(number), lambda model: model.expire(number), lambda book: book.is_open(number)
        )

    @precondition(lambda self: self.model.releasable())
    @rule()
    def release(self):
        for number in self.book.releasable(self.book.rounds, self.model.clock):
            self.release_one(number)

    def release_one(self, number):
        self.change(
            lambda book: book.release(number),
            lambda model: model.release(number),
            lambda book: book.is_correctable(number),
        )

    @rule(most=st.integers(1, 5))
    def apply(self, most):
        """Apply events in the order of rounds; after all of them the queue is emptied."""
        numbers = self.book.to_apply()
        for number in numbers[:most]:
            self.apply_one(number)
        if len(numbers) <= most:
            self.book.arrived.clear()

    def apply_one(self, number):
        one = self.model.at(number)
        self.expected.append((number, one.event, one.value))
        books, applied = [], []  # each book, the copies too, applies the event once: `again` is False

        def on_book(book):
            assert not any(book is other for other in books)
            books.append(book)
            apply_event(book, number, applied)

        self.change(on_book, lambda model: model.apply(number), lambda book: False)
        assert books[-1] is self.book
        self.applied.append(applied[-1])

    @rule()
    def copy(self):
        self.book = self.book.copy()

    @rule()
    def write_and_read(self):
        tensors = {name: tensor.copy() for name, tensor in self.book.tensors(1, self.sparse).items()}
        again = Book(self.book.expiry, self.book.remembers)
        again.restore(tensors, N_FEATURES, self.sparse)
        for number in self.book.kept:  # what only a model has is stored by its snapshots
            again.replace(self.book.entry(number)._replace(play=again.play(number)))
        for name, tensor in again.tensors(1, self.sparse).items():
            assert (name, tensor.tobytes()) == (name, tensors[name].tobytes())
        self.book = again

    @invariant()
    def the_book_is_as_the_model(self):
        if hasattr(self, "model"):
            assert seen(self.book, self.model.clock) == self.model.seen()
            assert self.applied == self.expected
            for number in self.book.kept:
                kept, play = self.book.entry(number), play_of(number, self.sparse)
                assert str(kept.play) == str(play)
                assert kept == Kept(kept.play, f"id{number}", Moment(0, self.model.at(number).clock))


def is_released(one):
    return one.status == Status.EXPIRED and not one.kept and one.value is None


BookMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestBook = BookMachine.TestCase


def test_a_wait_is_over_at_the_moment_of_its_limit():
    book = Book(Expiry(clock=4, as_wrong=True, release_clock=6))
    book.file(Kept(play_of(1, False), "id1", Moment(0, 10)))
    assert [book.due(2, clock) for clock in (13, 14)] == [[], [1]]
    book.expire(1)
    assert [book.releasable(2, clock) for clock in (15, 16)] == [[], [1]]


def test_the_queues_stay_short_over_many_rounds():
    """Settled rounds leave the queues of candidates, and nothing of a released round is kept but status and answer."""
    book = Book(Expiry(3, as_wrong=True, release_rounds=6))
    for number in range(1, 301):
        for due in book.due(number):
            book.expire(due)
        for event in book.to_apply():
            apply_event(book, event, [])
        book.arrived.clear()
        book.file(Kept(play_of(number, False)))
        for old in book.releasable(number):
            book.release(old)
        if number % 3:
            book.answer(number, 1.0)
        assert len(book.kept) <= 7
        assert len(book._waiting) + len(book._correctable) <= 14


def test_settled_rounds_take_little_room_in_a_file():
    book = Book()
    for number in range(1, 2001):
        book.file(Kept(play_of(number, False)))
        book.answer(number, 1.0)
        apply_event(book, number, [])
        book.arrived.clear()
    assert sum(tensor.nbytes for tensor in book.tensors(1, False).values()) < 500


def test_rounds_settled_elsewhere_have_a_status():
    book = Book()
    book.file_block(block_of(range(1, 5), False, 0))
    book.cancel(2)
    book.rounds = 9
    book.settle_answered(np.array([9, 6]), np.array([1.0, 0.5]))
    known = [book.known(number) for number in range(1, 10)]
    assert known[:2] == [Known(Status.OPEN), Known(Status.CANCELLED)]
    assert known[4:] == [None, Known(Status.ANSWERED, 0.5), None, None, Known(Status.ANSWERED, 1.0)]


@pytest.mark.parametrize("action", ["file", "answer", "cancel"])
def test_a_copy_is_independent(action):
    book = Book(Expiry(2))
    book.file_block(block_of(range(1, 4), False, 0))
    before = seen(book, 0)
    twin = deepcopy(book) if action == "cancel" else book.copy()
    if action == "file":
        twin.file(Kept(play_of(4, False)))
    elif action == "answer":
        twin.answer(2, 1.0)
    else:
        twin.cancel(2)
    assert seen(book, 0) == before != seen(twin, 0)
