"""Images: pixels as their publishers store them, and features that networks made of them."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.datasets.base import Block, Dataset
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS
from delaytron.datasets.named import assemble
from delaytron.errors import InvalidInput
from delaytron.files.compressed import BROKEN


def cifar10(part: str = "all") -> Dataset:
    """Photographs of ten kinds of things, by 512 features of VGG-16.

    Parameters
    ----------
    part : {"all", "train", "test"}
        The published training rows, the test rows, or all: the training rows first.
    """
    return assemble("cifar10", CARDS["cifar10"], _arrays, part)


def fashion_mnist(features: str = "cnn", part: str = "all") -> Dataset:
    """Photographs of ten kinds of clothes.

    Parameters
    ----------
    features : {"cnn", "pixels"}
        128 features of a small network trained on the training rows, or 784 pixels from 0 to 255.
    part : {"all", "train", "test"}
        See `cifar10`.
    """
    if check_choice("features", features, ["cnn", "pixels"]) == "pixels":
        return assemble("fashion_mnist", FASHION_PIXELS, _pixels, part)
    return assemble("fashion_mnist", CARDS["fashion_mnist"], _arrays, part)


def usps(part: str = "all") -> Dataset:
    """Handwritten digits from envelopes: 256 pixels from -1 to 1; for `part` see `cifar10`."""
    return assemble("usps", CARDS["usps"], _label_first, part)


def optdigits(part: str = "all") -> Dataset:
    """Handwritten digits: 64 pixels from 0 to 16; for `part` see `cifar10`."""
    return assemble("optdigits", CARDS["optdigits"], _label_last, part)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of a gzipped idx file of bytes: a header with the type and the sizes, then the values."""
    try:
        with gzip.open(path) as file:
            raw = file.read()
    except BROKEN as problem:
        raise InvalidInput(f"{path} cannot be read to its end: {problem}; remove it, and load again") from None
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise InvalidInput(f"{path} must be an idx file of bytes, but it starts with {raw[:4].hex(' ') or 'nothing'}")
    shape = tuple(np.frombuffer(raw, ">u4", count=raw[3], offset=4).tolist())
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if values.size != np.prod(shape, dtype=np.int64):
        raise InvalidInput(f"{path} must hold {' x '.join(map(str, shape))} bytes, but has {values.size}")
    return values.reshape(shape)


def _arrays(part: str, path: Path) -> Block:
    with np.load(path, allow_pickle=False) as arrays:
        return Block(arrays[f"X_{part}"], arrays[f"y_{part}"])


def _pixels(_: str, images: Path, labels: Path) -> Block:
    pixels = read_idx(images)
    return Block(pixels.reshape(len(pixels), -1), read_idx(labels))  # type: ignore[arg-type]


def _label_first(_: str, path: Path) -> Block:
    with gzip.open(path) as file:
        table = np.loadtxt(file, ndmin=2)
    return Block(table[:, 1:], table[:, 0])


def _label_last(_: str, path: Path) -> Block:
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    return Block(table[:, :-1], table[:, -1])
