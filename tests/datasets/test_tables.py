"""Tables and frames: what their columns become, in blocks or as a whole; missing cells, dates, categories."""

import io
import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.checks import is_sparse as is_sparse_block
from delaytron.datasets import files, load, stream, tables
from delaytron.datasets.tables import fit, table_source
from optional import REAL_DATA, needs_data


class TestColumns:
    def read(self, tmp_path, text, **options):
        path = tmp_path / "own.csv"
        path.write_text(text)
        return load(path, **options)

    def test_without_a_header_columns_are_called_by_their_position(self, tmp_path):
        data = self.read(tmp_path, "a,1,x\nb,2,y\n", label=-1, header=False)
        assert data.feature_names == ("0=a", "0=b", "1")

    def test_numbers_are_categories_on_request(self, tmp_path):
        data = self.read(tmp_path, "zip,y\n10,a\n9.0,b\n9,a\n", categorical=["zip"])
        assert data.feature_names == ("zip=9", "zip=10")
        assert data.X.tolist() == [[0, 1], [1, 0], [1, 0]]
        assert self.read(tmp_path, "zip,y\n10,a\nx9,b\n", categorical=0).feature_names == ("zip=10", "zip=x9")

    def test_codes_that_begin_with_0_are_not_numbers(self, tmp_path):
        data = self.read(tmp_path, "zip,y\n01234,01\n1234,1\n1234,2\n", categorical=["zip"])
        assert data.feature_names == ("zip=01234", "zip=1234")
        assert data.class_names == ("01", "1", "2")

    @pytest.mark.parametrize(
        "labels",
        [("18446744073709551615", "18446744073709551614", "-1"), ("9007199254740993", "9007199254740992", ".5")],
    )
    def test_labels_that_are_equal_as_floats_stay_apart(self, tmp_path, labels):
        data = self.read(tmp_path, "a,y\n" + "".join(f"1,{label}\n" for label in labels))
        assert set(data.class_names) == set(labels)

    def test_a_first_row_with_a_number_is_a_header_with_a_note(self, tmp_path):
        note = "header: the first row, with the number 1; if it is data, pass header=False (--no-header)"
        data = self.read(tmp_path, "a,1\nb,2\nc,3\n", label=-1)
        assert (data.feature_names, data.class_names, data.notes[0]) == (("a=b", "a=c"), ("2", "3"), note)
        assert self.read(tmp_path, "a,1\nb,2\nc,3\n", label=-1, header=False).class_names == ("1", "2", "3")
        with pytest.raises(dt.InvalidInput, match="header must be True or False, got 'auto'"):
            self.read(tmp_path, "a,1\nb,2\n", label=-1, header="auto")

    def test_a_column_without_a_name_is_called_by_its_position(self, tmp_path):
        assert self.read(tmp_path, ",a,y\n0,5,u\n1,6,v\n").feature_names == ("column 0", "a")

    def test_text_in_typed_columns_is_categories(self):
        frame = pd.DataFrame({"zip": ["10", "9"], "day": ["2024-05-31", "2024-06-01"], "y": [0, 1]})
        assert load(frame).feature_names == ("zip=9", "zip=10", "day=2024-05-31", "day=2024-06-01")

    def test_columns_of_a_frame_may_be_called_by_numbers(self):
        frame = pd.DataFrame({2: [0.5, 1.5], 1: [3.0, 4.0], 0: ["x", "z"]})
        assert load(frame, label=0).class_names == ("x", "z")

    def test_dates_are_categories_on_request(self, tmp_path):
        data = self.read(tmp_path, "day,y\n2020-01-02,a\n2020-01-01,b\n", categorical="day")
        assert data.feature_names == ("day=2020-01-01", "day=2020-01-02")
        days = pa.table({"day": pa.array([1, 0], pa.date32()), "y": ["a", "b"]})
        assert load(days, categorical="day").feature_names == ("day=1970-01-01", "day=1970-01-02")

    def test_whole_numbers_are_labels_without_a_point_in_the_order_of_numbers(self, tmp_path):
        data = self.read(tmp_path, "a,target\n1,10.0\n2,9.0\n3,-1\n4,9\n")
        assert (data.class_names, data.y.tolist()) == (("-1", "9", "10"), [2, 1, 0, 1])
        assert self.read(tmp_path, "a,y\n1,10\n2,9\n3,b\n").class_names == ("10", "9", "b")

    def test_spaces_around_cells_do_not_count(self, tmp_path):
        data = self.read(tmp_path, "age , city, label\n 39, rome , x\n 40,rome, y\n")
        assert (data.feature_names, data.class_names) == (("age", "city=rome"), ("x", "y"))
        assert data.X.tolist() == [[39, 1], [40, 1]]

    @pytest.mark.parametrize(
        "text", ["a;b;y\n1;2;u\n3;4;v\n", "a\tb\ty\n1\t2\tu\n3\t4\tv\n", '"a","b","y"\n1,2,u\n3,4,v\n']
    )
    def test_cells_may_be_divided_by_other_signs(self, text, tmp_path):
        assert self.read(tmp_path, text).X.tolist() == [[1, 2], [3, 4]]

    def test_numbers_with_a_plus_are_numbers(self, tmp_path):
        assert self.read(tmp_path, "a,y\n+1,u\n-2,v\n").X.tolist() == [[1], [-2]]

    def test_true_and_false_are_numbers(self, tmp_path):
        data = self.read(tmp_path, "a,y\nTRUE,no\nfalse,yes\nTrue,no\n")
        assert (data.X.tolist(), data.feature_names) == ([[1], [0], [1]], ("a",))

    def test_many_categories_make_a_sparse_matrix(self, tmp_path):
        names = [f"user {i}" for i in range(20_000)]
        data = load(pa.table({"user": names, "age": range(20_000), "y": np.arange(20_000) % 2}), keep=["user"])
        assert (data.sparse, data.n_features, data.X.nnz) == (True, 20_001, 40_000)
        assert data.feature_names[data.X.indices[2 * 777]] == "user=user 777"
        assert data.X[[777]].toarray()[0, -1] == 777

    @pytest.mark.parametrize(
        ("n_numbers", "n_categories", "is_sparse"),
        [(0, 10, True), (0, 9, False), (9, 91, True), (9, 90, False)],
    )
    def test_a_matrix_is_sparse_where_that_saves_enough(self, n_numbers, n_categories, is_sparse):
        n_rows = 2 * n_categories
        columns = {f"x{i}": np.arange(n_rows) + i + 1.0 for i in range(n_numbers)}
        categories = [f"c{i % n_categories}" for i in range(n_rows)]
        table = pa.table({**columns, "c": categories, "y": np.arange(n_rows) % 2})
        assert is_sparse_block(fit(table_source("rows", table)).whole().X) == is_sparse

    def test_a_number_too_long_for_any_float_is_missing_or_a_name(self, tmp_path):
        long = "9" * 400
        with pytest.raises(dt.InvalidInput, match="line 3, column 'a': the cell is empty or no finite number"):
            self.read(tmp_path, f"a,y\n1,u\n{long},v\n")
        assert self.read(tmp_path, f"a,y\n1,2\n2,{long}\n").class_names == ("2", long)


