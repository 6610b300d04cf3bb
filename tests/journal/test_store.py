"""Stores: the one in memory and the one in an SQLite file behave as a few plain dictionaries do."""

import copy
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Event
from time import sleep

import pytest
from fixtures.make_journal import EXPECTED, read_all
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stored import (
    ANSWER,
    CONFIG,
    DECISION,
    NOW,
    change_file,
    decide,
    describe,
    in_threads,
    open_store,
    refused,
    settle,
    take,
    transaction,
)

import delaytron as dt
from delaytron.answers import Known, Status
from delaytron.errors import JournalError
from delaytron.journal import database, sqlite
from delaytron.journal.database import has_journal
from delaytron.journal.outside import Journal
from delaytron.journal.sqlite import SqliteStore
from delaytron.journal.store import REPLIES_KEPT, Fact, MemoryStore, Snapshot, StoredReply
from delaytron.journal.view import JournalView
from delaytron.records import Moment

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
MEMORY = Path("/dev/shm")  # noqa: S108
posix = pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")

# The same operations on both stores and on plain dictionaries


class Tables:
    """The reference: a store as plain dictionaries."""

    def __init__(self):
        self.facts = {}
        self.ids = {}
        self.snapshots = {}
        self.meta = {}
        self.replies = {}
        self.seq = 0

    def purge(self, before_seq, older_than):
        newest = max(self.snapshots, default=0)
        deleted = 0
        for name, row in self.ids.items():
            facts = [fact for fact in self.facts.values() if fact.id == name]
            old = all(f.seq < before_seq and f.seq <= newest and f.now.clock < older_than for f in facts)
            if facts and old and row.status != Status.OPEN and not row.correctable:
                self.ids[name] = row._replace(purged=True, seq=None, digest=None)
                for fact in facts:
                    del self.facts[fact.seq]
                deleted += len(facts)
        return deleted


NAMES = st.sampled_from(["a", "b", "c", "ä" * 50, "d'; --"])
BODIES = st.binary(max_size=30)
STATUSES = st.sampled_from(list(Status))


