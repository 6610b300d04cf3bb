"""`delaytron verify`, `export` and `compact` on real journals: closed, damaged, and being written."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import changing as drifting
import delaytron as dt
from delaytron import cli
from delaytron.cli import outputs
from delaytron.model import engine, facts
from delaytron.model.verify import verify_journal

CLASSES = ["small", "medium", "large"]
LIVE = """
import sys
import delaytron as dt
model = dt.Model(classes=["a", "b"], features=2, journal=sys.argv[1], seed=3)
for i in range(10**9):
    model.feedback(model.decide([i % 2, 1.0], id=f"r{i}").id, correct=i % 3 == 0)
    if i == 20:
        print("ready", flush=True)
"""


def delaytron(*args):
    return CliRunner().invoke(cli.app, list(map(str, args)), prog_name="delaytron", env={"COLUMNS": "100"})


def document_of(*args, code=0):
    result = delaytron(*args, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def play(model, first, last):
    """Decide with late answers, wrong ones, cancelled ones, and classes that come and go."""
    rng = np.random.default_rng(first)
    for i in range(first, last):
        allowed = ["small", "large"] if i % 5 == 0 else None
        model.decide(rng.normal(size=3), id=f"r{i}", allowed=allowed)
        if i % 3 == 0 and i >= 4:
            model.feedback(f"r{i - 4}", reward=round(float(rng.random()), 3))
        if i % 11 == 0:
            model.cancel(f"r{i}")
        if i == 15:
            model.add_class("huge")
        if i == 18:
            model.retire_class("medium")


def make(path, **options):
    with dt.Model(CLASSES, features=3, journal=path, seed=5, expire_after=9, **options) as model:
        play(model, 0, 40)
        return model.digest()


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A journal that was closed; three snapshots were taken, of which two are kept."""
    path = tmp_path_factory.mktemp("closed") / "router.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FACTS_A_SNAPSHOT", 30)
        make(path, on_expiry="wrong")
    return path


