"""The files of named data sets: a local copy if there is one, else a checked download into the user's cache."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delaytron.datasets.cards import Card, File
from delaytron.errors import InvalidInput
from delaytron.extras import is_installed, needs
from delaytron.files.folders import cache_home

if TYPE_CHECKING:
    from rich.progress import Progress

VARIABLE = "DELAYTRON_DATA"
CHUNK = 2**16  # bytes taken from the network together


def local_folder() -> Path | None:
    """Return the folder of local copies that the user names, if any."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise InvalidInput(f"{VARIABLE} must name a folder, got {given!r}; unset it to use the cache alone")
    return folder


def cache_folder() -> Path:
    """Return the folder of downloads; it has the same layout as a folder of local copies."""
    return cache_home()


def find(file: File) -> Path | None:
    """Return where a file is on this machine, if anywhere: a local copy comes first."""
    local = local_folder()
    if local is not None and (local / file.path).is_file():
        return local / file.path
    cached = cache_folder() / file.path
    return cached if cached.is_file() else None


def availability(card: Card) -> str:
    """Return `yes`, `cached`, or what would bring a data set onto this machine: `download`, `build` or `install`."""
    if card.library and not is_installed(card.library):
        return "install"
    found = [find(file) for files in card.files.values() for file in files]
    if None in found:
        return card.origin
    local = local_folder()
    return "yes" if all(local and path and path.is_relative_to(local) for path in found) else "cached"


def fetch(file: File, accept: Callable[[Path], object] = Path) -> Path:
    """Return the path of a file, after a download if need be.

    Parameters
    ----------
    accept : callable
        Called with a download before it enters the cache; raises `ValueError` to keep it out.
    """
    found = find(file)
    if found is not None:
        return found
    place = (local_folder() or cache_folder()) / file.path
    if not file.address:
        raise InvalidInput(f"{file.path} is not on this machine; {file.recipe}, or put it at {place}")
    needs("pooch")
    try:
        return _download(file, accept)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot download {file.address}: {_reason(problem)}; put it at {place}") from None


def _download(file: File, accept: Callable[[Path], object]) -> Path:
    import pooch  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import
    import requests  # noqa: PLC0415

    pooch.get_logger().setLevel("WARNING")  # the bar and the errors say it all
    store = pooch.create(
        cache_folder(),
        base_url="",
        registry={file.path: file.checksum},
        urls={file.path: file.address},
        retry_if_failed=1,
    )
    with _bar(file.path) as bar:
        get = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK)

        def download(url: str, target: str, store: Any) -> None:
            try:
                get(url, target, store)
            except requests.HTTPError as problem:
                answer: Any = problem.response
                answer.close()  # which pooch leaves open
                raise requests.RequestException(f"the server says {answer.status_code} {answer.reason}") from None
            accept(Path(target))

        return Path(store.fetch(file.path, downloader=download))


def _reason(problem: Exception) -> str:
    """Return in a few words what `requests` and `pooch` say in many."""
    import requests  # noqa: PLC0415 - slow to import

    for kind, words in (
        (requests.exceptions.ChunkedEncodingError, "it broke off on the way"),
        (requests.Timeout, "the server does not answer"),
        (requests.ConnectionError, "there is no connection"),
    ):
        if isinstance(problem, kind):
            return words
    return str(problem).partition(" Deleted download")[0].rstrip(".")


@contextmanager
def _bar(title: str) -> "Iterator[_Bar | bool]":
    """Show a bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield False
        return
    from rich import progress  # noqa: PLC0415 - slow to import
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.TextColumn(title),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar)


class _Bar:
    """A bar of rich under the names by which pooch calls it; another total is another try."""

    def __init__(self, bar: "Progress") -> None:
        self.bar, self.task = bar, bar.add_task("", total=None)

    @property
    def total(self) -> float | None:
        """How many bytes will come."""
        return self.bar.tasks[0].total

    @total.setter
    def total(self, total: int) -> None:
        self.bar.reset(self.task, total=total or None)

    def update(self, count: int) -> None:
        """Count bytes that came."""
        self.bar.advance(self.task, count)

    def reset(self) -> None:
        """Begin again."""
        self.bar.reset(self.task)

    def close(self) -> None:
        """Do nothing: the bar goes when the block ends."""
