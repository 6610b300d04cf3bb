"""Retention: what may go goes, and what became of every decision stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import open_store

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal import ANSWERED, CANCELLED, EXPIRED, OPEN, Journal, Moment, Status

SETTLED = [ANSWERED, EXPIRED, CANCELLED]


def write(store, id, status, clock=0):
    """A decision, and what became of it."""
    with store.batch():
        store.open_id(id)
        store.append(1, id, b"x" * 100, Moment(0, clock))
        if status != OPEN:
            store.append(2, id, b"", Moment(0, clock))
            store.settle(id, status, 1.0 if status == ANSWERED else None)


def snapshot_now(store):
    with store.batch():
        store.put_snapshot(store.last_seq, b"")


def test_late_answers_are_told_the_same_after_the_facts_are_gone(tmp_path):
    with open_store(tmp_path / "a.db") as store, Journal(tmp_path / "a.db") as journal:
        for status in (*SETTLED, OPEN):
            write(store, str(status), status)
        snapshot_now(store)
        assert store.compact(10**9, 1) == 6
        assert [fact.id for fact in store.facts()] == [str(OPEN)]
        assert store.status(str(ANSWERED)) == Status(ANSWERED, 1.0, None, True)
        assert journal.feedback(str(ANSWERED), correct=True) == "duplicate"
        with pytest.raises(dt.ConflictingFeedback):
            journal.feedback(str(ANSWERED), correct=False)
        assert journal.feedback(str(EXPIRED), correct=True) == "expired"
        assert journal.feedback(str(CANCELLED), correct=True) == "cancelled"
        assert journal.feedback(str(OPEN), correct=True) == "accepted"
        with pytest.raises(JournalError, match=r"ids\.id"), store.batch():
            store.open_id(str(EXPIRED))


def test_numbers_are_not_given_again(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        write(store, "a", ANSWERED)
        snapshot_now(store)
        store.compact(10**9, 1)
    with open_store(tmp_path / "a.db") as store:
        assert list(store.facts()) == []
        with store.batch():
            assert store.append(1, None, b"", Moment(0, 0)) == 3


def test_without_a_snapshot_nothing_goes(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        write(store, "a", ANSWERED)
        assert store.compact(10**9, 1) == 0


def test_an_answer_that_the_owner_has_not_taken_keeps_its_decision(tmp_path):
    with open_store(tmp_path / "a.db") as store, Journal(tmp_path / "a.db") as journal:
        write(store, "a", OPEN)
        snapshot_now(store)
        journal.feedback("a", correct=True)
        assert store.compact(10**9, 1) == 0


def test_the_file_becomes_smaller(tmp_path):
    path = tmp_path / "a.db"
    with open_store(path) as store:
        with store.batch():
            for i in range(3000):
                store.open_id(str(i))
                store.append(1, str(i), b"x" * 500, Moment(0, 0))
                store.settle(str(i), EXPIRED)
        snapshot_now(store)
    before = path.stat().st_size
    with open_store(path) as store:
        assert store.compact(10**9, 1) == 3000
    assert path.stat().st_size < before / 4


@given(
    st.lists(st.tuples(st.sampled_from([OPEN, *SETTLED]), st.integers(0, 9)), max_size=15),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 10),
)
def test_only_what_is_settled_old_and_in_the_snapshot_goes(
    tmp_path_factory, decisions, snapshot, before_seq, older_than
):
    with open_store(tmp_path_factory.mktemp("journal") / "a.db") as store:
        for i, (status, clock) in enumerate(decisions):
            write(store, str(i), status, clock)
        with store.batch():
            store.put_snapshot(snapshot, b"")
        facts = list(store.facts())
        kept = []
        for i, (status, clock) in enumerate(decisions):
            last = max(fact.seq for fact in facts if fact.id == str(i))
            if status == OPEN or clock >= older_than or last > snapshot or last >= before_seq:
                kept.append(str(i))
        deleted = store.compact(before_seq, older_than)
        assert list(store.facts()) == [fact for fact in facts if fact.id in kept]
        assert deleted == len([fact for fact in facts if fact.id not in kept])
        for i in range(len(decisions)):
            assert store.status(str(i)).purged == (str(i) not in kept)
