"""`Model.learn_from`: decisions of any log are recorded in its order, answered as late as there, and once only."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import delaytron as dt
from delaytron.errors import InvalidInput
from delaytron.logs.log import learning_order
from delaytron.model import log_import
from delaytron.model.engine import Elsewhere
from delaytron.model.verify import verify_journal
from delaytron.records import Row

pytestmark = pytest.mark.xdist_group("bandit_logit")

DRINKS = ["tea", "coffee", "cocoa"]
NAN = float("nan")


def drinks_log(n_rows=60, seed=0, **more):
    """Return a log of named features; a third of its decisions have no outcome."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n_rows)
    rewards = np.where(rng.random(n_rows) < 1 / 3, NAN, labels == np.arange(n_rows) % 3)
    features = [{"mood": ["tired", "thirsty", "cold"][row % 3], "hour": row % 24} for row in range(n_rows)]
    given = {"features": features, "labels": labels, "probs": rng.uniform(0.2, 0.9, n_rows), "rewards": rewards}
    return dt.logs.from_arrays(**given | {"classes": DRINKS, "ids": [f"e{row}" for row in range(n_rows)]} | more)


def drinks_model(**more):
    return dt.Model(DRINKS, **{"bits": 10, "seed": 7} | more)


def weights_of(model):
    model._engine.state.learner.flush()
    return np.array(model._engine.state.learner.weights)


def order_of(log):
    rows, is_outcome = learning_order(log)
    return [("answer" if answers else "decide", row) for row, answers in zip(rows, is_outcome, strict=True)]


def small_log(rewards, **more):
    n_rows = len(rewards)
    given = {"features": np.eye(n_rows), "labels": [0] * n_rows, "probs": [0.5] * n_rows, "n_classes": 2}
    return dt.logs.from_arrays(**given, rewards=rewards, **more)


def test_decisions_are_recorded_and_answered():
    log, model = drinks_log(), drinks_model()
    learned = model.learn_from(log)
    n_answered = int((~np.isnan(log.outcomes)).sum())
    assert learned[:4] == (60, 0, n_answered, 0)
    assert (learned.omitted, learned.unused_answers) == ({}, {})
    known = log.outcomes[~np.isnan(log.outcomes)]
    assert learned.mean_reward == pytest.approx(known.mean())
    margin = 1.959964 * known.std(ddof=1) / np.sqrt(known.size)
    assert learned.mean_reward_margin == pytest.approx(margin, rel=1e-6)
    assert [one.id for one in model.open_decisions()] == [f"e{row}" for row in np.flatnonzero(np.isnan(log.outcomes))]
    stats = model.stats()
    assert (stats.decisions, stats.answered) == (60, n_answered)
    first_open = model.open_decisions()[0].id
    assert model.feedback(first_open, reward=0.5) == "accepted"
    with pytest.raises(dt.ConflictingDecision, match="'e0' was issued before"):
        model.decide({"hour": 7}, id="e0")


def test_it_learns_from_delays_exactly_as_in_the_log():
    """A decision before the answer, or after it: the model is another one, and `delays` say which."""
    log = drinks_log(rewards=np.arange(60) % 2, delays=np.full(60, 5))
    late, at_once = drinks_model(), drinks_model()
    late.learn_from(log)
    at_once.learn_from(drinks_log(rewards=np.arange(60) % 2))
    by_time = drinks_log(rewards=np.arange(60) % 2, decided_at=10 * np.arange(60), received_at=10 * np.arange(60) + 51)
    timed = drinks_model()
    timed.learn_from(by_time)
    np.testing.assert_array_equal(weights_of(late), weights_of(timed))
    assert not np.array_equal(weights_of(late), weights_of(at_once))


def test_compiled_code_gets_buffers_for_a_class_that_is_added_meanwhile(monkeypatch):
    monkeypatch.setattr(log_import, "BATCH", 20)
    whole, sizes = log_import.look, set()

    def look(learner, row, allowed, scratch):
        assert {name: field.shape for name, field in scratch.items()} == {
            name: getattr(learner.state, name).shape for name in learner.rule.scratch
        }
        sizes.add(learner.n_classes)
        return whole(learner, row, allowed, scratch)

    monkeypatch.setattr(log_import, "look", look)
    model, names = drinks_model(), iter(range(100))

    def add_classes(_):
        for _ in range(8):  # arrays are padded to a multiple of it
            model.add_class(f"drink {next(names)}")

    log_import.learn_from(model._engine, drinks_log(), "", False, lambda _: add_classes)
    assert len(sizes) > 1


