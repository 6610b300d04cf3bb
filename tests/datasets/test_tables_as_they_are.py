"""Tables as people have them: pandas' headers, empty cells, dates, ids, zero-based LIBSVM; and a line about each."""

import io
import json
from datetime import datetime

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
from conftest import REAL_DATA
from delaytron import cli
from delaytron.datasets import load, stream
from delaytron.datasets.layout import judge_header

RNG = np.random.default_rng(5)
needs_data = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs the real data: DELAYTRON_DATA names no folder")


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
    def frame(self, labels):
        return pd.DataFrame(RNG.integers(0, 9, (60, 16))).assign(label=labels)

    @pytest.mark.parametrize("labels", [np.arange(60) % 3, np.array(["cat", "dog", "owl"])[np.arange(60) % 3]])
    @pytest.mark.parametrize("label", [None, -1, "label"])
    def test_what_pandas_writes_is_a_header(self, tmp_path, labels, label):
        frame = self.frame(labels)
        frame.to_csv(tmp_path / "own.csv", index=False)
        data = load(tmp_path / "own.csv", label=label)
        assert (data.n_rows, data.n_classes) == (60, 3)
        assert data.feature_names == tuple(map(str, range(16)))
        assert np.array_equal(data.X, frame.iloc[:, :16])
        assert data.notes[0].startswith("header: yes (cell 'label' is ")

    def test_columns_without_names_are_counted(self, tmp_path):
        frame = pd.DataFrame(RNG.normal(size=(60, 3))).assign(last=np.arange(60) % 3)
        frame.columns = range(4)
        frame.to_csv(tmp_path / "own.csv", index=False)
        data = load(tmp_path / "own.csv", label=-1)
        assert (data.n_rows, data.class_names) == (60, ("0", "1", "2"))
        assert data.notes == ("header: yes (its cells count the columns, 0 to 3)",)

    def test_the_index_of_pandas_is_an_id(self, tmp_path):
        self.frame(np.arange(60) % 3).to_csv(tmp_path / "own.csv")
        line = refused(load, tmp_path / "own.csv")
        assert "column 'index' looks like an id: 60 of 60 values differ; leave it out by drop=['index'] (--drop" in line
        data = load(tmp_path / "own.csv", drop="index")
        assert (data.n_rows, data.feature_names) == (60, tuple(map(str, range(16))))

    @pytest.mark.parametrize(
        ("first", "rows", "named", "is_header"),
        [
            (["a", "b"], [["1", "2"]], [], True),
            (["1", "b"], [["1", "2"]], [], True),  # a cell that is no number in a column of numbers
            (["1", "b"], [["1", "c"]], [], False),
            (["1", "?"], [["1", "2"]], [], False),  # a value that is missing is no name
            (["1", ""], [["1", "2"]], [], False),
            (["day", "5"], [["2020-01-01", "5"], ["2020-01-02", "6"]], [], True),
            (["2020-01-01", "x"], [["2020-01-02", "y"]], [], False),
            (["7", "species"], [["1", "cat"]], ["species"], True),
            (["7", "y"], [["1", "n"], ["2", "y"]], [], False),  # here y is a value
            (["7", "y"], [["1", "n"], ["2", "j"]], [], True),
            (["0", "1"], [["1", "0"]], [], False),
            (["0", "1"], [["1.5", "0"]], [], True),
            (["0", "1", "2", "3", "4"], [["1", "0", "5", "6", "7"]], [], True),
            (["2020", "2021", "kind"], [["1", "2", "ab"[i % 2]] for i in range(30)], [], True),
            (["2020", "2021", "a"], [["1", "2", "ab"[i % 2]] for i in range(30)], [], False),
        ],
    )
    def test_it_is_told_from_a_row(self, first, rows, named, is_header):
        assert judge_header(first, rows, named)[0] is is_header

    def test_the_user_has_the_last_word(self, tmp_path):
        text = "a,b\nc,d\na,d\n"
        data = own(tmp_path, text, label=-1, header="no")
        assert (data.n_rows, data.class_names, data.notes[0]) == (3, ("b", "d"), "header: no (as asked for)")
        data = own(tmp_path, "1,2\n3,4\n5,6\n", label=-1, header=True)
        assert (data.feature_names, data.class_names) == (("1",), ("4", "6"))
        assert refused(own, tmp_path, text, header="maybe").startswith(
            "header must be one of auto, yes, no; got 'maybe'"
        )

    @given(
        names=st.lists(st.from_regex(r"[a-z]{1,6}\d?", fullmatch=True), min_size=2, max_size=6, unique=True),
        data=st.data(),
    )
    def test_a_header_over_numbers_is_never_a_row(self, names, data):
        some = data.draw(st.lists(st.integers(-5, 5), min_size=1, max_size=9))
        rows = [[str(value + i) for i in range(len(names))] for value in some]
        numbered = data.draw(st.integers(0, len(names) - 1))
        cells = [str(i) if i < numbered else name for i, name in enumerate(names)]
        if not any(name in ("na", "nat", "nan", "inf", "null", "none") for name in cells):
            assert judge_header(cells, rows, [])[0]


