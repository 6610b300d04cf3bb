"""Feedback as it is in life: lies, answers that one stops waiting for, corrections, and averaged weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from test_conformance import SETTINGS

import delaytron as dt
from delaytron.kernels.loop import ANSWERED, DROPPED, EXPIRED, REVISED
from delaytron.learners.feedback import FeedbackModel
from delaytron.simulation.scenarios import expiring_events
from streams import (
    NEVER,
    by_learner,
    correct_late,
    learn,
    make,
    play_compiled,
    play_interpreted,
    play_online,
    same_bits,
    stories,
)

BANDITS = [name for name, cls in dt.LEARNERS.items() if cls.feedback_type == "correct"]
EXACT = [name for name in BANDITS if name not in ("bandit_logit", "pab", "exact_pa", "ova_logistic")]
AVERAGED = [name for name, cls in dt.LEARNERS.items() if cls.averages]
ROWS = np.random.default_rng(5).normal(size=(40, 6))

lives = st.one_of(
    st.fixed_dictionaries({"noise": st.sampled_from([(0.2, 0.0), (0.0, 0.3), (0.3, 0.4)])}),
    st.fixed_dictionaries({"expire_after": st.integers(1, 9), "on_expiry": st.sampled_from(["drop", "wrong"])}),
    st.just({"noise": (0.2, 0.3), "expire_after": 3, "on_expiry": "wrong"}),
)


@pytest.mark.parametrize("name", by_learner(dt.LEARNERS))
@given(story=stories(max_rounds=40), feedback_model=lives)
def test_simulator_interpreter_and_online_object_agree_in_every_life(name, story, feedback_model):
    if dt.LEARNERS[name].feedback_type == "label":
        feedback_model = {"expire_after": feedback_model.get("expire_after", 2)}
    setting = SETTINGS[name][0] | feedback_model
    compiled = play_compiled(make(dt.LEARNERS[name], story, **setting), story)
    assert same_bits(compiled, play_interpreted(make(dt.LEARNERS[name], story, **setting), story))
    assert same_bits(compiled, play_online(make(dt.LEARNERS[name], story, **setting), story)[0])


@pytest.mark.parametrize("name", by_learner(["delaytron", "adaptive_delaytron", "pab"]))
@given(story=stories(max_rounds=20), feedback_model=lives)
def test_saving_in_the_middle_of_such_a_life_changes_no_bit(name, story, feedback_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, _t):
        learner.save(path)
        return dt.load(path)

    learner = make(dt.LEARNERS[name], story, gamma=0.3, **feedback_model)
    assert same_bits(play_online(learner, story, between=saved_and_loaded)[0], play_compiled(learner, story))


def brute_force_events(delays, feedback_model):
    """Play the rule of expiry round by round: what is told when, about which round."""
    told, status = [], {}
    for t in range(len(delays)):
        for s in range(t):
            if s + delays[s] == t and status.get(s) != "dropped":
                told.append((t, s, REVISED if status.get(s) == "wrong" else ANSWERED))
                status[s] = "answered"
            elif s + feedback_model.expire_after == t and s not in status:
                told.append((t, s, EXPIRED if feedback_model.as_wrong else DROPPED))
                status[s] = "wrong" if feedback_model.as_wrong else "dropped"
        waiting = 1 + sum(s not in status for s in range(t))
        yield t, [(s, kind) for when, s, kind in told if when == t], waiting


@given(
    delays=st.lists(st.one_of(st.integers(1, 9), st.just(NEVER)), min_size=1, max_size=30),
    wait=st.integers(1, 12),
    as_wrong=st.booleans(),
)
def test_the_events_are_those_of_the_rule_played_round_by_round(delays, wait, as_wrong):
    feedback_model = FeedbackModel(expire_after=wait, as_wrong=as_wrong)
    events = expiring_events(np.array(delays), feedback_model)
    for t, told, waiting in brute_force_events(delays, feedback_model):
        part = slice(events.starts[t], events.starts[t + 1])
        assert list(zip(events.arrivals[part], events.kinds[part], strict=True)) == told
        assert events.waiting[t] == waiting


def some_play(name, round_number):
    """Return a learner that has learned a little, and one of its open decisions that would be right."""
    learner = dt.LEARNERS[name](4, 6, seed=3, **SETTINGS[name][0])
    decisions = [learner.decide(x) for x in ROWS[:20]]
    for decision in decisions[:10]:
        learner.feedback(decision.id, correct=decision.id % 3 == 0)
    learner.decide(ROWS[20])
    return learner, learner.ledger.play(decisions[round_number].id)


@pytest.mark.parametrize("name", by_learner(EXACT))
@pytest.mark.parametrize("number", range(12, 18))
def test_a_right_after_a_wrong_is_corrected_exactly(name, number):
    learner, past = some_play(name, number)
    other, _ = some_play(name, number)
    learn(learner, past, 0)
    correct_late(learner, past)
    learn(other, past, 1)
    np.testing.assert_allclose(learner.weights, other.weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(learner.scores(ROWS), other.scores(ROWS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", by_learner(sorted(set(BANDITS) - set(EXACT))))
def test_where_no_exact_correction_exists_the_right_is_applied_as_it_comes(name):
    learner, past = some_play(name, 13)
    other, _ = some_play(name, 13)
    correct_late(learner, past)
    learn(other, past, 1)
    assert same_bits(learner.weights, other.weights)


def test_a_dropped_decision_is_forgotten_and_says_so():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2)
    first, second, third = (learner.decide(x) for x in ROWS[:3])
    assert (learner.pending, list(learner.ledger.plays)) == (2, [second.id, third.id])
    assert learner.feedback(first.id, correct=True) == "expired"
    assert learner.feedback(second.id, correct=True) == "accepted"
    learner.flush()
    assert learner.weights[second.label].any()


def test_a_decision_counted_as_wrong_can_still_be_right():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2, on_expiry="wrong")
    first, _, _ = (learner.decide(x) for x in ROWS[:3])
    assert (learner.pending, len(learner.ledger.plays)) == (2, 3)
    assert np.array_equal(learner.weights[first.greedy], -ROWS[0])
    assert learner.feedback(first.id, correct=True) == "accepted"
    assert learner.feedback(first.id, correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback):
        learner.feedback(first.id, correct=False)
    learner.flush()
    expected = np.zeros((3, 6))
    expected[first.label] += ROWS[0] / first.prob
    expected[first.greedy] -= ROWS[0]
    np.testing.assert_allclose(learner.weights, expected, atol=1e-12)
    assert first.id not in learner.ledger.plays


def test_an_answer_in_the_last_round_of_the_wait_is_in_time():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2)
    first = learner.decide(ROWS[0])
    learner.decide(ROWS[1])
    assert learner.feedback(first.id, correct=True) == "accepted"
    learner.decide(ROWS[2])
    assert learner.weights[first.label].any()


def test_the_lies_come_at_their_rates_and_a_rate_of_zero_never_lies():
    draws = np.random.default_rng(0).random(20_000)
    flips = FeedbackModel(rho0=0.3).flip_mask(draws)
    assert set(flips.tolist()) == {0, 1}
    assert flips.mean() == pytest.approx(0.3, abs=0.02)
    both = FeedbackModel(rho0=0.3, rho1=0.1).flip_mask(draws)
    assert ((both & 2) > 0).mean() == pytest.approx(0.1, abs=0.02)


def test_the_first_run_of_a_simulation_is_what_a_learner_of_that_seed_does():
    data = dt.datasets.load("synsep", n_samples=400, seed=1)
    feedback_model = {"noise": (0.1, 0.2), "expire_after": 20, "on_expiry": "wrong"}
    result = dt.simulate("delaytron", data, delay="fixed:30", seed=9, gamma=0.1, **feedback_model)
    learner = dt.Delaytron(data.n_classes, data.n_features, gamma=0.1, seed=9, **feedback_model)
    decisions, wrong = [], 0
    for t, x in enumerate(csr_matrix(data.X)):
        if t >= 30:
            learner.feedback(decisions[t - 30].id, correct=bool(decisions[t - 30].label == data.y[t - 30]))
        decisions.append(learner.decide(x))
        wrong += decisions[-1].label != data.y[t]
    assert wrong == result.mistakes[0, -1, 0]


def test_simulate_plays_lists_of_lives_each_as_if_alone():
    data = dt.datasets.load("synsep", n_samples=500)
    together = dt.simulate("delaytron", data, delay=50, runs=2, expire_after=[10, 40], on_expiry=["drop", "wrong"])
    for setting, part in together.groups():
        alone = dt.simulate("delaytron", data, delay=50, runs=2, **setting)
        assert np.array_equal(part.mistakes, alone.mistakes)
    assert len({part.mistakes.tobytes() for _, part in together.groups()}) == 4


@pytest.mark.parametrize("name", by_learner(AVERAGED))
@given(story=stories(max_rounds=30))
def test_the_average_is_the_mean_of_the_weights_of_all_rounds(name, story):
    setting = {k: v for k, v in SETTINGS[name][0].items() if k != "restart"}
    setting |= {"matrix": "diagonal"} if name == "confidit" else {}  # a full one moves all weights
    averaged = make(dt.LEARNERS[name], story, average=True, **setting)
    seen = []

    def note(learner, t):
        if t:
            seen.append(learner.weights_of(learner.state))
        return learner

    run, averaged = play_online(averaged, story, between=note)
    seen.append(averaged.weights_of(averaged.state))  # the weights with which the last round was decided
    plain = play_compiled(make(dt.LEARNERS[name], story, **setting), story)
    assert np.array_equal(run.labels, plain.labels)  # what is played does not change
    np.testing.assert_allclose(averaged.weights, np.mean(seen, axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(averaged.scores(story.X), story.dense @ averaged.weights.T, rtol=1e-9, atol=1e-9)


def test_an_averaging_learner_is_saved_with_its_average(tmp_path):
    learner = dt.Delaytron(4, 6, gamma=0.5, seed=2, average=True)
    for x in ROWS:
        learner.feedback(learner.decide(x).id, correct=True)
    learner.save(tmp_path / "a.safetensors")
    again = dt.load(tmp_path / "a.safetensors")
    assert same_bits(again.weights, learner.weights)
    assert same_bits(again.weights_of(again.state), learner.weights_of(learner.state))
    assert not same_bits(again.weights, again.weights_of(again.state))


BAD = [
    ({"noise": 0.1}, r"noise must be \(rho0, rho1\)"),
    ({"noise": (0.5, 0.5)}, "a sum below 1"),
    ({"noise": (-0.1, 0.5)}, "at least 0"),
    ({"noise": ("a", 0.5)}, "rho0 must be a finite number"),
    ({"expire_after": 0}, "expire_after must be an integer of at least 1"),
    ({"on_expiry": "wrong"}, "needs expire_after"),
    ({"expire_after": 3, "on_expiry": "wrog"}, "did you mean wrong"),
    ({"average": 2}, "average must be True or False"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_get_one_clear_line(options, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.Delaytron(3, 2, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"noise": (0.1, 0.1)}, {"expire_after": 3, "on_expiry": "wrong"}])
def test_a_learner_that_is_told_the_label_knows_no_wrong(options):
    with pytest.raises(dt.InvalidInput, match="told the true label"):
        dt.Perceptron(3, 2, **options)


@pytest.mark.parametrize("name", sorted(set(dt.LEARNERS) - set(AVERAGED)))
def test_where_an_average_makes_no_sense_it_is_refused(name):
    with pytest.raises(dt.InvalidInput, match="no averaged weights"):
        dt.LEARNERS[name](3, 2, average=True)


def test_an_unknown_option_is_a_type_error_as_for_any_function():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'gama'; did you mean gamma\?"):
        dt.Delaytron(3, 2, gama=0.1)
