"""Results as numbers, table and picture."""

import numpy as np
import pytest
from PIL import Image

import delaytron as dt
from delaytron.simulation.plots import plot_curves
from delaytron.simulation.results import mean_of

RNG = np.random.default_rng(0)
DATA = (RNG.normal(size=(200, 3)), RNG.integers(0, 3, 200))
RESULT = dt.simulate("delaytron", DATA, delay=5, runs=4, gamma=[0.1, 0.5])


def test_errors_are_averages_so_far():
    assert RESULT.error_rate.shape == (8, RESULT.rounds.size)
    np.testing.assert_array_equal(RESULT.error_rate[:, -1], RESULT.final_error)
    assert ((RESULT.error_rate >= 0) & (RESULT.error_rate <= 1)).all()
    assert RESULT.greedy_error.shape == (8,)


def test_groups_and_the_best_setting():
    groups = {setting["gamma"]: part for setting, part in RESULT.groups()}
    assert list(groups) == [0.1, 0.5]
    assert all(part.run.tolist() == [0, 1, 2, 3] for part in groups.values())
    lowest = min(groups, key=lambda gamma: groups[gamma].final_error.mean())
    assert RESULT.best().parameters[0]["gamma"] == lowest


def test_the_table_has_a_row_per_run_and_checkpoint():
    table = RESULT.to_table()
    assert table.num_rows == 8 * RESULT.rounds.size
    assert table.column_names == [
        "learner", "dataset", "delay", "gamma", "run", "round", "error_rate", "greedy_error_rate",
    ]  # fmt: skip
    last = table.filter(table["round"].to_numpy() == 200)
    np.testing.assert_array_equal(last["error_rate"].to_numpy(), RESULT.final_error)
    np.testing.assert_array_equal(last["greedy_error_rate"].to_numpy(), RESULT.greedy_error)


def test_the_interval_is_students():
    mean = mean_of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert mean.value == 2.5
    assert mean.margin == pytest.approx(3.182446305 * np.sqrt(5 / 3) / 2)
    assert np.isnan(mean_of(np.array([1.0])).margin)


def test_a_plot_is_a_picture_with_curves(tmp_path):
    RESULT.plot(tmp_path / "curves.png")
    picture = np.asarray(Image.open(tmp_path / "curves.png").convert("RGB"))
    assert picture.shape[0] > 400
    colours = {tuple(colour) for colour in picture.reshape(-1, 3)}
    assert {(0, 114, 178), (230, 159, 0)} <= colours  # both curves were drawn


def test_several_results_share_a_picture(tmp_path):
    other = dt.simulate("perceptron", DATA, delay=5, runs=1)
    plot_curves([RESULT, other], tmp_path / "curves.svg")
    assert "perceptron" in (tmp_path / "curves.svg").read_text()


def test_a_plot_that_cannot_be_written_is_said_in_one_line(tmp_path):
    with pytest.raises(dt.InvalidInput, match="cannot save the figure"):
        RESULT.plot(tmp_path / "nowhere" / "curves.png")
    with pytest.raises(dt.InvalidInput, match="cannot save the figure"):
        RESULT.plot(tmp_path / "curves.unknown")