class TestMissing:
    TEXT = "age,city,label\n1,rome,x\n,oslo,y\n3,,x\n8,rome,y\n"

    def test_rows_are_dropped_and_counted(self, tmp_path):
        data = own(tmp_path, self.TEXT, missing="drop")
        assert data.X.tolist() == [[1, 0, 1], [8, 0, 1]]
        assert data.feature_names == ("age", "city=oslo", "city=rome")
        assert data.notes[-1] == "dropped 2 of 4 rows with a missing value"

    def test_cells_are_filled_with_the_mean_and_told(self, tmp_path):
        data = own(tmp_path, self.TEXT, missing="impute")
        assert data.feature_names == ("age", "age missing", "city=oslo", "city=rome", "city=(missing)")
        assert data.X.tolist() == [[1, 0, 0, 1, 0], [4, 1, 1, 0, 0], [3, 0, 0, 0, 1], [8, 0, 0, 1, 0]]
        assert (
            data.notes[-1]
            == "filled 2 missing cells: numbers by means, categories by one of their own; columns tell which"
        )

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
        assert refused(own, tmp_path, text).endswith("or pass missing='drop' or 'impute' (--missing)")
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

    def test_what_cannot_be_is_one_line(self, tmp_path):
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

    def test_zones_are_heeded(self, tmp_path):
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


class TestIds:
    N = 20_000

    def ids(self, kind):
        return {"text": [f"req-{i:05}" for i in range(self.N)], "numbers": list(range(7, self.N + 7))}[kind]

    @pytest.mark.parametrize("kind", ["text", "numbers"])
    @pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet"])
    def test_they_are_refused_dropped_or_kept(self, tmp_path, kind, name):
        frame = pd.DataFrame({"request_id": self.ids(kind), "a": RNG.normal(size=self.N), "y": np.arange(self.N) % 3})
        path = tmp_path / name
        {
            "own.csv": lambda: frame.to_csv(path, index=False),
            "own.jsonl": lambda: frame.to_json(path, orient="records", lines=True),
            "own.parquet": lambda: frame.to_parquet(path),
        }[name]()
        line = refused(load, path)
        assert "column 'request_id' looks like an id: 20,000 of 20,000 values differ" in line
        assert line.endswith("(--drop request_id) or keep it by keep=['request_id'] (--keep request_id)")
        assert refused(stream, path) == line
        assert load(path, drop="request_id").feature_names == ("a",)
        kept = load(path, keep="request_id")
        assert kept.n_features == (self.N + 1 if kind == "text" else 2)
        assert "column 'request_id' looks like an id and is kept" in kept.notes

    @pytest.mark.parametrize("column", ["paid", "width", "price"])
    def test_numbers_that_differ_are_no_ids_unless_called_so(self, column):
        frame = pd.DataFrame({column: range(100), "y": np.arange(100) % 2})
        assert load(frame).n_features == 1

    def test_text_that_comes_again_is_no_id(self):
        frame = pd.DataFrame({"city": [f"c{i // 2}" for i in range(100)], "y": np.arange(100) % 2})
        assert load(frame).n_features == 50