@pytest.fixture
def journal(closed, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copy(closed, tmp_path / "router.db")


def execute(path, sql, *values):
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute(sql, values).fetchall()
    connection.close()
    return rows


class TestVerify:
    def test_a_good_journal_agrees(self, tmp_path):
        digest = make(tmp_path / "a.db")
        found = document_of("verify", tmp_path / "a.db")
        kinds = dict(execute(tmp_path / "a.db", "SELECT kind, count(*) FROM facts GROUP BY kind"))
        assert found["facts"] == {facts.KINDS[kind]: count for kind, count in kinds.items()}
        assert found["hash"] == digest
        assert (found["agrees"], found["mismatch"], found["snapshots"], found["purged"]) == (True, None, 1, 0)
        assert (found["decided"], found["replayed_after"], found["replayed"]) == (40, 0, sum(kinds.values()))
        assert found["decided"] == sum(found[name] for name in ("answered", "expired", "cancelled", "open"))

    def test_the_table_says_so(self, journal):
        result = delaytron("verify", journal)
        assert result.exit_code == 0
        assert result.stdout.splitlines()[-1] == "the journal and the state agree"
        assert "facts: decided" in result.stdout
        assert "facts replayed, from the first" in result.stdout
        assert document_of("verify", journal)["hash"][:32] in result.stdout

    def test_the_accuracy_and_its_bounds_are_shown(self, tmp_path):
        with dt.Model(["a", "b"], features=1, journal=tmp_path / "a.db", learner="delaytron", seed=1) as model:
            made = [model.decide([1.0]) for _ in range(4)]
            model.feedback(made[0].id, reward=0.5)
        found = document_of("verify", tmp_path / "a.db")
        assert [found[f"accuracy{end}"] for end in ("", "_low", "_high")] == [0.5, 0.125, 0.875]
        assert found["drift"] is None
        table = delaytron("verify", tmp_path / "a.db").stdout
        assert re.search(r"accuracy so far, all open ones wrong\s+0\.1250\s*\n", table)
        assert "challengers" not in table

    def test_challengers_are_counted(self, tmp_path):
        with dt.Model(drifting.CLASSES, journal=tmp_path / "a.db", durability="batched", **drifting.OPTIONS) as model:
            drifting.answered(model, "broken", drifting.CALM + drifting.FALSE)
            drift = model.stats().drift
        assert drift.born > 0
        found = document_of("verify", tmp_path / "a.db")["drift"]
        assert found == drift._asdict() | {"changed_at": drift.changed_at.isoformat()}
        table = delaytron("verify", tmp_path / "a.db").stdout
        assert re.search(rf"challengers: born\s+{drift.born}\s*\n", table)

    def test_every_snapshot_that_is_kept_is_checked(self, journal):
        assert document_of("verify", journal)["snapshots"] == 2

    def test_nothing_is_changed(self, journal):
        before = journal.read_bytes()
        delaytron("verify", journal)
        assert journal.read_bytes() == before

    def test_an_answer_that_waits_in_the_inbox_agrees(self, journal):
        with dt.Journal(journal) as other:
            assert other.feedback("r39", reward=0.25) == "accepted"
        found = document_of("verify", journal)
        assert found["agrees"]
        with dt.Model.open(journal) as model:
            model.digest()
        assert document_of("verify", journal)["answered"] == found["answered"] + 1

    @pytest.mark.parametrize("learner", ["perceptron", "pab"])
    def test_learners_that_learn_from_labels_or_take_no_rewards(self, tmp_path, learner):
        with dt.Model(CLASSES, learner=learner, journal=tmp_path / "a.db", seed=1) as model:
            for i in range(20):
                model.decide({"text": f"word{i % 3} and more", "n": i}, id=f"r{i}")
                model.feedback(f"r{i}", label=CLASSES[i % 3])
            digest = model.digest()
            assert document_of("verify", tmp_path / "a.db")["hash"] == digest

    def test_a_changed_byte_is_named_by_its_fact(self, journal):
        ((seq, body),) = execute(journal, "SELECT seq, body FROM facts WHERE kind = ? LIMIT 1 OFFSET 20", facts.DECIDED)
        fact = facts.decode_decided(body)
        place = body.index(fact.values) + 6
        execute(journal, "UPDATE facts SET body = ? WHERE seq = ?", flipped(body, place, 4), seq)
        result = delaytron("verify", journal)
        assert result.exit_code == 1
        assert f"the journal and the state do not agree: the checksum of fact {seq} is wrong" in result.stdout
        found = document_of("verify", journal, code=1)
        assert (found["agrees"], found["hash"], found["mismatch"]["fact"]) == (False, None, seq)

    @given(data=st.data())
    def test_any_changed_bit_of_any_fact_is_found(self, closed, tmp_path_factory, data):
        path = shutil.copy(closed, tmp_path_factory.mktemp("changed") / "router.db")
        rows = execute(path, "SELECT seq, body FROM facts WHERE length(body) > 0")
        seq, body = data.draw(st.sampled_from(rows))
        place = data.draw(st.integers(0, len(body) - 1))
        changed = flipped(body, place, data.draw(st.integers(0, 7)))
        execute(path, "UPDATE facts SET body = ? WHERE seq = ?", changed, seq)
        found = verify_journal(path)
        assert found.hash is None
        assert found.mismatch.fact == seq

    @pytest.mark.parametrize(
        ("sql", "words"),
        [
            ("DELETE FROM facts WHERE seq = 20", "fact 20 is missing"),
            ("DELETE FROM facts WHERE seq = (SELECT max(seq) FROM facts)", "is missing"),
            ("UPDATE facts SET kind = 99 WHERE seq = 20", "the checksum of fact 20 is wrong"),
            ("UPDATE facts SET id = 'r999' WHERE seq = 2", "the checksum of fact 2 is wrong"),
            ("UPDATE facts SET id = NULL WHERE seq = 2", "the checksum of fact 2 is wrong"),
            ("UPDATE facts SET clock = clock + 1 WHERE id = 'r39'", "the checksum of fact"),
            ("UPDATE facts SET checksum = checksum + 1 WHERE seq = 20", "the checksum of fact 20 is wrong"),
            (
                "UPDATE ids SET value = 0.5 WHERE id = 'r5'",
                "'r5') does not agree: the table of ids has label",
            ),
            ("UPDATE ids SET label = (label + 1) % 3 WHERE id = 'r7'", "(decided of decision 'r7')"),
            ("UPDATE ids SET status = 0, value = NULL WHERE id = 'r11'", "(cancelled of decision 'r11')"),
            ("UPDATE ids SET status = 2 WHERE id = 'r39'", "decision 'r39' is open by the facts only"),
            (
                "INSERT INTO ids VALUES ('new', 0, NULL, 0, 0, 0, NULL, NULL)",
                "decision 'new' is open by the table of ids only",
            ),
            ("INSERT INTO ids VALUES ('new', 1, 1.0, 0, 0, 0, NULL, NULL)", "the table of ids has 41"),
            ("DELETE FROM ids WHERE id = 'r8'", "(decided of decision 'r8')"),
            ("UPDATE snapshots SET body = zeroblob(100)", "the snapshot after fact"),
            ("UPDATE meta SET value = '[\"a\", \"b\"]' WHERE name = 'classes'", "the journal lists the classes"),
        ],
    )
    def test_what_is_changed_elsewhere_is_found(self, journal, sql, words):
        execute(journal, sql)
        found = document_of("verify", journal, code=1)
        assert words in found["mismatch"]["reason"]

    def test_snapshots_of_another_state_are_found(self, journal):
        (newest, older) = execute(journal, "SELECT body, seq FROM snapshots ORDER BY seq")
        execute(journal, "UPDATE snapshots SET body = ? WHERE seq = ?", older[0], newest[1])
        mismatch = document_of("verify", journal, code=1)["mismatch"]
        assert mismatch["fact"] == newest[1]
        assert "has the hash" in mismatch["reason"]

    def test_a_damaged_file_is_found(self, journal):
        ((root,),) = execute(journal, "SELECT rootpage FROM sqlite_schema WHERE name = 'facts'")
        content = bytearray(journal.read_bytes())
        content[4096 * (root - 1) : 4096 * root] = bytes(4096)
        journal.write_bytes(content)
        found = document_of("verify", journal, code=1)
        assert "SQLite finds the file damaged" in found["mismatch"]["reason"]

    def test_another_seed_in_the_configuration_is_found(self, journal):
        ((config,),) = execute(journal, "SELECT value FROM meta WHERE name = 'config'")
        changed = config.replace(b'"seed": 5', b'"seed": 6')
        execute(journal, "UPDATE meta SET value = ? WHERE name = 'config'", changed)
        mismatch = document_of("verify", journal, code=1)["mismatch"]
        assert (mismatch["fact"], changed != config) == (1, True)

    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ("{}", "has no configuration that this version can read"),
            ('{"recipe": {"asked": {}, "learner": {}}}', "has no configuration that this version can read"),
            ("no JSON", "is damaged (JSONDecodeError "),
            ("[]", "is damaged (TypeError the configuration is no object); restore it from a backup"),
        ],
    )
    @pytest.mark.parametrize("command", ["verify", "export"])
    def test_a_configuration_that_cannot_be_read_is_one_line(self, journal, tmp_path, command, config, words):
        execute(journal, "UPDATE meta SET value = ? WHERE name = 'config'", config.encode())
        result = delaytron(command, journal, *[tmp_path / "o.parquet"][: command == "export"])
        assert result.exit_code == 2
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_a_long_one_shows_how_far_it_is(self, journal, monkeypatch):
        monkeypatch.setattr(outputs, "LONG", 50)
        monkeypatch.setattr("delaytron.model.verify.STEP", 3)
        lines = delaytron("verify", journal).stderr.splitlines()
        count = document_of("verify", journal)["replayed"]
        assert lines[-1] == f"delaytron: 100 % of {count} facts"
        assert len(lines) == 10


