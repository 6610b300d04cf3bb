"""Files larger than memory: rows in blocks, each shown once and in its order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.base import Block, class_name, majority_error
from delaytron.datasets.files import as_path, check_several, file_name, open_blocks
from delaytron.datasets.form import plays_sparse
from delaytron.datasets.headers import Column, Columns
from delaytron.datasets.libsvm import widen
from delaytron.datasets.notes import row_notes
from delaytron.datasets.scaling import Scaling
from delaytron.errors import InvalidInput
from delaytron.matrices import as_kind, is_sparse
from delaytron.records import Ints

if TYPE_CHECKING:
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
    class_counts : ndarray, optional
        How many rows of the file have each of these labels.
    notes : tuple of str
        What was done when it was read, a line each.
    """

    read: Callable[[], Iterator[Block]]
    name: str
    source: str
    n_rows: int
    n_features: int
    values: NDArray[Any]
    sparse: bool
    scaling: Scaling
    feature_names: tuple[str, ...] = ()
    class_counts: Ints | None = None
    notes: tuple[str, ...] = ()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels that occur, as text."""
        return tuple(map(class_name, self.values.tolist()))

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.values)

    @property
    def majority_error(self) -> float | None:
        """The error of always playing the most frequent class of all rows; None where nobody has counted them."""
        return None if self.class_counts is None else majority_error(self.class_counts)

    def blocks(self) -> Iterator[tuple["Matrix", Ints]]:
        """Iterate over the rows and their class numbers."""
        left, width = self.n_rows, self.n_features - self.scaling.bias
        for block in self.read():
            y = np.searchsorted(self.values, block.labels)
            left -= y.size
            known = (self.values.take(y, mode="clip") == block.labels).all()
            self._check_unchanged(known and left >= 0 and block.X.shape[1] <= width)
            if y.size:  # all rows of a block may have been dropped
                yield as_kind(self.scaling.apply(widen(block.X, width)), self.sparse), y
        self._check_unchanged(left == 0)

    def _check_unchanged(self, same: bool) -> None:
        if not same:
            raise InvalidInput(f"{self.source} was changed while it was read; try again")

    def __repr__(self) -> str:
        sizes = f"{self.n_rows} rows, {self.n_features} features, {self.n_classes} classes"
        return f"FileStream({self.name!r}, {sizes}, {'sparse' if self.sparse else 'dense'})"


def stream(
    path: str | Path,
    label: Column | None = None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
    header: str | bool = "auto",
    zero_based: str | bool = "auto",
    scale: str | None = None,
    bias: bool = False,
    format: str | None = None,
) -> FileStream:
    r"""Open a CSV, TSV, JSON lines, Parquet or LIBSVM file of any size for `simulate`, which holds only a part of it.

    The file is read through here, to find its classes and to check every row of it, once more where columns must be
    looked at before they are numbers, and once more where dense columns are to be scaled to deviation 1, since rows are
    played as `load` would store them, dense or CSR.

    Parameters
    ----------
    label, categorical, drop, keep, missing, header, zero_based, scale, bias, format
        As for `load`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "clicks.svm")
    ...     _ = file.write_text("1 3:0.5 7:2\n4 1:1\n1 7:3\n")
    ...     stream(file)
    FileStream('clicks', 3 rows, 7 features, 2 classes, sparse)
    """
    scaling = Scaling(scale, bias)
    place = as_path(path)
    asked = {"label": label, "categorical": categorical, "drop": drop, "keep": keep, "missing": missing}
    read = open_blocks(place, format, asked | {"header": header, "zero_based": zero_based})
    first = _first_reading(read(), scaling)
    names = first.last.feature_names
    sparse = is_sparse(first.last.X)
    nonzeros = first.nonzeros
    if scaling.needs_all and not sparse:
        nonzeros = sum(_nonzeros(block, scaling) for block in read())
    values, places = np.unique(np.concatenate(first.labels), return_inverse=True)
    n_features = first.n_features + scaling.bias
    return FileStream(
        read=read,
        name=file_name(place),
        source=str(path),
        n_rows=first.n_rows,
        n_features=n_features,
        values=check_several(str(path), values),
        sparse=sparse or plays_sparse(nonzeros, first.n_rows, n_features),
        scaling=scaling,
        feature_names=(*names, "bias") if names and bias else names,
        class_counts=np.bincount(places, np.concatenate(first.counts)).astype(np.int64),
        notes=row_notes(first.last._replace(dropped=first.dropped, filled=first.filled), first.n_rows + first.dropped),
    )


@dataclass
class Totals:
    """What is known of a file when all its blocks are read."""

    labels: list[NDArray[Any]]  # the different ones of each block
    counts: list[Ints]
    n_rows: int = 0
    n_features: int = 0
    nonzeros: int = 0
    dropped: int = 0
    filled: int = 0
    last: Block = field(default=Block(np.zeros((0, 0)), np.zeros(0)))


def _first_reading(blocks: Iterator[Block], scaling: Scaling) -> Totals:
    found = Totals([], [])
    for block in blocks:
        found.dropped += block.dropped
        found.filled += block.filled
        found.last = block
        if not len(block.labels):
            continue
        scaling.see(block.X)
        found.nonzeros += 0 if scaling.needs_all else _nonzeros(block, scaling)
        found.n_rows += len(block.labels)
        found.n_features = max(found.n_features, block.X.shape[1])
        labels, counts = np.unique(block.labels, return_counts=True)
        found.labels.append(labels)
        found.counts.append(counts)
    return found


def _nonzeros(block: Block, scaling: Scaling) -> int:
    """Count the numbers of dense rows that are not 0 after scaling."""
    return (
        0 if is_sparse(block.X) or not len(block.labels) else int(np.count_nonzero(np.asarray(scaling.apply(block.X))))
    )
