"""SynSep and SynNonSep: the synthetic documents of Kakade, Shalev-Shwartz and Tewari (2008).

Of 400 words 120 are topic words. A class owns 20 to 40 of them; a document has the words of its class without 5, and
20 of the 280 common words. SynSep is separable with a known margin; SynNonSep has noisy labels.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_bool, check_choice, check_integer, check_number
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.dataset import Dataset
from delaytron.errors import InvalidInput
from delaytron.rng import stream

if TYPE_CHECKING:
    from scipy.sparse import csr_array

N_CLASSES, N_TOPIC, N_WORDS = 9, 120, 400
FEWEST, MOST = 20, 40  # topic words of a class
N_OFF, N_COMMON = 5, 20  # topic words a document lacks, common words it has
LONGEST = MOST - N_OFF + N_COMMON  # words in the longest document
LARGEST = (2**31 - 1) // LONGEST  # documents that 32-bit indices can hold
BLOCK = 4096  # documents drawn at once: keeps the scratch arrays small and in cache
CLASS_NAMES = tuple(str(k) for k in range(N_CLASSES))

Words = NDArray[np.bool_]


def synsep(n_samples: int = 100_000, seed: int = 0, normalize: bool = False) -> Dataset:
    """Return separable documents in 9 classes, with the `certificate` that separates them.

    A longer data set of the same seed starts with the shorter one. Raises InvalidInput if there are too many.

    Parameters
    ----------
    normalize : bool
        Scale every row to norm 1; otherwise the values are 1.

    Examples
    --------
    >>> synsep(1000)
    Dataset('synsep', 1000 rows, 400 features, 9 classes, sparse)
    """
    if check_integer("n_samples", n_samples, at_least=1) > LARGEST:
        raise InvalidInput.of("n_samples", f"at most {LARGEST}", got=str(n_samples))
    words = draw_class_words(stream(seed, "synthetic words"))
    y = stream(seed, "synthetic classes").integers(N_CLASSES, size=n_samples)
    X = _documents(words, y, stream(seed, "synthetic documents"))
    scale = 1.0
    if check_bool("normalize", normalize):
        lengths = np.diff(X.indptr)
        X.data /= np.repeat(np.sqrt(lengths), lengths)
        scale = np.sqrt(LONGEST)  # the longest document has the smallest values
    certificate = scale * words / margin(words)
    return Dataset(X, y, "synsep", CLASS_NAMES, certificate, **CARDS["synsep"].provenance)


def synnonsep(
    n_samples: int = 100_000, seed: int = 0, normalize: bool = False, noise: float = 0.05, flip: str = "other"
) -> Dataset:
    """Return the documents of `synsep`, each label replaced with probability `noise`.

    Parameters
    ----------
    flip : {"other", "any"}
        A replaced label is uniform on the 8 other classes, or on all 9, the true one included.

    Examples
    --------
    >>> clean, noisy = synsep(1000), synnonsep(1000)
    >>> bool(0.02 < (clean.y != noisy.y).mean() < 0.08)
    True
    """
    if not 0 <= check_number("noise", noise) <= 1:
        raise InvalidInput.of("noise", "in [0, 1]", noise)
    check_choice("flip", flip, ["other", "any"])
    clean = synsep(n_samples, seed, normalize)
    u, which = stream(seed, "synthetic noise").random((n_samples, 2)).T
    others = (clean.y + 1 + _floor(which, N_CLASSES - 1)) % N_CLASSES
    replaced = others if flip == "other" else _floor(which, N_CLASSES)
    y = np.where(u < noise, replaced, clean.y)
    return Dataset(clean.X, y, "synnonsep", CLASS_NAMES, clean.certificate, **CARDS["synnonsep"].provenance)


def draw_class_words(rng: np.random.Generator) -> Words:
    """Return which of the 400 words each class owns, drawn until the classes are separable."""
    while True:
        sizes = rng.integers(FEWEST, MOST, size=N_CLASSES, endpoint=True)
        ranks = rng.random((N_CLASSES, N_TOPIC)).argsort(axis=1).argsort(axis=1)
        words = np.zeros((N_CLASSES, N_WORDS), dtype=np.bool_)
        words[:, :N_TOPIC] = ranks < sizes[:, None]
        if margin(words) >= 1:
            return words


def margin(words: Words) -> int:
    """Return the smallest lead of the own class over any other, in words, whatever 5 words are left out.

    Examples
    --------
    >>> margin(np.kron(np.eye(9, 10, dtype=bool), np.ones((1, 40), dtype=bool)))
    35
    """
    common = words.astype(np.int64) @ words.T.astype(np.int64)
    lead = common.diagonal()[:, None] - N_OFF - common
    return int(lead[~np.eye(len(words), dtype=np.bool_)].min())


def _documents(
    words: Words, y: NDArray[np.int64], rng: np.random.Generator
) -> "csr_array[np.float64, tuple[int, int]]":
    """Return a row of 0 and 1 for each document: the words of its class without `N_OFF`, and `N_COMMON` others."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - `import delaytron` does not pay for SciPy

    sizes = words.sum(axis=1)
    order = np.argsort(~words, axis=1, kind="stable")  # a class's own words first
    ends = np.concatenate([[0], np.cumsum((sizes - N_OFF + N_COMMON)[y])]).astype(np.int32)
    indices = np.empty(ends[-1], dtype=np.int32)
    for first in range(0, len(y), BLOCK):
        classes = y[first : first + BLOCK]
        u = rng.random((len(classes), N_OFF + N_COMMON))
        documents = words[classes]  # a row for each document: which words it has
        off = _subsets(u[:, :N_OFF], sizes[classes])
        np.put_along_axis(documents, order[classes[:, None], off], False, axis=1)
        on = _subsets(u[:, N_OFF:], np.full(len(classes), N_WORDS - N_TOPIC))
        np.put_along_axis(documents, N_TOPIC + on, True, axis=1)
        indices[ends[first] : ends[first + len(classes)]] = np.flatnonzero(documents) % N_WORDS
    return csr_array((np.ones(len(indices)), indices, ends), shape=(len(y), N_WORDS))


def _subsets(u: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return in row i a uniform subset of {0, ..., sizes[i] - 1}: Floyd's algorithm, one number per member."""
    picks = np.empty(u.shape[::-1], dtype=np.int64)
    for j, column in enumerate(u.T):
        last = sizes - len(picks) + j
        pick = _floor(column, last + 1)
        taken = (picks[:j] == pick).any(axis=0)
        picks[j] = np.where(taken, last, pick)
    return picks.T


def _floor(u: NDArray[np.float64], n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return uniform integers from 0 to n - 1, given uniform numbers in [0, 1)."""
    return (u * n).astype(np.int64)  # below n, since u <= 1 - 2^-53
