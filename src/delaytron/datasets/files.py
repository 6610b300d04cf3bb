"""Files of users as data sets: CSV, TSV, JSON lines, Parquet, Feather, NPZ and LIBSVM, by their endings."""

import json
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from os import sep
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_bool, check_choice, check_path, not_there
from delaytron.datasets.columns import Column, Columns, Source, check_names, leave_out, listed, number_in
from delaytron.datasets.dataset import Block, Dataset, labelled
from delaytron.datasets.libsvm import open_libsvm, read_libsvm
from delaytron.datasets.tables import TableOptions, column_types, fit, reading_arrow, table_source
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.extras import needs
from delaytron.files.atomic import explain
from delaytron.files.tensors import BROKEN, read_npy, reason
from delaytron.files.text import (
    OPENERS,
    Quiet,
    blocks_of_lines,
    check_ratio,
    open_binary,
    place_of,
    plain_suffix,
    reading,
    records,
    refuse_ragged,
)

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"  # of a CSV file, the first that its first row has
TEXT_BYTES = 4 * 2**20  # of CSV, TSV and JSON lines, read at a time; more where a row is longer
PIECE_BYTES = 32 * 2**20  # of Parquet as numbers, read at a time
READ_BYTES = 2**18  # of a column of Parquet at a time: by default pyarrow reads all of the file ahead
MOST_KEYS = 100_000  # of JSON lines
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]  # the usual ones; others are recognised by the encoder
CSR_PARTS = ("data", "indices", "indptr", "shape")
NPZ_ARRAYS = "X, or X_train and X_test, or data, indices, indptr and shape as of scipy.sparse.save_npz"
WRITE_AGAIN = ("write it again, or pass another ", Setting("format"))


# CSV and TSV


def open_delimited(path: Path, delimiters: str = DELIMITERS, header: bool = True) -> Source:
    """Return a CSV or TSV file as a source; without a header, columns are called 0, 1, ....

    Raises InvalidInput if the first row has fewer than two cells, or a name twice.
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    for delimiter in delimiters:
        line, first = next(records(path, delimiter), (1, []))
        if len(first) > 1:
            break
    else:
        signs = " or ".join(map(repr, delimiters))
        got = f"only {first[0][:40]!r}" if first else "an empty file"
        raise InvalidInput(
            f"{path}, line {line}: must have at least two columns, divided by {signs}; got {got}",
            ("pass another ", Setting("format"), " if it is not a table of text"),
        )
    names = [str(i) for i in range(len(first))]
    notes: tuple[str, ...] = ()
    if header:
        names = [cell.strip() or f"column {i}" for i, cell in enumerate(first)]
        number = next((name for name in names if number_in(name) is not None), None)
        if number is not None:
            notes = (
                f"header: the first row, with the number {number}; if it is data, pass header=False (--no-header)",
            )
    read = partial(_read_delimited, path, delimiter, names, line if header else 0, 16 * sum(map(len, first)))
    check_names(f"{path}, line {line}", names)
    types = dict.fromkeys(names, pa.string())

    def place(row: int) -> str:
        return place_of(path, delimiter, row + header)

    return Source(str(path), types, 0, read, place, f"{path}, line {line}", text=True, notes=notes)


def _read_delimited(
    path: Path, delimiter: str, names: Sequence[str], skip: int, longest: int, wanted: Sequence[str]
) -> "Generator[pa.Table, None, None]":
    """Iterate over the wanted columns, all cells as text, after `skip` lines, blank ones included."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import csv  # noqa: PLC0415

    numbered = [str(i) for i in range(len(names))]
    columns = [str(names.index(name)) for name in wanted]
    n_rows, table = 0, None
    with reading(path), open_binary(path) as binary:
        file = Quiet(binary)
        try:
            with csv.open_csv(
                file,
                csv.ReadOptions(column_names=numbered, skip_rows_after_names=skip, block_size=max(TEXT_BYTES, longest)),
                csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                csv.ConvertOptions(
                    include_columns=columns,
                    column_types=dict.fromkeys(columns, pa.string()),
                    null_values=NULLS,
                    strings_can_be_null=True,
                ),
            ) as batches:
                for batch in batches:
                    table = pa.Table.from_batches([batch]).rename_columns(list(wanted))
                    n_rows += table.num_rows
                    yield table
        except pa.ArrowInvalid as problem:
            file.check()  # a truncated file is the cause of whatever pyarrow finds at its end
            refuse_ragged(path, delimiter, len(names))
            if len(list(islice(records(path, delimiter), 2))) > bool(skip):
                said = " ".join(str(problem).split())
                raise InvalidInput(f"{path}: cannot be read as a table: {said}", WRITE_AGAIN) from None
        file.check()
    if table is None or not n_rows:
        raise InvalidInput(
            f"{path}, line {skip + 1}: there must be at least one row after the header, got none", "add rows"
        )
    last = table.slice(max(0, table.num_rows - 1))
    if any("\n" in str(column[0].as_py()) for column in last.columns if len(column)):
        refuse_ragged(path, delimiter, len(names))  # after an unclosed quote all rows are one cell


