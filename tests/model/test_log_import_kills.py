"""kill -9 in the midst of an import: begun again, it ends with the same facts as if nothing had happened."""

import os
import signal
import sqlite3
import subprocess
import sys
from random import Random
from time import monotonic, sleep

import pytest

from delaytron.model.verify import verify_journal
from dsjson_lines import event, outcome, write

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs SIGKILL"),
    pytest.mark.xdist_group("bandit_logit"),
]
EVENTS = 5000


def command(log, journal):
    options = ["--journal", journal, "--bits", "10", "--seed", "7", "--json"]
    return [sys.executable, "-m", "delaytron", "import", *map(str, [log, *options])]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def facts_of(journal):
    """Return all facts but for their times."""
    connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT seq, kind, id, body FROM facts ORDER BY seq").fetchall()
    except sqlite3.OperationalError:  # it is being made
        return []
    finally:
        connection.close()


def count_facts(journal):
    try:
        connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return 0
    try:
        return connection.execute("SELECT count(*) FROM facts").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def kill_after(log, journal, count):
    """Import until there are so many facts, then kill; return whether it was killed before its end."""
    process = subprocess.Popen(command(log, journal), env=environment(), stdout=subprocess.DEVNULL)
    until = monotonic() + 300
    try:
        while process.poll() is None and count_facts(journal) < count:
            assert monotonic() < until, "the import does not go on"
            sleep(0.001)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return process.returncode == -signal.SIGKILL


def lines(random):
    """Return events with answers beside them, much later, before them, and never."""
    made = []
    for i in range(EVENTS):
        kind = random.random()
        reward = round(random.random(), 3)
        made.append(event(f"e{i}", i % 3, 0.5, reward if kind < 0.4 else None, context={"hour": i % 24}))
        if kind > 0.6:
            made.insert(random.randrange(len(made)), outcome(f"e{i - random.randrange(1000)}", reward))
    return made


def test_a_killed_import_goes_on_where_it_was(tmp_path):
    random = Random(5)
    log = write(tmp_path / "log.dsjson", lines(random))
    subprocess.run(command(log, tmp_path / "whole.db"), env=environment(), check=True, stdout=subprocess.DEVNULL)
    expected = facts_of(tmp_path / "whole.db")
    journal = tmp_path / "killed.db"
    points = sorted(random.randrange(len(expected) * 3 // 4) for _ in range(3))
    kills = sum(kill_after(log, journal, point) for point in [1, *points])
    assert kills >= 3
    before = facts_of(journal)
    assert before == expected[: len(before)]
    assert len(before) < len(expected)
    last = subprocess.run(command(log, journal), env=environment(), check=True, capture_output=True, text=True)
    assert facts_of(journal) == expected
    assert '"duplicate"' not in last.stdout
    assert verify_journal(journal).mismatch is None
