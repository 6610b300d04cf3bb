"""Decisions among some of the labels only: which are drawn, how often, and the same bits where all are allowed."""

from copy import deepcopy
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from forms import FORMS, PLAYS_SETS, ROWS, K, answer_to, choice_of, everything, forms, fresh, row, state_bits, taught
from streams import interpreter, same_bits

SINGLE = [form for form in FORMS if form not in PLAYS_SETS]
SOME = ([2], [0, 3], [4, 1, 2], list(range(K)))
subsets = st.sets(st.integers(0, K - 1), min_size=1).map(sorted)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("form", forms(SINGLE))
def test_only_allowed_labels_are_drawn_with_the_stated_probability(form, sparse):
    learner = taught(form, sparse=sparse)
    for t, allowed in enumerate(SOME):
        choice = choice_of(learner, row(50 + t, sparse), allowed)
        assert set(choice.probs) <= set(allowed)
        assert choice.greedy in allowed


@pytest.mark.parametrize("form", forms(SINGLE))
def test_the_greedy_label_has_the_best_score_of_those_allowed(form):
    for t, allowed in enumerate(SOME):
        learner = taught(form)
        decision = learner.decide(ROWS[50 + t], allowed)
        scores = learner.scores(ROWS[50 + t])[0]
        assert decision.greedy == min(allowed, key=lambda label: (-scores[label], label))


@pytest.mark.parametrize("form", forms(SINGLE))
@pytest.mark.parametrize("label", [0, 2, K - 1])
def test_a_single_label_is_certain(form, label):
    for learner in (fresh(form), taught(form)):
        decision = learner.decide(ROWS[50], [label])
        assert decision[2:] == (label, label, 1.0)


def play(learner, choices, rounds=40):
    """Play with the labels allowed in turn; return the decisions."""
    decisions = []
    for t in range(rounds):
        if t >= 3:
            learner.feedback(decisions[t - 3].id, **answer_to(learner, decisions[t - 3], t % K))
        decisions.append(learner.decide(ROWS[t], choices[t % len(choices)]))
    return decisions


@pytest.mark.parametrize("form", forms(SINGLE))
def test_allowing_all_labels_equals_no_restriction(form):
    one, other = fresh(form), fresh(form)
    assert play(one, [None]) == play(other, [range(K), np.arange(K)[::-1], [0, 0, 1, 2, 3, 4]])
    assert state_bits(one) == state_bits(other)


@pytest.mark.parametrize("form", forms(SINGLE))
def test_compiled_and_interpreted_choose_the_same_to_the_bit(form):
    compiled, plain = fresh(form), fresh(form)
    choices = [[1, 3], [0], None, [0, 2, 4], [3, 4]]
    decisions = play(compiled, choices, 30)
    with interpreter():
        assert play(plain, choices, 30) == decisions
    assert state_bits(compiled) == state_bits(plain)


@pytest.mark.parametrize("form", forms(["banditron", "ova_logistic squarecb", "bandit_logit", "newtron"]))
def test_choices_are_saved_and_learned_from_like_any_others(form, tmp_path):
    learner = fresh(form)
    play(learner, SOME)
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    for one in (learner, again):
        one.feedback(38, correct=True)
    assert learner.decide(ROWS[50], [1, 4]) == again.decide(ROWS[50], [1, 4])
    assert everything(learner) == everything(again)


def greedily(gamma, scores):
    best = max(scores, key=scores.get)
    return {r: (1 - gamma) * (r == best) + gamma / len(scores) for r in scores}


def banditron(learner, scores):
    return greedily(0.3, scores)


def gap(learner, scores):
    margin = np.diff(np.sort(list(scores.values())))[-1:].sum() if len(scores) > 1 else 1.0
    return greedily(max(0.3, max(0.0, 1.0 - margin) ** 2), scores)


def squarecb(learner, scores):
    f = {r: 1 / (1 + exp(-score)) for r, score in scores.items()}
    best = max(f, key=f.get)
    P = {r: 1 / (len(f) + 10.0 * sqrt(learner.book.rounds) * (f[best] - f[r])) for r in f if r != best}
    return P | {best: 1 - sum(P.values())}


def exp3(learner, scores):
    powers = {r: exp(0.1 * (score - max(scores.values()))) for r, score in scores.items()}
    return {r: power / sum(powers.values()) for r, power in powers.items()}


def newtron(learner, scores):
    powers = {r: exp(score) for r, score in scores.items()}
    return {r: 0.7 * power / sum(powers.values()) + 0.3 / len(powers) for r, power in powers.items()}


