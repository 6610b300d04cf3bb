"""Requests that may come again, as one does whose answer got lost: what was answered to them, for a day."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from delaytron.journal.clock import Moment

KEPT = 24 * 3600 * 10**9  # ns
FIND = "SELECT fingerprint, reply FROM requests WHERE key = ?"


class Request(NamedTuple):
    """A request that may come again, by which it is told from others under the same key, and the reply to it."""

    fingerprint: bytes
    reply: bytes


class Requests:
    """Those of a store, by the keys that their senders gave."""

    def __init__(
        self,
        rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]],
        change: Callable[[str, Sequence[Any]], object],
    ) -> None:
        self._rows = rows
        self._change = change

    def find(self, key: str) -> Request | None:
        """Return the request that had this key; None if there was none."""
        rows = self._rows(FIND, (key,))
        return Request(*rows[0]) if rows else None

    def keep(self, key: str, request: Request, now: Moment) -> None:
        """Keep a request under a new key. Within a batch."""
        self._change("INSERT INTO requests VALUES (?, ?, ?, ?)", (key, *request, now.clock))

    def drop_old(self, now: Moment) -> None:
        """Forget those of yesterday. Within a batch."""
        self._change("DELETE FROM requests WHERE clock < ?", (now.clock - KEPT,))