class TestDrop:
    def test_columns_are_left_out_whatever_they_hold(self, tmp_path):
        text = "id,mixed,a,label\n1,x,5,p\n2,7,6,q\n"
        data = own(tmp_path, text, drop=["mixed", 0])
        assert (data.feature_names, data.X.tolist()) == (("a",), [[5], [6]])
        assert "left out: columns id, mixed" in data.notes
        assert "drop must be one of the columns id, mixed, a, label; got 'b'" in refused(own, tmp_path, text, drop="b")
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
        for given_base in ("auto", zero_based, "yes" if zero_based else "no"):
            data = load(path, zero_based=given_base)
            theirs, _ = load_svmlight_file(io.BytesIO(path.read_bytes()), zero_based=zero_based)
            assert np.array_equal(data.X.toarray(), theirs.toarray())
            blocks = list(stream(path, zero_based=given_base).blocks())
            assert np.array_equal(np.vstack([X.toarray() for X, _ in blocks]), self.X)
        base = 0 if zero_based else 1
        reason = "line 1 has an index of 0" if zero_based else "there is no 0"
        assert load(path).notes == (f"indices: from {base} ({reason})",)

    def test_a_zero_in_a_comment_or_a_value_is_no_index(self, tmp_path):
        data = own(tmp_path, "0 1:0 # 0:5\n1 2:0.5 10:3\n", "own.svm")
        assert (data.n_features, data.notes[0][:15]) == (10, "indices: from 1")

    def test_one_based_as_asked_for_has_no_zero(self, tmp_path):
        line = refused(own, tmp_path, "1 1:1\n2 0:1 2:1\n", "own.svm", zero_based="no")
        assert "line 2: an index must be from 1 to 2147483647, got '0:1'; see zero_based (--zero-based)" in line


class TestJsonLines:
    def test_objects_are_rows_and_absent_keys_are_missing(self, tmp_path):
        text = '{"a": 1, "ok": true, "y": "p"}\n\n{"ok": false, "a": 2.5, "y": "q"}\n{"a": 3, "c": "u", "y": "p"}\n'
        assert "line 4, column 'ok': the cell is empty" in refused(own, tmp_path, text, "own.jsonl", drop="c")
        data = own(tmp_path, text, "own.jsonl", missing="impute")
        assert data.feature_names == ("a", "ok", "ok missing", "c=u", "c=(missing)")
        assert data.X.tolist() == [[1, 1, 0, 0, 1], [2.5, 0, 0, 0, 1], [3, 0.5, 1, 1, 0]]

    @pytest.mark.parametrize("line", ["{", "[1, 2]", "7", '{"a": 1', '{"a": ' + "[" * 5000 + "]" * 5000 + "}", "\x00"])
    def test_what_is_no_object_is_named(self, tmp_path, line):
        path = write(tmp_path / "own.jsonl", '{"a": 1, "y": "p"}\n' + line + '\n{"a": 2, "y": "q"}\n')
        assert refused(load, path).startswith(f"{path}, line 2: ")

    def test_python_writes_nan(self, tmp_path):
        rows = [{"a": float("nan"), "y": 0}, {"a": 1.0, "y": 1}, {"a": 2.0, "y": 0}]
        data = own(tmp_path, "\n".join(map(json.dumps, rows)), "own.ndjson", missing="drop")
        assert data.X.tolist() == [[1], [2]]


@needs_data
class TestRealFiles:
    def test_names_of_proteins_are_told_from_features(self):
        """The first column of ecoli is a name; the file has spaces for commas."""
        frame = pd.read_csv(REAL_DATA / "ecoli" / "ecoli.data", sep=r"\s+", header=None)
        frame.columns = [*map(str, range(8)), "label"]
        assert "column '0' looks like an id" in refused(load, frame)
        assert load(frame, drop="0").n_features == 7

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

    def test_all_rows_of_a_file_are_played_and_said(self, tmp_path):
        rows = "".join(f"{i % 7},{i % 5 if i % 50 else ''},u{i},{i % 3}\n" for i in range(300))
        path = write(tmp_path / "own.csv", "a,b,uid,label\n" + rows)
        flags = ["--data", path, "--drop", "uid", "--missing", "drop", "--delay", 5, "--runs", 2, "--json"]
        result = self.run("run", "perceptron", *flags)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)[0]["rounds"] == 294
        assert result.stderr.splitlines() == [
            "delaytron: note: header: yes (cell 'a' is no number)",
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
        result = self.run("datasets", "show", path, "--label", "-1", "--header", "no", "--missing", "drop", "--json")
        assert json.loads(result.stdout)["rows"] == 2
        assert result.stderr.splitlines()[0] == "delaytron: note: header: no (as asked for)"

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
        assert "unit must be one of s, min, h, d; got 'weeks'" in self.run("delays", path, "--unit", "weeks").stderr
        dates = write(tmp_path / "dates.csv", "event,outcome\n2024-01-01,2024-01-02\n")
        assert "a unit is for times that are numbers" in self.run("delays", dates, "--unit", "d").stderr
