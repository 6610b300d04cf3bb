"""CSV and TSV files: read quickly by pyarrow, and slowly only to find the line of what is wrong."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from delaytron.datasets.base import Block
from delaytron.datasets.cells import number_in
from delaytron.datasets.columns import plan_columns, table_source
from delaytron.datasets.headers import Column, Columns, check_header, find_columns, find_label
from delaytron.errors import InvalidInput
from delaytron.files.compressed import open_binary, reading
from delaytron.files.lines import place_of, records, refuse_ragged

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"  # of a CSV file, the first that its first row has
BLOCK_BYTES = 4 * 2**20  # read at a time; more where a row is longer
NO_ROW = "there must be at least one row after the header, got none"
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
    place, names = f"{path}, line {layout.line}", layout.names
    check_header(place, names)
    target = find_label(place, names, label)
    chosen = find_columns(place, names, categorical, "categorical")
    table = _table(layout, {target, *chosen})
    if not table.num_rows:
        raise InvalidInput(f"{path}, line {layout.line + 1}: {NO_ROW}")
    (block,) = plan_columns(table_source(str(path), table, layout.place), target, chosen).blocks()
    return block


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
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    raw = layout.cells if layout.has_header else [f"f{i}" for i in range(len(layout.cells))]  # as pyarrow calls them
    types = {theirs: pa.string() for theirs, ours in zip(raw, layout.names, strict=True) if ours in text}
    try:
        with reading(layout.path), open_binary(layout.path) as file:
            table = _parse(file, layout, types)
    except pa.ArrowInvalid as problem:
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))
        if "Empty CSV" in str(problem):  # a header that nothing follows, not even the end of its line
            raise InvalidInput(f"{layout.path}, line {layout.line + 1}: {NO_ROW}") from None
        raise InvalidInput(f"{layout.path}: cannot be read as a table: {problem}") from None
    if any(map(pa.types.is_binary, table.schema.types)) or _ends_in_lines(table):  # no UTF-8, or an unclosed quote
        refuse_ragged(layout.path, layout.delimiter, len(layout.cells))
    return table.rename_columns(layout.names)


def _parse(file: Any, layout: Layout, types: "dict[str, pa.DataType]") -> "pa.Table":
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
