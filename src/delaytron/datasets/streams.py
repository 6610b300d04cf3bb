"""Files larger than memory: their rows in blocks, in the order of the file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import as_kind, is_sparse
from delaytron.datasets.columns import Column, Columns
from delaytron.datasets.dataset import (
    Block,
    Scaling,
    check_two_classes,
    class_name,
    majority_error,
    plays_sparse,
    row_notes,
)
from delaytron.datasets.files import as_path, file_name, open_blocks
from delaytron.datasets.libsvm import widen
from delaytron.errors import InvalidInput
from delaytron.records import Ints

if TYPE_CHECKING:
    from delaytron.checks import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class FileStream:
    """A file that `simulate` reads block by block; `stream` makes it, and has read and checked all of it once.

    Parameters
    ----------
    read : callable
        Iterates over the blocks of the file, from its beginning.
    values : ndarray
        The labels that occur, sorted; the place of a label is its class number.
    class_counts : ndarray, optional
        The number of rows of the file with each of these labels.
    notes : tuple of str
        What was done while reading, a line each.
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
        """The number of classes."""
        return len(self.values)

    @property
    def majority_error(self) -> float | None:
        """The error of always playing the most frequent class of all rows; None if they were not counted."""
        return None if self.class_counts is None else majority_error(self.class_counts)

    def blocks(self) -> Iterator[tuple["Matrix", Ints]]:
        """Iterate over the rows and their class numbers; raise InvalidInput if the file has changed since `stream`."""
        left, width = self.n_rows, self.n_features - self.scaling.bias
        for block in self.read():
            y = np.searchsorted(self.values, block.labels)
            left -= y.size
            known = (self.values.take(y, mode="clip") == block.labels).all()
            if not known or left < 0 or block.X.shape[1] > width:
                self._refuse_change()
            if y.size:  # all rows of a block may have been dropped
                yield as_kind(self.scaling.apply(widen(block.X, width)), self.sparse), y
        if left:
            self._refuse_change()

    def _refuse_change(self) -> NoReturn:
        raise InvalidInput(f"{self.source} was changed while it was read", "try again when no process writes it")

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
    header: bool = True,
    zero_based: bool | None = None,
    scale: str | None = None,
    bias: bool = False,
    format: str | None = None,
) -> FileStream:
    r"""Open a CSV, TSV, JSON lines, Parquet or LIBSVM file of any size for `simulate`, which holds only a part of it.

    A table is read once to fit its encoder. Then the file is read to find its classes and to check every row, and once
    more if dense columns are scaled to deviation 1: rows are played as `load` would store them, dense or CSR. Raises
    InvalidInput as `load` does.

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
    labels, counts = [], []  # the distinct labels of each block, and how often they occur
    n_rows = width = nonzeros = dropped = filled = 0
    for block in read():
        dropped += block.dropped
        filled += block.filled
        if not len(block.labels):
            continue
        scaling.partial_fit(block.X)
        nonzeros += 0 if scaling.needs_all else _nonzeros(block, scaling)
        n_rows += len(block.labels)
        width = max(width, block.X.shape[1])
        found, times = np.unique(block.labels, return_counts=True)
        labels.append(found)
        counts.append(times)
    names, sparse = block.feature_names, is_sparse(block.X)  # of the last block: all have the same
    if scaling.needs_all and not sparse:  # scaled rows are known only now
        nonzeros = sum(_nonzeros(block, scaling) for block in read())
    values, codes = np.unique(np.concatenate(labels), return_inverse=True)
    check_two_classes(str(path), values)
    n_features = width + scaling.bias
    return FileStream(
        read=read,
        name=file_name(place),
        source=str(path),
        n_rows=n_rows,
        n_features=n_features,
        values=values,
        sparse=sparse or plays_sparse(nonzeros, n_rows, n_features),
        scaling=scaling,
        feature_names=(*names, "bias") if names and bias else names,
        class_counts=np.bincount(codes, np.concatenate(counts)).astype(np.int64),
        notes=(*block.notes, *row_notes(filled, dropped, n_rows)),
    )


def _nonzeros(block: Block, scaling: Scaling) -> int:
    """Return the number of non-zeros of dense rows after scaling; 0 for sparse rows, which stay sparse anyway."""
    if is_sparse(block.X) or not len(block.labels):
        return 0
    return int(np.count_nonzero(np.asarray(scaling.apply(block.X))))