class TestBlocks:
    def test_blocks_of_a_parquet_file_are_the_whole_of_it(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(1)
        columns = {
            "a": rng.normal(size=5000),
            "city": rng.choice(["rome", "oslo"], 5000),
            "y": rng.choice(["u", "v"], 5000),
        }
        pq.write_table(pa.table(columns), tmp_path / "own.parquet", row_group_size=1700)
        monkeypatch.setattr("delaytron.datasets.tables.BLOCK_BYTES", 24 * 800)
        blocks, whole = list(stream(tmp_path / "own.parquet").read()), load(tmp_path / "own.parquet")
        assert max(len(block.labels) for block in blocks) <= 800
        assert {block.feature_names for block in blocks} == {("a", "city=oslo", "city=rome")}
        assert np.array_equal(np.vstack([block.X for block in blocks]), whole.X)
        assert np.concatenate([block.labels for block in blocks]).tolist() == [whole.class_names[k] for k in whole.y]

    def test_an_error_in_a_later_block_names_its_row(self, tmp_path, monkeypatch):
        pq.write_table(pa.table({"a": [*range(900), None], "y": [0, 1, 2] * 300 + [0]}), tmp_path / "own.parquet")
        monkeypatch.setattr("delaytron.datasets.tables.BLOCK_BYTES", 8 * 100)
        with pytest.raises(dt.InvalidInput, match=r"own.parquet, row 900, column 'a': the cell is empty"):
            dt.datasets.stream(tmp_path / "own.parquet")


class TestReadings:
    """How often a file of text is read."""

    def write(self, tmp_path):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({"a": rng.normal(size=3000), "city": rng.choice(["oslo", "rome"], 3000)})
        path = tmp_path / "own.csv"
        frame.assign(y=rng.integers(0, 3, 3000)).to_csv(path, index=False)
        return path

    def test_a_file_is_read_once_and_a_large_one_twice(self, tmp_path, monkeypatch):
        path, opened = self.write(tmp_path), []
        open_binary = files.open_binary
        monkeypatch.setattr(files, "open_binary", lambda path: opened.append(path) or open_binary(path))
        once = load(path)
        assert opened == [path]
        monkeypatch.setattr(tables, "MOST_HELD", 1000)
        twice = load(path)
        assert opened == [path] * 3
        assert once.X.tobytes() == twice.X.tobytes()
        assert once.y.tobytes() == twice.y.tobytes()
        assert (once.feature_names, once.notes) == (twice.feature_names, twice.notes)


N = 60


def frame():
    numbers = np.random.default_rng(0).normal(size=(N, 3))
    return pd.DataFrame(numbers).assign(label=np.arange(N) % 3)


def both(path, **options):
    """Load a file, and open it as a stream; both have the same features."""
    whole, stream = dt.datasets.load(path, **options), dt.datasets.stream(path, **options)
    assert whole.feature_names == stream.feature_names
    return whole


def test_the_index_of_a_frame_in_parquet_is_no_column(tmp_path):
    rows = pd.concat([frame()[30:], frame()[:30]]).rename(columns=str)
    rows.to_parquet(tmp_path / "table.parquet")
    assert both(tmp_path / "table.parquet").feature_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("form", "step", "parts"),
    [
        ("%Y/%m/%d", "D", 3),
        ("%d.%m.%Y", "D", 3),
        ("%Y/%m/%d %H:%M:%S", "7h", 4),
        ("%d.%m.%Y %H:%M", "7h", 4),
        ("%-d.%-m.%Y", "D", 3),
    ],
)
def test_dates_in_other_notations(tmp_path, form, step, parts):
    times = pd.date_range("2024-01-28", periods=N, freq=step)
    frame().assign(when=times.strftime(form)).to_csv(tmp_path / "table.csv", index=False)
    found = both(tmp_path / "table.csv")
    assert found.feature_names[3:] == (("when", "when.hour", "when.weekday", "when.month") if parts == 4 else
                                       ("when", "when.weekday", "when.month"))  # fmt: skip
    assert found.X[0, 3] == datetime(2024, 1, 28, tzinfo=UTC).timestamp()
    assert (found.X[:, 3] == times.to_numpy().astype("datetime64[s]").astype(float)).all()


