"""The disk cache of machine code: one file per kernel and types of its arguments, used only if its digest is right.

Numba's own cache raises where a file is damaged or the disk is full, and runs machine code in which a bit flipped.
A cache only saves time: here a damaged file is removed and the kernel compiled again, and a file that cannot be
written costs one warning.
"""

import pickle
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl
from numba.core.serialize import dumps

from delaytron.compiler.kernel import warn_once

FORMAT = "delaytron 1"  # version of the files
DIGEST_BYTES = 32


class KernelCache:
    """The cached files of one kernel; the public names are those that Numba calls.

    Raises
    ------
    RuntimeError
        If there is no writable folder for them.
    """

    def __init__(self, function: Any) -> None:
        self._impl = CompileResultCacheImpl(function)
        self._folder = Path(self._impl.locator.get_cache_path())

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(self._folder)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the machine code for arguments of these types, None if there is none that can be used."""
        context.refresh()
        path = self._path(signature, context.codegen())
        try:
            stored, code = pickle.loads(unseal(path.name, path.read_bytes()))  # noqa: S301 - as Numba does
            return self._impl.rebuild(context, code) if stored == signature else None
        except FileNotFoundError:
            return None
        except Exception:  # whatever is wrong with the file, the kernel can be compiled
            _remove(path)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write the machine code for later processes; warn once if that fails."""
        if not self._impl.check_cachable(result):
            return
        path = self._path(signature, result.codegen)
        try:
            _write(path, seal(path.name, dumps((signature, self._impl.reduce(result)))))
        except Exception as error:  # a full disk, a folder gone: no reason to fail
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            problem = f"{self._folder} cannot be written: {reason}"
            warn_once(f"compiled code is not kept, since {problem}; set NUMBA_CACHE_DIR to another folder")

    def flush(self) -> None:
        """Remove the files of this kernel, before Numba compiles it again."""
        for path in self._folder.glob(f"{self._impl.filename_base}.*.nbc"):
            _remove(path)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Return the file for arguments of these types, this processor and this compiler."""
        compiler = (numba.__version__, llvmlite.__version__, compiler_digest())
        arguments = (signature, [named_tuples(one) for one in signature])
        key = sha256(repr((FORMAT, compiler, codegen.magic_tuple(), arguments)).encode()).hexdigest()
        return self._folder / f"{self._impl.filename_base}.{key[:16]}.nbc"


@cache
def compiler_digest() -> str:
    """Return a digest of this package, which determines how kernels are compiled."""
    files = [Path(__file__).with_name(name) for name in ("kernel.py", "inline.py", "cache.py")]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def named_tuples(kind: Any) -> list[Any]:
    """Return the names and fields of all named tuples in a type: machine code accesses a field by its position."""
    parts: list[Any] = [named_tuples(part) for part in getattr(kind, "types", ())]
    if hasattr(kind, "instance_class"):
        parts.append((kind.instance_class.__module__, kind.instance_class.__qualname__, kind.instance_class._fields))
    return parts


def seal(name: str, content: bytes) -> bytes:
    """Return the content behind a digest of it and of the file's name.

    Examples
    --------
    >>> unseal("a.nbc", seal("a.nbc", b"code"))
    b'code'
    """
    return sha256(name.encode() + content).digest() + content


def unseal(name: str, sealed: bytes) -> bytes:
    """Return the content; raise ValueError if it was changed, or belongs to a file of another name."""
    content = sealed[DIGEST_BYTES:]
    if seal(name, content) != sealed:
        raise ValueError(f"{name} is damaged")
    return content


def _write(path: Path, sealed: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid4().hex[:8]}.tmp")
    try:
        temporary.write_bytes(sealed)
        temporary.replace(path)
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