def test_the_order_by_delays():
    log = small_log([1, 0, NAN, 1], delays=[2, 0, 0, 9])
    assert order_of(log) == [
        *[("decide", 0), ("decide", 1), ("answer", 1), ("decide", 2), ("answer", 0), ("decide", 3), ("answer", 3)]
    ]
    assert log.delays.tolist() == [2, 0, -1, 9]


def test_the_order_by_times():
    """What is received when a decision is made is known to it; an outcome before its decision comes right after it."""
    log = small_log([1, 0, 1, NAN], decided_at=[30, 10, 20, 40], received_at=[40, 15, 5, 0])
    assert order_of(log) == [
        *[("decide", 1), ("answer", 1), ("decide", 2), ("answer", 2), ("decide", 0), ("answer", 0), ("decide", 3)]
    ]
    assert order_of(small_log([1, NAN, 0])) == [
        ("decide", 0),
        ("answer", 0),
        ("decide", 1),
        ("decide", 2),
        ("answer", 2),
    ]
    occurred = small_log([1, 0], decided_at=[1, 2], occurred_at=[3, 3])
    assert order_of(occurred) == [("decide", 0), ("decide", 1), ("answer", 0), ("answer", 1)]
    received = small_log([1, 0], decided_at=[1, 2], received_at=[5, 4])
    assert order_of(received) == [("decide", 0), ("decide", 1), ("answer", 1), ("answer", 0)]


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=12))
def test_every_decision_is_there_once_and_its_answer_after_as_many_as_it_waited(rows):
    rewards = [1.0 if answered else NAN for _, answered in rows]
    log = small_log(rewards, delays=[delay for delay, _ in rows])
    order = order_of(log)
    decided = [row for kind, row in order if kind == "decide"]
    assert decided == list(range(len(rows)))
    for row, (delay, answered) in enumerate(rows):
        assert order.count(("answer", row)) == answered
        if answered:
            before = order[: order.index(("answer", row))]
            made = sum(kind == "decide" for kind, _ in before)
            assert made == min(row + 1 + delay, len(rows))


def test_a_model_learns_from_the_log_of_a_simulation(tmp_path):
    """Banditron, transcribed; a greedy label is that of the round before, since answers are applied by the next one."""
    data = dt.datasets.load("synsep", n_samples=300)
    dt.simulate("banditron", data, delay=dt.delays.Uniform(20), gamma=0.2, seed=3, log=tmp_path / "run.parquet")
    log = dt.logs.read_parquet(tmp_path / "run.parquet")
    model = dt.Model(log.classes, learner="banditron", gamma=0.2, features=log.n_features)
    learned = model.learn_from(log)
    X = np.asarray(log.features.todense()) if hasattr(log.features, "todense") else log.features
    W, greedy, arrived = np.zeros((log.n_classes, log.n_features)), {}, []

    def apply_arrived():
        for row in sorted(arrived):
            W[log.labels[row]] += log.outcomes[row] / log.probs[row] * X[row]
            W[greedy[row]] -= X[row]
        arrived.clear()

    for kind, row in order_of(log):
        if kind == "decide":
            greedy[row] = int(np.argmax(W @ X[row]))
            apply_arrived()
        else:
            arrived.append(row)
    apply_arrived()
    assert learned.recorded == 300
    np.testing.assert_allclose(weights_of(model).reshape(W.shape), W, atol=1e-12)


def test_a_model_learns_again_what_another_exported(tmp_path):
    """The log of a journal, learned from by a model of the same kind: the same weights, whatever the features are."""
    for kind, x in (("hashed", {"mood": "tired", "hour": 3}), (2, [0.5, 2.0])):
        settings = {"features": kind, "bits": 8, "seed": 5, "learner": "ova_logistic"}
        path = tmp_path / f"{kind}.db"
        with dt.Model(DRINKS, journal=path, **settings) as first:
            for row in range(40):
                first.decide(x, id=f"e{row}")
                if row >= 4:
                    first.feedback(f"e{row - 4}", reward=float(row % 3 == 0))
            first.export_log(tmp_path / "log.parquet")
            expected = weights_of(first)
        log = dt.logs.read_parquet(tmp_path / "log.parquet")
        second = dt.Model(DRINKS, **settings)
        assert second.learn_from(log).recorded == 40
        np.testing.assert_array_equal(weights_of(second), expected)


