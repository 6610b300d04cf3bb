"""DelayedClassifier of scikit-learn: use, refusals, and scikit-learn's own checks."""

import pickle
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import delaytron as dt
from delaytron.sklearn import DelayedClassifier

pytestmark = pytest.mark.xdist_group("bandit_logit")

RNG = np.random.default_rng(0)
TOPICS = {"sport": "ball goal team match", "food": "bread soup salt oven", "music": "song drum tune choir"}
LABELS = RNG.choice(list(TOPICS), 400)
TEXTS = [" ".join(RNG.choice(TOPICS[topic].split(), 3)) for topic in LABELS]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def iris_frame():
    data = load_iris(as_frame=True)
    names = np.array(data.target_names)[data.target]
    order = np.random.default_rng(1).permutation(150)
    return data.data.iloc[order], names[order]


def test_it_learns_digits_from_late_feedback(digits):
    X, y, X_test, y_test = digits
    classifier = DelayedClassifier(delay=200, random_state=0).fit(X, y)
    assert classifier.score(X_test, y_test) > 0.75
    curve = classifier.error_curve_
    assert curve.shape == (1200,)
    assert curve[-1] < curve[199]


@pytest.mark.parametrize("vectorizer", [HashingVectorizer(n_features=2**10), TfidfVectorizer()])
def test_a_pipeline_with_a_vectorizer(vectorizer):
    pipeline = make_pipeline(vectorizer, DelayedClassifier(delay=20, random_state=0))
    pipeline.fit(TEXTS[:300], LABELS[:300])
    assert pipeline.score(TEXTS[300:], LABELS[300:]) > 0.95
    assert pipeline[-1].learner_.sparse
    assert pipeline.classes_.tolist() == ["food", "music", "sport"]
    assert pipeline.predict_proba(TEXTS[:2]).sum(axis=1) == pytest.approx(1)


def test_text_that_comes_in_batches():
    vectorizer = HashingVectorizer(n_features=2**10)
    classifier = DelayedClassifier(delay=20, random_state=0)
    for begin in range(0, 300, 60):
        batch = slice(begin, begin + 60)
        classifier.partial_fit(vectorizer.transform(TEXTS[batch]), LABELS[batch], classes=list(TOPICS))
    whole = DelayedClassifier(delay=20, random_state=0).fit(vectorizer.transform(TEXTS[:300]), LABELS[:300])
    rest = vectorizer.transform(TEXTS[300:])
    assert classifier.finish().decision_function(rest).tobytes() == whole.decision_function(rest).tobytes()


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_matrix])
def test_all_kinds_of_sparse_rows_are_one(kind, digits):
    X, y, X_test, _ = digits
    want = DelayedClassifier(delay=9, random_state=0).fit(sparse.csr_array(X), y)
    got = DelayedClassifier(delay=9, random_state=0).fit(kind(X), y)
    assert got.decision_function(kind(X_test)).tobytes() == want.decision_function(X_test).tobytes()


def test_a_search_of_learners_and_their_parameters(digits):
    X, y, _, _ = digits
    pipeline = make_pipeline(StandardScaler(), DelayedClassifier(delay=10, random_state=0))
    grid = [
        {"delayedclassifier__learner": ["bandit_logit"], "delayedclassifier__parameters__lr": [1e-4, 1.0]},
        {"delayedclassifier__learner": ["delaytron"], "delayedclassifier__parameters": [{"gamma": 0.25}]},
    ]
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X[:600], y[:600])
    assert search.best_params_ == {"delayedclassifier__learner": "bandit_logit", "delayedclassifier__parameters__lr": 1}
    assert search.best_estimator_[-1].learner_.lr == 1.0
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.predict_proba(X[:3]).shape == (3, 10)


def test_names_of_columns_are_kept_and_compared():
    frame, names = iris_frame()
    classifier = DelayedClassifier(random_state=0).fit(frame, names)
    assert classifier.feature_names_in_.tolist() == frame.columns.tolist()
    assert set(classifier.predict(frame)) <= set(names)
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[frame.columns[::-1]])


