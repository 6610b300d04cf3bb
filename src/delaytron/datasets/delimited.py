"""CSV and TSV files: read quickly by pyarrow, and slowly only to find the line of what is wrong.

All cells are read as text, a few megabytes at a time: once to find out what the columns hold, and again to make numbers
of them. A file is read alike as a whole and in blocks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from delaytron.checks import check_choice
from delaytron.datasets.base import Block
from delaytron.datasets.columns import Encoder, TableOptions, plan_columns
from delaytron.datasets.headers import Columns, check_header, each_of, find_columns, find_label
from delaytron.datasets.layout import HEADERS, Layout, find_layout
from delaytron.datasets.tables import Source, cut_rows
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.compressed import Quiet, open_binary, reading
from delaytron.files.lines import records, refuse_ragged

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"  # of a CSV file, the first that its first row has
BLOCK_BYTES = 4 * 2**20  # read at a time; more where a row is longer
FEATURE_BYTES = 4 * 2**20  # of the features in one block
NO_ROW = "there must be at least one row after the header, got none"
MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]  # the usual ones; others make a column of text, found later


def read_delimited(
    path: Path, delimiters: str = DELIMITERS, header: str = "auto", **options: Unpack[TableOptions]
) -> Block:
    """Read a whole file."""
    return _plan(path, delimiters, header, options).whole()


def open_delimited(
    path: Path, delimiters: str = DELIMITERS, header: str = "auto", **options: Unpack[TableOptions]
) -> Callable[[], Iterator[Block]]:
    """Return what goes through a file, some megabytes at a time; it is read once before."""
    return partial(_plan(path, delimiters, header, options).blocks, FEATURE_BYTES)


def _plan(path: Path, delimiters: str, header: str, options: TableOptions) -> Encoder:
    check_choice("header", header, HEADERS)
    layout = find_layout(path, delimiters, header, _named(options))
    place = f"{path}, line {layout.line}"
    check_header(place, layout.names)
    label = find_label(place, layout.names, options.get("label"))
    _check_names(place, layout.names, options)
    rest: Any = {name: value for name, value in options.items() if name != "label"}
    encoder = plan_columns(_source(layout), label, **rest)
    if not encoder.source.n_rows:
        raise InvalidInput(f"{path}, line {layout.line + 1}: {NO_ROW}")
    return encoder


def _check_names(place: str, names: Sequence[str], options: TableOptions) -> None:
    """Raise if a column is named that is not there."""
    find_columns(place, names, options.get("categorical", ()), "categorical")
    find_columns(place, names, options.get("drop", ()), "drop")
    find_columns(place, names, options.get("keep", ()), "keep")


def _named(options: TableOptions) -> list[str]:
    """Return the columns that the user names, but for positions."""
    label = options.get("label")
    wanted: list[Columns] = [() if label is None else label]
    wanted += [options.get("categorical", ()), options.get("drop", ()), options.get("keep", ())]
    names = [one for several in wanted for one in each_of(several)]
    return [name for name in names if isinstance(name, str) and not name.removeprefix("-").isdecimal()]


def _source(layout: Layout) -> Source:
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    types = dict.fromkeys(layout.names, pa.string())
    read = partial(_read, layout)
    notes = (layout.note,)
    return Source(str(layout.path), types, 0, read, read, layout.place, is_text=True, notes=notes)


def _read(layout: Layout, names: Sequence[str], n_rows: int | None = None) -> "Iterator[pa.Table]":
    """Iterate over these columns, all cells as text, nothing where one is missing."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    table = None
    try:
        for batch in _parse(layout, [str(layout.names.index(name)) for name in names]):
            table = pa.Table.from_batches([batch]).rename_columns(list(names))
            yield from cut_rows(table, n_rows)
    except pa.ArrowInvalid as problem:
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))
        if sum(1 for _ in zip(range(2), records(layout.path, layout.delimiter), strict=False)) <= layout.has_header:
            raise InvalidInput(f"{layout.path}, line {layout.line + 1}: {NO_ROW}") from None
        said = " ".join(str(problem).split())
        raise InvalidInput(f"{layout.path}: cannot be read as a table: {said}") from None
    if table is not None and _ends_in_lines(table):  # an unclosed quote
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))


def _parse(layout: Layout, wanted: Sequence[str]) -> "Iterable[pa.RecordBatch]":
    """Iterate over batches of the columns at these positions."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import csv  # noqa: PLC0415

    names = [str(i) for i in range(len(layout.cells))]
    longest = 16 * sum(map(len, layout.cells))
    with reading(layout.path), open_binary(layout.path) as binary:
        file = Quiet(binary)
        try:
            with csv.open_csv(
                file,
                csv.ReadOptions(
                    column_names=names,
                    skip_rows_after_names=layout.line if layout.has_header else 0,
                    block_size=max(BLOCK_BYTES, longest),
                ),
                csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
                csv.ConvertOptions(
                    include_columns=wanted,
                    column_types=dict.fromkeys(wanted, pa.string()),
                    null_values=MISSING,
                    strings_can_be_null=True,
                ),
            ) as batches:
                yield from batches
        finally:
            file.check()  # what broke off is no table, whatever it looks like


def _ends_in_lines(table: "pa.Table") -> bool:
    """Whether the last row has a cell of more than one line: a quote that nobody closed may have swallowed the rest."""
    last = table.slice(table.num_rows - 1)
    return any("\n" in str(column[0].as_py()) for column in last.columns) if table.num_rows else False
