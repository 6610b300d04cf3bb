"""The named data sets: their files, local or downloaded; their readers; the checks against their cards."""

import gzip
import os
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice, check_integer, is_sparse, stack_rows
from delaytron.datasets.catalogue import (
    CARDS,
    FASHION_PIXELS,
    HOTEL_NUMBERS,
    NEWS20_ARCHIVE,
    NEWS20_COUNTS,
    Card,
    File,
)
from delaytron.datasets.dataset import Block, Dataset, largest_classes
from delaytron.datasets.files import FORMATS
from delaytron.errors import InvalidInput
from delaytron.extras import is_installed, needs
from delaytron.files.atomic import cache_home, replace_arrays
from delaytron.files.text import BROKEN

if TYPE_CHECKING:
    from rich.progress import Progress

VARIABLE = "DELAYTRON_DATA"
CHUNK = 2**16  # bytes taken from the network together
Reader = Callable[..., Block]  # of a part's name and the paths of its files; labels are class numbers
UNREADABLE = (*BROKEN, BadZipFile, KeyError, ValueError, UserWarning)
SEXES = ("F", "I", "M")  # female, infant, male
HOTEL_WORDS = (
    *("arrival_date_month", "meal", "country", "market_segment", "distribution_channel", "reserved_room_type"),
    *("deposit_type", "agent", "company", "customer_type"),
)
HOTEL_COUNTS = (
    *("lead_time", "arrival_date_year", "arrival_date_day_of_month", "stays_in_weekend_nights", "stays_in_week_nights"),
    *("adults", "children", "babies", "is_repeated_guest", "previous_cancellations", "previous_bookings_not_canceled"),
    *("adr", "required_car_parking_spaces", "total_of_special_requests"),
)
INCIDENT_CODES = (
    *("caller_id", "opened_by", "contact_type", "location", "category", "u_symptom", "impact", "urgency", "priority"),
    "cmdb_ci",
)
WORD = r"\b[a-z]{2,}\b"
RARE = 3  # training documents that a word must occur in to be counted


# Their files