def test_open_bandit():
    rng = np.random.default_rng(2)
    feedback = {
        "n_rounds": 50,
        "n_actions": 3,
        "context": rng.normal(size=(50, 4)),
        "action": rng.integers(3, size=50),
        "position": None,
        "reward": rng.integers(2, size=50),
        "pscore": np.full(50, 1 / 3),
    }
    log = dt.logs.read_open_bandit(feedback)
    model = dt.Model(range(3), features=4, seed=1)
    assert model.learn_from(log, prefix="monday-").answered == 50
    assert model.learn_from(log, prefix="monday-")[:3] == (0, 50, 50)
    assert model.learn_from(log, prefix="tuesday-").recorded == 50
    assert model.feedback("tuesday-7", reward=float(feedback["reward"][7])) == "duplicate"


def test_sparse_vectors():
    X = csr_matrix([[1.0, 0, 0], [0, 0, 2.0]])
    log = dt.logs.from_arrays(features=X, labels=[0, 1], probs=[0.5, 0.5], rewards=[1, 0], n_classes=2)
    dense = dt.logs.from_arrays(features=X.toarray(), labels=[0, 1], probs=[0.5, 0.5], rewards=[1, 0], n_classes=2)
    models = [dt.Model([0, 1], features=3, seed=1) for _ in range(2)]
    for model, one in zip(models, (log, dense), strict=True):
        model.learn_from(one)
    np.testing.assert_array_equal(*map(weights_of, models))


def test_allowed_classes_and_their_order():
    """Classes are found by their names; the model may have others, which were not allowed."""
    allowed = np.ones((60, 3), bool)
    labels = drinks_log().labels
    allowed[:30, 0] = labels[:30] == 0
    log = drinks_log(allowed=allowed)
    model = dt.Model(["water", "cocoa", "coffee", "tea"], bits=10, seed=7)
    model.learn_from(log)
    assert model.stats().decisions == 60
    chosen = [one.label for one in model.open_decisions()]
    assert chosen == [DRINKS[label] for label, outcome in zip(labels, log.outcomes, strict=True) if np.isnan(outcome)]


def test_what_the_model_has_is_not_recorded_again(tmp_path):
    log = drinks_log()
    with drinks_model(journal=tmp_path / "a.db") as model:
        first = model.learn_from(log)
        before = model.digest()
        again = model.learn_from(log)
        assert again == first._replace(recorded=0, recorded_before=60)
        assert model.digest() == before
        row = int(np.flatnonzero(np.isnan(log.outcomes))[0])
        model.feedback(f"e{row}", reward=0.25)
        assert model.learn_from(log).answered == first.answered + 1
        other = drinks_log(rewards=np.zeros(60))
        found = model.learn_from(other)
        known = log.outcomes[~np.isnan(log.outcomes)]
        assert found.unused_answers == {"conflicting": int((known != 0).sum()) + 1}
        assert model.open_decisions() == []
    assert verify_journal(tmp_path / "a.db").mismatch is None


def test_an_interruption_at_any_transaction_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(log_import, "BATCH", 7)
    log = drinks_log(delays=np.full(60, 3))
    whole = drinks_model()
    whole.learn_from(log)
    for stop in (1, 4, 9):
        with drinks_model(journal=tmp_path / f"{stop}.db") as model:
            with pytest.raises(KeyboardInterrupt):
                log_import.learn_from(model._engine, log, "", False, interrupted(stop))
            assert 0 < model.stats().decisions < 60
            model.learn_from(log)
            np.testing.assert_array_equal(weights_of(model), weights_of(whole))


def interrupted(stop):
    """Return a progress bar that raises after some transactions."""
    left = [stop]

    def advance(_):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    return lambda _: advance


def test_decisions_expire():
    log = drinks_log(rewards=[1.0] * 60, delays=[9] * 60)
    model = drinks_model(expire_after=4)
    assert model.learn_from(log).answered_after_expiry == 56
    corrected = drinks_model(expire_after=4, on_expiry="wrong")
    assert corrected.learn_from(log).answered_after_expiry == 0
    assert corrected.stats().answered == 60


