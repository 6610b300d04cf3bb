"""Data sets: named ones, files and frames of users, pairs (X, y), and files larger than memory."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from delaytron.checks import check_integer, did_you_mean
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.dataset import Dataset, Scaling, choose_form, is_frame, rescale
from delaytron.datasets.files import load_file, looks_like_file
from delaytron.datasets.named import (
    abalone,
    cifar10,
    digits,
    ecoli,
    fashion_mnist,
    hotel_resort,
    incidents,
    news20,
    optdigits,
    usps,
)
from delaytron.datasets.streams import FileStream, stream
from delaytron.datasets.synthetic import synnonsep, synsep
from delaytron.datasets.tables import as_dataset, load_frame
from delaytron.errors import InvalidInput, Setting
from delaytron.rng import stream as random_stream

__all__ = ["DATASETS", "Dataset", "FileStream", "as_dataset", "load", "stream"]

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
    "hotel_resort": hotel_resort,
    "incidents": incidents,
}

LONGEST = 80  # characters of a name in a message


def load(
    source: Any, *, scale: str | None = None, bias: bool = False, shuffle: int | None = None, **options: Any
) -> Dataset:
    """Return a data set: a named one, or that of a file, or of a frame of pandas or polars.

    Raises InvalidInput if there is no such data set, file or option, and if a file or frame cannot be read as one.

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
    If at most a fifth of the numbers differ from 0 after scaling, X is CSR, which is played faster.

    Examples
    --------
    >>> load("synsep", n_samples=1000, seed=7, scale="unit", bias=True)
    Dataset('synsep', 1000 rows, 401 features, 9 classes, sparse)
    """
    scaling = Scaling(scale, bias)
    make: Callable[..., Dataset]
    if is_frame(source):
        what, make = "a frame", partial(load_frame, source)
    elif not isinstance(source, str | Path):
        kind = type(source).__name__
        raise InvalidInput.of("source", "a name, a file or a frame", got=kind, hint="as_dataset takes a pair (X, y)")
    elif names_file(source):
        what, make = f"file {source}", partial(load_file, str(source))
    else:
        what, make = f"data set {source}", DATASETS[str(source)]
    known = inspect.signature(make).parameters
    for option in options:
        if not known:
            raise InvalidInput((f"{what} takes no options; got ", Setting(option)), "leave it out", parameter=option)
        if option not in known:
            listed = [part for name in known for part in (", ", Setting(name))][1:]
            hint = ("take one of ", *listed)
            raise InvalidInput((f"{what} has no option ", Setting(option)), hint, parameter=option)
    seed = None if shuffle is None else check_integer("shuffle", shuffle, at_least=0)
    data = choose_form(rescale(make(**options), scaling))
    if seed is None:
        return data
    if data.delays is not None:
        problem = (Setting("shuffle"), " would tear the rows from the order of their decisions")
        raise InvalidInput(problem, "leave it out; the delay 'shuffled' shuffles the delays over the rows")
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


def has_delays(name: str, options: Mapping[str, Any]) -> bool:
    """Whether a data set that is loaded with these options has the delays with which its rows were recorded.

    Examples
    --------
    >>> has_delays("log.csv", {"decided": "shown_at", "answered": "clicked_at"}), has_delays("digits", {})
    (True, False)
    """
    return options.get("decided") is not None or (name in CARDS and CARDS[name].recorded)


def names_file(source: str | Path) -> bool:
    """Whether a file is meant; raise InvalidInput if it is neither a file nor the name of a data set.

    Examples
    --------
    >>> names_file("digits"), names_file("clicks.csv")
    (False, True)
    """
    place = str(source)
    if place in DATASETS:
        return False
    if place and (isinstance(source, Path) or looks_like_file(place)):
        return True
    allowed = f"one of {', '.join(DATASETS)}, or the path of a file"
    raise InvalidInput.of("data set", allowed, place[:LONGEST], did_you_mean(place, DATASETS))
