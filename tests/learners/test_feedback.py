"""Feedback: noise, expiry, corrections."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import delaytron as dt
from delaytron.answers import Status
from delaytron.kernels.loop import ANSWER_EVENT, CORRECTION_EVENT, DROP_EVENT, EXPIRY_EVENT
from delaytron.learners.book import Book, Expiry, Kept, read_expiry
from delaytron.records import Play, Row
from delaytron.rng import stream
from delaytron.simulation.scenarios import Noise, expiring_events
from paper_learners import TRANSCRIPTIONS
from streams import (
    NEVER,
    answer,
    by_learner,
    correct_late,
    flips_of,
    learn,
    make,
    play_compiled,
    play_interpreted,
    play_online,
    same_bits,
    split_noise,
    stories,
)

BANDITS = [name for name, cls in dt.LEARNERS.items() if cls.feedback_type == "correct"]
EXACT = [name for name in BANDITS if dt.LEARNERS[name].rule.corrects_exactly]
ROWS = np.random.default_rng(5).normal(size=(40, 6))

feedback_models = st.one_of(
    st.fixed_dictionaries({"noise": st.sampled_from([(0.2, 0.0), (0.0, 0.3), (0.3, 0.4)])}),
    st.fixed_dictionaries({"expire_after": st.integers(1, 9), "on_expiry": st.sampled_from(["drop", "wrong"])}),
    st.just({"noise": (0.2, 0.3), "expire_after": 3, "on_expiry": "wrong"}),
    st.fixed_dictionaries(
        {"expire_after": st.integers(1, 4), "on_expiry": st.just("wrong"), "correct_within": st.integers(0, 5)}
    ),
)


@pytest.mark.parametrize("name", by_learner(dt.LEARNERS))
@given(story=stories(max_rounds=40), feedback_model=feedback_models)
def test_simulator_interpreter_and_online_object_agree_with_noise_and_expiry(name, story, feedback_model):
    if dt.LEARNERS[name].feedback_type == "label":
        feedback_model = {"expire_after": feedback_model.get("expire_after", 2)}
    expiry, noise = split_noise(feedback_model)
    setting = TRANSCRIPTIONS[name].settings[0] | expiry
    compiled = play_compiled(make(dt.LEARNERS[name], story, **setting), story, noise)
    assert same_bits(compiled, play_interpreted(make(dt.LEARNERS[name], story, **setting), story, noise))
    assert same_bits(compiled, play_online(make(dt.LEARNERS[name], story, **setting), story, noise=noise)[0])


@pytest.mark.parametrize("name", by_learner(["delaytron", "adaptive_delaytron", "pab"]))
@given(story=stories(max_rounds=20), feedback_model=feedback_models)
def test_saving_in_the_middle_of_noise_and_expiry_changes_no_bit(name, story, feedback_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "learner.safetensors"

    def saved_and_loaded(learner, _t):
        learner.save(path)
        return dt.load(path)

    expiry, noise = split_noise(feedback_model)
    learner = make(dt.LEARNERS[name], story, gamma=0.3, **expiry)
    online, _ = play_online(learner, story, between=saved_and_loaded, noise=noise)
    assert same_bits(online, play_compiled(learner, story, noise))


def test_the_noise_of_a_replay_continues_after_the_rounds_played_before():
    noise, y, ones = (0.3, 0.4), np.arange(40) % 4, np.ones(40, int)
    draws, flips = stream(3, "exploration").random(40), flips_of(3, noise, 40)
    whole = dt.replay(dt.Rcnbf(4, 6, gamma=0.3, seed=3), ROWS, y, ones, draws, noise)
    learner = dt.Rcnbf(4, 6, gamma=0.3, seed=3)
    for t in range(20):
        answer(learner, learner.decide(ROWS[t]), y[t], flips[t])
    rest = dt.replay(learner, ROWS[20:], y[20:], ones[20:], draws[20:], noise)
    assert flips[20:].any()
    assert same_bits(rest, (*(column[20:] for column in whole[:4]), whole.weights))


def brute_force_events(delays, expiry):
    """Play the rule of expiry round by round: yield the events of each round, and how many decisions wait in it."""
    status = {}
    for t in range(len(delays)):
        events = []
        for s in range(t):
            if s + delays[s] == t and status.get(s) not in ("dropped", "released"):
                events.append((s, CORRECTION_EVENT if status.get(s) == "wrong" else ANSWER_EVENT))
                status[s] = "answered"
            elif s + expiry.rounds == t and s not in status:
                events.append((s, EXPIRY_EVENT if expiry.as_wrong else DROP_EVENT))
                status[s] = "wrong" if expiry.as_wrong else "dropped"
            if status.get(s) == "wrong" and s + expiry.release_rounds == t:
                status[s] = "released"
        yield events, 1 + sum(s not in status for s in range(t))


def events_of_the_book(delays, expiry):
    """Do with a learner's book what its rounds do; yield the same. A dropped decision leaves no event in a book."""
    book = Book(expiry)
    for t in range(len(delays)):
        for s in range(t):
            known = book.known(s + 1)
            if s + delays[s] == t and (known.status == Status.OPEN or known.correctable):
                book.answer(s + 1, 1.0)
        dropped = []
        for number in book.due(t + 1):
            book.expire(number)
            if not expiry.as_wrong:
                dropped.append((number - 1, DROP_EVENT))
        events = [(number - 1, book.ended[number].event) for number in book.to_apply()]
        waiting = book.pending + 1
        for s, _ in events:
            book.close(s + 1)
        book.arrived.clear()
        book.file(Kept(Play(t + 1, Row(None, np.zeros(1)), 0, 0, 0.5, np.empty(0))))
        for number in book.releasable(t + 1):
            book.release(number)
        yield sorted(events + dropped), waiting


