"""Labels of equal scores: the first one is greedy, or they share its probability."""

import json
from copy import deepcopy

import numpy as np
import pytest

import delaytron as dt
from delaytron.files.tensors import read_tensors
from delaytron.kernels.explore import pick_one
from forms import FORMS, ROWS, D, K, choice_of, decide_by, forms, fresh, taught, teach
from streams import Story, interpreter, play_compiled, play_interpreted, play_online, same_bits

ONE_EACH = [form for form in FORMS if " " not in form]
OWN_WAY = [form for form in ONE_EACH if type(fresh(form)).rule.pick is not pick_one]
SHARING = [form for form in ONE_EACH if form not in OWN_WAY and fresh(form).rule.ties == "first"]
SHARING.append("ova_logistic squarecb")
# One for each policy: learners that share it differ in what an answer does, which ties have no part in.
SHARING = list({fresh(form).rule.policy: form for form in reversed(SHARING)}.values())


@pytest.mark.parametrize("form", forms(SHARING))
def test_an_untrained_learner_plays_all_labels_with_equal_probability(form):
    learner = fresh(form, ties="random")
    assert choice_of(learner, ROWS[0]).probs == pytest.approx(dict.fromkeys(range(K), 1 / K), rel=1e-12)
    assert choice_of(learner, ROWS[0], [0, 2, 3]).probs == pytest.approx(dict.fromkeys((0, 2, 3), 1 / 3), rel=1e-12)


@pytest.mark.parametrize("form", forms(SHARING))
def test_the_drawn_one_of_equals_is_greedy(form):
    learner = fresh(form, ties="random")
    for u in (0.0, 0.3, 0.7, 0.999):
        decision = decide_by(learner, ROWS[0], u)
        assert decision.greedy == decision.label == int(u * K)


@pytest.mark.parametrize("gamma", [0.25, 0.5, 1.0])
def test_only_the_best_share(gamma):
    """Class 0 was wrong, so it has a lower score; 1 to 3 are equal, and share what the first of them would have."""
    learner = dt.Banditron(4, 1, gamma=gamma, seed=0, ties="random")
    learner.decide([0.0])  # the first decision makes the weights
    learner.state.W[0] = -1.0
    choice = choice_of(learner, [1.0])
    shared = (1 - gamma + 3 * gamma / 4) / 3
    assert choice.probs == pytest.approx({0: gamma / 4, 1: shared, 2: shared, 3: shared}, rel=1e-12)
    assert decide_by(learner, [1.0], 0.0)[2:4] == (0, 1)  # explored: the first of the best is greedy
    assert choice_of(learner, [-1.0]).probs == pytest.approx(
        {0: 1 - 3 * gamma / 4} | dict.fromkeys((1, 2, 3), gamma / 4)
    )


@pytest.mark.parametrize("form", forms(SHARING))
def test_without_equals_nothing_changes(form):
    plain, first, sharing = taught(form), taught(form, ties="first"), taught(form)
    assert [field.tobytes() for field in plain.state] == [field.tobytes() for field in first.state]
    scores = plain.scores(ROWS[50])[0]
    if np.unique(scores).size == K:
        twin = fresh(form, ties="random")
        twin.sparse, twin.state, twin.book = sharing.sparse, sharing.state, sharing.book
        assert choice_of(plain, ROWS[50]) == choice_of(twin, ROWS[50])


@pytest.mark.parametrize("form", forms(["delaytron", "gap", "standardized"]))
def test_it_is_a_setting_like_any_other(form, tmp_path):
    learner = taught(form, ties="random")
    assert learner.ties == learner.settings()["ties"] == "random"
    assert "ties='random'" in repr(learner)
    assert "ties" not in repr(fresh(form))
    learner.save(tmp_path / "a")
    texts, _ = read_tensors(tmp_path / "a")
    assert json.loads(texts["header"])["settings"]["ties"] == "random"
    again = dt.load(tmp_path / "a")
    assert repr(again) == repr(learner)
    assert again.rule is learner.rule is deepcopy(learner).rule
    assert [again.decide(x) for x in ROWS] == [learner.decide(x) for x in ROWS]


