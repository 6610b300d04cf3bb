"""Files of features from images: what `delaytron datasets build` writes and `load` reads."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice
from delaytron.datasets.catalogue import CARDS, CIFAR10_IMAGES, FASHION_PIXELS, VGG16_WEIGHTS
from delaytron.datasets.downloads import fetch
from delaytron.datasets.images import read_idx
from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_arrays
from delaytron.images import cnn, vgg16
from delaytron.images.cifar import read_archive
from delaytron.images.network import Images, Progress, import_torch

N_IMAGES = {"cifar10": 60_000, "fashion_mnist": cnn.n_images(60_000, 10_000)}  # what `progress` is told, in all
INPUTS = {
    "cifar10": (CIFAR10_IMAGES, VGG16_WEIGHTS),
    "fashion_mnist": (*FASHION_PIXELS.files["train"], *FASHION_PIXELS.files["test"]),
}


def inputs(name: str) -> list[Path]:
    """Return the files that the features of a data set are made of, after downloads if need be."""
    files = INPUTS[check_choice("data set to build", name, INPUTS)]
    import_torch()  # nothing is downloaded in vain
    return [fetch(file) for file in files]


def build(name: str, folder: Path, seed: int = 0, progress: Progress | None = None) -> Path:
    """Make the features of a data set and return the file, which lies where `load` looks for it in a data folder.

    Parameters
    ----------
    folder : Path
        The data folder: what `DELAYTRON_DATA` names, or the cache.
    seed : int
        Of the training; VGG-16 is not trained here.
    progress : callable, optional
        Is told the number of images just done; `N_IMAGES` has their sum.
    """
    files = inputs(name)
    target = folder / CARDS[name].files["train"][0].path
    if name == "cifar10":
        images, weights = files
        build_cifar10(images, weights, target, progress)
    else:
        build_fashion_mnist(files, target, seed, progress=progress)
    return target


def build_cifar10(images: Path, weights: Path, target: Path, progress: Progress | None = None) -> None:
    """Write the VGG-16 features of CIFAR-10.

    Parameters
    ----------
    images : Path
        The publisher's binary archive, `cifar-10-binary.tar.gz`.
    weights : Path
        The weights that torchvision published, `vgg16-397923af.pth`.
    target : Path
        The `.npz` file to write, with X_train, X_test (float16), y_train and y_test (uint8).
    """
    network = vgg16.load_network(weights)
    given = read_archive(images)
    X_train, X_test = (vgg16.features(part, network, progress) for part in (given.train, given.test))
    _write(target, {"X_train": X_train, "X_test": X_test, "y_train": given.y_train, "y_test": given.y_test})


def build_fashion_mnist(
    files: Sequence[Path], target: Path, seed: int = 0, epochs: int = cnn.EPOCHS, progress: Progress | None = None
) -> float:
    """Train the four-layer network, write its features and its last layer, and return its test accuracy.

    Parameters
    ----------
    files : four paths
        The idx files of the training images, their labels, the test images and theirs.
    target : Path
        The `.npz` file to write, with X_train, X_test (float16), y_train, y_test (uint8), W_head and b_head (float32).
    """
    import_torch()  # before the images are read in vain
    images = Images(*map(read_idx, files))
    _check(images, files)
    trained = cnn.train(images, seed, epochs, progress)
    _write(target, {"y_train": images.y_train, "y_test": images.y_test, **trained._asdict()})
    return trained.accuracy(images.y_test)


def _check(images: Images, files: Sequence[Path]) -> None:
    for pixels, y, file, labels in zip(images[::2], images[1::2], files[::2], files[1::2], strict=True):
        if pixels.shape[1:] != (28, 28) or len(pixels) == 0:
            raise InvalidInput(f"{file} must hold images of 28 x 28 pixels, got shape {pixels.shape}")
        if y.shape != (len(pixels),):
            raise InvalidInput(f"{labels} must hold a class for each of {len(pixels)} images, got shape {y.shape}")
        if y.max() >= cnn.N_CLASSES:
            raise InvalidInput(f"{labels} must hold classes from 0 to {cnn.N_CLASSES - 1}, got {y.max()}")


def _write(target: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InvalidInput(
                f"{name} of {target} would not be finite: the weights of the network are no good; get the file again"
            )
    replace_arrays(target, arrays)
