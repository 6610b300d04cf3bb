"""Crash-safe files: written to a temporary, synced, then renamed; file locks; hints for errors of the system."""

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

if sys.platform != "win32":
    import fcntl

RIGHTS = "check the rights of the file and of its folder"
FREE_SPACE = "make room, then try again"
OTHERWISE = "check the disk, then try again"
HINTS = {
    errno.EACCES: RIGHTS,
    errno.EDQUOT: FREE_SPACE,
    errno.EISDIR: "give the path of a file",
    errno.ELOOP: "give the path of a file",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOENT: "check the path, and that its folder is there",
    errno.ENOSPC: FREE_SPACE,
    errno.ENOTDIR: "check the path: what should be a folder is a file",
    errno.EPERM: RIGHTS,
    errno.EROFS: "give a path on a disk that can be written",
}
NEW_FILE = 0o666  # its mode, less the umask
LONGEST_NAME = 200  # bytes of a file's name that its temporary repeats; file systems allow 255
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # file systems and folders that cannot be synced


def explain(problem: OSError) -> tuple[str, str]:
    """Return the message of the operating system, without the path, and a hint what to do next.

    Examples
    --------
    >>> explain(OSError(errno.ENOSPC, "No space left on device"))
    ('No space left on device', 'make room, then try again')
    """
    said = getattr(problem, "said", None)  # set by `replacing`, whose message has the hint already
    return str(said or problem.strerror or problem), HINTS.get(problem.errno or 0, OTHERWISE)


def with_advice(problem: OSError) -> str:
    """Return the message of the operating system and the hint of `explain` as one text.

    Examples
    --------
    >>> with_advice(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device; make room, then try again'
    """
    return "; ".join(explain(problem))


def cannot(verb: str, path: str | Path, problem: OSError) -> InvalidInput:
    """Return the error about a file or folder for which the operating system refused an operation.

    Examples
    --------
    >>> print(cannot("read", "data", IsADirectoryError(errno.EISDIR, "Is a directory")))
    cannot read 'data': Is a directory; give the path of a file
    """
    said, hint = explain(problem)
    return InvalidInput(f"cannot {verb} {str(path)!r}: {said}", hint)


def cache_home() -> Path:
    """Return the user's cache folder for downloads of this package; it need not exist."""
    given = os.environ.get("XDG_CACHE_HOME", "").strip()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(local) / "delaytron" / "delaytron" / "Cache"
    if given:
        return Path(given) / "delaytron"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "delaytron"


def open_lock(path: Path) -> int:
    """Open a lock file and return its descriptor; create the file if necessary.

    Raises InvalidInput if the system refuses.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), NEW_FILE)
    except OSError as problem:
        raise cannot("write", path, problem) from None


def lock_file(descriptor: int) -> bool:
    """Lock an open file; return True, or False if its last owner removed it meanwhile.

    Raises BlockingIOError if another process holds the lock. Does nothing on Windows and on file systems without locks.

    Examples
    --------
    >>> from tempfile import TemporaryFile
    >>> with TemporaryFile() as removed:
    ...     lock_file(removed.fileno())
    False
    """
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return True
    return os.fstat(descriptor).st_nlink > 0


def replace_file(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file atomically: after a crash there is the old file or the new one, never a part of one.

    An existing file keeps its mode; a symbolic link stays, and its target is written. Temporaries of killed processes
    are removed. Raises OSError, with the path, if the system refuses, and InvalidInput for a device or a pipe.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_file(Path(folder, "a.txt"), b"one, ", b"two")
    ...     Path(folder, "a.txt").read_bytes()
    b'one, two'
    """
    with replacing(path) as file:
        for part in parts:
            file.write(part)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write into, which replaces `path` when the block ends; after an error the old file stays.

    Raises as `replace_file` does.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as file:
    ...         count = file.write(b"piece by piece")
    ...     Path(folder, "a.txt").read_bytes()
    b'piece by piece'
    """
    try:
        target = _resolve(path)
        old = target.stat() if target.exists() else None
        # While it is written, the replacement of an existing file is readable by its owner only: the old one may be
        # secret, and its mode is set at the end.
        temporary, file = _create_temporary(target, NEW_FILE if old is None else 0o600)
        with file:
            try:
                yield file
                file.flush()
                if old is not None:
                    if sys.platform != "win32":
                        with suppress(PermissionError):  # only root may change the owner
                            os.chown(temporary, old.st_uid, old.st_gid)
                    os.chmod(temporary, stat.S_IMODE(old.st_mode))  # after chown, which clears set-user-ID bits
                os.fsync(file.fileno())  # before the rename: the new name must never lead to content that was lost
                if sys.platform == "win32":
                    file.close()  # an open file cannot be renamed there
                os.replace(temporary, target)  # while it is locked: other processes remove unlocked temporaries
            except BaseException:
                if sys.platform == "win32":
                    file.close()
                    temporary.unlink(missing_ok=True)
                else:
                    with suppress(OSError):
                        _unlink_same(file.fileno(), temporary)
                raise
        _sync_folder(target.parent)
    except OSError as problem:
        said, hint = explain(problem)
        named = OSError(problem.errno, f"{said}; {hint}", str(path))
        named.said = said  # type: ignore[attr-defined]
        raise named from None


def replace_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as a compressed .npz file atomically; create its folder if necessary. Raises as `replace_file`."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())


def _resolve(path: Path) -> Path:
    """Return the target of a path, with links resolved.

    Raises OSError if it is a folder or a circular link, and InvalidInput if it is a device or a pipe.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not target.is_file():
        raise InvalidInput(f"cannot write {path}: it is a device or a pipe", "give the path of a file")
    return target


def _create_temporary(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Create and lock a temporary in the folder of a file; return its path and the open file.

    Removes the temporaries of killed processes. Their names are numbered, to be found without listing the folder.
    """
    name = target.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = sha256(os.fsencode(name)).hexdigest()
    names = (target.with_name(f".{name}.delaytron-{i}.tmp") for i in count())
    for temporary in names:
        _remove_if_abandoned(temporary)
        try:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
        except FileExistsError:  # of a process that is still writing
            continue
        file = open(descriptor, "wb")  # noqa: SIM115 - the caller closes it
        with suppress(BlockingIOError):
            if lock_file(descriptor):
                break
        file.close()  # between creation and lock another process took it for abandoned
    for other in names:
        if not os.path.lexists(other):
            break
        _remove_if_abandoned(other)
    return temporary, file


def _remove_if_abandoned(temporary: Path) -> None:
    """Remove a temporary whose process is dead: the system has released its lock."""
    if sys.platform != "win32":
        with suppress(OSError):  # there is none, it is not ours, it is locked, or there are no locks
            descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _unlink_same(descriptor, temporary)
            finally:
                os.close(descriptor)


def _unlink_same(descriptor: int, path: Path) -> None:
    """Remove the name of an open file, unless it has become another file's."""
    ours = os.fstat(descriptor)
    if stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, os.lstat(path)):
        os.unlink(path)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that the new name of a file in it survives a power failure."""
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
