"""The exponential, a vector at a time."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel
from delaytron.kernels.exponential import LOWEST, exponential
from delaytron.kernels.lanes import load, store
from streams import same_bits


@kernel
def all_exponentials(x, out):
    for k in range(0, x.size, 4):
        store(exponential(load(x, k, 4)), out, k)


compiled = fill(all_exponentials, "test.exponentials")


def exponentials(x):
    """Return exp(x), the same to the bit compiled and interpreted."""
    ours, theirs = np.empty_like(x), np.empty_like(x)
    compiled(x, ours)
    interpreted(all_exponentials)(x, theirs)
    assert same_bits(ours, theirs)
    return ours


@given(st.lists(st.floats(LOWEST, 0), min_size=4, max_size=4))
def test_it_is_exact_to_two_units_in_the_last_place(values):
    for x, ours in zip(values, exponentials(np.array(values)).tolist(), strict=True):
        assert abs(ours - math.exp(x)) <= 2 * math.ulp(math.exp(x))


def test_it_is_as_exact_everywhere():
    x = np.concatenate([np.linspace(LOWEST, 0, 40_000), -np.logspace(-320, 2, 40_000)])
    exact = np.array([math.exp(value) for value in x])
    assert (np.abs(exponentials(x) - exact) <= 2 * np.spacing(exact)).all()


def test_of_nothing_it_is_one():
    assert exponentials(np.array([0.0, -0.0, -5e-324, -1e-17])).tolist() == [1.0] * 4


def test_it_never_exceeds_one_and_never_ends():
    tiny = exponentials(np.array([LOWEST, -1e4, -1e300, -np.inf]))
    np.testing.assert_allclose(tiny, math.exp(LOWEST), rtol=1e-15)
    near = -np.spacing(1.0) * np.arange(4000.0)
    assert exponentials(near).max() == 1.0
