"""dt.Model: decisions, ids, many at once, and what is refused; an error changes nothing."""

import copy
import pickle
import re
from collections import UserDict
from datetime import timedelta

import numpy as np
import pytest
from models import CLASSES, refused, small_model
from scipy.sparse import csr_array

import delaytron as dt


def test_a_decision_has_its_id_round_label_and_probability():
    model = small_model()
    first = model.decide([1, 0], id="req-17")
    assert (first.id, first.round, first.greedy) == ("req-17", 1, "small")
    assert first.label in CLASSES
    assert first.prob == pytest.approx(0.5 + 0.5 / 3 if first.label == "small" else 0.5 / 3)
    assert model.decide([1, 0]).round == 2


def test_random_ids_have_128_bits():
    model = small_model()
    ids = {model.decide([1, 0]).id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(bytes.fromhex(issued)) == 16 for issued in ids)


@pytest.mark.parametrize("id", [5, "", "x" * 201, "ä" * 101, "a\0b", "\ud800", b"a", ["a"]], ids=repr)
def test_wrong_ids_are_refused(id):
    model = small_model()
    refused(model, lambda: model.decide([1, 0], id=id), "id must")
    refused(model, lambda: model.decide_many([[1, 0]], ids=[id]), "id must")
    refused(model, lambda: model.feedback(id, correct=True), "id must")
    refused(model, lambda: model.cancel(id), "id must")


@pytest.mark.parametrize("id", ["x" * 200, "ä" * 100, "a b\n", np.str_("n")], ids=repr)
def test_ids_of_up_to_200_bytes_are_taken(id):
    model = small_model()
    assert model.decide([1, 0], id=id).id == id
    assert model.feedback(id, correct=True) == "accepted"


def test_no_id_is_issued_twice(tmp_path):
    model = small_model(expire_after=2)
    for name, end in {"a": model.cancel, "b": lambda given: model.feedback(given, correct=True), "c": str}.items():
        model.decide([1, 0], id=name)
        end(name)
    for _ in range(3):
        model.decide([1, 0])  # c expires
    model.save(tmp_path / "model.safetensors")
    again = dt.load(tmp_path / "model.safetensors")
    for one in (model, again):
        error = dt.ConflictingDecision
        for name in "abc":
            refused(one, lambda one=one, name=name: one.decide([1, 1], id=name), "issued before", error=error)
        refused(one, lambda one=one: one.decide_many([[1, 1]] * 2, ids=["new", "a"]), "issued before", error=error)
        assert one.feedback("c", correct=True) == "late"
        assert one.feedback("a", correct=True) == "cancelled"


def test_many_decisions_are_the_same_as_single_ones(clock):
    many, one = small_model(expire_after=3), small_model(expire_after=3)
    xs = [[1.0, t] for t in range(20)]
    ids = [str(t) for t in range(20)]
    assert many.decide_many(np.array(xs), ids=ids) == [one.decide(x, id=i) for x, i in zip(xs, ids, strict=True)]
    assert many.digest() == one.digest()
    assert len({decision.id for decision in many.decide_many(xs, allowed=["small"])}) == 20
    before = many.digest()
    assert many.decide_many([]) == []
    assert many.digest() == before


@pytest.mark.parametrize(
    ("xs", "ids", "words"),
    [
        ([[1, 0], [1]], None, "2 numbers"),
        ([[1, 0], [1, np.nan]], None, "finite"),
        ("ab", None, "xs must be a list"),
        ({"a": 1}, None, "xs must be a list"),
        (5, None, "xs must be a list"),
        ([[1, 0]] * 2, ["a"], "one for each of the 2 xs, got 1"),
        ([[1, 0]] * 2, ["a", "a"], "different, got 'a' twice"),
        ([[1, 0]] * 2, "ab", "ids must be a list"),
    ],
)
def test_many_are_all_or_none(xs, ids, words):
    model = small_model(expire_after=2)
    model.decide([1, 0], id="old")
    model.decide([1, 0])
    refused(model, lambda: model.decide_many(xs, ids=ids), words)
    assert len(model.open_decisions()) == 2


@pytest.mark.parametrize("x", [[1], [1, np.inf], [1, "a"], None, {"a": 1}, "ab"], ids=repr)
def test_a_decision_that_fails_lets_nothing_expire(x):
    model = small_model(expire_after=1)
    model.decide([1, 0], id="a")
    refused(model, lambda: model.decide(x), "x must")
    refused(model, lambda: model.decide([1, 1], id="a"), "issued before", error=dt.ConflictingDecision)
    assert model.feedback("a", correct=True) == "accepted"


