"""Results as numbers, table and figure."""

import numpy as np
import pytest
from PIL import Image

import delaytron as dt
from delaytron.simulation.results import Result, index_from_which_below, mean_of, plot_curves

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
        "learner", "dataset", "form", "delay", "gamma", "run", "round", "error_rate", "greedy_error_rate",
        "majority_error",
    ]  # fmt: skip
    last = table.filter(table["round"].to_numpy() == 200)
    np.testing.assert_array_equal(last["error_rate"].to_numpy(), RESULT.final_error)
    np.testing.assert_array_equal(last["greedy_error_rate"].to_numpy(), RESULT.greedy_error)
    assert table["majority_error"].unique().to_pylist() == [1 - np.bincount(DATA[1]).max() / 200]


def test_the_interval_is_students():
    mean = mean_of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert mean.value == 2.5
    assert mean.margin == pytest.approx(3.182446305 * np.sqrt(5 / 3) / 2)
    assert np.isnan(mean_of(np.array([1.0])).margin)


def test_a_plot_is_a_figure_with_curves(tmp_path):
    RESULT.plot(tmp_path / "curves.png")
    picture = np.asarray(Image.open(tmp_path / "curves.png").convert("RGB"))
    assert picture.shape[0] > 400
    colours = {tuple(colour) for colour in picture.reshape(-1, 3)}
    assert {(0, 114, 178), (230, 159, 0)} <= colours  # both curves were drawn


def test_several_results_share_a_figure(tmp_path):
    other = dt.simulate("perceptron", DATA, delay=5, runs=1)
    plot_curves([RESULT, other], tmp_path / "curves.svg")
    assert "perceptron" in (tmp_path / "curves.svg").read_text()


def test_a_plot_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(dt.InvalidInput, match="cannot save the figure"):
        RESULT.plot(tmp_path / "nowhere" / "curves.png")
    with pytest.raises(dt.InvalidInput, match="cannot save the figure"):
        RESULT.plot(tmp_path / "curves.unknown")


class Counting(dict):
    """A setting that counts how often it is compared."""

    compared = 0
    __hash__ = None

    def __eq__(self, other):
        Counting.compared += 1
        return super().__eq__(other)


def result_of(settings):
    mistakes = RNG.integers(0, 100, (len(settings), 1, 2))
    return Result("delaytron", "made", "1", np.array([100]), settings, np.zeros(len(settings), int), mistakes)


@pytest.mark.parametrize("n_settings", [1, 50, 400])
def test_grouping_compares_settings_at_most_once_a_run(n_settings):
    result = result_of([Counting(gamma=0.5 / (1 + run % n_settings)) for run in range(400)])
    Counting.compared = 0
    assert len(list(result.groups())) == n_settings
    result.best()
    assert Counting.compared <= 2 * 400


def test_equal_settings_are_one_group_in_the_order_of_their_first_runs():
    settings = [{"b": 1, "a": [0.1, 0.2]}, {"a": (0.1, 0.2), "b": 1}, {"a": [0.1, 0.2], "b": 1.0}, {"b": True}]
    groups = [(setting, len(part.run)) for setting, part in result_of(settings).groups()]
    assert groups == [(settings[0], 2), (settings[1], 1), (settings[3], 1)]


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([0.9, 0.5, 0.2, 0.1], 2), ([0.0, 0.5, 0.1, 0.3], None), ([0.2, 0.1, 0.0, 0.0], 0), ([0.9, 0.9, 0.9, 0.2], 3)],
)
def test_the_index_from_which_errors_stay_below(errors, expected):
    assert index_from_which_below(np.array(errors), 0.2) == expected
