"""Data sets by name, the user's own files and frames, and any (X, y) as a data set."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from delaytron.checks import check_choice, check_integer
from delaytron.datasets.base import Dataset, is_frame
from delaytron.datasets.bundled import digits
from delaytron.datasets.convert import as_dataset
from delaytron.datasets.files import load_file, load_frame, looks_like_file
from delaytron.datasets.form import choose_form
from delaytron.datasets.images import cifar10, fashion_mnist, optdigits, usps
from delaytron.datasets.scaling import Scaling, rescale
from delaytron.datasets.streams import FileStream, stream
from delaytron.datasets.synthetic import synnonsep, synsep
from delaytron.datasets.text import news20
from delaytron.datasets.uci import abalone, ecoli
from delaytron.errors import InvalidInput
from delaytron.rng import stream as random_stream

__all__ = ["DATASETS", "Dataset", "FileStream", "as_dataset", "is_drawn", "load", "stream"]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "cifar10": cifar10,
    "fashion_mnist": fashion_mnist,
    "usps": usps,
    "digits": digits,
    "optdigits": optdigits,
    "abalone": abalone,
    "ecoli": ecoli,
    "synsep": synsep,
    "synnonsep": synnonsep,
    "news20": news20,
}

FILE = "or the path of a file"
LONGEST = 80  # letters of a name in a message


def load(
    source: Any, *, scale: str | None = None, bias: bool = False, shuffle: int | None = None, **options: Any
) -> Dataset:
    """Make or read a data set: one with a name, a file, or a frame of pandas or polars.

    Parameters
    ----------
    source : str, Path or frame
        A name in `DATASETS`; else a file in one of the `files.FORMATS`; else a table of columns.
    scale : {"unit", "standard"}, optional
        Every row to norm 1; or every column to mean 0 and standard deviation 1, where X is sparse without moving it.
    bias : bool
        Append a column of ones, after scaling.
    shuffle : int, optional
        The seed of a random order of the rows; without it they stay in file order.
    **options
        Of the named data set; of a file or frame `label`, `drop`, `missing` and others, see `files.load_file`.

    Notes
    -----
    Where at most a fifth of the numbers differ from 0 in the end, X is CSR, which is played faster; see `form`.

    Examples
    --------
    >>> load("synsep", n_samples=1000, seed=7, scale="unit", bias=True)
    Dataset('synsep', 1000 rows, 401 features, 9 classes, sparse)
    """
    scaling = Scaling(scale, bias)
    what, make = _maker(source)
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            if not known:
                raise InvalidInput(f"{what} takes no options; got {option!r}")
            check_choice(f"an option of {what}", option, known)
    seed = None if shuffle is None else check_integer("shuffle", shuffle, at_least=0)
    data = choose_form(rescale(make(**options), scaling))
    return data if seed is None else _shuffled(data, seed)


def _shuffled(data: Dataset, seed: int) -> Dataset:
    order = random_stream(seed, "shuffle").permutation(data.n_rows)
    note = f"rows: in a random order (seed {seed})"
    return replace(data, X=data.X[order], y=data.y[order], notes=(*data.notes, note))


def is_drawn(name: str) -> bool:
    """Whether a data set is drawn with a seed, so that another seed gives other rows of the same kind.

    Examples
    --------
    >>> is_drawn("synsep"), is_drawn("digits")
    (True, False)
    """
    return name in DATASETS and "seed" in inspect.signature(DATASETS[name]).parameters


def _maker(source: Any) -> tuple[str, Callable[..., Dataset]]:
    """Return what is to be loaded, in words, and how."""
    if is_frame(source):
        return "a frame", partial(load_frame, source)
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise InvalidInput(f"source must be a name, a file or a frame, got {kind}; as_dataset takes a pair (X, y)")
    place = str(source)
    if names_file(source):
        return f"file {place}", partial(load_file, place)
    return f"data set {place}", DATASETS[place]


def names_file(source: str | Path) -> bool:
    """Whether a file is meant; raise if it is neither a file nor the name of a data set.

    Examples
    --------
    >>> names_file("digits"), names_file("clicks.csv")
    (False, True)
    """
    place = str(source)
    if place and place not in DATASETS and (isinstance(source, Path) or looks_like_file(place)):
        return True
    check_choice("data set", place[:LONGEST], [*DATASETS, FILE])
    return False
