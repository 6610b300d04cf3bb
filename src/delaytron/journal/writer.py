"""The writer of a store: runs the operations that wait in one transaction, commits once, and answers all of them.

**Group commit.** A caller that finds nothing before it runs the transaction in its own thread, which saves two switches
of threads. Otherwise it queues its operation for the writer's thread and waits. As a commit takes longer than an
operation, more operations arrive meanwhile, and the next transaction takes all of them.

**The turn.** One thread at a time has the turn (a lock): it alone uses the transaction, changes the state and the
fields of `_SharedWriter`. Locks are taken in the order `turn`, `state_lock`; `starting` is taken by itself or within
the turn, and no other lock is taken while it is held. Readers of the state take `state_lock` only, which is released
before the commit, so that they do not wait for the disk.

**Interruption.** A KeyboardInterrupt can come between any two lines of a caller, also in a `finally`, so that cleaning
up on the spot may fail. Every flag keeps saying what is left to do until that is done, and the next caller does it: an
open transaction is rolled back, and the state is restored from the store if it may differ from it.

**Weak reference.** The thread and the finalizer refer to `_SharedWriter` only, never to the writer, so that a model
which is no longer used is collected; then, and when the interpreter exits, what was acknowledged is committed.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from logging import getLogger
from queue import Empty, SimpleQueue
from threading import Lock, RLock, Thread, current_thread, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from delaytron.checks import check_choice
from delaytron.errors import JournalError
from delaytron.journal.store import AtRisk, BusyError, Store
from delaytron.records import Moment

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

DURABILITIES = ("full", "batched")
SECONDS, FACTS = 0.05, 1000  # durability="batched": how long acknowledged facts wait for their commit, and how many
MOST_AT_ONCE = 256  # operations in a transaction
MOST_WAITING = 10_000  # operations in the queue

log = getLogger("delaytron.journal")
T = TypeVar("T")


class Snapshots(NamedTuple):
    """How snapshots are made: `due()` returns whether to make one, `copy()` copies the state, `pack` makes it bytes.

    `due` is called after each transaction and must be fast; after `copy` it should return False. `pack` runs in another
    thread.
    """

    due: Callable[[], bool]
    copy: Callable[[], Any]
    pack: Callable[[Any], bytes]


class Writer:
    """Runs operations on a state and its store, one at a time, so that both always agree.

    Parameters
    ----------
    store : Store
        The writer begins and ends its transactions, and closes it.
    catch_up : callable
        Called in the transaction before its operations: takes the inbox, expires decisions that are due, and returns
        the moment that is passed to the operations.
    restore : callable
        Rebuilds the state from the store. Called in a transaction before `catch_up` if the state may differ from the
        store: something was rolled back or interrupted after it had called `changing`.
    durability : str
        "full": operations return when they are on disk. "batched": they return before that; `at_risk` says what a
        crash can cost.
    snapshots : Snapshots, optional

    Notes
    -----
    `run` may be called by any thread, but not within an operation, and not while `reading` is held. An operation calls
    `changing` before it changes the state or the store. If it raises before that, the error is its own; if it raises
    later, or the commit fails, the transaction is rolled back, and all of its operations raise. With a store that keeps
    no facts there are no transactions and no thread.

    Examples
    --------
    >>> from delaytron.journal.store import MemoryStore
    >>> store = MemoryStore(keeps_facts=True)
    >>> with Writer(store, catch_up=store.now, restore=lambda: None) as writer:
    ...     writer.run(lambda now: store.append(1, None, b"...", now))
    1
    """

    def __init__(
        self,
        store: Store,
        *,
        catch_up: Callable[[], Moment],
        restore: Callable[[], None],
        durability: str = "full",
        snapshots: Snapshots | None = None,
    ) -> None:
        batched = check_choice("durability", durability, DURABILITIES) == "batched" and store.keeps_facts
        self.at_risk = AtRisk(SECONDS, FACTS) if batched else AtRisk(0.0, 0)
        self._store = store
        self._catch_up = catch_up
        self._restore = restore
        self._snapshots = snapshots if store.keeps_facts else None
        self._packer: Thread | None = None
        self._shared = _SharedWriter(store, batched=batched)
        if store.keeps_facts:
            self._finalizer = weakref.finalize(self, self._shared.finish_unattended)

    def changing(self) -> None:
        """Declare that the running operation is about to change the state or the store."""
        shared = self._shared
        shared.changing = True
        shared.stale = True  # until the commit: an error or an interruption from here on leads to a restore

    def run(self, operation: Callable[[Moment], T]) -> T:
        """Run an operation; return its result when it is on disk (with "batched": when it is in the transaction).

        Raises what the operation raised before it changed anything, and JournalError if the transaction failed: then
        nothing was changed. If the caller is interrupted, an operation that waits is withdrawn; one that has begun
        in the writer's thread is finished.
        """
        shared = self._shared
        left = False
        try:
            try:
                at_once = shared.enter_at_once()
                if shared.in_memory:  # there is nothing to roll back: `restore` makes ids and learner agree
                    if shared.stale:
                        self._restore()
                        shared.restored = shared.generation
                    now = self._catch_up()
                    shared.stale = False  # what expired is complete, whatever becomes of the operation
                    result = operation(now)
                    shared.stale = False
                    return result
                task = _Task(self, operation)
                if at_once:
                    self._run_transaction([task])
                else:
                    self._queue_and_wait(task)
            finally:
                shared.leave()
                left = True
        finally:
            if not left:  # an interruption came in the inner `finally`, perhaps before its first line
                shared.leave()
        return task.outcome()

    def submit(self, operation: Callable[[Moment], T], loop: "AbstractEventLoop") -> "Future[T]":
        """Queue an operation; return a future of the event loop that calls this. A cancelled one is withdrawn.

        All operations of a transaction are answered by one wake-up of the loop. Raises JournalError if the store is
        closed, and BusyError if 10,000 operations wait already.
        """
        shared = self._shared
        future: Future[T] = loop.create_future()
        task = _Task(self, operation, loop, future)
        if shared.in_memory:
            try:
                future.set_result(self.run(operation))
            except Exception as problem:
                future.set_exception(problem)
        else:
            shared.raise_if_unusable()
            if shared.queue.qsize() >= MOST_WAITING:
                raise BusyError(f"{shared.name}: {MOST_WAITING:,} operations wait already", "try again later")
            try:
                accepted = shared.put(task)
            finally:
                _release(shared.starting)
            if not accepted:
                shared.raise_if_unusable()
                raise JournalError(f"{shared.name}: cannot start a thread", "end other threads, then try again")
        return future

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which the state is read; it is restored first if that is necessary.

        Readers wait while operations run, but not while they are committed. Raises JournalError in a forked child.
        """
        self._shared.raise_if_forked()
        return self._read_lock()

    @contextmanager
    def _read_lock(self) -> Iterator[None]:
        shared = self._shared
        while True:
            with shared.state_lock:
                # Under the lock, for which this thread may have waited until an operation failed.
                if not shared.needs_restore:
                    yield
                    return
            self.run(lambda _: None)

    def flush(self) -> None:
        """Commit what is acknowledged; raise JournalError if acknowledged facts were lost."""
        shared = self._shared
        if not shared.in_memory:
            shared.raise_if_unusable()
            shared.run_in_turn(shared.commit_acknowledged)
            shared.raise_if_lost()

    @property
    def is_closed(self) -> bool:
        """Whether operations are refused."""
        return self._shared.closing

    def close(self) -> None:
        """Finish what waits, commit, close the store and release its lock; do nothing in memory and in a forked child.

        Raises JournalError if acknowledged facts were lost; the store is closed nevertheless.
        """
        shared = self._shared
        if not shared.in_memory and shared.process == os.getpid():
            shared.close()
            self._finalizer.detach()  # only now: if `close` is interrupted, the finalizer still closes the store
            shared.raise_if_lost()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _queue_and_wait(self, task: "_Task[Any]") -> None:
        """Have the writer's thread run an operation; if the caller is interrupted, withdraw it unless it has begun."""
        shared = self._shared
        task.answered.acquire()  # released by the thread, when it has set the outcome
        try:
            if shared.put(task):
                task.answered.acquire()
            else:  # closed meanwhile, or no thread can be started: then this thread waits for the turn itself
                shared.raise_if_unusable()
                shared.enter()
                self._run_transaction([task])
        except BaseException:
            task.claim.acquire(blocking=False)
            raise

    def run_queued(self, tasks: "list[_Task[Any]]") -> None:
        """Run operations from the queue; called by the writer's thread in its turn. Raises nothing."""
        shared = self._shared
        try:
            if shared.closed:
                for task in tasks:
                    task.error = shared.closed_error()
            elif shared.batched:  # one by one: each has its own savepoint, and fails alone
                for task in tasks:
                    self._run_transaction([task])
            else:
                self._run_transaction(tasks)
        except BaseException as problem:  # an operation raised SystemExit, for example: the thread must go on
            for task in tasks:
                task.error = task.error or problem

    def _run_transaction(self, tasks: "list[_Task[Any]]") -> None:
        """Run operations in one transaction, or after a savepoint in the open one; this thread has the turn.

        Sets the result or the error of each; raises only what is no Exception, such as a KeyboardInterrupt.
        """
        shared, store = self._shared, self._store
        try:
            shared.raise_if_lost()
            shared.begin()  # before the lock: it may wait for another process, and readers of the state need not
            shared.state_lock.acquire()
            if shared.stale:
                self._restore()
                shared.restored = shared.generation
            now = self._catch_up()
            for task in tasks:
                shared.changing = False
                writes = store.writes
                try:
                    task.result = task.operation(now)
                except JournalError:  # the database's transaction may be gone
                    raise
                except Exception as problem:
                    task.error = problem
                    if shared.changing or store.writes != writes:  # else it failed alone, and the others go on
                        raise
            # Readers see what is not committed yet. If the commit fails, `reading` restores the state for the next one.
            shared.state_lock.release()
            shared.end()
        except Exception as problem:
            shared.roll_back()
            for task in tasks:
                # The one that failed raises its own error. The others did nothing wrong, and their results are void.
                if task.error is problem:
                    continue
                task.error = problem
                if len(tasks) > 1:
                    task.error = JournalError(
                        f"{shared.name}: the transaction was rolled back and nothing of it was acknowledged: {problem}",
                        "try again",
                    )
                    task.error.__cause__ = problem
        except BaseException:
            shared.roll_back()
            raise
        else:
            self._start_snapshot_if_due()

    def _start_snapshot_if_due(self) -> None:
        snapshots, packer = self._snapshots, self._packer
        try:
            if snapshots is not None and snapshots.due() and (packer is None or not packer.is_alive()):
                self._packer = Thread(target=self._keep_snapshot, args=(weakref.ref(self), snapshots), daemon=True)
                self._packer.start()
        except Exception:  # such as no more threads; the operations are committed and must not fail now
            log.exception("%s: no snapshot was made; it is tried again after the next transaction", self._shared.name)

    @staticmethod
    def _keep_snapshot(reference: "weakref.ref[Writer]", snapshots: Snapshots) -> None:
        """Copy the state in one operation, pack the copy while others run, and store it in another operation."""
        writer = reference()
        if writer is None:
            return
        shared, store = writer._shared, writer._store
        try:
            generation, seq, copied = writer.run(lambda _: (shared.generation, store.last_seq, snapshots.copy()))
            writer = None  # packing takes long, and must not keep the model from being collected
            body = snapshots.pack(copied)

            def put(now: Moment) -> None:
                # After a rollback, facts of the copy may be lost, and others may have their numbers.
                if shared.generation == generation:
                    store.put_snapshot(seq, body)
                    store.drop_old_replies(now)

            writer = reference()
            if writer is not None:
                writer.run(put)
        except Exception:
            if not shared.closing:
                log.exception("%s: no snapshot was stored; another one is made after more facts", shared.name)