def events_of_the_simulator(delays, expiry):
    """Read the arrays of the simulator; yield the same."""
    events = expiring_events(np.array(delays), expiry)
    for t in range(len(delays)):
        part = slice(events.starts[t], events.starts[t + 1])
        yield list(zip(events.arrivals[part], events.kinds[part], strict=True)), events.waiting[t]


@given(
    delays=st.lists(st.one_of(st.integers(1, 12), st.just(NEVER)), min_size=1, max_size=30),
    wait=st.integers(1, 12),
    as_wrong=st.booleans(),
    correct_within=st.one_of(st.integers(0, 6), st.none()),
)
@settings(max_examples=300)
def test_the_rule_of_expiry_the_book_and_the_simulator_have_the_same_events(delays, wait, as_wrong, correct_within):
    expiry = read_expiry(wait, "wrong", correct_within) if as_wrong else Expiry(wait)
    expected = list(brute_force_events(delays, expiry))
    assert list(events_of_the_book(delays, expiry)) == expected
    assert list(events_of_the_simulator(delays, expiry)) == expected


def some_play(name, round_number):
    """Return a learner that has learned a little, and one of its open decisions that would be right."""
    learner = dt.LEARNERS[name](4, 6, seed=3, **TRANSCRIPTIONS[name].settings[0])
    decisions = [learner.decide(x) for x in ROWS[:20]]
    for decision in decisions[:10]:
        learner.feedback(decision.id, correct=decision.id % 3 == 0)
    learner.decide(ROWS[20])
    return learner, learner.book.play(decisions[round_number].id)


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


@pytest.mark.parametrize("name", by_learner(EXACT))
def test_a_wrong_after_a_wrong_changes_nothing(name):
    """The expiry was learned as "wrong" already; whether the answer "wrong" comes later or never is the same."""
    settings = TRANSCRIPTIONS[name].settings[0] | {"expire_after": 2, "on_expiry": "wrong"}
    learner, other = (dt.LEARNERS[name](4, 6, seed=3, **settings) for _ in range(2))
    replies = set()
    for t in range(12):
        for one in (learner, other):
            one.decide(ROWS[t])
        if t >= 3:
            replies.add(learner.feedback(t - 2, correct=False))
    for one in (learner, other):
        one.flush()
    assert replies == {"corrected"}
    assert same_bits(learner.weights, other.weights)


def test_feedback_to_a_dropped_decision_is_late():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2)
    first, second, third = (learner.decide(x) for x in ROWS[:3])
    assert (learner.pending, sorted(learner.book.kept)) == (2, [second.id, third.id])
    for reply in ("late", "duplicate"):
        assert learner.feedback(first.id, correct=True) == reply
    with pytest.raises(dt.ConflictingFeedback, match="decision 1 was answered 'correct', now 'wrong' came"):
        learner.feedback(first.id, correct=False)
    assert learner.feedback(second.id, correct=True) == "accepted"
    learner.flush()
    assert learner.weights[second.label].any()


def test_a_decision_counted_as_wrong_can_still_be_right():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2, on_expiry="wrong")
    first, _, _ = (learner.decide(x) for x in ROWS[:3])
    assert (learner.pending, len(learner.book.kept)) == (2, 3)
    assert np.array_equal(learner.weights[first.greedy], -ROWS[0])
    assert learner.feedback(first.id, correct=True) == "corrected"
    assert learner.feedback(first.id, correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback):
        learner.feedback(first.id, correct=False)
    learner.flush()
    expected = np.zeros((3, 6))
    expected[first.label] += ROWS[0] / first.prob
    expected[first.greedy] -= ROWS[0]
    np.testing.assert_allclose(learner.weights, expected, atol=1e-12)
    assert first.id not in learner.book.kept


