"""Files in blocks: the same numbers as from the whole file, with only open rounds in memory."""

import gzip
import io
import json
import subprocess
import sys
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import write_table
from scipy.sparse import csr_array, issparse, vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import delaytron as dt
from delaytron.datasets import FileStream, files, libsvm, tables
from delaytron.datasets.dataset import Block
from delaytron.datasets.libsvm import open_libsvm, read_libsvm
from delaytron.delays import Pareto, Uniform, WithMissing
from delaytron.learners.book import read_expiry
from delaytron.simulation.scenarios import SimulationConfig, make_scenarios
from delaytron.simulation.simulate import windows
from streams import same_bits

RNG = np.random.default_rng(4)
N = 300
DENSE = RNG.normal(size=(N, 6))
SPARSE = csr_array(np.where(RNG.random((N, 6)) < 0.4, DENSE, 0))
LABELS = RNG.integers(0, 4, N)


class Unscaled:
    bias = False

    def apply(self, X):
        return X


def in_blocks(X, cuts):
    """A stream of these rows, cut at these places."""
    ends = sorted({0, N, *cuts})

    def read():
        for begin, end in pairwise(ends):
            yield Block(X[begin:end], LABELS[begin:end])

    return FileStream(read, "rows", "rows.svm", N, 6, np.arange(4), sparse=X is SPARSE, scaling=Unscaled())


@pytest.mark.parametrize("X", [DENSE, SPARSE])
@settings(max_examples=40)
@given(
    learner=st.sampled_from(["delaytron", "soba", "perceptron"]),
    cuts=st.lists(st.integers(1, N - 1), max_size=8),
    delay=st.integers(1, 400),
    rounds=st.integers(1, N),
)
def test_blocks_give_the_same_numbers_as_the_whole(X, learner, cuts, delay, rounds):
    options = {"delay": WithMissing(Uniform(delay), 0.1), "rounds": rounds, "runs": 2, "seed": 3}
    whole = dt.simulate(learner, (X, LABELS), **options)
    assert same_bits(whole.mistakes, dt.simulate(learner, in_blocks(X, cuts), **options).mistakes)


@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=8), expire_after=st.integers(1, 60))
def test_blocks_give_the_same_numbers_when_answers_expire_and_are_flipped(on_expiry, cuts, expire_after):
    feedback_model = {"expire_after": expire_after, "on_expiry": on_expiry, "noise": (0.1, 0.2)}
    options = {"delay": Pareto(1, 0.8), "runs": 2, "gamma": [0.1, 0.3], **feedback_model}
    whole = dt.simulate("delaytron", (SPARSE, LABELS), **options)
    assert same_bits(whole.mistakes, dt.simulate("delaytron", in_blocks(SPARSE, cuts), **options).mistakes)


def test_a_window_holds_its_block_and_what_is_open_and_nothing_else():
    delays = np.where(np.arange(N) % 50 == 0, N, 3)  # a few answers come very late, or never
    setting = SimulationConfig(N, N, dt.delays.Trace(delays), 0, "replacement")
    scenarios, longest = make_scenarios([0], setting, read_expiry(None, "drop"))
    seen = []
    for window in windows(in_blocks(SPARSE, range(20, N, 20)), scenarios, longest):
        past = range(window.begin)
        due = [s for s in past if window.begin <= s + delays[s] < N]
        assert window.stream.y.size == len(due) + 20
        shown = window.scenarios.rows[0, [*due, *range(window.begin, window.end)]]
        assert window.stream.y[shown].tolist() == LABELS[[*due, *range(window.begin, window.end)]].tolist()
        seen += range(window.begin, window.end)
    assert seen == list(range(N))
    assert longest == 3


def test_scenarios_that_others_share_are_left_as_they_are():
    config = SimulationConfig(N, N, dt.delays.Uniform(30), 0, "replacement")
    scenarios, longest = make_scenarios([0, 1], config, read_expiry(None, "drop"))
    before = scenarios.rows.copy()
    assert len(list(windows(in_blocks(SPARSE, [100, 200]), scenarios, longest))) == 3
    assert np.array_equal(scenarios.rows, before)