def test_dates_of_which_the_month_may_come_first_are_categories(tmp_path):
    times = pd.date_range("2024-01-28", periods=N).strftime("%m/%d/%Y")
    frame().assign(when=times).to_csv(tmp_path / "table.csv", index=False)
    assert both(tmp_path / "table.csv").feature_names[3] == "when=01/28/2024"


@pytest.mark.parametrize("blocks", [10**6, 300])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
@pytest.mark.parametrize("odd", ["soon", "2024-02-31", "7"])
def test_a_date_beside_another_text_is_refused_whatever_the_blocks(tmp_path, monkeypatch, form, odd, blocks):
    monkeypatch.setattr("delaytron.datasets.files.TEXT_BYTES", blocks)
    times = pd.date_range("2024-01-28", periods=N).strftime(form).tolist()
    times[40] = odd
    frame().assign(when=times).to_csv(tmp_path / "table.csv", index=False)
    wrong, kind = (("2024-01-28", "28.01.2024")[form[1] == "d"], "number") if odd == "7" else (odd, "date")
    place = f"line {2 if odd == '7' else 42}, column 'when': {wrong!r} is not a {kind}"
    for read in (dt.datasets.load, dt.datasets.stream):
        with pytest.raises(dt.InvalidInput, match=place):
            read(tmp_path / "table.csv")