def flipped(body, place, bit):
    changed = bytearray(body)
    changed[place] ^= 1 << bit
    return bytes(changed)


class TestExport:
    def test_every_decision_is_a_row(self, journal, tmp_path):
        result = delaytron("export", journal, tmp_path / "out.parquet")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("wrote 40 decisions, ")
        rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["id"] for row in rows] == [f"r{i}" for i in range(40)]
        assert [row["round"] for row in rows] == list(range(1, 41))
        rng = np.random.default_rng(0)
        for i, row in enumerate(rows):
            assert row["features"] == rng.normal(size=3).tolist()
            every = [0, 1, 2] if i <= 15 else None if i <= 18 else [0, 2, 3]
            assert row["allowed"] == ([0, 2] if i % 5 == 0 else every)
            if i % 3 == 0 and i >= 4 and rows[i - 4]["status"] == "answered":
                assert rows[i - 4]["outcome"] == round(float(rng.random()), 3)
            elif i % 3 == 0 and i >= 4:
                rng.random()
        assert {row["status"] for row in rows} == {"open", "answered", "expired", "cancelled"}

    def test_it_is_what_the_model_decided(self, tmp_path):
        with dt.Model([10, 20], journal=tmp_path / "a.db", seed=1) as model:
            made = [model.decide({"tenant": "a", "n": i + 1, "zero": 0}) for i in range(5)]
            model.feedback(made[0].id, correct=True)
            model.cancel(made[1].id)
            with dt.Journal(tmp_path / "a.db") as other:
                other.feedback(made[2].id, label=20)
            document = document_of("export", tmp_path / "a.db", tmp_path / "o.parquet")
        table = pq.read_table(tmp_path / "o.parquet")
        assert document["bytes"] == (tmp_path / "o.parquet").stat().st_size
        assert (document["decided"], document["purged"]) == (5, 0)
        for row, decision in zip(table.to_pylist(), made, strict=True):
            assert (row["id"], row["round"], row["prob"]) == (decision.id, decision.round, decision.prob)
            assert [[10, 20][row[name]] for name in ("label", "greedy")] == [decision.label, decision.greedy]
            assert sorted(map(abs, row["features"]["values"])) == sorted([1.0, decision.round])
            assert len(row["features"]["indices"]) == 2
            assert row["learner"] == dt.DEFAULT_LEARNER
            assert timedelta(0) <= datetime.now(UTC) - row["decided_at"] < timedelta(minutes=10)
            assert row["received_at"] is None or row["received_at"] >= row["decided_at"]
        assert table["status"].to_pylist() == ["answered", "cancelled", "answered", "open", "open"]
        assert table["outcome"].to_pylist() == [1.0, None, float(made[2].label == 20), None, None]
        assert [time is None for time in table["received_at"].to_pylist()] == [False, True, False, True, True]
        assert [time is None for time in table["ended_at"].to_pylist()] == [False, False, False, True, True]
        log = dt.logs.read_parquet(tmp_path / "o.parquet")
        assert (log.classes, log.n_features, log.features.shape) == ((10, 20), 2**18, (5, 2**18))
        assert log.until == max(log.decided_at.max(), table["ended_at"].cast("int64").to_pandas().max())

    def test_row_groups_bound_the_memory(self, journal, tmp_path, monkeypatch):
        monkeypatch.setattr("delaytron.model.export.GROUP", 16)
        delaytron("export", journal, tmp_path / "out.parquet")
        assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3

    def test_labels_are_exported_as_rewards(self, tmp_path):
        with dt.Model(CLASSES, learner="perceptron", features=2, journal=tmp_path / "a.db", seed=1) as model:
            label = model.decide([1.0, 2.0], id="right").label
            model.feedback("right", label=label)
            played = model.decide([1.0, 2.0], id="wrong").label
            model.feedback("wrong", label=next(name for name in CLASSES if name != played))
        delaytron("export", tmp_path / "a.db", tmp_path / "o.parquet")
        assert pq.read_table(tmp_path / "o.parquet")["outcome"].to_pylist() == [1.0, 0.0]

    def test_names_that_are_texts_and_numbers_become_texts(self, tmp_path):
        with dt.Model(["a", 7], features=1, journal=tmp_path / "a.db", seed=1) as model:
            label = model.decide([1.0], allowed=[7]).label
        assert label == 7
        delaytron("export", tmp_path / "a.db", tmp_path / "o.parquet")
        log = dt.logs.read_parquet(tmp_path / "o.parquet")
        assert (log.classes, log.labels.tolist(), log.allowed.tolist()) == (("a", "7"), [1], [[False, True]])

    def test_classes_that_come_and_go_are_allowed_while_they_are_there(self, tmp_path):
        with dt.Model(["a", "b"], features=1, journal=tmp_path / "a.db", seed=1) as model:
            model.decide([1.0])
            model.add_class("c")
            model.decide([1.0])
            model.retire_class("a")
            model.decide([1.0])
            model.add_class("a")
            model.decide([1.0], allowed=["b", "c"])
            model.decide([1.0])
        delaytron("export", tmp_path / "a.db", tmp_path / "o.parquet")
        log = dt.logs.read_parquet(tmp_path / "o.parquet")
        assert log.classes == ("a", "b", "c")
        assert ["".join("abc"[k] for k in row.nonzero()[0]) for row in log.allowed] == ["ab", "abc", "bc", "bc", "abc"]

    def test_a_journal_without_decisions_is_an_empty_table(self, tmp_path):
        dt.Model(["a", "b"], journal=tmp_path / "a.db").close()
        assert document_of("export", tmp_path / "a.db", tmp_path / "o.parquet")["decided"] == 0
        assert pq.read_table(tmp_path / "o.parquet").num_rows == 0

    def test_damage_leaves_the_old_file(self, journal, tmp_path):
        (tmp_path / "out.parquet").write_bytes(b"old")
        execute(journal, "UPDATE facts SET body = x'93' WHERE seq = 20 AND kind = 1")
        execute(journal, "UPDATE facts SET body = x'93' WHERE seq = (SELECT max(seq) FROM facts WHERE kind = 1)")
        result = delaytron("export", journal, tmp_path / "out.parquet")
        assert result.exit_code == 2
        assert "is damaged" in result.stderr
        assert (tmp_path / "out.parquet").read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir() if "out.parquet" in path.name] == ["out.parquet"]


