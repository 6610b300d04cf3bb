"""The convolutions of VGG-16 (Simonyan and Zisserman, 2014, configuration D), as torchvision trained them on ImageNet.

An image of 32 x 32 pixels is halved five times: what is left after the last pooling are 512 numbers.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.images.network import Pixels, Progress, import_torch, outputs

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))  # channels; a pooling after each
N_FEATURES = 512
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue, in [0, 1]


def features(images: Pixels, network: Any, progress: Progress | None = None) -> NDArray[np.float16]:
    """Return 512 features for each of the (n, 3, 32, 32) images; they do not depend on the number of threads."""
    return outputs(network, images, prepare, progress)


def load_network(weights: Path) -> Any:
    """Return the network with the weights of a file that torchvision published; its classifier is left out."""
    torch = import_torch()
    with torch.device("meta"):  # no random numbers drawn for weights that are replaced at once
        network = convolutions()
    given = _read(weights)
    for name, tensor in network.state_dict().items():
        found = tuple(given[name].shape) if isinstance(given.get(name), torch.Tensor) else "nothing"
        wanted = tuple(tensor.shape)
        if found != wanted:
            raise InvalidInput(f"{weights}: {name} must be numbers of shape {wanted}, got {found}; is it VGG-16?")
    network.load_state_dict({name: given[name].float() for name in network.state_dict()}, assign=True)
    return network.to(memory_format=torch.channels_last)  # twice as fast as the default


def _read(weights: Path) -> dict[str, Any]:
    torch = import_torch()
    try:
        given = torch.load(weights, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise InvalidInput(f"cannot read {str(weights)!r}: {with_advice(problem)}") from None
    except Exception:  # its reader raises anything at all where bytes are wrong, and advises to trust them
        raise InvalidInput(f"{weights} is not a file of PyTorch weights, or broken; get a new copy") from None
    if not isinstance(given, dict):
        raise InvalidInput(f"{weights} must hold named weights, got {type(given).__name__}")
    return given


def convolutions() -> Any:
    """Return the network without weights of use, its parts named as torchvision names them."""
    nn = import_torch().nn
    layers: list[Any] = []
    channels = 3
    for block in BLOCKS:
        for width in block:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(OrderedDict(features=nn.Sequential(*layers)))


def prepare(images: Pixels) -> Any:
    """Return images of bytes as the tensor that the weights were trained for."""
    torch = import_torch()
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, STD))
    pixels = torch.tensor(images, dtype=torch.float32) / 255
    return ((pixels - mean) / std).contiguous(memory_format=torch.channels_last)