RNG = np.random.default_rng(5)


def write(path, text):
    path.write_text(text)
    return path


def own(tmp_path, text, name="own.csv", **options):
    return load(write(tmp_path / name, text), **options)


def refused(read, *arguments, **options):
    with pytest.raises(dt.InvalidInput) as caught:
        read(*arguments, **options)
    (line,) = str(caught.value).splitlines()
    return line


class TestHeader:
    @pytest.mark.parametrize("labels", [np.arange(60) % 3, np.array(["cat", "dog", "owl"])[np.arange(60) % 3]])
    @pytest.mark.parametrize("label", [None, -1, "label"])
    def test_the_first_row_names_the_columns_whatever_it_holds(self, tmp_path, labels, label):
        frame = pd.DataFrame(RNG.integers(0, 9, (60, 16))).assign(label=labels)
        frame.to_csv(tmp_path / "own.csv", index=False)
        data = load(tmp_path / "own.csv", label=label)
        assert (data.n_rows, data.n_classes) == (60, 3)
        assert data.feature_names == tuple(map(str, range(16)))
        assert np.array_equal(data.X, frame.iloc[:, :16])

    def test_without_a_header_the_first_row_is_data(self, tmp_path):
        data = own(tmp_path, "a,b\nc,d\na,d\n", label=-1, header=False)
        assert (data.n_rows, data.class_names) == (3, ("b", "d"))
        opened = stream(tmp_path / "own.csv", label=-1, header=False)
        assert (opened.n_rows, opened.class_names) == (3, ("b", "d"))

    def test_an_index_that_pandas_saved_without_a_name_can_be_dropped(self, tmp_path):
        pd.DataFrame({"a": [1, 2], "y": [0, 1]}).to_csv(tmp_path / "own.csv")
        for drop in (0, "column 0"):
            assert load(tmp_path / "own.csv", drop=drop).feature_names == ("a",)