class TestCompact:
    def test_what_is_settled_goes_and_stays_known(self, journal):
        before = document_of("verify", journal)
        found = document_of("compact", journal, "--older-than", "0.001s")
        assert found["facts_before"] == sum(before["facts"].values())
        assert found["facts_after"] < found["facts_before"]
        assert found["bytes_after"] == journal.stat().st_size
        after = document_of("verify", journal)
        assert after["agrees"]
        assert sum(after["facts"].values()) == found["facts_after"]
        assert after["hash"] == before["hash"]
        correctable = before["expired"]  # as wrong, and not for longer than correct_within
        assert after["purged"] == before["decided"] - before["open"] - correctable > 0
        assert after["facts"]["decided"] == before["open"] + correctable
        with dt.Model.open(journal) as model:
            assert model.digest() == before["hash"]
            assert model.feedback("r11", correct=True) == "cancelled"
            with pytest.raises(dt.ConflictingDecision, match="issued before, and its decision was purged"):
                model.decide([0, 0, 1], id="r11")

    def test_what_comes_after_it_is_replayed_from_the_snapshot(self, journal):
        document_of("compact", journal, "--older-than", "0.001s")
        last = execute(journal, "SELECT max(seq) FROM snapshots")[0][0]
        with dt.Model.open(journal) as model:
            play(model, 40, 60)
        found = document_of("verify", journal)
        assert found["agrees"]
        assert (found["replayed_after"], found["snapshots"], found["decided"]) == (last, 2, 60)
        execute(journal, "DELETE FROM facts WHERE seq = ?", last + 5)
        assert "there are facts of" in document_of("verify", journal, code=1)["mismatch"]["reason"]

    def test_a_large_journal_becomes_smaller(self, tmp_path):
        with dt.Model(["a", "b"], features=200, journal=tmp_path / "a.db", seed=1) as model:
            for decision in model.decide_many(np.ones((300, 200))):
                model.feedback(decision.id, correct=True)
        result = delaytron("compact", tmp_path / "a.db", "--older-than", "0.001s")
        assert [line.split()[:3] for line in result.stdout.splitlines()[2:3]] == [["facts", "601", "1"]]
        found = document_of("compact", tmp_path / "a.db", "--older-than", "0.001s")
        assert found["facts_before"] == found["facts_after"] == 1
        assert found["bytes_after"] < 300 * 200 * 8

    def test_what_is_young_stays(self, journal):
        found = document_of("compact", journal, "--older-than", "1d")
        assert found["facts_before"] == found["facts_after"]
        assert document_of("verify", journal)["replayed_after"] == 0

    def test_export_counts_purged_decisions(self, journal, tmp_path):
        delaytron("compact", journal, "--older-than", "0.001s")
        result = delaytron("export", journal, tmp_path / "out.parquet")
        assert "more were dropped by `delaytron compact`" in " ".join(result.stdout.split())


