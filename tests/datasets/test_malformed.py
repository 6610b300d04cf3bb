"""Malformed files: the message is one line with file, line and hint."""

import gzip
import io
import os
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather
from pyarrow import parquet as pq
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.datasets.files import FORMATS
from delaytron.files.text import place_of

NOT_A_NUMBER = (
    "column 'age': 'abc' is not a number; to take the column as categories pass categorical='age', "
    "or leave it out by drop='age'"
)
EMPTY_CELL = "the cell is empty or no finite number; fill it in, or pass missing='drop' or missing='impute'"
QUOTED = b'age,note,label\r\n\r\n1,"two\r\nlines, one ""cell""",a\r\n2,x,b\r\n\r\n'  # the next row is on line 7
BINARY = bytes(range(256)) * 40
ROWS = b"".join(b"%d,%d,%d\n" % (i, i * i, i % 3) for i in range(4000))


def cut(content):
    """Compress, lose the end; return it with the number of the line on which it breaks off."""
    whole = gzip.compress(content, mtime=0)
    rest = whole[: len(whole) * 2 // 3]
    return rest, zlib.decompressobj(31).decompress(rest).count(b"\n") + 1


def of_parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def of_feather(**columns):
    file = io.BytesIO()
    feather.write_feather(pa.table(columns), file)
    return file.getvalue()


def of_npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


CUT_CSV, CUT_CSV_LINE = cut(b"a,b,label\n" + ROWS)
CUT_SVM, CUT_SVM_LINE = cut(b"".join(b"%d 1:%d 2:%d\n" % (i % 3, i, i * i) for i in range(4000)))
BITS = np.random.default_rng(0).integers(0, 9, (50, 3)).astype(float)

TEXT = {
    "a row too long": ("a.csv", b"a,label\n1,x\n2,y,3\n", ", line 3: must have 2 cells like the first row, got 3"),
    "a row too short": ("a.csv", b"a,b,label\n1,2,x\n\n3,y\n", ", line 4: must have 3 cells like the first row, got 2"),
    "a ragged tsv": ("a.tsv", b"a\tlabel\n1\tx\n2\n", ", line 3: must have 2 cells like the first row, got 1"),
    "a row too long after a quoted line break": ("a.csv", QUOTED + b"1,2,a,3\r\n", ", line 7: must have 3 cells"),
    "a header and nothing else, not even a line end": ("a.csv", b"a,label", ", line 2: there must be at least one row"),
    "decimal commas": ("a.csv", b"a;label\n1,5;x\n1,7;y\n", ", line 2, column 'a': '1,5' is not a number; to take"),
    "a very long cell": ("a.csv", b"a,label\n" + b"1" * 200_000 + b",x\n,y\n", ", line 2: a cell has more than 131072"),
    "names that come twice": (
        "a.csv",
        b"a=x,a,label\n1,x,p\n3,z,q\n",
        ": no two columns may have the same name",
    ),
    "text among numbers": ("a.csv", b"age,label\n1,x\n2,y\nabc,x\n", f", line 4, {NOT_A_NUMBER}"),
    "text after a quoted line break": ("a.csv", QUOTED + b"old,x,a\r\n", ", line 7, column 'age': 'old' is not a"),
    "text after a byte order mark": (
        "a.csv",
        b"\xef\xbb\xbfage,label\n1,x\nold,y\n",
        ", line 3, column 'age': 'old' is",
    ),
    "NaN": ("a.csv", b"age,label\n1,x\n2,y\nNaN,x\n", f", line 4, column 'age': {EMPTY_CELL}"),
    "an infinite number": ("a.csv", b"age,label\n-inf,x\n2,y\n", f", line 2, column 'age': {EMPTY_CELL}"),
    "a number too large": ("a.csv", b"age,label\n1,x\n1e999,y\n", f", line 3, column 'age': {EMPTY_CELL}"),
    "an empty cell": ("a.csv", QUOTED + b",x,a\r\n", f", line 7, column 'age': {EMPTY_CELL}"),
    "an empty category": ("a.csv", b"city,label\nrome,x\n  ,y\n", f", line 3, column 'city': {EMPTY_CELL}"),
    "a column of nothing": ("a.csv", b"a,b,label\n1,,x\n2,,y\n", f", line 2, column 'b': {EMPTY_CELL}"),
    "a label that is missing": ("a.csv", b"age,label\n1,x\n2,NA\n3,y\n", f", line 3, column 'label': {EMPTY_CELL}"),
    "text among dates": (
        "a.csv",
        b"day,label\n2020-01-01,x\nsoon,y\n",
        ", line 3, column 'day': 'soon' is not a date",
    ),
    "a mark for nothing": ("a.csv", b"age,label\n1,x\n?,y\n", f", line 3, column 'age': {EMPTY_CELL}"),
    "one class only": ("a.csv", b"age,label\n1,x\n2,x\n", ": there must be at least two classes, got only 'x'"),
    "an empty file": ("a.csv", b"", ", line 1: must have at least two columns, divided by ',' or ';' or '\\t'; got an"),
    "blank lines only": ("a.csv", b"\n\r\n\n", ", line 1: must have at least two columns"),
    "a header only": ("a.csv", b"age,label\n", ", line 2: there must be at least one row after the header, got none"),
    "one column": ("a.csv", b"label\nx\ny\n", ", line 1: must have at least two columns"),
    "a name twice": ("a.csv", b"a,a,label\n1,2,x\n", ", line 1: no two columns may have the same name, got 'a' more"),
    "no column like a label": ("a.csv", b"a,b\n1,x\n", ", line 1: no column is called label, class, target or y; pass"),
    "two columns like a label": ("a.csv", b"y,Class\n1,x\n", ", line 1: y, Class may all be the label; pass"),
    "a quote that is never closed": ("a.csv", b'a,label\n1,x\n2,"y\n3,x\n', ", line 3: a quote is opened and never"),
    "letters that are not UTF-8": ("a.csv", b"a,label\n1,x\n2,M\xfcnchen\n", ", line 3: must be text in UTF-8"),
    "a binary file": ("a.csv", BINARY, ", line 1: must"),
    "a truncated gz": ("a.csv.gz", CUT_CSV, f", line {CUT_CSV_LINE}: cannot be read any further: "),
    "a gz that is none": (
        "a.csv.gz",
        b"a,label\n1,x\n2,y\n",
        ", line 1: cannot be read any further: Not a gzipped file",
    ),
    "a truncated bz2": ("a.csv.bz2", b"BZh91AY&SY", ", line 1: cannot be read any further: "),
    "an xz that is none": ("a.csv.xz", b"a,label\n1,x\n2,y\n", ", line 1: cannot be read any further: "),
}
LIBSVM = {
    "an index below 0": ("a.svm", b"1 1:1\n2 -1:1 2:1\n", ", line 2: a feature must be INDEX:VALUE with finite"),
    "indices out of order": ("a.svm", b"1 1:1\n\n# why\n2 3:1 2:1\n", ", line 4: indices must rise, got 2 after 3"),
    "an index twice": ("a.svm", b"1 2:1 2:1\n", ", line 1: indices must rise, got 2 after 2"),
    "text for a value": ("a.svm", b"1 1:1\n2 1:abc\n", ", line 2: a feature must be INDEX:VALUE with finite numbers,"),
    "text for an index": ("a.svm", b"1 1:1\n2 a:1\n", ", line 2: a feature must be INDEX:VALUE with finite numbers,"),
    "text for a label": ("a.svm", b"1 1:1\ncat 1:1\n", ", line 2: the label must be a finite number, got 'cat'"),
    "NaN in LIBSVM": ("a.svm", b"1 1:1\n2 1:nan\n", ", line 2: a feature must be INDEX:VALUE with finite numbers, got"),
    "one class in LIBSVM": ("a.svm", b"1 1:1\n1 2:1\n", ": there must be at least two classes, got only '1'"),
    "an empty LIBSVM file": ("a.svm", b"", ", line 1: there must be at least one row"),
    "a truncated LIBSVM gz": ("a.svm.gz", CUT_SVM, f", line {CUT_SVM_LINE}: cannot be read any further: "),
    "a binary LIBSVM file": ("a.svm", BINARY, ", line 1: "),
}
TABLES = {
    "a broken Parquet file": ("a.parquet", of_parquet(a=BITS[:, 0])[:-20], " cannot be read as a Parquet file: "),
    "a damaged Parquet file": ("a.pq", b"PAR1" + BINARY[:2000] + b"PAR1", " cannot be read as a Parquet file: "),
    "an empty Parquet file": ("a.parquet", b"", " cannot be read as a Parquet file: "),
    "a broken Feather file": ("a.feather", of_feather(a=BITS[:, 0])[:-200], " cannot be read as a Feather file: "),
    "an empty Feather file": ("a.arrow", b"", " cannot be read as a Feather file: "),
    "a null in Parquet": ("a.parquet", of_parquet(a=[1, 2, None], y=["u", "v", "u"]), ", row 2, column 'a': the cell"),
    "NaN in Feather": ("a.feather", of_feather(a=[1, np.nan], y=["u", "v"]), f", row 1, column 'a': {EMPTY_CELL}"),
    "lists in Parquet": ("a.parquet", of_parquet(a=[[1], [2]], y=[1, 2]), ", row 0, column 'a': must hold numbers,"),
    "a label of lists": ("a.parquet", of_parquet(y=[[1], [2]], a=[1, 2]), ", row 0, column 'y': must hold numbers,"),
    "no label in Parquet": ("a.parquet", of_parquet(a=[1], b=[2]), ": no column is called label, class, target or y;"),
    "a label and nothing else": ("a.parquet", of_parquet(y=[1, 2]), ": there must be at least one column besides the"),
    "no rows in Parquet": ("a.parquet", of_parquet(a=np.zeros(0), y=np.zeros(0)), ": there must be at least one row"),
    "one class in Parquet": ("a.parquet", of_parquet(a=[1, 2], y=[5, 5]), ": there must be at least two classes, got"),
    "a compressed Parquet file": (
        "a.parquet.gz",
        b"",
        ": of compressed files only csv, tsv, jsonl, libsvm can be read;",
    ),
}
CSR = {"data": [1, 2], "indices": [0, 2], "indptr": [0, 1, 2], "y": [0, 1]}
DAMAGED = of_npz(X=BITS, y=BITS[:, 0]).replace(BITS[7].tobytes(), bytes(24))
OBJECTS = of_npz(X=BITS, y=np.array(["a", 1] * 25, object))
ARRAYS = {
    "a broken NPZ file": ("a.npz", of_npz(X=BITS, y=BITS[:, 0])[:-100], ": must be a file of numpy.savez, got another"),
    "a damaged NPZ file": ("a.npz", DAMAGED, ": the array X cannot be read: Bad CRC-32"),
    "an empty NPZ file": ("a.npz", b"", ": must be a file of numpy.savez, got another or a part of one"),
    "an NPZ file that is none": ("a.npz", BINARY, ": must be a file of numpy.savez, got another or a part of one"),
    "Python objects": ("a.npz", OBJECTS, ": the array y cannot be read: it holds Python objects, which may run code"),
    "an array of another name": ("a.npz", of_npz(Z=BITS, y=BITS[:, 0]), ": must have the arrays X, or X_train and"),
    "no labels in NPZ": ("a.npz", of_npz(X=BITS, z=BITS[:, 0]), ": the labels must be in an array y, got X, z; pass"),
    "too few labels": ("a.npz", of_npz(X=BITS, y=[1, 2]), ": y must have one label for each of the 50 rows of X"),
    "labels in two dimensions": ("a.npz", of_npz(X=BITS, y=BITS), ": y must be 1-D of numbers or text, got float64 of"),
    "NaN in NPZ": ("a.npz", of_npz(X=[[1.0], [np.nan]], y=[0, 1]), ": X must be finite, got nan in row 1, column 0"),
    "a label of NaN": ("a.npz", of_npz(X=[[1.0], [2.0]], y=[0, np.nan]), ", row 1: the label in y is missing"),
    "CSC in NPZ": ("a.npz", of_npz(**CSR, shape=[2, 3], format=b"csc"), ": a sparse matrix must be saved as CSR, got"),
    "CSR of no shape": ("a.npz", of_npz(**CSR, shape=6), ": shape must be two integers, got 6"),
    "labels of other rows": (
        "a.npz",
        of_npz(X_train=BITS, y_test=BITS[:, 0]),
        ": features and labels must be",
    ),
    "no array in the zip": ("a.npz", zipped(X=b"none", y=b"none"), ": the array X cannot be read: EOF: reading magic"),
    "CSR that does not fit": ("a.npz", of_npz(**CSR, shape=[2, 2]), ": X must be a valid CSR matrix, but "),
}
CASES = TEXT | LIBSVM | TABLES | ARRAYS


def refused(path, **options):
    with pytest.raises(dt.InvalidInput) as problem:
        dt.datasets.load(path, **options)
    assert problem.value.hint
    return str(problem.value)


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_one_line_that_names_it(case, tmp_path):
    name, content, message = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    said = refused(path)
    assert said.startswith(f"{path}{message}")
    assert "\n" not in said


def test_the_command_line_says_the_same_and_spells_the_options(tmp_path):
    for content, message in (
        (b"a,label\n1,x\n2,y,3\n", "line 3: must have 2 cells like the first row, got 3; add or remove cells"),
        (b"age,label\n1,x\n2,y\nabc,x\n", "line 4, column 'age': 'abc' is not a number; to take the column as"),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        result = CliRunner().invoke(cli.app, ["run", "--data", str(tmp_path / "a.csv")], prog_name="delaytron")
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"delaytron: {tmp_path / 'a.csv'}, {message}")
    assert "--categorical" in line
    assert "--drop" in line


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("a.csv", b"a,b\n1,x\n", {"label": "c"}, ", line 1: label must be one of the columns a, b, got 'c'"),
        (
            "a.csv",
            b"1,0\n2,1\nabc,0\n",
            {"label": "-1", "header": False},
            ", line 3, column '0': 'abc' is not a number;",
        ),
        (
            "a.csv",
            b"1,0\n2,1\n",
            {"label": "2", "header": False},
            ", line 1: label must be one of the columns 0, 1, got '2'",
        ),
        ("a.csv", b"a,y\n1,x\n", {"categorical": ["b"]}, ", line 1: categorical must be one of the columns a, y, got"),
        ("a.parquet", of_parquet(a=[1], b=[2]), {"label": "c"}, ": label must be one of the columns a, b, got 'c'"),
        ("a.npz", of_npz(X=BITS, z=[1]), {"label": "c"}, ": the labels must be in an array c, got X, z"),
        ("a.npz", of_npz(X=BITS, y=[1]), {"categorical": ["c"]}, ": a npz file takes no categorical, got ['c']"),
        ("a.svm", b"1 1:1\n", {"label": "c"}, ": a libsvm file takes no label, got 'c'"),
        ("a.txt", b"a,y\n1,x\n", {}, ": the ending must be one of .csv, .tsv, "),
        ("a.txt", b"a\n", {"format": "svm"}, f"format must be one of {', '.join(FORMATS)}, got"),
        ("a.csv", b"a,y\n1,x\n", {"scale": "max"}, "scale must be one of unit, standard, got 'max'"),
    ],
)
def test_an_option_that_does_not_fit_is_one_line(name, content, flags, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path, **flags).removeprefix(str(path)).startswith(message)


