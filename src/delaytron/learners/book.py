"""The Book of a learner: the one owner of decisions that are open, or that can still be corrected.

A round is *kept* from its decision until nothing more can be learned from it::

    filed -> open -+-> answered ------------------------> applied, settled
                   +-> expired as wrong -> applied, kept: correctable -+-> answered -> applied, settled
                   |                                                   +-> released, settled
                   +-> expired (dropped), or cancelled -> settled

An exception can come between any two lines: Ctrl-C, a timer. So `kept` and `ended` are the truth, each change of a
status is one assignment to one of them, and everything else (queues, the memory of settled rounds) may lag behind.
"""

import zlib
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from math import nan
from typing import Any, NamedTuple

import numpy as np

from delaytron.answers import Known, Status
from delaytron.checks import check_choice, check_integer
from delaytron.compiler.kernel import interpreted
from delaytron.errors import InvalidInput, Setting
from delaytron.files.tensors import Tensors
from delaytron.kernels.linear import row_of
from delaytron.kernels.loop import ANSWER_EVENT, APPLIED, CORRECTION_EVENT, DROP_EVENT, EXPIRY_EVENT, N_MARKS
from delaytron.records import NEVER, Array, Columns, Ints, Moment, Play, Stream

ON_EXPIRY = ("drop", "wrong")
CORRECT_WITHIN = 10  # times `expire_after`, by default
NO_EVENT = -1  # nothing is left to apply
NO_LABELS = np.empty(0, np.int64)

_row_of = interpreted(row_of)


class Expiry(NamedTuple):
    """When the wait for an answer ends, in rounds or on the clock (ns), and what that means.

    With `as_wrong` the decision counts as wrong, and a later answer corrects that until `release_rounds` or
    `release_clock` have passed since the decision. Otherwise it is dropped.
    """

    rounds: int = NEVER
    clock: int = NEVER
    as_wrong: bool = False
    release_rounds: int = NEVER
    release_clock: int = NEVER

    @property
    def expires(self) -> bool:
        """Whether the wait for an answer ends."""
        return self.rounds < NEVER or self.clock < NEVER

    @property
    def kind(self) -> int:
        """The event that ends the wait in the loop: the decision counts as wrong, or is dropped."""
        return EXPIRY_EVENT if self.as_wrong else DROP_EVENT

    @property
    def corrects(self) -> bool:
        """Whether an answer can correct an expiry; not with `correct_within=0`."""
        return self.as_wrong and (self.release_rounds > self.rounds or self.release_clock > self.clock)


def read_expiry(expire_after: Any, on_expiry: Any, correct_within: Any = None) -> Expiry:
    """Return the expiry by rounds that a user asks for; raise InvalidInput if it makes no sense.

    Examples
    --------
    >>> expiry = read_expiry(50, "wrong")
    >>> expiry.rounds, expiry.as_wrong, expiry.release_rounds
    (50, True, 550)
    """
    as_wrong = check_choice("on_expiry", on_expiry, ON_EXPIRY) == "wrong"
    if as_wrong and expire_after is None:
        raise InvalidInput(
            (Setting("on_expiry", "'wrong'"), " needs ", Setting("expire_after", "n")),
            "say after how many rounds no answer means wrong",
            parameter="on_expiry",
        )
    if correct_within is not None and not as_wrong:
        raise InvalidInput(
            (Setting("correct_within"), " needs ", Setting("on_expiry", "'wrong'")),
            "leave it out: only a decision that counted as wrong can be corrected",
            parameter="correct_within",
        )
    if expire_after is None:
        return Expiry()
    rounds = min(check_integer("expire_after", expire_after, at_least=1), NEVER)
    if not as_wrong:
        return Expiry(rounds)
    default = CORRECT_WITHIN * rounds
    more = default if correct_within is None else check_integer("correct_within", correct_within, at_least=0)
    return Expiry(rounds, as_wrong=True, release_rounds=min(rounds + more, NEVER))


class Kept(NamedTuple):
    """A decision that is kept; the `id` and the moment `now` are those of a model, a learner has neither."""

    play: Play
    id: str | None = None
    now: Moment | None = None


