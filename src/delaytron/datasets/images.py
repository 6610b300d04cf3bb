"""Images: pixels as their publishers store them, and features that networks made of them."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of bytes in a gzipped idx file: two zeros, 8 for bytes, the dimensions, the sizes, the values."""
    with gzip.open(path) as file:
        raw = file.read()
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise InvalidInput(f"{path} must be an idx file of bytes, but it starts with {raw[:4].hex(' ')}")
    shape = tuple(np.frombuffer(raw, ">u4", count=raw[3], offset=4).tolist())
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if values.size != np.prod(shape, dtype=np.int64):
        raise InvalidInput(f"{path} must hold {' x '.join(map(str, shape))} bytes, but has {values.size}")
    return values.reshape(shape)
