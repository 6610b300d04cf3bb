"""Greedy predictions as ONNX graphs: the labels of onnxruntime are ours, on every row."""

import json
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.special import softmax

import delaytron as dt
from delaytron.learners.arguments import own_parameters
from delaytron.learners.predictions import LinearForm, Standard, linear_form
from optional import need

need("onnx", "onnxruntime")

import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from delaytron.learners import onnx as onnx_graph  # noqa: E402

SHARP = {"bandit_logit": lambda learner: 1.0, "newtron": lambda learner: learner.alpha}  # whose softmax has a meaning
FORMS = {name: (name, {}) for name in dt.LEARNERS} | {
    "newtron": ("newtron", {"diameter": 1e-4, "alpha": 1.0}),
    "delaytron ties": ("delaytron", {"ties": "random"}),
    "delaytron standardized": ("delaytron", {"standardize": True}),
    "hinge_delaytron standardized": ("hinge_delaytron", {"standardize": True}),
    "newtron standardized": ("newtron", {"standardize": True, "diameter": 1e-2}),
}
ROUNDS = 1797


@cache
def digits():
    return dt.datasets.load("digits")


def forms(names):
    return [pytest.param(name, id=name.replace(" ", "-"), marks=pytest.mark.xdist_group(name)) for name in names]


def session_of(content):
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(content, X):
    """Return the outputs of a graph by name."""
    session = session_of(content)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": np.asarray(X, np.float64)}), strict=True))


def exported(model, path):
    model.export_onnx(path)
    return path.read_bytes()


def answer_to(learner, decision, y):
    if learner.feedback_type == "label":
        return {"label": int(y)}
    return {"correct": int(y) in getattr(decision, "labels", (decision.label,))}


def taught(learner, rounds=ROUNDS, sparse=False):
    """Play digits, every answer three rounds late."""
    data, decisions = digits(), []
    for t in range(rounds):
        if t >= 3:
            learner.feedback(decisions[t - 3].id, **answer_to(learner, decisions[t - 3], data.y[t - 3]))
        decisions.append(learner.decide(csr_matrix(data.X[t]) if sparse else data.X[t]))
    return learner


def check_same(learner, content, X):
    """The labels are the same, the scores and probabilities up to rounding."""
    answers = run(content, X)
    scores = learner.scores(X)
    assert answers["label"].dtype == np.int64
    assert_array_equal(answers["label"], learner.predict(X))
    assert_allclose(answers["scores"], scores, rtol=1e-9, atol=1e-11 * np.abs(scores).max())
    return answers


@pytest.mark.parametrize("form", forms(FORMS))
def test_labels_are_those_of_predict_on_every_row_of_digits(form, tmp_path):
    name, settings = FORMS[form]
    explores = {"gamma": 0.3} if "gamma" in own_parameters(dt.LEARNERS[name]) else {}
    learner = taught(dt.LEARNERS[name](10, 64, seed=4, **explores, **settings))
    X = digits().X
    assert X.shape[0] == 1797
    answers = check_same(learner, exported(learner, tmp_path / "a.onnx"), X)
    assert len(set(answers["label"].tolist())) > (0 if name == "exp3" else 3)
    if name in SHARP:
        assert_allclose(answers["probabilities"], softmax(SHARP[name](learner) * learner.scores(X), axis=1), atol=1e-12)
    elif name == "exp3":
        assert_allclose(answers["probabilities"][0], learner.probabilities(X[0]), rtol=1e-12)
    else:
        assert "probabilities" not in answers


@pytest.mark.parametrize("name", ["bandit_logit", "delaytron"])
@pytest.mark.parametrize("rounds", [0, 1, 40, 333])
def test_learners_of_sparse_rows_give_the_same_labels(name, rounds, tmp_path):
    learner = taught(dt.LEARNERS[name](10, 64, seed=4), rounds, sparse=True)
    check_same(learner, exported(learner, tmp_path / "a.onnx"), digits().X)


@pytest.mark.parametrize("rounds", [0, 1, 2, 17])
@pytest.mark.parametrize("name", ["bandit_logit", "banditron", "hinge_delaytron", "perceptron"])
def test_ties_go_to_the_first_label(name, rounds, tmp_path):
    """Classes that were never played have the same scores; rows of zeros have them for all."""
    learner = taught(dt.LEARNERS[name](10, 64, seed=1), rounds)
    X = np.vstack([np.zeros(64), digits().X[:300]])
    check_same(learner, exported(learner, tmp_path / "a.onnx"), X)


