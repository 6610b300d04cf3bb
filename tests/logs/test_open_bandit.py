"""The columns of the Open Bandit Dataset, and the dict of Open Bandit Pipeline."""

import bz2
import csv
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt

N_ITEMS = 4
LOGGED = ["timestamp", "item_id", "position", "click", "propensity_score"]
HEADER = ["", *LOGGED, *(f"user_feature_{i}" for i in range(4)), *(f"user-item_affinity_{i}" for i in range(N_ITEMS))]
ROWS = [
    ["0", "2019-11-24 00:03:13.442536+00:00", "3", "3", "0", "0.029411764705882353", "cef3", "03a5", "7bc9", "9bde"],
    ["1", "2019-11-24 00:03:13.442641+00:00", "0", "1", "1", "0.25", "cef3", "1e5", "7bc9", "12345"],
    ["2", "2019-11-24 00:04:00+00:00", "1", "2", "0", "1.0", "0000", "03a5", "7bc9", "9bde"],
]
AFFINITIES = [["0.0", "0.0", "0.5", "0.0"], ["0", "1", "0.0", "0.0"], ["0.0", "0.0", "0.0", "0.0"]]
SAMPLE = [HEADER, *([*row, *affinity] for row, affinity in zip(ROWS, AFFINITIES, strict=True))]


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_the_columns_of_the_data_set_are_read(tmp_path):
    log = dt.logs.read_open_bandit(write(tmp_path / "all.csv", SAMPLE))
    assert log.classes == (0, 1, 2, 3)
    assert log.labels.tolist() == [3, 0, 1]
    assert log.positions.tolist() == [2, 0, 1]
    assert log.outcomes.tolist() == [0.0, 1.0, 0.0]
    assert log.probs.tolist() == [0.029411764705882353, 0.25, 1.0]
    assert log.decided_at.tolist() == [1574553793442536000, 1574553793442641000, 1574553840000000000]
    users = {"user_feature_0": "cef3", "user_feature_1": "1e5", "user_feature_2": "7bc9", "user_feature_3": "12345"}
    assert log.features[1] == users | {"user-item_affinity_1": 1.0}
    assert log.features[0]["user-item_affinity_2"] == 0.5
    assert "user-item_affinity_2" not in log.features[2]


def test_more_items_than_a_file_shows(tmp_path):
    path = write(tmp_path / "all.csv", SAMPLE)
    assert dt.logs.read_open_bandit(path, n_actions=80).n_classes == 80
    with pytest.raises(dt.InvalidInput, match="above the largest item_id"):
        dt.logs.read_open_bandit(path, n_actions=3)


def test_items_have_the_features_of_their_file(tmp_path):
    header = ["", "item_id", "item_feature_0", "item_feature_1", "item_feature_2", "item_feature_3"]
    rows = [header, ["0", "1", "-0.5", "aa", "bb", "cc"], ["1", "4", "2", "a", "b", "c"]]
    items = write(tmp_path / "item_context.csv", rows)
    log = dt.logs.read_open_bandit(write(tmp_path / "all.csv", SAMPLE), item_context=items)
    assert log.n_classes == 5
    assert log.actions[1] == dict(zip(header[2:], [-0.5, "aa", "bb", "cc"], strict=True))
    assert log.actions[0] == {}
    assert dt.logs.to_open_bandit(log)["action_context"].shape == (5, 7)


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_are_read(tmp_path, ending, compress):
    plain = write(tmp_path / "all.csv", SAMPLE)
    packed = tmp_path / f"all.csv.{ending}"
    packed.write_bytes(compress(plain.read_bytes()))
    expected = dt.logs.read_open_bandit(plain).table
    assert dt.logs.read_open_bandit(packed).table.equals(expected, check_metadata=True)


def test_an_empty_click_is_an_outcome_that_has_not_come(tmp_path):
    rows = [list(row) for row in SAMPLE]
    rows[2][HEADER.index("click")] = ""
    log = dt.logs.read_open_bandit(write(tmp_path / "all.csv", rows))
    assert np.isnan(log.outcomes).tolist() == [False, True, False]


@pytest.mark.parametrize("wrong", [None, {}])
def test_only_a_log_becomes_a_dict(wrong):
    with pytest.raises(dt.InvalidInput, match=r"log must be a dt\.logs\.Log"):
        dt.logs.to_open_bandit(wrong)


def test_context_has_a_column_for_each_number_and_each_text(tmp_path):
    feedback = dt.logs.to_open_bandit(dt.logs.read_open_bandit(write(tmp_path / "all.csv", SAMPLE)))
    # user-item_affinity_1 and 2, user_feature_0=0000 and cef3, 1=03a5 and 1e5, 2=7bc9, 3=12345 and 9bde
    expected = [[0, 0.5, 0, 1, 1, 0, 1, 0, 1], [1, 0, 0, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 1, 0, 1, 0, 1]]
    assert feedback["context"].tolist() == expected


