"""CSV and TSV files: read quickly by pyarrow, and slowly only to find the line of what is wrong."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from delaytron.datasets.base import Block
from delaytron.datasets.cells import number_in
from delaytron.datasets.columns import plan_columns
from delaytron.datasets.headers import Column, Columns, check_header, find_columns, find_label
from delaytron.datasets.tables import table_source
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.compressed import Quiet, open_binary, reading
from delaytron.files.lines import place_of, records, refuse_ragged

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"  # of a CSV file, the first that its first row has
BLOCK_BYTES = 4 * 2**20  # read at a time; more where a row is longer
NO_ROW = "there must be at least one row after the header, got none"
Types = dict[str, Any]  # of columns, as pyarrow has them
MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]  # the usual ones; others make a column of text, found later


class Layout(NamedTuple):
    """What the first row of a file tells: how cells are divided, what the columns are called."""

    path: Path
    delimiter: str
    line: int
    cells: list[str]
    has_header: bool

    @property
    def names(self) -> list[str]:
        """The names of the columns; one without a name is called by its position."""
        return [(self.has_header and cell.strip()) or str(i) for i, cell in enumerate(self.cells)]

    def place(self, row: int) -> str:
        """Return the line on which a row begins."""
        return place_of(self.path, self.delimiter, row + self.has_header)


def read_delimited(
    path: Path, label: Column | None = None, categorical: Columns = (), delimiters: str = DELIMITERS
) -> Block:
    """Read a whole file."""
    layout = find_layout(path, delimiters)
    place = f"{path}, line {layout.line}"
    names = layout.names
    check_header(place, names)
    target = find_label(place, names, label)
    chosen = find_columns(place, names, categorical, "categorical")
    source = table_source(str(path), _table(layout, {target, *chosen}), layout.place)
    if not source.n_rows:
        raise InvalidInput(f"{path}, line {layout.line + 1}: {NO_ROW}")
    return plan_columns(source, target, chosen).whole()


def find_layout(path: Path, delimiters: str) -> Layout:
    """Look at the first row of a file: it names the columns if none of its cells is a number."""
    for delimiter in delimiters:
        line, cells = next(records(path, delimiter), (1, []))
        if len(cells) > 1:
            return Layout(path, delimiter, line, cells, all(number_in(cell) is None for cell in cells))
    signs = " or ".join(map(repr, delimiters))
    got = f"only {cells[0][:40]!r}" if cells else "an empty file"
    raise InvalidInput(f"{path}, line {line}: must have at least two columns, divided by {signs}; got {got}")


def _table(layout: Layout, text: set[str]) -> "pa.Table":
    """Read all cells, those of some columns as text."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    raw = layout.cells if layout.has_header else [f"f{i}" for i in range(len(layout.cells))]  # as pyarrow calls them
    types = {theirs: pa.string() for theirs, ours in zip(raw, layout.names, strict=True) if ours in text}
    try:
        table = _parse_all(layout, types)
    except pa.ArrowInvalid as problem:
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))
        if "Empty CSV" in str(problem):  # a header that nothing follows, not even the end of its line
            raise InvalidInput(f"{layout.path}, line {layout.line + 1}: {NO_ROW}") from None
        raise InvalidInput(f"{layout.path}: cannot be read as a table: {problem}") from None
    if any(map(pa.types.is_binary, table.schema.types)) or _ends_in_lines(table):  # no UTF-8, or an unclosed quote
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))
    return table.rename_columns(layout.names)


def _parse_all(layout: Layout, types: Types) -> "pa.Table":
    """Read a file by the types of its beginning, if they hold to its end.

    While pyarrow has still to find the type of a column, it keeps all its text: as much memory as the numbers take.
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    known = _types_of_beginning(layout, types)
    if known != types:
        with suppress(pa.ArrowInvalid):
            return _parse_file(layout, known)
    return _parse_file(layout, types)


def _types_of_beginning(layout: Layout, types: Types) -> Types:
    """Return the types that the columns of a large file begin with; those of a small one are soon found."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with reading(layout.path), open_binary(layout.path) as file:
        head = file.read(BLOCK_BYTES)
    if len(head) < BLOCK_BYTES:
        return types
    try:
        schema = _parse(pa.BufferReader(head[: head.rfind(b"\n") + 1]), layout, types).schema
    except pa.ArrowInvalid:  # a cell of several lines may have been cut
        return types
    found = zip(schema.names, schema.types, strict=True)
    return {name: kind for name, kind in found if not pa.types.is_null(kind)}


def _parse_file(layout: Layout, types: Types) -> "pa.Table":
    with reading(layout.path), open_binary(layout.path) as binary:
        file = Quiet(binary)
        try:
            return _parse(file, layout, types)
        finally:
            file.check()  # what broke off is no table, whatever it looks like


def _parse(file: Any, layout: Layout, types: Types) -> "pa.Table":
    needs("pyarrow")
    from pyarrow import csv  # noqa: PLC0415 - slow to import

    longest = 16 * sum(map(len, layout.cells))
    return csv.read_csv(
        file,
        csv.ReadOptions(autogenerate_column_names=not layout.has_header, block_size=max(BLOCK_BYTES, longest)),
        csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        csv.ConvertOptions(column_types=types, null_values=MISSING, true_values=[], false_values=[]),
    )


def _ends_in_lines(table: "pa.Table") -> bool:
    """Whether the last cell has more than one line: then a quote that nobody closed may have swallowed the rest."""
    return table.num_rows > 0 and "\n" in str(table.column(-1)[-1].as_py())
