"""Text files, plain or compressed: by their endings, and with a clear word where one breaks off."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from delaytron.errors import InvalidInput

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
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
    """Open a file for reading; what is compressed is read as what it was."""
    opener: Callable[..., BinaryIO] = OPENERS.get(path.suffix.lower(), open)
    return opener(path, "rb")


def blocks_of_lines(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Iterate over a file in blocks of whole lines, each with the number of its first line; the last line ends, too."""
    first = 1
    with reading(path), open_binary(path) as file:
        while block := file.read(size):
            block += file.readline()
            yield first, block if block.endswith(b"\n") else block + b"\n"
            first += block.count(b"\n")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read to its end which it is, and in which line it breaks off."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {problem.strerror}") from None
    except BROKEN as problem:
        reason = str(problem) or type(problem).__name__
        raise InvalidInput(f"{path}, line {_readable_lines(path) + 1}: cannot be read on: {reason}") from None


def _readable_lines(path: Path) -> int:
    """Count the lines before the place where a file breaks off."""
    count = 0
    with suppress(*BROKEN), open_binary(path) as file:
        for _ in file:
            count += 1
    return count