def test_the_most_frequent_class_of_a_stream_is_counted_or_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr("delaytron.datasets.libsvm.BLOCK_BYTES", 60)
    labels = np.array([3, 5, 5, 9] * 50 + [5] * 7)
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{label} 1:1\n" for label in labels))
    stream = dt.datasets.stream(path)
    assert len(list(stream.read())) > 10  # blocks
    assert stream.class_counts.tolist() == [50, 107, 50]
    assert stream.majority_error == dt.datasets.load(path).majority_error == 1 - 107 / 207
    assert dt.simulate("perceptron", stream, rounds=20).majority_error == 1 - 107 / 207
    uncounted = in_blocks(DENSE, [100])
    assert uncounted.majority_error is None
    assert dt.simulate("perceptron", uncounted).majority_error is None


def test_a_stream_shows_its_rows_once():
    with pytest.raises(dt.InvalidInput, match=r"rounds must be at most 300, .*, got 301"):
        dt.simulate("delaytron", in_blocks(DENSE, [100]), rounds=301)


def test_a_file_that_changes_meanwhile_is_refused():
    stream = in_blocks(DENSE, [100])
    fewer = FileStream(stream.read, "rows", "rows.svm", 250, 6, np.arange(4), sparse=False, scaling=Unscaled())
    other = FileStream(stream.read, "rows", "rows.svm", N, 6, np.arange(3), sparse=False, scaling=Unscaled())
    for changed in (fewer, other):
        with pytest.raises(dt.InvalidInput, match=r"rows\.svm was changed while it was read"):
            list(changed.blocks())


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-3, 3) | st.floats(-1e6, 1e6),
            st.dictionaries(st.integers(1, 40), st.floats(allow_nan=False, allow_infinity=False), max_size=5),
        ),
        min_size=1,
        max_size=30,
    ),
    size=st.integers(1, 200),
    end=st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # a comment 1:2\n"]),
)
def test_a_libsvm_file_is_read_to_the_last_bit_whatever_the_blocks(tmp_path_factory, rows, size, end):
    path = tmp_path_factory.mktemp("libsvm") / "rows.svm"
    lines = [" ".join([repr(label), *(f"{i}:{x!r}" for i, x in sorted(pairs.items()))]) for label, pairs in rows]
    path.write_text(end.join(lines), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsvm, "BLOCK_BYTES", size)
        block = read_libsvm(path)
    pairs = [(r, i - 1, x) for r, (_, pairs) in enumerate(rows) for i, x in sorted(pairs.items())]
    ours = block.X.tocoo()
    assert list(zip(ours.row.tolist(), ours.col.tolist(), strict=True)) == [(r, i) for r, i, _ in pairs]
    assert same_bits(ours.data, np.array([x for _, _, x in pairs], float))
    assert block.labels.tolist() == [label for label, _ in rows]


def test_a_libsvm_file_of_scikit_learn_comes_back(tmp_path):
    dump_svmlight_file(SPARSE, LABELS, str(tmp_path / "rows.svm"), zero_based=False)
    block = read_libsvm(tmp_path / "rows.svm")
    theirs, labels = load_svmlight_file(io.BytesIO((tmp_path / "rows.svm").read_bytes()))
    assert (theirs != block.X).nnz == 0
    assert same_bits(block.labels, labels)


FAULTS = {
    "1 0:1": "an index must be from 1 to 2147483647, got '0:1'; see zero_based",
    "1 2147483648:1": "an index must be from 1 to 2147483647, got '2147483648:1'",
    "1 " + "9" * 6000 + ":1": "an index must be from 1 to",
    "1 2:1 2:1": "indices must rise, got 2 after 2",
    "1 5:1 2:1": "indices must rise, got 2 after 5",
    "one 2:1": "the label must be a finite number, got 'one'",
    "nan 2:1": "the label must be a finite number, got 'nan'",
    "1,2 2:1": "the label must be a finite number, got '1,2'",
    "2:1 3:1": "the label must be a finite number, got '2:1'",
    "1 2:x": "a feature must be INDEX:VALUE with finite numbers, got '2:x'",
    "1 2:inf": "with finite numbers, got '2:inf'",
    "1 2:1e999": "with finite numbers, got '2:1e999'",
    "1 2:NaN": "with finite numbers, got '2:NaN'",
    "1 qid:3 2:1": "with finite numbers, got 'qid:3'",
    "1 2 3:1": "with finite numbers, got '2'",
    "1 2:3:4 5": "with finite numbers, got '2:3:4'",
    "1 2: 3": "with finite numbers, got '2:'",
    "1 2 :3": "with finite numbers, got '2'",
    "1 1.5:3": "with finite numbers, got '1.5:3'",
    "1 -1:3": "with finite numbers, got '-1:3'",
    "1 2:0x10": "with finite numbers, got '2:0x10'",
    "1 2:1_0": "with finite numbers, got '2:1_0'",
    '1 2:"3"': "with finite numbers, got '2:\"3\"'",
    "1 2:1\x1c3:1": "with finite numbers, got '2:1",
    "1 2:\0": r"with finite numbers, got '2:",
}


