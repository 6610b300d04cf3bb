"""Standardised rows: indifferent to scales and shifts, in pools and files, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.files.atomic import replace_file
from delaytron.files.tensors import pack_tensors, read_tensors
from standardized import DATA, a_learner, some_learners
from streams import Story, play_compiled, play_interpreted, play_online, same_bits, stories


class TestScales:
    @pytest.mark.parametrize("name", ["banditron", "ova_logistic", "soba"])
    @given(story=stories(max_rounds=40), seed=st.integers(0, 2**32))
    def test_columns_multiplied_by_powers_of_two_give_the_same_bits(self, name, story, seed):
        powers = 2.0 ** np.random.default_rng(seed).integers(-60, 61, story.X.shape[1])
        scaled = story._replace(X=csr_array(story.X * powers))
        learner = a_learner(name, story, {})
        assert same_bits(play_compiled(learner, story), play_compiled(learner, scaled))

    @pytest.mark.parametrize("name", ["banditron", "ova_logistic", "soba"])
    @given(story=stories(general=True, sparse=False), seed=st.integers(0, 2**32))
    def test_columns_scaled_and_shifted_give_the_same_labels(self, name, story, seed):
        rng = np.random.default_rng(seed)
        scales = 10.0 ** rng.uniform(-6, 6, story.X.shape[1])
        moved = story._replace(X=(story.X + rng.normal(size=story.X.shape[1])) * scales)
        learner = a_learner(name, story, {"gamma": 0.3})
        ours = play_compiled(learner, story)
        theirs = play_compiled(learner, moved)
        assert np.array_equal(ours.labels, theirs.labels)
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-6, atol=1e-6)

    @some_learners
    def test_constant_huge_tiny_and_late_columns_break_nothing(self, name, setting):
        rng = np.random.default_rng(3)
        y = rng.integers(0, 3, 600)
        signal = np.eye(3)[y] + 0.1 * rng.normal(size=(600, 3))
        late = np.where(np.arange(600) < 300, 7.0, rng.normal(size=600))
        odd = np.column_stack([np.full(600, 0.1), np.zeros(600), 1e50 * rng.uniform(-1, 1, 600), late])
        X = np.column_stack([signal * 1e-50, odd])
        story = Story(X, y, np.ones(600, int), 3, 2)
        learner = a_learner(name, story, setting)
        run = play_compiled(learner, story)
        assert np.isfinite(run.weights).all()
        assert same_bits(run, play_compiled(learner, story._replace(X=csr_array(X))))
        if name in ("banditron", "ova_logistic", "pab", "passive_aggressive", "confidit"):
            assert (run.greedy[300:] != y[300:]).mean() < 0.1

    def test_a_column_that_never_varied_counts_as_nothing(self):
        rng = np.random.default_rng(4)
        y = rng.integers(0, 3, 200)
        X = np.eye(3)[y] + rng.normal(size=(200, 3))
        story = Story(X, y, np.ones(200, int), 3, 0)
        with_constants = story._replace(X=np.column_stack([np.full(200, 0.3), X]))
        ours = play_compiled(a_learner("pab", with_constants, {"gamma": 0.3}), with_constants)
        assert np.array_equal(ours.labels, play_compiled(a_learner("pab", story, {"gamma": 0.3}), story).labels)
        assert not ours.weights[:, 0].any()

    def test_rows_have_length_1(self):
        learner = dt.HingeDelaytron(4, 5, seed=0, standardize=True)
        for x in DATA[0]:
            learner.decide(x)
            assert np.linalg.norm(learner.state.row) == pytest.approx(1.0, rel=1e-14)
        assert learner.state.clock[1] == pytest.approx(1.0, rel=1e-14)  # R_t, the longest row so far


def test_exp3_which_looks_at_no_row_stays_as_it_is():
    raw = dt.replay(dt.Exp3(4, 5), *DATA, np.ones(200, int), np.linspace(0, 0.99, 200))
    assert same_bits(
        raw, dt.replay(dt.Exp3(4, 5, standardize=True), *DATA, np.ones(200, int), np.linspace(0, 0.99, 200))
    )


class TestPool:
    def test_every_instance_standardises_by_the_rows_that_it_played(self):
        story = Story(*DATA, np.random.default_rng(1).integers(1, 9, 200), 4, 6)
        learner = dt.Bold(dt.OvaLogistic(4, 5, gamma=0.3, seed=6, standardize=True))
        compiled = play_compiled(learner, story)
        assert same_bits(compiled, play_interpreted(learner, story))
        assert same_bits(compiled, play_online(learner, story)[0])
        assert learner.state.row_seen[:, 0].sum() == 200
        np.testing.assert_array_equal(learner.state.row_seen[:, 0], learner.state.turns)
        assert learner.predict(DATA[0]).shape == (200,)

    def test_without_delay_a_pool_is_its_base(self):
        base = dt.OvaLogistic(4, 5, gamma=0.3, seed=6, standardize=True)
        story = Story(*DATA, np.ones(200, int), 4, 6)
        assert same_bits(play_compiled(dt.Bold(base), story), play_compiled(base, story))

    def test_it_is_saved_with_its_base(self, tmp_path):
        learner = dt.Bold(dt.Banditron(4, 5, seed=6, standardize=True))
        for x in DATA[0][:9]:
            learner.decide(x)
        learner.save(tmp_path / "pool.safetensors")
        again = dt.load(tmp_path / "pool.safetensors")
        assert repr(again) == repr(learner)
        assert same_bits(list(again.state), list(learner.state))

    def test_it_belongs_to_the_base(self):
        with pytest.raises(dt.InvalidInput, match="standardize belongs to the base, as in Bold"):
            dt.Bold(dt.Banditron(4, 5), standardize=True)


def test_files_from_before_there_was_such_a_parameter_are_read(tmp_path):
    learner = dt.Delaytron(4, 5, seed=0)
    decision = learner.decide(DATA[0][0])
    path = tmp_path / "learner.safetensors"
    learner.save(path)
    texts, tensors = read_tensors(path)
    header = json.loads(texts["header"])
    assert header["settings"].pop("standardize") is False
    replace_file(path, *pack_tensors(tensors, texts | {"header": json.dumps(header)}))
    again = dt.load(path)
    assert again.standardize is False
    assert again.feedback(decision.id, correct=True) == "accepted"


REFUSED = [
    (lambda: dt.Banditron(4, 5, standardize="yes"), "standardize must be True or False"),
    (lambda: dt.Banditron(4, 5, standardize=True, average=True), "have no average: leave out average=True or"),
    (
        lambda: dt.simulate("banditron", DATA, standardize=True, regret=True),
        "scores are linear in the row, got standardizing.banditron.",
    ),
    (
        lambda: dt.simulate("banditron", DATA, standardize=[False, True], regret=True),
        "scores are linear in the row, got standardizing.banditron.",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_makes_no_sense_is_refused_in_one_line(call, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