def test_a_missing_file_is_one_line_that_suggests_another(tmp_path):
    said = refused(tmp_path / "a.csv")
    assert said == f"there is no file {tmp_path / 'a.csv'}; check the name"
    (tmp_path / "tickets.csv").touch()
    assert refused(tmp_path / "ticket.csv").endswith("ticket.csv; did you mean tickets.csv?")


def test_a_row_beyond_the_end_has_no_line(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n\n1,"two\nlines"\n3,4\n')
    assert [place_of(tmp_path / "a.csv", ",", row) for row in range(4)] == ["line 1", "line 3", "line 5", "row 3"]


def test_a_pipe_is_refused_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert refused(tmp_path / "a.csv") == f"{tmp_path / 'a.csv'} can be read only once; give a file"


def test_a_folder_is_one_line(tmp_path):
    (tmp_path / "a.csv").mkdir()
    assert refused(tmp_path / "a.csv") == f"{tmp_path / 'a.csv'} is a folder; give a file"


def test_an_option_of_another_kind_of_data_is_one_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,x\n2,z\n")
    options = "label, categorical, drop, keep, missing, header, zero_based, format, decided, answered"
    assert refused(path, n_samples=9) == f"file {path} has no option n_samples; take one of {options}"
    assert refused("digits", label=9) == "data set digits takes no options; got label; leave it out"
