"""dt.logs.Log: arrays in and out, refusals, Parquet and compressed files."""

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import delaytron as dt
from delaytron.logs.dsjson import format_time, parse_time
from delaytron.logs.schema import About, log_schema

GOOD = {
    "features": [[1.0, 0], [0, 2], [3, 0]],
    "labels": [2, 0, 1],
    "probs": [0.5, 0.8, 1.0],
    "rewards": [1, None, 0.25],
}
MISSING = np.iinfo(np.int64).min
P = [[0.25, 0.25, 0.5], [0.8, 0.1, 0.1], [0, 1, 0]]
FULL = GOOD | {
    "classes": ["tea", "coffee", "milk"],
    "ids": ["a", "b", "c"],
    "decided_at": np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:01", "2024-01-01T00:00:02"], "datetime64[s]"),
    "occurred_at": [1704067201000000000, 0, 1704067205000000000],
    "received_at": [1704067201000000001, 0, 1704067206000000000],
    "until": np.datetime64("2024-02-01"),
    "allowed": np.array([[True, False, True], [True, True, True], [False, True, False]]),
    "probabilities": P,
    "learner": "delaytron",
    "weights": [1, 2, 4],
    "positions": [0, 1, 0],
    "actions": [{"price": 1}, {"price": 2}, {}],
}


def full_log(**changes):
    return dt.logs.from_arrays(**FULL | changes)


def test_importing_the_package_imports_no_arrow():
    code = "import sys, delaytron; assert not {'pyarrow', 'msgspec'} & sys.modules.keys(), sys.modules; delaytron.logs"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_come_back_unchanged():
    log = full_log()
    assert (len(log), log.n_classes, log.n_features, log.classes) == (3, 3, 2, ("tea", "coffee", "milk"))
    assert (log.labels.dtype, log.labels.tolist()) == (np.int64, [2, 0, 1])
    assert log.probs.tolist() == [0.5, 0.8, 1.0]
    assert log.outcomes[[0, 2]].tolist() == [1.0, 0.25]
    assert np.isnan(log.outcomes[1])
    assert log.decided_at.tolist() == [1704067200000000000 + i * 10**9 for i in range(3)]
    assert log.occurred_at.tolist() == [1704067201000000000, MISSING, 1704067205000000000]
    assert log.received_at.tolist() == [1704067201000000001, MISSING, 1704067206000000000]
    assert log.until == 1706745600000000000
    assert np.array_equal(log.allowed, FULL["allowed"])
    assert log.probabilities.tolist() == P
    assert log.weights.tolist() == [1, 2, 4]
    assert log.positions.tolist() == [0, 1, 0]
    assert log.actions == ({"price": 1}, {"price": 2}, {})
    assert log.features.tolist() == GOOD["features"]


def test_omitted_arrays_are_none():
    log = dt.logs.from_arrays(**GOOD, n_classes=3)
    assert log.classes == (0, 1, 2)
    nothing = ("decided_at", "occurred_at", "received_at", "until", "allowed", "probabilities", "weights", "actions")
    assert {name: getattr(log, name) for name in nothing} == dict.fromkeys(nothing)
    assert log.table["id"].to_pylist() == ["0", "1", "2"]


def test_until_is_the_latest_time_by_default():
    assert full_log(until=None).until == 1704067206000000000
    assert full_log(until=None, occurred_at=None, received_at=None).until == 1704067202000000000
    times = pa.array([None, None, 1704067206000000000], pa.timestamp("ns", tz="UTC"))  # not of every outcome
    table = full_log(until=None, occurred_at=None).table
    place = table.column_names.index("received_at")
    log = dt.logs.Log(table.set_column(place, table.schema.field(place), times))
    assert (log.received_at, log.until) == (None, 1704067206000000000)


