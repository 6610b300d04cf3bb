"""The data that the speed is measured on, and the exploration rate that goes with all of them."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

import delaytron as dt

GAMMA = 0.014


class Case(NamedTuple):
    """One row of the table; the NumPy loops play ``short`` rounds of one run, VW learns ``vw_rows`` rows."""

    name: str
    data: dt.datasets.Dataset
    runs: int
    short: int
    vw_rows: int


def cases(quick):
    """Make the data of each row just before it is measured."""
    less = 5 if quick else 1
    words = dt.datasets.load("synsep", n_samples=100_000 // less, seed=0)
    T = f"T={words.n_rows:,}"
    dense = as_dense(words)
    yield Case(f"dense, K=9, d=400, {T}, 20 runs", dense, 20, 10_000, 10_000)
    del dense
    yield Case(f"CSR, K=9, d=400, 45 of them non-zero, {T}, 20 runs", words, 20, 10_000, 10_000)
    T = 20_000 // less
    yield Case(f"dense, K=10, d=784, T={T:,}, 20 runs", clouds(T), 20, 5_000, 1_000)
    yield Case(f"CSR, K=53, d=47,236, 75 non-zero, T={T:,}, 5 runs", articles(T), 5, 2_000, 1_000)


def two_forms(n_rows):
    """SynSep as CSR, then as a dense array."""
    words = dt.datasets.load("synsep", n_samples=n_rows, seed=0)
    yield "CSR", words
    yield "dense", as_dense(words)


def as_dense(words):
    """Return the same rows as a dense array."""
    return dt.datasets.Dataset(words.X.toarray(), words.y, "dense", words.class_names)


def clouds(n_rows, n_features=784, n_classes=10):
    """A mean for each class, and as much noise as leaves the classes apart."""
    rng = np.random.default_rng(1)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.normal(size=(n_classes, n_features))[y]
    X += 2 * rng.normal(size=X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return dt.datasets.as_dataset((X, y), name="clouds")


def articles(n_rows, n_features=47_236, n_classes=53, nonzeros=75):
    """Sparse unit rows as a text gives them: a few frequent words, many rare ones, a third of them topical.

    The words are cut into segments that grow like an exponential, and a row has one word from each.
    """
    rng = np.random.default_rng(2)
    y = rng.integers(n_classes, size=n_rows)
    growth = np.expm1(np.linspace(0, 6, nonzeros + 1)) / np.expm1(6)
    edges = np.arange(nonzeros + 1) + (growth * (n_features - nonzeros)).astype(int)
    place = rng.random((n_rows, nonzeros))
    topical = rng.random((n_classes, nonzeros))[y, ::3]
    place[:, ::3] = (topical + place[:, ::3] / n_classes) % 1
    columns = edges[:-1] + (place * np.diff(edges)).astype(int)
    values = rng.exponential(size=columns.shape)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    indptr = np.arange(n_rows + 1) * nonzeros
    X = sparse.csr_array((values.ravel(), columns.ravel(), indptr), shape=(n_rows, n_features))
    return dt.datasets.as_dataset((X, y), name="articles")
