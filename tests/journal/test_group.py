"""Group commit: who shares a transaction, who is told what, and that nobody is forgotten."""

from contextlib import suppress
from threading import Event, Lock, Thread, get_ident
from time import monotonic, sleep

import pytest

from delaytron.errors import JournalError
from delaytron.journal.group import GroupCommit


class Recorder:
    """A database that writes down what is asked of it, and notices two threads at once."""

    def __init__(self):
        self.rows, self.uncommitted, self.commits = [], [], []
        self.active = False
        self.fail_commit = None
        self.in_commit, self.go_on = Event(), Event()
        self.go_on.set()
        self.used = Lock()

    def begin(self, *, wait=True):
        with self.alone():
            assert not self.active
            self.active = True

    def alone(self):
        assert self.used.acquire(blocking=False), "two threads at once"
        self.used.release()
        return self.used

    def write(self, row):
        with self.alone():
            assert self.active
            self.uncommitted.append(row)

    def commit(self):
        with self.alone():
            assert self.active
            self.in_commit.set()
            assert self.go_on.wait(30)
            if self.fail_commit is not None:
                raise self.fail_commit
            self.rows += self.uncommitted
            self.commits.append(len(self.uncommitted))
            self.uncommitted, self.active = [], False

    def rollback(self):
        with self.alone():
            self.uncommitted, self.active = [], False

    @property
    def has_committed(self):
        return not self.active


@pytest.fixture
def database():
    return Recorder()


@pytest.fixture
def group(database):
    return GroupCommit(database, "a.db")


def write(group, row):
    with group.batch():
        group.current(change=True).facts += 1
        group._database.write(row)


def hold_first_commit(group, database):
    """Start a thread whose commit waits until `database.go_on` is set."""

    def write_first():
        with suppress(JournalError):
            write(group, "first")

    database.go_on.clear()
    thread = Thread(target=write_first)
    thread.start()
    assert database.in_commit.wait(30)
    return thread


def wait_for_queue(group, length):
    until = monotonic() + 30
    while len(group._queue) < length:
        assert monotonic() < until
        sleep(0.001)


def test_those_who_wait_share_the_next_commit(group, database):
    thread = hold_first_commit(group, database)
    others = [Thread(target=write, args=(group, i)) for i in range(8)]
    for other in others:
        other.start()
    wait_for_queue(group, 8)
    database.go_on.set()
    for other in [thread, *others]:
        other.join(30)
        assert not other.is_alive()
    assert database.commits == [1, 8]
    assert set(database.rows) == {"first", *range(8)}


def test_nobody_returns_before_the_commit(group, database):
    thread = hold_first_commit(group, database)
    thread.join(0.05)
    assert thread.is_alive()
    assert database.rows == []
    database.go_on.set()
    thread.join(30)
    assert database.rows == ["first"]


def queue_up(group, database, *actions):
    """Let actions wait, in this order, behind a commit; then let them go and return what became of each."""
    first = hold_first_commit(group, database)
    results = [None] * len(actions)

    def run(place, action):
        try:
            results[place] = action()
        except BaseException as problem:
            results[place] = problem

    threads = []
    for place, action in enumerate(actions):
        threads.append(Thread(target=run, args=(place, action)))
        threads[-1].start()
        wait_for_queue(group, place + 1)
    database.go_on.set()
    for thread in [first, *threads]:
        thread.join(30)
        assert not thread.is_alive()
    return results


def failing(group, problem, *, changes):
    def action():
        with group.batch():
            if changes:
                group.current(change=True)
                group._database.write("half")
            raise problem

    return action


def test_a_failed_member_spoils_the_batch_of_those_before_it_and_not_after(group, database):
    mine = ZeroDivisionError("mine")
    before, failed, after = queue_up(
        group, database, lambda: write(group, 1), failing(group, mine, changes=True), lambda: write(group, 2)
    )
    assert failed is mine
    assert isinstance(before, JournalError)
    assert before.__cause__ is mine
    assert "nothing of it was acknowledged: mine" in str(before)
    assert after is None
    assert database.rows == ["first", 2]
    assert group.generation == 1


@pytest.mark.parametrize("place", [0, 1, 2])
def test_who_fails_before_a_change_spoils_nothing(group, database, place):
    mine = ZeroDivisionError("mine")
    actions = [lambda: write(group, 1), lambda: write(group, 2)]
    actions.insert(place, failing(group, mine, changes=False))
    results = queue_up(group, database, *actions)
    assert results.pop(place) is mine
    assert results == [None, None]
    assert database.rows == ["first", 1, 2]
    assert group.generation == 0


def test_a_failed_commit_is_told_to_all(group, database):
    database.fail_commit = JournalError("disk full")
    results = queue_up(group, database, lambda: write(group, 1), lambda: write(group, 2))
    assert all(isinstance(result, JournalError) and "disk full" in str(result) for result in results)
    assert database.rows == []
    assert group.generation == 2
    database.fail_commit = None
    write(group, 3)
    assert database.rows == [3]


def test_an_interruption_after_the_commit_does_not_undo_it(group, database):
    plain = database.commit

    def commit():
        plain()
        raise KeyboardInterrupt

    database.commit = commit
    with pytest.raises(KeyboardInterrupt):
        write(group, 1)
    assert database.rows == [1]
    assert group.generation == 0
    database.commit = plain
    write(group, 2)
    assert database.rows == [1, 2]


def test_an_interruption_before_the_commit_rolls_back(group, database):
    plain, database.commit = database.commit, lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        write(group, 1)
    assert database.rows == []
    assert group.generation == 1
    database.commit = plain
    write(group, 2)
    assert database.rows == [2]


def test_a_batch_that_cannot_begin_lets_the_next_one_try(group, database):
    plain = database.begin
    tries = []

    def begin(*, wait):
        tries.append(get_ident())
        if len(tries) == 1:
            raise JournalError("busy")
        plain()

    database.begin = begin
    with pytest.raises(JournalError, match="busy"):
        write(group, 1)
    write(group, 2)
    assert database.rows == [2]


@pytest.mark.parametrize(("limit", "commits"), [({"facts": 3}, [1, 3, 3, 1]), ({"seconds": 0}, [1] * 8)])
def test_a_full_batch_is_committed_though_others_wait(database, limit, commits):
    group = GroupCommit(database, "a.db", **limit)
    queue_up(group, database, *[lambda i=i: write(group, i) for i in range(7)])
    assert database.commits == commits


def test_those_who_wait_when_it_closes_are_told(group, database):
    first, *others = queue_up(group, database, lambda: group.close("closed"), *[lambda: write(group, 1)] * 3)
    assert first is None
    assert [str(other) for other in others] == ["closed"] * 3
    assert database.rows == ["first"]