def local_folder() -> Path | None:
    """Return the folder of local copies that DELAYTRON_DATA names, if any; raise InvalidInput if it is not a folder."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise InvalidInput.of(VARIABLE, "a folder", given, "unset it to use the cache alone", verb="name")
    return folder


def find(file: File) -> Path | None:
    """Return the path of a file, a local copy before a cached one; None if it is not on this machine."""
    local = local_folder()
    if local is not None and (local / file.path).is_file():
        return local / file.path
    cached = cache_home() / file.path  # the cache has the same layout as a folder of local copies
    return cached if cached.is_file() else None


def availability(card: Card) -> str:
    """Return `yes`, `cached`, or how to get a data set onto this machine: `download`, `build` or `install`."""
    if card.library and not is_installed(card.library):
        return "install"
    found = [find(file) for files in card.files.values() for file in files]
    if None in found:
        return card.origin
    local = local_folder()
    return "yes" if all(local and path and path.is_relative_to(local) for path in found) else "cached"


def fetch(file: File, accept: Callable[[Path], object] = Path) -> Path:
    """Return the path of a file, after a download if it is not on this machine.

    Raises InvalidInput if the download fails, or if there is nothing to download.

    Parameters
    ----------
    accept : callable
        Called with a download before it enters the cache; raises `ValueError` to keep it out.
    """
    found = find(file)
    if found is not None:
        return found
    place = (local_folder() or cache_home()) / file.path
    if not file.address:
        raise InvalidInput(f"{file.path} is not on this machine", f"{file.recipe}, or put it at {place}")
    needs("pooch")
    try:
        return _download(file, accept)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot download {file.address}: {_reason(problem)}", f"put it at {place}") from None


def _download(file: File, accept: Callable[[Path], object]) -> Path:
    """Download a file into the cache if its checksum is right and `accept` does not raise; return its path."""
    import pooch  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import
    import requests  # noqa: PLC0415

    pooch.get_logger().setLevel("WARNING")  # the bar and the errors say the same
    cache = pooch.create(
        cache_home(),
        base_url="",
        registry={file.path: file.checksum},
        urls={file.path: file.address},
        retry_if_failed=1,
    )
    with _bar(file.path) as bar:
        get = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK)

        # pooch calls this for a temporary file, compares the checksum and moves the file to its place; after an error
        # of the network, of `accept` or of the checksum it tries once more.
        def download(url: str, target: str, pooch_: Any) -> None:
            try:
                get(url, target, pooch_)
            except requests.HTTPError as problem:
                answer: Any = problem.response
                answer.close()  # which pooch leaves open
                raise requests.RequestException(f"the server says {answer.status_code} {answer.reason}") from None
            accept(Path(target))

        return Path(cache.fetch(file.path, downloader=download))


def _reason(problem: Exception) -> str:
    """Return in a few words why a download failed."""
    import requests  # noqa: PLC0415 - slow to import

    for kind, words in (
        (requests.exceptions.ChunkedEncodingError, "the connection was lost during the download"),
        (requests.Timeout, "the server does not answer"),
        (requests.ConnectionError, "there is no connection"),
    ):
        if isinstance(problem, kind):
            return words
    return str(problem).partition(" Deleted download")[0].rstrip(".")


@contextmanager
def _bar(title: str) -> "Iterator[_Bar | bool]":
    """Yield a progress bar for pooch on stderr if that is a terminal, else False."""
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
    """A progress bar of rich with the interface that pooch expects; a new total means a retry."""

    def __init__(self, bar: "Progress") -> None:
        self.bar, self.task = bar, bar.add_task("", total=None)

    @property
    def total(self) -> float | None:
        """The size of the download in bytes."""
        return self.bar.tasks[0].total

    @total.setter
    def total(self, total: int) -> None:
        self.bar.reset(self.task, total=total or None)

    def update(self, count: int) -> None:
        """Add received bytes."""
        self.bar.advance(self.task, count)

    def reset(self) -> None:
        """Start again from 0."""
        self.bar.reset(self.task)

    def close(self) -> None:
        """Do nothing: the bar is removed at the end of its block."""


# Images


def cifar10(part: str = "all") -> Dataset:
    """Return photographs of ten kinds of things, by 512 features of VGG-16.

    Parameters
    ----------
    part : {"all", "train", "test"}
        The published training rows, the test rows, or all: the training rows first.
    """
    return assemble("cifar10", CARDS["cifar10"], _from_arrays, part)


def fashion_mnist(features: str = "cnn", part: str = "all") -> Dataset:
    """Return photographs of ten kinds of clothes.

    Parameters
    ----------
    features : {"cnn", "pixels"}
        128 features of a small network trained on the training rows, or 784 pixels from 0 to 255.
    part : {"all", "train", "test"}
        See `cifar10`.
    """

    def read(_: str, images: Path, labels: Path) -> Block:
        pixels = read_idx(images)
        return Block(pixels.reshape(len(pixels), -1), read_idx(labels))  # type: ignore[arg-type]

    if check_choice("features", features, ["cnn", "pixels"]) == "pixels":
        return assemble("fashion_mnist", FASHION_PIXELS, read, part)
    return assemble("fashion_mnist", CARDS["fashion_mnist"], _from_arrays, part)


def usps(part: str = "all") -> Dataset:
    """Return handwritten digits from envelopes: 256 pixels from -1 to 1; for `part` see `cifar10`."""

    def read(_: str, path: Path) -> Block:  # the label comes first
        with gzip.open(path) as file:
            table = np.loadtxt(file, ndmin=2)
        return Block(table[:, 1:], table[:, 0])

    return assemble("usps", CARDS["usps"], read, part)


def optdigits(part: str = "all") -> Dataset:
    """Return handwritten digits: 64 pixels from 0 to 16; for `part` see `cifar10`."""

    def read(_: str, path: Path) -> Block:  # the label comes last
        table = np.loadtxt(path, delimiter=",", ndmin=2)
        return Block(table[:, :-1], table[:, -1])

    return assemble("optdigits", CARDS["optdigits"], read, part)


def digits() -> Dataset:
    """Return handwritten digits: 1797 images of 8 x 8 pixels from 0 to 16, 10 classes.

    Examples
    --------
    >>> digits()
    Dataset('digits', 1797 rows, 64 features, 10 classes, dense)
    """
    needs("sklearn")
    from sklearn.datasets import load_digits  # noqa: PLC0415 - `import delaytron` does not pay for scikit-learn

    X, y = load_digits(return_X_y=True)
    card = CARDS["digits"]
    return Dataset(X, np.asarray(y), "digits", card.class_names, feature_names=card.feature_names, **card.provenance)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of a gzipped idx file of bytes: a header with the type and the sizes, then the values.

    Raises InvalidInput if it is another file, or truncated.
    """
    try:
        with gzip.open(path) as file:
            raw = file.read()
    except BROKEN as problem:
        raise InvalidInput(f"{path} cannot be read to its end: {problem}", "remove it, and load again") from None
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        start = raw[:4].hex(" ") or "nothing"
        raise InvalidInput(f"{path} must be an idx file of bytes, but it starts with {start}", "get a new copy")
    shape = tuple(np.frombuffer(raw, ">u4", count=raw[3], offset=4).tolist())
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if values.size != np.prod(shape, dtype=np.int64):
        sizes = " x ".join(map(str, shape))
        raise InvalidInput(f"{path} must hold {sizes} bytes, but has {values.size}", "get a new copy")
    return values.reshape(shape)


