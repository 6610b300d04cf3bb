"""Group commit: threads that want to write share a transaction, and all return when it is on disk.

One thread at a time is inside. The first begins the transaction; one that leaves lets the next waiting one in, and if
there is none, or the batch is full, commits for all. As long as somebody is inside, nobody else touches the database.

A KeyboardInterrupt may come after any call. So `_inside` and `_batch` say at every moment what is still to be done, and
whoever was interrupted does it in `_withdraw`.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from time import monotonic

from delaytron.errors import DelaytronError, JournalError
from delaytron.journal.batches import Batch, Member, Transactions

SECONDS, FACTS = 0.05, 1000  # what a batch may last and hold


class GroupCommit:
    """Lets threads into batches, one at a time.

    Members of a `lazy` one do not wait for the commit: the transaction stays open until it is full.
    `generation` counts how often something was rolled back that members had done.
    """

    def __init__(
        self, database: Transactions, name: str, *, lazy: bool = False, seconds: float = SECONDS, facts: int = FACTS
    ) -> None:
        self.generation = 0
        self.closed: str | None = None  # why nobody is let in any more
        self._lost: BaseException | None = None  # why acknowledged facts were lost, until the next caller is told
        self._database = database
        self._name = name
        self._lazy = lazy
        self._seconds = seconds
        self._facts = facts
        self._mutex = Lock()
        self._queue: deque[Member] = deque()
        self._inside: Member | None = None
        self._batch: Batch | None = None

    @contextmanager
    def batch(self, *, force: bool = False, wait: bool = True) -> Iterator[None]:
        """Enter a batch; at the end wait until it is on disk. With `force` it is full when this member leaves.

        If another process writes, `wait` for it, or raise `BusyError`.
        """
        member = Member()
        try:
            self._enter(member)
            self._begin(force, wait)
            yield
            batch = self._leave(member, force)
        except BaseException as problem:
            try:
                self._withdraw(member, problem)
            finally:
                self._withdraw(member, problem)  # the first one may have been interrupted
            raise
        if not self._lazy or batch.ended:
            with batch.done:  # whoever gets it lets the next one have it
                pass
            self._raise_if_failed(batch)

    def current(self, *, change: bool = False) -> Batch:
        """Return the batch that this thread is inside of; raise if there is none. What a `change` did can be undone."""
        member = self._inside
        batch = self._batch
        if member is None or batch is None or member.thread != get_ident():
            raise JournalError(f"{self._name} is changed within a batch only: use `with store.batch():`")
        if change:
            member.changed = True
        return batch

    @property
    def is_inside(self) -> bool:
        """Whether this thread is inside a batch."""
        member = self._inside
        return member is not None and self._batch is not None and member.thread == get_ident()

    @property
    def is_open(self) -> bool:
        """Whether there is a batch that was not committed yet."""
        return self._batch is not None

    def abandon(self) -> bool:
        """Leave the batch that this thread is inside of, if there is one: it was interrupted just as it left."""
        inside = self._inside
        if inside is None or inside.thread != get_ident():
            return False
        self._withdraw(inside, JournalError("interrupted; try again"))
        return True

    def close(self, reason: str) -> None:
        """Commit what is open, then let nobody in any more: they are told the reason."""
        self.abandon()
        try:
            with self.batch(force=True):
                self.closed = reason
            self._raise_if_lost()
        except DelaytronError:
            self.closed = reason
            raise

    def _enter(self, member: Member) -> None:
        if self.abandon():
            raise JournalError(
                f"{self._name}: a batch within a batch, or after an interrupted one; it was rolled back, try again"
            )
        with self._mutex:
            waits = self._inside is not None
            if waits:
                self._queue.append(member)
            else:
                self._inside = member
        if waits:
            member.gate.acquire()

    def _begin(self, force: bool, wait: bool) -> None:
        """Join the batch, or begin one."""
        if self.closed is not None:
            raise JournalError(self.closed)
        if not force:
            self._raise_if_lost()
        if self._batch is None:
            self._database.begin(wait=wait)
            self._batch = Batch()
            self.began()
        if self._lazy:
            self._mark(self._batch)

    def _mark(self, batch: Batch) -> None:
        try:
            self._database.mark()
        except JournalError as problem:
            batch.spoiled = problem
            raise

    def began(self) -> None:
        """Called when a batch has begun: a lazy one needs somebody to end it."""

    def _raise_if_lost(self) -> None:
        if (lost := self._lost) is not None:
            self._lost = None
            raise JournalError(
                f"{self._name}: the last facts were acknowledged and could not be written: {lost}; "
                "they are lost: repeat the last calls"
            ) from lost

    def _leave(self, member: Member, force: bool = False) -> Batch:
        """Let the next one in; commit if nobody waits or the batch is full."""
        batch = self._batch
        if batch is None or self._inside is not member:
            raise JournalError(f"{self._name}: this batch was rolled back; nothing of it was acknowledged; try again")
        full = force or batch.spoiled is not None or self._is_full(batch)
        with self._mutex:
            goes_on = not full and (self._lazy or len(self._queue) > 0)
            if goes_on:
                self._let_next_in()
        if not goes_on:
            self._end(batch, batch.spoiled)
        return batch

    def _is_full(self, batch: Batch) -> bool:
        return batch.facts >= self._facts or monotonic() - batch.started >= self._seconds

    def _withdraw(self, member: Member, problem: BaseException) -> None:
        """Leave after an error: undo what this member did, if it did anything, and with it the whole batch."""
        with self._mutex:
            if member in self._queue:
                self._queue.remove(member)
        batch = self._batch
        if self._inside is not member:
            return
        if batch is None:
            self._give_up()
        elif batch.ended or batch.spoiled is not None or (member.changed and not self._undo(member)):
            self._end(batch, batch.spoiled or problem)
        else:
            self._leave(member)

    def _give_up(self) -> None:
        """Leave where there is no batch: it could not begin, or has just ended."""
        self._database.rollback()
        with self._mutex:
            self._let_next_in()

    def _undo(self, member: Member) -> bool:
        """Undo what one member did, where others were told already that theirs is kept; False where that cannot be."""
        if not self._lazy:
            return False
        self.generation += 1
        try:
            self._database.rollback_to_mark()
        except JournalError:
            return False
        if self._batch is not None:
            self._batch.inbox_read = False  # what this member took out of the inbox is in it again
        member.changed = False
        return True

    def _end(self, batch: Batch, problem: BaseException | None) -> None:
        """Commit, or after a problem roll back; tell all members; let the next one in."""
        if problem is None and not batch.ended:
            problem = self._commit(batch)
        if not batch.ended:
            self._database.rollback()
            self._lost = problem if self._lazy else None
            self.generation += 1
            batch.error = problem
        with self._mutex:
            if self._batch is batch:
                self._batch = None
                batch.done.release()
            self._let_next_in()

    def _commit(self, batch: Batch) -> BaseException | None:
        """Commit, or return why not; an interruption right after it does not make it undone."""
        try:
            self._database.commit()
        except JournalError as problem:
            return problem
        except BaseException:
            batch.committed = self._database.has_committed
            raise
        batch.committed = True
        return None

    def _let_next_in(self) -> None:
        """Pass the place inside on, so that nobody can come in between; the mutex is held."""
        following = self._queue[0] if self._queue else None
        self._inside = following
        if following is not None:
            del self._queue[0]
            following.gate.release()

    def _raise_if_failed(self, batch: Batch) -> None:
        if not batch.committed:
            raise JournalError(
                f"{self._name}: the batch was rolled back and nothing of it was acknowledged: {batch.error}; try again"
            ) from batch.error
