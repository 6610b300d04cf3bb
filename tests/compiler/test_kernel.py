"""Kernels are made ready before they are run."""

from typing import NamedTuple

import numpy as np
import pytest

from delaytron.compiler.kernel import Kernel, fill, kernel
from streams import interpreter


class Pair(NamedTuple):
    """Two arrays, one of them of another type."""

    a: np.ndarray
    b: np.ndarray


@kernel
def count_up(pair, by, x, found):
    pair.a[0] += by
    pair.b[0] = found and x is not None


@pytest.mark.parametrize("x", [None, np.zeros((2, 3)), 1.5, np.float64(1.5), (np.zeros(3), 2)])
@pytest.mark.parametrize("by", [1, 0.5, np.float64(0.5), np.int64(2)])
def test_what_was_made_ready_is_not_compiled_again_and_was_not_run(x, by):
    fresh = fill(count_up)
    pair = Pair(np.zeros(1), np.zeros(1, np.uint8))
    fresh.ready(pair, by, x, True)
    assert pair.a[0] == 0
    assert len(fresh.compiled.signatures) == 1
    fresh.ready(pair, by, x, False)
    fresh(pair, by, x, True)
    assert pair.a[0] == by
    assert len(fresh.compiled.signatures) == 1


def test_an_interpreted_kernel_is_always_ready():
    pair = Pair(np.zeros(1), np.zeros(1, np.uint8))
    with interpreter():
        fill(count_up).ready(pair, 1, None, True)
    assert pair.a[0] == 0


def test_what_cannot_be_compiled_fails_when_made_ready():
    broken = Kernel(lambda pair: pair.c)
    with pytest.raises(Exception, match="Unknown attribute 'c'"):
        broken.ready(Pair(np.zeros(1), np.zeros(1)))