@pytest.mark.parametrize("correct_within", [0, 1, 3, None])
def test_a_decision_counted_as_wrong_is_released_after_correct_within_rounds(correct_within):
    options = {"expire_after": 2, "on_expiry": "wrong", "correct_within": correct_within}
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, **options)
    first = learner.decide(ROWS[0])
    for t in range(1, 2 + (20 if correct_within is None else correct_within)):
        learner.decide(ROWS[t])
        assert 1 in learner.book.kept
    corrected = deepcopy(learner)
    assert corrected.feedback(first.id, correct=True) == ("accepted" if correct_within == 0 else "corrected")
    learner.decide(ROWS[30])
    assert 1 not in learner.book.kept
    before = learner.weights
    for reply in ("late", "duplicate"):
        assert learner.feedback(first.id, correct=True) == reply
    with pytest.raises(dt.ConflictingFeedback):
        learner.feedback(first.id, correct=False)
    learner.flush()
    assert same_bits(learner.weights, before)  # a late answer is kept, and changes no weights
    corrected.decide(ROWS[30])
    assert not same_bits(corrected.weights, before)


def test_what_is_never_answered_does_not_grow_the_learner():
    learner = dt.Banditron(3, 6, gamma=0.5, seed=0, expire_after=3, on_expiry="wrong", correct_within=4)
    for t in range(200):
        learner.decide(ROWS[t % 40])
        assert len(learner.book.kept) <= 3 + 4
    assert learner.weights.sum() == pytest.approx(-sum(ROWS[t % 40].sum() for t in range(197)), rel=1e-9)


def test_correct_within_is_a_setting_that_is_saved(tmp_path):
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=3, on_expiry="wrong", correct_within=4)
    assert "correct_within=4" in repr(learner)
    learner.decide(ROWS[0])
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert again.correct_within == again.settings()["correct_within"] == 4
    assert again.book.expiry == learner.book.expiry == Expiry(3, as_wrong=True, release_rounds=7)
    assert read_expiry(3, "wrong") == Expiry(3, as_wrong=True, release_rounds=33)


def test_an_answer_in_the_last_round_of_the_wait_is_in_time():
    learner = dt.Delaytron(3, 6, gamma=0.5, seed=0, expire_after=2)
    first = learner.decide(ROWS[0])
    learner.decide(ROWS[1])
    assert learner.feedback(first.id, correct=True) == "accepted"
    learner.decide(ROWS[2])
    assert learner.weights[first.label].any()


def test_flips_come_at_their_rates_and_a_rate_of_zero_flips_nothing():
    draws = np.random.default_rng(0).random(20_000)
    flips = Noise(rho0=0.3).flip_mask(draws)
    assert set(flips.tolist()) == {0, 1}
    assert flips.mean() == pytest.approx(0.3, abs=0.02)
    both = Noise(rho0=0.3, rho1=0.1).flip_mask(draws)
    assert ((both & 2) > 0).mean() == pytest.approx(0.1, abs=0.02)


def test_the_first_run_of_a_simulation_is_what_a_learner_of_that_seed_does():
    data = dt.datasets.load("synsep", n_samples=400, seed=1)
    noise, expiry = (0.1, 0.2), {"expire_after": 20, "on_expiry": "wrong"}
    result = dt.simulate("delaytron", data, delay="fixed:30", seed=9, gamma=0.1, noise=noise, **expiry)
    learner = dt.Delaytron(data.n_classes, data.n_features, gamma=0.1, seed=9, **expiry)
    decisions, wrong, flips = [], 0, flips_of(9, noise, 400)
    for t, x in enumerate(csr_matrix(data.X)):
        if t >= 30:
            answer(learner, decisions[t - 30], data.y[t - 30], flips[t - 30])
        decisions.append(learner.decide(x))
        wrong += decisions[-1].label != data.y[t]
    assert wrong == result.mistakes[0, -1, 0]


def test_simulate_plays_each_noise_of_a_list_as_if_alone():
    data = dt.datasets.load("synsep", n_samples=500)
    together = dt.simulate("delaytron", data, delay=50, runs=2, gamma=[0.1, 0.3], noise=[(0.1, 0.2), (0.0, 0.4)])
    pattern = dt.Delaytron(data.n_classes, data.n_features, gamma=0.3)
    assert len({part.mistakes.tobytes() for _, part in together.groups()}) == 4
    for setting, part in together.groups():
        alone = dt.simulate("delaytron", data, delay=50, runs=2, **setting)
        assert np.array_equal(part.mistakes, alone.mistakes)
        if setting["gamma"] == 0.3:
            like = dt.simulate(pattern, data, delay=50, runs=2, noise=setting["noise"])
            assert like.parameters == [{"noise": setting["noise"]}] * 2
            assert np.array_equal(part.mistakes, like.mistakes)


