"""Which files are opened, which are not, and who may own one."""

import json
import os
import sqlite3
from pathlib import Path

import pytest
from journals import CONFIG, decide, open_store, refused

from delaytron.journal import FactStore, Journal, tables

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(params=["store", "journal"])
def open_any(request):
    """Both ways to open a file that should be there."""
    return open_store if request.param == "store" else Journal


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\7" * 5000])
def test_a_file_that_is_not_sqlite_is_refused_and_stays(tmp_path, open_any, content):
    path = tmp_path / "a.db"
    path.write_bytes(content)
    refused(lambda: open_any(path), "is not a journal")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_another_sqlite_file_is_refused_and_stays(tmp_path, open_any):
    path = tmp_path / "a.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE facts (a)")
    other.close()
    content = path.read_bytes()
    refused(lambda: open_any(path), "another SQLite file")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_format_is_refused(tmp_path, open_any):
    path = tmp_path / "a.db"
    open_store(path).close()
    file = sqlite3.connect(path)
    with file:
        file.execute("UPDATE meta SET value = ? WHERE name = 'format'", (b"3",))
    file.close()
    refused(lambda: open_any(path), "format 3", "update delaytron")


def test_folders_and_missing_folders_are_refused(tmp_path, open_any):
    refused(lambda: open_any(tmp_path), "it is a folder")
    refused(lambda: open_any(tmp_path / "b" / "a.db"), "there is no folder")
    refused(lambda: open_any("a\0b"), "cannot be the path")
    refused(lambda: open_any(17), "cannot be the path")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_made_only_with_a_configuration(tmp_path):
    refused(lambda: Journal(tmp_path / "a.db"), "there is no journal")
    refused(lambda: FactStore(tmp_path / "a.db"), "there is no journal", "journal=path")
    (tmp_path / "b.db").touch()
    refused(lambda: FactStore(tmp_path / "b.db"), "is empty")
    refused(lambda: Journal(tmp_path / "b.db"), "not a journal")
    open_store(tmp_path / "b.db").close()
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize("protected", ["a.db", ""])
def test_without_rights_it_is_refused(tmp_path, open_any, protected, monkeypatch):
    """No rights bind root, by whom tests may be run; so the system's answer is given here."""
    path = tmp_path / "a.db"
    open_store(path).close()
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path / protected)
    refused(lambda: open_any(path), "no right to write", str(tmp_path / protected))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", "{}", 7])
def test_a_configuration_is_a_json_object(tmp_path, bad):
    refused(lambda: FactStore(tmp_path / "a.db", config=bad), "config must be a JSON object")
    refused(lambda: open_store(tmp_path / "a.db", durability="none"), "full, batched")
    assert list(tmp_path.iterdir()) == []


def test_another_configuration_is_refused_with_both_sides(tmp_path):
    path = tmp_path / "a.db"
    FactStore(path, config=b'{"gamma": 0.1, "seed": 1, "bits": 18}').close()
    different = b'{"bits": 18, "gamma": 0.2, "learner": "soba"}'
    expected = [
        'gamma is 0.1 there, 0.2 here, learner is not given there, "soba" here, seed is 1 there, not given here'
    ]
    refused(lambda: FactStore(path, config=different), *expected)
    with FactStore(path, config=b'{"seed": 1,   "bits": 18, "gamma": 0.1}') as store:
        assert json.loads(store.config)["gamma"] == 0.1


def test_true_is_not_one_in_a_configuration(tmp_path):
    FactStore(tmp_path / "a.db", config=b'{"average": true}').close()
    refused(lambda: FactStore(tmp_path / "a.db", config=b'{"average": 1}'), "true there, 1 here")


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


def test_an_older_format_is_migrated_in_one_transaction(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    with open_store(path) as store:
        decide(store, "a")

    def fails(connection):
        connection.execute("ALTER TABLE ids ADD COLUMN more")
        raise ZeroDivisionError

    monkeypatch.setattr(tables, "FORMAT", 4)
    refused(lambda: Journal(path), "format 2", "dt.Model.open")
    monkeypatch.setattr(tables, "MIGRATIONS", {2: lambda connection: None, 3: fails})
    with pytest.raises(ZeroDivisionError):
        open_store(path)
    monkeypatch.setitem(tables.MIGRATIONS, 3, lambda connection: connection.execute("CREATE TABLE more (a)"))
    with open_store(path) as store:
        assert store.last_seq == 1
    file = sqlite3.connect(path)
    assert file.execute("SELECT value FROM meta WHERE name = 'format'").fetchone() == (b"4",)
    assert file.execute("SELECT count(*) FROM more").fetchone() == (0,)
    columns = [row[1] for row in file.execute("PRAGMA table_info(ids)")]
    assert columns == ["id", "status", "value", "label", "purged", "seq"]
    file.close()


@pytest.mark.parametrize("number", [1, 2])
def test_files_of_all_formats_open(tmp_path, number):
    from fixtures.make_format_2 import EXPECTED, REQUEST, describe

    path = tmp_path / "a.db"
    fixture = FIXTURES / f"format_{number}.db"
    path.write_bytes(fixture.read_bytes())
    with FactStore(path) as store:
        assert describe(store) == EXPECTED
        assert store.requests.find("key") == (REQUEST if number == 2 else None)
        assert store.fact(4).body == b"fourth"
    assert fixture.stat().st_size < 60_000


def test_nothing_is_left_beside_a_closed_file(tmp_path):
    with open_store(tmp_path / "a.db") as store:
        decide(store, "a")
        assert (tmp_path / "a.db-lock").read_text().strip() == str(os.getpid())
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    assert CONFIG in (tmp_path / "a.db").read_bytes()
