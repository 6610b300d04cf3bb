"""Playing round by round: the same bits as the compiled loop, and learners from outside; worlds."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.delays import as_delay
from delaytron.rng import stream
from delaytron.simulation.rounds import Course, dense_row, play_rewards
from delaytron.simulation.scenarios import SimulationConfig, choose_rows, draw_outcomes, draw_rows
from delaytron.simulation.worlds import AD_RATES, WORLDS, ads, contexts, linear_world

T = 400


class Recorder:
    """Plays label 0 and notes what it is told, and when."""

    def __init__(self, label=0):
        self.label = label
        self.seen = []
        self.told = []

    def decide(self, x):
        self.seen.append(x.tolist())
        return self.label

    def feedback(self, round, /, correct):
        self.told.append((len(self.seen), round, correct))


@pytest.mark.parametrize("delay", [1, 40, "fixed:7", "uniform:9+missing:0.3", "right=3/wrong=uniform:50"])
@pytest.mark.parametrize("name", ["delaytron", "ova_logistic", "bandit_logit"])
def test_registered_learners_play_as_in_the_compiled_loop(name, delay):
    data = dt.datasets.load("digits")
    config = SimulationConfig(data.n_rows, T, as_delay(delay), 3, "drawn")
    right, wrong = draw_outcomes(config, 0)
    course = Course(draw_rows(config, 0), right, np.full(T, 0.5), wrong)
    learner = dt.LEARNERS[name](data.n_classes, data.n_features, seed=3)
    expected = dt.simulate(name, data, delay=delay, rounds=T, seed=3, sampling="drawn")
    tally = play_rewards(learner, data.X, np.eye(10)[data.y], course, expected.rounds.tolist())
    assert tally.mistakes.tolist() == expected.mistakes[0].tolist()
    assert tally.lost.tolist() == expected.mistakes[0, :, 0].tolist()


def test_answers_come_before_the_round_in_which_they_arrive_in_the_order_of_their_rounds():
    recorder = Recorder()
    course = Course(rows=[0] * 5, delays=[3, 2, 1, 9, 1], draws=np.zeros(5))
    play_rewards(recorder, np.eye(2), np.array([[0.5, 1.0], [0.0, 0.0]]), course, [5])
    assert recorder.told == [(3, 1, True), (3, 2, True), (3, 3, True)]  # nothing of rounds 4 and 5: the run ends


def test_an_answer_is_right_as_often_as_the_reward_says():
    rng = np.random.default_rng(0)
    recorder = Recorder(label=1)
    course = Course([0] * 4000, [1] * 4000, rng.random(4000))
    tally = play_rewards(recorder, np.eye(2), np.array([[0.9, 0.25], [0.0, 0.0]]), course, [1000, 4000])
    assert np.mean([correct for _, _, correct in recorder.told]) == pytest.approx(0.25, abs=0.02)
    assert tally.mistakes[:, 0].tolist() == [1000, 4000]
    assert tally.lost == pytest.approx([650, 2600])


def test_every_label_that_is_best_is_right():
    tally = play_rewards(Recorder(), np.eye(2), np.array([[0.4, 0.4]] * 2), Course([0], [1], [0.0]), [1])
    assert tally.mistakes.tolist() == [[0, 0]]


def test_rows_are_dense_and_cannot_be_written_to():
    X = csr_array(np.diag([1.0, 2.0, 3.0]))
    assert [dense_row(X, row).tolist() for row in range(3)] == X.toarray().tolist()
    full = np.eye(2)
    with pytest.raises(ValueError, match="read-only"):
        dense_row(full, 0)[0] = 5
    full[0, 0] = 5  # the matrix itself is as it was


@pytest.mark.parametrize(
    ("label", "got"), [(2, "2"), (-1, "-1"), (0.0, "0.0"), ("0", "'0'"), (None, "None"), (np.float64(1), "1.0")]
)
def test_what_is_no_label_is_refused(label, got):
    with pytest.raises(dt.InvalidInput, match=rf"decide must return a label in 0\.\.1, got .*{got}") as caught:
        play_rewards(Recorder(label), np.eye(2), np.eye(2), Course([0], [1], [0.0]), [1])
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_labels():
    assert play_rewards(Recorder(np.int8(1)), np.eye(2), np.eye(2), Course([0], [1], [0.0]), [1]).lost.tolist() == [1.0]


def test_a_learner_that_fails_is_named_with_the_round():
    class Fails(Recorder):
        def feedback(self, round, /, correct):
            raise KeyError(f"round\n{round}")

    with pytest.raises(dt.InvalidInput, match=r"^Fails failed in round 2: KeyError: ") as caught:
        play_rewards(Fails(), np.eye(2), np.eye(2), Course([0, 0], [1, 1], [0.0, 0.0]), [2])
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_rows_are_drawn_in_any_case_where_that_is_asked():
    rows = choose_rows(1000, 1000, "drawn", stream(0, "rows"))
    assert np.unique(rows).size == pytest.approx(1000 * (1 - np.exp(-1)), abs=50)
    assert (
        choose_rows(9, 500, "drawn", stream(0, "rows")).tolist()
        == choose_rows(9, 500, "replacement", stream(0, "rows")).tolist()
    )


def test_a_stream_cannot_be_drawn_from(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n" + "1,0\n2,1\n" * 5)
    with pytest.raises(dt.InvalidInput, match=r"sampling='drawn' needs rows in memory: .*; load the file whole"):
        dt.simulate("banditron", dt.datasets.stream(file), sampling="drawn")


def test_contexts_have_one_best_label_each():
    world = contexts(0.02, 0.01, count=3)
    assert world.rewards.tolist() == [[0.02, 0.01, 0.01], [0.01, 0.02, 0.01], [0.01, 0.01, 0.02]]
    assert world.data.y.tolist() == [0, 1, 2]


def test_ads_are_every_visitor_at_every_hour():
    world = ads(0.1)
    rows = {(*row[:3], row[3]) for row in world.data.X.tolist()}
    assert len(rows) == 72
    kinds = world.data.X[:, :3].argmax(axis=1)
    assert np.allclose(world.rewards, 0.1 * AD_RATES[kinds])


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.9])
def test_linear_worlds_have_the_base_rate_and_linear_logits(rate):
    world = linear_world(classes=4, base_rate=rate, features=6, n_samples=300, seed=2)
    assert world.rewards.mean() == pytest.approx(rate, rel=1e-9)
    logits = np.log(world.rewards / (1 - world.rewards))
    X = np.column_stack([world.data.X, np.ones(300)])
    assert np.abs(X @ np.linalg.lstsq(X, logits, rcond=None)[0] - logits).max() < 1e-6
    assert world.data.y.tolist() == world.rewards.argmax(axis=1).tolist()
    other = linear_world(classes=4, base_rate=rate, features=6, n_samples=300, seed=3)
    assert not np.array_equal(world.data.X, other.data.X)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("contexts", {"high": 0.1, "low": 0.2}, "high must be above low, 0.2, got 0.1"),
        ("contexts", {"high": 2}, r"high must be in \[0, 1\], got 2"),
        ("contexts", {"count": 1}, "count must be an integer of at least 2, got 1"),
        ("ads", {"factor": 0}, r"factor must be in \(0, 1\], got 0"),
        ("linear_world", {"classes": 1}, "classes must be an integer of at least 2, got 1"),
        ("linear_world", {"base_rate": 1.0}, r"base_rate must be in \(0, 1\), got 1.0"),
        ("linear_world", {"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_worlds_that_cannot_be_are_refused(name, options, message):
    with pytest.raises(dt.InvalidInput, match=message):
        WORLDS[name](**options)