class Stores(RuleBasedStateMachine):
    """One store in memory, one in a file, and the plain tables, through transactions, savepoints and reopenings."""

    @initialize()
    def open(self):
        self.folder = mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)  # a store that syncs to no disk
        self.path = Path(self.folder, "a.db")
        self.stores = [MemoryStore(keeps_facts=True, config=CONFIG), SqliteStore(self.path, config=CONFIG)]
        self.tables = Tables()
        self.committed = Tables()
        self.saved = None
        self.inside = False
        self.clock = 0

    def teardown(self):
        for store in getattr(self, "stores", ()):
            store.close()
        if hasattr(self, "folder"):
            rmtree(self.folder)

    def both(self, call):
        """Call both stores; return what both returned."""
        one, other = [call(store) for store in self.stores]
        assert one == other
        return one

    inside_only = precondition(lambda self: self.inside)
    outside_only = precondition(lambda self: not self.inside)

    @outside_only
    @rule()
    def begin(self):
        self.both(lambda store: store.begin())
        self.inside, self.saved = True, None

    @inside_only
    @rule()
    def commit(self):
        self.both(lambda store: store.commit())
        self.committed = copy.deepcopy(self.tables)
        self.inside = False

    @inside_only
    @rule(again=st.booleans())
    def roll_back(self, again):
        self.both(lambda store: store.begin() if again else store.rollback())  # an open one is rolled back first
        self.tables = copy.deepcopy(self.committed)
        self.inside, self.saved = again, None

    @inside_only
    @rule(pause=st.booleans())
    def savepoint(self, pause):
        if pause:
            self.both(lambda store: store.pause())
        self.both(lambda store: store.savepoint())
        self.saved = copy.deepcopy(self.tables)

    @precondition(lambda self: self.inside and self.saved is not None)
    @rule()
    def roll_back_to_savepoint(self):
        self.both(lambda store: store.rollback_to_savepoint())
        self.tables = copy.deepcopy(self.saved)

    @inside_only
    @rule(kind=st.integers(0, 9), id=st.none() | NAMES, body=BODIES)
    def append(self, kind, id, body):
        self.clock += 10
        now = Moment(-self.clock, self.clock)
        seq = self.both(lambda store: store.append(kind, id, body, now))
        self.tables.seq += 1
        assert seq == self.tables.seq
        self.tables.facts[seq] = Fact(seq, kind, id, now, body)

    @inside_only
    @rule(id=NAMES, label=st.none() | st.integers(0, 5), digest=st.none() | st.binary(min_size=16, max_size=16))
    def issue(self, id, label, digest):
        if id in self.tables.ids:
            return
        seq = self.tables.seq or None
        self.both(lambda store: store.issue(id, label, digest, seq))
        self.tables.ids[id] = Known(Status.OPEN, None, label, False, False, seq, digest)

    @inside_only
    @rule(
        id=NAMES,
        status=STATUSES,
        value=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        correctable=st.booleans(),
        expected=st.lists(STATUSES, min_size=1, max_size=2),
    )
    def settle(self, id, status, value, correctable, expected):
        row = self.tables.ids.get(id)
        changes = (
            row is not None
            and row.value is None
            and row.status in expected
            and (row.status != Status.EXPIRED or status == Status.EXPIRED or row.correctable)
        )
        found = self.both(lambda store: store.set_status(id, status, value, correctable=correctable, expected=expected))
        assert found == changes
        if changes:
            self.tables.ids[id] = row._replace(status=status, value=value, correctable=correctable)

    @inside_only
    @rule(body=BODIES)
    def put_snapshot(self, body):
        seq = self.tables.seq
        self.both(lambda store: store.put_snapshot(seq, body))
        self.tables.snapshots[seq] = Snapshot(seq, body)
        for old in sorted(self.tables.snapshots)[:-2]:
            del self.tables.snapshots[old]

    @inside_only
    @rule(name=st.sampled_from(["classes", "x"]), body=BODIES)
    def set_meta(self, name, body):
        self.both(lambda store: store.set_meta(name, body))
        self.tables.meta[name] = body

    @inside_only
    @rule(key=NAMES, fingerprint=BODIES, reply=BODIES)
    def keep_reply(self, key, fingerprint, reply):
        if key not in self.tables.replies:
            now = Moment(0, self.clock)
            self.both(lambda store: store.keep_reply(key, fingerprint, reply, now))
            self.tables.replies[key] = StoredReply(fingerprint, reply), self.clock

    @inside_only
    @rule(age=st.integers(0, 100))
    def drop_old_replies(self, age):
        self.both(lambda store: store.drop_old_replies(Moment(0, REPLIES_KEPT + age)))
        self.tables.replies = {key: kept for key, kept in self.tables.replies.items() if kept[1] >= age}

    @inside_only
    @rule(before=st.integers(0, 30), older_than=st.integers(0, 300))
    def purge(self, before, older_than):
        deleted = self.both(lambda store: store.purge(before, older_than))
        assert deleted == self.tables.purge(before, older_than)

    @outside_only
    @rule()
    def reopen(self):
        self.stores[1].close()
        self.stores[1] = SqliteStore(self.path)
        assert self.stores[1].config == CONFIG

    @rule(id=NAMES, seq=st.integers(0, 20), key=NAMES)
    def look(self, id, seq, key):
        assert self.both(lambda store: store.known(id)) == self.tables.ids.get(id)
        assert self.both(lambda store: store.fact(seq)) == self.tables.facts.get(seq)
        assert self.both(lambda store: store.stored_reply(key)) == self.tables.replies.get(key, (None,))[0]
        assert self.both(lambda store: store.meta("x")) == self.tables.meta.get("x")
        assert self.both(lambda store: store.take_inbox() if self.inside else []) == []
        assert [fact.seq for fact in self.both(lambda store: list(store.facts(seq)))] == [
            number for number in self.tables.facts if number > seq
        ]

    @rule()
    def another_thread_reads_what_is_committed(self):
        (found,) = in_threads(lambda: describe(self.stores[1]))
        assert found == expected(self.committed)

    @invariant()
    def all_agree(self):
        if hasattr(self, "stores"):
            assert self.both(describe) == expected(self.tables)
            assert self.stores[1].in_transaction == self.inside


def expected(tables):
    return {
        "facts": list(tables.facts.values()),
        "ids": tables.ids,
        "snapshot": tables.snapshots[max(tables.snapshots)] if tables.snapshots else None,
        "last_seq": tables.seq,
    }


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=25, stateful_step_count=40, suppress_health_check=list(HealthCheck))


# Transactions


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        yield store


def test_facts_come_back_as_they_were_written(tmp_path):
    moment = Moment(-(2**62), 2**62)
    with open_store(tmp_path / "a.db") as store, transaction(store):
        store.append(2**40, "\U0001f600 'x'", bytes(range(256)) * 100, moment)
        store.append(0, None, b"", NOW)
    with open_store(tmp_path / "a.db", None) as store:
        assert list(store.facts()) == [
            Fact(1, 2**40, "\U0001f600 'x'", moment, bytes(range(256)) * 100),
            Fact(2, 0, None, NOW, b""),
        ]
        assert store.fact(2) == next(iter(store.facts(1)))
        assert store.fact(3) is None


