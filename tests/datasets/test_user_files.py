"""The user's own files and frames: the same data in every format."""

import bz2
import csv
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, ipc
from pyarrow import parquet as pq
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.checks import SMALLEST
from delaytron.datasets import as_dataset, load
from delaytron.datasets.columns import MISSING, number_in
from delaytron.datasets.dataset import Block
from delaytron.datasets.files import ENDINGS, FORMATS, Format
from delaytron.experiments.compare import load_for_tuning
from optional import REAL_DATA, needs_data

PETS = pa.table(
    {
        "legs": [4, 2, 4, 0, 2],
        "weight": [4.5, 0.25, 30.0, 1e-3, 0.5],
        "home": ["house", "cage", "barn", "sea, deep", 'a "cage"'],
        "tame": [True, True, True, False, False],
        "species": ["cat", "bird", "dog", "fish", "bird"],
    }
)
NAMES = ("legs", "weight", 'home=a "cage"', "home=barn", "home=cage", "home=house", "home=sea, deep", "tame")
X = [
    [4, 4.5, 0, 0, 0, 1, 0, 1],
    [2, 0.25, 0, 0, 1, 0, 0, 1],
    [4, 30, 0, 1, 0, 0, 0, 1],
    [0, 1e-3, 0, 0, 0, 0, 1, 0],
    [2, 0.5, 1, 0, 0, 0, 0, 0],
]


def write_text(path, table=PETS, delimiter=",", opener=open):
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table.column_names)
        writer.writerows(zip(*table.to_pydict().values(), strict=True))


def write_stream(path):
    with ipc.new_stream(path, PETS.schema) as file:
        file.write_table(PETS, max_chunksize=2)


WRITERS = {
    "pets.csv": write_text,
    "pets.tsv": lambda path: write_text(path, delimiter="\t"),
    "pets.CSV.gz": lambda path: write_text(path, opener=gzip.open),
    "pets.csv.bz2": lambda path: write_text(path, opener=bz2.open),
    "pets.tsv.xz": lambda path: write_text(path, delimiter="\t", opener=lzma.open),
    "pets.parquet": lambda path: pq.write_table(PETS, path),
    "pets.pq": lambda path: PETS.to_pandas().set_index(pd.Index(list("vwxyz"), name="id")).to_parquet(path),
    "pets.feather": lambda path: feather.write_feather(PETS, path),
    "pets.arrow": write_stream,
}
FRAMES = {
    "pandas": PETS.to_pandas(),
    "pandas with an index": PETS.to_pandas().set_index(pd.Index([9, 7, 5, 3, 1])),
    "pandas with categories": PETS.to_pandas().astype({"home": "category", "species": "category"}),
    "polars": pl.DataFrame(PETS),
    "polars with categories": pl.DataFrame(PETS).cast({"home": pl.Categorical, "species": pl.Categorical}),
    "pyarrow": PETS,
    "pyarrow with other types": PETS.set_column(0, "legs", PETS["legs"].cast(pa.decimal128(25, 2))),
}


def assert_pets(data, name, source):
    assert (data.name, data.source) == (name, source)
    assert data.feature_names == NAMES
    assert data.X.tolist() == X
    assert data.class_names == ("bird", "cat", "dog", "fish")
    assert data.y.tolist() == [1, 0, 2, 3, 0]


def dense(data):
    return data.X.toarray() if data.sparse else data.X


def same(a, b):
    assert (a.feature_names, a.class_names, a.sparse) == (b.feature_names, b.class_names, b.sparse)
    return np.array_equal(dense(a), dense(b)) and np.array_equal(a.y, b.y)