def story_of(form, n=40):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, D)) * (np.arange(n) % 4 == 3)[:, None]  # rows of zeros: all scores are equal
    return Story(X, rng.integers(0, K, n), rng.integers(1, 6, n), K, 3)


@pytest.mark.parametrize("form", forms(SHARING))
def test_online_replayed_and_interpreted_share_ties_alike_to_the_bit(form):
    story = story_of(form)
    compiled = play_compiled(fresh(form, ties="random"), story)
    assert same_bits(compiled, play_online(fresh(form, ties="random"), story)[0])
    assert same_bits(compiled, play_interpreted(fresh(form, ties="random"), story))
    assert not same_bits(compiled.greedy, play_compiled(fresh(form), story).greedy)


def test_simulate_takes_it_as_a_parameter():
    data = dt.datasets.load("synsep", n_samples=300, seed=1)
    result = dt.simulate("delaytron", data, delay="fixed:4", seed=9, gamma=0.1, ties="random")
    learner = dt.Delaytron(data.n_classes, data.n_features, gamma=0.1, seed=9, ties="random")
    draws = deepcopy(learner._draws).random(len(data.y))
    run = dt.replay(learner, data.X, data.y, np.full(len(data.y), 4), draws)
    assert result.mistakes[0, -1, 0] == (~run.correct).sum()
    both = dt.simulate("delaytron", data, delay="fixed:4", seed=9, gamma=0.1, ties=["first", "random"])
    plain = dt.simulate("delaytron", data, delay="fixed:4", seed=9, gamma=0.1)
    first, shared = (part.mistakes for _, part in both.groups())
    assert same_bits(shared, result.mistakes)
    assert same_bits(first, plain.mistakes)


def test_the_instances_of_a_pool_share_as_their_base_does(tmp_path):
    pool = dt.Bold(fresh("delaytron", ties="random"))
    assert choice_of(pool, ROWS[0]).probs == pytest.approx(dict.fromkeys(range(K), 1 / K), rel=1e-12)
    assert pool.probabilities(ROWS[0]) == pytest.approx([1 / K] * K, rel=1e-12)
    teach(pool).save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert again.base.ties == "random"
    with interpreter():
        plain = teach(dt.Bold(fresh("delaytron", ties="random")))
    assert [again.decide(x) for x in ROWS] == [pool.decide(x) for x in ROWS] == [plain.decide(x) for x in ROWS]


@pytest.mark.parametrize("form", forms(OWN_WAY))
def test_a_learner_that_breaks_ties_in_its_own_way_refuses_random_ones(form):
    with pytest.raises(dt.InvalidInput, match="breaks ties in its own way; leave out ties='random'"):
        fresh(form, ties="random")
    assert fresh(form, ties="first").ties == "first"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: dt.BanditLogit(3, 2, ties="first"),
            "bandit_logit always shares ties at random; leave out ties='first'",
        ),
        (lambda: dt.Delaytron(3, 2, ties="last"), "ties must be one of first, random, got 'last'"),
        (lambda: dt.Delaytron(3, 2, ties=True), "ties must be one of first, random, got True"),
        (lambda: dt.Bold(dt.Delaytron(3, 2), ties="random"), "ties belongs to the base"),
    ],
)
def test_what_makes_no_sense_gets_one_line(make, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_default_learner_shares_by_itself():
    learner = dt.BanditLogit(K, D, seed=0)
    assert (learner.ties, dt.BanditLogit(K, D, seed=0, ties="random").ties) == (None, "random")
    assert choice_of(learner, ROWS[0]).probs == pytest.approx(dict.fromkeys(range(K), 1 / K), rel=1e-12)
    labels = [learner.decide(ROWS[t % 60]).label for t in range(300)]  # none of them answered
    assert np.bincount(labels, minlength=K).min() > 30
