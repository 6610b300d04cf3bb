"""A model and its journal: it continues after a close or a crash, and refuses other configurations and formats."""

import json
import sqlite3
from threading import Event, current_thread, main_thread

import numpy as np
import pytest
from models import CLASSES, abandon, learner_of, refused, replayed_digest, small_model, work
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.files.tensors import pack_tensors, unpack_tensors
from delaytron.journal.sqlite import SqliteStore
from delaytron.journal.view import JournalView
from delaytron.model import engine, facts
from delaytron.model.verify import verify_journal
from streams import by_learner

WORDS = {"learner": "delaytron", "bits": 6, "seed": 3, "gamma": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "router.db"


@pytest.mark.parametrize("leave", [dt.Model.close, abandon], ids=["close", "crash"])
@pytest.mark.parametrize("every", [20_000, 7, 1])
def test_a_model_continues_after_a_close_and_a_crash(path, clock, monkeypatch, leave, every):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", every)
    options = {"expire_after": 12, "on_expiry": "wrong"}
    twin = small_model(**options)
    for start in range(0, 60, 15):
        model = small_model(journal=path, **options)
        for one in (model, twin):
            work(one, start, start + 15)
        assert model.digest() == twin.digest()
        assert model.stats() == twin.stats()
        leave(model)
    assert replayed_digest(path) == twin.digest()
    with dt.Model.open(path) as again:
        assert again.digest() == twin.digest()
        assert again.classes == twin.classes == ["small", "large", "huge"]
        assert again.open_decisions() == twin.open_decisions()
        assert learner_of(again).weights.tobytes() == learner_of(twin).weights.tobytes()
        for one in (again, twin):
            work(one, 60, 70)
        assert again.digest() == twin.digest()


def test_a_close_stores_a_snapshot_although_one_is_being_packed(path, monkeypatch):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 3)
    packing, go_on, compress = Event(), Event(), engine.compress

    def slow_in_the_background(content):
        if current_thread() is not main_thread():
            packing.set()
            assert go_on.wait(30)
        return compress(content)

    monkeypatch.setattr(engine, "compress", slow_in_the_background)
    model = small_model(journal=path)
    model.decide_many([[1, 0]] * 3)
    assert packing.wait(30)
    model.close()
    go_on.set()
    model._engine.writer._packer.join(30)
    with JournalView(path) as view:
        assert view.snapshot_seqs() == [view.last_seq]


def test_a_journal_keeps_every_kind_of_fact(path):
    with small_model(journal=path, expire_after=12) as model:
        work(model, 0, 40)
    with SqliteStore(path) as store:
        kinds = [fact.kind for fact in store.facts()]
    assert kinds[0] == facts.CREATED
    others = {facts.RECORDED, facts.ANSWERED_LATE, facts.RELEASED}  # in tests of their own
    assert set(kinds) == set(range(len(facts.KINDS))) - others
    assert kinds.count(facts.DECIDED) == 40


def test_the_same_call_continues_and_another_one_is_refused(path):
    given = {"expire_after": "1h", "on_expiry": "drop"}
    small_model(journal=path, **given).close()
    small_model(journal=path, **given | {"seed": None}).close()
    small_model(journal=str(path), **given | {"expire_after": "60m"}).close()
    others = {
        "learner": ("banditron", "learner='delaytron', not 'banditron'"),
        "features": (3, "features=2, not 3"),
        "seed": (4, "seed=3, not 4"),
        "gamma": (0.25, "parameters={'gamma': 0.5}, not {'gamma': 0.25}"),
        "expire_after": (7, "expire_after='3600s', not 7;"),
        "on_expiry": ("wrong", "on_expiry='drop', not 'wrong'"),
    }
    for name, (value, words) in others.items():
        with pytest.raises(dt.InvalidInput) as caught:
            small_model(journal=path, **given | {name: value})
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(dt.InvalidInput, match="was made with classes="):
        dt.Model(["a", "b"], learner="delaytron", features=2, gamma=0.5, journal=path)
    with dt.Model.open(path) as model:
        assert model.decide([1, 0], id="a").round == 1


def test_a_model_needs_a_journal_to_open(tmp_path):
    with pytest.raises(dt.InvalidInput, match="there is no journal"):
        dt.Model.open(tmp_path / "none.db")
    (tmp_path / "text").write_text("something else, and long enough to be looked at " * 20)
    for make in (dt.Model.open, lambda path: small_model(journal=path)):
        with pytest.raises(dt.InvalidInput, match="is not a journal"):
            make(tmp_path / "text")
        with pytest.raises(dt.InvalidInput, match="is a folder"):
            make(tmp_path)


def test_a_file_that_a_crash_left_empty_is_used(path):
    path.touch()
    small_model(journal=path).close()
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0
    with small_model(journal=path) as model:
        model.decide([1, 0])