def test_a_pool_exports_the_instance_that_predicts(tmp_path):
    learner = taught(dt.Bold(dt.Banditron(10, 64, seed=2, gamma=0.3)))
    assert learner.instances > 1
    check_same(learner, exported(learner, tmp_path / "a.onnx"), digits().X)


def test_a_class_that_was_added_is_in_the_graph(tmp_path):
    learner = taught(dt.BanditLogit(9, 64, seed=2), 0)
    learner.add_class()
    check_same(taught(learner, 200), exported(learner, tmp_path / "a.onnx"), digits().X)


def with_weights(K, d, sparse, rng):
    """Return a learner with random weights, held for dense or for sparse rows."""
    learner = dt.Banditron(K, d)
    learner._reset_state(sparse=sparse)
    learner.state.W[:] = rng.normal(size=learner.state.W.shape)
    return learner


@given(st.integers(1, 20), st.integers(2, 35), st.integers(1, 40), st.booleans(), st.integers(0, 2**32 - 1))
def test_scores_agree_up_to_rounding(n, K, d, sparse, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0)
    learner = with_weights(K, d, sparse, rng)
    answers = run(onnx_graph.make_graph(linear_form(learner)), X)
    assert_allclose(answers["scores"], learner.scores(X), rtol=0, atol=1e-12)
    some = np.sort(rng.permutation(K)[: max(1, K // 2)])
    fewer = run(onnx_graph.make_graph(linear_form(learner).only(some)), X)
    assert_allclose(fewer["scores"], learner.scores(X)[:, some], rtol=0, atol=1e-12)


def test_a_label_differs_only_where_scores_differ_by_rounding(tmp_path):
    """The pixels are integers: early on, many scores are equal but for what was rounded on the way."""
    data, others = digits(), 0
    for seed in range(8):
        learner = dt.Delaytron(10, 64, gamma=0.3, eta=0.7, seed=seed)
        for t in np.random.default_rng(seed).permutation(len(data.y))[:16]:
            decision = learner.decide(data.X[t])
            learner.feedback(decision.id, correct=bool(decision.label == data.y[t]))
        learner.flush()
        labels, scores = learner.predict(data.X), learner.scores(data.X)
        answers = run(exported(learner, tmp_path / "a.onnx"), data.X)
        assert_allclose(answers["scores"], scores, rtol=1e-9, atol=1e-8)
        rows = np.flatnonzero(answers["label"] != labels)
        lead = scores[rows, labels[rows]] - scores[rows, answers["label"][rows]]
        assert (lead <= 1e-13 * np.abs(scores).max()).all()
        others += rows.size
    assert others < 8 * 18  # of 8 * 1797


sizes = st.tuples(st.integers(1, 40), st.integers(2, 40), st.integers(1, 70))  # rows, classes, features


@given(sizes, st.integers(0, 2**32 - 1))
def test_sums_of_integers_have_exactly_the_labels_of_argmax(size, seed):
    n, K, d = size
    rng = np.random.default_rng(seed)
    W, b, X = rng.integers(-2, 3, (K, d)), rng.integers(-1, 2, K), rng.integers(-2, 3, (n, d))
    answers = run(onnx_graph.make_graph(LinearForm(W * 1.0, b * 1.0)), X)
    assert_array_equal(answers["scores"], X @ W.T + b)
    assert_array_equal(answers["label"], np.argmax(X @ W.T + b, axis=1))


@given(sizes, st.booleans(), st.integers(0, 2**32 - 1))
def test_of_equal_classes_the_first_leads_whatever_is_rounded(size, standard, seed):
    """Equal weights have equal scores, to the bit: no sum depends on the place of a class or on the batch."""
    n, K, d = size
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, max(1, K // 3), K)
    W, b = rng.normal(size=(K, d))[kinds], rng.normal(size=K)[kinds]
    rows = Standard(rng.normal(size=d), rng.exponential(size=d)) if standard else None
    answers = run(onnx_graph.make_graph(LinearForm(W, b, rows)), rng.normal(size=(n, d)))
    firsts = [int(np.argmax(kinds == kind)) for kind in kinds]
    assert_array_equal(answers["scores"], answers["scores"][:, firsts])
    assert set(answers["label"].tolist()) <= set(firsts)


def test_the_formula_is_that_of_the_page():
    rng = np.random.default_rng(0)
    W, b, centre, inverse = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), np.array([0.5, 9.0, 0.0])
    form = LinearForm(W, b, Standard(centre, inverse), scale=0.25, sharpness=2.0)
    X = 10 * rng.normal(size=(50, 3))
    answers = run(onnx_graph.make_graph(form), X)
    for x, label, scores, p in zip(X, *(answers[name] for name in ("label", "scores", "probabilities")), strict=True):
        z = [min(5.0, max(-5.0, (x[j] - centre[j]) * inverse[j])) for j in range(3)]
        length = (z[0] ** 2 + z[1] ** 2 + z[2] ** 2 + 1.0) ** 0.5
        lead = [sum(W[k, j] * z[j] for j in range(3)) + b[k] for k in range(4)]
        assert label == lead.index(max(lead))
        assert_allclose(scores, [0.25 * s / length for s in lead], rtol=1e-12)
        powers = [np.exp(2.0 * s) for s in scores]
        assert_allclose(p, [power / sum(powers) for power in powers], rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_any_number_of_rows_is_taken(n):
    answers = run(onnx_graph.make_graph(LinearForm(np.eye(3), np.zeros(3), sharpness=1.0)), np.ones((n, 3)))
    assert {name: values.shape for name, values in answers.items()} == {
        "label": (n,),
        "scores": (n, 3),
        "probabilities": (n, 3),
    }


def model_of(classes, features, **settings):
    """Return a model that knows something, and rows for it."""
    model = dt.Model(classes, features=features, seed=3, **settings)
    data = digits()
    columns = [10, 20, 21, 42]
    for t in range(300):
        values = data.X[t, columns]
        x = values if isinstance(features, int) else dict(zip(features, values.tolist(), strict=True))
        decision = model.decide(x)
        model.feedback(decision.id, correct=classes.index(decision.label) == data.y[t] % len(classes))
    return model, data.X[:, columns]


@pytest.mark.parametrize("settings", [{}, {"learner": "delaytron", "gamma": 0.3}], ids=["logit", "delaytron"])
def test_models_return_names_and_treat_missing_cells_as_0(settings, tmp_path):
    names = ["a", "b", "c", "d"]
    model, X = model_of(["small", "großer", "<none>"], names, **settings)
    model.retire_class("small")
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    answers = run(exported(model, tmp_path / "m.onnx"), holes)
    assert answers["label"].tolist() == [model.predict(dict(zip(names, row, strict=True))) for row in holes.tolist()]
    assert set(answers["label"].tolist()) == {"großer", "<none>"}
    assert answers["scores"].shape == (len(X), 2)
    notes = {note.key: note.value for note in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(notes["classes"]) == ["großer", "<none>"]
    assert json.loads(notes["features"]) == names


def test_models_of_vectors_return_integers(tmp_path):
    model, X = model_of([-7, 2**62], 4, standardize=True, learner="banditron", gamma=0.2)
    answers = run(exported(model, tmp_path / "m.onnx"), X)
    assert answers["label"].tolist() == [model.predict(row) for row in X]


def strange(**methods):
    return type("Strange", (dt.Banditron,), {"name": "strange"} | methods)


def overflown():
    learner = dt.Banditron(2, 1, seed=0)
    learner.state.W[0, 0] = np.inf
    return learner


REFUSED = {
    "own scores": (lambda: strange(scores=lambda self, X: np.ones((len(X), 2)))(2, 1), "Strange computes its scores"),
    "own labels": (lambda: strange(predict=lambda self, X: np.ones(len(X)))(2, 1), "Strange computes its scores"),
    "overflown": (overflown, "the weights of this Banditron are not finite"),
    "hashed": (lambda: dt.Model(["a", "b"]), r"hashed features cannot be exported.*features=\[names\] or n"),
    "mixed names": (lambda: dt.Model(["a", 1], features=2), "all text or all integers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_be_exported_are_refused_and_nothing_is_written(case, tmp_path):
    make, message = REFUSED[case]
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        make().export_onnx(tmp_path / "a.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_weights_beyond_what_a_file_holds_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(onnx_graph, "MOST_BYTES", 100)
    with pytest.raises(
        dt.InvalidInput, match="an ONNX file holds 2 GiB, these weights have 160 bytes; use fewer features"
    ):
        dt.Banditron(2, 10).export_onnx(tmp_path / "a.onnx")
    dt.Banditron(2, 6).export_onnx(tmp_path / "a.onnx")


def test_without_onnx_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "delaytron.learners.onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(dt.InvalidInput, match=r"pip install 'delaytron\[onnx\]'"):
        dt.Banditron(2, 1).export_onnx(tmp_path / "a.onnx")


def test_old_runtimes_can_read_the_file(tmp_path):
    dt.Banditron(2, 1).export_onnx(tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    assert model.ir_version == 8
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    assert (model.producer_name, model.producer_version) == ("delaytron", dt.__version__)
