"""The four-layer network for Fashion-MNIST: conv32, conv64, dense128, dense10; its features are the 128."""

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_integer
from delaytron.images.network import BATCH, Images, Pixels, Progress, import_torch, outputs, repeatable, report

EPOCHS = 6
N_FEATURES, N_CLASSES = 128, 10
RATE = 0.004  # the largest step of Adam in its one cycle
DROPOUT = 0.25
MEAN, STD = 0.286, 0.353  # of all training pixels, in [0, 1]


class Trained(NamedTuple):
    """The features that a network has learned, and the last layer, which tells the classes apart by them."""

    X_train: NDArray[np.float16]
    X_test: NDArray[np.float16]
    W_head: NDArray[np.float32]
    b_head: NDArray[np.float32]

    def accuracy(self, y_test: Pixels) -> float:
        """Return the share of test images that the last layer gets right."""
        scores = self.X_test.astype(np.float32) @ self.W_head.T + self.b_head
        return float((scores.argmax(axis=1) == y_test).mean())


def n_images(n_train: int, n_test: int, epochs: int = EPOCHS) -> int:
    """How many images `train` will report in all.

    Examples
    --------
    >>> n_images(60_000, 10_000, epochs=2)
    190000
    """
    return (epochs + 1) * n_train + n_test


def train(images: Images, seed: int = 0, epochs: int = EPOCHS, progress: Progress | None = None) -> Trained:
    """Train on the training images and return the features of all, the same bits for the same seed.

    Parameters
    ----------
    images : Images
        Of (n, 28, 28) grey pixels each.
    progress : callable, optional
        Is told the number of images just done: each epoch's, then each once more for its features.
    """
    check_integer("epochs", epochs, at_least=1)
    with repeatable(seed):
        network = four_layers()
        _fit(network, images, epochs, progress)
        X_train, X_test = (outputs(network.body, part, prepare, progress) for part in (images.train, images.test))
    head = network.head[-1]
    return Trained(X_train, X_test, head.weight.detach().numpy(), head.bias.detach().numpy())


def four_layers() -> Any:
    """Return an untrained network: the body makes the features, the head the scores of the classes."""
    nn = import_torch().nn
    body = nn.Sequential(
        *_convolution(1, 32),
        *_convolution(32, 64),
        nn.Flatten(),
        nn.Dropout(DROPOUT),
        nn.Linear(64 * 5 * 5, N_FEATURES),  # 28 pixels - 2 at the border = 26, halved 13, - 2 = 11, halved 5
        nn.ReLU(),
    )
    head = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(N_FEATURES, N_CLASSES))
    return nn.Sequential(OrderedDict(body=body, head=head))


def _convolution(n_in: int, n_out: int) -> tuple[Any, Any, Any]:
    nn = import_torch().nn
    return nn.Conv2d(n_in, n_out, 3), nn.ReLU(), nn.MaxPool2d(2)


def prepare(images: Pixels) -> Any:
    """Return grey images as a tensor (n, 1, 28, 28) with mean 0 and standard deviation 1."""
    torch = import_torch()
    pixels = torch.tensor(images, dtype=torch.float32).unsqueeze(1)
    return ((pixels / 255 - MEAN) / STD).contiguous(memory_format=torch.channels_last)


def _fit(network: Any, images: Images, epochs: int, progress: Progress | None) -> None:
    """Adam with one cycle of step sizes, up and down again."""
    torch = import_torch()
    y = torch.tensor(images.y_train, dtype=torch.int64)
    n_steps = epochs * -(-len(y) // BATCH)
    network.to(memory_format=torch.channels_last).train()  # a third faster than the default
    optimizer = torch.optim.Adam(network.parameters())
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, n_steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            scores = network(prepare(images.train[rows.numpy()]))
            torch.nn.functional.cross_entropy(scores, y[rows]).backward()
            optimizer.step()
            cycle.step()
            report(progress, len(rows))
