"""A model's state and its store, kept in step: every change is a fact, and after a failure memory is made anew."""

import os
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any, TypeVar

from delaytron.errors import DelaytronError, InvalidInput, JournalError
from delaytron.journal import FactStore
from delaytron.journal.clock import Moment
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.encoding import FeatureEncoder
from delaytron.model.making import Recipe, make_core
from delaytron.model.memory import MemoryStore, finish_interrupted
from delaytron.model.replaying import replay_fact
from delaytron.model.snapshots import compress, pack_core, read_snapshot
from delaytron.model.still import Still, still_copy
from delaytron.records import Ints, Play, Row

T = TypeVar("T")

FACTS_A_SNAPSHOT = 50_000  # and no fewer than decisions wait: their part of a snapshot takes a time for each fact only


class Keeper:
    """Runs operations on the core of a model, one at a time, each within a batch of the store.

    Whatever changes the core says so first, by `_in_step`: if it is interrupted, by Ctrl-C or an error, before its fact
    is written, the core is made anew from the facts.
    """

    def __init__(self, store: FactStore | MemoryStore, recipe: Recipe, core: Core | None = None) -> None:
        self.store = store
        self.keeps_facts = isinstance(store, FactStore)
        self.recipe = recipe
        self.core = make_core(recipe) if core is None else core
        self._generation = store.generation
        self._in_step = True
        self._since_snapshot = 0
        self._lock = RLock()
        self._process = os.getpid()

    @property
    def encoder(self) -> FeatureEncoder:
        """What makes rows of features; used by one thread at a time, as the core."""
        return self.core.encoder

    def warm_up(self) -> None:
        """Have the machine code for a decision, which takes seconds where none is on disk yet."""
        self.core.warm_up()

    def run(self, operation: Callable[[Moment], T]) -> T:
        """Run an operation; return when it is on disk. One that raises an error changes nothing.

        Before it, what other processes answered is taken in, and what has waited for too long a time expires.
        """
        (outcome,) = self.run_all((operation,))
        if isinstance(outcome, DelaytronError):
            raise outcome
        return outcome

    def run_all(
        self, operations: Iterable[Callable[[Moment], T]], *, wait: bool = True, snapshots: bool = True
    ) -> list[T | DelaytronError]:
        """Run several in one batch: each has its result, or the error with which it changed nothing.

        If another process writes, `wait` for it, or raise `BusyError`. Without `snapshots` the caller keeps them.
        """
        with self.store.batch(wait=wait), self._lock:
            now = self._catch_up()
            outcomes = [self._attempt(operation, now) for operation in operations]
            if snapshots and self.wants_snapshot:
                self.put_snapshot()
        return outcomes

    def _attempt(self, operation: Callable[[Moment], T], now: Moment) -> T | DelaytronError:
        try:
            result = operation(now)
        except DelaytronError as problem:
            if isinstance(problem, JournalError) or not self._in_step:
                raise
            return problem
        self._in_step = True
        return result

    def read(self, look: Callable[[Core], T]) -> T:
        """Look at the core while nobody changes it."""
        with self._lock:
            if self._is_current:
                return look(self.core)
        self.run(lambda _: None)
        with self._lock:
            return look(self.core)

    @property
    def _is_current(self) -> bool:
        return self._in_step and self._generation == self.store.generation

    def _catch_up(self) -> Moment:
        if not self._is_current:
            self.reload()
        now = self.store.now()
        for arrival in self.store.inbox():
            self._in_step = False
            self.core.answer(arrival.id, arrival.value, arrival.now)
            self.note(facts.ANSWERED, arrival.id, facts.encode(arrival.value), arrival.now)
        self.expire_due(now, self.core.rounds)
        self._in_step = True
        return now

    def expire_due(self, now: Moment, round: int) -> None:
        """Wait no longer for what has waited too long at a moment, when a round begins."""
        for due in self.core.due(now, round):
            self._in_step = False
            self.store.settle(due, EXPIRED)
            self.core.expire(due)
            self.note(facts.EXPIRED, due, b"", now)

    def note(self, kind: int, id: str | None, body: bytes, now: Moment) -> None:
        """Write a fact about what was just done."""
        self.store.append(kind, id, body, now)
        self._since_snapshot += 1

    def begin_change(self) -> None:
        """Say that the core is about to change; if the operation does not end well, it is made anew from the facts."""
        self._in_step = False

    def decide(self, id: str, row: Row, labels: Ints, now: Moment, *, restricted: bool) -> Play:
        """Play a round, under an id that is new; `restricted` if not all classes could be chosen."""
        self.expire_due(now, self.core.rounds + 1)
        self._in_step = False
        play = self.core.decide(id, row, labels, now)
        self.store.open_id(id, play.label, self.store.last_seq + 1)
        self.note_decision(facts.DECIDED, id, play, labels if restricted else None, now)
        return play

    def note_decision(self, kind: int, id: str, play: Play, allowed: Ints | None, now: Moment) -> None:
        """Write a fact about a round that was just played, with the names of features that no fact has told yet."""
        names = self.encoder.new_names()
        if self.keeps_facts:
            self.note(kind, id, facts.encode_decided(play, allowed, names), now)

    def decide_many(
        self, ids: list[str], vectors: Any, labels: Ints, now: Moment, *, restricted: bool
    ) -> tuple[list[int], list[int], list[float]]:
        """Play a round for each vector, under ids that are new; return greedy labels, those played, probabilities."""
        first = self.core.rounds + 1
        self._in_step = False
        chosen = self.core.decide_many(ids, vectors, labels, now)
        self.store.open_ids(ids, chosen[1])
        for number, issued in enumerate(ids if self.keeps_facts else (), start=first):
            play = self.core.learner.ledger.play(number)
            self.note(facts.DECIDED, issued, facts.encode_decided(play, labels if restricted else None, ()), now)
        return chosen

    def answer(self, id: str, value: float, now: Moment) -> None:
        """Take an answer that is wanted."""
        self._in_step = False
        self.store.settle(id, ANSWERED, value)
        self.core.answer(id, value, now)
        self.note(facts.ANSWERED, id, facts.encode(value), now)

    def cancel(self, id: str, now: Moment) -> None:
        """Want no answer to an open decision."""
        self._in_step = False
        self.store.settle(id, CANCELLED)
        self.core.cancel(id)
        self.note(facts.CANCELLED, id, b"", now)

    def add_class(self, name: Any, now: Moment) -> None:
        """Add a class, or let a retired one come back."""
        checked = self.core.classes.check_new(name)
        self._in_step = False
        try:
            self.core.add_class(checked)
        except InvalidInput:
            self._in_step = True  # the learner cannot grow, and has not
            raise
        self.note(facts.CLASS_ADDED, None, facts.encode(checked), now)
        self.store.set_classes(self.core.classes.names)

    def retire_class(self, name: Any, now: Moment) -> None:
        """Let a class not be chosen any more."""
        checked = self.core.classes.check_retirable(name)
        self._in_step = False
        self.core.retire_class(checked)
        self.note(facts.CLASS_RETIRED, None, facts.encode(checked), now)

    def reload(self) -> None:
        """Make the core from the newest snapshot and the facts after it."""
        if isinstance(self.store, MemoryStore):
            finish_interrupted(self.core, self.store)
            return
        snapshot = self.store.snapshot()
        after = 0
        core = make_core(self.recipe)
        if snapshot is not None:
            core, _ = read_snapshot(snapshot)
            after = snapshot.seq
        count = 0
        for fact in self.store.facts(after):
            replay_fact(core, fact)
            count += 1
        self.core = core
        self._since_snapshot = count
        self._generation = self.store.generation
        self._in_step = True

    @property
    def wants_snapshot(self) -> bool:
        """Whether so much came since the last snapshot that there should be another one."""
        return self._since_snapshot >= max(FACTS_A_SNAPSHOT, len(self.core.open) + len(self.core.lapsed))

    def put_snapshot(self) -> None:
        """Keep the state in the journal, so that it opens fast."""
        if isinstance(self.store, FactStore):
            self.put_packed(self.store.last_seq, compress(self.pack()))
        self._since_snapshot = 0

    def put_packed(self, seq: int, body: bytes) -> None:
        """Keep a state that was packed elsewhere; see `still`."""
        if isinstance(self.store, FactStore):
            self.store.put_snapshot(seq, body)
            self.store.requests.drop_old(self.store.now())

    def still(self) -> Still:
        """Return a copy of this moment, to be packed elsewhere and kept by `put_packed`. Within a batch."""
        self._since_snapshot = 0
        return Still(self.store.last_seq, still_copy(self.core), self.recipe, self.encoder.names())

    def pack(self, **more: Any) -> bytes:
        """Return all that the model knows."""
        return pack_core(self.core, self.recipe, {"names": self.encoder.names(), **more})

    def pack_with_ids(self) -> bytes:
        """Return all that the model knows, every id included: it needs no journal any more."""
        ids = {issued: list(status) for issued, status in self.store.all_ids()}
        return self.pack(ids=ids, clock=self.store.clock_state())

    def close(self) -> None:
        """Keep a snapshot if there is something new, and close the journal; a forked child does neither."""
        try:
            if self._since_snapshot and self._process == os.getpid():
                self.run(lambda _: self.put_snapshot())
        finally:
            self._since_snapshot = 0
            self.store.close()