def test_pages_of_facts_are_joined(store, monkeypatch):
    monkeypatch.setattr(sqlite, "PAGE", 3)
    with transaction(store):
        for number in range(10):
            store.append(1, None, bytes([number]), NOW)
        assert [fact.body[0] for fact in store.facts()] == list(range(10))
    assert [fact.body[0] for fact in store.facts()] == list(range(10))
    with JournalView(store.path) as view:
        assert [fact.body[0] for fact in view.facts(after=2)] == list(range(2, 10))


def test_the_newest_two_snapshots_are_kept(store):
    for seq in (3, 7, 9):
        with transaction(store):
            store.put_snapshot(seq, b"%d" % seq)
    assert store.snapshot() == (9, b"9")
    with JournalView(store.path) as view:
        assert view.snapshot_seqs() == [7, 9]


@pytest.mark.parametrize("gathered", [True, False])
def test_an_id_is_issued_once(store, gathered):
    decide(store, "a")
    message = "in the id table already" if gathered else r"ids\.id"
    with pytest.raises(JournalError, match=message), transaction(store):
        list(map(store.issue, ["b", "b" if gathered else "a"]))
    assert store.known("b") is None
    assert decide(store, "b") == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.append(1, None, b"", NOW),
        lambda store: store.issue("b"),
        lambda store: store.set_status("a", Status.CANCELLED),
        lambda store: store.take_inbox(),
        lambda store: store.put_snapshot(1, b""),
        lambda store: store.set_meta("x", b""),
        lambda store: store.keep_reply("k", b"", b"", NOW),
        lambda store: store.purge(1, 1),
    ],
)
def test_changes_need_a_transaction_of_this_thread(store, change):
    decide(store, "a")
    with pytest.raises(JournalError, match="within a transaction only"):
        change(store)
    with transaction(store):
        (outcome,) = in_threads(lambda: change(store))
        assert "within a transaction only" in str(outcome)
    assert store.last_seq == 1


def test_a_failed_statement_fails_the_transaction_even_if_its_error_is_ignored(store):
    def write():
        with transaction(store):
            store.append(1, None, b"", NOW)
            store.keep_reply("k", b"", b"", NOW)
            with pytest.raises(JournalError, match="UNIQUE"):
                store.keep_reply("k", b"", b"", NOW)

    with pytest.raises(JournalError, match="transaction has ended"):
        write()
    assert store.last_seq == 0
    assert decide(store, "a") == 1


def test_a_savepoint_survives_a_refused_statement(store):
    with transaction(store):
        store.append(1, None, b"kept", NOW)
        store.pause()
        store.savepoint()
        store.keep_reply("k", b"", b"", NOW)
        store.issue("a")
        with pytest.raises(JournalError, match="UNIQUE"):
            store.keep_reply("k", b"", b"", NOW)
        store.rollback_to_savepoint()
        store.append(1, None, b"too", NOW)
    assert [fact.body for fact in store.facts()] == [b"kept", b"too"]
    assert store.stored_reply("k") is None


def test_what_cannot_be_stored_fails_the_transaction(store):
    for bad in (
        (1, None, "text", NOW),
        (1, "\ud800", b"", NOW),
        (2**70, None, b"", NOW),
        (1, None, b"", Moment(0, 0.5)),
    ):
        with pytest.raises(JournalError, match="cannot be stored"), transaction(store):
            store.append(*bad)
    assert decide(store, "a") == 1


def test_nothing_is_written_after_sqlite_ended_the_transaction_by_itself(store):
    store.begin()
    store.append(1, None, b"", NOW)
    store.pause()
    store.savepoint()
    store._database._connection.execute("ROLLBACK")  # as SQLite does after some errors of the disk
    assert store.in_transaction
    for action in (lambda: store.set_meta("x", b""), store.rollback_to_savepoint, store.commit):
        with pytest.raises(JournalError, match="transaction has ended"):
            action()
    store.rollback()
    assert not store.in_transaction
    assert decide(store, "a") == 1