@pytest.mark.parametrize("durable", [False, True])
def test_the_same_id_and_input_again_return_the_stored_decision(durable, tmp_path):
    model = small_model(journal=tmp_path / "a.db" if durable else None)
    first = model.decide([1, 0], id="a", allowed=["small", "large"])
    add, retire = (lambda: model.add_class("huge")), (lambda: model.retire_class("small"))
    ends = [None, lambda: model.feedback("a", correct=True), add, retire]
    for end in ends:
        if end is not None:
            end()
        before = model.digest()
        assert model.decide([1, 0], id="a", allowed=["large", "small"]) == first
        assert model.decide_many([[1, 0]], ids=["a"], allowed=["large", "small"]) == [first]
        assert model.digest() == before
        for other in ({"x": [1, 1], "allowed": ["small", "large"]}, {"x": [1, 0]}, {"x": [1, 0], "allowed": ["small"]}):
            call = lambda other=other: model.decide(id="a", **other)  # noqa: E731
            refused(model, call, "issued before, for other features or classes", error=dt.ConflictingDecision)
    found = model.decision("a")
    assert found[:7] == ("a", "answered", first.label, 1.0, 1, first.greedy, first.prob)
    refused(model, lambda: model.decide([1, 0], id="b", allowed=["small", "large"]), "'small' is retired")
    with pytest.raises(dt.UnknownDecision, match="'b' was never issued"):
        model.decision("b")


class Trouble(UserDict):
    def __getitem__(self, name):
        raise RuntimeError("out of paper")


def test_an_error_of_the_caller_passes_and_changes_nothing():
    model = dt.Model(CLASSES, learner="delaytron", features=["a"], seed=1)
    model.decide({"a": 1})
    before = model.digest()
    with pytest.raises(RuntimeError, match="out of paper"):
        model.decide(Trouble(a=1))
    with pytest.raises(RuntimeError, match="out of paper"):
        model.decide({"a": 1}, allowed=(Trouble()[0] for _ in "a"))
    assert model.digest() == before


def test_nothing_of_a_model_can_be_assigned():
    model = small_model()
    for name in ("gamma", "seed", "learner", "classes", "expire_after", "journal", "_engine", "anything", "decide"):
        with pytest.raises(AttributeError, match=f"cannot be changed once it is made, {name} neither"):
            setattr(model, name, 0.9)
        with pytest.raises(AttributeError, match="cannot be changed once it is made"):
            delattr(model, name)
    with pytest.raises(TypeError):
        vars(model)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda call: call.__name__)
def test_a_model_is_not_copied(duplicate):
    with pytest.raises(TypeError, match=r"cannot be copied or pickled.*save\(path\)"):
        duplicate(small_model())