class RoundBlock(NamedTuple):
    """Rounds that were filed together, ascending: columns instead of an object for each of them."""

    rounds: Ints
    stream: Stream
    columns: Columns
    ids: list[str] | None = None
    moments: Ints | None = None  # (n, 2): wall and clock

    def place(self, number: int) -> int:
        """Return the index of a round."""
        return int(np.searchsorted(self.rounds, number))

    def play(self, number: int) -> Play:
        """Return one of the rounds."""
        i = self.place(number)
        row = _row_of(self.stream.indptr, self.stream.indices, self.stream.values, i)
        greedy, label, prob, extra = self.columns
        return Play(number, row, int(greedy[i]), int(label[i]), float(prob[i]), extra[i])

    def entry(self, number: int) -> Kept:
        """Return one of the rounds with its id and moment."""
        i = self.place(number)
        now = None if self.moments is None else Moment(*self.moments[i].tolist())
        return Kept(self.play(number), None if self.ids is None else self.ids[i], now)


class End(NamedTuple):
    """How the wait for a kept decision ended, and the event of it that is still to be applied (or NO_EVENT)."""

    status: Status
    value: float | None
    event: int
    serial: int  # unique: compiled code notes the serial of what it applied, so that nothing is applied twice


class Book:
    """Decisions by their rounds, which are numbered from 1.

    Parameters
    ----------
    expiry : Expiry
    remembers : bool
        Keep the status of settled rounds, for duplicates and conflicts. The id table of a model does that itself.
    """

    def __init__(self, expiry: Expiry = Expiry(), remembers: bool = True) -> None:  # noqa: B008 - a tuple
        self.expiry = expiry
        self.expires = expiry.expires
        self.remembers = remembers
        self.rounds = 0
        self.kept: dict[int, Kept | RoundBlock] = {}
        self.ended: dict[int, End] = {}  # those of `kept` whose wait ended
        self.arrived: list[int] = []  # rounds with an event to apply, in order of arrival; may name one twice
        self.marks: Array = np.zeros(N_MARKS)  # written by compiled code, see kernels.loop
        self._serial = 0
        # Candidates for expiry, and for release, ascending; settled ones are removed when they reach the front.
        self._waiting: deque[int] = deque()
        self._correctable: deque[int] = deque()
        self._status = bytearray()  # of settled rounds, from round 1 on; 0 (open) where nothing is settled
        self._value = array("d")  # their answers, NaN for none

    @property
    def pending(self) -> int:
        """How many decisions wait for an answer; an expired one does not."""
        return len(self.kept) - len(self.ended)

    def is_open(self, number: int) -> bool:
        """Whether a decision waits for an answer."""
        return number in self.kept and number not in self.ended

    def entry(self, number: int) -> Kept:
        """Return a kept decision."""
        kept = self.kept[number]
        return kept.entry(number) if isinstance(kept, RoundBlock) else kept

    def play(self, number: int) -> Play:
        """Return the round of a kept decision."""
        kept = self.kept[number]
        return kept.play(number) if isinstance(kept, RoundBlock) else kept.play

    def file(self, entry: Kept) -> None:
        """Keep the decision of the next round; filing it again changes nothing."""
        number = entry.play.round
        # The queue first, as everywhere: a number in it that is not kept is skipped, one that is missing never expires.
        if self.expires:
            self._waiting.append(number)
        self.kept[number] = entry
        self.rounds = number

    def file_block(self, block: RoundBlock) -> None:
        """Keep the decisions of the next rounds, which end with the last one of the block."""
        numbers = range(self.rounds + 1, int(block.rounds[-1]) + 1)
        if self.expires:
            self._waiting.extend(numbers)
        self.kept.update(dict.fromkeys(numbers, block))
        self.rounds = int(block.rounds[-1])

    def replace(self, entry: Kept) -> None:
        """Keep other values of a kept decision: what was played was chosen elsewhere."""
        self.kept[entry.play.round] = entry

    def known(self, number: int) -> Known | None:
        """Return what is known of a round; None if it was not played, or is settled and not remembered."""
        if number in self.kept:
            end = self.ended.get(number)
            if end is None:
                return Known(Status.OPEN)
            return Known(end.status, end.value, correctable=self.is_correctable(number))
        if 1 <= number <= len(self._status) and self._status[number - 1]:
            value = self._value[number - 1]
            return Known(Status(self._status[number - 1]), None if np.isnan(value) else value)
        return None

    # What ends a wait.

    def answer(self, number: int, value: float) -> None:
        """Queue the first answer to a kept decision.

        A decision that expired as wrong is corrected; if its expiry was not applied yet, the answer came in time.
        """
        end = self.ended.get(number)
        kind = CORRECTION_EVENT if end is not None and end.event == NO_EVENT else ANSWER_EVENT
        self._end(number, Status.ANSWERED, value, kind)

    def answer_late(self, number: int, value: float) -> None:
        """Remember the first answer to an expired decision that is not kept any more."""
        if self.remembers:
            self._settle(number, Status.EXPIRED, value)

    def expire(self, number: int) -> None:
        """End the wait for an open decision without an answer: it counts as wrong, or is dropped."""
        if self.expiry.as_wrong:
            self._correctable.append(number)
            self._end(number, Status.EXPIRED, None, EXPIRY_EVENT)
        else:
            self._drop(number, Status.EXPIRED)

    def cancel(self, number: int) -> None:
        """End the wait for an open decision: nothing is learned from it."""
        self._drop(number, Status.CANCELLED)

    def release(self, number: int) -> None:
        """Forget a decision that expired as wrong: answers to it are late from now on."""
        end = self.ended[number]
        if end.event == NO_EVENT:
            self._drop(number, Status.EXPIRED)
        else:  # its "wrong", the same step as an answer, still needs the row; then `close` forgets the round
            self.ended[number] = end._replace(event=ANSWER_EVENT)

    def _end(self, number: int, status: Status, value: float | None, kind: int) -> None:
        self._serial += 1
        # The queue first: a number in it without an event is skipped, an event that is not in it would be lost.
        self.arrived.append(number)
        self.ended[number] = End(status, value, kind, self._serial)

    def _drop(self, number: int, status: Status) -> None:
        """Forget a decision from which nothing more is learned."""
        if self.remembers:
            self._settle(number, status, None)
        del self.kept[number]  # from here on the round is settled; an orphan in `ended` is removed by `recover`
        self.ended.pop(number, None)

    def _settle(self, number: int, status: Status, value: float | None) -> None:
        answer = nan if value is None else value
        if len(self._status) == len(self._value) == number - 1:  # in order, as answers without delay come
            self._value.append(answer)  # first: `recover` removes a value without a status
            self._status.append(status)
            return
        missing = number - len(self._status)
        if missing > 0:
            self._value.extend([nan] * (number - len(self._value)))
            self._status.extend(bytes(missing))
        self._value[number - 1] = answer
        self._status[number - 1] = status

    def settle_answered(self, numbers: Ints, values: Array) -> None:
        """Remember rounds that were answered and applied elsewhere, in the loop over many rounds."""
        count = max(len(self._status), int(numbers.max(initial=0)))
        status = np.zeros(count, np.uint8)
        answers = np.full(count, np.nan)
        status[: len(self._status)] = np.frombuffer(bytes(self._status), np.uint8)
        answers[: len(self._value)] = np.array(self._value)
        status[numbers - 1] = Status.ANSWERED
        answers[numbers - 1] = values
        self._status, self._value = bytearray(status.tobytes()), array("d", answers.tobytes())

    # What is due.

    def due(self, round: int, clock: int = 0) -> list[int]:
        """Return the decisions whose wait is over when `round` begins at the time `clock`; the caller expires them."""
        limits = (self.expiry.rounds, self.expiry.clock)
        return self._over(self._waiting, self.is_open, limits, round, clock) if self._waiting else []

    def releasable(self, round: int, clock: int = 0) -> list[int]:
        """Return the decisions that cannot be corrected after `round`; the caller releases them."""
        limits = (self.expiry.release_rounds, self.expiry.release_clock)
        return self._over(self._correctable, self.is_correctable, limits, round, clock) if self._correctable else []

    def is_correctable(self, number: int) -> bool:
        """Whether a decision expired as wrong, and was not released."""
        end = self.ended.get(number)
        return end is not None and end.status == Status.EXPIRED and end.event != ANSWER_EVENT

    def _over(self, queue: deque[int], is_candidate: Any, limits: tuple[int, int], round: int, clock: int) -> list[int]:
        """Return the candidates at the front whose limit is over, ascending; drop those that are no candidates."""
        while queue and not is_candidate(queue[0]):
            queue.popleft()
        over = set()  # a number is queued twice if an exception interrupted what queued it, and it was done again
        for number in queue:
            if is_candidate(number):
                if not self._is_over(number, limits, round, clock):
                    break  # the others were decided later
                over.add(number)
        return sorted(over)

    def _is_over(self, number: int, limits: tuple[int, int], round: int, clock: int) -> bool:
        if round - number >= limits[0]:
            return True
        now = self.entry(number).now if limits[1] < NEVER else None
        return now is not None and clock - now.clock >= limits[1]

    # What is applied.

    def to_apply(self) -> list[int]:
        """Return the rounds with an event to apply, ascending: this is the order in which they are applied."""
        ended, arrived = self.ended, self.arrived
        numbers = sorted(set(arrived)) if len(arrived) > 1 else arrived
        return [n for n in numbers if n in ended and ended[n].event != NO_EVENT]

    def close(self, number: int) -> None:
        """Note that the event of a round was applied; keep the round if an answer may still correct it."""
        end = self.ended[number]
        if end.event == EXPIRY_EVENT:
            self.ended[number] = End(end.status, None, NO_EVENT, 0)
        else:
            if self.remembers:
                self._settle(number, end.status, end.value)
            del self.kept[number]
            del self.ended[number]

    def recover(self) -> None:
        """Complete what an exception interrupted: close an event that compiled code has applied already."""
        for number in [number for number in self.ended if number not in self.kept]:
            del self.ended[number]
        applied = self.marks[APPLIED]
        for number, end in list(self.ended.items()):
            if end.event != NO_EVENT and end.serial == applied:
                self.close(number)
        del self._value[len(self._status) :]  # answers of rounds whose status was not noted

    def _queue_all(self) -> None:
        """Make the queues of candidates from what is kept."""
        numbers = sorted(self.kept)
        self._waiting = deque(n for n in numbers if n not in self.ended) if self.expires else deque()
        self._correctable = deque(filter(self.is_correctable, numbers))

    def copy(self) -> "Book":
        """Return a copy of this moment; decisions, which never change, are shared."""
        twin = Book(self.expiry, self.remembers)
        twin.rounds = self.rounds
        twin.kept = dict(self.kept)
        twin.ended = dict(self.ended)
        twin.arrived = list(self.arrived)
        twin.marks = self.marks.copy()
        twin._serial = self._serial
        twin._waiting = deque(self._waiting)
        twin._correctable = deque(self._correctable)
        twin._status = bytearray(self._status)
        twin._value = self._value[:]
        return twin

    # As columns of a file.

    def tensors(self, n_extras: int, sparse: bool) -> Tensors:
        """Return all that is kept, in the order of rounds, and the memory of settled rounds, compressed."""
        ended = sorted(self.ended.items())
        values = [np.nan if end.value is None else end.value for _, end in ended]
        settled = zlib.compress(bytes(self._status) + self._value.tobytes(), 1)
        return {
            **open_tensors(self, n_extras, sparse),
            "rounds": np.array([self.rounds, len(self._status)], np.int64),
            "ended.round": np.array([number for number, _ in ended], np.int64),
            "ended.status": np.array([end.status for _, end in ended], np.int64),
            "ended.value": np.array(values, np.float64),
            "ended.event": np.array([end.event for _, end in ended], np.int64),
            "settled": np.frombuffer(settled, np.uint8),
        }

    def restore(self, tensors: Tensors, n_features: int, sparse: bool) -> None:
        """Take over the columns of a file, which were checked; only the memory of settled rounds is checked here."""
        self.rounds = int(tensors["rounds"][0])
        status, value = read_settled(tensors)
        self._status, self._value = bytearray(status.tobytes()), array("d", value.tobytes())
        block = read_open(tensors, n_features, sparse)
        self.kept = dict.fromkeys(block.rounds.tolist(), block)
        columns = [tensors[f"ended.{name}"].tolist() for name in ("round", "status", "value", "event")]
        for number, code, answer, event in zip(*columns, strict=True):
            self._serial += 1
            self.ended[number] = End(Status(code), None if np.isnan(answer) else answer, event, self._serial)
        self.arrived = [number for number, end in self.ended.items() if end.event != NO_EVENT]
        self._queue_all()