FEEDBACK = {
    "n_rounds": 3,
    "n_actions": 3,
    "context": np.array([[0.5, 1.0], [0.0, -2.0], [1.0, 0.25]]),
    "action_context": np.eye(3),
    "action": np.array([2, 0, 1]),
    "position": np.array([0, 2, 1]),
    "reward": np.array([1, 0, 1]),
    "pscore": np.array([0.2, 0.6, 1.0]),
}


@pytest.mark.parametrize("left_out", [(), ("position",), ("action_context", "position"), ("n_rounds",)])
def test_a_dict_comes_in_and_goes_out(left_out):
    given = {name: None if name in left_out else value for name, value in FEEDBACK.items()}
    found = dt.logs.to_open_bandit(dt.logs.read_open_bandit(given))
    assert found.keys() == FEEDBACK.keys()
    for name, value in (given | {"n_rounds": 3}).items():
        assert np.array_equal(found[name], value), name


def test_options_of_a_dict_are_checked():
    assert dt.logs.read_open_bandit(FEEDBACK, n_actions=3).n_classes == 3
    with pytest.raises(dt.InvalidInput, match="n_actions must be an integer of at least 2, got 0"):
        dt.logs.read_open_bandit(FEEDBACK, n_actions=0)
    with pytest.raises(dt.InvalidInput, match="item_context belongs to a CSV file"):
        dt.logs.read_open_bandit(FEEDBACK, item_context="item_context.csv")


def test_missing_outcomes_need_a_reward():
    log = dt.logs.from_arrays(features=np.eye(2), labels=[0, 1], probs=[0.5, 0.5], rewards=[1, None], n_classes=2)
    with pytest.raises(dt.InvalidInput, match="1 of 2 decisions have none"):
        dt.logs.to_open_bandit(log)
    assert dt.logs.to_open_bandit(log, missing_reward=0)["reward"].tolist() == [1.0, 0.0]


def test_the_estimate_of_the_logged_policy_is_its_mean_reward():
    """The formula of inverse probability weighting in Open Bandit Pipeline, on the arrays that it would get."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 50) * 0.7 + 0.1
    labels = rng.integers(3, size=50)
    probs = P[np.arange(50), labels]
    rewards = rng.random(50)
    log = dt.logs.from_arrays(
        features=rng.random((50, 2)), labels=labels, probs=probs, rewards=rewards, n_classes=3, probabilities=P
    )
    feedback = dt.logs.to_open_bandit(log)
    weights = log.probabilities[np.arange(50), feedback["action"]] / feedback["pscore"]
    assert np.mean(weights * feedback["reward"]) == pytest.approx(rewards.mean())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"item_id": "x"}, "item_id must be a number"),
        ({"item_id": "-1"}, "item_id must be an integer of at least 0"),
        ({"item_id": "1e9"}, "item_id must be below"),
        ({"click": "2"}, "outcomes must be from 0 to 1"),
        ({"click": "nan"}, "click must be a number"),
        ({"propensity_score": "0"}, "probs must be above 0"),
        ({"propensity_score": ""}, "propensity_score must be a number"),
        ({"timestamp": "yesterday"}, "timestamp must be like"),
        ({"position": "0"}, "position must be an integer of at least 1"),
        ({"user-item_affinity_1": "inf"}, "affinity_1 must be a number"),
    ],
)
def test_a_wrong_cell_is_one_line(tmp_path, change, said):
    rows = [list(row) for row in SAMPLE]
    ((name, cell),) = change.items()
    rows[2][HEADER.index(name)] = cell
    with pytest.raises(dt.InvalidInput, match=said) as caught:
        dt.logs.read_open_bandit(write(tmp_path / "all.csv", rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "a,b\n1,2\n", ",".join(HEADER) + "\n", "item_id,item_id,click,propensity_score\n"]
)
def test_a_file_of_other_columns_is_one_line(tmp_path, content):
    (tmp_path / "all.csv").write_text(content)
    with pytest.raises(dt.InvalidInput, match=r"all\.csv") as caught:
        dt.logs.read_open_bandit(tmp_path / "all.csv")
    assert "\n" not in str(caught.value)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_changed_byte_is_a_clear_line_or_a_log(tmp_path_factory, place, byte):
    folder = tmp_path_factory.mktemp("mutated")
    content = bytearray(write(folder / "all.csv", SAMPLE).read_bytes())
    content[place % len(content)] = byte
    (folder / "all.csv").write_bytes(bytes(content))
    log, said = outcome_of(folder / "all.csv")
    assert (log is None and said and "\n" not in said) or len(log) <= 3


def outcome_of(path):
    """Return the log in a file, or the message of the error."""
    try:
        return dt.logs.read_open_bandit(path), ""
    except dt.InvalidInput as problem:
        return None, str(problem)
