"""`dt.evaluate` at its edges: policies of all kinds, what is refused, and when it warns."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.evaluation.evaluate import EvaluationWarning
from delaytron.evaluation.policies import learn_along
from known_logs import DAY, K, make_log

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def made():
    return make_log(3, n_rows=500)


def log_with(log, **changes):
    given = {
        "features": log.features,
        "labels": log.labels,
        "probs": log.probs,
        "rewards": log.outcomes,
        "n_classes": K,
    }
    return dt.logs.from_arrays(**given | changes)


def same(one, other):
    return (one.value, one.low, one.high, one.effective_size) == (
        other.value,
        other.low,
        other.high,
        other.effective_size,
    )


def test_a_learner_is_taken_as_it_is_now(made):
    learner = dt.Banditron(K, 2, gamma=0.3, seed=0)
    for x in made.log.features[:50]:
        learner.feedback(learner.decide(x).id, correct=bool(x[0] > 0))
    learner.flush()
    before = learner.weights
    p = np.array([learner.probabilities(x) for x in made.log.features])
    assert same(dt.evaluate(made.log, learner, "ips"), dt.evaluate(made.log, p, "ips"))
    assert (learner.weights == before).all()
    assert learner.book.rounds == 50


def test_learners_respect_allowed_labels(made):
    allowed = RNG.random((500, K)) < 0.6
    allowed[np.arange(500), made.log.labels] = True
    uniform = allowed / allowed.sum(axis=1, keepdims=True)
    log = log_with(made.log, allowed=allowed, probs=uniform[np.arange(500), made.log.labels], probabilities=uniform)
    learner = dt.Banditron(K, 2, gamma=0.3, seed=0)
    rows = zip(log.features, allowed, strict=True)
    p = np.array([learner.probabilities(x, allowed=np.flatnonzero(mask)) for x, mask in rows])
    assert same(dt.evaluate(log, learner, "snips"), dt.evaluate(log, p, "snips"))
    assert same(dt.evaluate(log, "uniform", "snips"), dt.evaluate(log, uniform, "snips"))
    learning = learn_along(log, learner, lambda _: None)
    assert (learning[~allowed] == 0).all()
    with pytest.raises(dt.InvalidInput, match="was not allowed in row"):
        dt.evaluate(log, np.full((500, K), 1 / K))


@pytest.mark.parametrize("method", ["ips", "snips", "dr", "replay"])
@pytest.mark.filterwarnings("ignore::delaytron.evaluation.evaluate.EvaluationWarning")
def test_sparse_rows_are_as_good(made, method):
    sparse = log_with(made.log, features=csr_array(made.log.features))
    dense, thin = (dt.evaluate(log, "banditron", method, gamma=0.3) for log in (made.log, sparse))
    if method == "dr":  # its model scales sparse features in another way
        assert thin.value == pytest.approx(dense.value, abs=(dense.high - dense.value) / 2)
    else:
        assert thin.value == pytest.approx(dense.value, rel=1e-9)


def test_named_features_are_hashed():
    n = 600
    labels = RNG.integers(0, 2, n)
    moods = RNG.integers(0, 2, n)
    features = [{"mood": ["tired", "thirsty"][mood]} for mood in moods]
    log = dt.logs.from_arrays(
        features=features, labels=labels, probs=np.full(n, 0.5), rewards=labels == moods, classes=["tea", "water"]
    )
    best = dt.evaluate(log, np.eye(2)[moods], "dr")
    assert best.low < 1 < best.high + 1e-9
    assert best.high - best.low < 0.1
    assert dt.evaluate(log, "bandit_logit", "dr").value > 0.8
    model = dt.Model(["tea", "water"], seed=0)
    for feature, mood in zip(features[:100], moods, strict=False):
        decision = model.decide(feature)
        model.feedback(decision.id, correct=decision.label == ["tea", "water"][mood])
    assert dt.evaluate(log, model, "ips").value > 0.8


def test_a_subclass_of_model_is_a_policy():
    class Shop(dt.Model):
        pass

    classes = ["tea", "water"]
    given = {"features": [{"a": 1}] * 200, "labels": [0, 1] * 100, "probs": [0.5] * 200, "rewards": [1, 0] * 100}
    log = dt.logs.from_arrays(**given, classes=classes)
    assert same(dt.evaluate(log, Shop(classes), "ips"), dt.evaluate(log, dt.Model(classes), "ips"))


@pytest.mark.parametrize("name", ["pab", "gap", "confidit", "newtron"])
@pytest.mark.parametrize("method", ["snips", "replay"])
def test_learners_of_other_kinds_learn_from_a_log(name, method):
    """They take no rewards, note something of a round, or choose in ways of their own."""
    n = 1500
    labels = RNG.integers(0, K, n)
    X = np.eye(K)[RNG.integers(0, K, n)]
    right = labels == X.argmax(axis=1)
    log = dt.logs.from_arrays(features=X, labels=labels, probs=np.full(n, 1 / K), rewards=right, n_classes=K)
    found = dt.evaluate(log, name, method, seed=1)
    assert found.low > 0.8


def test_always_one_class(made):
    always = np.zeros((500, K))
    always[:, 2] = 1
    assert same(dt.evaluate(made.log, "always:2", "ips"), dt.evaluate(made.log, always, "ips"))


def test_weights_of_a_log_count_rounds_several_times(made):
    """A decision of weight two counts as that decision twice, except in the interval."""
    counts = RNG.integers(1, 4, 500)
    twice = np.repeat(np.arange(500), counts)
    one = dt.evaluate(log_with(made.log, weights=counts.astype(float)), made.policy, "ips")
    log = dt.logs.from_arrays(
        features=made.log.features[twice],
        labels=made.log.labels[twice],
        probs=made.log.probs[twice],
        rewards=made.log.outcomes[twice],
        n_classes=K,
    )
    many = dt.evaluate(log, made.policy[twice], "ips")
    assert one.value == pytest.approx(many.value, rel=1e-12)
    assert one.high - one.low > many.high - many.low  # these are not more rounds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "drr"}, "method must be one of ips, snips, dm, dr, replay, got 'drr'"),
        ({"quantity": "loss"}, "quantity must be one of reward, error"),
        ({"policy": "bandit_logits"}, "policy must be one of .* did you mean bandit_logit"),
        ({"policy": "always:9"}, "the class of a policy must be one of 0, 1, 2, got '9'"),
        ({"policy": np.full((500, 2), 0.5)}, r"of shape \(500, 3\), got shape \(500, 2\)"),
        ({"policy": object()}, "policy must be a learner, a model, a name, or an array"),
        ({"policy": np.full((500, K), 0.5)}, "sum to 1, got .* in row 0"),
        ({"policy": np.full((500, K), np.nan)}, "sum to 1"),
        ({"policy": "perceptron"}, "learns from the true label, .*; take another learner"),
        ({"policy": "dilute"}, "plays sets of labels"),
        ({"policy": "banditron", "gama": 0.1}, "a parameter of banditron must be one of"),
        ({"policy": "banditron", "gamma": 7}, "gamma must be in"),
        ({"policy": np.full((500, K), 1 / K), "gamma": 0.1}, "parameters are for a learner that is given by its name"),
        ({"policy": dt.Banditron(2, 2, seed=0)}, "the log has 3 classes, this learner has 2"),
        ({"policy": dt.Banditron(K, 5, seed=0)}, "X must have 5 features"),
        ({"clip": 0}, "clip must be above 0"),
        ({"missing": 2}, "missing must be a reward from 0 to 1"),
        ({"wait": "7d"}, "wait is for missing"),
        ({"missing": 0, "wait": 7}, "wait must be a time"),
        ({"predictions": np.zeros((500, K)), "method": "ips"}, "predictions are for the methods dm and dr"),
        ({"predictions": np.zeros((3, K))}, r"of shape \(500, 3\)"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(made, given, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.evaluate(made.log, **{"policy": "uniform"} | given)
    assert "\n" not in str(caught.value)


def test_rewards_between_need_a_learner_that_takes_them(made):
    log = log_with(made.log, rewards=made.log.outcomes * 0.5)
    with pytest.raises(dt.InvalidInput, match=r"pab takes rewards of 0 and 1 only, got 0\.5"):
        dt.evaluate(log, "pab")


def test_a_log_without_outcomes_is_refused(made):
    with pytest.raises(dt.InvalidInput, match="the log must have at least one outcome, got none"):
        dt.evaluate(log_with(made.log, rewards=np.full(500, np.nan)), "uniform")


def test_too_little_overlap_warns(made):
    rare = (made.log.labels + 1) % K
    rare[:10] = made.log.labels[:10]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = dt.evaluate(made.log, np.eye(K)[rare], "ips")
    assert found.effective_size < 11
    assert [str(one.message) for one in caught] == [f"array: {message}" for message in found.warnings]
    assert any("overlaps too little" in message for message in found.warnings)
    with pytest.raises(dt.InvalidInput, match="no decision of the log"):
        dt.evaluate(made.log, np.eye(K)[(made.log.labels + 1) % K], "snips")


def test_one_heavy_decision_warns(made):
    probs = np.array(made.log.probs)
    probs[0] = 1 / K / 60
    with pytest.warns(EvaluationWarning, match="one decision has 1.% of the whole weight"):
        dt.evaluate(log_with(made.log, probs=probs), "uniform", "snips")


def test_wrong_propensities_are_noticed(made):
    with pytest.warns(EvaluationWarning, match=r"weights have mean 2.*, not 1"):
        dt.evaluate(log_with(made.log, probs=made.log.probs * 0.5), made.policy, "ips")


def test_decisions_that_the_log_never_makes_are_counted():
    n = 1000
    probabilities = np.tile([0.5, 0.5, 0.0], (n, 1))
    labels = RNG.integers(0, 2, n)
    log = dt.logs.from_arrays(
        features=np.ones((n, 1)),
        labels=labels,
        probs=np.full(n, 0.5),
        rewards=labels,
        n_classes=3,
        probabilities=probabilities,
    )
    with pytest.warns(EvaluationWarning, match="33.3% of the policy's decisions are never made in the log"):
        dt.evaluate(log, "uniform", "ips")


def test_dm_warns_of_the_error_of_its_model(made):
    with pytest.warns(EvaluationWarning, match="does not contain the error of its reward model"):
        found = dt.evaluate(made.log, made.policy, "dm")
    assert found.value == pytest.approx(dt.evaluate(made.log, made.policy, "dr").value, abs=0.1)


def test_missing_outcomes_of_old_decisions_warn_with_advice():
    made = make_log(1, 800, mean_wait=0.02, never=0.2)
    with pytest.warns(EvaluationWarning, match="have no outcome: .* say missing=0 and how long"):
        dt.evaluate(made.log, made.policy, "ips")


def test_early_outcomes_that_differ_warn():
    made = make_log(1, 1500, mean_wait=0.05, slow_wrong=6.0)
    with pytest.warns(EvaluationWarning, match="early outcomes differ from late ones"):
        dt.evaluate(made.log, made.policy, "ips")


def test_missing_without_times_is_missing_at_random(made):
    rewards = np.where(RNG.random(500) < 0.3, np.nan, made.log.outcomes)
    log = log_with(made.log, rewards=rewards)
    with pytest.warns(EvaluationWarning, match="the log has no times"):
        found = dt.evaluate(log, "uniform", "snips")
    w = 1 / K / log.probs[~np.isnan(rewards)]
    assert found.value == pytest.approx(w @ rewards[~np.isnan(rewards)] / w.sum(), rel=1e-12)
    zero = dt.evaluate(log, "uniform", "ips", missing=0)
    assert zero.value == pytest.approx(np.mean(np.nan_to_num(rewards) / K / log.probs), rel=1e-12)


def test_a_wait_defines_the_outcome():
    """With missing=0 and a wait, decisions that are old enough count, and what came later is not there."""
    made = make_log(1, 800, mean_wait=0.1)
    log = made.log
    found = dt.evaluate(log, made.policy, "ips", missing=0, wait="4d")
    old = log.until - log.decided_at >= 4 * DAY
    in_time = old & ~np.isnan(log.outcomes) & (log.received_at - log.decided_at <= 4 * DAY)
    w = made.policy[np.arange(800), log.labels] / log.probs
    assert found.value == pytest.approx((w * np.nan_to_num(log.outcomes))[in_time].sum() / old.sum(), rel=1e-12)
    assert (found.n_rounds, found.n_outcomes) == (old.sum(), old.sum())
    with pytest.raises(dt.InvalidInput, match="no decision of the log is"):
        dt.evaluate(log, made.policy, missing=0, wait="90d")
    with pytest.raises(dt.InvalidInput, match=r"missing needs wait"):
        dt.evaluate(log, made.policy, missing=0)


def test_rounds_are_learned_in_the_order_of_time():
    made = make_log(2, 300, mean_wait=0.05)
    log = made.log
    mixed = RNG.permutation(300)
    shuffled = dt.logs.from_arrays(
        features=log.features[mixed],
        labels=log.labels[mixed],
        probs=log.probs[mixed],
        rewards=log.outcomes[mixed],
        n_classes=K,
        decided_at=log.decided_at[mixed],
        received_at=log.received_at[mixed],
        until=log.until,
    )
    one, other = (dt.evaluate(each, "banditron", "ips", gamma=0.3) for each in (log, shuffled))
    assert one.value == pytest.approx(other.value, rel=1e-12)


def test_the_evaluation_is_reproducible(made):
    for method in ("dr", "snips"):
        first, second = (dt.evaluate(made.log, "bandit_logit", method, seed=3) for _ in range(2))
        assert first == second
