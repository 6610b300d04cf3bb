"""What the first rows of a CSV or TSV file tell: how cells are divided, if there is a header, the names of columns.

A header is never taken for a row. The first row is one if a cell of it is no number in a column of numbers, if it has a
name that the user or the habit gives to a column, if it counts the columns as pandas does, or if it has no number.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from delaytron.datasets.cells import number_in, says_nothing
from delaytron.datasets.headers import LABELS
from delaytron.datasets.kinds import DATED
from delaytron.errors import InvalidInput
from delaytron.files.lines import place_of, records

LOOKED_AT = 200  # rows after the first
ENOUGH = 20  # rows that tell which values of a column come again
SURELY_COUNTED = 5  # columns whose numbers 0, 1, ... in a row can hardly be values
HEADERS = ("auto", "yes", "no")


class Layout(NamedTuple):
    """How a file is laid out.

    Parameters
    ----------
    line : int
        On which the first row stands.
    cells : list of str
        Those of the first row.
    reason : str
        Why the first row is a header, or why it is none.
    """

    path: Path
    delimiter: str
    line: int
    cells: list[str]
    has_header: bool
    reason: str

    @property
    def names(self) -> list[str]:
        """The names of the columns; one without a name is called by its position, what comes first "index"."""
        if not self.has_header:
            return [str(i) for i in range(len(self.cells))]
        given = [cell.strip() for cell in self.cells]
        return [name or _call(i, given) for i, name in enumerate(given)]

    @property
    def note(self) -> str:
        """Whether there is a header, and why."""
        return f"header: {'yes' if self.has_header else 'no'} ({self.reason})"

    def place(self, row: int) -> str:
        """Return the line on which a row begins."""
        return place_of(self.path, self.delimiter, row + self.has_header)


def _call(position: int, given: Sequence[str]) -> str:
    name = "index" if position == 0 else str(position)
    return f"column {position}" if name in given else name


def find_layout(path: Path, delimiters: str, header: str, named: Sequence[str]) -> Layout:
    """Look at the first rows of a file; `named` are columns that the user names."""
    for delimiter in delimiters:
        line, cells = next(records(path, delimiter), (1, []))
        if len(cells) > 1:
            if header != "auto":
                return Layout(path, delimiter, line, cells, header == "yes", "as asked for")
            rows = [row for row in _sample(path, delimiter) if len(row) == len(cells)]
            return Layout(path, delimiter, line, cells, *judge_header(cells, rows, named))
    signs = " or ".join(map(repr, delimiters))
    got = f"only {cells[0][:40]!r}" if cells else "an empty file"
    raise InvalidInput(f"{path}, line {line}: must have at least two columns, divided by {signs}; got {got}")


def _sample(path: Path, delimiter: str) -> Iterator[list[str]]:
    """Iterate over some rows after the first, up to one that cannot be read."""
    with suppress(InvalidInput):
        yield from (cells for _, cells in islice(records(path, delimiter), 1, LOOKED_AT + 1))


def judge_header(first: Sequence[str], rows: Sequence[Sequence[str]], named: Sequence[str]) -> tuple[bool, str]:
    """Return whether the first row is a header, and why.

    Examples
    --------
    >>> judge_header(["0", "1", "label"], [["2.5", "7", "3"]], [])
    (True, "cell 'label' is no number")
    >>> judge_header(["M", "0.455", "15"], [["F", "0.53", "9"]], [])
    (False, "cell '0.455' is a number")
    """
    cells = [cell.strip() for cell in first]
    columns = [[row[i].strip() for row in rows] for i in range(len(cells))]
    for cell, column in zip(cells, columns, strict=True):
        if not _is_value(cell) and not says_nothing(cell) and _are_values(column):
            return True, f"cell {_shown(cell)} is no number"
    for cell in cells:
        if cell in named or (cell.lower() in LABELS and not any(cell in column for column in columns)):
            return True, f"cell {_shown(cell)} is the name of a column"
    numbers = [cell for cell in cells if _is_value(cell)]
    if not numbers:
        return True, "no cell is a number"
    if _counts_columns(cells, columns):
        return True, f"its cells count the columns, {numbers[0]} to {numbers[-1]}"
    if _is_new(cells, columns):
        return True, "no text of it occurs again"
    return False, f"cell {_shown(numbers[0])} is a number"


def _is_value(cell: str) -> bool:
    return number_in(cell) is not None or DATED.match(cell) is not None


def _are_values(column: Sequence[str]) -> bool:
    """Whether a column holds numbers, or dates, where it holds anything."""
    filled = [cell for cell in column if not says_nothing(cell)]
    return bool(filled) and all(map(_is_value, filled))


def _counts_columns(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether the numbers of a row are 0, 1, ..., as pandas calls columns without names; an index has no name."""
    counted = cells[1:] if cells[0] == "" else cells
    numbers = [cell for cell in counted if number_in(cell) is not None]
    if numbers != [str(i) for i in range(len(numbers))] or counted[: len(numbers)] != numbers:
        return False
    fractions = [column for cell, column in zip(cells, columns, strict=True) if cell and not _has_integer(column)]
    return len(numbers) >= SURELY_COUNTED or (len(numbers) > 1 and bool(fractions)) or cells[0] == ""


def _has_integer(column: Sequence[str]) -> bool:
    """Whether a cell of a column is written as an integer; a column of nothing tells nothing."""
    return not column or any(cell.lstrip("+-").isdecimal() for cell in column)


def _is_new(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether no text of the first row occurs again where the values of its column do, in every such column."""
    text = [(cell, column) for cell, column in zip(cells, columns, strict=True) if cell and not _is_value(cell)]
    repeating = [
        (cell, column) for cell, column in text if len(column) >= ENOUGH and 2 * len(set(column)) < len(column)
    ]
    return len(repeating) > 0 and not any(cell in column for cell, column in repeating)


def _shown(cell: str) -> str:
    return repr(" ".join(cell.split())[:40])
