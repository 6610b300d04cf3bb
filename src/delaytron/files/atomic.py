"""Files that survive a crash: written beside their place, brought to the disk, then put into it."""

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.locks import lock_file

if sys.platform != "win32":
    import fcntl

LONGEST_NAME = 200  # bytes of a file's name that its temporary repeats; file systems allow 255
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # file systems and folders that cannot be brought to disk


def replace_file(path: Path, *parts: bytes | memoryview, mode: int = 0o666) -> None:
    """Write so that after a crash there is the old file or the new one, and never half of one.

    An existing file keeps its mode, and a link stays a link: what it points to is written. A new file has `mode`, less
    the umask, from its first byte on. An error names the file. What a killed process left half written beside the file
    is removed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_file(Path(folder, "a.txt"), b"one, ", b"two")
    ...     Path(folder, "a.txt").read_bytes()
    b'one, two'
    """
    with replacing(path, mode) as file:
        for part in parts:
            file.write(part)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file to write into, which takes the place of another at the end; after an error the old one stays.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as file:
    ...         count = file.write(b"piece by piece")
    ...     Path(folder, "a.txt").read_bytes()
    b'piece by piece'
    """
    with naming(path):
        target = _final_target(path)
        old = target.stat() if target.exists() else None
        beside, file = _new_temporary(target, mode if old is None else 0o600)
        with file:
            try:
                yield file
                _bring_to_disk(file, beside, old)
                _put_into_place(file, beside, target)
            except BaseException:
                _discard(file, beside)
                raise
        _sync_folder(target.parent)


def replace_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as a compressed .npz file, in the same way; make its folder if there is none."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let every error of the system that happens inside name this file, and say what to do."""
    try:
        yield
    except OSError as problem:
        raise OSError(problem.errno, with_advice(problem), str(path)) from None


def _final_target(path: Path) -> Path:
    """Return the file that a path means, through all links."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not target.is_file():
        raise InvalidInput(f"cannot write {path}: it is a device or a pipe; give the path of a file")
    return target


def _temporaries(target: Path) -> Iterator[Path]:
    """Iterate over the names that temporaries of a file may have; the first one does unless two save at once."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = sha256(os.fsencode(name)).hexdigest()
    return (target.with_name(f".{name}.delaytron-{i}.tmp") for i in count())


def _new_temporary(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Create a temporary beside a file and hold it; remove those that nobody holds any more."""
    names = _temporaries(target)
    beside, file = next((name, file) for name in names if (file := _create(name, mode)) is not None)
    for name in names:
        if not os.path.lexists(name):
            break
        _remove_if_abandoned(name)
    return beside, file


def _create(beside: Path, mode: int) -> BinaryIO | None:
    """Create a file and hold it; None if another process holds one of this name."""
    _remove_if_abandoned(beside)
    try:
        descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
    except FileExistsError:
        return None
    file = open(descriptor, "wb")  # noqa: SIM115 - the caller closes it
    if _hold(descriptor):
        return file
    file.close()
    return None


def _hold(descriptor: int) -> bool:
    """Lock a file as long as this process lives; False if another process was quicker, and takes it for abandoned.

    Where there are no locks, nobody removes what another left, either.
    """
    try:
        return lock_file(descriptor)
    except BlockingIOError:
        return False


def _remove_if_abandoned(beside: Path) -> None:
    """Remove a temporary whose process is dead: the system has given its lock back."""
    if sys.platform != "win32":
        with suppress(OSError):  # it is not there, not ours, or held
            descriptor = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _unlink_same(descriptor, beside)
            finally:
                os.close(descriptor)


def _unlink_same(descriptor: int, beside: Path) -> None:
    """Remove the name of an open file, unless it has become another file's."""
    ours = os.fstat(descriptor)
    if stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, os.lstat(beside)):
        os.unlink(beside)


def _bring_to_disk(file: BinaryIO, beside: Path, old: os.stat_result | None) -> None:
    file.flush()
    if old is not None:
        _take_over_rights(beside, old)
    os.fsync(file.fileno())


def _take_over_rights(beside: Path, old: os.stat_result) -> None:
    """Give a file the mode of the one it replaces and, where that is allowed, its owner."""
    if sys.platform != "win32":
        with suppress(PermissionError):
            os.chown(beside, old.st_uid, old.st_gid)
    os.chmod(beside, stat.S_IMODE(old.st_mode))


def _put_into_place(file: BinaryIO, beside: Path, target: Path) -> None:
    """Rename while the file is held: nobody may take it for abandoned."""
    if sys.platform == "win32":
        file.close()  # an open file cannot be renamed there
    os.replace(beside, target)


def _discard(file: BinaryIO, beside: Path) -> None:
    if sys.platform == "win32":
        file.close()
        beside.unlink(missing_ok=True)
    else:
        with suppress(OSError):
            _unlink_same(file.fileno(), beside)


def _sync_folder(folder: Path) -> None:
    """Bring the new name of the file to the disk: only now it survives a loss of power."""
    if sys.platform != "win32":
        try:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as problem:
            if problem.errno not in NO_FOLDER_SYNC:
                raise
