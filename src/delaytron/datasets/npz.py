"""NPZ files: arrays X and y; X_train, X_test, y_train and y_test; or the parts of a CSR matrix and y."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.base import Block
from delaytron.datasets.headers import listed
from delaytron.errors import InvalidInput
from delaytron.files.arrays import BROKEN, read_npy, reason
from delaytron.files.compressed import check_ratio

CSR_PARTS = ("data", "indices", "indptr", "shape")
WANTED = "X, or X_train and X_test, or data, indices, indptr and shape as of scipy.sparse.save_npz"


class Arrays(NamedTuple):
    """The arrays of an open file, each read when it is asked for."""

    path: Path
    archive: zipfile.ZipFile
    names: tuple[str, ...]

    def read(self, name: str) -> NDArray[Any]:
        """Return an array, or say why it cannot be read."""
        with _reading(self.path, f"the array {name}"):
            stored = self.archive.NameToInfo
            member = stored.get(f"{name}.npy") or stored[name]
            check_ratio(self.path, member.file_size, member.compress_size, "save it by numpy.savez, or as CSR")
            with self.archive.open(member) as file:
                return read_npy(file, member.file_size)

    def parts(self, name: str) -> list[str]:
        """Return the arrays that make up one: itself, or its parts for training and testing."""
        if name in self.names:
            return [name]
        return [part for part in (f"{name}_train", f"{name}_test") if part in self.names]

    def stacked(self, names: Sequence[str]) -> NDArray[Any]:
        """Return arrays as one, each below the one before."""
        parts = [self.read(name) for name in names]
        with _reading(self.path, f"the arrays {listed(names)}"):
            return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_npz(path: Path, label: str | None = None) -> Block:
    """Read a whole file; `label` is the name of the array of labels, "y" by default."""
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: must be a file of numpy.savez, got another or a part of one; save it again")
    with _reading(path, "the file"), zipfile.ZipFile(path) as archive:
        names = tuple(name.removesuffix(".npy") for name in archive.namelist())
        arrays = Arrays(path, archive, names)
        _check_pairs(arrays, label or "y")
        return Block(_matrix(arrays), _labels(arrays, label or "y"))


def _check_pairs(arrays: Arrays, label: str) -> None:
    """Raise if the features are of one part and the labels of another."""
    matrices = arrays.parts("X")
    labels = arrays.parts(label)
    of_features = [name.removeprefix("X") for name in matrices]
    of_labels = [name.removeprefix(label) for name in labels]
    if matrices and labels and of_features != of_labels:
        listing = listed(matrices + labels)
        raise InvalidInput(f"{arrays.path}: features and labels must be of the same rows, got {listing}")


def _matrix(arrays: Arrays) -> Any:
    names = arrays.parts("X")
    if names:
        return arrays.stacked(names)
    if not all(part in arrays.names for part in CSR_PARTS):
        raise InvalidInput(f"{arrays.path}: must have the arrays {WANTED}; got {listed(arrays.names)}")
    form = str(arrays.read("format").astype(str)) if "format" in arrays.names else "csr"
    if form != "csr":
        raise InvalidInput(f"{arrays.path}: a sparse matrix must be saved as CSR, got {form!r}; save X.tocsr()")
    return _csr(arrays)


def _csr(arrays: Arrays) -> Any:
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    data, indices, ends, shape = map(arrays.read, CSR_PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InvalidInput(f"{arrays.path}: shape must be two integers, got {str(shape.tolist())[:40]}")
    if {part.ndim for part in (data, indices, ends)} != {1} or {indices.dtype.kind, ends.dtype.kind} - {"i", "u"}:
        raise InvalidInput(f"{arrays.path}: indices and indptr must be 1-D integers, and data 1-D")
    return csr_array((data, indices, ends), shape=tuple(shape.tolist()))


def _labels(arrays: Arrays, name: str) -> NDArray[Any]:
    path = arrays.path
    names = arrays.parts(name)
    if not names:
        there = listed(arrays.names)
        raise InvalidInput(
            f"{path}: the labels must be in an array {name}, got {there}; pass label=NAME (--label NAME)"
        )
    labels = arrays.stacked(names)
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise InvalidInput(f"{path}: {name} must be 1-D of numbers or text, got {labels.dtype} of shape {labels.shape}")
    missing = ~np.isfinite(labels) if labels.dtype.kind == "f" else labels == ""
    if missing.any():
        raise InvalidInput(f"{path}, row {missing.argmax()}: the label in {name} is missing; leave the row out")
    return labels


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Say of something that cannot be read which it is."""
    try:
        yield
    except InvalidInput:
        raise
    except BROKEN as problem:
        raise InvalidInput(f"{path}: {what} cannot be read: {reason(problem)}; save it again") from None