@pytest.mark.parametrize("line", FAULTS)
@pytest.mark.parametrize("size", [20, 10**6])
def test_a_line_that_is_wrong_is_named(tmp_path, monkeypatch, line, size):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", size)
    path = tmp_path / "rows.svm"
    path.write_text(f"1 1:1\n\n# nothing\n2 3:1 4:.5e1\n{line}\n1 1:1\n")
    with pytest.raises(dt.InvalidInput) as problem:
        list(open_libsvm(path, zero_based=False)())
    assert str(problem.value).startswith(f"{path}, line 5: ")
    assert FAULTS[line] in str(problem.value)


@pytest.mark.parametrize("content", ["", "\n \n", "# nothing\n"])
def test_a_libsvm_file_without_rows_is_refused(tmp_path, content):
    (tmp_path / "rows.svm").write_text(content)
    with pytest.raises(dt.InvalidInput, match=r"rows\.svm, line 1: there must be at least one row"):
        read_libsvm(tmp_path / "rows.svm")


@pytest.fixture
def same_rows(tmp_path):
    """The same rows as a LIBSVM and as a Parquet file."""
    libsvm_file, parquet = tmp_path / "rows.svm", tmp_path / "rows.parquet"
    dump_svmlight_file(SPARSE, LABELS * 10 - 5, str(libsvm_file), zero_based=False)
    columns = {f"x{j}": DENSE[:, j] for j in range(6)} | {"city": np.array(["Bern", "Rome", "Oslo"])[LABELS % 3]}
    write_table(pa.table(columns | {"label": np.array(["a", "b", "c", "d"])[LABELS]}), parquet, row_group_size=70)
    return libsvm_file, parquet


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("options", [{}, {"scale": "unit", "bias": True}, {"scale": "standard", "bias": True}])
def test_a_file_in_blocks_is_the_file_as_a_whole(same_rows, which, options, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 700)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 2000)
    stream, whole = dt.datasets.stream(same_rows[which], **options), dt.datasets.load(same_rows[which], **options)
    assert (stream.n_rows, stream.n_features, stream.n_classes) == (N, whole.n_features, 4)
    assert (stream.class_names, stream.feature_names) == (whole.class_names, whole.feature_names)
    blocks = list(stream.blocks())
    assert len(blocks) > 5
    assert np.concatenate([y for _, y in blocks]).tolist() == whole.y.tolist()
    assert stream.sparse == whole.sparse == all(issparse(X) for X, _ in blocks)
    rows = vstack([X for X, _ in blocks]).toarray() if stream.sparse else np.concatenate([X for X, _ in blocks])
    np.testing.assert_allclose(rows, whole.X.toarray() if whole.sparse else whole.X, rtol=0, atol=1e-12)
    if options.get("scale") != "standard":
        played = [dt.simulate("delaytron", data, delay=30, runs=2, gamma=0.1).mistakes for data in (stream, whole)]
        assert same_bits(*played)


def test_arrays_are_not_read_in_blocks(tmp_path):
    np.savez(tmp_path / "rows.npz", X=DENSE, y=LABELS)
    with pytest.raises(
        dt.InvalidInput, match=r"only csv, tsv, jsonl, parquet, libsvm files can be read in blocks, got"
    ):
        dt.datasets.stream(tmp_path / "rows.npz")