def test_ids_are_never_reused(path):
    for t in range(3):
        model = small_model(journal=path, expire_after=1)
        for before in range(2 * t):
            refused(
                model,
                lambda before=before, model=model: model.decide([1, 1], id=str(before)),
                "issued before",
                error=dt.ConflictingDecision,
            )
        model.decide_many([[1, 0]] * 2, ids=[str(2 * t), str(2 * t + 1)])
        abandon(model) if t else model.close()


def test_a_saved_model_needs_no_journal(path, tmp_path):
    with small_model(journal=path) as model:
        work(model, 0, 20)
        model.save(tmp_path / "m")
        again = dt.load(tmp_path / "m")
        assert again.digest() == model.digest()
        refused(again, lambda: again.decide([1, 0], id="3"), "issued before", error=dt.ConflictingDecision)


@pytest.mark.parametrize("every", [20_000, 5])
def test_names_of_features_survive_a_crash(path, monkeypatch, every):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", every)
    model = dt.Model(CLASSES, journal=path, **WORDS)
    for t in range(12):
        model.decide({"common": 1, f"own{t}": 2, "text": f"word{t} and another"})
    digest = model.digest()
    x = {"common": 1, "own3": 1, "own11": 1, "text": "word4 word11"}
    before = model.explain(x)
    abandon(model)
    with dt.Model.open(path) as again:
        assert again.digest() == digest
        for t in range(12):
            (name,) = again.explain({f"own{t}": 1}).features
            assert f"own{t}" in name.split(" or ")
        assert again.explain(x) == before
    with SqliteStore(path) as store:
        stored = [facts.decode_decided(fact.body) for fact in store.facts() if fact.kind == facts.DECIDED]
    names = [name for decided in stored for _, name in decided.names]
    assert len(names) == len(set(names)) == 3 + 12 * 2  # each of them once


def test_names_in_a_fact_are_bounded(path):
    many = {f"name{t}": 1.0 for t in range(700)}
    with dt.Model(CLASSES, journal=path, **WORDS | {"bits": 16}) as model:
        for _ in range(4):
            model.decide(many)
    with SqliteStore(path) as store:
        stored = [facts.decode_decided(fact.body) for fact in store.facts() if fact.kind == facts.DECIDED]
    assert [len(decided.names) for decided in stored] == [256, 256, 188, 0]


# Other formats; settled decisions that are purged


def test_a_model_file_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "m"
    small_model().save(path)
    texts, tensors = unpack_tensors(path.read_bytes(), "")
    head, content = pack_tensors(tensors, texts | {"format": "delaytron-model-2"})
    path.write_bytes(head + bytes(content))
    with pytest.raises(dt.InvalidInput, match=r"of format 'delaytron-model-2', .*; update delaytron"):
        dt.load(path)


def test_a_journal_of_something_else_is_refused(tmp_path):
    SqliteStore(tmp_path / "a.db", config=json.dumps({"classes": ["a", "b"]}).encode()).close()
    for make in (dt.Model.open, lambda path: small_model(journal=path)):
        with pytest.raises(dt.InvalidInput, match="not the journal of a model"):
            make(tmp_path / "a.db")


@pytest.mark.parametrize("part", ["asked", "learner"])
@pytest.mark.parametrize("change", [dict.clear, lambda known: known.update(learner="newer", settings={}, features=-1)])
def test_a_journal_of_a_recipe_that_cannot_be_read_is_refused(tmp_path, part, change):
    with small_model(journal=tmp_path / "first.db") as model:
        config = json.loads(model._engine.store.config)
    change(config["recipe"][part])
    SqliteStore(tmp_path / "a.db", config=json.dumps(config).encode()).close()
    for make in (dt.Model.open, lambda path: small_model(journal=path)):
        with pytest.raises(dt.InvalidInput, match=r"not the journal of a model .*; update delaytron"):
            make(tmp_path / "a.db")


def test_a_damaged_snapshot_is_refused(tmp_path):
    with small_model(journal=tmp_path / "a.db") as model:
        model.decide([1, 0])
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE snapshots SET body = substr(body, 1, 50)")
    connection.close()
    with pytest.raises(dt.InvalidInput, match="snapshot after fact 2 is damaged"):
        dt.Model.open(tmp_path / "a.db")


