"""What stands in for a journal where there is none: ids in memory, nothing on disk."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from threading import RLock
from typing import Any

from delaytron.journal.clock import Clock, Moment
from delaytron.journal.ids import issued_before
from delaytron.journal.records import CANCELLED, EXPIRED, OPEN, Arrival, Status
from delaytron.model.core import Core


class MemoryStore:
    """Knows every id that was issued, and what became of it."""

    generation = 0
    last_seq = 0

    def __init__(self, ids: dict[str, Status] | None = None, clock: Any = None) -> None:
        self.ids = ids or {}
        self.clock = Clock(clock)
        self.now = self.clock.now
        self._lock = RLock()

    @contextmanager
    def batch(self, *, wait: bool = True) -> Iterator[None]:  # noqa: ARG002
        """Let one thread in at a time."""
        with self._lock:
            yield

    def append(self, kind: int, id: str | None, body: bytes, now: Moment) -> int:  # noqa: ARG002
        """Facts are not kept."""
        return 0

    def open_id(self, id: str, label: int | None = None, seq: int | None = None) -> None:  # noqa: ARG002
        """Register a new id."""
        if id in self.ids:
            raise issued_before(id)
        self.ids[id] = Status(OPEN, None, label, False)

    def open_ids(self, ids: list[str], labels: list[int]) -> None:
        """Register new ids, which are known to be new."""
        self.ids.update(zip(ids, map(Status, repeat(OPEN), repeat(None), labels, repeat(False)), strict=True))

    def status(self, id: str) -> Status | None:
        """Return what is known of an id; None if it was never issued."""
        return self.ids.get(id)

    def settle(self, id: str, status: int, value: float | None = None) -> None:
        """Note what became of a decision."""
        self.ids[id] = self.ids[id]._replace(status=status, value=value)

    def set_classes(self, classes: Sequence[Any]) -> None:
        """No other process wants to know them."""

    def all_ids(self) -> Iterator[tuple[str, Status]]:
        """Iterate over all ids ever issued."""
        return iter(self.ids.items())

    def clock_state(self) -> dict[str, Any]:
        """Return what the next clock needs to go on."""
        return self.clock.state()

    def inbox(self) -> list[Arrival]:
        """No other process can reach it."""
        return []

    def close(self) -> None:
        """There is nothing to close."""


def finish_interrupted(core: Core, store: MemoryStore) -> None:
    """Do what the store knows of and an interruption kept the core from: there are no facts to make it anew."""
    core.classes.refresh()
    for issued, waiting in [*core.open.items(), *core.lapsed.items()]:
        known = store.status(issued)
        if known is None:
            store.open_id(issued, waiting.label)
        elif known.value is not None:
            core.answer(issued, known.value, store.now())
        elif known.status == CANCELLED:
            core.cancel(issued)
        elif known.status == EXPIRED and issued in core.open:
            core.expire(issued)
