"""What fails or is interrupted changes nothing; what is damaged is refused."""

import sqlite3
from threading import current_thread, main_thread

import msgspec
import numpy as np
import pytest
from models import CLASSES, abandon, learner_of, replayed_digest, small_model, work

import delaytron as dt
from delaytron.answers import Status
from delaytron.errors import JournalError
from delaytron.journal.database import Database
from delaytron.journal.sqlite import SqliteStore, checksum
from delaytron.model import engine, facts
from delaytron.model.state import State
from delaytron.model.verify import verify_journal

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
        waiting, classes = model.open_decisions(), model.classes
        with monkeypatch.context() as patch:
            fail_after(patch, method, countdown)
            try:
                call(model)
                break
            except JournalError as problem:
                message = str(problem)
        assert "disk is full" in message
        assert "\n" not in message
        assert model.classes == classes  # first: the state is restored by whoever reads it
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
        lambda self, *given: self._attempt(raise_full) if next(calls) == countdown else whole(self, *given),
    )


def raise_full(_):
    problem = sqlite3.OperationalError("database or disk is full")
    problem.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise problem


PLACES = ["append", "set_status", "issue", "set_meta", "take_inbox", "commit"]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [False, True])
def test_an_interruption_leaves_the_model_in_step(path, monkeypatch, call, place, after):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 3)
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
    if (place, after) != ("commit", True):  # then it is on disk, and only its caller does not know
        assert (model.digest() == digest) is interrupted
    for t in range(10, 15):
        model.feedback(model.decide([1, t]).id, correct=True)
    digest = model.digest()
    model.close()
    assert replayed_digest(path) == digest


def interrupt(patch, place, after):
    """Let Ctrl-C come before or after a call of the store."""
    whole = getattr(SqliteStore, place)

    def interrupted(*given, **more):
        if current_thread() is not main_thread():  # that of a snapshot is not interrupted by Ctrl-C
            return whole(*given, **more)
        if after:
            whole(*given, **more)
        raise KeyboardInterrupt

    patch.setattr(SqliteStore, place, interrupted)


APPLIED = {
    facts.Decide: "decide",
    facts.Answer: "feedback",
    facts.Expire: "expire",
    facts.Cancel: "cancel",
    facts.AddClass: "add",
    facts.RetireClass: "retire",
}


def interrupt_apply(patch, kind, problem, after):
    """Let `State.apply` raise before or after it has applied an operation of this kind."""
    whole = State.apply

    def interrupted(state, operation, now):
        result = whole(state, operation, now) if after or not isinstance(operation, kind) else None
        if isinstance(operation, kind):
            raise problem("interrupted", "try again")
        return result

    patch.setattr(State, "apply", interrupted)


@pytest.mark.parametrize("kind", APPLIED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError, dt.InvalidInput])
def test_what_was_changed_and_not_written_is_undone(path, monkeypatch, kind, problem):
    model = small_model(journal=path, expire_after=5 if kind is facts.Expire else None)
    for t in range(5):
        model.decide([1, t], id=str(t))
    digest = model.digest()
    with monkeypatch.context() as patch:
        interrupt_apply(patch, kind, problem, after=True)
        with pytest.raises(problem, match="interrupted"):
            CALLS[APPLIED[kind]](model)
    assert model.digest() == digest
    model.decide([1, 9])
    digest = model.digest()
    abandon(model)
    assert replayed_digest(path) == digest


