"""Threads that share a model: no id twice, nothing lost, and the state is that of the journal."""

import os
import signal
import sys
from threading import Barrier, Event, Thread

import pytest
from models import replayed_digest, small_model

import delaytron as dt
from delaytron.journal.sqlite import SqliteStore
from delaytron.model import engine, facts

N_THREADS, N_DECISIONS = 4, 60


@pytest.fixture(autouse=True)
def switch_often():
    """Let threads take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def side_by_side(action):
    """Run an action with the numbers of four threads; raise what one of them raised."""
    start, problems = Barrier(N_THREADS), []

    def run(number):
        try:
            start.wait()
            action(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [Thread(target=run, args=(number,)) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def work(model, made):
    """Return what each thread does: all kinds of calls; decisions are written down in `made`."""

    def act(number):
        for t in range(N_DECISIONS):
            x = {"a": t, "b": f"word{number} word{t}"}
            new = [model.decide(x, id=f"{number}-{t}")] if t % 3 else model.decide_many([x, x])
            made.extend(new)
            if t % 2:
                assert model.feedback(new[0].id, reward=(t % 5) / 4) == "accepted"
            if t % 10 == 4:
                assert model.cancel(new[0].id) == "cancelled"
            if t % 10 == 7:
                model.explain(x), model.predict(x), model.stats(), model.open_decisions(), model.digest(), repr(model)
            if t == 20 + number:
                model.add_class(f"class {number}")
            with pytest.raises(dt.ConflictingDecision, match="issued before"):
                model.decide({**x, "c": 1}, id=new[0].id)

    return act


def check(model, made):
    n = N_THREADS * (N_DECISIONS + N_DECISIONS // 3)
    stats = model.stats()
    assert len(made) == stats.decisions == n
    assert len({decision.id for decision in made}) == n
    assert sorted(decision.round for decision in made) == list(range(1, n + 1))
    assert stats.answered == N_THREADS * N_DECISIONS // 2
    assert stats.cancelled == N_THREADS * N_DECISIONS // 10
    assert stats.open == n - stats.answered - stats.cancelled
    assert len(model.classes) == 3 + N_THREADS


def words_model(**options):
    return small_model(features="hashed", bits=6, **options)


def test_threads_share_a_model_in_memory():
    model, made = words_model(), []
    side_by_side(work(model, made))
    check(model, made)


@pytest.mark.parametrize("durability", ["full", "batched"])
def test_threads_share_a_model_with_a_journal(tmp_path, monkeypatch, durability):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 100)
    path, made = tmp_path / "router.db", []
    model = words_model(journal=path, durability=durability)
    side_by_side(work(model, made))
    check(model, made)
    digest = model.digest()
    model.close()
    assert replayed_digest(path) == digest
    with SqliteStore(path) as store:
        written = [fact.id for fact in store.facts() if fact.kind == facts.DECIDED]
    assert len(written) == len(set(written))
    assert set(written) == {decision.id for decision in made}
    with dt.Model.open(path) as again:
        assert again.digest() == digest


def test_one_id_goes_to_one_thread():
    model, made, refused = small_model(), [], []

    def act(number):
        for t in range(100):
            try:
                made.append(model.decide([1, number], id=str(t)))
            except dt.ConflictingDecision:
                refused.append(t)

    side_by_side(act)
    assert len(made) == 100
    assert len(refused) == 100 * (N_THREADS - 1)
    assert model.stats().decisions == 100


def test_an_answer_is_accepted_once(tmp_path):
    with small_model(journal=tmp_path / "a.db") as model:
        ids = [decision.id for decision in model.decide_many([[1, 0]] * 30)]
        said = []

        def act(number):
            if number:
                said.extend([(issued, model.feedback(issued, correct=True)) for issued in ids])
                return
            with dt.Journal(tmp_path / "a.db") as journal:
                said.extend([(issued, journal.feedback(issued, correct=True)) for issued in ids])

        side_by_side(act)
        assert sorted(issued for issued, word in said if word == "accepted") == sorted(ids)
        assert [word for _, word in said].count("duplicate") == 30 * (N_THREADS - 1)
        model.decide([1, 0])
        assert model.stats().answered == 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
def test_a_model_in_memory_works_in_a_child_that_was_forked_while_another_thread_decided():
    """The thread is not in the child; what it was doing is neither locked nor half done there."""
    model = small_model()
    model.decide([1.0, 0.0])
    stopping = Event()

    def play():
        while not stopping.is_set():
            model.feedback(model.decide([1.0, 2.0]).id, correct=True)

    thread = Thread(target=play)
    thread.start()
    try:
        for _ in range(12):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a child that waits for a lock forever is killed
                try:
                    made = model.decide([1.0, 1.0])
                    os._exit(0 if model.feedback(made.id, correct=False) == "accepted" else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stopping.set()
        thread.join()