def _from_arrays(part: str, path: Path) -> Block:
    with np.load(path, allow_pickle=False) as arrays:
        return Block(arrays[f"X_{part}"], arrays[f"y_{part}"])


# Tables of numbers and words


def abalone() -> Dataset:
    """Return shells, their rings to be predicted: a column for each of three sexes, and seven sizes and weights."""
    card = CARDS["abalone"]

    def read(_: str, path: Path) -> Block:
        table = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
        sex = table[:, :1] == np.array(SEXES)
        if not sex.any(axis=1).all():
            raise ValueError(f"got a sex {str(table[~sex.any(axis=1), 0][0])!r}, expected {', '.join(SEXES)}")
        return Block(np.hstack([sex, table[:, 1:-1].astype(np.float64)]), class_numbers(card, table[:, -1]))

    return assemble("abalone", card, read)


def ecoli() -> Dataset:
    """Return proteins of E. coli, their place in the cell to be predicted: seven measures of the sequence."""
    card = CARDS["ecoli"]

    def read(_: str, path: Path) -> Block:
        table = np.loadtxt(path, dtype=str, ndmin=2)[:, 1:]  # the first column is the name of the protein
        return Block(table[:, :-1].astype(np.float64), class_numbers(card, table[:, -1]))

    return assemble("ecoli", card, read)


# Logs of decisions and answers with their times


def hotel_resort(features: str = "words") -> Dataset:
    """Return bookings of a hotel in the order in which they were made: the guest came, cancelled or missed.

    The answer is known when the guest leaves, cancels or does not come, so `delays` depend on it: half of the stays are
    answered within 42 days, half of the cancellations within 21.

    Parameters
    ----------
    features : {"words", "numbers"}
        Of the 24 columns known at booking or shortly after: every cell as a word, so one-hot, as `dt.Model` reads text;
        or only those that hold words or codes, and the other 14 as numbers.
    """
    typed = check_choice("features", features, ["words", "numbers"]) == "numbers"
    card = HOTEL_NUMBERS if typed else CARDS["hotel_resort"]
    words = HOTEL_WORDS if typed else (*HOTEL_WORDS, *HOTEL_COUNTS)
    return assemble("hotel_resort", card, partial(_read_log, card, "outcome", words, ()))


def incidents(groups: int | None = None) -> Dataset:
    """Return incidents of a service desk in the order in which they were opened; guess which of 63 groups solved them.

    All ten columns known when an incident is opened are codes, so one-hot. The group to which people assigned it first
    is left out: it is the decision that a learner would take over.

    Parameters
    ----------
    groups : int, optional
        Keep only the incidents of this many groups, the largest; `delays` then count the incidents that are kept.
    """
    card = CARDS["incidents"]
    data = assemble("incidents", card, partial(_read_log, card, "group", INCIDENT_CODES, ("first_assignment",)))
    if groups is None:
        return data
    most = check_integer("groups", groups, at_least=2, at_most=len(card.class_names))
    return largest_classes(data, most)


def _read_log(card: Card, label: str, words: Sequence[str], dropped: Sequence[str], _: str, path: Path) -> Block:
    times = {"decided": "decided", "answered": "answered"}
    block = FORMATS["csv"].read(path, label=label, categorical=words, drop=dropped, missing="impute", **times)
    return block._replace(labels=class_numbers(card, np.array([*map(str, block.labels.tolist())])))


# Documents


def news20(part: str = "all") -> Dataset:
    """Return messages to twenty newsgroups, by counts of 31,121 words.

    Parameters
    ----------
    part : {"all", "train", "test"}
        The messages before a date, those after it, or all: the early ones first.
    """
    if find(NEWS20_COUNTS) is None:
        needs("sklearn")  # raise before a useless download
        _count_words(fetch(NEWS20_ARCHIVE), cache_home() / NEWS20_COUNTS.path)

    def read(part: str, path: Path) -> Block:
        with np.load(path, allow_pickle=False) as arrays:
            return _news20_block(part, arrays)

    return assemble("news20", CARDS["news20"], read, part)


def _news20_block(part: str, arrays: Any) -> Block:
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    parts = (arrays[f"{part}_data"].astype(np.float64), arrays[f"{part}_indices"], arrays[f"{part}_indptr"])
    X = csr_array(parts, shape=tuple(arrays[f"{part}_shape"].tolist()))
    X.check_format(full_check=True)
    words = tuple(word.decode() for word in arrays["vocab"].tolist())
    return Block(X, arrays[f"y_{part}"], words)


