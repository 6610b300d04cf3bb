"""Text files, plain or compressed: blocks of lines, rows of delimited files, and the line of an error in them."""

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from delaytron.errors import InvalidInput
from delaytron.files.atomic import cannot
from delaytron.files.tensors import reason

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNSUSPICIOUS = 2**28  # bytes: what a file may always decompress to
LARGEST_RATIO = 100  # of decompressed to compressed size beyond that; tables of numbers have 3 to 30
CHUNK = 2**18  # bytes decompressed at a time
LONGEST_LINE = 2**26  # bytes; a longer one is not a row, and may be made to fill the memory
BROKEN = (EOFError, zlib.error, lzma.LZMAError, OSError)  # raised for truncated files and for other formats


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file in lower case, without that of a compression.

    Examples
    --------
    >>> plain_suffix(Path("news20.SVM.bz2")), plain_suffix(Path("table.csv"))
    ('.svm', '.csv')
    """
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return name.suffix.lower()


def open_binary(path: Path) -> BinaryIO:
    """Return a file opened for reading, decompressed if its suffix says so.

    Raises OSError if it cannot be opened. Reading raises InvalidInput at a decompression bomb.
    """
    opener = OPENERS.get(path.suffix.lower())
    if opener is None:
        return path.open("rb")
    return io.BufferedReader(_Decompressed(path, path.open("rb"), opener), CHUNK)


@contextmanager
def packing(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write into, whose content is compressed as the suffix of the path says.

    Examples
    --------
    >>> packed = io.BytesIO()
    >>> with packing(packed, Path("log.dsjson.gz")) as file:
    ...     count = file.write(b"some lines")
    >>> gzip.decompress(packed.getvalue())
    b'some lines'
    """
    opener = OPENERS.get(path.suffix.lower())
    if opener is None:
        yield file
        return
    with opener(file, "wb") as packed:
        yield packed


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; reading raises InvalidInput if it is far larger than the file."""

    def __init__(self, path: Path, packed: BinaryIO, opener: Callable[..., Any]) -> None:
        self.path = path
        self.packed = packed
        self.file = opener(packed, "rb")
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.file.read1(len(buffer))  # `read` would lose the part before the place where a file is truncated
        buffer[: len(content)] = content
        self.unpacked += len(content)
        check_ratio(self.path, self.unpacked, self.packed.tell(), "decompress it first if you trust it")
        return len(content)

    def close(self) -> None:
        self.file.close()
        self.packed.close()
        super().close()


def check_ratio(path: Path, unpacked: int, packed: int, hint: str) -> None:
    """Raise InvalidInput if a file of `packed` bytes is a decompression bomb.

    Examples
    --------
    >>> check_ratio(Path("a.csv.gz"), 2**30, 2**28, "decompress it")
    """
    if unpacked > max(UNSUSPICIOUS, LARGEST_RATIO * packed):
        raise InvalidInput(
            f"{path}: {packed / 2**20:.1f} MB of it unpack to more than {unpacked // 2**20:,} MB, "
            f"over {LARGEST_RATIO} times as much: a decompression bomb?",
            hint,
        )


def blocks_of_lines(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of whole lines of a file, each with the number of its first line; the last line ends in LF, too.

    Raises InvalidInput if the file cannot be read, or at a line that is too long.
    """
    first = 1
    with reading(path), open_binary(path) as file:
        while block := file.read(size):
            rest = file.readline(LONGEST_LINE)
            check_line(path, first + block.count(b"\n"), len(rest))
            block += rest
            yield first, block if block.endswith(b"\n") else block + b"\n"
            first += block.count(b"\n")


def check_line(path: Path, number: int, length: int) -> None:
    """Raise InvalidInput if a line is so long that only a part of it was read."""
    if length >= LONGEST_LINE:
        most = LONGEST_LINE // 2**20
        raise InvalidInput(
            f"{path}, line {number}: a line may have at most {most} MB, got more", "give a text file with shorter lines"
        )


class Quiet:
    """A file for pyarrow, whose threads hang if `read` raises: here reading ends, and `check` raises the error later.

    Parameters
    ----------
    file : binary file
        What is read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.problem: Exception | None = None
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end, or after an error."""
        if self.problem is not None:
            return b""
        try:
            return self.file.read(size)
        except Exception as problem:
            self.problem = problem
            return b""

    def check(self) -> None:
        """Raise the error that ended the reading, if any."""
        if self.problem is not None:
            raise self.problem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into InvalidInput with its path and, if it is damaged, the line."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise cannot("read", path, problem) from None
    except BROKEN as problem:
        line = 1
        with suppress(*BROKEN), open_binary(path) as file:
            for _ in file:
                line += 1
        hint = "take an undamaged copy, or rename the file if it is not compressed"
        raise InvalidInput(f"{path}, line {line}: cannot be read any further: {reason(problem)}", hint) from None


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a delimited file, each with the number of its first line; blank lines are skipped.

    Raises InvalidInput with the line at a wrong quote, at a line that is too long, and at text that is not UTF-8.
    """
    lines = _lines(path)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    begin = 1
    with reading(path), closing(lines):  # closed after an error, too, whose traceback keeps the reader alive
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as problem:
                raise InvalidInput(f"{path}, line {begin}: {_fault(problem)}", QUOTES) from None
            if cells is None:
                return
            if cells:
                yield begin, cells
            begin = reader.line_num + 1


QUOTES = 'close every quote, and write a quote inside of a cell as ""'


def _fault(problem: csv.Error) -> str:
    """Return what is wrong with a row, in our own words."""
    # The csv module has one class of errors, so only its text distinguishes them.
    if "field limit" in str(problem):
        return f"a cell has more than {csv.field_size_limit()} letters, or a quote is opened and never closed"
    if "unexpected end of data" in str(problem):
        return "a quote is opened and never closed"
    return f"a quoted cell is not valid: {problem}"


def _lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines with their ends, as the csv module needs them; raise InvalidInput as `records` does."""
    with io.TextIOWrapper(open_binary(path), "utf-8-sig", errors="surrogateescape", newline="") as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), start=1):
            check_line(path, number, len(line))
            try:
                line.encode()
                is_text = "\0" not in line
            except UnicodeEncodeError:  # of bytes that are not UTF-8
                is_text = False
            if not is_text:
                raise InvalidInput(f"{path}, line {number}: must be text in UTF-8", "save the file in UTF-8")
            yield line


def place_of(path: Path, delimiter: str, number: int) -> str:
    """Return the line on which a row begins, such as "line 7"; row 0 is the first of the file, header or not."""
    lines = (line for i, (line, _) in enumerate(records(path, delimiter)) if i == number)
    line = next(lines, None)
    return f"row {number}" if line is None else f"line {line}"  # the file may have changed since


def refuse_ragged(path: Path, delimiter: str, n_columns: int) -> None:
    """Raise InvalidInput if not every row of a delimited file has this number of cells, with the first such line."""
    for line, cells in records(path, delimiter):
        if len(cells) != n_columns:
            raise InvalidInput(
                f"{path}, line {line}: must have {n_columns} cells like the first row, got {len(cells)}",
                "add or remove cells; a cell that holds the delimiter must be in quotes",
            )
