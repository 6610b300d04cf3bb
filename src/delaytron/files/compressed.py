"""Text files, plain or compressed: by their endings, and with a clear word where one breaks off or explodes."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.arrays import reason

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNSUSPICIOUS = 2**28  # bytes: what a file may always unpack to
LARGEST_RATIO = 100  # of unpacked to packed beyond that; tables of numbers have 3 to 30
CHUNK = 2**18  # bytes unpacked at a time
LONGEST_LINE = 2**26  # bytes; a longer one is no row, and may be made to fill the memory
BROKEN = (EOFError, zlib.error, lzma.LZMAError, OSError)  # what the openers raise where a file breaks off or is none


def plain_suffix(path: Path) -> str:
    """Return the ending of a file that says what is in it, in lower case.

    Examples
    --------
    >>> plain_suffix(Path("news20.SVM.bz2")), plain_suffix(Path("table.csv"))
    ('.svm', '.csv')
    """
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return name.suffix.lower()


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading; what is compressed is read as what it was, unless that is suspiciously large."""
    opener = OPENERS.get(path.suffix.lower())
    if opener is None:
        return path.open("rb")
    return io.BufferedReader(_Unpacked(path, opener), CHUNK)


@contextmanager
def packing(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Give a file to write into whose content is compressed as the ending of the path says, so that it is read again.

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


class _Unpacked(io.RawIOBase):
    """What is in a compressed file, as long as it is not much larger than what was read for it."""

    def __init__(self, path: Path, opener: Callable[..., Any]) -> None:
        self.path = path
        self.packed = path.open("rb")
        self.file = opener(self.packed, "rb")
        self.unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.file.read1(len(buffer))  # not all of it: a part may be left of a file that breaks off
        buffer[: len(content)] = content
        self.unpacked += len(content)
        check_ratio(self.path, self.unpacked, self.packed.tell(), "unpack it by yourself if you trust it")
        return len(content)

    def close(self) -> None:
        self.file.close()
        self.packed.close()
        super().close()


def check_ratio(path: Path, unpacked: int, packed: int, advice: str) -> None:
    """Raise if a file unpacks to so much more than it has that it may be made to fill the memory.

    Examples
    --------
    >>> check_ratio(Path("a.csv.gz"), 2**30, 2**28, "unpack it")
    """
    if unpacked > max(UNSUSPICIOUS, LARGEST_RATIO * packed):
        raise InvalidInput(
            f"{path}: {packed / 2**20:.1f} MB of it unpack to more than {unpacked // 2**20:,} MB, over {LARGEST_RATIO} "
            f"times as much, as in files that are made to fill a memory; {advice}"
        )


def blocks_of_lines(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Iterate over a file in blocks of whole lines, each with the number of its first line; the last line ends, too."""
    first = 1
    with reading(path), open_binary(path) as file:
        while block := file.read(size):
            rest = file.readline(LONGEST_LINE)
            check_line(path, first + block.count(b"\n"), len(rest))
            block += rest
            yield first, block if block.endswith(b"\n") else block + b"\n"
            first += block.count(b"\n")


def check_line(path: Path, number: int, length: int) -> None:
    """Raise if a line is so long that it was read only in part."""
    if length >= LONGEST_LINE:
        most = LONGEST_LINE // 2**20
        raise InvalidInput(f"{path}, line {number}: a line may have at most {most} MB, got more; is it a text file?")


class Quiet:
    """A file for pyarrow, whose threads hang where one raises: it ends there instead, and `check` raises afterwards.

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
        """Return the next bytes; none at the end, or where they cannot be read."""
        if self.problem is not None:
            return b""
        try:
            return self.file.read(size)
        except Exception as problem:
            self.problem = problem
            return b""

    def check(self) -> None:
        """Raise what went wrong."""
        if self.problem is not None:
            raise self.problem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read to its end which it is, and in which line it breaks off."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {with_advice(problem)}") from None
    except BROKEN as problem:
        step = "take an undamaged copy, or rename the file if it is not compressed"
        line = _readable_lines(path) + 1
        raise InvalidInput(f"{path}, line {line}: cannot be read on: {reason(problem)}; {step}") from None


def _readable_lines(path: Path) -> int:
    """Count the lines before the place where a file breaks off."""
    count = 0
    with suppress(*BROKEN), open_binary(path) as file:
        for _ in file:
            count += 1
    return count
