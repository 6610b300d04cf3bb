"""Retention: the facts of decisions that are long settled may go; what became of the decisions stays."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from delaytron.journal.queries import PUT_META
from delaytron.journal.records import OPEN

Execute = Callable[[str, Sequence[Any]], sqlite3.Cursor]

SETTLED = """
CREATE TEMP TABLE settled AS
SELECT facts.id FROM facts JOIN ids ON facts.id = ids.id
WHERE ids.status != ? AND facts.id NOT IN (SELECT id FROM inbox)
GROUP BY facts.id
HAVING max(facts.seq) < ? AND max(facts.seq) <= (SELECT max(seq) FROM snapshots) AND max(facts.clock) < ?
"""

HANDED_OUT = """
DELETE FROM facts WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM ids)
AND seq < ? AND seq <= (SELECT max(seq) FROM snapshots) AND clock < ?
"""


def delete_settled(execute: Execute, before_seq: int, older_than: int) -> int:
    """Delete the facts of decisions all of whose facts are old and in the newest snapshot; mark their ids as purged.

    Facts about decisions that have no row among the ids, since they were handed out, go as soon as they are old.
    """
    execute("DROP TABLE IF EXISTS temp.settled", ())
    execute(SETTLED, (OPEN, before_seq, older_than))
    deleted = execute("DELETE FROM facts WHERE id IN (SELECT id FROM temp.settled)", ()).rowcount
    execute("UPDATE ids SET purged = 1, seq = NULL WHERE id IN (SELECT id FROM temp.settled)", ())
    execute("DROP TABLE temp.settled", ())
    deleted += execute(HANDED_OUT, (before_seq, older_than)).rowcount
    if deleted:
        execute(PUT_META, ("compacted", b"1"))
    _give_pages_back(execute)
    return deleted


def _give_pages_back(execute: Execute) -> None:
    """Make the file smaller; Python's sqlite3 does one step of this pragma only, which frees one page."""
    ((free,),) = execute("PRAGMA freelist_count", ()).fetchall()
    for _ in range(free):
        execute("PRAGMA incremental_vacuum(1)", ())
