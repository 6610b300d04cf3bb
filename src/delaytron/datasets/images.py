"""Features of images by networks: VGG-16 for CIFAR-10, four layers for Fashion-MNIST.

The only module that needs PyTorch, which the extra `delaytron[features]` brings. `build` is `delaytron datasets build`;
`load` reads the files that it writes.
"""

import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice, check_integer
from delaytron.datasets.catalogue import CARDS, CIFAR10_IMAGES, FASHION_PIXELS, VGG16_WEIGHTS
from delaytron.datasets.named import fetch, read_idx
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import cannot, replace_arrays
from delaytron.files.text import BROKEN
from delaytron.rng import stream

BATCH = 128  # images at once
Pixels = NDArray[np.uint8]
Progress = Callable[[int], object]  # called with the number of images just done
INPUTS = {
    "cifar10": (CIFAR10_IMAGES, VGG16_WEIGHTS),
    "fashion_mnist": (*FASHION_PIXELS.files["train"], *FASHION_PIXELS.files["test"]),
}
CIFAR_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
CIFAR_TEST = "test_batch.bin"
CIFAR_SHAPE = (3, 32, 32)  # red, green and blue, each row by row
CIFAR_RECORD = 1 + 3 * 32 * 32
# The channels of the convolutions; a pooling follows each block.
VGG16_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
COLOUR_MEAN, COLOUR_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue, in [0, 1]
EPOCHS = 6
N_CNN_FEATURES, N_CLASSES = 128, 10
LARGEST_STEP = 0.004  # of Adam in its one cycle
DROPOUT = 0.25
GREY_MEAN, GREY_STD = 0.286, 0.353  # of all training pixels, in [0, 1]


class Images(NamedTuple):
    """Images with a class number each, for training and testing."""

    train: Pixels
    y_train: Pixels
    test: Pixels
    y_test: Pixels


def n_images_of_training(n_train: int, n_test: int, epochs: int = EPOCHS) -> int:
    """Return the number of images that `train_cnn` reports in all.

    Examples
    --------
    >>> n_images_of_training(60_000, 10_000, epochs=2)
    190000
    """
    return (epochs + 1) * n_train + n_test


N_IMAGES = {"cifar10": 60_000, "fashion_mnist": n_images_of_training(60_000, 10_000)}  # the sum of what `progress` gets


def inputs(name: str) -> list[Path]:
    """Return the files from which the features of a data set are built, downloaded if necessary.

    Raises InvalidInput if the data set is not built from files, or a file cannot be downloaded.
    """
    files = INPUTS[check_choice("data set to build", name, INPUTS)]
    import_torch()  # raise before a useless download
    return [fetch(file) for file in files]


def build(name: str, folder: Path, seed: int = 0, progress: Progress | None = None) -> Path:
    """Build the features of a data set and return their file, at the place in a data folder where `load` finds it.

    Parameters
    ----------
    folder : Path
        The data folder: what `DELAYTRON_DATA` names, or the cache.
    seed : int
        Of the training; VGG-16 is not trained here.
    progress : callable, optional
        Called with the number of images just done; `N_IMAGES` has their sum.
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
    network = load_vgg16(weights)
    given = read_cifar10(images)
    X_train, X_test = (vgg16_features(part, network, progress) for part in (given.train, given.test))
    _write_features(target, {"X_train": X_train, "X_test": X_test, "y_train": given.y_train, "y_test": given.y_test})


def build_fashion_mnist(
    files: Sequence[Path], target: Path, seed: int = 0, epochs: int = EPOCHS, progress: Progress | None = None
) -> float:
    """Train the four-layer network, write its features and its last layer, and return its test accuracy.

    Raises InvalidInput if the files do not hold images of clothes and their classes.

    Parameters
    ----------
    files : four paths
        The idx files of the training images, their labels, the test images and theirs.
    target : Path
        The `.npz` file to write, with X_train, X_test (float16), y_train, y_test (uint8), W_head and b_head (float32).
    """
    import_torch()  # raise before the images are read
    images = Images(*map(read_idx, files))
    for pixels, y, file, labels in zip(images[::2], images[1::2], files[::2], files[1::2], strict=True):
        if pixels.shape[1:] != (28, 28) or len(pixels) == 0:
            raise InvalidInput.of(str(file), "images of 28 x 28 pixels", got=f"shape {pixels.shape}", verb="hold")
        if y.shape != (len(pixels),):
            allowed = f"a class for each of {len(pixels)} images"
            raise InvalidInput.of(str(labels), allowed, got=f"shape {y.shape}", verb="hold")
        if y.max() >= N_CLASSES:
            raise InvalidInput.of(str(labels), f"classes from 0 to {N_CLASSES - 1}", got=f"{y.max()}", verb="hold")
    trained = train_cnn(images, seed, epochs, progress)
    _write_features(target, {"y_train": images.y_train, "y_test": images.y_test, **trained._asdict()})
    return trained.accuracy(images.y_test)


def _write_features(target: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Write a file of features; raise InvalidInput if a number is not finite."""
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InvalidInput(
                f"{name} of {target} would not be finite: the weights of the network are wrong", "get the file again"
            )
    replace_arrays(target, arrays)