def test_frames_and_arrays_are_the_same():
    frame, names = iris_frame()
    make = DelayedClassifier(random_state=0)
    want = clone(make).fit(frame.to_numpy(), names).decision_function(frame.to_numpy())
    for given in (frame, pl.from_pandas(frame)):
        assert clone(make).fit(given, pd.Series(names)).decision_function(given).tobytes() == want.tobytes()


@pytest.mark.parametrize("output", ["pandas", "polars", "default"])
def test_a_pipeline_with_set_output(output):
    frame, names = iris_frame()
    pipeline = make_pipeline(StandardScaler(), DelayedClassifier(random_state=0)).set_output(transform=output)
    pipeline.fit(frame, names)
    assert hasattr(pipeline[-1], "feature_names_in_") == (output != "default")
    assert pipeline.score(frame, names) > 0.6


def test_it_works_in_the_tools_around_classifiers(digits):
    X, y, _, _ = digits
    scores = cross_val_score(DelayedClassifier(random_state=0), X, y, cv=3)
    assert scores.min() > 0.6
    calibrated = CalibratedClassifierCV(DelayedClassifier("delaytron", random_state=0), cv=2).fit(X[:200], y[:200])
    assert calibrated.predict_proba(X[:2]).shape == (2, 10)


@pytest.mark.parametrize("name", dt.LEARNERS)
def test_only_a_model_of_probabilities_has_them(name):
    assert hasattr(DelayedClassifier(name), "predict_proba") == (name in ("bandit_logit", "newtron"))


def test_probabilities_are_those_of_the_logit(digits):
    X, y, X_test, _ = digits
    classifier = DelayedClassifier(random_state=0).fit(X, y)
    scores = classifier.decision_function(X_test)
    want = [[np.exp(s) / sum(np.exp(row)) for s in row] for row in scores]
    assert classifier.predict_proba(X_test) == pytest.approx(np.array(want))


def test_newtron_has_its_own_sharpness(digits):
    X, y, X_test, _ = digits
    classifier = DelayedClassifier("newtron", parameters={"alpha": 3.0, "matrix": "diagonal"}, random_state=0)
    scores = classifier.fit(X / 100, y).decision_function(X_test / 100)
    want = np.exp(3.0 * scores) / np.exp(3.0 * scores).sum(axis=1, keepdims=True)
    assert classifier.predict_proba(X_test / 100) == pytest.approx(want)


def test_of_two_labels_the_second_one_is_positive():
    X = np.array([[-1.0], [1.0]] * 100)
    y = np.array(["no", "yes"] * 100)
    classifier = DelayedClassifier(random_state=0).fit(X, y)
    scores = classifier.decision_function([[-1.0], [1.0]])
    assert scores.shape == (2,)
    assert scores[0] < 0 < scores[1]
    assert classifier.predict([[-1.0], [1.0]]).tolist() == ["no", "yes"]


def test_a_random_state_may_be_a_generator():
    X, y = [[0.0], [1.0]] * 20, [0, 1] * 20
    same = [DelayedClassifier(random_state=np.random.RandomState(3)).fit(X, y).learner_.seed for _ in range(2)]
    assert same[0] == same[1]
    assert DelayedClassifier().fit(X, y).learner_.seed != DelayedClassifier().fit(X, y).learner_.seed
    assert DelayedClassifier(random_state=np.int64(7)).fit(X, y).learner_.seed == 7


def test_parameters_of_the_learner_are_found_and_set():
    classifier = DelayedClassifier("delaytron", parameters={"gamma": 0.1, "eta": 2.0})
    assert classifier.get_params()["parameters__gamma"] == 0.1
    assert "parameters__gamma" not in classifier.get_params(deep=False)
    given = classifier.parameters
    classifier.set_params(parameters__gamma=0.5, delay=7)
    assert classifier.parameters == {"gamma": 0.5, "eta": 2.0}
    assert given == {"gamma": 0.1, "eta": 2.0}  # that of the caller stays
    assert clone(classifier).get_params() == classifier.get_params()
    assert DelayedClassifier().set_params(parameters__lr=2.0).parameters == {"lr": 2.0}


