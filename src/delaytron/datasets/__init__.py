"""Data sets by name, and any (X, y) as a data set."""

import inspect
from collections.abc import Callable
from typing import Any

from delaytron.checks import choice
from delaytron.datasets.base import Dataset, as_dataset
from delaytron.datasets.bundled import digits
from delaytron.datasets.streams import FileStream
from delaytron.datasets.synthetic import synnonsep, synsep
from delaytron.errors import InvalidInput

__all__ = ["DATASETS", "Dataset", "FileStream", "as_dataset", "load"]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "synsep": synsep,
    "synnonsep": synnonsep,
    "digits": digits,
}


def load(name: str, **options: Any) -> Dataset:
    """Make or read the data set called `name`.

    Examples
    --------
    >>> load("synsep", n_samples=1000, seed=7)
    Dataset('synsep', 1000 rows, 400 features, 9 classes, sparse)
    """
    make = DATASETS[choice("data set", name, DATASETS)]
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            takes = f"the options {', '.join(known)}" if known else "no options"
            raise InvalidInput(f"data set {name} takes {takes}; got {option!r}")
    return make(**options)
