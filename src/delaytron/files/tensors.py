"""Arrays in files: .npy, and safetensors with a digest; no code is run, and no more memory taken than a file has."""

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from lzma import LZMAError
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, TypeAlias

from numpy.lib import format as npy
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.files.atomic import cannot

Tensors: TypeAlias = dict[str, NDArray[Any]]

BROKEN = (  # what a damaged file leads to; RuntimeError: an encrypted one, an unknown compression, deep nesting
    *(OSError, EOFError, ValueError, TypeError, SyntaxError, KeyError, RuntimeError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, LZMAError, TokenError),
)
MAX_HEADER = 2**16  # bytes; ours have some 2,000
DIGEST = "sha256"  # the key of the digest in the metadata of a safetensors file
BLANK = b"0" * 64  # in the place of the digest while it is computed
SQLITE = b"SQLite f"  # the first bytes of a database
OURS = "give a file that save(path) wrote, or restore it from a backup"


def reason(problem: BaseException) -> str:
    """Return why a file cannot be read: the first line of a message. NumPy's further lines suggest unsafe options."""
    with suppress(IndexError):
        return str(problem).strip().splitlines()[0]
    return type(problem).__name__


def read_npy(file: IO[bytes], size: int) -> NDArray[Any]:
    """Return the array of a .npy file of `size` bytes.

    Raises ValueError if the array holds Python objects, which may run code, or if there are fewer bytes than the header
    announces: NumPy would allocate memory for all of them first.

    Examples
    --------
    >>> from io import BytesIO
    >>> import numpy as np
    >>> file = BytesIO()
    >>> np.save(file, np.arange(3))
    >>> read_npy(file, file.tell())
    array([0, 1, 2])
    """
    file.seek(0)
    version = npy.read_magic(file)
    if version > (2, 0):  # of arrays whose fields have names beyond Latin-1
        raise ValueError(f"it is a .npy file of version {version[0]}, and only 1 and 2 hold plain numbers")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which may run code; save plain numbers instead")
    expected = math.prod(shape) * dtype.itemsize
    available = size - file.tell()
    if min(shape, default=0) < 0 or expected > available:
        raise ValueError(f"it should hold {shape} numbers of {dtype}, {expected:,} bytes, but has {available:,}")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def pack_tensors(tensors: Mapping[str, NDArray[Any]], texts: Mapping[str, str]) -> tuple[bytes, memoryview]:
    """Return the two parts of a safetensors file, header and numbers; the same content gives the same bytes.

    `texts` are its metadata, and `DIGEST` is added to them: the SHA-256 of the whole file, computed with 64 zeros in
    its own place. The library writes metadata in a random order, so the header is written here.
    """
    from safetensors.numpy import save  # noqa: PLC0415 - only needed here

    content = memoryview(save(dict(tensors)))
    end = 8 + int.from_bytes(content[:8], "little")
    all_texts = {DIGEST: BLANK.decode(), **dict(sorted(texts.items()))}
    header = json.dumps(
        {"__metadata__": all_texts, **json.loads(bytes(content[8:end]))}, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % 8)  # numbers begin at a multiple of 8
    head = len(header).to_bytes(8, "little") + header
    digest = sha256(head)
    digest.update(content[end:])
    return head.replace(BLANK, digest.hexdigest().encode(), 1), content[end:]


def read_tensors(path: Path) -> tuple[dict[str, str], Tensors]:
    """Return the metadata and the arrays of a safetensors file.

    Raises InvalidInput if it is not one, or damaged, or cannot be read.
    """
    try:
        if not path.exists():
            raise InvalidInput(f"there is no file {path}", "check the path")
        if not path.is_file():
            raise InvalidInput(f"{path} is not a safetensors file: it is a folder, a device or a pipe", OURS)
        with path.open("rb") as file:
            begin = file.read(8)
            if begin == SQLITE:
                raise InvalidInput(f"{path} is a database, not a safetensors file", "open a journal by dt.Model.open")
            length = int.from_bytes(begin, "little")
            if length > MAX_HEADER:  # before the rest is read, which may be very large
                raise InvalidInput(f"{path} is not a safetensors file: its header would have {length} bytes", OURS)
            content = begin + file.read()
    except OSError as problem:
        raise cannot("read", path, problem) from None
    return unpack_tensors(content, str(path))


def unpack_tensors(content: bytes, source: str) -> tuple[dict[str, str], Tensors]:
    """Return the metadata and the arrays of the content of a safetensors file; `source` is its name in errors.

    Raises InvalidInput if it is not a safetensors file that `pack_tensors` made, or damaged.
    """
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load  # noqa: PLC0415

    try:
        tensors = load(content)
        end = 8 + int.from_bytes(content[:8], "little")  # the library reads no metadata out of bytes
        found = json.loads(content[8:end]).get("__metadata__", {})
        texts = {str(name): str(text) for name, text in found.items()}
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise InvalidInput(f"{source} is not a safetensors file: {reason(problem)}", OURS) from None
    stored = texts.pop(DIGEST, None)
    if stored is None:
        raise InvalidInput(f"{source} is not a file of this package: it has no SHA-256 digest", OURS)
    place = content.find(stored.encode())
    view = memoryview(content)
    digest = sha256(view[:place])
    digest.update(BLANK)
    digest.update(view[place + len(BLANK) :])
    if digest.hexdigest() != stored:
        raise InvalidInput(f"{source} is damaged: it does not match its SHA-256 digest", "restore it from a backup")
    return texts, tensors