def test_a_log_cannot_be_changed():
    log = full_log()
    for name in ("labels", "probs", "outcomes", "allowed", "probabilities", "features", "decided_at"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(log, name)[0] = 0
    with pytest.raises(AttributeError):
        log.table = None


FEATURES = {
    "dense": np.array([[1.5, 0], [0, -2], [1e30, 0]]),
    "sparse": csr_matrix([[1.5, 0, 0], [0, 0, 0], [0, -2, 4]]),
    "named": [{"hour": 7, "tags": ["a", "b"]}, {}, {"x": {"y": [1, 2.5]}, "é": "ü", "none": None, "yes": True}],
}


@pytest.mark.parametrize("form", FEATURES)
def test_features_are_as_they_were_given(tmp_path, form):
    log = full_log(features=FEATURES[form])
    log.write_parquet(tmp_path / "log.parquet")
    again = dt.logs.read_parquet(tmp_path / "log.parquet")
    assert again.table.equals(log.table, check_metadata=True)
    for one in (log, again):
        if form == "named":
            assert one.features == FEATURES[form]
        else:
            assert (one.features != FEATURES[form]).sum() == 0
            assert one.features.shape == FEATURES[form].shape
            assert isinstance(one.features, type(FEATURES[form]))


numbers = st.floats(-1e9, 1e9)


@given(data=st.data(), n_rows=st.integers(1, 30), n_classes=st.integers(2, 5))
def test_whatever_is_logged_survives_a_file_in_pieces(tmp_path_factory, data, n_rows, n_classes):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    allowed = rng.random((n_rows, n_classes)) < 0.6
    labels = rng.integers(n_classes, size=n_rows)
    allowed[np.arange(n_rows), labels] = True
    rewards = np.where(rng.random(n_rows) < 0.4, np.nan, rng.random(n_rows))
    log = dt.logs.from_arrays(
        features=rng.normal(size=(n_rows, 3)),
        labels=labels,
        probs=1 - rng.random(n_rows),
        rewards=rewards,
        n_classes=n_classes,
        allowed=allowed,
        decided_at=rng.integers(2**62, size=n_rows),
        received_at=rng.integers(2**62, size=n_rows),
    )
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    pq.write_table(log.table, path, row_group_size=data.draw(st.integers(1, 8)))
    again = dt.logs.read_parquet(path)
    for name in ("labels", "probs", "outcomes", "decided_at", "received_at", "features", "until"):
        assert np.array_equal(getattr(again, name), getattr(log, name), equal_nan=name == "outcomes"), name
    assert np.array_equal(again.allowed if again.allowed is not None else np.ones_like(allowed), allowed)


def test_slices_and_pieces_of_a_table_are_read_right():
    log = full_log(features=FEATURES["sparse"])
    part = dt.logs.Log(pa.concat_tables([log.table.slice(1), log.table.slice(0, 1)]))
    assert part.labels.tolist() == [0, 1, 2]
    assert np.array_equal(part.features.toarray(), FEATURES["sparse"].toarray()[[1, 2, 0]])
    assert np.array_equal(part.allowed, FULL["allowed"][[1, 2, 0]])
    assert part.probabilities.tolist() == [P[1], P[2], P[0]]


def test_tables_of_other_tools_are_taken_if_they_fit(tmp_path):
    """Larger types, columns left out and columns more: as pandas and polars write them."""
    log = full_log()
    types = {
        "id": pa.large_string(),
        "label": pa.int64(),
        "decided_at": pa.timestamp("us", tz="UTC"),
        "outcome": pa.float32(),
    }
    table = log.table.drop_columns(["weight", "position", "learner"]).append_column("more", pa.array([1, 2, 3]))
    for name, kind in types.items():
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind, safe=False))
    pq.write_table(table, tmp_path / "log.parquet")
    again = dt.logs.read_parquet(tmp_path / "log.parquet")
    assert again.table.schema.equals(log.table.schema, check_metadata=True)
    assert again.labels.tolist() == log.labels.tolist()
    assert again.weights is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": [0, 1]}, "labels must have one entry for each of 3 rows"),
        ({"labels": [0, 1, 3]}, "labels must be from 0 to 2, got 3 in row 2"),
        ({"labels": [0.0, 1, 2]}, "labels must be integers"),
        ({"probs": [0.5, 0, 1]}, "probs must be above 0 and at most 1, got 0.0 in row 1"),
        ({"probs": [0.5, np.nan, 1]}, "prob"),
        ({"probs": "x"}, "probs must be 3 numbers"),
        ({"rewards": [1, 2, 0]}, "outcomes must be from 0 to 1, got 2.0 in row 1"),
        ({"rewards": [1, -0.1, 0]}, "outcomes must be from 0 to 1"),
        ({"features": [[1], [2]]}, "must have"),
        ({"features": [[1], [np.inf], [3]]}, "X must be finite"),
        ({"features": [{"a": 1}, 7, {}]}, "features must all be dicts"),
        ({"features": [{"a": 1}, {"a": float("inf")}, {}]}, "features must be finite, got inf"),
        ({"features": [{"a": object()}, {}, {}]}, "what JSON can hold, got object"),
        ({"classes": ["a", "a", "b"]}, "classes must be two or more different"),
        ({"classes": ["a"]}, "classes must be two or more different"),
        ({"n_classes": 1}, "n_classes must be"),
        ({"n_classes": 10**30}, "n_classes must be at most 2147483647"),
        ({"until": [1, 2]}, "until must have one entry"),
        ({"n_classes": None}, r"needs n_classes=K or classes=\[\.\.\.\], got neither"),
        ({"ids": ["a", "b", "a"]}, "ids must differ, got 'a' more than once"),
        ({"ids": [1, 2, 3]}, "ids must be strings"),
        ({"ids": "abc"}, "ids must be a list, got 'abc'"),
        ({"ids": ["a"]}, "ids must have one entry for each of 3 rows, got 1"),
        ({"classes": 3}, "classes must be a list, got 3"),
        ({"learner": 3}, "learner must be a list, got 3"),
        ({"actions": 3}, "actions must be a list, got 3"),
        ({"probs": [np.nan, 0.5, 0.5]}, "probs must be above 0 and at most 1, got nan in row 0"),
        ({"rewards": ["a", 1, 0]}, "rewards must be 3 numbers, one for each row, got <U"),
        ({"labels": [[0], [1, 2], [0]]}, "labels must have one entry for each row, got rows of different lengths"),
        ({"allowed": [[True, True, False]] * 3}, "label must be among the allowed classes, got label 2 in row 0"),
        ({"allowed": [[1, 0, 1]] * 3}, "allowed must be True or False"),
        ({"probabilities": [[0.5, 0.5, 0.5]] * 3}, "probabilities must be at least 0 and sum to 1"),
        ({"probabilities": [[0.4, 0.3, 0.3]] * 3}, "the same in probabilities and in prob, got 0.3 and 0.5 in row 0"),
        ({"probabilities": [[0.5, 0.5]] * 3}, "probabilities must be a number for each row and class"),
        ({"decided_at": [1.5, 2, 3]}, "decided_at must be datetime64"),
        (
            {"decided_at": np.array([0, "NaT", 1], "M8[s]")},
            "decided_at must be a time, got none in row 1",
        ),
        (
            {"received_at": np.array(["NaT", 0, 1], "M8[s]")},
            "received_at must be a time, got none in row 0",
        ),
        ({"weights": [0.5, 1, 1]}, "weights must be finite and at least 1"),
        ({"positions": [0, -1, 0]}, "positions must be from 0"),
        ({"actions": [{}]}, "actions must be a dict for each of 3 classes, got 1 of dict"),
        ({"learner": ["a"]}, "learner must have 3 entries"),
    ],
)
def test_invalid_arrays_are_refused_in_one_line(change, said):
    given = GOOD | ({} if "classes" in change else {"n_classes": 3}) | change
    with pytest.raises(dt.InvalidInput, match=said) as caught:
        dt.logs.from_arrays(**given)
    assert "\n" not in str(caught.value)


