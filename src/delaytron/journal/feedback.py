"""Answers from any process, into the journal of the one that decides."""

import json
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self

from delaytron.errors import JournalError
from delaytron.journal.answers import Answering, read_answering, read_value, reply
from delaytron.journal.clock import Clock
from delaytron.journal.database import patiently, reconnect
from delaytron.journal.ids import check_id
from delaytron.journal.problems import with_step
from delaytron.journal.queries import STATUS, as_status
from delaytron.journal.records import ANSWERED, EXPIRED, OPEN, Status
from delaytron.journal.tables import find_file, naming_damage, open_existing, read_format, read_meta


class Journal:
    """The journal of a model that another process owns: for giving feedback.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from delaytron.journal import FactStore
    >>> with TemporaryDirectory() as folder, FactStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     with store.batch():
    ...         store.open_id("req-17")
    ...     with Journal(Path(folder, "a.db")) as journal:
    ...         journal.feedback("req-17", correct=True), journal.feedback("req-17", correct=True)
    ('accepted', 'duplicate')
    """

    def __init__(self, path: str | Path) -> None:
        self._path = find_file(path)
        self._process = os.getpid()
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = open_existing(self._path)
        self._closed = False
        self._clock: Clock | None = None

    def feedback(self, id: str, correct: Any = None, *, label: Any = None, reward: Any = None) -> str:
        """Give the answer to a decision; when this returns, it is on disk.

        Returns "accepted"; "duplicate" when the same answer was known already; "expired" or "cancelled" when nobody
        waits for it any more. The last three change nothing.
        """
        check_id(id)
        self._raise_if_forked()
        with self._lock:
            connection = self._connected()
            try:
                return self._give(connection, id, (correct, label, reward))
            except sqlite3.Error as problem:
                self._drop()
                raise JournalError(
                    f"{self._path} could not be written, and the answer was not accepted: {with_step(problem)}"
                ) from problem
            finally:
                self._roll_back()

    def _give(self, connection: sqlite3.Connection, id: str, given: tuple[Any, Any, Any]) -> str:
        """Answer; what has been settled before needs no transaction, and what is visible is on disk."""
        answering = self._answering(connection)
        known = _status(connection, id)
        if known is not None and known.status not in (OPEN, EXPIRED):
            return reply(id, known, read_value(answering, *given, known.label), answering)
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        known = _status(connection, id)
        value = read_value(answering, *given, None if known is None else known.label)
        said = reply(id, known, value, answering)
        if said == "accepted" and known is not None:
            self._write(connection, id, value, revises=known.status == EXPIRED)
        connection.execute("COMMIT")
        return said

    def _answering(self, connection: sqlite3.Connection) -> Answering:
        read_format(self._path, connection)
        with naming_damage(self._path):
            meta = read_meta(connection)
            if self._clock is None:
                self._clock = Clock(json.loads(meta["clock"]))
            return read_answering(meta["config"], meta.get("classes"))

    def _write(self, connection: sqlite3.Connection, id: str, value: float, *, revises: bool) -> None:
        now = Clock().now() if self._clock is None else self._clock.now()
        connection.execute(
            "INSERT INTO inbox (id, value, wall, clock, revises) VALUES (?, ?, ?, ?, ?)",
            (id, value, now.wall, now.clock, revises),
        )
        connection.execute("UPDATE ids SET status = ?, value = ? WHERE id = ?", (ANSWERED, value, id))

    def close(self) -> None:
        """Close the file."""
        if self._process == os.getpid():
            with self._lock:
                self._closed = True
                self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> sqlite3.Connection:
        """Return the connection; after an error it is made anew."""
        if self._closed:
            raise JournalError(f"{self._path.name} is closed; open it again")
        if self._connection is None:
            self._connection = reconnect(self._path)
        return self._connection

    def _roll_back(self) -> None:
        """End the transaction of an answer that was not accepted."""
        with suppress(sqlite3.Error):
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _raise_if_forked(self) -> None:
        if self._process != os.getpid():
            raise JournalError(f"{self._path.name} was opened before this process was forked; open it again here")


def _status(connection: sqlite3.Connection, id: str) -> Status | None:
    row = patiently(lambda: connection.execute(STATUS, (id,)).fetchone())
    return None if row is None else as_status(row)
