"""Opening the file of a store: its configuration compared, and its clock going on."""

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from delaytron.journal.clock import Clock
from delaytron.journal.configuration import raise_if_different
from delaytron.journal.database import closed_after_error, patiently
from delaytron.journal.queries import LAST_MOMENT
from delaytron.journal.tables import naming_damage, open_tables, put_meta, read_meta


class Opened(NamedTuple):
    """A connection, the configuration that the file was made with, and the clock of its facts."""

    connection: sqlite3.Connection
    config: bytes
    clock: Clock


def open_file(path: Path, config: bytes | None) -> Opened:
    """Open a file, or make it with a configuration; raise if it was made with another one."""
    connection = open_tables(path, config)
    with closed_after_error(path, connection), naming_damage(path):
        meta = read_meta(connection)
        if config is not None:
            raise_if_different(path, meta["config"], config)
        return Opened(connection, meta["config"], _go_on(connection, meta.get("clock")))


def clock_state(clock: Clock) -> bytes:
    """Return what is stored of a clock."""
    return json.dumps(clock.state()).encode()


def _go_on(connection: sqlite3.Connection, stored: bytes | None) -> Clock:
    """Return the clock that goes on from the last fact, and store what it counts from."""
    previous = None if stored is None else json.loads(stored)
    last = patiently(lambda: connection.execute(LAST_MOMENT).fetchone())
    if previous is not None and last is not None and last[1] > previous["clock"]:
        previous["wall"], previous["clock"] = last
    clock = Clock(previous)
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    put_meta(connection, "clock", clock_state(clock))
    connection.execute("COMMIT")
    return clock
