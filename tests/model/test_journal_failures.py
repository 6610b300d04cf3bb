"""What fails or is interrupted changes nothing; what is damaged is refused."""

import sqlite3

import numpy as np
import pytest
from models import CLASSES, abandon, clock_fixture, learner_of, replayed_digest, small_model, work  # noqa: F401

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal import FactStore
from delaytron.journal.database import Database
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED
from delaytron.model import facts, keeper

WORDS = {"learner": "delaytron", "bits": 6, "seed": 3, "gamma": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "router.db"


CALLS = {
    "decide": lambda model: model.decide([1, 5], id="new"),
    "many": lambda model: model.decide_many([[1, 5]] * 3),
    "feedback": lambda model: model.feedback("1", correct=True),
    "cancel": lambda model: model.cancel("1"),
    "add": lambda model: model.add_class("huge"),
    "retire": lambda model: model.retire_class("small"),
    "expire": lambda model: model.decide([1, 6], id="newer"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("method", ["execute", "commit"])
def test_a_failing_disk_changes_nothing(path, monkeypatch, clock, call, method):
    model, twin = small_model(journal=path, expire_after=5), small_model(expire_after=5)
    for one in (model, twin):
        for t in range(5):
            one.decide([1, t], id=str(t))
        one.feedback("0", correct=True)
    for countdown in range(100):
        before = model.digest()
        waiting = model.open_decisions()
        with monkeypatch.context() as patch:
            fail_after(patch, method, countdown)
            try:
                call(model)
                break
            except JournalError as problem:
                message = str(problem)
        assert "disk is full" in message
        assert "\n" not in message
        assert model.open_decisions() == waiting
        assert model.digest() == before
    assert 0 < countdown < 99
    call(twin)
    for one in (model, twin):
        assert one.stats().decisions == twin.stats().decisions
        one.decide([1, 7], id="last")
    if call is not CALLS["many"]:  # their ids are random
        assert model.digest() == twin.digest()
    model.close()
    with dt.Model.open(path) as again:
        digest = again.digest()
    assert replayed_digest(path) == digest


def fail_after(patch, method, countdown):
    """Let the n-th call of a method of the database fail."""
    whole = getattr(Database, method)
    calls = iter(range(10**6))
    patch.setattr(
        Database,
        method,
        lambda self, *given: self._guarded(raise_full) if next(calls) == countdown else whole(self, *given),
    )


def raise_full():
    problem = sqlite3.OperationalError("database or disk is full")
    problem.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise problem


PLACES = ["append", "settle", "open_id", "set_classes", "inbox", "put_snapshot"]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [False, True])
def test_an_interruption_leaves_the_model_in_step(path, monkeypatch, call, place, after):
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", 3)
    model = small_model(journal=path, expire_after=5)
    for t in range(5):
        model.decide([1, t], id=str(t))
    digest = model.digest()
    with monkeypatch.context() as patch:
        interrupt(patch, place, after)
        try:
            call(model)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    assert (model.digest() == digest) is interrupted
    for t in range(10, 15):
        model.feedback(model.decide([1, t]).id, correct=True)
    digest = model.digest()
    model.close()
    assert replayed_digest(path) == digest


def interrupt(patch, place, after):
    """Let Ctrl-C come before or after a call of the store."""
    whole = getattr(FactStore, place)

    def interrupted(*given, **more):
        if after:
            whole(*given, **more)
        raise KeyboardInterrupt

    patch.setattr(FactStore, place, interrupted)


IN_CORE = {"decide": "decide", "answer": "feedback", "expire": "expire", "cancel": "cancel", "retire_class": "retire"}


PROBLEMS = [(name, kind) for name in IN_CORE for kind in (KeyboardInterrupt, ValueError, dt.InvalidInput)]


@pytest.mark.parametrize(("name", "problem"), [*PROBLEMS, ("add_class", KeyboardInterrupt), ("add_class", ValueError)])
def test_what_was_changed_and_not_written_is_undone(path, monkeypatch, name, problem):
    model = small_model(journal=path, expire_after=5 if name == "expire" else None)
    for t in range(5):
        model.decide([1, t], id=str(t))
    digest = model.digest()
    core = type(model._keeper.core)
    whole = getattr(core, name)

    def interrupted(*given):
        whole(*given)
        raise problem("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(core, name, interrupted)
        with pytest.raises(problem, match="interrupted"):
            CALLS[IN_CORE.get(name, "add")](model)
    assert model.digest() == digest
    model.decide([1, 9])
    digest = model.digest()
    abandon(model)
    assert replayed_digest(path) == digest


@pytest.mark.parametrize("name", [*IN_CORE, "add_class"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_model_in_memory_goes_on(monkeypatch, name, after):
    model = small_model(expire_after=5)
    for t in range(5):
        model.decide([1, t], id=str(t))
    core = type(model._keeper.core)
    whole = getattr(core, name)

    def interrupted(*given):
        if after:
            whole(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(core, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            CALLS[IN_CORE.get(name, "add")](model)
    ids = [model.decide([1, t]).id for t in range(20)]
    assert {model.feedback(issued, correct=True) for issued in ids[-5:]} == {"accepted"}
    assert model.open_decisions() == []
    told = model.stats()
    known = [status.status for status in model._keeper.store.ids.values()]
    assert [known.count(status) for status in (ANSWERED, EXPIRED, CANCELLED)] == [
        told.answered,
        told.expired,
        told.cancelled,
    ]
    model.add_class("more")
    assert "more" in model.classes
    assert learner_of(model).n_classes == len(model._keeper.core.classes.names)


def test_what_was_acknowledged_and_lost_is_told(path, monkeypatch, clock):
    model, twin = small_model(journal=path, durability="batched"), small_model()
    assert model.at_risk == (0.05, 1000)
    for one in (model, twin):
        work(one, 0, 5)
    model._keeper.store._group._commit_now()
    kept = twin.digest()
    with monkeypatch.context() as patch:
        patch.setattr(Database, "commit", lambda self: self._guarded(raise_full))
        model._keeper.store._group._seconds = 60.0  # on a slow machine the call itself might end the batch
        model.decide([1, 5], id="5")
        model._keeper.store._group._commit_now()
    with pytest.raises(JournalError, match="they are lost"):
        model.decide([1, 0])
    assert model.digest() == kept
    for one in (model, twin):
        work(one, 5, 12)
    assert model.digest() == twin.digest()
    model.close()
    assert replayed_digest(path) == twin.digest()


def test_a_closed_model_says_so(path):
    model = small_model(journal=path)
    model.decide([1, 0])
    assert model.at_risk == (0.0, 0)
    model.close()
    model.close()
    for call in (lambda: model.decide([1, 0]), lambda: model.feedback("a", correct=True), model.digest):
        with pytest.raises(JournalError, match="is closed; open it again"):
            call()


def change_fact(path, kind, change):
    with sqlite3.connect(path) as connection:
        seq, body = connection.execute(
            "SELECT seq, body FROM facts WHERE kind = ? LIMIT 1 OFFSET 2", (kind,)
        ).fetchone()
        connection.execute("UPDATE facts SET body = ? WHERE seq = ?", (change(body), seq))
        connection.execute("DELETE FROM snapshots")
    connection.close()
    return seq


@pytest.mark.parametrize("features", ["hashed", 2])
def test_no_damage_of_a_decision_goes_unnoticed_or_crashes(path, features):
    x = [1.0, 2.0] if features == 2 else {"a": 1.0, "b": 2.0}
    with dt.Model(CLASSES, journal=path, features=features, **WORDS) as model:
        for _ in range(5):
            model.feedback(model.decide(x, allowed=["small", "large"]).id, correct=True)
        digest = model.digest()
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for _ in range(50):
        place, bit = int(rng.integers(10**6)), int(rng.integers(8))

        def flip(body, place=place, bit=bit):
            at = place % len(body)
            return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]

        path.write_bytes(whole)
        seq = change_fact(path, facts.DECIDED, flip)
        try:
            dt.Model.open(path).close()
        except JournalError as problem:
            noticed += f"fact {seq} " in str(problem)
    assert noticed > 10
    path.write_bytes(whole)
    with dt.Model.open(path) as again:
        assert again.digest() == digest


def test_facts_of_another_kind_or_without_a_decision_are_refused(path):
    with small_model(journal=path) as model:
        model.decide([1, 0], id="a")
        model.feedback("a", correct=True)
    for change, words in {
        "kind = 77 WHERE kind = 2": "unknown kind 77; update",
        "id = NULL WHERE kind = 77": "unknown kind",
        "kind = 2 WHERE kind = 77": "names no decision",
        "id = 'b' WHERE kind = 2": "is damaged",
    }.items():
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE facts SET {change}")  # noqa: S608
            connection.execute("DELETE FROM snapshots")
        connection.close()
        with pytest.raises(JournalError, match=words):
            dt.Model.open(path)