@pytest.mark.parametrize("kind", APPLIED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_model_in_memory_goes_on(monkeypatch, kind, after):
    model = small_model(expire_after=5)
    for t in range(5):
        model.decide([1, t], id=str(t))
    with monkeypatch.context() as patch:
        interrupt_apply(patch, kind, KeyboardInterrupt, after)
        with pytest.raises(KeyboardInterrupt):
            CALLS[APPLIED[kind]](model)
    ids = [model.decide([1, t]).id for t in range(20)]
    assert {model.feedback(issued, correct=True) for issued in ids[-5:]} == {"accepted"}
    assert model.open_decisions() == []
    counted = model.stats()
    known = [known.status for _, known in model._engine.store.all_ids()]
    assert [known.count(status) for status in (Status.ANSWERED, Status.EXPIRED, Status.CANCELLED)] == [
        counted.answered,
        counted.expired,
        counted.cancelled,
    ]
    model.add_class("more")
    assert "more" in model.classes
    assert learner_of(model).n_classes == len(model._engine.state.classes.names)


def test_the_loss_of_acknowledged_facts_is_raised(path, monkeypatch, clock):
    model, twin = small_model(journal=path, durability="batched"), small_model()
    assert model.at_risk == (0.05, 1000)
    for one in (model, twin):
        work(one, 0, 5)
    model._engine.writer.flush()
    kept = twin.digest()
    with monkeypatch.context() as patch:
        patch.setattr(Database, "commit", lambda self: self._attempt(raise_full))
        model.decide([1, 5], id="5")
        with pytest.raises(JournalError, match="lost"):
            model._engine.writer.flush()
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


def change_fact(path, kind, change, sealed=False):
    """Change the body of the third fact of a kind, and its checksum, too, if `sealed`; return its number."""
    with sqlite3.connect(path) as connection:
        query = "SELECT seq, kind, id, wall, clock, body, checksum FROM facts WHERE kind = ? LIMIT 1 OFFSET 2"
        *fields, body, seal = connection.execute(query, (kind,)).fetchone()
        body = change(body)
        seal = checksum(*fields, body) if sealed else seal
        connection.execute("UPDATE facts SET body = ?, checksum = ? WHERE seq = ?", (body, seal, fields[0]))
        connection.execute("DELETE FROM snapshots")
    connection.close()
    return fields[0]


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


@pytest.mark.parametrize("field", ["round", "greedy", "label", "prob", "extra"])
def test_a_decision_whose_replay_differs_is_named(path, field):
    """The fact and its checksum are sound, as those of another version would be."""
    with dt.Model(CLASSES, journal=path, features=2, learner="newtron", seed=3) as model:
        for number in range(5):
            model.feedback(model.decide([1, number]).id, correct=True)

    def differ(body):
        stored = facts.decode_decided(body)
        other = {
            "round": stored.round + 1,
            "greedy": (stored.greedy + 1) % 3,
            "label": (stored.label + 1) % 3,
            "prob": stored.prob / 2,
            "extra": b"\0" * (len(stored.extra) + 8),
        }
        return facts.encode(msgspec.structs.replace(stored, **{field: other[field]}))

    seq = change_fact(path, facts.DECIDED, differ, sealed=True)
    with pytest.raises(JournalError, match=rf"^fact {seq} has label \d with probability .*, replayed it is \d with"):
        dt.Model.open(path)
    mismatch = verify_journal(path).mismatch
    assert mismatch is not None
    assert mismatch.fact == seq


CRAFTED = {  # answers that no learner of the kind can take
    "perceptron": [3.0, -1.0, 1e300, 0.5, float("nan"), 1, "a", None],
    "banditron": [2.0, -0.5, float("inf"), True, b""],
}


@pytest.mark.parametrize(("learner", "value"), [(name, value) for name in CRAFTED for value in CRAFTED[name]])
def test_a_crafted_answer_is_refused_before_compiled_code_sees_it(path, learner, value):
    with dt.Model(CLASSES, journal=path, features=2, learner=learner, seed=3) as model:
        model.feedback(model.decide([1, 0], id="a").id, label="small")
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT seq, kind, id, wall, clock FROM facts WHERE kind = 3").fetchone()
        body = facts.encode(value)
        sealed = (body, checksum(*found, body), found[0])
        connection.execute("UPDATE facts SET body = ?, checksum = ? WHERE seq = ?", sealed)
        connection.execute("DELETE FROM snapshots")
    connection.close()
    with pytest.raises(JournalError, match=r"is damaged: .*it has the answer"):
        dt.Model.open(path)


def test_facts_of_another_kind_or_without_a_decision_are_refused(path):
    with small_model(journal=path) as model:
        model.decide([1, 0], id="a")
        model.feedback("a", correct=True)
    for change, words in {
        "kind = 77 WHERE kind = 3": "unknown kind 77; update",
        "id = NULL WHERE kind = 77": "unknown kind",
        "kind = 3 WHERE kind = 77": "names no decision",
        "id = 'b' WHERE kind = 3": "is damaged",
    }.items():
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE facts SET {change}")  # noqa: S608
            for seq, *fields in connection.execute("SELECT seq, kind, id, wall, clock, body FROM facts").fetchall():
                connection.execute("UPDATE facts SET checksum = ? WHERE seq = ?", (checksum(seq, *fields), seq))
            connection.execute("DELETE FROM snapshots")
        connection.close()
        with pytest.raises(JournalError, match=words):
            dt.Model.open(path)