class TestMissing:
    TEXT = "age,city,label\n1,rome,x\n,oslo,y\n3,,x\n8,rome,y\n"

    def test_rows_are_dropped_and_counted(self, tmp_path):
        data = own(tmp_path, self.TEXT, missing="drop")
        assert data.X.tolist() == [[1, 0, 1], [8, 0, 1]]
        assert data.feature_names == ("age", "city=oslo", "city=rome")
        assert data.notes[-1] == "dropped 2 of 4 rows with a missing value"

    def test_cells_are_filled_with_the_mean_and_noted(self, tmp_path):
        data = own(tmp_path, self.TEXT, missing="impute")
        assert data.feature_names == ("age", "age missing", "city=oslo", "city=rome", "city=(missing)")
        assert data.X.tolist() == [[1, 0, 0, 1, 0], [4, 1, 1, 0, 0], [3, 0, 0, 0, 1], [8, 0, 0, 1, 0]]
        assert data.notes[-1] == "filled 2 missing cells: numbers with means, categories with one of their own"

    def test_a_label_is_not_filled_in(self, tmp_path):
        data = own(tmp_path, "a,label\n1,x\n2,\n,y\n", missing="impute")
        assert (data.X.tolist(), data.y.tolist()) == ([[1, 0], [1.5, 1]], [0, 1])
        assert data.notes[-1] == "dropped 1 of 3 rows with a missing value"

    def test_truth_and_dates_are_filled_in_like_numbers(self, tmp_path):
        text = "a,day,label\ntrue,2020-01-01,x\nfalse,2020-01-03,y\ntrue,,x\n,2020-01-02,x\n"
        data = own(tmp_path, text, missing="impute")
        assert data.feature_names[:2] == ("a", "a missing")
        assert data.X[3, 0] == 2 / 3
        assert data.X[2, 2] == pd.Timestamp("2020-01-02").timestamp()

    @pytest.mark.parametrize("mark", ["?", "-", "NA", "n/a", "nan", "None", "inf", " "])
    def test_the_usual_marks_are_missing_among_numbers(self, tmp_path, mark):
        text = f"a,b,label\n1,{mark},x\n2,5,y\n3,7,x\n"
        assert refused(own, tmp_path, text).endswith("or pass missing='drop' or missing='impute'")
        assert own(tmp_path, text, missing="drop").X.tolist() == [[2, 5], [3, 7]]
        assert own(tmp_path, text, missing="impute").X.tolist() == [[1, 6, 1], [2, 5, 0], [3, 7, 0]]

    def test_frames_and_parquet_are_alike(self, tmp_path):
        frame = pd.DataFrame({"a": [1.0, None, 4.0], "c": ["u", "v", "u"], "y": [0, 1, 1]})
        frame.to_parquet(tmp_path / "own.parquet")
        frame.to_csv(tmp_path / "own.csv", index=False)
        for missing in ("drop", "impute"):
            sources = (frame, tmp_path / "own.parquet", tmp_path / "own.csv")
            first, *others = (load(source, missing=missing) for source in sources)
            for other in others:
                assert np.array_equal(first.X, other.X)
                assert first.feature_names == other.feature_names

    def test_errors_are_one_line(self, tmp_path):
        assert "has no value at all" in refused(own, tmp_path, "a,b,label\n1,,x\n2,,y\n", missing="impute")
        assert "all 2 rows have a missing value" in refused(own, tmp_path, "a,b,label\n1,,x\n2,,y\n", missing="drop")
        assert "missing must be one of error, drop, impute" in refused(own, tmp_path, "a,label\n1,x\n", missing="no")


class TestDates:
    def test_they_become_seconds_hours_weekdays_and_months(self, tmp_path):
        times = ["2024-05-31 10:30:00", "2024-06-01 00:00:00", "1969-12-31 23:59:59"]
        data = own(tmp_path, "when,label\n" + "".join(f"{t},{i}\n" for i, t in enumerate(times)))
        assert data.feature_names == ("when", "when.hour", "when.weekday", "when.month")
        stamps = [pd.Timestamp(t) for t in times]
        expected = [[s.timestamp(), s.hour + s.minute / 60 + s.second / 3600, s.weekday(), s.month] for s in stamps]
        np.testing.assert_allclose(data.X, expected, rtol=1e-15)
        assert "column 'when' read as date: 4 columns" in data.notes

    def test_days_have_no_hours(self, tmp_path):
        data = own(tmp_path, "day,label\n2024-05-31,x\n2024-06-01,y\n")
        assert data.feature_names == ("day", "day.weekday", "day.month")
        assert data.X[:, 1:].tolist() == [[4, 5], [5, 6]]

    def test_time_zones_are_converted(self, tmp_path):
        data = own(tmp_path, "t,label\n2024-05-31T10:30:00Z,x\n2024-05-31T12:30:00+02:00,y\n2024-05-31T10:30,x\n")
        assert len(set(data.X[:, 0])) == 1

    @given(st.lists(st.datetimes(min_value=datetime(1700, 1, 1)), min_size=2, max_size=9))
    def test_any_time_is_its_parts(self, tmp_path_factory, times):
        path = tmp_path_factory.mktemp("dates") / "own.parquet"
        pq.write_table(
            pa.table({"t": pa.array(times, pa.timestamp("us")), "y": [i % 2 for i in range(len(times))]}), path
        )
        X = load(path).X
        assert X[:, 2].tolist() == [time.weekday() for time in times]
        assert X[:, 3].tolist() == [time.month for time in times]
        assert np.floor(X[:, 1]).tolist() == [time.hour for time in times]
        epoch = [(time - pd.Timestamp(0).to_pydatetime()).total_seconds() for time in times]
        np.testing.assert_allclose(X[:, 0], epoch, rtol=2e-16, atol=2e-16)

    def test_typed_times_of_day_and_durations_are_seconds(self):
        table = pa.table(
            {"t": pa.array([3600, 1], pa.time32("s")), "d": pa.array([5000, 1], pa.duration("ms")), "y": [0, 1]}
        )
        assert load(table).X.tolist() == [[3600, 5], [1, 0.001]]