class TestEveryFormat:
    @pytest.mark.parametrize("name", WRITERS)
    def test_gives_the_same_data(self, name, tmp_path):
        WRITERS[name](tmp_path / name)
        assert_pets(load(tmp_path / name, label="species"), "pets", str(tmp_path / name))

    @pytest.mark.parametrize("kind", FRAMES)
    def test_gives_the_same_data_as_a_frame(self, kind):
        assert_pets(load(FRAMES[kind], label=-1), "data", "the frame")

    @pytest.mark.parametrize("kind", FRAMES)
    def test_a_frame_with_a_usual_label_needs_no_option(self, kind):
        frame = FRAMES[kind]
        renamed = getattr(frame, "rename_columns", None)
        ready = renamed([*PETS.column_names[:-1], "Class"]) if renamed else _rename(frame, {"species": "Class"})
        assert_pets(as_dataset(ready), "data", "the frame")

    @pytest.mark.parametrize("frame", [FRAMES["pandas"], FRAMES["polars"], FRAMES["pandas with categories"]])
    def test_a_frame_and_a_series_are_a_pair(self, frame):
        y = frame["species"]
        pair = (frame[PETS.column_names[:-1]], y)
        assert_pets(as_dataset(pair, name="mine"), "mine", "")
        assert dt.simulate("delaytron", pair, rounds=50).final_error.shape == (1,)

    def test_the_format_of_a_file_can_be_given(self, tmp_path):
        write_text(tmp_path / "pets.txt", delimiter="\t")
        assert_pets(load(tmp_path / "pets.txt", label=4, format="tsv"), "pets", str(tmp_path / "pets.txt"))

    def test_numbers_come_alike_from_arrays_and_from_text(self, tmp_path):
        rng = np.random.default_rng(0)
        numbers, labels = rng.normal(size=(40, 3)).round(3) * (rng.random((40, 3)) < 0.5), rng.integers(3, 6, 40)
        csr = sparse.csr_array(numbers)
        csr_parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
        np.savez(tmp_path / "whole.npz", X=numbers, y=labels)
        np.savez_compressed(tmp_path / "named.npz", X=numbers, target=labels.astype(str))
        split = {"X_train": numbers[:30], "X_test": numbers[30:], "y_train": labels[:30], "y_test": labels[30:]}
        np.savez(tmp_path / "split.npz", **split)
        np.savez(tmp_path / "csr.npz", y=labels, format=np.array(b"csr"), **csr_parts)
        dump_svmlight_file(numbers, labels, str(tmp_path / "rows.svm"), zero_based=False)
        np.savetxt(tmp_path / "rows.csv", np.column_stack([labels, numbers]), fmt="%.17g", delimiter=",")
        loaded = [load(tmp_path / name) for name in ("whole.npz", "split.npz", "csr.npz", "rows.svm")]
        loaded += [load(tmp_path / "named.npz", label="target"), load(tmp_path / "rows.csv", label=0, header=False)]
        assert [data.sparse for data in loaded] == [False, False, True, True, False, False]
        for data in loaded:
            assert data.class_names == ("3", "4", "5")
            assert np.array_equal(data.y, labels - 3)
            np.testing.assert_array_equal(dense(data), numbers)


def _rename(frame, names):
    return frame.rename(names) if isinstance(frame, pl.DataFrame) else frame.rename(columns=names)


@needs_data
class TestRealFiles:
    def test_abalone_as_a_table_is_the_named_data_set(self):
        own, named = load(REAL_DATA / "abalone" / "abalone.data", format="csv", label=-1, header=False), load("abalone")
        assert (own.class_names, own.n_rows, own.n_features) == (named.class_names, 4177, 10)
        assert np.array_equal(own.X, named.X)
        assert np.array_equal(own.y, named.y)
        assert own.feature_names[:4] == ("0=F", "0=I", "0=M", "1")

    def test_optical_digits_as_a_table_are_the_rows_for_training(self):
        how = {"format": "csv", "header": False, "label": "64", "scale": "unit", "bias": True}
        own = load(REAL_DATA / "optdigits" / "optdigits.tra", **how)
        raw = np.loadtxt(REAL_DATA / "optdigits" / "optdigits.tra", delimiter=",")
        assert (own.n_rows, own.n_features, own.class_names) == (3823, 65, tuple("0123456789"))
        assert np.array_equal(own.y, raw[:, -1])
        np.testing.assert_allclose(np.linalg.norm(own.X[:, :-1], axis=1), 1)


WORDS = st.text("abcXYZäß .,;'\"-\n\t", min_size=1, max_size=6).filter(
    lambda text: number_in(text.strip()) is None and text.strip().lower() not in MISSING
)
NUMBERS = st.floats(-1e9, 1e9, width=64) | st.floats(-1e-9, 1e-9)
NUMBERS = NUMBERS.map(lambda value: value if abs(value) > SMALLEST else 0.0)  # a row of less is refused
KINDS = [NUMBERS, st.integers(-(2**40), 2**40), WORDS, st.booleans()]


@st.composite
def tables(draw):
    n_rows = draw(st.integers(2, 12))
    column = st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, min_size=n_rows, max_size=n_rows))
    columns = draw(st.lists(column, min_size=1, max_size=5))
    kind = draw(st.sampled_from([WORDS.map(str.strip), st.integers(-5, 5)]))
    labels = draw(st.lists(kind, min_size=n_rows, max_size=n_rows).filter(lambda labels: len(set(labels)) > 1))
    return pa.table({**{f"x {i}": values for i, values in enumerate(columns)}, "y": labels})


