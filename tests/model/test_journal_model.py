"""A model and its journal: it goes on after a close, a crash, a failing disk; others answer; one owner at a time."""

import sqlite3

import pytest
from models import CLASSES, abandon, clock_fixture, learner_of, refused, replayed_digest, small_model, work  # noqa: F401

import delaytron as dt
from delaytron.journal import FactStore
from delaytron.model import facts, keeper

WORDS = {"learner": "delaytron", "bits": 6, "seed": 3, "gamma": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "router.db"


@pytest.mark.parametrize("leave", [dt.Model.close, abandon], ids=["close", "crash"])
@pytest.mark.parametrize("every", [20_000, 7, 1])
def test_a_model_goes_on_where_it_was(path, clock, monkeypatch, leave, every):
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", every)
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


def test_a_journal_keeps_every_kind_of_fact(path):
    with small_model(journal=path, expire_after=12) as model:
        work(model, 0, 40)
    with FactStore(path) as store:
        kinds = [fact.kind for fact in store.facts()]
    assert kinds[0] == facts.CREATED
    assert set(kinds) == set(range(facts.CLASS_RETIRED + 1))
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
            refused(model, lambda before=before, model=model: model.decide([1, 0], id=str(before)), "issued before")
        model.decide_many([[1, 0]] * 2, ids=[str(2 * t), str(2 * t + 1)])
        abandon(model) if t else model.close()


def test_a_saved_model_needs_no_journal(path, tmp_path):
    with small_model(journal=path) as model:
        work(model, 0, 20)
        model.save(tmp_path / "m")
        again = dt.load(tmp_path / "m")
        assert again.digest() == model.digest()
        refused(again, lambda: again.decide([1, 0], id="3"), "issued before")


@pytest.mark.parametrize("every", [20_000, 5])
def test_names_of_features_survive_a_crash(path, monkeypatch, every):
    monkeypatch.setattr(keeper, "FACTS_A_SNAPSHOT", every)
    model = dt.Model(CLASSES, journal=path, **WORDS)
    for t in range(12):
        model.decide({"common": 1, f"own{t}": 2, "text": f"word{t} and another"})
    digest = model.digest()
    x = {"common": 1, "own3": 1, "own11": 1, "text": "word4 word11"}
    told = model.explain(x)
    abandon(model)
    with dt.Model.open(path) as again:
        assert again.digest() == digest
        for t in range(12):
            (name,) = again.explain({f"own{t}": 1}).features
            assert f"own{t}" in name.split(" or ")
        assert again.explain(x) == told
    with FactStore(path) as store:
        stored = [facts.decode_decided(fact.body) for fact in store.facts() if fact.kind == facts.DECIDED]
    told = [name for decided in stored for _, name in decided.names]
    assert len(told) == len(set(told)) == 3 + 12 * 2  # each of them once


def test_names_in_a_fact_are_bounded(path):
    many = {f"name{t}": 1.0 for t in range(700)}
    with dt.Model(CLASSES, journal=path, **WORDS | {"bits": 16}) as model:
        for _ in range(4):
            model.decide(many)
    with FactStore(path) as store:
        stored = [facts.decode_decided(fact.body) for fact in store.facts() if fact.kind == facts.DECIDED]
    assert [len(decided.names) for decided in stored] == [256, 256, 188, 0]