class TestManyCategories:
    N = 20_000

    @pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet"])
    def test_they_are_refused_dropped_or_kept(self, tmp_path, name):
        requests = [f"req-{i:05}" for i in range(self.N)]
        frame = pd.DataFrame({"request": requests, "a": RNG.normal(size=self.N), "y": np.arange(self.N) % 3})
        path = tmp_path / name
        {
            "own.csv": lambda: frame.to_csv(path, index=False),
            "own.jsonl": lambda: frame.to_json(path, orient="records", lines=True),
            "own.parquet": lambda: frame.to_parquet(path),
        }[name]()
        line = refused(load, path)
        assert "column 'request' has more than 10,000 different texts; leave it out by drop='request'" in line
        assert line.endswith("leave it out by drop='request' or keep it by keep='request'")
        assert refused(stream, path) == line
        assert load(path, drop="request").feature_names == ("a",)
        assert load(path, keep="request").n_features == self.N + 1
        assert load(path, categorical="request").n_features == self.N + 1

    def test_dates_and_numbers_may_all_differ(self, tmp_path):
        times = pd.date_range("2020-01-01", periods=self.N, freq="h")
        frame = pd.DataFrame({"when": times, "id": np.arange(self.N), "y": np.arange(self.N) % 3})
        frame.to_csv(tmp_path / "own.csv", index=False)
        assert load(tmp_path / "own.csv").feature_names == ("when", "when.hour", "when.weekday", "when.month", "id")


class TestDrop:
    def test_columns_are_left_out_whatever_they_hold(self, tmp_path):
        text = "id,mixed,a,label\n1,x,5,p\n2,7,6,q\n"
        data = own(tmp_path, text, drop=["mixed", 0])
        assert (data.feature_names, data.X.tolist()) == (("a",), [[5], [6]])
        assert "left out: columns id, mixed" in data.notes
        assert "drop must be one of the columns id, mixed, a, label, got 'b'" in refused(own, tmp_path, text, drop="b")
        assert "column 'label' is the label" in refused(own, tmp_path, text, drop="label")

    def test_objects_in_json_can_be_dropped(self, tmp_path):
        text = '{"a": 1, "b": [1], "y": "p"}\n{"a": 2, "b": {}, "y": "q"}\n'
        assert "line 1, column 'b': must be a number, text" in refused(own, tmp_path, text, "own.jsonl")
        assert own(tmp_path, text, "own.jsonl", drop="b").X.tolist() == [[1], [2]]


class TestZeroBased:
    X = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, 5]])

    @pytest.mark.parametrize("zero_based", [True, False])
    def test_files_of_scikit_learn_come_back(self, tmp_path, zero_based):
        path = tmp_path / "own.svm"
        dump_svmlight_file(self.X, [0, 1, 2, 0], str(path), zero_based=zero_based)
        for given_base in (None, zero_based):
            data = load(path, zero_based=given_base)
            theirs, _ = load_svmlight_file(io.BytesIO(path.read_bytes()), zero_based=zero_based)
            assert np.array_equal(data.X.toarray(), theirs.toarray())
            blocks = list(stream(path, zero_based=given_base).blocks())
            assert np.array_equal(np.vstack([X.toarray() for X, _ in blocks]), self.X)
        base = 0 if zero_based else 1
        reason = "there is a 0" if zero_based else "there is no 0"
        assert load(path).notes == (f"indices: from {base} ({reason})",)

    def test_a_zero_in_a_comment_or_a_value_is_no_index(self, tmp_path):
        data = own(tmp_path, "0 1:0 # 0:5\n1 2:0.5 10:3\n", "own.svm")
        assert (data.n_features, data.notes[0][:15]) == (10, "indices: from 1")

    def test_one_based_as_asked_for_has_no_zero(self, tmp_path):
        line = refused(own, tmp_path, "1 1:1\n2 0:1 2:1\n", "own.svm", zero_based=False)
        assert "line 2: an index must be from 1 to 2147483647, got '0:1'; see zero_based" in line


