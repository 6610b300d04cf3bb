"""Named arrays and a few texts in one safetensors file, sealed with a digest of every byte."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.arrays import reason

Tensors: TypeAlias = dict[str, NDArray[Any]]

MAX_HEADER = 2**16  # bytes; ours have some 2,000
SEAL = "sha256"
SQLITE = b"SQLite f"  # how such files begin
OURS = "give a file that save(path) wrote, or restore it from a backup"
BLANK = b"0" * 64  # stands where the digest will, while it is computed


def pack_tensors(tensors: Mapping[str, NDArray[Any]], texts: Mapping[str, str]) -> tuple[bytes, memoryview]:
    """Return the two parts of a file, header and numbers; the same content gives the same bytes.

    The library writes texts in a random order, so the header is written here. Among the texts stands the SHA-256 of
    the whole file, taken with 64 zeros in its own place.
    """
    from safetensors.numpy import save  # noqa: PLC0415 - only needed here

    content = memoryview(save(dict(tensors)))
    end = 8 + int.from_bytes(content[:8], "little")
    sealed = {SEAL: BLANK.decode(), **dict(sorted(texts.items()))}
    header = json.dumps({"__metadata__": sealed, **json.loads(bytes(content[8:end]))}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # numbers begin at a multiple of 8
    head = len(header).to_bytes(8, "little") + header
    digest = sha256(head)
    digest.update(content[end:])
    return head.replace(BLANK, digest.hexdigest().encode(), 1), content[end:]


def read_tensors(path: Path) -> tuple[dict[str, str], Tensors]:
    """Read a safetensors file; raise if it is none or was damaged."""
    return unpack_tensors(_read_bytes(path), str(path))


def unpack_tensors(content: bytes, source: str) -> tuple[dict[str, str], Tensors]:
    """Return the texts and arrays of a safetensors file, which errors call `source`; raise if it is none or damaged.

    One without a digest is taken as it is.
    """
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load  # noqa: PLC0415

    try:
        tensors = load(content)
        texts = _texts(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise InvalidInput(f"{source} is not a safetensors file: {reason(problem)}; {OURS}") from None
    if SEAL in texts and _digest(content, texts[SEAL]) != texts.pop(SEAL):
        raise InvalidInput(f"{source} is damaged: it does not match its SHA-256 digest; restore it from a backup")
    return texts, tensors


def _read_bytes(path: Path) -> bytes:
    """Return the whole file, if it is one and its header is not larger than any of ours could be."""
    try:
        if not path.exists():
            raise InvalidInput(f"there is no file {path}; check the path")
        if not path.is_file():
            raise InvalidInput(f"{path} is not a safetensors file: it is a folder, a device or a pipe; {OURS}")
        with path.open("rb") as file:
            begin = file.read(8)
            if begin == SQLITE:
                raise InvalidInput(f"{path} is a database, not a safetensors file; open a journal by dt.Model.open")
            length = int.from_bytes(begin, "little")
            if length > MAX_HEADER:
                raise InvalidInput(f"{path} is not a safetensors file: its header would have {length} bytes; {OURS}")
            return begin + file.read()
    except OSError as problem:
        raise InvalidInput(f"cannot read {path}: {with_advice(problem)}") from None


def _texts(content: bytes) -> dict[str, str]:
    """Return the texts in the header of a file; the library reads only the numbers out of bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    texts = json.loads(content[8:end]).get("__metadata__", {})
    return {str(name): str(text) for name, text in texts.items()}


def _digest(content: bytes, stored: str) -> str:
    """Return the SHA-256 of a file with zeros in the place of the digest that it holds."""
    place = content.find(stored.encode())
    view = memoryview(content)
    digest = sha256(view[:place])
    digest.update(BLANK)
    digest.update(view[place + len(BLANK) :])
    return digest.hexdigest()
