"""Retention: the facts of decisions that are settled and old may go; what became of them stays."""

from pathlib import Path
from typing import Any, NamedTuple

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.journal.tables import find_file
from delaytron.journal.view import JournalView
from delaytron.model.opening import reopen_keeper
from delaytron.model.waiting import read_wait


class Compaction(NamedTuple):
    """How many facts and bytes a journal had, and how many it has."""

    facts_before: int
    facts_after: int
    bytes_before: int
    bytes_after: int


def compact_journal(path: str | Path, older_than: str) -> Compaction:
    """Drop the facts of decisions that are settled, and were settled longer ago than a time such as "30d".

    A snapshot of the state is kept, and every id with what became of it: a late answer is "expired" or "duplicate",
    never unknown. Nobody else may own the journal meanwhile.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         said = model.feedback(model.decide([1.0, 0.5], id="req-1").id, correct=True)
    ...     compact_journal(f"{folder}/a.db", "0.000001s")[:2]
    ...     with dt.Model.open(f"{folder}/a.db") as model:
    ...         model.feedback("req-1", correct=True)
    (3, 1)
    'duplicate'
    """
    age = read_age(older_than)
    target = find_file(path)
    bytes_before = _size(target)
    dropped = _drop(target, age)
    with JournalView(target) as view:
        left = sum(view.count_by_kind().values())
    return Compaction(left + dropped, left, bytes_before, _size(target))


def read_age(text: str) -> int:
    """Return how old something must be, in ns.

    Examples
    --------
    >>> read_age("30d") == 30 * 24 * 3600 * 10**9
    True
    """
    try:
        wait = read_wait(str(text))
    except InvalidInput:
        wait = None
    if wait is None or wait.clock is None:
        raise InvalidInput(f"--older-than must be a time above 0 such as '12h', '30d' or '8w'; got {shown(text)}")
    return wait.clock


def _drop(target: Path, age: int) -> int:
    """Keep the state in a snapshot, then drop what it makes dispensable; return how many facts."""
    if not target.exists():
        raise InvalidInput(f"there is no journal {target}; give the path of one that dt.Model has made")
    keeper = reopen_keeper(target, "full")
    try:
        keeper.run(lambda _: keeper.put_snapshot())
        store: Any = keeper.store  # that of a journal
        return int(store.compact(store.last_seq + 1, store.now().clock - age))
    finally:
        keeper.close()


def _size(target: Path) -> int:
    """Return the bytes of a journal, with those that are not in its main file yet."""
    files = (target, target.with_name(target.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
