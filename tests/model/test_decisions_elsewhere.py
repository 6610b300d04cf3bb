"""Decisions that were made elsewhere, and those that the model does not keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delaytron as dt
from delaytron.errors import ConflictingFeedback, InvalidInput
from delaytron.model.adopting import Elsewhere, adopt
from delaytron.model.deciding import check
from delaytron.model.issuing import issue, redeem
from delaytron.model.verify import verify_journal
from delaytron.records import Row

CLASSES = ["a", "b", "c"]


def make(path, learner="bandit_logit", **more):
    return dt.Model(CLASSES, features=2, journal=path, learner=learner, seed=3, **more)


def row(x):
    return Row(None, np.array(x, float))


def test_an_adopted_decision_is_learned_from_by_its_own_probability(tmp_path):
    """Banditron's update, by hand: x (1[right] / p - 1) where the greedy label was played."""
    with make(tmp_path / "a.db", "banditron", gamma=0.3) as model:
        keeper = model._keeper
        keeper.run(lambda now: adopt(keeper, now, "x", Elsewhere(row([1.0, 2.0]), 1, 0.25, None, 1)))
        assert model.feedback("x", correct=True) == "accepted"
        keeper.core.learner.flush()
        expected = np.zeros((3, 2))
        expected[1] = np.array([1.0, 2.0]) * (1 / 0.25 - 1)
        np.testing.assert_array_equal(keeper.core.learner.weights, expected)


@pytest.mark.parametrize("learner", ["bandit_logit", "delaytron", "soba", "gap", "ova_logistic"])
def test_adopted_and_own_decisions_are_replayed(tmp_path, learner):
    path = tmp_path / "a.db"
    with make(path, learner) as model:
        keeper = model._keeper
        for i in range(12):
            x = [float(i % 5), 1.0 - i % 3]
            if i % 2:
                chosen = Elsewhere(row(x), i % 3, 0.5, np.array([0, 1, 2]) if i % 4 == 1 else None)
                keeper.run(lambda now, i=i, chosen=chosen: adopt(keeper, now, f"r{i}", chosen))
            else:
                model.decide(x, id=f"r{i}")
            if i > 3:
                model.feedback(f"r{i - 4}", correct=i % 3 == 0)
        found = verify_journal(path)
        assert found.mismatch is None
        assert found.hash == model.digest()
        assert found.facts["adopted"] == 6
    with dt.Model.open(path) as again:
        assert again.digest() == found.hash


def test_an_own_decision_that_is_adopted_teaches_the_same(tmp_path):
    """What one model decides, another adopts: with the same answers both end with the same weights."""
    with make(tmp_path / "a.db") as one, make(tmp_path / "b.db") as other:
        rng = np.random.default_rng(0)
        for i in range(60):
            x = rng.normal(size=2)
            decision = one.decide(x, id=str(i))
            play = one._keeper.core.learner.ledger.play(decision.round)
            keeper = other._keeper
            chosen = Elsewhere(play.x, play.label, play.prob, None, play.greedy, play.extra)
            keeper.run(lambda now, i=i, chosen=chosen, keeper=keeper: adopt(keeper, now, str(i), chosen))
            for model in (one, other):
                model.feedback(str(i), correct=decision.label == CLASSES[int(x[0] > 0)])
        weights = [model._keeper.core.learner.weights for model in (one, other)]
        np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize("prob", [0.0, -0.1, 1.1, float("nan")])
def test_a_probability_that_is_none_is_refused(tmp_path, prob):
    with make(tmp_path / "a.db") as model:
        keeper = model._keeper
        before = model.digest()
        with pytest.raises(InvalidInput, match="probability of decision 'x'"):
            keeper.run(lambda now: adopt(keeper, now, "x", Elsewhere(row([1, 2]), 1, prob)))
        assert model.digest() == before


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.integers(0, 2, n).astype(bool)


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(8)), learner=st.sampled_from(["bandit_logit", "delaytron", "gap"]))
def test_a_token_teaches_what_a_kept_decision_teaches(tmp_path_factory, order, learner):
    """One model keeps its decisions and one hands them out: the same answers make the same weights."""
    folder = tmp_path_factory.mktemp("two")
    X, right = stream(8)
    with make(folder / "a.db", learner) as keeps, make(folder / "b.db", learner) as hands_out:
        keeper = hands_out._keeper
        issued = []
        for i, x in enumerate(X):
            kept = keeps.decide(x, id=str(i))
            issued.append(keeper.run(lambda now, x=x: issue(keeper, now, check(keeper, x, None, None))))
            assert issued[-1].decision[1:] == kept[1:]
        for i in order:
            keeps.feedback(str(i), correct=bool(right[i]))
            told = issued[i]
            args = (told.decision.id, told.told, told.now, (bool(right[i]), None, None))
            assert keeper.run(lambda now, args=args: redeem(keeper, now, *args)) == "applied"
        for model in (keeps, hands_out):
            model.decide([0.5, 0.5])
        assert keeps._keeper.core.open.keys() == {next(iter(keeps._keeper.core.open))}
        weights = [model._keeper.core.learner.weights for model in (keeps, hands_out)]
        np.testing.assert_array_equal(*weights)
        assert verify_journal(folder / "b.db").hash == hands_out.digest()


def test_a_token_is_honoured_once_even_after_a_restart(tmp_path):
    path = tmp_path / "a.db"
    with make(path) as model:
        keeper = model._keeper
        told = keeper.run(lambda now: issue(keeper, now, check(keeper, [1.0, 2.0], None, ["a", "c"])))
    with dt.Model.open(path) as model:
        keeper = model._keeper
        args = (told.decision.id, told.told, told.now)
        assert keeper.run(lambda now: redeem(keeper, now, *args, (True, None, None))) == "applied"
    with dt.Model.open(path) as model:
        keeper = model._keeper
        before = model.digest()
        assert keeper.run(lambda now: redeem(keeper, now, *args, (True, None, None))) == "duplicate"
        with pytest.raises(ConflictingFeedback, match="answered otherwise"):
            keeper.run(lambda now: redeem(keeper, now, *args, (False, None, None)))
        assert model.digest() == before
        assert model.stats().answered == 1