def with_metadata(texts):
    return full_log().table.replace_schema_metadata(texts)


def broken(name, values, kind):
    table = full_log().table
    place = table.column_names.index(name)
    return table.set_column(place, pa.field(name, kind), pa.array(values, kind))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (full_log().table.drop_columns(["prob"]), "needs the column 'prob'"),
        (with_metadata(None), "needs the key delaytron.log"),
        (full_log().table.replace_schema_metadata({"delaytron.log": "2"}), "must be of version 1"),
        (with_metadata({"delaytron.log": "1"}), "classes must be"),
        (with_metadata({"delaytron.log": "1", "delaytron.classes": "["}), "cannot be read"),
        (
            with_metadata({"delaytron.log": "1", "delaytron.classes": "[0,1,2]"}),
            "n_features",
        ),
        (broken("label", ["a", "b", "c"], pa.string()), "'label' of a log must be int32"),
        (broken("label", [0, 1, 2**40], pa.int64()), "'label' of a log must be int32"),
        (broken("label", [0, None, 1], pa.int32()), "'label' of a log must have a value in every row"),
        (broken("features", [[1.0], [1.0, 2], [1, 2]], pa.list_(pa.float64())), "features must have 2 numbers"),
        (broken("features", [[1.0, None], [1.0, 2], [1, 2]], pa.list_(pa.float64())), "features must be finite"),
        (broken("features", ["{}", "[]", "{}"], pa.string()), "must be a JSON object, not so in row 1"),
        (broken("allowed", [[9], None, None], pa.list_(pa.int32())), "allowed classes must be from 0 to 2, got 9"),
        (broken("allowed", [[2, 2], None, None], pa.list_(pa.int32())), "allowed classes must differ"),
        (broken("probabilities", [[1.0], None, None], pa.list_(pa.float64())), "probabilities must have 3 numbers"),
        (broken("decided_at", [1, None, 2], pa.timestamp("ns", tz="UTC")), "decided_at must be there in every row or"),
        (
            broken("received_at", [1, 2, 3], pa.timestamp("ns", tz="UTC")),
            "received_at must be there in rows with an outcome only",
        ),
    ],
)
def test_a_table_that_is_no_log_is_refused(tmp_path, table, said):
    with pytest.raises(dt.InvalidInput, match=said):
        dt.logs.Log(table)
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(dt.InvalidInput, match=r"log\.parquet: .*" + said) as caught:
        dt.logs.read_parquet(tmp_path / "log.parquet")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [{"indices": [0], "values": [1.0, 2]}, {"indices": [2], "values": [1.0]}, {"indices": [1, 0], "values": [1.0, 2]}],
)
def test_invalid_sparse_rows_are_refused(row):
    kind = log_schema("sparse", About(("a", "b"), 2)).field("features").type
    with pytest.raises(dt.InvalidInput, match="indices"):
        dt.logs.Log(broken("features", [row, {"indices": [], "values": []}, {"indices": [0], "values": [0.5]}], kind))