def test_a_copy_continues_like_the_original(digits):
    X, y, X_test, _ = digits
    classifier = DelayedClassifier(delay=50, random_state=0).partial_fit(X[:500], y[:500], classes=range(10))
    copy = pickle.loads(pickle.dumps(classifier))  # noqa: S301 - our own
    for one in (classifier, copy):
        one.partial_fit(X[500:], y[500:]).finish()
    assert copy.decision_function(X_test).tobytes() == classifier.decision_function(X_test).tobytes()


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (DelayedClassifier("delaytrom"), "did you mean delaytron"),
        (DelayedClassifier(LogisticRegression()), "learner must be one of"),
        (DelayedClassifier(delay=0), "delay must be an integer of at least 1, got 0"),
        (DelayedClassifier(delay="soon"), "delay must be 1000 or uniform:D"),
        (DelayedClassifier(parameters={"gama": 0.1}), "a parameter of bandit_logit must be one of lr, .*, got 'gama'"),
        (DelayedClassifier(parameters={"seed": 1}), "got 'seed'"),
        (DelayedClassifier(parameters=[1]), "parameters must be a dict"),
        (DelayedClassifier("delaytron", parameters={"gamma": 2}), r"gamma must be in \(0, 1\]"),
        (DelayedClassifier(shuffle="yes"), "shuffle must be True or False"),
        (DelayedClassifier(random_state=-1), "seed must be an integer of at least 0"),
        (DelayedClassifier(random_state="x"), "cannot be used to seed"),
    ],
    ids=str,
)
def test_invalid_parameters_are_refused_in_one_line(classifier, message):
    with pytest.raises(ValueError, match=message) as caught:
        classifier.fit([[0.0], [1.0]], [0, 1])
    assert "\n" not in str(caught.value)


def test_bad_pieces_change_nothing():
    X, y = np.eye(3).repeat(20, axis=0), np.arange(3).repeat(20)
    classifier = DelayedClassifier(delay=5, random_state=0)
    with pytest.raises(dt.InvalidInput, match=r"needs all labels; give classes=\[...\]"):
        classifier.partial_fit(X, y)
    with pytest.raises(dt.InvalidInput, match=r"labels of classes only, 0, 1, got 2"):
        classifier.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(dt.InvalidInput, match="scale the features"):
        classifier.partial_fit(X * 1e60, y, classes=[0, 1, 2])
    assert not hasattr(classifier, "classes_")
    classifier.partial_fit(X, y, classes=[0, 1, 2])
    twin = pickle.loads(pickle.dumps(classifier))  # noqa: S301 - our own
    with pytest.raises(dt.InvalidInput, match=r"labels of classes only, 0, 1, 2, got 9"):
        classifier.partial_fit(X, np.where(y == 2, 9, y))
    with pytest.raises(dt.InvalidInput, match="classes must be those of the first call"):
        classifier.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        classifier.partial_fit(X[:, :2], y)
    with pytest.raises(dt.InvalidInput, match="scale the features"):
        classifier.partial_fit(X * 1e60, y)
    for one in (classifier, twin):
        one.partial_fit(X, y).finish()
    assert classifier.error_curve_.tolist() == twin.error_curve_.tolist()
    assert classifier.learner_.weights.tobytes() == twin.learner_.weights.tobytes()


def test_nothing_is_known_before_fit():
    with pytest.raises(NotFittedError):
        DelayedClassifier().finish()
    with pytest.raises(AttributeError, match="call fit or partial_fit first"):
        _ = DelayedClassifier().error_curve_
    with pytest.raises(dt.InvalidInput, match="one class"):
        DelayedClassifier().fit([[1.0], [2.0]], [1, 1])


# scikit-learn's own checks of DelayedClassifier: all of them, for several learners and delays


CLASSIFIERS = [
    DelayedClassifier(),
    DelayedClassifier(
        "delaytron", delay="lognormal:20,1.5+missing:0.2", parameters={"gamma": 0.25}, shuffle=True, random_state=3
    ),
]


@parametrize_with_checks(CLASSIFIERS)
def test_checks_of_scikit_learn_pass(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips one of its checks
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"skipped: {reason}")
