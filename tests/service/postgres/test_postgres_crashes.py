"""Three front ends while learners are killed, and while PostgreSQL is restarted: nothing twice, nothing lost."""

import os
import signal
import sys
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
from postgres_play import PATIENCE, ask, check_state, run, until_learned
from postgres_workload import MODEL, acknowledged_in, check_account

from delaytron.service.postgres.schema import LEARNING, LOCKS
from forking import Forker

HERE = Path(__file__).parent
HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL"),
    pytest.mark.xdist_group("bandit_logit"),
]


class Processes(Forker):
    """Front ends and learners."""

    def __init__(self, dsn, folder):
        self.folder = folder
        self.fronts = set()
        self.learners = set()
        with (folder / "log").open("wb") as log:
            super().__init__(HERE / "postgres_workload.py", dsn, folder, log=log)

    def start(self, line):
        number = super().start(line)
        (self.learners if line == "learn" else self.fronts).add(number)
        return number

    def kill(self, number):
        self.learners.discard(number)
        self.fronts.discard(number)
        super().kill(number)

    def replies(self, number):
        path = self.folder / f"acks {number}"
        return path.read_text().splitlines() if path.exists() else []

    def learner(self):
        """Wait until a process learns; return it, and how long that took."""
        started = monotonic()
        while monotonic() < started + PATIENCE:
            for number in self.learners:
                lines = self.replies(number)
                if lines and lines[-1].startswith("learning"):
                    return number, monotonic() - started
            sleep(0.01)
        raise AssertionError("no process learns")

    def wait_for_decisions(self, count):
        """Wait until all front ends have made some more decisions."""
        wanted = {number: self.decided(number) + count for number in self.fronts}
        until = monotonic() + PATIENCE
        while any(self.decided(number) < least for number, least in wanted.items()):
            assert monotonic() < until, "a front end does not decide any more"
            sleep(0.02)

    def decided(self, number):
        return sum(line.startswith("decided") for line in self.replies(number))


@pytest.fixture
def begin(tmp_path):
    """Return a function that starts three front ends and two learners."""
    started = []

    def begin(dsn):
        run(lambda backend: backend.create(MODEL), dsn)
        processes = Processes(dsn, tmp_path)
        started.append(processes)
        for number in range(3):
            processes.start(f"front {number}")
        for _ in range(2):
            processes.start("learn")
        processes.wait_for_decisions(5)
        return processes

    yield begin
    for processes in started:
        processes.close()


def finish(processes, dsn):
    """Kill all; let what waits be learned; check all acknowledged replies."""
    for number in list(processes.living):
        processes.kill(number)
    run(lambda _: until_learned(dsn), dsn)
    found = check_state(dsn)
    assert found.waiting == 0
    acknowledged = acknowledged_in(processes.folder)
    check_account(dsn, acknowledged)
    return [what for what, *_ in acknowledged]


@pytest.mark.parametrize("kills", [10, pytest.param(300, marks=pytest.mark.torture)])
def test_nothing_is_lost_if_learners_are_killed(dsn, begin, kills):
    random = Random(kills)
    processes = begin(dsn)
    longest = 0.0
    for number in range(kills):
        learner, _ = processes.learner()
        sleep(random.uniform(0, 0.4))
        processes.kill(learner)
        processes.start("learn")
        _, seconds = processes.learner()
        longest = max(longest, seconds)
        assert len(ask(dsn, HOLDERS, (LOCKS, LEARNING))) == 1
        if number % 5 == 4:
            processes.kill(min(processes.fronts))
            processes.start(f"front {number}x")
        if number % (kills // 10) == 0:
            check_state(dsn)
    processes.wait_for_decisions(1)
    said = finish(processes, dsn)
    assert longest < 10
    assert said.count("decided") > 5 * kills
    assert said.count("accepted") > 2 * kills
    assert {"duplicate", "conflict", "given up"} <= set(said)


@pytest.mark.parametrize("restarts", [2, pytest.param(40, marks=pytest.mark.torture)])
def test_nothing_is_lost_if_postgresql_is_restarted(own_server, begin, restarts):
    random = Random(restarts)
    dsn = own_server.new_database()
    processes = begin(dsn)
    for number in range(restarts):
        sleep(random.uniform(0, 0.5))
        own_server.stop(("immediate", "fast")[number % 2])
        sleep(random.uniform(0, 0.3))
        own_server.start()
        started = monotonic()
        processes.learner()
        processes.wait_for_decisions(5)
        assert monotonic() - started < 30
        assert len(ask(dsn, HOLDERS, (LOCKS, LEARNING))) == 1
        check_state(dsn)
    said = finish(processes, dsn)
    assert said.count("decided") > 15 * restarts
    assert said.count("lost") >= restarts


def test_a_learner_that_is_stopped_and_goes_on_contradicts_no_reply(dsn, begin):
    """SIGSTOP, and its connection cut meanwhile, as a server does that hears nothing of it for long."""
    processes = begin(dsn)
    learner, _ = processes.learner()
    os.kill(learner, signal.SIGSTOP)
    try:
        ask(dsn, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE classid = %s AND objid = %s", (LOCKS, LEARNING))
        processes.learners.remove(learner)
        assert processes.learner()[1] < 10
        processes.wait_for_decisions(5)
    finally:
        os.kill(learner, signal.SIGCONT)
    until = monotonic() + PATIENCE
    while not processes.replies(learner)[-1].startswith("lost"):
        assert monotonic() < until, "it has not noticed"
        sleep(0.01)
    processes.wait_for_decisions(5)
    finish(processes, dsn)
