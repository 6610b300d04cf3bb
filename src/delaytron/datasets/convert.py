"""Whatever a caller has, as a data set: a Dataset, a pair (X, y) or a frame."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from delaytron.checks import shown
from delaytron.datasets.arrow import read_features
from delaytron.datasets.base import Dataset, encode_labels, is_frame
from delaytron.datasets.files import load_frame
from delaytron.datasets.form import choose_form
from delaytron.errors import InvalidInput
from delaytron.matrices import check_matrix


def as_dataset(data: Any, name: str = "data") -> Dataset:
    """Pass a Dataset through, or make one of a pair (X, y) or of a frame with a column called label or class.

    Whole non-negative labels of a pair are class numbers; any others (text, negative numbers, fractions) are numbered
    in sorted order and keep their names. Frames of pandas or polars keep the names of their columns, see `load`. A pair
    and a Dataset are played in the form that they have, dense or sparse.

    Examples
    --------
    >>> as_dataset(([[0, 1], [1, 0], [1, 1]], ["cat", "dog", "cat"]), name="pets").class_names
    ('cat', 'dog')
    """
    if isinstance(data, Dataset):
        if data.sparse:
            check_matrix(data.X)  # the loop trusts its indices, and the caller may have written into them since
        return data
    if is_frame(data):
        return choose_form(replace(load_frame(data), name=name))
    if not isinstance(data, tuple | list) or len(data) != 2:
        hint = f"; load it first: dt.datasets.load({shown(str(data))})" if isinstance(data, str | Path) else ""
        raise InvalidInput(f"data must be a Dataset or a pair (X, y), got {type(data).__name__}{hint}")
    X, feature_names = _features(data[0])
    y, class_names = encode_labels(data[1])
    return Dataset(X, y, name, class_names, feature_names=feature_names)


def _features(X: Any) -> tuple[Any, tuple[str, ...]]:
    if not is_frame(X):
        return X, ()
    block = read_features(X)
    return block.X, block.feature_names
