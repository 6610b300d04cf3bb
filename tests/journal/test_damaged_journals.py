"""Damaged files: an error in one line that says so, or what is there; never another exception."""

from pathlib import Path

import pytest
from fixtures.make_journal import read_all
from hypothesis import given
from hypothesis import strategies as st
from stored import ANSWER, change_file, transaction

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal import sqlite
from delaytron.journal.outside import Journal
from delaytron.journal.sqlite import SqliteStore
from delaytron.journal.view import JournalView

WHOLE = (Path(__file__).parent / "fixtures" / "journal.db").read_bytes()


@pytest.fixture
def path(tmp_path):
    """A journal with something in every table."""
    path = tmp_path / "a.db"
    path.write_bytes(WHOLE)
    return path


def use(path):
    """Open a file in all ways and read all of it."""
    with Journal(path) as journal:
        journal.feedback("open", correct=True)
    with JournalView(path) as view:
        list(view.facts())
        list(view.all_ids())
        view.damage()
    with SqliteStore(path) as store:
        read_all(store)


DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=40)), min_size=1, max_size=4)


@given(DAMAGE, st.none() | st.floats(0, 1))
def test_damage_is_one_line(tmp_path_factory, damage, length):
    """Whatever bytes of the file change: an error that says so, or what is there; never another exception."""
    content = bytearray(WHOLE)
    for place, data in damage:
        at = int(place * (len(content) - 1))
        content[at : at + len(data)] = data
    path = tmp_path_factory.mktemp("journal") / "a.db"
    path.write_bytes(bytes(content[: None if length is None else int(length * len(content))]))
    said = ""
    try:
        use(path)
    except dt.DelaytronError as problem:
        said = str(problem)
    assert "\n" not in said


@pytest.mark.parametrize("seq", [3, 8])
@pytest.mark.parametrize(
    "change",
    [
        "kind = 9",
        "id = 'x'",
        "id = NULL",
        "wall = wall + 1",
        "clock = 0.5",
        "body = x'00'",
        "body = 'text'",
        "checksum = 0",
    ],
)
def test_the_checksum_shows_a_changed_fact(path, change, seq):
    change_file(path, f"UPDATE facts SET {change} WHERE seq = ?", (seq,))  # noqa: S608
    with SqliteStore(path) as store:
        for read in (lambda: list(store.facts()), lambda: store.fact(seq)):
            with pytest.raises(JournalError, match=rf"is damaged \(the checksum of fact {seq} is wrong\)"):
                read()
        assert store.fact(2) is not None
    with JournalView(path) as view, pytest.raises(JournalError, match="checksum"):
        list(view.facts())


def test_the_checksum_shows_exchanged_facts(path):
    change_file(path, "UPDATE facts SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)")
    change_file(path, "UPDATE facts SET seq = -seq WHERE seq < 0")
    with SqliteStore(path) as store, pytest.raises(JournalError, match="the checksum of fact 2 is wrong"):
        list(store.facts())


def test_facts_out_of_order_are_an_error(path, monkeypatch):
    """As in a damaged tree, where a loop over the numbers could be endless."""
    monkeypatch.setattr(sqlite, "FACTS_AFTER", sqlite.FACTS_AFTER.replace("seq > ?", "? < 99"))
    with SqliteStore(path) as store, pytest.raises(JournalError, match="not in order"):
        list(store.facts())


INBOX = [
    "id = CAST(x'41ff0a42' AS TEXT)",  # no UTF-8
    "id = 'another'",
    "value = 7.0",
    "value = 'text'",
    "value = x'00'",
    "wall = 'text'",
    "clock = 0.5",
]


@pytest.mark.parametrize("change", INBOX)
def test_a_damaged_answer_fails_its_transaction(path, change):
    change_file(path, f"UPDATE inbox SET {change}")  # noqa: S608
    with SqliteStore(path) as store:
        with pytest.raises(JournalError) as caught:
            take_as_facts(store)
        assert "\n" not in str(caught.value)
        assert store.last_seq == 9
        with pytest.raises(JournalError):  # it is still there
            take_as_facts(store)


def take_as_facts(store):
    """Take the inbox as a model does."""
    with transaction(store):
        for arrival in store.take_inbox():
            store.append(ANSWER, arrival.id, b"%r" % arrival.value, arrival.now)


@pytest.mark.parametrize("change", ["status = 7", "value = 'text'", "value = -1.0", "value = 1e300", "value = 9e999"])
def test_a_damaged_id_is_an_error(path, change):
    change_file(path, f"UPDATE ids SET {change} WHERE id = 'answered'")  # noqa: S608
    with SqliteStore(path) as store, JournalView(path) as view, Journal(path) as journal:
        for read in (
            lambda: store.known("answered"),
            lambda: list(store.all_ids()),
            lambda: view.known("answered"),
            lambda: list(view.all_ids()),
            lambda: journal.feedback("answered", reward=0.25),
        ):
            with pytest.raises(JournalError, match=r"is damaged \(a decision has the (status|answer)"):
                read()
        assert store.known("open") is not None


def test_a_stored_answer_that_is_no_class_is_an_error(path):
    change_file(path, "UPDATE meta SET value = ? WHERE name = 'config'", (b'{"feedback_type": "label"}',))
    change_file(path, "UPDATE ids SET value = 5.0 WHERE id = 'answered'")
    with Journal(path) as journal, pytest.raises(JournalError, match="is damaged"):
        journal.feedback("answered", label="huge")


def test_a_snapshot_of_another_type_is_an_error(path):
    change_file(path, "UPDATE snapshots SET body = 'text'")
    with SqliteStore(path) as store, pytest.raises(JournalError, match="the snapshot after fact 1 is of another type"):
        store.snapshot()


@pytest.mark.parametrize("name", ["format", "config", "clock"])
@pytest.mark.parametrize("value", [None, b"", b"x", b"[]", b"\xff", "text", 7])
def test_damage_of_what_describes_the_file_is_an_error(path, name, value):
    if value is None:
        change_file(path, "DELETE FROM meta WHERE name = ?", (name,))
    else:
        change_file(path, "UPDATE meta SET value = ? WHERE name = ?", (value, name))
    if (name, value) == ("format", 7):
        with pytest.raises(dt.InvalidInput, match="format 7"):
            use(path)
    elif (name, value) == ("clock", None):
        with Journal(path) as journal, pytest.raises(JournalError, match="damaged"):
            journal.feedback("open", correct=True)
        SqliteStore(path).close()  # makes a new one
        use(path)
    else:
        with pytest.raises(JournalError, match="damaged"):
            use(path)


def test_a_view_finds_damage(tmp_path):
    found = 0
    for page in range(1, len(WHOLE) // 4096):
        content = bytearray(WHOLE)
        content[4096 * page : 4096 * page + 100] = b"\7" * 100
        path = tmp_path / f"{page}.db"
        path.write_bytes(bytes(content))
        try:
            with JournalView(path) as view:
                damage = view.damage()
                found += damage is not None and "\n" not in damage
        except dt.DelaytronError:  # a page without which it cannot be opened
            found += 1
    assert found == len(WHOLE) // 4096 - 1