def bandit_logit(learner, scores):
    powers = {r: exp(score) for r, score in scores.items()}
    chances = {r: power / sum(powers.values()) for r, power in powers.items()}
    n, top = len(chances), max(chances.values())
    best = [r for r in chances if chances[r] == top]
    loss = 1 - top + 1e-6
    sharpness = max(1000, 4 * sqrt(learner.state.answers[0] * n))
    gammas = {r: sharpness if learner.state.known[r] else 20 for r in chances}
    P = {r: loss / (n * loss + gammas[r] * (top - chances[r])) for r in chances if r not in best}
    P |= dict.fromkeys(best, (1 - sum(P.values())) / len(best))
    return {r: learner.explore_floor + (1 - n * learner.explore_floor) * p for r, p in P.items()}


FORMULAS = {
    "banditron": banditron,
    "gap": gap,
    "ova_logistic squarecb": squarecb,
    "exp3 eta": exp3,
    "newtron": newtron,
    "bandit_logit": bandit_logit,
    "bandit_logit floor": bandit_logit,
}


@pytest.mark.parametrize("form", forms(FORMULAS))
@given(allowed=subsets, t=st.integers(40, 59), rounds=st.integers(1, 40))
def test_the_probabilities_are_those_of_the_formula_for_the_allowed_labels(form, allowed, t, rounds):
    learner = taught(form, rounds)
    learner.decide(ROWS[0])  # applies what came: the next round finds the learner as it is now
    choice = choice_of(learner, ROWS[t], allowed)
    after = deepcopy(learner)
    after.decide(ROWS[t], allowed)
    scores = {r: after.scores(ROWS[t])[0][r] for r in allowed}
    if form.startswith("bandit_logit"):
        after.state.known[:] = learner.state.known  # the round that is played counts only afterwards
    expected = FORMULAS[form](after, scores)
    assert choice.probs == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("base", forms(["delaytron", "bandit_logit", "standardized"]))
def test_the_instances_of_a_pool_choose_among_some(base):
    pool = dt.Bold(fresh(base))
    decisions = play(pool, [[1, 3], [0, 4]])
    assert pool.instances > 1
    assert all(decision.label in ([1, 3], [0, 4])[t % 2] for t, decision in enumerate(decisions))
    assert set(choice_of(pool, ROWS[50], [0, 2]).probs) <= {0, 2}


BAD = [
    ([], r"allowed must be a list of labels in 0..4, got \[\]"),
    ([0, 5], r"got \[0, 5\]"),
    ([-1], r"got \[-1\]"),
    ([0.0, 1.0], r"got \[0.0, 1.0\]"),
    ([True, False], r"got \[True, False\]"),
    ([[0, 1]], r"got \[\[0, 1\]\]"),
    ([[0], [1, 2]], r"got \[\[0\], \[1, 2\]\]"),
    (["a"], r"got \['a'\]"),
    (3, "got 3"),
    ({1, 2}, r"got \{1, 2\}"),
    ([2**70], "got"),
]


@pytest.mark.parametrize(("allowed", "message"), BAD)
@pytest.mark.parametrize("call", ["decide", "probabilities"])
def test_what_are_no_labels_is_refused_and_changes_nothing(call, allowed, message):
    learner = taught("delaytron")
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        getattr(learner, call)(ROWS[0], allowed)
    assert "\n" not in str(caught.value)
    assert everything(learner) == before


@pytest.mark.parametrize("make", [lambda: fresh("dilute"), lambda: dt.Bold(fresh("dilute"))], ids=["dilute", "pool"])
def test_a_learner_that_plays_sets_refuses_allowed(make):
    learner = make()
    learner.decide(ROWS[0])
    before = everything(learner)
    with pytest.raises(dt.InvalidInput, match=r"dilute.* plays sets of labels: .*; leave out allowed"):
        learner.decide(ROWS[0], [0, 1])
    assert everything(learner) == before


@pytest.mark.parametrize("form", forms(["delaytron", "bandit_logit", "exp3 eta"]))
def test_replay_is_what_the_online_object_does_with_all_labels(form):
    learner = fresh(form)
    y = np.arange(40) % K
    draws = deepcopy(learner._draws).random(40)
    run = dt.replay(learner, ROWS[:40], y, np.full(40, 3), draws)
    decisions = []
    for t in range(40):
        if t >= 3:
            learner.feedback(decisions[t - 3].id, correct=bool(decisions[t - 3].label == y[t - 3]))
        decisions.append(learner.decide(ROWS[t], range(K)))
    assert [decision.label for decision in decisions] == run.labels.tolist()
    assert same_bits(np.array([decision.prob for decision in decisions]), run.probs)
