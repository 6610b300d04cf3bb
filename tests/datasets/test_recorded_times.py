"""Data sets whose rows have the delays with which they were recorded, from two columns of times."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import delaytron as dt
from delaytron.datasets.dataset import Dataset, largest_classes
from delaytron.delays import NEVER, Trace
from optional import needs_data

HEADER = "asked,known,size,team\n"
LINES = [  # not in the order of time
    "2024-05-02 10:00,2024-05-02 12:00,1,red",
    "2024-05-01 10:00,2024-05-02 10:00,2,blue",
    "2024-05-03 10:00,,3,red",
    "2024-05-02 11:00,2024-05-09 10:00,4,blue",
]
TIMES = {"decided": "asked", "answered": "known"}


def table(tmp_path, lines=LINES, name="log.csv"):
    path = tmp_path / name
    text = HEADER + "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


def frame():
    rows = [line.split(",") for line in LINES]
    columns = pd.DataFrame(rows, columns=HEADER.strip().split(","))
    columns["asked"], columns["known"] = pd.to_datetime(columns["asked"]), pd.to_datetime(columns["known"])
    columns["size"] = columns["size"].astype(int)
    return columns


def check_log(data):
    assert data.X[:, 0].tolist() == [2, 1, 4, 3]
    assert [data.class_names[y] for y in data.y] == ["blue", "red", "blue", "red"]
    # An answer comes with the first decision at or after it: the first one with that of its own time.
    assert data.delays.tolist() == [1, 2, 2, NEVER]
    assert data.feature_names == ("size",)
    assert data.notes[-1] == "delays: rounds from 'asked' to 'known', 25.0% never answered; rows sorted by 'asked'"
    assert not data.delays.flags.writeable


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_file_is_played_in_the_order_of_its_decisions_with_its_own_delays(tmp_path, name):
    check_log(dt.datasets.load(table(tmp_path, name=name), label="team", **TIMES))


def test_frames_and_parquet_have_typed_times(tmp_path):
    check_log(dt.datasets.load(frame(), label="team", **TIMES))
    frame().to_parquet(tmp_path / "log.parquet")
    assert parquet.read_schema(tmp_path / "log.parquet").field("asked").type.bit_width == 64
    check_log(dt.datasets.load(tmp_path / "log.parquet", label="team", **TIMES))


def test_rows_that_are_dropped_are_no_rounds(tmp_path):
    lines = [*LINES[:1], "2024-05-02 10:30,2024-05-02 10:31,,red", *LINES[1:]]
    check = dt.datasets.load(table(tmp_path, lines), label="team", missing="drop", **TIMES)
    assert check.delays.tolist() == [1, 2, 2, NEVER]
    assert check.X[:, 0].tolist() == [2, 1, 4, 3]
    wrong = [*lines, "2024-05-02 10:30,2024-05-01 10:31,7,red"]
    with pytest.raises(dt.InvalidInput, match="line 7: the answer 2024-05-01 10:31 lies before its decision 2024"):
        dt.datasets.load(table(tmp_path, wrong), label="team", missing="drop", **TIMES)


@given(
    times=st.lists(st.tuples(st.integers(0, 9), st.one_of(st.integers(0, 9), st.none())), min_size=2, max_size=20),
    seed=st.integers(0, 9),
)
def test_the_delays_are_those_of_a_trace_of_the_same_times(times, seed):
    decided = [start for start, _ in times]
    answered = [None if wait is None else start + wait for start, wait in times]
    rows = pd.DataFrame({"d": decided, "a": pd.array(answered, "Int64"), "x": range(len(times)), "y": "u"})
    rows.loc[seed % len(times), "y"] = "v"
    data = dt.datasets.load(rows, label="y", decided="d", answered="a")
    assert data.delays.tolist() == Trace.from_times(decided, answered).delays.tolist()
    assert data.X[:, 0].tolist() == np.argsort(decided, kind="stable").tolist()


@given(
    times=st.lists(st.tuples(st.integers(0, 30), st.one_of(st.integers(0, 30), st.none())), min_size=4, max_size=30),
    seed=st.integers(0, 99),
)
def test_largest_classes_have_the_delays_that_they_would_have_alone(times, seed):
    times = sorted(times, key=lambda pair: pair[0])
    y = np.concatenate([[0, 0, 1, 1], np.random.default_rng(seed).integers(4, size=len(times) - 4)])
    pairs = [(start, None if wait is None else start + wait) for start, wait in times]
    trace = Trace.from_times(*map(list, zip(*pairs, strict=True)))
    data = Dataset(np.arange(1.0, len(y) + 1)[:, None], y, "all", ("a", "b", "c", "d"), delays=trace.delays)
    some = largest_classes(data, 2)
    kept = np.isin(data.X[:, 0], some.X[:, 0])
    alone = Trace.from_times(
        *map(list, zip(*[pair for pair, keep in zip(pairs, kept, strict=True) if keep], strict=True))
    )
    assert some.delays.tolist() == alone.delays.tolist()
    assert some.n_classes == 2


BAD = [
    ({"decided": "asked"}, "decided needs answered"),
    ({"answered": "known"}, "answered needs decided"),
    ({"decided": "asked", "answered": "asked"}, "cannot have the same times"),
    ({"decided": "aksed", "answered": "known"}, "decided must be one of the columns .* did you mean asked"),
    ({"decided": "team", "answered": "known"}, "'team' is a time, so it cannot be in label"),
    ({"decided": "asked", "answered": "known", "drop": ["known"]}, "'known' is a time, so it cannot be in drop"),
    ({"decided": "size", "answered": "known"}, "decision and answer must be of one kind"),
    ({"decided": "known", "answered": "asked"}, "the decision time is missing"),
    ({"decided": "asked", "answered": "known", "shuffle": 1}, "shuffle would tear the rows"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_times_that_do_not_fit_get_one_clear_line(tmp_path, options, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.datasets.load(table(tmp_path), label="team", **options)
    assert "\n" not in str(caught.value)


def test_formats_without_columns_take_no_times(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(dt.InvalidInput, match="a npz file takes no decided"):
        dt.datasets.load(tmp_path / "a.npz", **TIMES)


@pytest.mark.parametrize("delays", [[1, 2], [1, 0, 2], [1.5, 1, 1]])
def test_a_data_set_refuses_delays_that_are_none(delays):
    with pytest.raises(dt.InvalidInput, match="delays must be"):
        Dataset(np.eye(3), np.array([0, 1, 1]), "tiny", ("a", "b"), delays=np.array(delays))


@needs_data
@pytest.mark.parametrize("groups", [10, 30, 63])
def test_incidents_keep_the_largest_groups(groups):
    data = dt.datasets.load("incidents", groups=groups)
    assert data.n_classes == groups
    assert data.majority_error == pytest.approx({10: 0.558, 30: 0.674, 63: 0.698}[groups], abs=5e-4)
    assert data.delays.min() == 1
    assert (data.delays < NEVER).all()
    assert not any(name.startswith("first_assignment") for name in data.feature_names)
    with pytest.raises(dt.InvalidInput, match="groups must be"):
        dt.datasets.load("incidents", groups=64)


@needs_data
def test_stays_are_answered_later_than_cancellations():
    data = dt.datasets.load("hotel_resort")
    waits = {name: np.median(data.delays[data.y == k]) for k, name in enumerate(data.class_names)}
    assert waits["Check-Out"] > 1.5 * waits["Canceled"]
    numbers = dt.datasets.load("hotel_resort", features="numbers")
    assert (numbers.y == data.y).all()
    assert numbers.n_features < 1000 < data.n_features


def test_what_a_log_needs_is_said_where_it_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
    with pytest.raises(
        dt.InvalidInput, match=r"logs/hotel_resort\.csv\.gz is not on this machine; prepare it"
    ) as caught:
        dt.datasets.load("hotel_resort")
    assert str(Path(tmp_path)) in str(caught.value)