def test_a_removed_file_is_not_created_again(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        store._database._failed = True  # so that the next transaction reconnects
        for path in tmp_path.glob("a.db*"):
            path.unlink()
        with pytest.raises(JournalError, match=r"a\.db could not be written: unable to open"):
            store.begin()
        assert not (tmp_path / "a.db").exists()


def test_a_closed_store_says_so(store):
    decide(store, "a")
    store.close()
    store.close()
    for use in (
        store.begin,
        store.snapshot,
        lambda: store.known("a"),
        lambda: list(store.facts()),
        lambda: store.last_seq,
    ):
        with pytest.raises(JournalError, match="is closed; open it again"):
            use()


def test_the_clock_continues_from_the_last_fact(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        now = store.now()
        late = Moment(now.wall, now.clock + 10**15)
        decide(store, "a", now=late)
        assert store.clock_state()["clock"] <= store.now().clock
    with open_store(tmp_path / "a.db") as store:
        assert store.now().clock >= late.clock


def test_commits_are_synced_to_a_write_ahead_log(store):
    pragmas = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync", "auto_vacuum")
    found = {pragma: store._database.rows(f"PRAGMA {pragma}")[0][0] for pragma in pragmas}
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
        "auto_vacuum": 2,  # INCREMENTAL
    }


# Compare-and-set, also between processes

# `Stores` hardly ever reaches an expired id that was released. Its condition in the id table protects from a race:
# another process reads that a decision can be corrected, the owner releases it, and the answer must not count.
SETTLED = {
    "open": (Status.OPEN, None, False),
    "answered": (Status.ANSWERED, 1.0, False),
    "correctable": (Status.EXPIRED, None, True),
    "expired": (Status.EXPIRED, None, False),
    "answered late": (Status.EXPIRED, 1.0, False),
    "cancelled": (Status.CANCELLED, None, False),
}


@pytest.mark.parametrize("settled", SETTLED)
@pytest.mark.parametrize("target", [Status.ANSWERED, Status.EXPIRED, Status.CANCELLED])
def test_a_settled_decision_is_changed_as_far_as_it_can_be_corrected(tmp_path, settled, target):
    status, value, correctable = SETTLED[settled]
    given = 0.0 if target == Status.ANSWERED else None
    for store in (MemoryStore(config=b"{}"), SqliteStore(tmp_path / "a.db", config=b"{}")):
        with store:
            with transaction(store):
                store.issue("a", 0)
                if status != Status.OPEN:
                    assert store.set_status("a", status, value, correctable=correctable)
            before = store.known("a")
            with transaction(store):
                for other in set(Status) - {status}:
                    assert not store.set_status("a", target, given, expected=(other,))
                changes = value is None and (status != Status.EXPIRED or target == Status.EXPIRED or correctable)
                assert store.set_status("a", target, given, expected=(status,)) == changes
            expected = before._replace(status=target, value=given, correctable=False) if changes else before
            assert store.known("a") == expected


def test_one_of_many_simultaneous_answers_is_accepted(store, tmp_path):
    for number in range(20):
        decide(store, str(number))

    def answer():
        with Journal(tmp_path / "a.db") as journal:
            return [journal.feedback(str(number), correct=True) for number in range(20)]

    for replies in zip(*in_threads(*[answer] * 4), strict=True):
        assert sorted(replies) == ["accepted"] + ["duplicate"] * 3
    assert sorted(int(arrival.id) for arrival in take(store)) == list(range(20))
    assert take(store) == []


def test_an_answer_and_an_expiry_exclude_each_other(store, tmp_path):
    decide(store, "a")
    decide(store, "b")
    with Journal(tmp_path / "a.db") as journal:
        assert journal.feedback("a", correct=True) == "accepted"
        assert not settle(store, "a", Status.EXPIRED)  # the inbox was not taken yet: the id table knows
        assert settle(store, "b", Status.EXPIRED)
        assert journal.feedback("b", correct=True) == "late"
    assert [(arrival.id, arrival.value, arrival.reply) for arrival in take(store)] == [
        ("a", 1.0, "accepted"),
        ("b", 1.0, "late"),
    ]
    assert store.known("b")[:2] == (Status.EXPIRED, 1.0)
    assert not settle(store, "b", Status.EXPIRED, expected=(Status.EXPIRED,))


def test_what_a_transaction_took_from_the_inbox_is_there_again_after_a_rollback(store, tmp_path):
    decide(store, "a")
    with Journal(tmp_path / "a.db") as journal:
        journal.feedback("a", correct=False)
    store.begin()
    assert [arrival.id for arrival in store.take_inbox()] == ["a"]
    assert store.take_inbox() == []
    store.rollback()
    store.begin()
    store.savepoint()
    assert [arrival.id for arrival in store.take_inbox()] == ["a"]
    store.rollback_to_savepoint()
    assert [arrival.id for arrival in store.take_inbox()] == ["a"]
    store.commit()
    assert take(store) == []


def test_another_process_waits_for_the_owner_and_gives_up_in_the_end(store, tmp_path, monkeypatch):
    decide(store, "a")
    with Journal(tmp_path / "a.db") as journal:
        store.begin()
        monkeypatch.setattr(database, "PATIENCE", 0.05)
        with pytest.raises(JournalError, match="and the answer was not accepted: database is locked; another process"):
            journal.feedback("a", correct=True)
        monkeypatch.undo()
        began = Event()

        def answer():
            began.set()
            return journal.feedback("a", correct=True)

        with ThreadPoolExecutor() as threads:
            answered = threads.submit(answer)
            assert began.wait(30)
            sleep(0.05)
            assert not answered.done()
            store.commit()
            assert answered.result(30) == "accepted"
    assert len(take(store)) == 1


def test_an_id_of_an_uncommitted_transaction_is_known_when_it_is_committed(store, tmp_path):
    """With batched commits a decision is acknowledged first: an answer to it waits for the commit."""
    with Journal(tmp_path / "a.db") as journal:
        store.begin()
        store.issue("a", 0)
        store.pause()
        with ThreadPoolExecutor() as threads:
            answered = threads.submit(journal.feedback, "a", correct=True)
            sleep(0.05)
            store.commit()
            assert answered.result(30) == "accepted"


def test_a_busy_owner_leaves_room_for_others(store, tmp_path):
    """Transactions without a pause do not starve other processes."""
    for number in range(30):
        decide(store, str(number))
    answered = Event()

    def busy():
        for number in range(10**9):
            if answered.is_set():
                return
            decide(store, f"busy {number}")

    def answers():
        try:
            with Journal(tmp_path / "a.db") as journal:
                return [journal.feedback(str(number), correct=True) for number in range(30)]
        finally:
            answered.set()

    assert in_threads(answers, busy) == [["accepted"] * 30, None]
    assert len(take(store)) == 30


@pytest.mark.parametrize(("batched", "gap"), [(False, 0.0005), (True, 0.002)])
def test_a_busy_store_leaves_the_write_lock_free_every_100_ms(store, monkeypatch, batched, gap):
    """For longer after batched transactions, which hold it longer; a store that is idle does not pause."""
    time, slept = [1000.0], []
    monkeypatch.setattr(sqlite, "monotonic", lambda: time[0])

    def pretend_to_sleep(seconds):
        slept.append(seconds)
        time[0] += seconds

    monkeypatch.setattr(sqlite, "sleep", pretend_to_sleep)
    store._has_savepoint = batched  # as after a transaction with one
    for number in range(100):
        time[0] += 0.005
        store._committed_at = time[0] - 0.0001
        decide(store, str(number))
        store._has_savepoint = batched
    assert 4 <= len(slept) <= 5
    assert set(slept) == {gap}
    slept.clear()
    for number in range(100):
        time[0] += 0.003
        decide(store, f"idle {number}")
        store._has_savepoint = batched
    assert slept == []


# Compaction

# `Stores` hardly ever settles an id whose facts are old enough for a purge: these cases reach every condition.
DECISIONS = st.lists(st.tuples(st.sampled_from(list(Status)), st.integers(0, 10), st.booleans()), max_size=8)
OLD = (Status.ANSWERED, 0, False)


def write(store, id, status, clock, correctable):
    """Write a decision and, if it is settled, the fact that settles it, a moment later."""
    seq = store.append(DECISION, id, b"x" * 100, Moment(0, clock))
    store.issue(id, 0, None, seq)
    if status != Status.OPEN:
        store.append(ANSWER, id, b"", Moment(0, clock + 1))
        value = 1.0 if status == Status.ANSWERED else None
        store.set_status(id, status, value, correctable=correctable and status == Status.EXPIRED)


@given(DECISIONS, st.none() | st.integers(0, 16), st.integers(0, 17), st.integers(0, 13))
@example([OLD], None, 99, 99)  # no snapshot
@example([OLD], 1, 99, 99)  # between the two facts: a snapshot,
@example([OLD], 2, 2, 99)  # the first number that stays,
@example([OLD], 2, 99, 1)  # or the first moment that stays
@example([OLD], 2, 3, 2)
def test_only_what_is_settled_old_and_in_the_snapshot_is_purged(
    tmp_path_factory, decisions, snapshot, before_seq, older_than
):
    for store in (
        MemoryStore(keeps_facts=True, config=b"{}"),
        SqliteStore(tmp_path_factory.mktemp("journal") / "a.db", config=b"{}"),
    ):
        with store:
            with transaction(store):
                for number, (status, clock, correctable) in enumerate(decisions):
                    write(store, str(number), status, clock, correctable)
                if snapshot is not None:
                    store.put_snapshot(min(snapshot, store.last_seq), b"")
            facts = list(store.facts())
            kept = set()
            for number, (status, _, correctable) in enumerate(decisions):
                last = [fact for fact in facts if fact.id == str(number)][-1]
                may_change = status == Status.OPEN or (status == Status.EXPIRED and correctable)
                in_snapshot = snapshot is not None and last.seq <= snapshot
                if may_change or not in_snapshot or last.seq >= before_seq or last.now.clock >= older_than:
                    kept.add(str(number))
            with transaction(store):
                deleted = store.purge(before_seq, older_than)
            assert list(store.facts()) == [fact for fact in facts if fact.id in kept]
            assert deleted == len([fact for fact in facts if fact.id not in kept])
            for number in range(len(decisions)):
                assert store.known(str(number)).purged == (str(number) not in kept)


@pytest.mark.parametrize("settled", [Status.ANSWERED, Status.EXPIRED, Status.CANCELLED])
def test_without_a_snapshot_nothing_is_purged(tmp_path, settled):
    for store in (MemoryStore(keeps_facts=True, config=b"{}"), SqliteStore(tmp_path / "a.db", config=b"{}")):
        with store:
            with transaction(store):
                write(store, "a", settled, 0, False)
            with transaction(store):
                assert store.purge(10**9, 10**9) == 0
            assert len(list(store.facts())) == 2


def test_late_answers_get_the_same_reply_after_the_facts_are_gone(store, tmp_path):
    with Journal(tmp_path / "a.db") as journal:
        for status in Status:
            decide(store, status.name, now=Moment(0, 0))
            if status != Status.OPEN:
                settle(store, status.name, status, 1.0 if status == Status.ANSWERED else None)
        with transaction(store):
            store.put_snapshot(store.last_seq, b"")
        with transaction(store):
            assert store.purge(10**9, 1) == 3
        assert [fact.id for fact in store.facts()] == ["OPEN"]
        assert store.known("ANSWERED") == Known(Status.ANSWERED, 1.0, 0, False, True)
        assert journal.feedback("ANSWERED", correct=True) == "duplicate"
        with pytest.raises(dt.ConflictingFeedback):
            journal.feedback("ANSWERED", correct=False)
        assert journal.feedback("EXPIRED", correct=True) == "late"
        assert journal.feedback("CANCELLED", correct=True) == "cancelled"
        assert journal.feedback("OPEN", correct=True) == "accepted"
        with pytest.raises(JournalError, match=r"ids\.id"), transaction(store):
            store.issue("EXPIRED")
    with JournalView(tmp_path / "a.db") as view:
        assert (view.purged(), view.is_compacted) == (3, True)


def test_numbers_of_purged_facts_are_not_used_again(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        decide(store, "a", now=Moment(0, 0))
        settle(store, "a", Status.CANCELLED)
        with transaction(store):
            store.put_snapshot(1, b"")
            assert store.purge(10**9, 1) == 1
    with open_store(tmp_path / "a.db") as store:
        assert list(store.facts()) == []
        assert decide(store, "b") == 2


def test_an_answer_that_the_owner_has_not_taken_keeps_its_decision(store, tmp_path):
    decide(store, "a", now=Moment(0, 0))
    with transaction(store):
        store.put_snapshot(1, b"")
    with Journal(tmp_path / "a.db") as journal:
        journal.feedback("a", correct=True)
    with transaction(store):
        assert store.purge(10**9, 1) == 0


def test_a_correctable_decision_is_not_purged(store):
    decide(store, "a", now=Moment(0, 0))
    settle(store, "a", Status.EXPIRED, correctable=True)
    with transaction(store):
        store.put_snapshot(1, b"")
        assert store.purge(10**9, 1) == 0
        assert store.set_status("a", Status.EXPIRED, expected=(Status.EXPIRED,))  # released
        assert store.purge(10**9, 1) == 1


def test_a_purge_makes_the_file_smaller(tmp_path):
    path = tmp_path / "a.db"
    with open_store(path) as store:
        with transaction(store):
            for number in range(3000):
                store.append(1, str(number), b"x" * 500, Moment(0, 0))
                store.issue(str(number))
                store.set_status(str(number), Status.EXPIRED)
            store.put_snapshot(store.last_seq, b"")
        store._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.stat().st_size
        with transaction(store):
            assert store.purge(10**9, 1) == 3000
        store._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < before / 4


# Opening


@pytest.fixture(params=["store", "journal", "view"])
def open_any(request):
    """All ways to open a file that should be there."""
    return {"store": open_store, "journal": Journal, "view": JournalView}[request.param]


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\7" * 5000])
def test_a_file_that_is_not_sqlite_is_refused_and_stays(tmp_path, open_any, content):
    path = tmp_path / "a.db"
    path.write_bytes(content)
    refused(lambda: open_any(path), "is not a journal")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_another_sqlite_file_is_refused_and_stays(tmp_path, open_any):
    path = tmp_path / "a.db"
    change_file(path, "CREATE TABLE facts (a)")
    content = path.read_bytes()
    refused(lambda: open_any(path), "another SQLite file")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("number", "step"), [(b"2", "make a new journal"), (b"4", "update delaytron")])
def test_another_format_is_refused(tmp_path, open_any, number, step):
    path = tmp_path / "a.db"
    open_store(path).close()
    change_file(path, "UPDATE meta SET value = ? WHERE name = 'format'", (number,))
    refused(lambda: open_any(path), f"format {number.decode()}", step)


def test_folders_and_missing_folders_are_refused(tmp_path, open_any):
    refused(lambda: open_any(tmp_path), "it is a folder")
    refused(lambda: open_any(tmp_path / "b" / "a.db"), "there is no folder")
    refused(lambda: open_any("a\0b"), "cannot be the path")
    refused(lambda: open_any(17), "cannot be the path")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_made_only_with_a_configuration(tmp_path):
    for open_it in (Journal, JournalView, SqliteStore):
        refused(lambda open_it=open_it: open_it(tmp_path / "a.db"), "there is no journal")
    (tmp_path / "b.db").touch()
    refused(lambda: SqliteStore(tmp_path / "b.db"), "is empty")
    refused(lambda: Journal(tmp_path / "b.db"), "not a journal")
    refused(lambda: JournalView(tmp_path / "b.db"), "not a journal")
    assert not has_journal(tmp_path / "a.db")
    assert not has_journal(tmp_path / "b.db")
    open_store(tmp_path / "b.db").close()
    assert has_journal(tmp_path / "b.db")
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize("protected", ["a.db", ""])
def test_without_rights_it_is_refused(tmp_path, open_any, protected, monkeypatch):
    """Tests may run as root, who may write everything: `os.access` is replaced."""
    path = tmp_path / "a.db"
    open_store(path).close()
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path / protected)
    refused(lambda: open_any(path), "no permission to write", str(tmp_path / protected))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", "{}", 7])