def _count_words(archive: Path, target: Path) -> None:
    """Count the words of the publisher's archive, and write the checked counts to the cache.

    The rows of both parts are ordered by group and name. Raises InvalidInput if the archive is damaged, or another one.
    """
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import track  # noqa: PLC0415
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415

    card = CARDS["news20"]
    messages: list[tuple[str, str, str]] = []  # the part, the group and name, the text without its header
    arrays: dict[str, Any] = {}
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                file = members.extractfile(member)  # None for a folder
                if file is not None:
                    folder, *name = PurePosixPath(member.name).parts
                    messages.append((folder, "/".join(name), file.read().decode("latin-1").partition("\n\n")[2]))
        messages.sort()
        vectorizer = CountVectorizer(token_pattern=WORD, min_df=RARE)
        for part, count in (("train", vectorizer.fit_transform), ("test", vectorizer.transform)):
            chosen = [message for message in messages if message[0] == f"20news-bydate-{part}"]
            title = f"counting words, {part}"
            shown = track(chosen, title, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
            X = count(body for _, _, body in shown)
            X.sort_indices()
            arrays |= {f"{part}_{what}": getattr(X, what) for what in ("data", "indices", "indptr")}
            groups = np.array([PurePosixPath(name).parts[0] for _, name, _ in chosen])
            arrays |= {f"{part}_shape": np.array(X.shape), f"y_{part}": class_numbers(card, groups)}
        arrays["vocab"] = np.array(vectorizer.get_feature_names_out().tolist(), dtype=np.bytes_)
        for part in card.counts:
            check(card, part, _news20_block(part, arrays))
    except (*BROKEN, tarfile.TarError, ValueError) as problem:
        raise InvalidInput(f"{archive}: {problem}", f"replace it by the file from {NEWS20_ARCHIVE.address}") from None
    replace_arrays(target, arrays)


# Any of them


def assemble(name: str, card: Card, read: Reader, part: str = "all") -> Dataset:
    """Return a part of a data set, or all of its parts stacked, downloaded if necessary.

    Raises InvalidInput if a file cannot be obtained, or is not what the card says.
    """
    parts = card.counts if check_choice("part", part, ["all", *card.counts]) == "all" else [part]
    blocks = [_obtain(card, each, read) for each in parts]
    y = np.concatenate([block.labels for block in blocks]).astype(np.int64)
    names = blocks[0].feature_names or card.feature_names
    X = stack_rows([block.X for block in blocks])
    delays = blocks[0].delays  # of rows in the order of time, which are in one part
    return Dataset(X, y, name, card.class_names, feature_names=names, delays=delays, **card.provenance)


def _obtain(card: Card, part: str, read: Reader) -> Block:
    """Return the checked rows of a part; a download without a published checksum is checked before it is cached."""

    def inspect(*paths: Path) -> Block:
        try:
            with catch_warnings():
                simplefilter("error", UserWarning)  # NumPy warns of an empty file
                block = read(part, *paths)
        except UNREADABLE as problem:
            raise ValueError(str(problem) or "it is truncated") from None
        check(card, part, block)
        return block

    files = card.files[part]
    paths = [fetch(file) if file.checksum else fetch(file, accept=inspect) for file in files]
    try:
        return inspect(*paths)
    except ValueError as problem:
        where = " and ".join(map(str, paths))
        better = f"the file from {files[0].address}" if files[0].address else "another copy"
        raise InvalidInput(f"{where}: {problem}", f"replace it by {better}") from None


def check(card: Card, part: str, block: Block) -> None:
    """Raise ValueError if rows do not agree with their card."""
    X, labels, counts = block.X, block.labels, card.counts[part]
    expected = (sum(counts), card.n_features)

    def by(shape: tuple[int, ...]) -> str:
        return " x ".join(map(str, shape))

    if X.shape != expected or labels.shape != expected[:1]:
        raise ValueError(f"got {by(X.shape)} features and {by(labels.shape)} labels, expected {by(expected)} features")
    if len(block.feature_names) not in (0, card.n_features):
        raise ValueError(f"got {len(block.feature_names)} names of features, expected {card.n_features}")
    values: NDArray[Any] = X.data if is_sparse(X) else np.asarray(X)
    if not np.isfinite(values).all():
        raise ValueError("got a number that is not finite")
    codes = labels.astype(np.int64)
    if (codes != labels).any():
        raise ValueError(f"got a class number {labels[codes != labels][0]}")
    found = np.bincount(codes, minlength=len(counts))
    for name, count, want in zip(card.class_names, found, counts, strict=False):
        if count != want:
            raise ValueError(f"got {count} rows of class {name}, expected {want}")


def class_numbers(card: Card, names: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class numbers of labels that are names; raise ValueError if the card does not have one."""
    values, places = np.unique(names, return_inverse=True)
    strange = set(values.tolist()) - set(card.class_names)
    if strange:
        raise ValueError(f"got a class {min(strange)!r}")
    return np.array([card.class_names.index(value) for value in values.tolist()])[places]