def test_the_repr_has_classes_learner_and_open_decisions():
    model = small_model()
    model.decide([1, 0])
    assert repr(model) == "Model(['small', 'medium', 'large'], learner='delaytron', open=1)"
    assert model.at_risk is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learner": "delaytorn"}, "delaytron"),
        ({"learner": []}, "one of"),
        ({"learner": 7}, "one of"),
        ({"learner": "dilute"}, "plays sets of labels"),
        ({"features": "hash"}, "features must be"),
        ({"features": 0}, "features"),
        ({"features": "hashed", "bits": 25}, "bits must be"),
        ({"features": "hashed", "ngrams": 0}, "ngrams must be"),
        ({"durability": "none"}, "durability must be"),
        ({"expire_after": "6 hours"}, "'30s', '15m', '6h'"),
        ({"expire_after": 0}, "a number of decisions"),
        ({"expire_after": True}, "a number of decisions"),
        ({"expire_after": timedelta(0)}, "above 0"),
        ({"expire_after": "0s"}, "above 0"),
        ({"expire_after": "5300w"}, "at most 100 years"),
        ({"on_expiry": "wrong"}, "needs expire_after"),
        ({"on_expiry": "forget", "expire_after": 3}, "on_expiry must be"),
        ({"correct_within": 3}, "correct_within needs on_expiry='wrong'; leave it out"),
        ({"expire_after": 3, "on_expiry": "wrong", "correct_within": -1}, "correct_within must be a number of dec"),
        ({"expire_after": 3, "on_expiry": "wrong", "correct_within": "0s"}, "give it in the unit of expire_after=3"),
        ({"expire_after": "3s", "on_expiry": "wrong", "correct_within": 3}, "give it in the unit of expire_after='3s'"),
        ({"learner": "perceptron", "gamma": None, "expire_after": 3, "on_expiry": "wrong"}, "true label"),
        ({"seed": -1}, "seed must be"),
        ({"gamma": 2.0}, "gamma must be"),
        ({"journal": 5}, "cannot be the path"),
        ({"journal": "a" * 5000}, "cannot be the path of a journal: [Errno 36] File name too long"),
        ({"features": 2**70}, "features must be at most 16777216, got 1180591620717411303424"),
        ({"journal": "no/such/folder/a.db"}, "no folder"),
    ],
)
def test_invalid_arguments_are_refused(options, words):
    given = {"learner": "delaytron", "features": 2, "gamma": 0.5} | options
    with pytest.raises(dt.InvalidInput) as caught:
        dt.Model(CLASSES, **{name: value for name, value in given.items() if value is not None})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refused_model_creates_no_journal(tmp_path):
    for wrong in ({"durability": "none"}, {"gamma": 2.0}, {"expire_after": 0}):
        with pytest.raises(dt.InvalidInput):
            small_model(journal=tmp_path / "a.db", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_the_learner_lacks_is_named():
    with pytest.raises(TypeError, match="gama"):
        small_model(gama=0.1)


def test_a_learner_may_be_given_by_its_class_and_numbers_by_numpy():
    model = dt.Model(
        np.array(CLASSES), learner=dt.Delaytron, features=np.int64(2), seed=np.int64(3), gamma=np.float32(0.5)
    )
    twin = small_model()
    assert [model.decide([1, t]).label for t in range(20)] == [twin.decide([1, t]).label for t in range(20)]


def test_a_loaded_model_continues_exactly(tmp_path, clock):
    model = dt.Model(CLASSES, learner="delaytron", bits=6, seed=1, gamma=0.5, expire_after="1h", on_expiry="wrong")
    for t in range(40):
        model.decide({"a": t % 5, "b": str(t % 3)}, id=str(t))
        clock.pass_time(60)
        if t % 2:
            model.feedback(str(t - 1), reward=t / 40)
        if t == 20:
            model.add_class("huge")
            model.retire_class("small")
    model.save(tmp_path / "m")
    again = dt.load(tmp_path / "m")
    assert again.digest() == model.digest()
    assert again.explain({"a": 1}) == model.explain({"a": 1})
    assert set(again.explain({"a": 1}).features) == {"a"}
    for one in (model, again):
        for t in range(40, 60):
            one.decide({"a": t % 5, "b": str(t % 3)}, id=str(t))
            one.feedback(str(t - 20), correct=t % 3 == 0) if t % 2 else None
    assert again.digest() == model.digest()
    assert again.stats() == model.stats()


def test_a_damaged_file_is_refused(tmp_path):
    model = small_model()
    model.decide([1, 0], id="a")
    path = tmp_path / "m"
    model.save(path)
    content = path.read_bytes()
    for place in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(dt.InvalidInput):
            dt.load(path)


def test_a_file_without_the_ids_of_its_decisions_is_refused(tmp_path):
    model = small_model()
    model.decide([1, 0], id="a")
    model._engine.store._ids.clear()
    model.save(tmp_path / "m")
    with pytest.raises(dt.InvalidInput, match="open decisions without an id"):
        dt.load(tmp_path / "m")


def test_rows_of_many_decisions_may_be_sparse():
    rows = np.eye(4)[[0, 2, 3]]
    decided = [dt.Model(["a", "b"], features=4, seed=1).decide_many(given) for given in (rows, csr_array(rows))]
    assert [one[1:] for one in decided[0]] == [one[1:] for one in decided[1]]


@pytest.mark.parametrize("xs", [None, 5, 0.5, np.array(3.0), {"a": 1}])
def test_inputs_that_are_no_list_of_rows_are_refused(xs):
    model = dt.Model(CLASSES, features=2, seed=0)
    with pytest.raises(dt.InvalidInput, match=r"X must |xs must be a list, one for each decision, got "):
        model.decide_many(xs)
    assert model.stats().decisions == 0


def test_the_error_about_a_missing_journal_says_how_to_create_one(tmp_path):
    for path in (tmp_path / "a.db", tmp_path / "empty.db"):
        (tmp_path / "empty.db").touch()
        with pytest.raises(dt.InvalidInput, match=r"or create a journal by dt\.Model\(classes, journal=path\)$"):
            dt.Model.open(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("feature", "did you mean features?"),
        ("n_features", "did you mean features?"),
        ("n_classes", "did you mean classes?"),
        ("gamma", "bandit_logit takes lr, explore_floor, replay, forget, standardize, ties"),
    ],
)
def test_an_unknown_argument_is_named_with_a_hint(name, hint):
    with pytest.raises(TypeError, match=re.escape(f"Model() got an unexpected keyword argument '{name}'; {hint}")):
        dt.Model(CLASSES, **{name: 2})


def test_a_decision_is_not_its_id():
    model = dt.Model(CLASSES, features=2, seed=0)
    decision = model.decide([1.0, 0.0], id="req-1")
    with pytest.raises(dt.InvalidInput, match=r"got the decision itself; give its id, 'req-1'$"):
        model.feedback(decision, correct=True)
    assert model.feedback(decision.id, correct=True) == "accepted"


def test_a_class_is_not_guessed_from_another_letter():
    with pytest.raises(dt.InvalidInput, match=r"there is no class 'z'; known are \['a', 'b'\]$"):
        dt.Model(["a", "b"], features=1).decide([1.0], allowed=["z"])


def test_a_journal_is_opened_not_loaded(tmp_path):
    dt.Model(CLASSES, features=1, journal=tmp_path / "m.db").close()
    with pytest.raises(dt.InvalidInput, match=r"is a database, not .*; open a journal by dt.Model.open"):
        dt.load(tmp_path / "m.db")
