"""What a forked child must not do: use or close the connections of its parent."""

import ctypes
import os
import sqlite3
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_connections: "WeakSet[Connection]" = WeakSet()


class Connection(sqlite3.Connection):
    """A connection that a forked child cannot use or close: SQLite would change what it shares with the parent."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.inherited = False
        _connections.add(self)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement; raise sqlite3.Error in a child."""
        return self._guarded(super().execute, arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement with several rows; raise sqlite3.Error in a child."""
        return self._guarded(super().executemany, arguments)

    def _guarded(self, action: Callable[..., sqlite3.Cursor], arguments: tuple[Any, ...]) -> sqlite3.Cursor:
        if self.inherited:
            raise sqlite3.ProgrammingError("it was opened before this process was forked")
        try:
            return action(*arguments)
        except UnicodeDecodeError as problem:  # of SQLite's message, which quotes a damaged file
            raise sqlite3.DatabaseError(f"the file is damaged: {problem}") from problem

    def close(self) -> None:
        """Close it; in a child, do nothing."""
        if not self.inherited:
            super().close()


def keep_in_child() -> None:
    """Let the connections that a child inherited live as long as it does, since their end would close them."""
    for connection in list(_connections):
        connection.inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=keep_in_child)
