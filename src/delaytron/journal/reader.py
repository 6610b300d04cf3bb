"""Reading what is committed, while another connection writes."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from delaytron.errors import JournalError
from delaytron.journal.database import patiently, reconnect
from delaytron.journal.problems import with_step


class Reader:
    """A connection that only reads, for any thread; opened when it is needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._lock:
            if self._connection is None:
                self._connection = reconnect(self._path)
            connection = self._connection
            try:
                return patiently(lambda: connection.execute(sql, values).fetchall())
            except sqlite3.Error as problem:
                self._drop()
                raise JournalError(f"{self._path} could not be read: {with_step(problem)}") from problem

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
