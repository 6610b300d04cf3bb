"""A journal as it is at one moment, for reading only: whoever owns the file goes on, and nothing in it changes."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from delaytron.errors import InvalidInput, JournalError
from delaytron.journal import queries
from delaytron.journal.database import closed_after_error, patiently
from delaytron.journal.problems import opening_error, with_step
from delaytron.journal.records import Fact, Snapshot, Status
from delaytron.journal.tables import FORMAT, find_file, read_format, read_meta

T = TypeVar("T")


class JournalView:
    """What was committed to a journal when it was opened here.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from delaytron.journal import FactStore
    >>> with TemporaryDirectory() as folder, FactStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     with JournalView(Path(folder, "a.db")) as view:
    ...         with store.batch():
    ...             seq = store.append(0, None, b"", store.now())
    ...         view.last_seq, store.last_seq
    (0, 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = find_file(path)
        if not self.path.exists():
            raise InvalidInput(f"there is no journal {path}; give the path of one that dt.Model has made")
        self._connection = _connect(self.path)
        with closed_after_error(self.path, self._connection):
            self._begin()

    def _begin(self) -> None:
        """Hold on to what is committed now."""
        connection = self._connection
        connection.execute("BEGIN")
        patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_schema").fetchone())
        found = read_format(self.path, connection)
        if found < FORMAT:
            raise InvalidInput(f"{self.path} is of format {found}, not {FORMAT}; open it with dt.Model.open once")
        meta = read_meta(connection)
        self.config = meta["config"]
        self.classes = meta.get("classes")
        self.is_compacted = "compacted" in meta

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        return self._reading(lambda: self._connection.execute(sql, values).fetchall())

    @property
    def last_seq(self) -> int:
        """The number of the last fact; 0 if there is none."""
        return int(self.rows(queries.LAST_SEQ)[0][0])

    def facts(self, after: int = 0) -> Iterator[Fact]:
        """Iterate over the facts after a number, in order."""
        return queries.facts_after(self.rows, after)

    def count_by_kind(self) -> dict[int, int]:
        """Return how many facts there are of each kind."""
        return dict(self.rows("SELECT kind, count(*) FROM facts GROUP BY kind ORDER BY kind"))

    def status(self, id: str | None) -> Status | None:
        """Return what is known of an id; None if it was never issued."""
        rows = self.rows(queries.STATUS, (id,))
        return queries.as_status(rows[0]) if rows else None

    def purged(self) -> int:
        """Return of how many decisions nothing is left but what became of them."""
        return int(self.rows("SELECT count(*) FROM ids WHERE purged")[0][0])

    def waiting_in_inbox(self) -> set[str]:
        """Return the decisions that another process answered, and whose owner has not taken the answer in yet."""
        return {issued for (issued,) in self.rows("SELECT id FROM inbox")}

    def snapshot_seqs(self) -> list[int]:
        """Return after which facts there is a snapshot, in order."""
        return [seq for (seq,) in self.rows("SELECT seq FROM snapshots ORDER BY seq")]

    def snapshot(self, seq: int) -> Snapshot:
        """Return the snapshot after a fact."""
        return Snapshot(*self.rows("SELECT seq, body FROM snapshots WHERE seq = ?", (seq,))[0])

    def damage(self) -> str | None:
        """Return what SQLite finds wrong with its file, if anything."""
        try:
            found = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as problem:
            found = str(problem)
        return None if found == "ok" else " ".join(found.split())

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reading(self, action: Callable[[], T]) -> T:
        try:
            return patiently(action)
        except sqlite3.Error as problem:
            raise JournalError(f"{self.path} could not be read: {with_step(problem)}") from problem


def _connect(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0, isolation_level=None)
    except sqlite3.Error as problem:
        raise opening_error(path, problem) from problem
