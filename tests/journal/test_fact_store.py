"""The store: facts in order, ids that are never reused, snapshots, and what a failure leaves."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import CONFIG, NOW, decide, open_store

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal import ANSWERED, CANCELLED, EXPIRED, OPEN, Moment, Status


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        yield store


def test_facts_come_back_as_they_were_written(tmp_path):
    with open_store(tmp_path / "a.db") as store, store.batch():
        store.append(3, None, b"", Moment(-1, 2**62))
        store.open_id("ä")
        store.append(4, "ä", b"\0\xff", NOW)
    with open_store(tmp_path / "a.db", None) as store:
        assert list(store.facts()) == [(1, 3, None, (-1, 2**62), b""), (2, 4, "ä", NOW, b"\0\xff")]
        assert [fact.seq for fact in store.facts(after=1)] == [2]
        assert store.config == CONFIG
        assert store.last_seq == 2


def test_many_facts_come_in_order(store):
    with store.batch():
        written = [store.append(1, None, b"%d" % i, NOW) for i in range(2500)]
        assert [fact.seq for fact in store.facts()] == written
    assert [(fact.seq, fact.body) for fact in store.facts()] == [(i + 1, b"%d" % i) for i in range(2500)]


def test_an_id_is_issued_once(store):
    decide(store, "a", label=2)
    with pytest.raises(JournalError, match=r"ids\.id"):
        decide(store, "a")
    assert store.status("a").label == 2
    assert store.status("b") is None
    assert store.last_seq == 1
    assert store.generation == 1


@pytest.mark.parametrize(("status", "value"), [(ANSWERED, 0.7), (EXPIRED, None), (CANCELLED, None)])
def test_a_decision_is_settled(store, status, value):
    decide(store, "a")
    with store.batch():
        store.settle("a", status, value)
        assert store.status("a") == Status(status, value, 0, False)
    assert store.status("a") == Status(status, value, 0, False)


def test_what_is_settled_for_good_stays(store):
    decide(store, "a")
    with store.batch():
        store.settle("a", EXPIRED)
        store.settle("a", ANSWERED, 1.0)
    with pytest.raises(dt.UnknownDecision, match="not open"), store.batch():
        store.settle("a", CANCELLED)
    assert store.status("a") == Status(ANSWERED, 1.0, 0, False)


def test_the_newest_two_snapshots_are_kept(store, tmp_path):
    assert store.snapshot() is None
    for seq in (3, 7, 9):
        with store.batch():
            store.put_snapshot(seq, b"%d" % seq)
    assert store.snapshot() == (9, b"9")
    rows = sqlite3.connect(tmp_path / "a.db")
    assert rows.execute("SELECT seq FROM snapshots ORDER BY seq").fetchall() == [(7,), (9,)]
    rows.close()


def test_a_failed_batch_leaves_nothing(store):
    decide(store, "a")

    def attempt():
        with store.batch():
            store.open_id("b")
            store.append(1, "b", b"", NOW)
            store.settle("a", ANSWERED, 1.0)
            store.put_snapshot(2, b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()
    assert store.generation == 1
    assert store.status("b") is None
    assert store.status("a").status == OPEN
    assert store.snapshot() is None
    assert decide(store, "b") == 2


def test_an_error_before_any_change_rolls_nothing_back(store):

    def attempt():
        with store.batch():
            store.status("a")
            store.inbox()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()
    assert store.generation == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.append(1, None, b"", NOW),
        lambda store: store.open_id("a"),
        lambda store: store.settle("a", EXPIRED),
        lambda store: store.inbox(),
        lambda store: store.put_snapshot(1, b""),
        lambda store: store.set_classes(["a"]),
    ],
)
def test_changes_need_a_batch(store, change):
    with pytest.raises(JournalError, match="within a batch"):
        change(store)
    assert list(store.facts()) == []


def test_a_batch_within_a_batch_is_an_error(store):

    def attempt():
        with store.batch():
            store.append(1, None, b"", NOW)
            with store.batch():
                store.append(1, None, b"", NOW)

    with pytest.raises(JournalError, match="within a batch"):
        attempt()
    assert list(store.facts()) == []
    decide(store, "a")


def test_the_error_of_a_statement_cannot_be_swallowed(store):
    connection = store._database._connection

    def attempt():
        with store.batch():
            store.append(1, None, b"", NOW)
            store.append(1, None, object(), NOW)
            with pytest.raises(JournalError):
                store.status("a")

    with pytest.raises(JournalError, match=r"nothing of it was acknowledged: .*type 'object' is not supported"):
        attempt()
    assert list(store.facts()) == []
    assert store._database._connection is not connection
    assert store.generation == 1
    assert decide(store, "a") == 1


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for use in (lambda: decide(store, "a"), lambda: store.status("a"), lambda: list(store.facts()), store.snapshot):
        with pytest.raises(JournalError, match="closed; open it again"):
            use()


def test_the_clock_goes_on_from_the_last_fact(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        far = Moment(store.now().wall, store.now().clock + 10**15)
        with store.batch():
            store.append(1, None, b"", far)
    with open_store(tmp_path / "a.db") as store:
        assert store.now().clock >= far.clock


def fail(store):
    """Write a fact in a batch that fails."""

    def attempt():
        with store.batch():
            store.append(9, None, b"never", NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["open", "settle", "fact", "snapshot", "fail", "reopen"]), st.integers(0, 5)), max_size=40
)


@given(ACTIONS)
def test_it_is_a_plain_dict_and_a_list_that_survive(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("journal") / "a.db"
    store = open_store(path)
    ids, facts, snapshots = {}, [], []
    for number, (what, key) in enumerate(actions):
        name = f"id {key}"
        if what == "reopen":
            store.close()
            store = open_store(path, None)
        elif what == "fail":
            fail(store)
        elif what == "open" and name not in ids:
            facts.append((decide(store, name, label=number), name))
            ids[name] = Status(OPEN, None, number, False)
        elif what == "settle" and name in ids and ids[name].status == OPEN:
            with store.batch():
                store.settle(name, ANSWERED, float(number))
            ids[name] = Status(ANSWERED, float(number), ids[name].label, False)
        elif what == "fact":
            with store.batch():
                facts.append((store.append(2, None, b"", NOW), None))
        elif what == "snapshot":
            with store.batch():
                store.put_snapshot(len(facts), b"%d" % number)
            snapshots.append((len(facts), b"%d" % number))
    assert [(fact.seq, fact.id) for fact in store.facts()] == facts
    assert [seq for seq, _ in facts] == list(range(1, len(facts) + 1))
    assert {f"id {i}": store.status(f"id {i}") for i in range(6)} == {f"id {i}": ids.get(f"id {i}") for i in range(6)}
    assert store.snapshot() == (snapshots[-1] if snapshots else None)
    store.close()