def test_a_configuration_is_a_json_object(tmp_path, bad):
    refused(lambda: SqliteStore(tmp_path / "a.db", config=bad), "config must be a JSON object")
    assert list(tmp_path.iterdir()) == []


def test_another_configuration_is_refused_with_both_sides(tmp_path):
    path = tmp_path / "a.db"
    SqliteStore(path, config=b'{"gamma": 0.1, "seed": 1, "bits": 18}').close()
    refused(
        lambda: SqliteStore(path, config=b'{"bits": 18, "gamma": 0.2, "learner": "soba"}'),
        'gamma is 0.1 there, 0.2 here, learner is not given there, "soba" here, seed is 1 there, not given here',
    )
    with SqliteStore(path, config=b'{"seed": 1,   "bits": 18, "gamma": 0.1}') as store:
        assert json.loads(store.config)["gamma"] == 0.1
    SqliteStore(tmp_path / "b.db", config=b'{"standardize": true}').close()
    refused(lambda: SqliteStore(tmp_path / "b.db", config=b'{"standardize": 1}'), "true there, 1 here")


@pytest.mark.parametrize("name", ["a?b.db", "a#b.db", "a%20b.db", "a b'\".db", "ä\u2603.db", "-", "a&mode=ro"])
def test_odd_names_are_names(tmp_path, name):
    path = tmp_path / name
    with open_store(path) as store:
        decide(store, "a")
        with Journal(str(path)) as journal:
            assert journal.feedback("a", correct=True) == "accepted"
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_relative_paths_and_links_mean_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with open_store("link.db") as store:
        decide(store, "a")
        refused(lambda: open_store(tmp_path / "a.db"), "open in this process already")
        with Journal("a.db") as journal:
            assert journal.feedback("a", correct=True) == "accepted"
    assert (tmp_path / "link.db").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "link.db"]


