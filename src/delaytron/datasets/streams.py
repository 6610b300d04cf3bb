"""Files larger than memory: rows in blocks, each shown once and in its order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.base import Block, class_name
from delaytron.datasets.libsvm import widen
from delaytron.errors import InvalidInput
from delaytron.records import Ints

if TYPE_CHECKING:
    from delaytron.datasets.scaling import Scaling
    from delaytron.matrices import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class FileStream:
    """A file that `simulate` reads block by block; made by `stream`, which has read and checked all of it once.

    Parameters
    ----------
    read : callable
        Opens the file anew and goes through its blocks.
    values : ndarray
        The labels that occur, sorted; the place of a label is its class number.
    """

    read: Callable[[], Iterator[Block]]
    name: str
    source: str
    n_rows: int
    n_features: int
    values: NDArray[Any]
    sparse: bool
    scaling: "Scaling"
    feature_names: tuple[str, ...] = ()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels that occur, as text."""
        return tuple(map(class_name, self.values.tolist()))

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.values)

    @property
    def n_bytes(self) -> int:
        """How much memory the rows take, apart from those that are being read."""
        return 0

    def blocks(self) -> Iterator[tuple["Matrix", Ints]]:
        """Go through the rows and their class numbers."""
        left = self.n_rows
        for block in self.read():
            y = np.searchsorted(self.values, block.labels)
            left -= y.size
            if left < 0 or (self.values.take(y, mode="clip") != block.labels).any():
                raise InvalidInput(f"{self.source} was changed while it was read; try again")
            yield self.scaling.apply(widen(block.X, self.n_features - self.scaling.bias)), y

    def __repr__(self) -> str:
        sizes = f"{self.n_rows} rows, {self.n_features} features, {self.n_classes} classes"
        return f"FileStream({self.name!r}, {sizes}, {'sparse' if self.sparse else 'dense'})"