@given(tables())
def test_any_table_is_the_same_in_every_format(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("tables")
    write_text(folder / "table.csv", table)
    pq.write_table(table, folder / "table.parquet")
    feather.write_feather(table, folder / "table.feather")
    first, *others = (load(folder / f"table.{ending}") for ending in ("csv", "parquet", "feather"))
    frames = [table.to_pandas(), pl.DataFrame(table)]
    assert all(same(first, other) for other in [*others, *map(load, frames)])
    assert [first.class_names[k] for k in first.y] == [str(label) for label in table["y"].to_pylist()]


class TestCommandLine:
    def run(self, *flags):
        result = CliRunner().invoke(cli.app, list(map(str, flags)), prog_name="delaytron")
        assert result.exit_code == 0, result.output
        others = [line for line in result.stderr.splitlines() if not line.startswith("delaytron: note: ")]
        assert all(line.endswith(" of 1)") for line in others)  # the progress of a comparison
        return json.loads(result.stdout)

    @pytest.fixture
    def path(self, tmp_path):
        rng = np.random.default_rng(2)
        columns = {"a": rng.normal(size=400), "zone": rng.integers(0, 3, 400), "kind": rng.choice(["u", "v", "w"], 400)}
        pq.write_table(pa.table(columns), tmp_path / "own.parquet")
        return tmp_path / "own.parquet"

    OPTIONS = ("--label", "kind", "--categorical", "zone", "--scale", "standard", "--bias")

    def loaded(self, path):
        data = load(path, label="kind", categorical=["zone"], scale="standard", bias=True)
        assert data.feature_names == ("a", "zone=0", "zone=1", "zone=2", "bias")
        return data

    @pytest.mark.parametrize("flags", [(), ("--stream",)])
    def test_run_plays_a_file_like_the_library(self, path, flags):
        rounds = ("--rounds", "400") if not flags else ()  # of a stream all rows by default
        (row,) = self.run("run", "perceptron", "--data", path, *self.OPTIONS, *rounds, *flags, "--json")
        expected = dt.simulate("perceptron", self.loaded(path), delay=1000, runs=5)
        assert (row["dataset"], row["rounds"], row["final_errors"]) == ("own", 400, expected.final_error.tolist())

    def test_compare_takes_a_file(self, path):
        flags = ["--learner", "perceptron", "--delay", "5", "--rounds", "300", "--runs", "2", "--json"]
        document = self.run("compare", path, *self.OPTIONS, *flags)
        (row,) = document["results"]
        expected = dt.simulate("perceptron", self.loaded(path), delay=5, rounds=300, runs=2, **row["parameters"])
        assert row["final_errors"] == expected.final_error.tolist()

    def test_a_file_is_not_drawn_again_for_tuning(self, path):
        assert load_for_tuning(str(path), 0) is None

    def test_a_stream_has_no_samples(self, path):
        result = CliRunner().invoke(cli.app, ["run", "--data", str(path), "--stream", "--samples", "9"])
        assert (result.exit_code, result.stdout) == (2, "")
        assert "named data sets, --stream is for files; leave one out" in result.stderr


def test_every_format_is_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "data.md").read_text()
    for known in FORMATS.values():
        assert all(f"`{ending}`" in page for ending in known.endings)


def test_a_format_is_one_record(monkeypatch, tmp_path):
    """A format that is added in one place is found by its ending, takes its options, and refuses other ones."""
    table = Format(lambda path, label=None: Block(np.eye(2), np.array([label, "b"])), (".new",), takes=("label",))
    monkeypatch.setitem(FORMATS, "new", table)
    monkeypatch.setitem(ENDINGS, ".new", "new")
    path = tmp_path / "a.new"
    path.touch()
    assert dt.datasets.load(path, label="a").class_names == ("a", "b")
    with pytest.raises(dt.InvalidInput, match="a new file takes no categorical"):
        dt.datasets.load(path, categorical=["c"])
    with pytest.raises(
        dt.InvalidInput, match="only csv, tsv, jsonl, parquet, libsvm files can be read in blocks, got new"
    ):
        dt.datasets.stream(path)
    (tmp_path / "a.new.gz").touch()
    with pytest.raises(dt.InvalidInput, match="of compressed files only csv, tsv, jsonl, libsvm can be read"):
        dt.datasets.load(tmp_path / "a.new.gz")
