"""A data set of its card and its files: found or fetched, read, checked and put together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.datasets.base import Block, Dataset
from delaytron.datasets.cards import Card, File
from delaytron.datasets.downloads import fetch
from delaytron.errors import InvalidInput
from delaytron.files.compressed import BROKEN
from delaytron.matrices import is_sparse, stack_rows

Reader = Callable[..., Block]  # of a part's name and the paths of its files; labels are class numbers
UNREADABLE = (*BROKEN, BadZipFile, KeyError, ValueError, UserWarning)


def assemble(name: str, card: Card, read: Reader, part: str = "all") -> Dataset:
    """Return a part of a data set, or all of its parts, one below the other."""
    parts = card.counts if check_choice("part", part, ["all", *card.counts]) == "all" else [part]
    blocks = [_obtain(card, each, read) for each in parts]
    y = np.concatenate([block.labels for block in blocks]).astype(np.int64)
    names = blocks[0].feature_names or card.feature_names
    X = stack_rows([block.X for block in blocks])
    return Dataset(X, y, name, card.class_names, feature_names=names, **card.provenance)


def _obtain(card: Card, part: str, read: Reader) -> Block:
    def inspect(*paths: Path) -> Block:
        with _plain_errors():
            block = read(part, *paths)
        check(card, part, block)
        return block

    files = card.files[part]
    paths = [fetch(file) if file.checksum else fetch(file, accept=inspect) for file in files]
    try:
        return inspect(*paths)
    except ValueError as problem:
        where = " and ".join(map(str, paths))
        raise InvalidInput(f"{where}: {problem}; replace it by {_better(files[0])}") from None


def _better(file: File) -> str:
    return f"the file from {file.address}" if file.address else "another copy"


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn whatever a damaged file leads to into one kind of error."""
    try:
        with catch_warnings():
            simplefilter("error", UserWarning)  # how NumPy tells of an empty file
            yield
    except UNREADABLE as problem:
        raise ValueError(str(problem) or "it breaks off") from None


def check(card: Card, part: str, block: Block) -> None:
    """Raise if the rows are not as the card says."""
    X, labels, counts = block.X, block.labels, card.counts[part]
    expected = (sum(counts), card.n_features)
    if X.shape != expected or labels.shape != expected[:1]:
        raise ValueError(
            f"got {_shape(X.shape)} features and {_shape(labels.shape)} labels, expected {_shape(expected)} features"
        )
    if len(block.feature_names) not in (0, card.n_features):
        raise ValueError(f"got {len(block.feature_names)} names of features, expected {card.n_features}")
    values: NDArray[Any] = X.data if is_sparse(X) else np.asarray(X)
    if not np.isfinite(values).all():
        raise ValueError("got a number that is not finite")
    found = np.bincount(_codes(labels), minlength=len(counts))
    for name, count, want in zip(card.class_names, found, counts, strict=False):
        if count != want:
            raise ValueError(f"got {count} rows of class {name}, expected {want}")


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _codes(labels: NDArray[Any]) -> NDArray[np.int64]:
    codes = labels.astype(np.int64)
    if (codes != labels).any():
        raise ValueError(f"got a class number {labels[codes != labels][0]}")
    return codes


def class_numbers(card: Card, names: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class numbers of labels that are names."""
    values, places = np.unique(names, return_inverse=True)
    strange = set(values.tolist()) - set(card.class_names)
    if strange:
        raise ValueError(f"got a class {min(strange)!r}")
    return np.array([card.class_names.index(value) for value in values.tolist()])[places]
