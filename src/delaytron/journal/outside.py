"""`dt.Journal`: feedback from other processes, through the journal of the process that decides."""

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any, Self

from delaytron.answers import Status, read_answering, read_value, reply
from delaytron.errors import JournalError
from delaytron.journal.database import find_file, naming_damage, open_existing, read_meta
from delaytron.journal.ids import Clock, check_id
from delaytron.journal.sqlite import SETTLE, read_known

PUT_ARRIVAL = "INSERT INTO inbox (id, value, wall, clock, reply) VALUES (?, ?, ?, ?, ?)"


class Journal:
    """The journal of a model that another process owns, to give feedback; any thread may use it.

    Parameters
    ----------
    path : str or Path
        Of an existing journal; InvalidInput is raised if there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from delaytron.journal.sqlite import SqliteStore
    >>> with TemporaryDirectory() as folder, SqliteStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     store.begin()
    ...     store.issue("req-17")
    ...     store.commit()
    ...     with Journal(Path(folder, "a.db")) as journal:
    ...         journal.feedback("req-17", correct=True), journal.feedback("req-17", correct=True)
    ('accepted', 'duplicate')
    """

    def __init__(self, path: str | Path) -> None:
        self._path = find_file(path)
        self._process = os.getpid()
        self._lock = Lock()
        self._closed = False
        self._clock: Clock | None = None
        self._database = open_existing(self._path)
        self._database.doing = "written, and the answer was not accepted"

    def feedback(self, id: str, correct: Any = None, *, label: Any = None, reward: Any = None) -> str:
        """Give feedback for a decision; when this returns, it is on disk. The owner learns from it later.

        Returns "accepted"; "duplicate" if the same answer was given before; "corrected" if the decision had expired as
        wrong; "late" if it had expired, and the learner does not take the answer; "cancelled" if it was cancelled.
        Raises UnknownDecision, ConflictingFeedback if another answer was given before, InvalidInput and JournalError.
        """
        check_id(id)
        if self._process != os.getpid():  # before the lock: another thread may have held it at the fork
            name = self._path.name
            raise JournalError(f"{name} was opened before this process was forked", "open it again here")
        database = self._database
        with self._lock:
            if self._closed:
                raise JournalError(f"{self._path.name} is closed", "open it again")
            try:
                known = read_known(database, id)
                if known is None or (known.status != Status.CANCELLED and known.value is None):
                    # This answer may settle it: read it again when no other process can write. An id that is unknown
                    # now may have been issued in the transaction for which `begin` waits.
                    database.begin()
                    known = read_known(database, id)
                meta = read_meta(database)  # after `known`, whose answer may be a class that was added just before
                with naming_damage(self._path):
                    if self._clock is None:
                        self._clock = Clock(json.loads(meta["clock"]))
                    answering = read_answering(meta["config"], meta.get("classes"))
                value = read_value(answering, correct, label, reward, None if known is None else known.label)
                with naming_damage(self._path):  # a stored answer that is the index of no class
                    replied = reply(id, known, value, answering)
                if known is not None and replied in ("accepted", "corrected", "late"):
                    now = self._clock.now()
                    database.execute(PUT_ARRIVAL, (id, value, now.wall, now.clock, replied))
                    status = Status.EXPIRED if replied == "late" else Status.ANSWERED
                    database.execute(SETTLE, (int(status), value, False, id, int(known.status), int(known.status)))
                if database.in_transaction:
                    database.commit()
                return replied
            finally:
                database.rollback()

    def close(self) -> None:
        """Close the file; in a forked child, do nothing."""
        if self._process == os.getpid():
            with self._lock:
                self._closed = True
                self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
