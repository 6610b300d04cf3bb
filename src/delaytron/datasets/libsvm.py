"""LIBSVM (SVMlight) files, `LABEL INDEX:VALUE ...` a line: read quickly in blocks, and slowly where one is wrong.

A block is turned into one number a line and read by pyarrow's CSV parser, several times faster than token by token.
That parser cannot tell which line a number came from, so the places of the tokens are checked first, by their bytes.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.datasets.base import Block
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.compressed import blocks_of_lines
from delaytron.matrices import is_sparse, stack_rows
from delaytron.records import Array, Bytes, Ints

BLOCK_BYTES = 2 * 2**20  # of text; parsing takes some ten times as much for a moment
LARGEST = 2**31 - 1  # of the indices: those of a CSR matrix have 32 bits
COLON, NEWLINE, SPACE = b":\n "
ONE_A_LINE = bytes.maketrans(b": \t\r\v\f", b"\n" * 6)
AT_ZERO = re.compile(rb"[ \t\v\f]0+:")  # an index of 0
NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def read_libsvm(path: Path, zero_based: str = "auto") -> Block:
    """Read a whole file."""
    blocks = list(open_libsvm(path, zero_based)())
    width = max(block.X.shape[1] for block in blocks)
    X = stack_rows([widen(block.X, width) for block in blocks])
    return blocks[0]._replace(X=X, labels=np.concatenate([block.labels for block in blocks]))


def open_libsvm(path: Path, zero_based: str = "auto") -> Callable[[], Iterator[Block]]:
    """Return what goes through a file, a few megabytes at a time; by default it is first searched for an index of 0."""
    asked = check_choice("zero_based", zero_based, ("auto", "yes", "no"))
    if asked != "auto":
        return partial(libsvm_blocks, path, int(asked == "no"), "as asked for")
    line = _line_of_zero(path)
    return partial(libsvm_blocks, path, int(not line), f"line {line} has an index of 0" if line else "there is no 0")


def _line_of_zero(path: Path) -> int:
    """Return the first line with an index of 0, as scikit-learn counts by default; 0 if there is none."""
    for first, text in blocks_of_lines(path, BLOCK_BYTES):
        found = AT_ZERO.search(_without_comments(text))
        if found:
            return first + text.count(b"\n", 0, found.start())
    return 0


def _without_comments(text: bytes) -> bytes:
    """Blank comments out, so that all else stays where it is."""
    return re.sub(rb"#[^\n]*", lambda found: b" " * len(found[0]), text) if b"#" in text else text


def libsvm_blocks(path: Path, base: int = 1, reason: str = "as asked for") -> Iterator[Block]:
    """Iterate over a file, a few megabytes at a time; each block is as wide as its own largest index."""
    empty = True
    notes = (f"indices: from {base} ({reason})",)
    for first, commented in blocks_of_lines(path, BLOCK_BYTES):
        text = _without_comments(commented)
        block = _parse(text, base)
        if block is None:
            raise InvalidInput(f"{path}, {_fault(text, first, base)}")
        if block.labels.size:
            empty = False
            yield block._replace(notes=notes)
    if empty:
        raise InvalidInput(f"{path}, line 1: there must be at least one row LABEL INDEX:VALUE ..., got an empty file")


def widen(X: Any, n_features: int) -> Any:
    """Return a CSR matrix with empty columns added on the right, without copying it; a dense one has its width."""
    if not is_sparse(X):
        return X
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


def _parse(text: bytes, base: int) -> Block | None:
    """Read whole lines; None where any of them is not as it should be."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    pairs = _pairs_per_row(np.frombuffer(text, np.uint8))
    numbers = None if pairs is None else _numbers(text)
    if pairs is None or numbers is None or numbers.size != pairs.size + 2 * pairs.sum():
        return None
    ends = np.concatenate([[0], np.cumsum(pairs)])
    labels = np.zeros(numbers.size, np.bool_)
    labels[2 * ends[:-1] + np.arange(pairs.size)] = True
    rest = numbers[~labels].reshape(-1, 2)
    if not _rising(rest[:, 0], ends, base):
        return None
    indices = (rest[:, 0] - base).astype(np.int32)
    width = int(indices.max(initial=0)) + 1
    X = csr_array((np.ascontiguousarray(rest[:, 1]), indices, ends.astype(np.int32)), shape=(pairs.size, width))
    return Block(X, numbers[labels])


def _pairs_per_row(text: Bytes) -> Ints | None:
    """Count the pairs INDEX:VALUE of every row; None if a token is not where it should be."""
    blank = text <= SPACE
    begins = ~blank
    begins[1:] &= blank[:-1]
    tokens, lines = np.flatnonzero(begins), np.flatnonzero(text == NEWLINE)
    first = np.unique(np.searchsorted(tokens, np.concatenate([[0], lines])))  # tokens of their lines
    first = first[first < tokens.size]
    pairs = np.ones(tokens.size, np.bool_)
    pairs[first] = False
    ends = np.append(tokens[1:], text.size)
    colons = np.flatnonzero(text == COLON)
    if colons.size != tokens.size - first.size or blank[colons + 1].any():
        return None
    if (colons <= tokens[pairs]).any() or (colons >= ends[pairs]).any():
        return None
    return np.asarray(np.diff(first, append=tokens.size) - 1)


def _numbers(text: bytes) -> Array | None:
    """Return all numbers of a text that has nothing else; None if it has, or if one is not finite."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import csv  # noqa: PLC0415

    try:
        table = csv.read_csv(
            pa.BufferReader(text.translate(ONE_A_LINE)),
            csv.ReadOptions(column_names=["number"]),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types={"number": pa.float64()}, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    numbers: NDArray[np.float64] = table["number"].to_numpy()
    return numbers if np.isfinite(numbers).all() else None


def _rising(indices: Array, ends: Ints, base: int) -> bool:
    """Whether all indices are integers from the first on and rise within every row."""
    rises = np.ones(indices.size, np.bool_)
    rises[1:] = np.diff(indices) > 0
    rises[ends[:-1][ends[:-1] < indices.size]] = True
    whole = bool((indices == np.floor(indices)).all())
    return bool(rises.all()) and whole and indices.min(initial=base) >= base and indices.max(initial=1) <= LARGEST


def _fault(text: bytes, first: int, base: int) -> str:
    """Return what is wrong in the first line that is not as it should be, and its number."""
    for line, row in enumerate(text.splitlines(), start=first):
        fault = _fault_of_row(row.split(), base)
        if fault:
            return f"line {line}: {fault}"
    return f"lines {first} to {line}: cannot be read as LABEL INDEX:VALUE ..."


def _fault_of_row(tokens: list[bytes], base: int) -> str:
    if tokens and not _is_number(tokens[0]):
        return f"the label must be a finite number, got {_shown(tokens[0])}"
    before = base - 1
    for token in tokens[1:]:
        index, colon, value = token.partition(b":")
        if not colon or not index.isdigit() or not _is_number(value):
            return f"a feature must be INDEX:VALUE with finite numbers, got {_shown(token)}"
        if not base <= int(index[:20]) <= LARGEST:
            return f"an index must be from {base} to {LARGEST}, got {_shown(token)}; see zero_based (--zero-based)"
        if int(index) <= before:
            return f"indices must rise, got {int(index)} after {before}"
        before = int(index)
    return ""


def _is_number(token: bytes) -> bool:
    return NUMBER.fullmatch(token) is not None and isfinite(float(token))


def _shown(token: bytes) -> str:
    return repr(token[:40].decode("utf-8", "replace"))