class _Task(Generic[T]):
    """An operation in the queue, and its outcome."""

    __slots__ = ("answered", "claim", "error", "future", "loop", "operation", "result", "writer")

    def __init__(
        self,
        writer: Writer,
        operation: Callable[[Moment], T],
        loop: "AbstractEventLoop | None" = None,
        future: "Future[T] | None" = None,
    ) -> None:
        self.writer = writer  # keeps it alive as long as the operation waits
        self.operation = operation
        self.loop = loop
        self.future = future
        self.claim = Lock()  # acquired once, either to begin the operation or to withdraw it
        self.answered = Lock()
        self.result: Any = None
        self.error: BaseException | None = None

    def begin(self) -> bool:
        """Claim the operation; return False if it was withdrawn."""
        return not (self.future is not None and self.future.cancelled()) and self.claim.acquire(blocking=False)

    def outcome(self) -> T:
        """Return the result or raise the error."""
        error, self.error = self.error, None
        if error is None:
            return self.result  # type: ignore[no-any-return]
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame: a reference cycle would keep the model alive


def _release(lock: Any) -> None:
    """Release an RLock as often as this thread has acquired it."""
    while lock._is_owned():  # several times only after an interruption
        lock.release()


def _answer(tasks: "Iterable[_Task[Any]]") -> None:
    """Wake the threads that wait, and each event loop once: a wake-up of a loop costs more than most operations."""
    by_loop: dict[AbstractEventLoop, list[_Task[Any]]] = {}
    for task in tasks:
        if task.loop is None:
            task.answered.release()
        else:
            by_loop.setdefault(task.loop, []).append(task)
    for loop, answered in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: there is no one to answer
            loop.call_soon_threadsafe(_set_futures, answered)


