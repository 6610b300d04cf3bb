"""Files of every format there was are read, those of formats to come are refused; what is settled may go."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from models import abandon, clock_fixture, learner_of, replayed_digest, small_model  # noqa: F401

import delaytron as dt
from delaytron.files.tensors import pack_tensors, unpack_tensors
from delaytron.journal import FactStore
from delaytron.model import keeper

FIXTURES = Path(__file__).parent / "fixtures"
WEIGHTS = json.loads((FIXTURES / "model_1.json").read_text())


def check_first_format(model):
    assert learner_of(model).weights.tolist() == WEIGHTS
    assert model.classes == ["medium", "large", "huge"]
    assert model.stats().decisions == 14
    assert set(model.explain({"a": 1}).features) == {"a or text=word1"}  # at one place of 16
    assert model.feedback("req-0", correct=True) == "expired"
    assert model.feedback("req-6", correct=True) == "cancelled"
    assert model.feedback("req-7", reward=0.5) == "duplicate"
    assert model.decide({"a": 1}).round == 15


def test_a_journal_of_the_first_format_goes_on(tmp_path, clock):
    path = shutil.copy(FIXTURES / "model_1.db", tmp_path)
    clock.pass_time(140)
    replayed = replayed_digest(path)
    with dt.Model.open(path) as model:
        assert model.digest() == replayed
        check_first_format(model)


def test_a_model_file_of_the_first_format_goes_on(clock):
    clock.pass_time(140)
    check_first_format(dt.load(FIXTURES / "model_1.safetensors"))


def test_a_model_file_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "m"
    small_model().save(path)
    texts, tensors = unpack_tensors(path.read_bytes(), "")
    head, content = pack_tensors(tensors, texts | {"format": "delaytron-model-2"})
    path.write_bytes(head + bytes(content))
    with pytest.raises(dt.InvalidInput, match=r"of format 'delaytron-model-2', .*; update delaytron"):
        dt.load(path)


def test_a_journal_of_something_else_is_refused(tmp_path):
    FactStore(tmp_path / "a.db", config=json.dumps({"classes": ["a", "b"]}).encode()).close()
    for make in (dt.Model.open, lambda path: small_model(journal=path)):
        with pytest.raises(dt.InvalidInput, match="not the journal of a model"):
            make(tmp_path / "a.db")


def test_a_damaged_snapshot_is_refused(tmp_path):
    with small_model(journal=tmp_path / "a.db") as model:
        model.decide([1, 0])
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE snapshots SET body = substr(body, 1, 50)")
    connection.close()
    with pytest.raises(dt.InvalidInput, match="snapshot at fact 2 is damaged"):
        dt.Model.open(tmp_path / "a.db")


@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
def test_what_is_settled_may_go_and_is_remembered(tmp_path, clock, monkeypatch, on_expiry):
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", 10)
    path = tmp_path / "a.db"
    model = small_model(journal=path, expire_after="60s", on_expiry=on_expiry)
    for t in range(20):
        model.decide([1, t], id=str(t))
        clock.pass_time(10)
        if t % 3 == 0:
            model.feedback(str(t), correct=True)
        elif t % 3 == 1:
            model.cancel(str(t))
    digest = model.digest()
    model.close()
    with FactStore(path) as store:
        assert store.compact(store.last_seq + 1, store.now().clock + 1) > 30
    with dt.Model.open(path) as again:
        assert again.digest() == digest
        assert again.feedback("0", correct=True) == "duplicate"
        assert again.feedback("1", correct=True) == "cancelled"
        assert again.feedback("2", correct=True) == "expired"
        with pytest.raises(dt.InvalidInput, match="issued before"):
            again.decide([1, 0], id="0")
        again.feedback(again.decide([1, 0]).id, correct=True)
        digest = again.digest()
        abandon(again)
    with dt.Model.open(path) as again:
        assert again.digest() == digest
