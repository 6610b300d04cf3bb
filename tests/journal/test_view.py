"""Reading a journal without owning it: one moment of it, and nothing is changed."""

import pytest
from journals import CONFIG, NOW, decide, open_store, refused

from delaytron.journal import Journal
from delaytron.journal.records import ANSWERED, OPEN, Status
from delaytron.journal.view import JournalView


def test_it_shows_one_moment(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        decide(store, "a")
        with JournalView(tmp_path / "a.db") as view:
            decide(store, "b", label=1)
            with store.batch():
                store.settle("a", ANSWERED, 1.0)
                store.put_snapshot(2, b"state")
            assert [fact.id for fact in view.facts()] == ["a"]
            assert view.status("a") == Status(OPEN, None, 0, False)
            assert view.status("b") is None
            assert view.status(None) is None
            assert (view.last_seq, view.snapshot_seqs(), view.config) == (1, [], CONFIG)
        with JournalView(tmp_path / "a.db") as view:
            assert [fact.id for fact in view.facts(after=1)] == ["b"]
            assert view.status("a") == Status(ANSWERED, 1.0, 0, False)
            assert view.snapshot_seqs() == [2]
            assert view.snapshot(2).body == b"state"
            assert view.count_by_kind() == {1: 2}


def test_the_inbox_is_shown(tmp_path):
    with open_store(tmp_path / "a.db") as store, Journal(tmp_path / "a.db") as other:
        decide(store, "a")
        other.feedback("a", correct=True)
        with JournalView(tmp_path / "a.db") as view:
            assert view.waiting_in_inbox() == {"a"}
            assert view.purged() == 0
            assert view.damage() is None


def test_the_owner_writes_on_while_it_is_open(tmp_path):
    with open_store(tmp_path / "a.db") as store, JournalView(tmp_path / "a.db") as view:
        for number in range(50):
            decide(store, f"r{number}")
        assert view.last_seq == 0
        assert store.last_seq == 50


def test_nothing_can_be_written_through_it(tmp_path):
    open_store(tmp_path / "a.db").close()
    before = (tmp_path / "a.db").read_bytes()
    with JournalView(tmp_path / "a.db") as view, pytest.raises(Exception, match="readonly"):
        view.rows("INSERT INTO inbox VALUES (1, 'a', 1.0, 1, 1, 0)")
    assert (tmp_path / "a.db").read_bytes() == before


def test_pages_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr("delaytron.journal.queries.PAGE", 3)
    with open_store(tmp_path / "a.db") as store:
        with store.batch():
            for number in range(10):
                store.append(1, None, bytes([number]), NOW)
        with JournalView(tmp_path / "a.db") as view:
            assert [fact.body[0] for fact in view.facts()] == list(range(10))


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "text").write_text("no database" * 100)
    (tmp_path / "empty").touch()
    refused(lambda: JournalView(tmp_path / "absent"), "there is no journal")
    refused(lambda: JournalView(tmp_path / "text"), "is not a journal")
    refused(lambda: JournalView(tmp_path / "empty"), "is not a journal")
    refused(lambda: JournalView(tmp_path), "is a folder")


def test_a_newer_and_an_older_format_are_refused(tmp_path, monkeypatch):
    open_store(tmp_path / "a.db").close()
    monkeypatch.setattr("delaytron.journal.view.FORMAT", 3)
    refused(lambda: JournalView(tmp_path / "a.db"), "is of format 2, not 3", "dt.Model.open")
    monkeypatch.setattr("delaytron.journal.tables.FORMAT", 0)
    refused(lambda: JournalView(tmp_path / "a.db"), "update delaytron")
