"""Files of recorded delays: one number per line, .npy, or a table with columns of times."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.arrays import BROKEN, read_npy, reason
from delaytron.files.compressed import open_binary, plain_suffix, reading
from delaytron.files.lines import place_of, refuse_ragged
from delaytron.records import NEVER

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 2**16  # bytes in which the header of a table must end


def read_content(path: Path) -> bytes:
    """Return what is in a file, decompressed where its name says so."""
    with reading(path), open_binary(path) as file:
        content = file.read()
    if content.startswith(b"PAR1"):
        raise InvalidInput(f"{path}: a trace is CSV, TSV, text or .npy, not Parquet; read it and use Trace.from_times")
    return content


def read_numbers(path: Path, content: bytes) -> tuple[Any, list[int] | None]:
    """Return the numbers of a file without columns, and their line numbers where it is text."""
    try:
        if plain_suffix(path) == ".npy":
            return read_npy(io.BytesIO(content), len(content)), None
        rows = _filled_lines(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: must be text in UTF-8, or end in .npy; save the file as such") from None
    except BROKEN as problem:
        raise InvalidInput(f"{path}: cannot be read, {reason(problem)}; save 1-D integers by numpy.save") from None
    for line, word in rows:
        if not word.removeprefix("-").isdecimal() or len(word) > 99:
            raise InvalidInput(f"{path}, line {line}: a trace has one integer per line, got {word!r}")
    if not rows:
        raise InvalidInput(f"{path}: there is no delay in this file; write an integer in each line")
    return [max(-NEVER, min(int(word), NEVER)) for _, word in rows], [line for line, _ in rows]


def _filled_lines(text: str) -> list[tuple[int, str]]:
    """Return what stands in each line but comments and a header."""
    words = (row.partition("#")[0].strip() for row in text.splitlines())
    rows = [(line, word) for line, word in enumerate(words, start=1) if word]
    return rows[1:] if rows and _is_header(rows[0][1]) else rows


def _is_header(line: str) -> bool:
    return line.lstrip("\"'")[:1].isalpha()


@dataclass(frozen=True)
class TraceTable:
    """A CSV or TSV file with a header, in memory."""

    path: Path
    content: bytes
    names: tuple[str, ...]
    delimiter: str

    def place(self, row: int) -> str:
        """Say where a row of values stands."""
        return f"{self.path}, {place_of(self.path, self.delimiter, row + 1)}"

    def starting(self, word: str) -> str | None:
        """Return the name of the only column that starts so, in any case."""
        found = [name for name in self.names if name.strip().lower().startswith(word)]
        return found[0] if len(found) == 1 else None

    def columns(self, names: Sequence[str]) -> "list[pa.Array]":
        """Return the columns of these names as text."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        for name in names:
            if self.names.count(name) != 1:
                there = ", ".join(self.names)
                raise InvalidInput(f"{self.path}: there must be one column {name!r}; the columns are {there}")
        try:
            table = self._read(names)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as problem:  # the latter: a name that is no text
            refuse_ragged(self.path, self.delimiter, len(self.names))
            raise InvalidInput(f"{self.path}: cannot be read as CSV, {reason(problem)}; write it again") from None
        if not table.num_rows:
            raise InvalidInput(f"{self.path}: there is no row below the header; add rows, or name another file")
        return [table.column(name).combine_chunks() for name in names]

    def _read(self, names: Sequence[str]) -> "pa.Table":
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import
        from pyarrow import csv as arrow  # noqa: PLC0415

        return arrow.read_csv(
            pa.BufferReader(self.content),
            parse_options=arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=arrow.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string())),
        )


def as_table(path: Path, content: bytes) -> TraceTable | None:
    """Return a file as a table, if it begins with a header."""
    lines = content[:HEAD].decode("utf-8-sig", "replace").lstrip().splitlines()
    if not lines or not _is_header(lines[0]):
        return None
    delimiter = next((mark for mark in "\t,;" if mark in lines[0]), ",")
    return TraceTable(path, content, tuple(next(csv.reader(lines[:1], delimiter=delimiter))), delimiter)
