"""Large tables of which few rows differ from the beginning, kept as these rows: hashed models are such."""

from collections.abc import Mapping

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.files.tensors import Tensors

LARGE = 4096  # rows; smaller tables are kept as they are
PLACES, ROWS = ".places", ".rows"


def keep_changed(tensors: Tensors, initial: Tensors) -> Tensors:
    """Replace large tables by the rows in which they differ from the initial ones, and their places.

    Examples
    --------
    >>> initial = {"W": np.zeros((5000, 2))}
    >>> table = initial["W"].copy()
    >>> table[7] = 1.0
    >>> kept = keep_changed({"W": table}, initial)
    >>> kept["W.places"].tolist(), kept["W.rows"].tolist()
    ([7], [[1.0, 1.0]])
    >>> bool((fill_in(kept, initial)["W"] == table).all())
    True
    """
    kept: Tensors = {}
    for name, table in tensors.items():
        if len(table) < LARGE or name not in initial:
            kept[name] = table
            continue
        differs = (table.view(np.uint64) != initial[name].view(np.uint64)).reshape(len(table), -1).any(axis=1)
        places = np.flatnonzero(differs)
        kept[name + PLACES] = places.astype(np.uint32)
        kept[name + ROWS] = table[places]
    return kept


def fill_in(kept: Mapping[str, np.ndarray], initial: Tensors) -> Tensors:
    """Return the tables of which the changed rows were kept; raise if these do not fit."""
    tensors: Tensors = {}
    for name, table in kept.items():
        if name.endswith(PLACES):
            whole = name.removesuffix(PLACES)
            tensors[whole] = _filled(whole, initial, table, kept[whole + ROWS])
        elif not name.endswith(ROWS):
            tensors[name] = table
    return tensors


def _filled(name: str, initial: Tensors, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
    table = initial[name].copy()
    fits = places.ndim == 1 and rows.shape == (places.size, *table.shape[1:]) and rows.dtype == table.dtype
    if not fits or places.dtype != np.uint32 or (places.size and places.max() >= len(table)):
        raise InvalidInput(f"{name} has {rows.shape} of {rows.dtype} changed rows, which do not fit {table.shape}")
    table[places] = rows
    return table
