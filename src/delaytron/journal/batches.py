"""What a group commit is made of: members, their batch, and what it asks of a database."""

from threading import Lock, get_ident
from time import monotonic
from typing import Protocol


class Transactions(Protocol):
    """What a database does for a batch; its errors are `JournalError`."""

    def begin(self, *, wait: bool = True) -> None:
        """Begin a transaction in which no other process can write; if one does, wait, or raise `BusyError`."""

    def commit(self) -> None:
        """Bring it to disk."""

    def rollback(self) -> None:
        """End it without a trace, if there is one; raises no error of the database."""

    def mark(self) -> None:
        """Remember this place in the transaction."""

    def rollback_to_mark(self) -> None:
        """Undo what came after the last mark."""

    @property
    def has_committed(self) -> bool:
        """Whether the last transaction that began was committed."""


class Member:
    """One thread's part of a batch."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.changed = False
        self.gate = Lock()  # opened by the one who lets this member in
        self.gate.acquire()


class Batch:
    """A transaction, and what became of it."""

    def __init__(self) -> None:
        self.started = monotonic()
        self.facts = 0
        self.inbox_read = False
        self.spoiled: BaseException | None = None  # an error of the database: this transaction can only be rolled back
        self.committed = False
        self.error: BaseException | None = None
        self.done = Lock()  # held until the batch has ended
        self.done.acquire()

    @property
    def ended(self) -> bool:
        """Whether it was committed or rolled back."""
        return self.committed or self.error is not None