# CIFAR-10: six files of records, a class and 3 x 32 x 32 bytes each


def read_cifar10(path: Path) -> Images:
    """Return the images of the binary archive, `cifar-10-binary.tar.gz`, in the publisher's order.

    Raises InvalidInput if it is another archive, or damaged.
    """
    names = (*CIFAR_TRAIN, CIFAR_TEST)
    try:
        with tarfile.open(path, "r:gz") as archive:
            entries = {PurePosixPath(entry.name).name: entry for entry in archive if entry.isfile()}
            files = {name: archive.extractfile(entries[name]) for name in names if name in entries}
            contents = {name: file.read() for name, file in files.items() if file is not None}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise cannot("read", path, problem) from None
    except (tarfile.TarError, *BROKEN) as problem:
        raise InvalidInput(f"{path} cannot be read to its end: {problem}", "get a new copy") from None
    tables = {}
    for name in names:
        if name not in contents:
            raise InvalidInput(f"{path} has no file {name}", "it must be the binary version, cifar-10-binary.tar.gz")
        place, size = f"{path}, {name}", len(contents[name])
        if not size or size % CIFAR_RECORD:
            raise InvalidInput.of(place, f"whole records of {CIFAR_RECORD} bytes", got=f"{size} bytes", verb="hold")
        tables[name] = records = np.frombuffer(contents[name], np.uint8).reshape(-1, CIFAR_RECORD)
        wrong = np.flatnonzero(records[:, 0] >= N_CLASSES)
        if wrong.size:
            got = records[wrong[0], 0]
            raise InvalidInput(f"{place}, record {wrong[0] + 1}: a class must be below 10, got {got}", "get a new copy")
    train, test = np.concatenate([tables[name] for name in CIFAR_TRAIN]), tables[CIFAR_TEST]
    pixels, test_pixels = (records[:, 1:].reshape(-1, *CIFAR_SHAPE) for records in (train, test))
    return Images(pixels, train[:, 0], test_pixels, test[:, 0])


# The convolutions of VGG-16 (Simonyan and Zisserman, 2014, configuration D), as torchvision trained them on ImageNet:
# an image of 32 x 32 pixels is halved five times, which leaves 512 numbers.


def vgg16_features(images: Pixels, network: Any, progress: Progress | None = None) -> NDArray[np.float16]:
    """Return 512 features for each of the (n, 3, 32, 32) images; they do not depend on the number of threads."""
    return outputs(network, images, prepare_colour, progress)


def load_vgg16(weights: Path) -> Any:
    """Return the network with the weights of a file that torchvision published, without its classifier.

    Raises InvalidInput if the file holds other weights.
    """
    torch = import_torch()
    with torch.device("meta"):  # without drawing random weights that are replaced at once
        network = vgg16_convolutions()
    try:
        given = torch.load(weights, map_location="cpu", weights_only=True)  # runs no code of the file
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise cannot("read", weights, problem) from None
    except Exception:  # its reader raises anything for damaged bytes, and advises to trust them
        raise InvalidInput(f"{weights} is not a file of PyTorch weights, or broken", "get a new copy") from None
    if not isinstance(given, dict):
        raise InvalidInput.of(str(weights), "named weights", got=type(given).__name__, verb="hold")
    for name, tensor in network.state_dict().items():
        found = tuple(given[name].shape) if isinstance(given.get(name), torch.Tensor) else "nothing"
        wanted = tuple(tensor.shape)
        if found != wanted:
            raise InvalidInput(
                f"{weights}: {name} must be numbers of shape {wanted}, got {found}",
                "give the weights of VGG-16 that torchvision published",
            )
    network.load_state_dict({name: given[name].float() for name in network.state_dict()}, assign=True)
    return network.to(memory_format=torch.channels_last)  # twice as fast as the default


def vgg16_convolutions() -> Any:
    """Return the network with arbitrary weights, its parts named as torchvision names them."""
    nn = import_torch().nn
    layers: list[Any] = []
    channels = 3
    for block in VGG16_BLOCKS:
        for width in block:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(OrderedDict(features=nn.Sequential(*layers)))


