"""A folder of files that are named by what they hold: each written whole or not at all, and checked on reading."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.atomic import replace_file

MOST_REMEMBERED = 32 * 2**20  # bytes of files whose values are not read again


class Keyed(Protocol):
    """Anything that is named by the hash of its content."""

    @property
    def key(self) -> str:
        """The name of its file."""


S = TypeVar("S", bound=Keyed)
V = TypeVar("V")


class Folder(Generic[S, V]):
    """Values by their specifications, one file each; two processes may write to it at the same time.

    Parameters
    ----------
    ending : str
        Of every file.
    decode : callable
        Makes a value of the content of a file; raises `InvalidInput` if that is damaged.
    warn : callable
        Called with one line about each damaged file, once.
    """

    def __init__(self, path: Path, ending: str, decode: Callable[[S, bytes], V], warn: Callable[[str], object]) -> None:
        self.path = path
        self._ending = ending
        self._decode = decode
        self._warn = warn
        self._values: dict[str, V] = {}
        self._remembered = 0
        self._checked: set[str] = set()
        self._damaged: set[str] = set()

    def has(self, spec: S) -> bool:
        """Whether there is an undamaged file; a damaged one counts as none, and is warned of."""
        if spec.key in self._checked:
            return True
        try:
            self._read(spec)
        except FileNotFoundError:
            return False
        except InvalidInput as problem:
            self._warn_once(spec, problem)
            return False
        return True

    def read(self, spec: S) -> V:
        """Return what a file holds."""
        try:
            return self._read(spec)
        except OSError as problem:
            raise InvalidInput(f"cannot read {str(self.file(spec))!r}: {with_advice(problem)}") from None
        except InvalidInput as problem:
            raise InvalidInput(f"{self.file(spec)} is damaged: {problem}; the same command plays it again") from None

    def write(self, spec: S, content: bytes) -> None:
        """Put a file in its place, if it can be read again."""
        value = self._decode(spec, content)
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.file(spec), content)
        self._remember(spec, value, len(content))

    def file(self, spec: S) -> Path:
        """Return the path of a file."""
        return self.path / f"{spec.key}{self._ending}"

    def _read(self, spec: S) -> V:
        if spec.key in self._values:
            return self._values[spec.key]
        content = self.file(spec).read_bytes()
        value = self._decode(spec, content)
        self._remember(spec, value, len(content))
        return value

    def _remember(self, spec: S, value: V, size: int) -> None:
        self._checked.add(spec.key)
        self._remembered += size
        if self._remembered <= MOST_REMEMBERED:
            self._values[spec.key] = value

    def _warn_once(self, spec: S, problem: InvalidInput) -> None:
        if spec.key not in self._damaged:
            self._warn(f"{self.file(spec)} is damaged and is played again: {problem}")
        self._damaged.add(spec.key)