class TestJsonLines:
    def test_objects_are_rows_and_absent_keys_are_missing(self, tmp_path):
        text = '{"a": 1, "ok": true, "y": "p"}\n\n{"ok": false, "a": 2.5, "y": "q"}\n{"a": 3, "c": "u", "y": "p"}\n'
        assert "line 4, column 'ok': the cell is empty" in refused(own, tmp_path, text, "own.jsonl", drop="c")
        data = own(tmp_path, text, "own.jsonl", missing="impute")
        assert data.feature_names == ("a", "ok", "ok missing", "c=u", "c=(missing)")
        assert data.X.tolist() == [[1, 1, 0, 0, 1], [2.5, 0, 0, 0, 1], [3, 0.5, 1, 1, 0]]

    @pytest.mark.parametrize("line", ["{", "[1, 2]", "7", '{"a": 1', '{"a": ' + "[" * 5000 + "]" * 5000 + "}", "\x00"])
    def test_a_line_that_is_not_an_object_is_named(self, tmp_path, line):
        path = write(tmp_path / "own.jsonl", '{"a": 1, "y": "p"}\n' + line + '\n{"a": 2, "y": "q"}\n')
        assert refused(load, path).startswith(f"{path}, line 2: ")

    def test_python_writes_nan(self, tmp_path):
        rows = [{"a": float("nan"), "y": 0}, {"a": 1.0, "y": 1}, {"a": 2.0, "y": 0}]
        data = own(tmp_path, "\n".join(map(json.dumps, rows)), "own.ndjson", missing="drop")
        assert data.X.tolist() == [[1], [2]]


@needs_data
class TestRealFiles:
    def test_news_as_scikit_learn_writes_them(self, tmp_path):
        news = load("news20", part="test")
        X, y = news.X[:2000], news.y[:2000]
        dump_svmlight_file(X, y, str(tmp_path / "news.svm"), zero_based=True)
        data = load(tmp_path / "news.svm")
        theirs, _ = load_svmlight_file(str(tmp_path / "news.svm"), zero_based=True)
        assert (theirs != data.X).nnz == 0
        assert np.array_equal([int(data.class_names[k]) for k in data.y], y)

    def test_abalone_with_empty_cells(self, tmp_path):
        frame = pd.read_csv(REAL_DATA / "abalone" / "abalone.data", header=None)
        holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.01)
        holes.to_csv(tmp_path / "own.csv", index=False)
        data = load(tmp_path / "own.csv", label=-1, missing="drop")
        whole = holes.dropna()
        assert (data.n_rows, data.n_features) == (len(whole), 10)
        np.testing.assert_array_equal(data.X[:, 3:], whole.iloc[:, 1:8])
        filled = load(tmp_path / "own.csv", label=-1, missing="impute")
        means = holes[holes[8].notna()].iloc[:, 1:8]
        np.testing.assert_allclose(filled.X[:, 4:18:2], means.fillna(holes.iloc[:, 1:8].mean()), rtol=1e-12)


