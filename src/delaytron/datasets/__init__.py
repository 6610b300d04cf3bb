"""Data sets by name, and any (X, y) as a data set."""

import inspect
from collections.abc import Callable
from typing import Any

from delaytron.checks import choice
from delaytron.datasets.base import Dataset, as_dataset
from delaytron.datasets.bundled import digits
from delaytron.datasets.images import cifar10, fashion_mnist, optdigits, usps
from delaytron.datasets.streams import FileStream
from delaytron.datasets.synthetic import synnonsep, synsep
from delaytron.datasets.text import news20
from delaytron.datasets.uci import abalone, ecoli
from delaytron.errors import InvalidInput

__all__ = ["DATASETS", "Dataset", "FileStream", "as_dataset", "load"]

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


def load(name: str, **options: Any) -> Dataset:
    """Make or read the data set called `name`.

    Examples
    --------
    >>> load("synsep", n_samples=1000, seed=7)
    Dataset('synsep', 1000 rows, 400 features, 9 classes, sparse)
    """
    return _load_named(name, options)


def _load_named(name: str, options: dict[str, Any]) -> Dataset:
    make = DATASETS[choice("data set", name, DATASETS)]
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            takes = f"the options {', '.join(known)}" if known else "no options"
            raise InvalidInput(f"data set {name} takes {takes}; got {option!r}")
    return make(**options)
