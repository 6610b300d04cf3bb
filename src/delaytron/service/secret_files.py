"""Files of keys: text that nobody but its owner may read, written by one process at a time."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from delaytron.errors import InvalidInput
from delaytron.files.locks import lock_file, open_lock

LARGEST_FILE = 65_536  # bytes
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secret_lines(path: Path, text: str, form: str) -> Iterator[tuple[int, str, str]]:
    r"""Iterate over the two words of each line, with its number; skip blank lines and those that begin with #.

    A message never shows what is in a line.

    Examples
    --------
    >>> list(secret_lines(Path("a.keys"), "# mine\nadmin 0123456789abcdef\n", "SCOPE KEY"))
    [(2, 'admin', '0123456789abcdef')]
    """
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise InvalidInput(f"{path}, line {number}: must be {form}, two words; got {len(words)}")
        yield number, words[0], words[1]


def read_secret_text(path: Path) -> str:
    """Return what is in a file; raise if others than its owner have any right to it."""
    try:
        with open(path, "rb") as file:
            _check_rights(path, os.fstat(file.fileno()).st_mode)
            content = file.read(LARGEST_FILE + 1)
    except OSError as problem:
        raise InvalidInput(f"cannot read {path}: {problem.strerror}; give a file of keys") from None
    if len(content) > LARGEST_FILE:
        raise InvalidInput(f"{path} must have {LARGEST_FILE:,} bytes at most; give a file of keys")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} must be text in UTF-8; save the file as such") from None


def _check_rights(path: Path, mode: int) -> None:
    if sys.platform != "win32" and mode & OTHERS:
        raise InvalidInput(
            f"{path} holds keys, and others than its owner have rights to it (mode {stat.S_IMODE(mode):o}); "
            f"run chmod 600 {path}"
        )


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Wait until no other process writes a file; none does until the end.

    A lock beside the file does that. It has no effect on Windows and on file systems without locks.
    """
    lock = Path(os.path.realpath(path) + "-lock")
    if not lock.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}; make it, or give another file")
    descriptor = _lock(lock)
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock)
        os.close(descriptor)


def _lock(lock: Path) -> int:
    """Return a locked file; one that was removed by the process that held it before does not count."""
    descriptor = open_lock(lock, 0o600)
    while not lock_file(descriptor, wait=True):
        os.close(descriptor)
        descriptor = open_lock(lock, 0o600)
    return descriptor