def test_the_journal_has_the_facts_in_the_order_of_the_log(tmp_path):
    log = small_log([1, 0, NAN], delays=[1, 0, 0])
    with dt.Model([0, 1], features=3, journal=tmp_path / "a.db") as model:
        model.learn_from(log)
    connection = sqlite3.connect(tmp_path / "a.db")
    rows = [issued for (issued,) in connection.execute("SELECT id FROM facts WHERE id IS NOT NULL ORDER BY seq")]
    connection.close()
    assert rows == ["0", "1", "1", "0", "2"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dt.Model(["tea", "coffee"], bits=10), r"has the class 'cocoa', .*; call add_class\('cocoa'\) first"),
        (
            lambda: dt.Model(DRINKS, features=4),
            'has named features, and the model takes vectors of 4 .*features="hashed"',
        ),
        (lambda: dt.Model(DRINKS, features=["hour"]), "row 0 of the log: x must have no features but those listed"),
        (lambda: drinks_model(learner="perceptron"), "learns from the right class, and a log has rewards"),
    ],
)
def test_a_log_that_does_not_fit_is_refused_before_anything_is_recorded(make, words):
    model = make()
    with pytest.raises(dt.InvalidInput, match=words):
        model.learn_from(drinks_log())
    assert model.stats().decisions == 0


def test_vectors_of_another_length_are_refused():
    for model in (dt.Model([0, 1], features=4), dt.Model([0, 1], bits=10), dt.Model([0, 1], features=["a", "b", "c"])):
        with pytest.raises(dt.InvalidInput, match=r"the log has vectors of 3 numbers, .*; make it with features=3"):
            model.learn_from(small_log([1, 0, 1]))


def test_rewards_that_a_learner_does_not_take_are_refused():
    model = drinks_model(learner="pab")
    with pytest.raises(
        dt.InvalidInput, match=r"decision 'e2': this learner takes right or wrong only, got the reward 0\.5"
    ):
        model.learn_from(drinks_log(rewards=[0, 1, 0.5, *[NAN] * 57]))
    assert model.learn_from(drinks_log(rewards=[0, 1, *[NAN] * 58])).answered == 2


def test_what_cannot_be_recorded_is_refused_or_left_out():
    features = [{"x": 1.0}, {"x": 1e300}, {"x": 2.0}]
    given = {"features": features, "labels": [0, 1, 2], "probs": [0.5] * 3, "rewards": [1, 1, 1], "classes": DRINKS}
    log = dt.logs.from_arrays(**given, ids=["a", "b", "c" * 201])
    model = drinks_model()
    with pytest.raises(dt.InvalidInput, match=r"row 1 of the log: .*; leave such decisions out by skip_bad=True"):
        model.learn_from(log)
    assert model.stats().decisions == 0
    learned = model.learn_from(log, skip_bad=True)
    assert (learned.recorded, learned.answered, learned.omitted) == (1, 1, {"features": 1, "bad_id": 1})


def test_wrong_arguments_are_refused():
    model = drinks_model()
    with pytest.raises(dt.InvalidInput, match=r"log must be a dt\.logs\.Log, got str"):
        model.learn_from("log.dsjson")
    with pytest.raises(dt.InvalidInput, match="prefix must be a string"):
        model.learn_from(drinks_log(), prefix=7)
    with pytest.raises(dt.InvalidInput, match="skip_bad must be"):
        model.learn_from(drinks_log(), skip_bad="no")
    for delays, words in (
        ([0.5, 1], "delays must be integers"),
        ([-1, 0], "delays must be at least 0, got -1 in row 0"),
    ):
        with pytest.raises(dt.InvalidInput, match=words):
            small_log([1, 0], delays=delays)


# One decision that was made elsewhere: `Engine.record`

LETTERS = ["a", "b", "c"]


def make(path, learner="bandit_logit", **more):
    return dt.Model(LETTERS, features=2, journal=path, learner=learner, seed=3, **more)


def row(x):
    return Row(None, np.array(x, float))


def test_a_recorded_decision_is_learned_from_by_its_own_probability(tmp_path):
    """Banditron's update, by hand: x (1[right] / p - 1) where the greedy label was played."""
    with make(tmp_path / "a.db", "banditron", gamma=0.3) as model:
        engine = model._engine
        engine.run(lambda now: engine.record(now, "x", Elsewhere(row([1.0, 2.0]), 1, 0.25, None, 1)))
        assert model.feedback("x", correct=True) == "accepted"
        engine.state.learner.flush()
        expected = np.zeros((3, 2))
        expected[1] = np.array([1.0, 2.0]) * (1 / 0.25 - 1)
        np.testing.assert_array_equal(engine.state.learner.weights, expected)