def test_a_stream_with_one_class_is_refused(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n1 2:1\n")
    with pytest.raises(dt.InvalidInput, match=r"rows\.svm: there must be at least two classes, got only '1"):
        dt.datasets.stream(tmp_path / "rows.svm")


@pytest.mark.parametrize("rows", ["0 1:1\n1 2000000:1\n", "0 1:1\n", "0 1:1\n2 2:1\n"])
def test_a_file_that_is_wider_shorter_or_other_than_before_is_refused(tmp_path, rows):
    path = tmp_path / "rows.svm"
    path.write_text("0 1:1\n1 2:1\n")
    stream = dt.datasets.stream(path)
    path.write_text(rows)
    with pytest.raises(dt.InvalidInput, match=r"rows\.svm was changed while it was read"):
        list(stream.blocks())
    with pytest.raises(dt.InvalidInput, match=r"rows\.svm was changed while it was read"):
        dt.simulate("delaytron", stream, runs=3)


N_ODD = 700


def odd_rows():
    """Columns of every kind, with holes; some numbers are written in odd ways."""
    rng = np.random.default_rng(8)
    numbers = [f"{x:.17g}" for x in rng.normal(size=N_ODD)]
    return {
        "a": [" +1.5 " if i % 97 == 3 else x for i, x in enumerate(numbers)],
        "hole": ["" if i % 11 == 0 else str(i % 13) for i in range(N_ODD)],
        "late": ["1" if i < 600 else "?" for i in range(N_ODD)],
        "when": [f"2024-0{i % 9 + 1}-11 {i % 24:02}:30" if i % 50 else "" for i in range(N_ODD)],
        "city": [f"c{i % 30}" if i % 40 else "NA" for i in range(N_ODD)],
        "ok": ["true" if i % 3 else "False" for i in range(N_ODD)],
        "label": [str(i % 4) if i != 500 else "" for i in range(N_ODD)],
    }


def write_odd(path):
    rows = list(zip(*odd_rows().values(), strict=True))
    if ".jsonl" in path.name:
        lines = [json.dumps(dict(zip(odd_rows(), row, strict=True))) for row in rows]
    else:
        mark = "\t" if ".tsv" in path.name else ","
        lines = [mark.join(odd_rows()), *(mark.join(row) for row in rows)]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


OPTIONS = [{}, {"scale": "unit", "bias": True}, {"categorical": ["hole"], "drop": ["a"]}]
CASES = [*product(["rows.csv", "rows.jsonl"], ["drop", "impute"], OPTIONS)]
CASES += [(name, "impute", {}) for name in ("rows.tsv", "rows.csv.gz", "rows.jsonl.gz")]


@pytest.mark.parametrize(("name", "missing", "options"), CASES)
def test_text_in_blocks_is_the_file_as_a_whole_to_the_bit(tmp_path, monkeypatch, name, missing, options):
    monkeypatch.setattr(files, "TEXT_BYTES", 6000)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 4000)
    path = tmp_path / name
    write_odd(path)
    stream, whole = (read(path, missing=missing, **options) for read in (dt.datasets.stream, dt.datasets.load))
    assert stream.n_rows == whole.n_rows < N_ODD
    assert stream.sparse == whole.sparse
    assert stream.class_names == whole.class_names
    assert stream.feature_names == whole.feature_names
    assert stream.notes == whole.notes
    blocks = list(stream.blocks())
    assert len(blocks) > 5
    rows = [X.toarray() if stream.sparse else X for X, _ in blocks]
    assert same_bits(np.concatenate(rows), whole.X.toarray() if whole.sparse else whole.X)
    played = [dt.simulate("perceptron", data, delay=30).mistakes for data in (stream, whole)]
    assert same_bits(*played)


MEASURE = """
import resource, sys
import delaytron as dt
dt.datasets.stream(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened = dt.datasets.stream(sys.argv[2])
n_rows = sum(len(y) for _, y in opened.blocks())
print(n_rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_long_file_of_text_is_streamed_in_bounded_memory(tmp_path, ending):
    records = [{"a": i % 1000 / 7, "b": i % 77, "city": f"c{i % 9}", "label": i % 3} for i in range(3000)]
    lines = [json.dumps(row) if ending == "jsonl" else ",".join(map(str, row.values())) for row in records]
    n_rows = 1_200_000 if ending == "csv" else 300_000
    for name, times in (("small", 1), ("large", n_rows // 3000)):
        with open(tmp_path / f"{name}.{ending}", "w") as file:
            file.write("" if ending == "jsonl" else "a,b,city,label\n")
            file.writelines(["\n".join(lines) + "\n"] * times)
    command = [sys.executable, "-c", MEASURE, tmp_path / f"small.{ending}", tmp_path / f"large.{ending}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    read, taken = map(int, done.stdout.split())
    assert read == n_rows
    assert taken < 130 * 2**20, f"{taken / 2**20:.0f} MB"
