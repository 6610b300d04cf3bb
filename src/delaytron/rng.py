"""Named, independent streams of random numbers from one seed."""

from zlib import crc32

import numpy as np

from delaytron.checks import check_integer


def fresh_seed() -> int:
    """Return a random seed from the entropy of the operating system."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def stream(seed: int, name: str, run: int = 0) -> np.random.Generator:
    """Return the stream called `name` of one run: a pure function of its three arguments.

    Examples
    --------
    >>> stream(7, "delays").random() == stream(7, "delays").random()
    True
    >>> stream(7, "delays").random() == stream(7, "draws").random()
    False
    """
    key = (crc32(name.encode()), run)
    sequence = np.random.SeedSequence(check_integer("seed", seed, at_least=0), spawn_key=key)
    return np.random.Generator(np.random.PCG64(sequence))