@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
def test_after_a_purge_settled_decisions_get_the_same_replies(tmp_path, clock, monkeypatch, on_expiry):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 10)
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
    with SqliteStore(path) as store:
        store.begin()
        assert store.purge(store.last_seq + 1, store.now().clock + 1) > (
            30 if on_expiry == "drop" else 20
        )  # what can be corrected stays
        store.commit()
    with dt.Model.open(path) as again:
        assert again.digest() == digest
        assert again.feedback("0", correct=True) == "duplicate"
        assert again.feedback("1", correct=True) == "cancelled"
        assert again.feedback("2", correct=True) == ("late" if on_expiry == "drop" else "corrected")
        again.save(tmp_path / "m")
        for one in (again, dt.load(tmp_path / "m")):
            with pytest.raises(dt.ConflictingDecision, match="its decision was purged"):
                one.decide([1, 0], id="0")
        digest = again.digest()
        again.feedback(again.decide([1, 0]).id, correct=True)
        digest = again.digest()
        abandon(again)
    with dt.Model.open(path) as again:
        assert again.digest() == digest


# Every learner: restarts, crashes and snapshots leave no trace in its bits

LEARNERS = [name for name, cls in dt.LEARNERS.items() if cls.rule.restricts]


def play(models, start, stop, seed):
    """Let the same happen to all models: decisions, and answers to some of them, late and out of order."""
    rng = np.random.default_rng(seed)
    takes = models[0]._engine.state.answering
    for t in range(start, stop):
        x = rng.normal(size=2).round(2)
        allowed = CLASSES[:2] if rng.random() < 0.2 else None
        first, *others = [model.decide(x, id=str(t), allowed=allowed) for model in models]
        assert all(other == first for other in others)
        waiting = [decision.id for decision in models[0].open_decisions()]
        if rng.random() < 0.7:
            issued = waiting[rng.integers(len(waiting))]
            answer = {"label": CLASSES[rng.integers(3)]}
            if takes.rewards and rng.random() < 0.5:
                answer = {"reward": round(rng.random(), 2)}
            assert {model.feedback(issued, **answer) for model in models} == {"accepted"}


def check_restarts(path, name, **options):
    given = {"learner": name, "features": 2, "seed": 5, **options}
    twin = dt.Model(CLASSES, **given)
    for number, leave in enumerate((abandon, dt.Model.close, abandon)):
        model = dt.Model(CLASSES, journal=path, **given)
        assert model.digest() == twin.digest()
        play([model, twin], number * 15, number * 15 + 15, seed=number)
        assert model.digest() == twin.digest()
        leave(model)
    assert replayed_digest(path) == twin.digest()
    with dt.Model.open(path) as model:
        assert learner_of(model).weights.tobytes() == learner_of(twin).weights.tobytes()


@pytest.mark.parametrize("name", by_learner(LEARNERS))
def test_a_restart_leaves_no_trace(tmp_path, monkeypatch, clock, name):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 11)
    check_restarts(tmp_path / "a.db", name, expire_after=6)


@pytest.mark.parametrize("name", by_learner(n for n in LEARNERS if dt.LEARNERS[n].feedback_type != "label"))
def test_a_restart_leaves_no_trace_where_expiry_counts_as_wrong(tmp_path, monkeypatch, clock, name):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 11)
    check_restarts(tmp_path / "a.db", name, expire_after=6, on_expiry="wrong")


@pytest.mark.parametrize("name", by_learner(["delaytron"]))
@pytest.mark.parametrize("options", [{"standardize": True}, {"ties": "random"}], ids=str)
def test_a_restart_leaves_no_trace_of_common_parameters(tmp_path, monkeypatch, clock, name, options):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 11)
    check_restarts(tmp_path / "a.db", name, **options)


@pytest.mark.parametrize("name", by_learner(["perceptron", "bandit_logit"]))
def test_other_processes_give_the_answers_that_the_learner_takes(tmp_path, clock, name):
    path = tmp_path / "a.db"
    model, twin = (dt.Model([1, 2, 3], learner=name, features=2, seed=5, **where) for where in ({"journal": path}, {}))
    with model, dt.Journal(path) as journal:
        for t in range(12):
            model.decide([1, t], id=str(t))
            twin.decide([1, t], id=str(t))
            assert journal.feedback(str(t), label=t % 3 + 1) == twin.feedback(str(t), label=t % 3 + 1) == "accepted"
            if name == "perceptron":
                with pytest.raises(dt.InvalidInput, match="label="):
                    journal.feedback(str(t), correct=True)
        assert model.digest() == twin.digest()


def test_a_sparse_matrix_of_vectors_makes_facts_that_can_be_replayed(tmp_path):
    """Also as the first decisions, by which a learner on its own fixes whether it works on dense or sparse rows."""
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.5]])
    with small_model(journal=tmp_path / "a.db") as model:
        made = model.decide_many(csr_array(rows))
        model.feedback(made[1].id, reward=0.5)
    assert verify_journal(tmp_path / "a.db").mismatch is None
    twin = small_model()
    assert [one.label for one in twin.decide_many(rows)] == [one.label for one in made]
