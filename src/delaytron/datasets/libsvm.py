"""LIBSVM (SVMlight) files, `LABEL INDEX:VALUE ...` on each line, read in blocks.

A block is turned into one number a line and read by pyarrow's CSV parser, several times faster than token by token.
That parser does not say which line a number came from, so the places of the tokens are checked first, by their bytes;
a block that is not valid is parsed token by token, for the message.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import is_sparse, stack_rows
from delaytron.datasets.dataset import Block
from delaytron.errors import InvalidInput, Setting, Text
from delaytron.extras import needs
from delaytron.files.text import blocks_of_lines
from delaytron.records import Array, Bytes, Ints

BLOCK_BYTES = 2 * 2**20  # of text; parsing takes some ten times as much for a moment
LARGEST = 2**31 - 1  # of the indices: those of a CSR matrix have 32 bits
COLON, NEWLINE, SPACE = b":\n "
ONE_A_LINE = bytes.maketrans(b": \t\r\v\f", b"\n" * 6)
AT_ZERO = re.compile(rb"[ \t\v\f]0+:")  # an index of 0
NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def read_libsvm(path: Path, zero_based: bool | None = None) -> Block:
    """Return all rows of a file; raise InvalidInput with the line at which it is not valid."""
    blocks = list(open_libsvm(path, zero_based)())
    width = max(block.X.shape[1] for block in blocks)
    X = stack_rows([widen(block.X, width) for block in blocks])
    return blocks[0]._replace(X=X, labels=np.concatenate([block.labels for block in blocks]))


def open_libsvm(path: Path, zero_based: bool | None = None) -> Callable[[], Iterator[Block]]:
    """Return a function that iterates over a file in blocks; by default it is first searched for an index of 0."""
    if zero_based is not None:
        return partial(libsvm_blocks, path, int(not zero_based), "as asked for")
    blocks = blocks_of_lines(path, BLOCK_BYTES)
    if any(AT_ZERO.search(_without_comments(text)) for _, text in blocks):  # as scikit-learn writes them by default
        return partial(libsvm_blocks, path, 0, "there is a 0")
    return partial(libsvm_blocks, path, 1, "there is no 0")


def _without_comments(text: bytes) -> bytes:
    """Return a text with its comments overwritten by spaces, so that everything else keeps its place."""
    return re.sub(rb"#[^\n]*", lambda found: b" " * len(found[0]), text) if b"#" in text else text


def libsvm_blocks(path: Path, base: int, reason: str) -> Iterator[Block]:
    """Iterate over a file with indices from `base`, a few megabytes at a time; a block is as wide as its largest index.

    Raises InvalidInput with the line at which it is not valid.
    """
    empty = True
    notes = (f"indices: from {base} ({reason})",)
    for first, commented in blocks_of_lines(path, BLOCK_BYTES):
        text = _without_comments(commented)
        block = _parse(text, base)
        if block is None:
            place, problem, hint = _fault(text, first, base)
            raise InvalidInput(f"{path}, {place}: {problem}", hint)
        if block.labels.size:
            empty = False
            yield block._replace(notes=notes)
    if empty:
        raise InvalidInput(
            f"{path}, line 1: there must be at least one row LABEL INDEX:VALUE ..., got an empty file", "add rows"
        )


def widen(X: Any, n_features: int) -> Any:
    """Return a CSR matrix with empty columns added on the right, without a copy; a dense one as it is."""
    if not is_sparse(X):
        return X
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


def _parse(text: bytes, base: int) -> Block | None:
    """Return the rows of whole lines; None if any line is not valid."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    pairs = _pairs_per_row(np.frombuffer(text, np.uint8))
    numbers = None if pairs is None else _numbers(text)
    if pairs is None or numbers is None or numbers.size != pairs.size + 2 * pairs.sum():
        return None
    ends = np.concatenate([[0], np.cumsum(pairs)])
    labels = np.zeros(numbers.size, np.bool_)
    labels[2 * ends[:-1] + np.arange(pairs.size)] = True  # before that of row i: i labels, two numbers for each pair
    rest = numbers[~labels].reshape(-1, 2)
    found = rest[:, 0]
    rises = np.ones(found.size, np.bool_)
    rises[1:] = np.diff(found) > 0
    rises[ends[:-1][ends[:-1] < found.size]] = True  # the first pair of a row
    whole = (found == np.floor(found)).all()
    if not rises.all() or not whole or found.min(initial=base) < base or found.max(initial=1) > LARGEST:
        return None
    indices = (found - base).astype(np.int32)
    width = int(indices.max(initial=0)) + 1
    X = csr_array((np.ascontiguousarray(rest[:, 1]), indices, ends.astype(np.int32)), shape=(pairs.size, width))
    return Block(X, numbers[labels])


def _pairs_per_row(text: Bytes) -> Ints | None:
    """Return the number of pairs INDEX:VALUE of every row; None if a token is out of place."""
    blank = text <= SPACE
    begins = ~blank
    begins[1:] &= blank[:-1]
    tokens, lines = np.flatnonzero(begins), np.flatnonzero(text == NEWLINE)
    first = np.unique(np.searchsorted(tokens, np.concatenate([[0], lines])))  # the labels; blank lines have none
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
    """Return all numbers of a text; None if it holds anything else, or one that is not finite."""
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


def _fault(text: bytes, first: int, base: int) -> tuple[str, str, Text]:
    """Return where the first line is that is not valid, what is wrong with it, and a hint."""
    for line, row in enumerate(text.splitlines(), start=first):
        tokens = row.split()
        if tokens and not _is_number(tokens[0]):
            problem = f"the label must be a finite number, got {_shown(tokens[0])}"
            return f"line {line}", problem, "number the classes"
        before = base - 1
        for token in tokens[1:]:
            index, colon, value = token.partition(b":")
            if not colon or not index.isdigit() or not _is_number(value):
                problem = f"a feature must be INDEX:VALUE with finite numbers, got {_shown(token)}"
                return f"line {line}", problem, "correct it, or leave it out"
            if not base <= int(index[:20]) <= LARGEST:  # int() refuses thousands of digits
                problem = f"an index must be from {base} to {LARGEST}, got {_shown(token)}"
                return f"line {line}", problem, ("see ", Setting("zero_based"))
            if int(index) <= before:
                problem = f"indices must rise, got {int(index)} after {before}"
                return f"line {line}", problem, "sort the features of every row, each once"
            before = int(index)
    return f"lines {first} to {line}", "cannot be read as LABEL INDEX:VALUE ...", "write them again"


def _is_number(token: bytes) -> bool:
    return NUMBER.fullmatch(token) is not None and isfinite(float(token))


def _shown(token: bytes) -> str:
    return repr(token[:40].decode("utf-8", "replace"))