def test_simulate_plays_each_expiry_of_a_list_as_if_alone():
    data = dt.datasets.load("synsep", n_samples=500)
    together = dt.simulate("delaytron", data, delay=50, runs=2, expire_after=[10, 40], on_expiry=["drop", "wrong"])
    for setting, part in together.groups():
        alone = dt.simulate("delaytron", data, delay=50, runs=2, **setting)
        assert np.array_equal(part.mistakes, alone.mistakes)
    assert len({part.mistakes.tobytes() for _, part in together.groups()}) == 4


def test_simulate_takes_correct_within():
    data = dt.datasets.load("synsep", n_samples=500)
    expiry = {"expire_after": 10, "on_expiry": "wrong"}
    together = dt.simulate("delaytron", data, delay="uniform:60", runs=2, correct_within=[0, 20, 100], **expiry)
    mistakes = {setting["correct_within"]: part.mistakes for setting, part in together.groups()}
    for correct_within, found in mistakes.items():
        alone = dt.simulate("delaytron", data, delay="uniform:60", runs=2, correct_within=correct_within, **expiry)
        assert np.array_equal(found, alone.mistakes)
    assert len({found.tobytes() for found in mistakes.values()}) == 3
    default = dt.simulate("delaytron", data, delay="uniform:60", runs=2, **expiry)
    assert np.array_equal(mistakes[100], default.mistakes)


BAD = [
    ({"expire_after": 0}, "expire_after must be an integer of at least 1"),
    ({"on_expiry": "wrong"}, "needs expire_after"),
    ({"expire_after": 3, "on_expiry": "wrog"}, "did you mean wrong"),
    ({"expire_after": 3, "correct_within": 3}, "correct_within needs on_expiry='wrong'"),
    ({"expire_after": 3, "on_expiry": "wrong", "correct_within": -1}, "correct_within must be an integer of at"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_get_one_clear_line(options, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.Delaytron(3, 2, **options)
    assert "\n" not in str(caught.value)


BAD_NOISE = [
    (0.1, r"noise must be \(rho0, rho1\)"),
    ((0.5, 0.5), "a sum below 1"),
    ((-0.1, 0.5), "at least 0"),
    (("a", 0.5), "rho0 must be a finite number"),
]


@pytest.mark.parametrize(("noise", "message"), BAD_NOISE)
def test_bad_noise_gets_one_clear_line(noise, message):
    data, learner = (ROWS, np.arange(40) % 4), dt.Delaytron(4, 6)
    for play in (
        lambda: dt.simulate("delaytron", data, noise=noise),
        lambda: dt.simulate(learner, data, noise=noise),
        lambda: dt.replay(learner, *data, np.ones(40, int), np.zeros(40), noise),
    ):
        with pytest.raises(dt.InvalidInput, match=message) as caught:
            play()
        assert "\n" not in str(caught.value)


def test_a_learner_does_not_take_noise():
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
        dt.Delaytron(3, 2, noise=(0.1, 0.1))


def test_a_learner_of_the_true_label_cannot_count_expiry_as_wrong():
    with pytest.raises(
        dt.InvalidInput, match=r"perceptron learns from the true label, .*; leave out on_expiry='wrong'"
    ):
        dt.Perceptron(3, 2, expire_after=3, on_expiry="wrong")


def test_a_learner_of_the_true_label_takes_no_noise_but_rates_of_0():
    data = ROWS, np.arange(40) % 4
    with pytest.raises(dt.InvalidInput, match="perceptron learns from the true label; leave out noise"):
        dt.simulate("perceptron", data, noise=(0.1, 0.1))
    with pytest.raises(dt.InvalidInput, match="perceptron learns from the true label; leave out noise"):
        dt.replay(dt.Perceptron(4, 6), *data, np.ones(40, int), np.zeros(40), noise=(0.1, 0.1))
    clean = dt.simulate("perceptron", data)
    assert np.array_equal(dt.simulate("perceptron", data, noise=(0.0, 0.0)).mistakes, clean.mistakes)


def test_an_unknown_option_is_a_type_error_as_for_any_function():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'gama'; did you mean gamma\?"):
        dt.Delaytron(3, 2, gama=0.1)
