"""Arrays in NumPy's own files: never code, and never more memory than the file has bytes for."""

import math
import zipfile
import zlib
from contextlib import suppress
from lzma import LZMAError
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

CODE = "it holds Python objects, which may run code; save plain numbers instead"
BROKEN = (  # what a damaged file leads to; RuntimeError: an encrypted one, an unknown compression, deep nesting
    *(OSError, EOFError, ValueError, TypeError, SyntaxError, KeyError, RuntimeError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, LZMAError, TokenError),
)


def read_npy(file: IO[bytes], size: int) -> NDArray[Any]:
    """Return the array of a file of `size` bytes, which must have all the bytes that its header tells of.

    Examples
    --------
    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> np.save(file, np.arange(3))
    >>> read_npy(file, file.tell())
    array([0, 1, 2])
    """
    file.seek(0)
    shape, dtype = _header(file)
    if dtype.hasobject:
        raise ValueError(CODE)
    expected = math.prod(shape) * dtype.itemsize
    there = size - file.tell()
    if min(shape, default=0) < 0 or expected > there:
        raise ValueError(f"it should hold {shape} numbers of {dtype}, {expected:,} bytes, but has {there:,}")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    if version > (2, 0):  # of arrays whose fields have names beyond Latin-1
        raise ValueError(f"it is a .npy file of version {version[0]}, and only 1 and 2 hold plain numbers")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def reason(problem: BaseException) -> str:
    """Say in one line why a file cannot be read."""
    with suppress(IndexError):
        return str(problem).strip().splitlines()[0]
    return type(problem).__name__
