"""Damaged files: an error that says so, or what is there; never another exception."""

import sqlite3
from pathlib import Path

import pytest
from fixtures.make_format_2 import describe
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal import FactStore, Journal, queries

FIXTURE = Path(__file__).parent / "fixtures" / "format_2.db"
WHOLE = FIXTURE.read_bytes()


def use(path):
    """Open a file both ways and read all of it."""
    with Journal(path) as journal:
        journal.feedback("open", correct=True)
    with FactStore(path) as store:
        describe(store)


def use_damaged(path, content):
    path.write_bytes(content)
    try:
        use(path)
    except dt.DelaytronError as problem:
        return str(problem)
    return ""


def test_facts_out_of_order_are_told(tmp_path, monkeypatch):
    """As in a damaged tree, where a loop over the numbers could go on for ever."""
    path = tmp_path / "a.db"
    path.write_bytes(WHOLE)
    monkeypatch.setattr(
        queries, "FACTS_AFTER", "SELECT seq, kind, id, wall, clock, body FROM facts WHERE ? < 9 LIMIT ?"
    )
    with FactStore(path) as store, pytest.raises(JournalError, match="not in order"):
        list(store.facts())


def test_a_damaged_answer_is_told_and_spoils_its_batch(tmp_path):
    path = tmp_path / "a.db"
    path.write_bytes(WHOLE)
    file = sqlite3.connect(path)
    with file:
        file.execute("UPDATE inbox SET id = CAST(x'41ff0a42' AS TEXT)")
    file.close()
    with FactStore(path) as store:
        with pytest.raises(JournalError, match="Could not decode") as caught:
            describe(store)
        assert "\n" not in str(caught.value)
        assert store.generation == 1


DAMAGE = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=40)), min_size=1, max_size=4)


@given(DAMAGE, st.one_of(st.none(), st.integers(0, len(WHOLE))))
def test_damage_is_told_in_one_line(tmp_path_factory, damage, length):
    content = bytearray(WHOLE)
    for place, data in damage:
        content[place : place + len(data)] = data
    said = use_damaged(tmp_path_factory.mktemp("journal") / "a.db", bytes(content[:length]))
    assert "\n" not in said


@pytest.mark.parametrize("name", ["format", "config", "clock"])
@pytest.mark.parametrize("value", [None, b"", b"x", b"[]", b"\xff", "text", 7])
def test_damage_of_what_describes_the_file_is_told(tmp_path, name, value):
    path = tmp_path / "a.db"
    path.write_bytes(WHOLE)
    file = sqlite3.connect(path)
    with file:
        if value is None:
            file.execute("DELETE FROM meta WHERE name = ?", (name,))
        else:
            file.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))
    file.close()
    if (name, value) == ("format", 7):
        with pytest.raises(dt.InvalidInput, match="format 7"):
            use(path)
    elif (name, value) == ("clock", None):
        use_without_a_clock(path)
    else:
        with pytest.raises(JournalError, match="damaged"):
            use(path)


def use_without_a_clock(path):
    """The owner makes it anew; before that nobody can answer."""
    with Journal(path) as journal, pytest.raises(JournalError, match="damaged"):
        journal.feedback("open", correct=True)
    with FactStore(path) as store:
        describe(store)
    use(path)
