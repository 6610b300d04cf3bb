"""NPZ files: arrays X and y; X_train, X_test, y_train and y_test; or the parts of a CSR matrix and y."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.datasets.base import Block
from delaytron.datasets.headers import listed
from delaytron.errors import InvalidInput

CSR_PARTS = ("data", "indices", "indptr", "shape")
WANTED = "X, or X_train and X_test, or data, indices, indptr and shape as of scipy.sparse.save_npz"
BROKEN = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)

Arrays = Mapping[str, NDArray[Any]]


def read_npz(path: Path, label: str | None = None) -> Block:
    """Read a whole file; `label` is the name of the array of labels, "y" by default."""
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: must be a file of numpy.savez, got another or a part of one")
    with _reading(path, "the file"), np.load(path, allow_pickle=False) as arrays:
        _check_pairs(path, arrays, label or "y")
        return Block(_matrix(path, arrays), _labels(path, arrays, label or "y"))


def _check_pairs(path: Path, arrays: Arrays, label: str) -> None:
    """Raise if the features are of one part and the labels of another."""
    matrices, labels = _parts(arrays, "X"), _parts(arrays, label)
    parts = [name.removeprefix("X") for name in matrices], [name.removeprefix(label) for name in labels]
    if matrices and labels and parts[0] != parts[1]:
        raise InvalidInput(f"{path}: features and labels must be of the same rows, got {listed(matrices + labels)}")


def _matrix(path: Path, arrays: Arrays) -> Any:
    names = _parts(arrays, "X")
    if names:
        return _stacked(path, arrays, names)
    if not all(part in arrays for part in CSR_PARTS):
        raise InvalidInput(f"{path}: must have the arrays {WANTED}; got {listed(list(arrays))}")
    form = str(np.asarray(_array(path, arrays, "format")).astype(str)) if "format" in arrays else "csr"
    if form != "csr":
        raise InvalidInput(f"{path}: a sparse matrix must be saved as CSR, got {form}; save X.tocsr()")
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    data, indices, ends, shape = (_array(path, arrays, part) for part in CSR_PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InvalidInput(f"{path}: shape must be two integers, got {shape.tolist()!r}")
    return csr_array((data, indices, ends), shape=tuple(shape.tolist()))


def _labels(path: Path, arrays: Arrays, name: str) -> NDArray[Any]:
    names = _parts(arrays, name)
    if not names:
        raise InvalidInput(
            f"{path}: the labels must be in an array {name}, got {listed(list(arrays))}; pass label=NAME (--label NAME)"
        )
    labels = _stacked(path, arrays, names)
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise InvalidInput(f"{path}: {name} must be 1-D of numbers or text, got {labels.dtype} of shape {labels.shape}")
    missing = ~np.isfinite(labels) if labels.dtype.kind == "f" else labels == ""
    if missing.any():
        raise InvalidInput(f"{path}, row {missing.argmax()}: the label in {name} is missing; leave the row out")
    return labels


def _parts(arrays: Arrays, name: str) -> list[str]:
    """Return the arrays that make up one: itself, or its parts for training and testing."""
    return [name] if name in arrays else [f"{name}_{part}" for part in ("train", "test") if f"{name}_{part}" in arrays]


def _stacked(path: Path, arrays: Arrays, names: Sequence[str]) -> NDArray[Any]:
    parts = [_array(path, arrays, name) for name in names]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _array(path: Path, arrays: Arrays, name: str) -> NDArray[Any]:
    with _reading(path, f"the array {name}"):
        array = arrays[name]
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path}: {name} must be an array as of numpy.savez, got something else")
    return array


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Say of something that cannot be read which it is."""
    try:
        yield
    except InvalidInput:
        raise
    except BROKEN as problem:
        reason = "it holds Python objects, which may run code" if "pickle" in str(problem) else problem
        raise InvalidInput(f"{path}: {what} cannot be read: {reason}") from None
