"""`JournalView`: a read-only view of a journal at one moment, while its owner continues to write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from delaytron.answers import Known
from delaytron.errors import JournalError
from delaytron.journal.database import find_file, open_existing, read_meta
from delaytron.journal.sqlite import ALL_IDS, LAST_SEQ, as_known, read_facts, read_known
from delaytron.journal.store import Fact, Snapshot


class JournalView:
    """What was committed to a journal when the view was opened.

    Attributes
    ----------
    path : Path
    config : bytes
    classes : bytes or None
        The present classes, as a JSON list, if they are not those of the configuration.
    is_compacted : bool
        Whether facts were deleted by a compaction.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from delaytron.journal.sqlite import SqliteStore
    >>> with TemporaryDirectory() as folder, SqliteStore(Path(folder, "a.db"), config=b"{}") as store:
    ...     with JournalView(Path(folder, "a.db")) as view:
    ...         store.begin()
    ...         seq = store.append(0, None, b"", store.now())
    ...         store.commit()
    ...         view.last_seq, store.last_seq
    (0, 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = find_file(path)
        self._database = open_existing(self.path, "ro")
        try:
            self._database.begin_reading()
            meta = read_meta(self._database)
        except BaseException:
            self._database.close()
            raise
        self.config: bytes = meta["config"]
        self.classes: bytes | None = meta.get("classes")
        self.is_compacted = "compacted" in meta

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute a query; return all rows."""
        return self._database.rows(sql, values)

    @property
    def last_seq(self) -> int:
        """The number of the last fact; 0 if there is none."""
        return int(self.rows(LAST_SEQ)[0][0])

    def facts(self, after: int = 0) -> Iterator[Fact]:
        """Iterate over the facts with a number above `after`, in order; raise JournalError at a damaged one."""
        return read_facts(self.path, self._database.rows, after)

    def count_by_kind(self) -> dict[int, int]:
        """Return the number of facts of each kind."""
        return dict(self.rows("SELECT kind, count(*) FROM facts GROUP BY kind ORDER BY kind"))

    def known(self, id: str | None) -> Known | None:
        """Return what is known of an id; None if it was never issued."""
        return read_known(self._database, id)

    def all_ids(self) -> Iterator[tuple[str, Known]]:
        """Iterate over all ids ever issued."""
        return ((row[-1], as_known(self.path, row[:-1])) for row in self.rows(ALL_IDS))

    def purged(self) -> int:
        """Return the number of decisions whose facts were deleted."""
        return int(self.rows("SELECT count(*) FROM ids WHERE purged")[0][0])

    def waiting_in_inbox(self) -> set[str]:
        """Return the ids that other processes answered, and whose answers the owner has not taken yet."""
        return {name for (name,) in self.rows("SELECT id FROM inbox")}

    def snapshot_seqs(self) -> list[int]:
        """Return the numbers of the facts after which there is a snapshot, in order."""
        return [seq for (seq,) in self.rows("SELECT seq FROM snapshots ORDER BY seq")]

    def snapshot(self, seq: int) -> Snapshot:
        """Return the snapshot after a fact."""
        return Snapshot(*self.rows("SELECT seq, body FROM snapshots WHERE seq = ?", (seq,))[0])

    def damage(self) -> str | None:
        """Return what SQLite finds wrong with its file; None if there is nothing."""
        try:
            found = str(self.rows("PRAGMA quick_check(1)")[0][0])
        except JournalError as problem:
            found = str(problem.__cause__ or problem)
        return None if found == "ok" else " ".join(found.split())

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
