"""What both networks share: PyTorch where it is installed, the same bits for a seed, images in batches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delaytron.extras import needs
from delaytron.rng import stream

BATCH = 128  # images at once
Pixels = NDArray[np.uint8]
Progress = Callable[[int], object]  # is told how many more images are done


class Images(NamedTuple):
    """Pictures with one class number each, in two parts."""

    train: Pixels
    y_train: Pixels
    test: Pixels
    y_test: Pixels


def import_torch() -> Any:
    """Return PyTorch, which only this folder needs."""
    needs("torch")
    import torch  # noqa: PLC0415 - slow to import

    return torch


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Let all that happens in the block follow from the seed, then leave PyTorch as it was.

    One thread: the sums of a gradient are split among the threads, so that each number of them gives other last bits.
    Another PyTorch or another kind of processor may give other bits still.
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
    """Return one row for each image: what the network makes of it, rounded to the 16 bits that are stored."""
    torch = import_torch()
    parts = []
    network.eval()
    with torch.inference_mode(), np.errstate(over="ignore"):  # who writes them refuses what is not finite
        for start in range(0, len(images), BATCH):
            batch = prepare(images[start : start + BATCH])
            parts.append(network(batch).flatten(1).numpy().astype(np.float16))
            report(progress, len(batch))
    return np.concatenate(parts)


def report(progress: Progress | None, n_images: int) -> None:
    """Tell who listens that some more images are done."""
    if progress is not None:
        progress(n_images)