# JSON lines


def open_json_lines(path: Path) -> Source:
    """Return a file with a JSON object on each line as a source; it is read once to find the keys, its columns.

    The lines are decoded by msgspec: pyarrow's reader ends the process at an array nested 20,000 deep, and does not say
    on which line an error is. Raises InvalidInput at a line that is not a JSON object, and at too many keys.
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    names: dict[str, None] = {}
    empty = True
    for block in _json_blocks(path):
        for _, row in block:
            names.update(dict.fromkeys(row))
            empty = False
        if len(names) > MOST_KEYS:
            raise InvalidInput(
                f"{path}: there may be at most {MOST_KEYS:,} different keys, got {len(names):,}",
                "use the same keys on every line",
            )
    if empty:
        raise InvalidInput(f"{path}, line 1: there must be at least one object, got an empty file", "add lines")

    def place(row: int) -> str:
        for block in _json_blocks(path):
            if row < len(block):
                return f"line {block[row][0]}"
            row -= len(block)
        return f"row {row}"

    def read(wanted: Sequence[str]) -> "Generator[pa.Table, None, None]":
        for block in _json_blocks(path):  # a key that is absent is null
            cells = {name: [_json_text(path, line, name, row.get(name)) for line, row in block] for name in wanted}
            yield pa.table({name: pa.array(texts, pa.string()) for name, texts in cells.items()})

    return Source(str(path), dict.fromkeys(names, pa.string()), 0, read, place, text=True)


def _json_blocks(path: Path) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Iterate over the objects, each with the number of its line, some megabytes at a time."""
    import msgspec  # noqa: PLC0415

    for first, text in blocks_of_lines(path, TEXT_BYTES // 2):
        block = []
        for number, row in enumerate(text.removeprefix(BYTE_ORDER_MARK if first == 1 else b"").split(b"\n"), first):
            if not row.strip():
                continue
            try:
                try:
                    found = msgspec.json.decode(row)
                except msgspec.DecodeError:
                    found = json.loads(row)  # NaN and infinities, which Python writes
            except RecursionError:
                raise InvalidInput(f"{path}, line {number}: is nested too deeply", "write plain values") from None
            except ValueError as problem:
                said = " ".join(str(problem).split())[:200]
                hint = "write one JSON object on each line"
                raise InvalidInput(f"{path}, line {number}: cannot be read as JSON: {said}", hint) from None
            if not isinstance(found, dict):
                got = repr(row[:40].decode(errors="replace"))
                raise InvalidInput(
                    f'{path}, line {number}: must be an object like {{"age": 7}}, got {got}',
                    "write one JSON object on each line",
                )
            block.append((number, found))
        yield block


def _json_text(path: Path, line: int, name: str, value: Any) -> str | None:
    """Return a value of an object as the text of a cell; None for null."""
    if value is None or isinstance(value, str):
        if value is None or value.isascii() or value.encode(errors="replace").decode() == value:
            return value
        kind = "text in UTF-8"  # a lone surrogate is not
    elif isinstance(value, dict | list):
        kind = "a number, text, true, false or null"
    else:
        return str(value).lower() if isinstance(value, bool) else repr(value)
    raise InvalidInput(f"{path}, line {line}, column {name!r}: must be {kind}", leave_out(name))


# Parquet and Feather


def open_parquet(path: Path) -> Source:
    """Return a Parquet file as a source; raise InvalidInput if it is damaged or a decompression bomb."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    with reading_arrow(str(path), "a Parquet file", WRITE_AGAIN), ParquetFile(path) as file:
        types = column_types(str(path), file.schema_arrow)
        n_rows = file.metadata.num_rows
        unpacked = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    check_ratio(path, unpacked, path.stat().st_size, "write it again in smaller pieces if you trust it")

    def read(wanted: Sequence[str]) -> "Generator[pa.Table, None, None]":
        at_a_time = max(1, PIECE_BYTES // (8 * max(1, len(wanted))))
        with (
            reading_arrow(str(path), "a Parquet file", WRITE_AGAIN),
            ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file,
        ):
            for batch in file.iter_batches(at_a_time, columns=list(wanted)):
                table = pa.Table.from_batches([batch])
                table.validate(full=True)  # offsets and indices that are out of range would end the process
                yield table

    return Source(str(path), types, n_rows, read)


def read_parquet(path: Path, **options: Unpack[TableOptions]) -> Block:
    """Return all rows of a Parquet file; raise InvalidInput if they take far more memory than the file has bytes."""
    source = open_parquet(path)
    # `open_parquet` has checked the sizes that the file claims for its pages. A column of one repeated value takes a
    # few bytes there, and eight for each row as numbers.
    check_ratio(
        path, 8 * source.n_rows * len(source.types), path.stat().st_size, "read it in blocks: datasets.stream, --stream"
    )
    return fit(source, **options).whole()


def open_feather(path: Path) -> Source:
    """Return a Feather or Arrow file, a stream or not, as a source; raise InvalidInput if it is damaged."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import ipc  # noqa: PLC0415

    with reading_arrow(str(path), "a Feather file", WRITE_AGAIN):
        with pa.memory_map(str(path)) as file:
            try:
                table = ipc.open_file(file).read_all()
            except pa.ArrowInvalid:
                file.seek(0)
                table = ipc.open_stream(file).read_all()
        table.validate(full=True)  # offsets and indices that are out of range would end the process
        return table_source(str(path), table)


# NPZ


class NpzArrays(NamedTuple):
    """The arrays of an open NPZ file, each read when it is asked for."""

    path: Path
    archive: zipfile.ZipFile
    names: tuple[str, ...]

    def read(self, name: str) -> NDArray[Any]:
        """Return an array; raise InvalidInput if it cannot be read."""
        with _reading_npz(self.path, f"the array {name}"):
            stored = self.archive.NameToInfo
            member = stored.get(f"{name}.npy") or stored[name]
            check_ratio(self.path, member.file_size, member.compress_size, "save it by numpy.savez, or as CSR")
            with self.archive.open(member) as file:
                return read_npy(file, member.file_size)

    def parts(self, name: str) -> list[str]:
        """Return the names of the arrays of which one consists: itself, or its parts for training and testing."""
        if name in self.names:
            return [name]
        return [part for part in (f"{name}_train", f"{name}_test") if part in self.names]

    def stacked(self, names: Sequence[str]) -> NDArray[Any]:
        """Return arrays as one, stacked; raise InvalidInput if they do not fit."""
        parts = [self.read(name) for name in names]
        with _reading_npz(self.path, f"the arrays {listed(names)}"):
            return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_npz(path: Path, label: str | None = None) -> Block:
    """Return the rows of an NPZ file: X and y; X_train, X_test, y_train and y_test; or the parts of a CSR matrix and y.

    `label` is the name of the array of labels, "y" by default. Raises InvalidInput if the arrays are not there, cannot
    be read, or do not fit each other.
    """
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: must be a file of numpy.savez, got another or a part of one", "save it again")
    with _reading_npz(path, "the file"), zipfile.ZipFile(path) as archive:
        names = tuple(name.removesuffix(".npy") for name in archive.namelist())
        arrays = NpzArrays(path, archive, names)
        label = label or "y"
        matrices, labels = arrays.parts("X"), arrays.parts(label)
        of_features = [name.removeprefix("X") for name in matrices]
        of_labels = [name.removeprefix(label) for name in labels]
        if matrices and labels and of_features != of_labels:
            raise InvalidInput(
                f"{path}: features and labels must be of the same rows, got {listed(matrices + labels)}",
                f"save X and {label}, or X_train, X_test, {label}_train and {label}_test",
            )
        X = arrays.stacked(matrices) if matrices else _npz_csr(arrays)
        return Block(X, _npz_labels(arrays, label))


def _npz_csr(arrays: NpzArrays) -> Any:
    """Return the CSR matrix of an NPZ file without X; its indices are checked with the data set."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    if not all(part in arrays.names for part in CSR_PARTS):
        raise InvalidInput(
            f"{arrays.path}: must have the arrays {NPZ_ARRAYS}; got {listed(arrays.names)}",
            "save the features under one of these names",
        )
    form = str(arrays.read("format").astype(str)) if "format" in arrays.names else "csr"
    if form != "csr":
        raise InvalidInput(f"{arrays.path}: a sparse matrix must be saved as CSR, got {form!r}", "save X.tocsr()")
    again = "save it by scipy.sparse.save_npz"
    data, indices, ends, shape = map(arrays.read, CSR_PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InvalidInput(f"{arrays.path}: shape must be two integers, got {str(shape.tolist())[:40]}", again)
    if {part.ndim for part in (data, indices, ends)} != {1} or {indices.dtype.kind, ends.dtype.kind} - {"i", "u"}:
        raise InvalidInput(f"{arrays.path}: indices and indptr must be 1-D integers, and data 1-D", again)
    return csr_array((data, indices, ends), shape=tuple(shape.tolist()))


def _npz_labels(arrays: NpzArrays, name: str) -> NDArray[Any]:
    """Return the labels of an NPZ file, numbers or text."""
    path = arrays.path
    names = arrays.parts(name)
    if not names:
        there = listed(arrays.names)
        raise InvalidInput(
            f"{path}: the labels must be in an array {name}, got {there}",
            ("pass ", Setting("label", "NAME")),
            parameter="label",
        )
    labels = arrays.stacked(names)
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise InvalidInput(
            f"{path}: {name} must be 1-D of numbers or text, got {labels.dtype} of shape {labels.shape}",
            "save one label for each row",
        )
    missing = ~np.isfinite(labels) if labels.dtype.kind == "f" else labels == ""
    if missing.any():
        raise InvalidInput(f"{path}, row {missing.argmax()}: the label in {name} is missing", "leave the row out")
    return labels


@contextmanager
def _reading_npz(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a damaged NPZ file into InvalidInput that names what cannot be read."""
    try:
        yield
    except InvalidInput:
        raise
    except BROKEN as problem:
        raise InvalidInput(f"{path}: {what} cannot be read: {reason(problem)}", "save it again") from None


# All formats


def read_table(path: Path, open_source: Callable[..., Source], header: bool = True, **options: Any) -> Block:
    """Return all rows of a table; a file of text is read once, and held as text until it is encoded."""
    source = open_source(path) if header else open_source(path, header=False)
    return fit(source, hold=source.text, **options).whole()


def table_blocks(
    path: Path, open_source: Callable[..., Source], header: bool = True, **options: Any
) -> Callable[[], Iterator[Block]]:
    """Return a function that iterates over a table in blocks; the table is read once before, to fit its encoder."""
    source = open_source(path) if header else open_source(path, header=False)
    return fit(source, **options).blocks


TABLE = ("label", "categorical", "drop", "keep", "missing", "decided", "answered")  # options of any table


class Format(NamedTuple):
    """A format of files; a new one is a line in `FORMATS`.

    Parameters
    ----------
    read : callable
        Reads a whole file, given its path and options.
    endings : tuple of str
        Of the names of files.
    blocks : callable, optional
        Opens a file for reading in blocks, with the same arguments; returns a function that iterates over them, any
        number of times.
    takes : tuple of str
        The options of `load_file` that apply to it.
    compressible : bool
        Whether it may be read from .gz, .bz2 or .xz.
    """

    read: Callable[..., Block]
    endings: tuple[str, ...]
    blocks: Callable[..., Callable[[], Iterator[Block]]] | None = None
    takes: tuple[str, ...] = TABLE
    compressible: bool = False


def _text_format(open_source: Callable[..., Source], endings: tuple[str, ...], *more: str) -> Format:
    read, blocks = partial(read_table, open_source=open_source), partial(table_blocks, open_source=open_source)
    return Format(read, endings, blocks, (*TABLE, *more), compressible=True)


FORMATS = {
    "csv": _text_format(open_delimited, (".csv",), "header"),
    "tsv": _text_format(partial(open_delimited, delimiters="\t"), (".tsv",), "header"),
    "jsonl": _text_format(open_json_lines, (".jsonl", ".ndjson")),
    "parquet": Format(read_parquet, (".parquet", ".pq"), partial(table_blocks, open_source=open_parquet)),
    "feather": Format(partial(read_table, open_source=open_feather), (".feather", ".arrow")),
    "npz": Format(read_npz, (".npz",), takes=("label",)),
    "libsvm": Format(
        read_libsvm, (".svm", ".libsvm", ".svmlight"), open_libsvm, takes=("zero_based",), compressible=True
    ),
}
ENDINGS = {ending: name for name, known in FORMATS.items() for ending in known.endings}


def load_file(
    path: str | Path,
    label: Column | None = None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
    header: bool = True,
    zero_based: bool | None = None,
    format: str | None = None,
    decided: Column | None = None,
    answered: Column | None = None,
) -> Dataset:
    r"""Return the data set of a file in one of the `FORMATS`; those of text also as .gz, .bz2 or .xz.

    Raises InvalidInput, with the line or row where possible, if the file cannot be read as such.

    Parameters
    ----------
    label : str or int, optional
        The column with the labels: its name or position, negative from the end; in NPZ the name of an array.
        By default the only one that is called label, class, target or y.
    categorical : sequence of str or int
        Columns of numbers to read as categories. Columns of text always are.
    drop : sequence of str or int
        Columns to leave out.
    keep : sequence of str or int
        Columns of text with more than 10,000 different values to keep; without this they are refused.
    missing : {"error", "drop", "impute"}
        Cells without a value are refused, or their rows are left out, or they become the mean of their column, with
        another column of 0 and 1 that marks them; in a column of categories they become a category.
    header : bool
        Of CSV and TSV: whether the first row names the columns.
    zero_based : bool, optional
        Of LIBSVM: whether indices begin with 0; by default if there is one.
    format : str, optional
        What the file holds, a name in `FORMATS`, where its ending does not say so.
    decided, answered : str or int, optional
        Columns of times (numbers, dates or ISO times): when each row was decided, and when its answer came, empty if it
        never did. They become no features. The rows are sorted by `decided`, and get their own delays: an answer comes
        with the first decision that was made at or after it was given.

    Notes
    -----
    Without a header, columns are called "0", "1", .... A category `value` of a column becomes a column "column=value"
    of 0 and 1; a date its seconds since 1970, hour, weekday and month. Where few of the numbers can differ from 0, X is
    CSR. A column of a text file that mixes numbers and text is refused, with the line of the first text; text in
    Parquet, Feather and frames is always read as categories. `Dataset.notes` says what was done.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("legs,home,species\n4,barn,cat\n2,cage,bird\n4,house,cat\n")
    ...     data = load_file(file, label="species")
    >>> data.feature_names, data.class_names
    (('legs', 'home=barn', 'home=cage', 'home=house'), ('bird', 'cat'))
    """
    place = as_path(path)
    kind = file_format(place, format)
    asked = {"label": label, "categorical": categorical, "drop": drop, "keep": keep, "missing": missing}
    asked |= {"decided": decided, "answered": answered}
    block = FORMATS[kind].read(place, **_applying(place, kind, asked | {"header": header, "zero_based": zero_based}))
    return labelled(block, file_name(place), str(path))


def open_blocks(path: Path, format: str | None, asked: Mapping[str, Any]) -> Callable[[], Iterator[Block]]:
    """Return a function that iterates over a file in blocks, any number of times; `asked` are options of `load_file`.

    Raises InvalidInput if the format cannot be read in blocks, or an option does not apply to it.
    """
    kind = file_format(path, format)
    open_file = FORMATS[kind].blocks
    if open_file is None:
        able = ", ".join(name for name, known in FORMATS.items() if known.blocks is not None)
        raise InvalidInput(f"{path}: only {able} files can be read in blocks, got {kind}", "load it whole")
    return open_file(path, **_applying(path, kind, asked))


def file_format(path: Path, asked: str | None = None) -> str:
    """Return the format of a file, by its ending unless it is `asked` for.

    Raises InvalidInput if there is no such file, and if its format is unknown or cannot be read compressed.

    Examples
    --------
    >>> file_format(Path(__file__), "csv")
    'csv'
    """
    if not path.is_file():
        if not path.exists():
            raise InvalidInput(f"there is no file {path}", not_there(path))
        raise InvalidInput(f"{path} {'is a folder' if path.is_dir() else 'can be read only once'}", "give a file")
    kind = ENDINGS.get(plain_suffix(path)) if asked is None else check_choice("format", asked, FORMATS)
    if kind is None:
        raise InvalidInput(
            f"{path}: the ending must be one of {', '.join(ENDINGS)}",
            ("else pass ", Setting("format"), f", one of {', '.join(FORMATS)}"),
            parameter="format",
        )
    if path.suffix.lower() in OPENERS and not FORMATS[kind].compressible:
        able = ", ".join(name for name, known in FORMATS.items() if known.compressible)
        raise InvalidInput(f"{path}: of compressed files only {able} can be read", "unpack it")
    return kind


def as_path(path: Any) -> Path:
    """Return the path of a file; raise InvalidInput if no file can have it."""
    place = check_path("path", path).expanduser()
    try:
        place.exists()
    except OSError as problem:
        said, hint = explain(problem)
        raise InvalidInput(f"cannot read {shown(str(path))}: {said}", hint) from None
    return place


def looks_like_file(text: str) -> bool:
    """Whether a text is the path of a file: it exists, or has an ending or a folder.

    Examples
    --------
    >>> looks_like_file("digits"), looks_like_file("clicks.csv"), looks_like_file("data/clicks")
    (False, True, True)
    """
    path = Path(text)
    try:
        return bool(plain_suffix(path)) or "/" in text or sep in text or path.expanduser().exists()
    except OSError:  # a name that no file can have
        return False


def file_name(path: Path) -> str:
    """Return the name of a file without the endings that say what is in it.

    Examples
    --------
    >>> file_name(Path("data/clicks.v2.csv.gz"))
    'clicks.v2'
    """
    return (path.with_suffix("") if path.suffix.lower() in OPENERS else path).stem


def _applying(path: Path, kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not at their defaults; raise InvalidInput if one does not apply to the format."""
    defaults = {
        "label": None,
        "missing": "error",
        "header": True,
        "zero_based": None,
        "decided": None,
        "answered": None,
    }
    given = {}
    for option, value in asked.items():
        if option in ("header", "zero_based") and value is not None:
            check_bool(option, value)
        if (isinstance(value, list | tuple) and not value) or (option in defaults and value == defaults[option]):
            continue
        if option not in FORMATS[kind].takes:
            raise InvalidInput(
                (f"{path}: a {kind} file takes no ", Setting(option), f", got {value!r}"),
                "leave it out",
                parameter=option,
                value=value,
            )
        given[option] = value
    return given