def read_settled(tensors: Tensors) -> tuple[Any, Array]:
    """Return the status and the answers of settled rounds; raise ValueError if the lengths do not fit."""
    count = int(tensors["rounds"][1])
    opened = zlib.decompressobj()
    try:  # with a limit: a crafted file may not fill the memory
        content = opened.decompress(tensors["settled"].tobytes(), 9 * count + 1)
    except zlib.error:
        raise ValueError("settled is not compressed by zlib") from None
    if len(content) != 9 * count or not opened.eof:
        raise ValueError("settled is inconsistent")
    return np.frombuffer(content[:count], np.uint8), np.frombuffer(content[count:], np.float64)


def columns_of(plays: list[Play], n_extras: int) -> Columns:
    """Return what was chosen in some rounds."""
    return Columns(
        np.array([play.greedy for play in plays], np.int64),
        np.array([play.label for play in plays], np.int64),
        np.array([play.prob for play in plays], np.float64),
        np.array([play.extra for play in plays], np.float64).reshape(len(plays), n_extras),
    )


class _Part(NamedTuple):
    """Some kept rounds: what was chosen, the length of each row, the numbers of the rows, and their indices."""

    round: Ints
    columns: Columns
    lengths: Ints
    values: Array
    indices: Any


def open_tensors(book: Book, n_extras: int, sparse: bool) -> Tensors:
    """Return the kept decisions in the order of their rounds; those of a block without an object for each."""
    runs = groupby(sorted(book.kept), key=lambda n: id(book.kept[n]) if isinstance(book.kept[n], RoundBlock) else None)
    parts = [_part(book, list(run)) for _, run in runs]
    parts.append(_plays_part([], n_extras))  # so that there is something to concatenate where nothing is kept
    rounds, columns, lengths, values, indices = zip(*parts, strict=True)
    greedy, label, prob, extra = (np.concatenate(column) for column in zip(*columns, strict=True))
    tensors: Tensors = {
        "open.round": np.concatenate(rounds),
        "open.greedy": greedy,
        "open.label": label,
        "open.prob": prob,
        "open.extra": extra,
        "open.starts": np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        "open.values": np.concatenate(values),
    }
    if sparse:
        tensors["open.indices"] = np.concatenate(indices)
    return tensors


