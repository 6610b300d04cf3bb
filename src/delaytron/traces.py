"""Recorded delays: read from files and checked."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.records import NEVER


def check_trace(values: Any, never: int, lines: list[int] | None) -> NDArray[np.int64]:
    """Return recorded delays with NEVER where `never` stands; `lines` says where each one was read."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidInput("a trace must be a 1-D sequence, got rows of different lengths") from None
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InvalidInput(f"a trace must be 1-D whole numbers, got shape {given.shape} of {given.dtype}")
    given = given.astype(np.uint64 if given.dtype.kind == "u" else np.int64)
    for i in np.flatnonzero((given < 1) & (given != never))[:1]:
        place = f"line {lines[i]}" if lines else f"index {i}"
        raise InvalidInput(f"a delay must be at least 1, or {never} for never; got {given[i]} at {place}")
    return np.where(given == never, NEVER, np.minimum(given, NEVER)).astype(np.int64)


def read_trace(path: Path) -> tuple[Any, list[int] | None]:
    """Return the numbers of a trace file, and their line numbers where it is text."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            if path.name.removesuffix(".gz").endswith(".npy"):
                return np.lib.format.read_array(file, allow_pickle=False), None
            text = file.read().decode("utf-8-sig")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InvalidInput(f"cannot read the trace {str(path)!r}: {error}") from None
    return _numbers(text)


def _numbers(text: str) -> tuple[list[int], list[int]]:
    words = (row.partition("#")[0].strip() for row in text.splitlines())
    rows = [(line, word) for line, word in enumerate(words, start=1) if word]
    header = bool(rows) and rows[0][1].lstrip("\"'")[:1].isalpha()
    for line, word in rows[header:]:
        if not word.removeprefix("-").isdecimal() or len(word) > 99:
            raise InvalidInput(f"a trace has one whole number per line, got {word!r} at line {line}")
    values = [max(-NEVER, min(int(word), NEVER)) for _, word in rows[header:]]
    return values, [line for line, _ in rows[header:]]
