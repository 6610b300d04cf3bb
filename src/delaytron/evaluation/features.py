"""The features of a log as rows of numbers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.model.encoding import make_encoder
from delaytron.records import Row

if TYPE_CHECKING:
    from delaytron.logs.log import Log
    from delaytron.matrices import Matrix

BITS = 18  # of hashed features, as a model has them by default
FEWEST_BITS = 10  # a learner of fewer features has learned from vectors, not from hashed names


def rows_of(log: "Log", bits: int = BITS) -> "Matrix":
    """Return the features of a log as a matrix; those with names are hashed as a model hashes them."""
    if isinstance(log.features, list):
        return _hashed(log.features, bits)
    matrix: Matrix = log.features
    return matrix


def bits_for(n_features: int) -> int:
    """Return how many bits hashed rows of so many features have.

    Examples
    --------
    >>> bits_for(2**18)
    18
    """
    bits = n_features.bit_length() - 1
    if n_features != 2**bits or bits < FEWEST_BITS:
        raise InvalidInput(
            f"the log's features have names, and this learner takes rows of {n_features} numbers; "
            "make a log of such rows, or give a learner by its name"
        )
    return bits


def _hashed(features: Iterable[Any], bits: int) -> "Matrix":
    encoder = make_encoder("hashed", bits)
    return _joined([encoder.encode(one) for one in features], 2**bits)


def _joined(rows: list[Row], n_features: int) -> "Matrix":
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    ends = np.concatenate([[0], np.cumsum([row.values.size for row in rows])])
    values = np.concatenate([row.values for row in rows])
    indices = np.concatenate([np.asarray(row.indices, np.int32) for row in rows])
    return csr_array((values, indices, ends.astype(np.int32)), shape=(len(rows), n_features))