class TestCommandLine:
    def run(self, *flags):
        return CliRunner().invoke(cli.app, list(map(str, flags)), prog_name="delaytron")

    def test_all_rows_of_a_file_are_played_and_noted(self, tmp_path):
        rows = "".join(f"{i % 7},{i % 5 if i % 50 else ''},u{i},{i % 3}\n" for i in range(300))
        path = write(tmp_path / "own.csv", "a,b,uid,label\n" + rows)
        flags = ["--data", path, "--drop", "uid", "--missing", "drop", "--delay", 5, "--runs", 2, "--json"]
        result = self.run("run", "perceptron", *flags)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)[0]["rounds"] == 294
        assert result.stderr.splitlines() == [
            "delaytron: note: left out: column uid",
            "delaytron: note: dropped 6 of 300 rows with a missing value",
            "delaytron: note: rows: all 294, in file order; --shuffle mixes them",
        ]
        shuffled = self.run("run", "perceptron", *flags, "--shuffle", "--seed", 3)
        assert "delaytron: note: rows: in a random order (seed 3)" in shuffled.stderr.splitlines()
        data = load(path, drop="uid", missing="drop", shuffle=3)
        expected = dt.simulate("perceptron", data, delay=5, runs=2, seed=3)
        assert json.loads(shuffled.stdout)[0]["final_errors"] == expected.final_error.tolist()
        streamed = self.run("run", "perceptron", *flags, "--stream")
        assert json.loads(streamed.stdout)[0]["final_errors"] == json.loads(result.stdout)[0]["final_errors"]

    def test_a_file_may_have_the_name_of_a_data_set(self, tmp_path):
        path = write(tmp_path / "digits.csv", "a,label\n" + "".join(f"{i},{i % 3}\n" for i in range(30)))
        result = self.run("run", "perceptron", "--data", path, "--delay", 5, "--runs", 1, "--json")
        assert json.loads(result.stdout)[0]["rounds"] == 30

    def test_a_stream_is_not_shuffled(self, tmp_path):
        result = self.run("run", "--data", write(tmp_path / "own.csv", "a,y\n1,0\n2,1\n"), "--stream", "--shuffle")
        assert result.exit_code == 2
        assert "--shuffle needs all rows in memory" in result.stderr

    def test_shuffling_is_seeded_and_keeps_every_row(self, tmp_path):
        path = write(tmp_path / "own.csv", "a,label\n" + "".join(f"{i},{i % 3}\n" for i in range(99)))
        plain, one, again, other = (load(path, shuffle=seed) for seed in (None, 1, 1, 2))
        assert np.array_equal(one.X, again.X)
        assert not np.array_equal(one.X, other.X)
        assert sorted(one.X[:, 0]) == list(plain.X[:, 0])
        assert np.array_equal(one.X[:, 0] % 3, one.y)

    def test_show_takes_the_same_options(self, tmp_path):
        path = write(tmp_path / "own.csv", "1,0\n2,1\n3,\n")
        result = self.run("datasets", "show", path, "--label", "-1", "--no-header", "--missing", "drop", "--json")
        assert json.loads(result.stdout)["rows"] == 2
        assert result.stderr.splitlines()[0] == "delaytron: note: dropped 1 of 3 rows with a missing value"

    def test_times_in_minutes_are_minutes(self, tmp_path):
        path = write(tmp_path / "log.csv", "event,outcome\n" + "".join(f"{i},{i + 90}\n" for i in range(100)))
        plain = self.run("delays", path, "--json")
        seconds = json.loads(plain.stdout)["quantiles_in_seconds"]["0.5"]
        assert plain.stderr == "delaytron: note: times: numbers taken as seconds; --unit min, h or d says otherwise\n"
        result = self.run("delays", path, "--unit", "min", "--json")
        assert (seconds, json.loads(result.stdout)["quantiles_in_seconds"]["0.5"]) == (90, 5400)
        assert result.stderr == "delaytron: note: times: numbers taken as minutes\n"
        waits = dt.delays.Trace.from_waits([1, None, 2], unit="h").waits
        assert np.array_equal(waits, [3600, np.nan, 7200], equal_nan=True)
        assert "unit must be one of s, min, h, d, got 'weeks'" in self.run("delays", path, "--unit", "weeks").stderr
        dates = write(tmp_path / "dates.csv", "event,outcome\n2024-01-01,2024-01-02\n")
        assert "unit is for times that are numbers" in self.run("delays", dates, "--unit", "d").stderr