class TestLive:
    @pytest.fixture
    def live(self, tmp_path):
        """A journal that a process is writing."""
        command = [sys.executable, "-c", LIVE, str(tmp_path / "a.db")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        yield tmp_path / "a.db", process
        process.kill()
        process.wait()
        process.stdout.close()

    def test_a_journal_can_be_checked_and_exported_while_it_is_written(self, live, tmp_path):
        path, process = live
        counts = []
        for _ in range(3):
            found = document_of("verify", path)
            assert found["agrees"]
            assert document_of("export", path, tmp_path / "o.parquet")["decided"] >= found["decided"]
            counts.append(found["decided"])
        assert counts[0] < counts[-1]
        assert process.poll() is None

    def test_compacting_is_refused(self, live):
        path, process = live
        result = delaytron("compact", path, "--older-than", "30d")
        assert result.exit_code == 2
        assert f"in use by process {process.pid}" in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_after_a_kill_it_agrees(self, live):
        path, process = live
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = document_of("verify", path)
        assert found["agrees"]
        with dt.Model.open(path) as model:
            assert model.digest() == found["hash"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["verify", "absent.db"], "/absent.db; give the path of one that dt.Model has created"),
            (["verify", "text.db"], "not a journal: it is no SQLite file; give another path"),
            (["verify", "."], "folder"),
            (["verify"], "Missing argument"),
            (["export", "absent.db", "o.parquet"], "there is no journal"),
            (["export", "text.db", "o.parquet"], "not a journal"),
            (["export", "text.db", "o.csv"], "got the file 'o.csv'; give one that ends in .parquet"),
            (["export", "text.db", "nowhere/o.parquet"], "there is no folder 'nowhere'"),
            (["compact", "absent.db", "--older-than", "1d"], "there is no journal"),
            (["compact", "text.db", "--older-than", "1d"], "not a journal"),
            (["compact", "text.db", "--older-than", "soon"], "such as '12h', '30d' or '8w', got 'soon'"),
            (["compact", "text.db", "--older-than", "30"], "got '30'"),
            (["compact", "text.db", "--older-than", "0d"], "above 0"),
            (["compact", "text.db"], "--older-than"),
        ],
    )
    def test_it_is_one_line(self, tmp_path, monkeypatch, args, words):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "text.db").write_text("this is no database, but a text that is long enough\n" * 20)
        result = delaytron(*args)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert words in result.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["text.db"]

    @pytest.mark.parametrize("command", ["verify", "export", "compact"])
    def test_help_has_an_example(self, command):
        assert f"delaytron {command} router.db" in delaytron(command, "--help").stdout
