"""DelayedClassifier of River: decisions, refusals, and River's own checks."""

import copy
import datetime
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delaytron as dt
from delaytron.model.encoders import make_encoder
from optional import need
from streams import known_rounds

need("river")
from river import checks, compose, datasets, evaluate, metrics, preprocessing, stream  # noqa: E402

from delaytron.river import DelayedClassifier  # noqa: E402

pytestmark = pytest.mark.xdist_group("bandit_logit")

BITS = 6
COLOURS = ["red", "green", "blue"]


def some_examples(count, seed=0):
    """Yield features that mostly determine the label, no two alike, each with the label."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        label = int(rng.integers(3))
        yield {"hue": label + rng.normal() / 4, "word": "rgb"[label], "number": float(i)}, COLOURS[label]


def as_array(x):
    row = make_encoder("hashed", BITS).encode(x)
    values = np.zeros(2**BITS)
    values[row.indices] = row.values
    return values


def as_row(x):
    from scipy.sparse import csr_array

    return csr_array(as_array(x)[None])


def learners_alike(model, learner, xs):
    scores = [model._learner.scores(as_row(x)).tobytes() for x in xs]
    return scores == [learner.scores(as_row(x)).tobytes() for x in xs]


def other_order(events, seed):
    """Let every label come some events after its question, in any order."""
    rng = np.random.default_rng(seed)
    waits = rng.integers(1, 9, len(events))
    moments = [(2 * i, i, None) for i in range(len(events))]
    moments += [(2 * (i + int(wait)) - 1, i, events[i][1]) for i, wait in enumerate(waits)]
    return [(i, y) for _, i, y in sorted(moments, key=lambda moment: (moment[0], moment[1]))]


@pytest.mark.parametrize("name", ["bandit_logit", "delaytron", "adaptive_delaytron", "perceptron"])
def test_late_labels_answer_their_decisions(name):
    """The same as a learner that gets each answer by its public calls."""
    events = list(some_examples(120))
    model = DelayedClassifier(name, classes=COLOURS, bits=BITS, seed=3)
    learner = dt.LEARNERS[name](3, 2**BITS, seed=3)
    open_ = {}
    for i, y in other_order(events, seed=1):
        x = events[i][0]
        if y is None:
            open_[i] = learner.decide(as_row(x))
            assert model.predict_one(x) == COLOURS[open_[i].label]
            continue
        right, label = COLOURS[open_[i].label] == y, COLOURS.index(y)
        learner.feedback(open_[i].id, **({"label": label} if name == "perceptron" else {"correct": right}))
        learner.flush()
        model.learn_one(copy.deepcopy(x), y)
    assert model.n_open == learner.pending == 0
    assert learners_alike(model, learner, [x for x, _ in events])


@pytest.mark.parametrize("delay", [1, 7])
@pytest.mark.parametrize("name", ["delaytron", "banditron"])
def test_progressive_validation_plays_what_replay_plays(name, delay):
    """For learners without a clock it does not matter that labels are learned before the next round begins."""
    events = list(some_examples(200))
    model = DelayedClassifier(name, {"gamma": 0.2}, classes=COLOURS, bits=BITS, seed=3)
    metric = evaluate.progressive_val_score(events, model, metrics.Accuracy(), delay=delay)
    learner = dt.LEARNERS[name](3, 2**BITS, gamma=0.2, seed=3)
    X = np.array([as_array(x) for x, _ in events])
    y = np.array([COLOURS.index(label) for _, label in events])
    draws = copy.deepcopy(learner._draws).random(200)
    from scipy.sparse import csr_array

    run = dt.replay(learner, csr_array(X), y, np.full(200, delay), draws)
    assert metric.get() == pytest.approx(run.correct.mean())
    assert model._learner.book.rounds == 200


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), name=st.sampled_from(["bandit_logit", "delaytron"]))
def test_only_right_or_wrong_is_learned(seed, name):
    """In the place of the true label, any other wrong one leaves the same state."""
    events = list(some_examples(40, seed))
    twins = [DelayedClassifier(name, classes=[*COLOURS, "none"], bits=BITS, seed=seed) for _ in range(2)]
    for x, y in events:
        chosen = [model.predict_one(x) for model in twins]
        assert chosen[0] == chosen[1]
        other = next(label for label in reversed(twins[0].classes) if label not in (y, chosen[0]))
        twins[0].learn_one(x, y)
        twins[1].learn_one(x, y if chosen[0] == y else other)
    assert learners_alike(twins[0], twins[1]._learner, [x for x, _ in events])


def test_learning_without_a_prediction_decides_first():
    events = list(some_examples(60))
    asked, unasked = (DelayedClassifier("delaytron", classes=COLOURS, bits=BITS, seed=3) for _ in range(2))
    for x, y in events:
        asked.predict_one(x)
        asked.learn_one(x, y)
        unasked.learn_one(x, y)
    assert learners_alike(asked, unasked._learner, [x for x, _ in events])
    assert unasked._learner.book.rounds == 60
    assert unasked.n_open == 0


def test_of_equal_features_the_oldest_decision_is_answered():
    model = DelayedClassifier(classes=COLOURS, bits=BITS, seed=0)
    labels = [model.predict_one({"a": 1}) for _ in range(12)]
    other = model.predict_one({"b": 1})
    assert len(set(labels)) > 1
    for number, label in enumerate(labels, start=1):
        model.learn_one({"a": 1.0}, "red")
        assert model._learner.book.known(number).value == (label == "red")
    assert model.n_open == 1
    model.learn_one({"b": 1}, other)
    assert model._learner.book.known(13).value == 1


def test_probabilities_change_nothing():
    events = list(some_examples(60))
    model, watched = (DelayedClassifier(bits=BITS, seed=3) for _ in range(2))
    for x, y in events:
        if y == "red":
            assert watched.predict_proba_one(x) == model.predict_proba_one(x)
        for _ in range(3):
            watched.predict_proba_one(x)
        model.learn_one(x, y)
        watched.learn_one(x, y)
    assert learners_alike(model, watched._learner, [x for x, _ in events])


def test_classes_come_as_they_are_seen():
    model = DelayedClassifier(bits=BITS, seed=0)
    assert model.predict_one({"a": 1}) is None
    assert model.predict_proba_one({"a": 1}) == {}
    model.learn_one({"a": 1}, "red")
    assert model.predict_one({"a": 1}) == "red"
    assert model.predict_proba_one({"a": 1}) == {"red": 1.0}
    model.learn_one({"a": 1}, "green")
    assert set(model.predict_proba_one({"a": 1})) == {"red", "green"}
    decided = model.predict_one({"b": 1})
    model.learn_one({"c": 1}, "blue")
    model.learn_one({"b": 1}, decided)
    assert set(model.predict_proba_one({"a": 1})) == {"red", "green", "blue"}
    assert model.n_open == 0


def test_the_number_of_open_decisions_is_limited():
    model = DelayedClassifier(classes=COLOURS, bits=BITS, max_open=5, seed=0)
    for i in range(20):
        model.predict_one({"n": i + 1})
    assert model.n_open == model._learner.pending == 5
    before = model._learner.book.rounds
    model.learn_one({"n": 1}, "red")  # its decision was cancelled: another one is made
    assert model._learner.book.rounds == before + 1
    assert model.n_open == 4  # the decision about 16 made room
    model.learn_one({"n": 20}, "red")
    assert model._learner.book.rounds == before + 1
    assert len(model._learner.book.kept) == 3


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_a_copy_continues_like_the_original(how):
    events = list(some_examples(80))
    model = DelayedClassifier(bits=BITS, seed=0)
    for x, y in events[:40]:
        model.predict_one(x)
        if y != "red":
            model.learn_one(x, y)
    twin = how(model)
    for x, y in events[20:]:
        assert twin.predict_one(x) == model.predict_one(x)
        twin.learn_one(x, y)
        model.learn_one(x, y)
    assert twin.n_open == model.n_open > 0
    assert learners_alike(model, twin._learner, [x for x, _ in events])


def test_a_clone_knows_nothing_and_has_the_same_parameters():
    model = DelayedClassifier("delaytron", {"gamma": 0.2}, bits=BITS, seed=0)
    for x, y in some_examples(10):
        model.learn_one(x, y)
    clone = model.clone({"bits": 7})
    assert (clone.learner, clone.parameters, clone.bits, clone.seed) == ("delaytron", {"gamma": 0.2}, 7, 0)
    assert clone.parameters is not model.parameters
    assert clone.predict_one({"a": 1}) is None


@pytest.mark.parametrize("delay", [None, 1, 30])
def test_it_learns_under_progressive_validation(delay):
    model = DelayedClassifier(bits=10, seed=0)
    metric = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy(), delay=delay)
    assert metric.get() > 0.8  # of seven classes
    assert model.n_open == 0


def test_moments_and_delays_in_time():
    start = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    dated = [({"when": start + datetime.timedelta(minutes=i), **x}, y) for i, (x, y) in enumerate(some_examples(300))]
    model = compose.Discard("when") | DelayedClassifier(bits=BITS, seed=0)
    hour = datetime.timedelta(hours=1)
    metric = evaluate.progressive_val_score(dated, model, metrics.Accuracy(), moment="when", delay=hour)
    assert metric.get() > 0.6
    assert model["DelayedClassifier"].n_open == 0


def test_a_metric_of_probabilities():
    model = DelayedClassifier(bits=10, seed=0)
    metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss(), delay=10)
    assert metric.get() < np.log(2)
    labels = [y for _, y in datasets.Phishing()]
    alone = next(i for i, y in enumerate(labels) if y != labels[0])  # of one class there is nothing to learn
    assert model._learner.book.rounds == len(labels) - alone


def test_a_scaler_that_moves_lets_labels_miss_their_decisions():
    """`learn_one` gets other features than `predict_one`: it makes another decision, and `max_open` limits the rest."""
    model = preprocessing.StandardScaler() | DelayedClassifier(bits=BITS, max_open=50, seed=0)
    for x, y in some_examples(300):
        numbers = {name: value for name, value in x.items() if name != "word"}
        model.predict_one(numbers)
        model.learn_one(numbers, y)
    assert model["DelayedClassifier"].n_open == 49  # the last decision is that of `learn_one`, and answered


def test_names_and_values_of_any_kind():
    rows = stream.iter_array(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1]))
    model = DelayedClassifier(bits=BITS, seed=0)
    for x, y in rows:  # the names are the integers 0 and 1
        model.learn_one(x, y)
    assert set(model.predict_proba_one({0: 1.0, ("a", 2): True, "text": "never seen before"})) == {0, 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learner": "delaytrom"}, "did you mean delaytron"),
        ({"learner": "dilute", "parameters": {"m": 1}}, "dilute plays sets of labels"),
        ({"parameters": {"gamma": 0.1}}, "a parameter of bandit_logit must be one of lr"),
        ({"classes": ["a", "a"]}, "no two of the same name"),
        ({"classes": [None, "a"]}, "a label must be"),
        ({"classes": [["a"], ["b"]]}, "a label must be text, a number or True or False, got \\['a'\\]"),
        ({"classes": 3}, "classes must be a list of labels, got 3"),
        ({"classes": "ab"}, "classes must be a list of labels, got 'ab'"),
        ({"bits": 0}, "bits must be an integer of at least 1"),
        ({"max_open": 0}, "max_open must be an integer of at least 1"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(given, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        DelayedClassifier(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("features", [None, 3, [1, 2]])
def test_features_must_be_a_dict(features):
    with pytest.raises(dt.InvalidInput, match=r"features must be a dict, as in {'age': 7}, got "):
        DelayedClassifier().predict_one(features)


def test_bad_input_changes_nothing():
    model = DelayedClassifier("newtron", {"matrix": "diagonal"}, classes=COLOURS, bits=BITS, seed=0)
    model.predict_one({"a": 1})
    before = known_rounds(model._learner), model.n_open, list(model._names)
    for x, y in [({"a": float("inf")}, "red"), ({"a": 1}, "pink"), ({"a": 1}, float("nan")), ({"a": 1}, ["red"])]:
        with pytest.raises(dt.InvalidInput):
            model.learn_one(x, y)
    with pytest.raises(dt.InvalidInput, match="got a datetime"):
        model.predict_one({"a": datetime.datetime.now(datetime.UTC)})
    with pytest.raises(NotImplementedError, match="no probabilities"):
        DelayedClassifier("banditron").predict_proba_one({"a": 1})
    assert (known_rounds(model._learner), model.n_open, list(model._names)) == before


def test_its_memory_is_that_of_its_tables_and_open_decisions():
    """Not compiled code: the tables of the learner, and more with every decision that waits."""
    model = DelayedClassifier(bits=8, classes=["a", "b"], seed=0)
    before = model._raw_memory_usage
    tables = sum(field.nbytes for field in model._learner.state)
    assert tables <= before < tables + 10_000
    for i in range(100):
        model.predict_one({"x": i})
    assert before + 100 * 12 <= model._raw_memory_usage < before + 100 * 500


# River's own checks of DelayedClassifier, for several learners


IMAGES = ["brickface", "cement", "foliage", "grass", "path", "sky", "window"]
CLASSIFIERS = [
    DelayedClassifier(bits=8),
    DelayedClassifier("newtron", {"matrix": "diagonal"}, classes=[True, False, *IMAGES], bits=8),
    DelayedClassifier("perceptron", bits=8),
]
CASES = [
    pytest.param(model, check, id=f"{model.learner}-{number}-{check.__name__}")
    for model in CLASSIFIERS
    for number, check in enumerate(checks.yield_checks(model))
]


@pytest.mark.parametrize(("model", "check"), CASES)
def test_rivers_checks_pass(model, check):
    assert check.__name__ not in model._unit_test_skips()
    check(model.clone())