def _part(book: Book, numbers: list[int]) -> _Part:
    kept = book.kept[numbers[0]]
    if isinstance(kept, RoundBlock):
        return _block_part(kept, np.array(numbers, np.int64))
    plays = [book.play(number) for number in numbers]
    return _plays_part(plays, plays[0].extra.size)


def _plays_part(plays: list[Play], n_extras: int) -> _Part:
    indices: Iterable[Any] = (play.x.indices for play in plays if play.x.indices is not None)
    return _Part(
        np.array([play.round for play in plays], np.int64),
        columns_of(plays, n_extras),
        np.array([play.x.values.size for play in plays], np.int64),
        np.concatenate([np.empty(0), *(play.x.values for play in plays)]),
        np.concatenate([np.empty(0, np.uint32), *indices]),
    )


def _block_part(block: RoundBlock, numbers: Ints) -> _Part:
    at = np.searchsorted(block.rounds, numbers)
    greedy, label, prob, extra = block.columns
    columns = Columns(greedy[at], label[at], prob[at], extra[at])
    indptr, indices, values, _ = block.stream
    if indptr is None:
        rows = values[at]
        lengths = np.full(at.size, rows.shape[1], np.int64)
        return _Part(numbers, columns, lengths, rows.ravel(), np.empty(0, np.uint32))
    starts = indptr[at].astype(np.int64)
    lengths = indptr[at + 1].astype(np.int64) - starts
    # For each row its start, start + 1, ...: the places of its non-zeros in the block.
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    return _Part(numbers, columns, lengths, values[places], indices[places])


def read_open(tensors: Tensors, n_features: int, sparse: bool) -> RoundBlock:
    """Return the kept decisions of a file as one block."""
    rounds = tensors["open.round"].copy()
    columns = Columns(*(tensors[f"open.{name}"].copy() for name in ("greedy", "label", "prob", "extra")))
    values = tensors["open.values"].copy()
    if sparse:
        stream = Stream(tensors["open.starts"].copy(), tensors["open.indices"].copy(), values, NO_LABELS)
    else:
        stream = Stream(None, None, values.reshape(rounds.size, n_features), NO_LABELS)
    return RoundBlock(rounds, stream, columns)