def test_a_stored_file_opens(tmp_path):
    """The format of files, as it was when `fixtures/journal.db` was written."""
    path = tmp_path / "a.db"
    path.write_bytes((Path(__file__).parent / "fixtures" / "journal.db").read_bytes())
    with SqliteStore(path) as store:
        assert read_all(store) == EXPECTED
        assert store.fact(4) == EXPECTED["facts"][2]
        assert store.last_seq == 9


def test_nothing_is_left_beside_a_closed_file(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        decide(store, "a")
        assert (tmp_path / "a.db-lock").read_text().strip() == str(os.getpid())
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    assert CONFIG in (tmp_path / "a.db").read_bytes()


# The owner

OWNER = """
import sys
from stored import NOW, decide, open_store, transaction
store = open_store(sys.argv[1])
decide(store, "a")
print("open", flush=True)
sys.stdin.read()
"""
FORKS = """
import os, sys
from stored import NOW, open_store, transaction
store = open_store(sys.argv[1])
with transaction(store):
    store._database.execute("PRAGMA cache_size = 1")  # so that some of it is in the log already
    store.append(1, None, b"x" * 100_000, NOW)
    store.pause()
    store.savepoint()
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    store.append(1, None, b"", NOW)
    assert len(list(store.facts())) == 2
store.close()
"""


def start_owner(path, script=OWNER):
    owner = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    assert owner.stdout.readline() == b"open\n"
    return owner


def test_a_second_owner_in_this_process_is_refused_until_the_first_closes(tmp_path):
    path = tmp_path / "a.db"
    first = open_store(path)
    refused(lambda: open_store(path), "open in this process already")
    decide(first, "a")
    first.close()
    with open_store(path) as second:
        assert second.last_seq == 1


@posix
def test_a_second_owner_is_refused_until_the_first_is_dead(tmp_path):
    path = tmp_path / "a.db"
    owner = start_owner(path)
    refused(lambda: open_store(path), f"in use by process {owner.pid};", "dt.Journal")
    with Journal(path) as journal:
        assert journal.feedback("a", correct=False) == "accepted"
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    with open_store(path) as store:
        assert store.last_seq == 1
        assert [arrival.id for arrival in take(store)] == ["a"]


def use_in_child(store, journal, pipe):
    errors = []
    for use in (lambda: decide(store, "b"), lambda: store.known("a"), lambda: journal.feedback("a", correct=True)):
        try:
            use()
        except JournalError as problem:
            errors.append(str(problem))
    connection = store._database._connection
    store.close()
    journal.close()
    connection.close()  # of the child, it could checkpoint and delete the log that the parent still writes
    pipe.send((errors, connection.execute("SELECT 1").fetchone()))
    pipe.recv()


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_must_open_it_again_and_holds_no_lock(tmp_path):
    path = tmp_path / "a.db"
    store = open_store(path)
    decide(store, "a")
    journal = Journal(path)
    ours, theirs = get_context("fork").Pipe()
    child = get_context("fork").Process(target=use_in_child, args=(store, journal, theirs))
    child.start()
    assert ours.poll(30)
    errors, row = ours.recv()
    assert row == (1,)
    assert len(errors) == 3
    assert all("forked; open it again" in error for error in errors)
    refused(lambda: open_store(path), "open in this process already")
    assert decide(store, "b") == 2
    journal.close()
    store.close()
    open_store(path).close()  # while the child lives
    ours.send("end")
    child.join()


@posix
def test_a_child_of_a_dead_owner_does_not_keep_the_file(tmp_path):
    owner = start_owner(tmp_path / "a.db", OWNER.replace("print(", "import os; os.fork() or print("))
    owner.kill()
    owner.wait()
    open_store(tmp_path / "a.db").close()
    owner.communicate()  # ends the child


@posix
def test_a_child_that_exits_within_a_transaction_of_its_parent_changes_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", FORKS, tmp_path / "a.db"], check=True, env=ENVIRONMENT)
    with open_store(tmp_path / "a.db") as store:
        assert [(fact.seq, len(fact.body)) for fact in store.facts()] == [(1, 100_000), (2, 0)]


# Views


def test_a_view_shows_one_moment(store, tmp_path):
    decide(store, "a")
    with JournalView(tmp_path / "a.db") as view:
        decide(store, "b", label=1)
        settle(store, "a", Status.ANSWERED, 1.0)
        with transaction(store):
            store.put_snapshot(2, b"state")
            store.set_meta("classes", b'["a"]')
        assert [fact.id for fact in view.facts()] == ["a"]
        assert view.known("a") == Known(Status.OPEN, None, 0, False, False, 1, b"digest")
        assert (view.known("b"), view.known(None)) == (None, None)
        assert (view.last_seq, view.snapshot_seqs(), view.config, view.classes) == (1, [], CONFIG, None)
    with JournalView(tmp_path / "a.db") as view:
        assert [fact.id for fact in view.facts(after=1)] == ["b"]
        assert view.known("a")[:2] == (Status.ANSWERED, 1.0)
        assert dict(view.all_ids()) == dict(store.all_ids())
        assert (view.snapshot_seqs(), view.snapshot(2), view.classes) == ([2], (2, b"state"), b'["a"]')
        assert view.count_by_kind() == {DECISION: 2}
        assert (view.damage(), view.purged(), view.is_compacted, view.waiting_in_inbox()) == (None, 0, False, set())
    with Journal(tmp_path / "a.db") as journal:
        journal.feedback("b", correct=True)
    with JournalView(tmp_path / "a.db") as view:
        assert view.waiting_in_inbox() == {"b"}


def test_the_owner_writes_while_a_view_is_open(store):
    with JournalView(store.path) as view:
        for number in range(50):
            decide(store, f"r{number}")
        assert (view.last_seq, store.last_seq) == (0, 50)


def test_nothing_can_be_written_through_a_view(tmp_path):
    open_store(tmp_path / "a.db").close()
    before = (tmp_path / "a.db").read_bytes()
    with JournalView(tmp_path / "a.db") as view, pytest.raises(JournalError, match="readonly"):
        view.rows("DELETE FROM meta")
    assert (tmp_path / "a.db").read_bytes() == before
