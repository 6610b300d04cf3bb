"""JSON lines: an object on each line, whose keys are the columns; read a few megabytes at a time."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from delaytron.datasets.base import Block
from delaytron.datasets.columns import Encoder, TableOptions, plan_columns
from delaytron.datasets.headers import find_label
from delaytron.datasets.tables import Source, cut_rows
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.compressed import blocks_of_lines

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 2 * 2**20  # of text, read at a time
FEATURE_BYTES = 4 * 2**20  # of the features in one block
MOST_COLUMNS = 100_000
MARK = b"\xef\xbb\xbf"  # of the byte order


class Line(NamedTuple):
    """One object, and the number of its line."""

    number: int
    cells: dict[str, Any]


def read_json_lines(path: Path, **options: Unpack[TableOptions]) -> Block:
    """Read a whole file."""
    return _plan(path, options).whole()


def open_json_lines(path: Path, **options: Unpack[TableOptions]) -> Callable[[], Iterator[Block]]:
    """Return what goes through a file, some megabytes at a time; it is read twice before."""
    return partial(_plan(path, options).blocks, FEATURE_BYTES)


def _plan(path: Path, options: TableOptions) -> Encoder:
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    names = _names(path)
    label = find_label(str(path), names, options.get("label"))
    rest: Any = {name: value for name, value in options.items() if name != "label"}
    read = partial(_read, path)
    types = dict.fromkeys(names, pa.string())
    return plan_columns(Source(str(path), types, 0, read, read, partial(_place, path), is_text=True), label, **rest)


def _names(path: Path) -> list[str]:
    """Return all keys, in the order in which they come."""
    names: dict[str, None] = {}
    empty = True
    for lines in _blocks(path):
        for line in lines:
            names.update(dict.fromkeys(line.cells))
            empty = False
        if len(names) > MOST_COLUMNS:
            raise InvalidInput(f"{path}: there may be at most {MOST_COLUMNS:,} different keys, got {len(names):,}")
    if empty:
        raise InvalidInput(f"{path}, line 1: there must be at least one object, got an empty file")
    return list(names)


def _read(path: Path, names: Sequence[str], n_rows: int | None = None) -> "Iterator[pa.Table]":
    """Iterate over these columns, all cells as text, nothing where one is missing."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    for lines in _blocks(path):
        columns = {name: pa.array([_text(path, line, name) for line in lines], pa.string()) for name in names}
        yield from cut_rows(pa.table(columns), n_rows)


def _blocks(path: Path) -> Iterator[list[Line]]:
    for first, text in blocks_of_lines(path, BLOCK_BYTES):
        rows = enumerate((text.removeprefix(MARK) if first == 1 else text).split(b"\n"), start=first)
        yield [Line(number, _object(path, number, row)) for number, row in rows if row.strip()]


def _object(path: Path, number: int, row: bytes) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    try:
        try:
            found = msgspec.json.decode(row)
        except msgspec.DecodeError:
            found = json.loads(row)  # NaN and infinities, which Python writes
    except (ValueError, RecursionError) as problem:
        said = "it is nested too deeply" if isinstance(problem, RecursionError) else " ".join(str(problem).split())
        raise InvalidInput(f"{path}, line {number}: cannot be read as JSON: {said[:200]}") from None
    if not isinstance(found, dict):
        raise InvalidInput(
            f'{path}, line {number}: must be an object like {{"age": 7}}, got {row[:40].decode(errors="replace")!r}'
        )
    return found


def _text(path: Path, line: Line, name: str) -> str | None:
    """Return a value as text; nothing is no text."""
    value = line.cells.get(name)
    if value is None or isinstance(value, str):
        fault = value is not None and not _is_text(value)
    else:
        fault = isinstance(value, dict | list)
    if fault:
        kind = "text in UTF-8" if isinstance(value, str) else "a number, text, true, false or null"
        advice = f"leave the column out by drop=[{name!r}] (--drop {name})"
        raise InvalidInput(f"{path}, line {line.number}, column {name!r}: must be {kind}; {advice}")
    return value if value is None or isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of code units
        return False
    return True


def _place(path: Path, row: int) -> str:
    """Say on which line a row stands."""
    left = row
    for lines in _blocks(path):
        if left < len(lines):
            return f"line {lines[left].number}"
        left -= len(lines)
    return f"row {row}"