@pytest.mark.parametrize("learner", ["bandit_logit", "delaytron", "soba", "gap", "ova_logistic"])
def test_recorded_and_own_decisions_are_replayed(tmp_path, learner):
    path = tmp_path / "a.db"
    with make(path, learner) as model:
        engine = model._engine
        for i in range(12):
            x = [float(i % 5), 1.0 - i % 3]
            if i % 2:
                chosen = Elsewhere(row(x), i % 3, 0.5, np.array([0, 1, 2]) if i % 4 == 1 else None)
                engine.run(lambda now, i=i, chosen=chosen: engine.record(now, f"r{i}", chosen))
            else:
                model.decide(x, id=f"r{i}")
            if i > 3:
                model.feedback(f"r{i - 4}", correct=i % 3 == 0)
        found = verify_journal(path)
        assert found.mismatch is None
        assert found.hash == model.digest()
        assert found.facts["recorded"] == 6
    with dt.Model.open(path) as again:
        assert again.digest() == found.hash


def test_recording_the_decisions_of_another_model_gives_the_same_weights(tmp_path):
    """What one model decides, another records: with the same answers both end with the same weights."""
    with make(tmp_path / "a.db") as one, make(tmp_path / "b.db") as other:
        rng = np.random.default_rng(0)
        for i in range(60):
            x = rng.normal(size=2)
            decision = one.decide(x, id=str(i))
            play = one._engine.state.book.play(decision.round)
            engine = other._engine
            chosen = Elsewhere(play.x, play.label, play.prob, None, play.greedy, play.extra)
            engine.run(lambda now, i=i, chosen=chosen, engine=engine: engine.record(now, str(i), chosen))
            for model in (one, other):
                model.feedback(str(i), correct=decision.label == LETTERS[int(x[0] > 0)])
        weights = [model._engine.state.learner.weights for model in (one, other)]
        np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize("learner", ["newtron", "soba", "gap", "hinge_delaytron"])
def test_a_recorded_round_has_the_extra_numbers_of_its_learner(tmp_path, learner):
    """A log has no notes: if only the label were allowed, newtron would note a certainty, and not learn."""
    with make(tmp_path / "a.db", learner) as one, make(tmp_path / "b.db", learner) as other:
        rng = np.random.default_rng(0)
        engine = other._engine
        for i in range(40):
            x = rng.normal(size=2)
            decision = one.decide(x, id=str(i))
            play = one._engine.state.book.play(decision.round)
            chosen = Elsewhere(play.x, play.label, play.prob, None, play.greedy)
            engine.run(lambda now, i=i, chosen=chosen: engine.record(now, str(i), chosen))
            for model in (one, other):
                model.feedback(str(i), correct=decision.label == LETTERS[int(x[0] > 0)])
        weights = [model._engine.state.learner.weights for model in (one, other)]
        assert weights[0].any()
        np.testing.assert_array_equal(*weights)
        digest = other.digest()
    assert verify_journal(tmp_path / "b.db").hash == digest


@pytest.mark.parametrize("learner", ["gap", "newtron"])  # the clock of rows that are standardised ticks before answers
def test_what_was_learned_from_a_log_is_replayed_where_rows_are_standardised(tmp_path, learner):
    rng = np.random.default_rng(4)
    n_rows = 60
    labels = rng.integers(2, size=n_rows)
    log = dt.logs.from_arrays(
        features=rng.normal(size=(n_rows, 3)) * [1.0, 50.0, 0.01], labels=labels, probs=rng.uniform(0.2, 0.9, n_rows),
        rewards=(labels == rng.integers(2, size=n_rows)).astype(float), delays=rng.integers(1, 6, n_rows), n_classes=2,
    )  # fmt: skip
    path = tmp_path / "a.db"
    with dt.Model([0, 1], learner=learner, features=3, journal=path, seed=1, standardize=True) as model:
        assert model.learn_from(log).recorded == n_rows
        for row in rng.normal(size=(10, 3)):
            model.decide(row)
        digest = model.digest()
        found = verify_journal(path)
    assert (found.mismatch, found.hash) == (None, digest)


@pytest.mark.parametrize("prob", [0.0, -0.1, 1.1, float("nan")])
def test_an_invalid_probability_is_refused(tmp_path, prob):
    with make(tmp_path / "a.db") as model:
        engine = model._engine
        before = model.digest()
        with pytest.raises(InvalidInput, match="probability of decision 'x'"):
            engine.run(lambda now: engine.record(now, "x", Elsewhere(row([1, 2]), 1, prob)))
        assert model.digest() == before