def outcome_of(path):
    """Return the log in a file, after its features were decoded, or the message of the error."""
    try:
        log = dt.logs.read_parquet(path)
    except dt.InvalidInput as problem:
        return None, str(problem)
    return (log, "") if repr(log) and log.features is not None else (None, "")


@pytest.mark.parametrize("form", FEATURES)
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_is_a_clear_line_or_a_log(tmp_path_factory, form, place, bit, cut):
    path = tmp_path_factory.mktemp("damaged") / "log.parquet"
    full_log(features=FEATURES[form]).write_parquet(path)
    content = bytearray(path.read_bytes())
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= 1 << bit
    path.write_bytes(bytes(content))
    log, said = outcome_of(path)
    assert (log is None and said.startswith(str(path)) and "\n" not in said) or len(log) == 3


def test_after_an_error_a_file_is_as_it_was(tmp_path):
    log = dt.logs.from_arrays(features=[{"_x": 1}], labels=[0], probs=[1], rewards=[1], n_classes=2)
    (tmp_path / "log.dsjson").write_text("old")
    with pytest.raises(dt.InvalidInput, match="'_x' cannot be written to dsjson"):
        dt.logs.write_dsjson(log, tmp_path / "log.dsjson")
    assert (tmp_path / "log.dsjson").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["log.dsjson"]
    with pytest.raises(OSError, match="nowhere"):
        log.write_parquet(tmp_path / "nowhere" / "log.parquet")


@given(st.integers(-(2**62), 2**63 - 1))
def test_times_are_read_as_they_are_written(nanoseconds):
    assert parse_time(format_time(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "2024", "2024-13-01T00:00:00Z", "2024-01-01T25:00:00Z", "9999-01-01T00:00:00Z", 7, None]
)
def test_text_that_is_not_a_time_is_none(text):
    assert parse_time(text) is None


# Files of logs: compressed ones, missing ones


LOG = dt.logs.from_arrays(
    features=[{"mood": "tired"}, {"mood": "awake"}], labels=[1, 0], probs=[0.5, 0.25], rewards=[1, 0], n_classes=3
)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_compressed_log_is_read_again(tmp_path, ending):
    dt.logs.write_dsjson(LOG, tmp_path / f"log.dsjson.{ending}")
    again = dt.logs.read_dsjson(tmp_path / f"log.dsjson.{ending}")
    assert again.labels.tolist() == [1, 0]
    assert again.probs.tolist() == [0.5, 0.25]


def test_a_compressed_file_has_the_bytes_of_the_plain_one(tmp_path):
    dt.logs.write_dsjson(LOG, tmp_path / "log.dsjson")
    dt.logs.write_dsjson(LOG, tmp_path / "log.dsjson.gz")
    assert gzip.decompress((tmp_path / "log.dsjson.gz").read_bytes()) == (tmp_path / "log.dsjson").read_bytes()


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(dt.InvalidInput, match=r"there is no file '.*none\.parquet'"):
        dt.logs.read_parquet(tmp_path / "none.parquet")


@pytest.mark.parametrize("wrong", [pd.DataFrame({"item_id": [0]}), None, 3])
def test_open_bandit_is_a_file_or_a_dict(wrong):
    with pytest.raises(dt.InvalidInput, match="source must be the path of a CSV file, or a dict, got"):
        dt.logs.read_open_bandit(wrong)


@pytest.mark.parametrize("write", [dt.logs.write_parquet, dt.logs.write_dsjson])
def test_only_a_log_is_written(write, tmp_path):
    with pytest.raises(dt.InvalidInput, match=r"log must be a dt\.logs\.Log, got NoneType; read one by "):
        write(None, tmp_path / "log")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read", [dt.logs.read_parquet, dt.logs.read_dsjson, LOG.write_parquet])
@pytest.mark.parametrize("path", [None, 3, ""])
def test_an_invalid_path_is_refused(read, path):
    with pytest.raises(dt.InvalidInput, match="path must be a str or a Path that is not empty, got"):
        read(path)


def test_a_log_of_no_files_is_refused():
    with pytest.raises(dt.InvalidInput, match="path must be a file or a list of files, got an empty list"):
        dt.logs.read_dsjson([])


def test_a_log_needs_a_table():
    with pytest.raises(dt.InvalidInput, match=r"table must be a pyarrow\.Table, got NoneType"):
        dt.logs.Log(None)
