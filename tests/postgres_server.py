"""A PostgreSQL server for tests: Debian's package, in a temporary folder, on a Unix socket."""

import os
import shutil
import signal
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from shutil import which
from time import monotonic, sleep

import psycopg

from optional import do_without

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
SECONDS = 60
SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}


def find_programs():
    if PROGRAMS:
        return PROGRAMS[-1]
    if which("initdb") is None:
        do_without("no PostgreSQL is found: install the system's package `postgresql`")
    return Path(which("initdb")).parent


class PostgresServer:
    """A server that can be stopped, killed and frozen; as root it runs as the user postgres."""

    def __init__(self):
        self._programs = find_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="dt-pg-", dir="/tmp"))  # sockets need a short path
        self._user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(self.folder, "postgres", "postgres")
        self._data = self.folder / "data"
        self._process = None
        self._numbers = count()
        options = ["-D", self._data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [self._programs / "initdb", *options], check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self._user
        )

    def start(self):
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "shared_buffers": "64MB"}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        until = monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert monotonic() < until, "PostgreSQL did not start"
            sleep(0.02)

    def _answers(self):
        try:
            psycopg.connect(self.dsn("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how="fast"):
        """Stop it: "fast" and "immediate" are the modes of PostgreSQL, "kill" kills its first process."""
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[how])
        self._process.wait(SECONDS)
        self._process = None

    def freeze(self, how):
        """Send a signal to all processes of the server."""
        first = self._process.pid
        listed = Path(f"/proc/{first}/task/{first}/children").read_text()
        for number in (first, *map(int, listed.split())):
            os.kill(number, how)

    def close(self):
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def dsn(self, database):
        return f"host={self.folder} dbname={database} user=tester"

    def new_database(self):
        """Create a database and return its DSN."""
        name = f"shop{next(self._numbers)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)
