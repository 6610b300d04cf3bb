"""Where in a delimited text file something stands: read slowly and exactly, once something is known to be wrong."""

import csv
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from io import TextIOWrapper
from pathlib import Path

from delaytron.errors import InvalidInput
from delaytron.files.compressed import LONGEST_LINE, check_line, open_binary, reading


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the rows of a file, each with the number of the line on which it begins; blank lines are no rows."""
    lines = _lines(path)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    begin = 1
    with reading(path), closing(lines):  # also after an error, which keeps the reader as long as it is kept itself
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as problem:
                raise InvalidInput(f"{path}, line {begin}: {_fault(problem)}") from None
            if cells is None:
                return
            if cells:
                yield begin, cells
            begin = reader.line_num + 1


def place_of(path: Path, delimiter: str, number: int) -> str:
    """Say on which line a row begins; row 0 is the first of the file, header or not."""
    lines = (line for i, (line, _) in enumerate(records(path, delimiter)) if i == number)
    line = next(lines, None)
    return f"row {number}" if line is None else f"line {line}"  # what comes through a pipe can be read only once


def refuse_ragged(path: Path, delimiter: str, n_columns: int) -> None:
    """Raise if a file is no table of so many columns; name the first line that is wrong."""
    for line, cells in records(path, delimiter):
        if len(cells) != n_columns:
            raise InvalidInput(f"{path}, line {line}: must have {n_columns} cells like the first row, got {len(cells)}")


def _lines(path: Path) -> Generator[str, None, None]:
    """Iterate over the lines with their ends, as the csv module wants them."""
    with TextIOWrapper(open_binary(path), "utf-8-sig", errors="surrogateescape", newline="") as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), start=1):
            check_line(path, number, len(line))
            if not _is_text(line):
                raise InvalidInput(f"{path}, line {number}: must be text in UTF-8; save the file as such")
            yield line


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:  # of bytes that were no UTF-8
        return False
    return "\0" not in line


def _fault(problem: csv.Error) -> str:
    if "field limit" in str(problem):
        return f"a cell has more than {csv.field_size_limit()} letters, or a quote is opened and never closed"
    if "unexpected end of data" in str(problem):
        return "a quote is opened and never closed"
    return f"a quoted cell is not as it should be: {problem}"