def _set_futures(tasks: "Iterable[_Task[Any]]") -> None:
    for task in tasks:
        if task.future is None or task.future.done():  # cancelled meanwhile
            continue
        if task.error is None:
            task.future.set_result(task.result)
        elif isinstance(task.error, StopIteration):  # a future refuses it, and the others would not be answered
            task.future.set_exception(RuntimeError("the operation raised StopIteration"))
        else:
            task.future.set_exception(task.error)


class _SharedWriter:
    """What the writer shares with its thread and finalizer, which must not refer to it: turn, transaction, queue.

    Everything below `queue` is changed only by the thread that has the turn. What is left to do after an error, or an
    interruption between any two lines:

    ============  =====================================  ===========================  =============================
    flag          set by                                 cleared by                   while it is set
    ============  =====================================  ===========================  =============================
    changing      an operation, before its first change  the next operation's begin   its error rolls all back
    stale         the same; facts that were lost         `end`                        the state is restored first
    unfinished    `begin`                                `end`, `roll_back`           `begin` rolls back first
    acknowledged  `end`, if commits are batched          the commit; facts were lost  the thread commits in time
    lost          a failed commit of acknowledged facts  the call that reports it     the next call raises
    ============  =====================================  ===========================  =============================
    """

    def __init__(self, store: Store, *, batched: bool) -> None:
        self.store = store
        self.name = store.name
        self.batched = batched
        self.in_memory = not store.keeps_facts
        self.process = os.getpid()
        self.closing = False  # no new operation is accepted
        self.closed = False
        self.thread: Thread | None = None
        self.thread_waits = False  # for the turn
        self.crowded = False  # the thread's last transaction had several operations: callers should queue
        self.serving = False  # the turn is that of a writer's thread
        self.orphaned = False  # the thread has to close the store
        self.state_lock = RLock()
        self.turn = self.state_lock if self.in_memory else RLock()
        self.starting = RLock()  # held to start the thread
        # A SimpleQueue, since a finalizer may put None at any moment in any thread: a queue with a lock could deadlock.
        self.queue: SimpleQueue[_Task[Any] | None] = SimpleQueue()  # None wakes the thread
        self.running = 0  # the thread that has the turn
        self.changing = False
        self.stale = False  # the state may differ from what the store has committed
        self.generation = 0  # the number of rollbacks that undid changes of the state
        self.restored = 0  # the generation at which the state was restored
        # Of durability="batched" only. An open transaction consists of acknowledged operations and, after the
        # savepoint, of at most one that is unfinished.
        self.acknowledged = False
        self.unfinished = False
        self.lost: BaseException | None = None  # why acknowledged facts were lost, until that is reported
        self.deadline = 0.0
        self.first_seq = 0

    # The turn

    def raise_if_forked(self) -> None:
        """Raise JournalError in a forked child; give a model in memory fresh locks there."""
        if self.process != os.getpid():
            if not self.in_memory:
                raise JournalError(
                    f"{self.name} was opened before this process was forked", "open it again, or use dt.Journal"
                )
            self.state_lock = self.turn = RLock()  # the old one may be held by a thread that is not in the child
            self.running = 0
            self.process = os.getpid()

    @property
    def needs_restore(self) -> bool:
        """Whether an operation was rolled back, or was interrupted before it could be."""
        return self.generation != self.restored or (self.stale and not self.running)

    def raise_if_unusable(self) -> None:
        """Raise JournalError in a forked child, and if the store is closed."""
        self.raise_if_forked()  # before any lock: another thread may have held it at the fork, and is not in the child
        if self.closing:
            raise self.closed_error()

    def closed_error(self) -> JournalError:
        """Return the error for an operation on a closed store."""
        return JournalError(f"{self.name} is closed", "open it again")

    def enter_at_once(self) -> bool:
        """Take the turn if it is free and no operation waits; return whether it was taken. Waits for it in memory.

        Raises JournalError in a forked child, if the store is closed, and within an operation or a read of this thread.
        """
        if self.process != os.getpid() or self.closing:
            self.raise_if_unusable()
        # To wait would be a deadlock. The locks are those of an outer operation or read, or an interruption left them.
        if self.running == get_ident() or self.state_lock._is_owned():  # type: ignore[attr-defined]
            self.roll_back()
            self.leave()
            raise JournalError(
                f"{self.name}: an operation within an operation or a read, or after an interrupted one",
                "it was rolled back, try again",
            )
        if self.in_memory:
            self.turn.acquire()
        # A caller must not overtake the thread when it waits, nor take the turn again and again while others queue.
        elif self.thread_waits or self.crowded or not self.queue.empty() or not self.turn.acquire(blocking=False):
            return False
        self.running = get_ident()
        return True

    def enter(self) -> None:
        """Wait for the turn."""
        self.turn.acquire()
        self.running = get_ident()

    def leave(self) -> None:
        """Release all locks of this thread; a second call does nothing.

        After an interruption only the locks know which of them this thread has, and how often.
        """
        interruption = None
        while True:
            try:
                if self.running == get_ident():
                    self.running = 0
                for lock in (self.turn,) if self.in_memory else (self.starting, self.state_lock, self.turn):
                    _release(lock)
                break
            except BaseException as problem:  # other threads wait for the locks: release them first
                interruption = problem
        if interruption is not None:
            raise interruption

    def run_in_turn(self, action: Callable[[], None]) -> None:
        """Wait for the turn and call `action`."""
        left = False
        try:
            try:
                self.enter()
                action()
            finally:
                self.leave()
                left = True
        finally:
            if not left:  # see `Writer.run`
                self.leave()

    # The transaction

    def begin(self) -> None:
        """Begin a transaction, or set a savepoint in the open one; roll back what an interruption left."""
        store = self.store
        if self.acknowledged and not store.in_transaction:
            self.acknowledged = False  # an interruption came between the commit and this assignment
        if self.acknowledged and self.unfinished:
            self.roll_back()
        if not self.acknowledged:
            store.begin()  # rolls back what an interruption left
            self.deadline = monotonic() + SECONDS
            self.first_seq = store.last_seq
        if self.batched:
            try:
                store.savepoint()
            except JournalError as problem:
                if self.acknowledged:
                    self._lose_acknowledged(problem)
                raise
        self.unfinished = True

    def end(self) -> None:
        """Commit, or if commits are batched acknowledge what was done since the savepoint."""
        store = self.store
        if not self.batched:
            store.commit()
            self.unfinished = self.stale = False
            return
        full = store.last_seq - self.first_seq >= FACTS  # before the pause, while this thread sees uncommitted facts
        store.pause()
        if not self.acknowledged:
            self.queue.put(None)  # the thread has to commit at the deadline
        # The order matters: after an interruption between two of these lines, the operation is either rolled back and
        # the state restored, or it counts as acknowledged.
        self.acknowledged = True
        self.unfinished = False
        self.stale = False
        if full or not self.has_thread():
            self.commit_acknowledged()
            self.raise_if_lost()

    def roll_back(self) -> None:
        """Roll back what is not acknowledged; raises no error of the database."""
        if self.stale:
            self.generation += 1
        if self.acknowledged:
            if self.unfinished:
                try:
                    self.store.rollback_to_savepoint()
                except JournalError as problem:
                    self._lose_acknowledged(problem)
        else:
            self.store.rollback()
        self.unfinished = False  # last: an interruption before this line must lead to another rollback

    def commit_acknowledged(self) -> None:
        """Commit the operations that were acknowledged before their commit; if that fails, note that they are lost."""
        if self.acknowledged and self.store.in_transaction:
            self.roll_back()
            if self.acknowledged:
                try:
                    self.store.commit()
                except JournalError as problem:
                    self._lose_acknowledged(problem)
        self.acknowledged = False

    def _lose_acknowledged(self, problem: BaseException) -> None:
        self.stale = True
        self.generation += 1
        self.lost = problem
        self.store.rollback()
        self.acknowledged = False

    def raise_if_lost(self) -> None:
        """Raise JournalError, once, if acknowledged facts were lost."""
        lost = self.lost
        if lost is not None:
            self.lost = None
            raise JournalError(
                f"{self.name}: the last facts were acknowledged and could not be written: {lost}",
                "they are lost: repeat the last calls",
            ) from lost

    # The thread

    def put(self, task: "_Task[Any]") -> bool:
        """Queue a task for the thread; return False if the thread will not run it: closed, or it cannot be started."""
        if not self.has_thread():
            return False
        self.queue.put(task)
        # `close` may have come in between: either the thread finds the task in the queue, or this line sees the flag.
        return not self.closing or not task.begin()

    def has_thread(self) -> bool:
        """Start the writer's thread if necessary; return whether it runs. The caller releases `starting` in the end."""
        if self.thread is None:
            self.starting.acquire()
            if self.thread is None:
                thread = Thread(target=self._serve, name=f"writer of {self.name}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter ends, or the system has no more threads
                    self.starting.release()
                    return False
                self.thread = thread  # if an interruption comes before this line, two threads serve the queue
            self.starting.release()
        return True

    def _serve(self) -> None:
        """Run what is queued, and commit what is acknowledged at its deadline, until the store is closed."""
        deadline: float | None = None
        while not self.closing or not self.queue.empty():
            item: _Task[Any] | None = None
            tasks: list[_Task[Any]] = []
            with suppress(Empty):
                item = self.queue.get(timeout=None if deadline is None else max(0.0, deadline - monotonic()))
            try:
                self.thread_waits = True
                self.enter()
                self.thread_waits = False
                self.serving = True
                if self.crowded:
                    sleep(0)  # callers that were answered together return at different times: let all of them queue
                with suppress(Empty):
                    # Only now: what arrived while this thread waited for the turn shares the transaction.
                    while True:
                        if item is not None and item.begin():
                            tasks.append(item)
                        if len(tasks) >= MOST_AT_ONCE:
                            break  # before another one is taken from the queue, which would then be lost
                        item = self.queue.get_nowait()
                self.crowded = len(tasks) > 1 and not self.batched
                if tasks:
                    tasks[0].writer.run_queued(tasks)
                if self.acknowledged and monotonic() >= self.deadline:
                    self.commit_acknowledged()
                deadline = self.deadline if self.acknowledged else None
            except BaseException:  # such as a MemoryError; callers wait for this thread, so it must not end
                log.exception("%s: the writer's thread failed", self.name)
            finally:
                self.serving = False
                self.leave()
                _answer(tasks)
            del item, tasks  # they refer to the writer, which could not be collected while this thread waits
        self.queue.put(None)  # wakes a second thread, if there is one, see `has_thread`
        if self.orphaned:
            self.finish_unattended()

    def close(self) -> None:
        """Finish what waits, commit what is acknowledged, close the store."""
        if self.closed:
            return
        if self.running == get_ident():  # within an operation, or after an interrupted one
            self.roll_back()
            self.leave()
        self.closing = True
        thread = self.thread
        if thread is not None and thread is not current_thread():
            self.queue.put(None)  # behind everything that waits
            thread.join()
        self.finish()

    def finish_unattended(self) -> None:
        """Close the store as `close` does: the writer was collected, or the interpreter exits.

        There is no caller for the error that acknowledged facts were lost; Python prints it.
        """
        if self.process == os.getpid():
            self.finish()
            self.raise_if_lost()

    def finish(self) -> None:
        """Commit what is acknowledged and close the store; a second call does nothing."""
        if self.closed:
            return

        def close_store() -> None:
            self.commit_acknowledged()  # raises nothing but an interruption, after which `close` can be called again
            self.store.close()
            self.closed = True

        self.closing = True
        self.queue.put(None)
        if self.serving and self.running == get_ident():
            self.orphaned = True  # the garbage collector runs within a transaction of the thread: it closes afterwards
        else:
            self.run_in_turn(close_store)