def prepare_colour(images: Pixels) -> Any:
    """Return images of bytes as a tensor, normalized as in the training of the weights."""
    torch = import_torch()
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (COLOUR_MEAN, COLOUR_STD))
    pixels = torch.tensor(images, dtype=torch.float32) / 255
    return ((pixels - mean) / std).contiguous(memory_format=torch.channels_last)


# The four-layer network for Fashion-MNIST: conv32, conv64, dense128, dense10; its features are the 128


class Trained(NamedTuple):
    """The features of a trained network, and its last layer, which gives the scores of the classes."""

    X_train: NDArray[np.float16]
    X_test: NDArray[np.float16]
    W_head: NDArray[np.float32]
    b_head: NDArray[np.float32]

    def accuracy(self, y_test: Pixels) -> float:
        """Return the share of test images that the last layer gets right."""
        scores = self.X_test.astype(np.float32) @ self.W_head.T + self.b_head
        return float((scores.argmax(axis=1) == y_test).mean())


def train_cnn(images: Images, seed: int = 0, epochs: int = EPOCHS, progress: Progress | None = None) -> Trained:
    """Train on the training images and return the features of all, the same bits for the same seed.

    The optimizer is Adam with one cycle of step sizes, up and down again.

    Parameters
    ----------
    images : Images
        Of (n, 28, 28) grey pixels each.
    progress : callable, optional
        Called with the number of images just done: each epoch's, then each once more for its features.
    """
    check_integer("epochs", epochs, at_least=1)
    torch = import_torch()
    with repeatable(seed):
        network = four_layers().to(memory_format=torch.channels_last).train()  # a third faster than the default
        y = torch.tensor(images.y_train, dtype=torch.int64)
        n_steps = epochs * -(-len(y) // BATCH)
        optimizer = torch.optim.Adam(network.parameters())
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, LARGEST_STEP, n_steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                scores = network(prepare_grey(images.train[rows.numpy()]))
                torch.nn.functional.cross_entropy(scores, y[rows]).backward()
                optimizer.step()
                cycle.step()
                report(progress, len(rows))
        X_train, X_test = (outputs(network.body, part, prepare_grey, progress) for part in (images.train, images.test))
    head = network.head[-1]
    return Trained(X_train, X_test, head.weight.detach().numpy(), head.bias.detach().numpy())


def four_layers() -> Any:
    """Return an untrained network: the body gives the features, the head the scores of the classes."""
    nn = import_torch().nn
    body = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Dropout(DROPOUT),
        nn.Linear(64 * 5 * 5, N_CNN_FEATURES),  # 28 pixels - 2 at the border = 26, halved 13, - 2 = 11, halved 5
        nn.ReLU(),
    )
    head = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(N_CNN_FEATURES, N_CLASSES))
    return nn.Sequential(OrderedDict(body=body, head=head))


def prepare_grey(images: Pixels) -> Any:
    """Return grey images as a tensor (n, 1, 28, 28) with mean 0 and standard deviation 1."""
    torch = import_torch()
    pixels = torch.tensor(images, dtype=torch.float32).unsqueeze(1)
    return ((pixels / 255 - GREY_MEAN) / GREY_STD).contiguous(memory_format=torch.channels_last)


# Both networks


def import_torch() -> Any:
    """Return PyTorch; raise MissingLibrary if it is not installed."""
    needs("torch")
    import torch  # noqa: PLC0415 - slow to import

    return torch


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Make everything in the block a function of the seed; afterwards PyTorch is as before.

    One thread: the sums of a gradient are split among the threads, so that another number of them gives other last
    bits. Another version of PyTorch or another kind of processor may give other bits, too.
    """
    torch = import_torch()
    threads = torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(stream(seed, "network").integers(2**63)))
            torch.use_deterministic_algorithms(True)
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=only_warn)


def outputs(
    network: Any, images: Pixels, prepare: Callable[[Pixels], Any], progress: Progress | None = None
) -> NDArray[np.float16]:
    """Return the output of a network for each image, rounded to the 16 bits that are stored."""
    torch = import_torch()
    parts = []
    network.eval()
    with torch.inference_mode(), np.errstate(over="ignore"):  # `_write_features` refuses infinite numbers
        for start in range(0, len(images), BATCH):
            batch = prepare(images[start : start + BATCH])
            parts.append(network(batch).flatten(1).numpy().astype(np.float16))
            report(progress, len(batch))
    return np.concatenate(parts)


def report(progress: Progress | None, n_images: int) -> None:
    """Call `progress`, if there is one, with the number of images just done."""
    if progress is not None:
        progress(n_images)
