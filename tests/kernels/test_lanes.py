"""Lanes: compiled, they round as NumPy's arrays do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel
from delaytron.kernels.lanes import (
    add_to_columns,
    add_to_exponent,
    columns,
    largest,
    load,
    replace_lane,
    store,
    total,
    where_below,
    zeros,
)
from streams import same_bits

numbers = st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, 1e-300, np.inf, -np.inf, np.nan])
eights = st.lists(numbers, min_size=8, max_size=8).map(np.array)


def both(template, name, *args):
    """Return what the compiled kernel and the interpreted one make of `out`, the last argument."""
    results = []
    for run in (fill(template, f"test.{name}"), interpreted(template)):
        own = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        with np.errstate(all="ignore"):
            run(*own)
        results.append(own[-1])
    assert same_bits(np.nan_to_num(results[0], nan=12345.0), np.nan_to_num(results[1], nan=12345.0))
    return results[0]


@kernel
def calculate(a, b, scale, out):
    x = load(a, 1, 4)
    y = load(b, 2, 4)
    store(x + y * scale - 2.0, out, 0)
    store((1.0 - x) / y + scale, out, 4)
    store(3 * x / 2 - y, out, 8)
    store(zeros(4) + scale, out, 12)


@given(eights, eights, numbers)
def test_lanes_calculate_with_lanes_and_with_numbers(a, b, scale):
    out = both(calculate, "calculate", a, b, scale, np.zeros(16))
    with np.errstate(all="ignore"):
        x = a[1:5]
        y = b[2:6]
        expected = [x + y * scale - 2, (1 - x) / y + scale, 3 * x / 2 - y, np.full(4, scale)]
    np.testing.assert_array_equal(out, np.concatenate(expected))


@kernel
def select(a, b, out):
    x = load(a, 0, 8)
    y = load(b, 0, 8)
    store(where_below(x, y, x, y), out, 0)
    store(where_below(x, 1.0, -1.0, y), out, 8)
    out[16] = largest(x)
    out[17] = total(x)


@given(eights, eights)
def test_lanes_are_compared_one_by_one(a, b):
    out = both(select, "select", a, b, np.zeros(18))
    np.testing.assert_array_equal(out[:8], np.where(a < b, a, b))
    np.testing.assert_array_equal(out[8:16], np.where(a < 1, -1, b))
    if not np.isnan(a).any():
        assert out[16] == a.max()
    with np.errstate(all="ignore"):
        halves = a[:4] + a[4:]
        np.testing.assert_array_equal(out[17], (halves[0] + halves[2]) + (halves[1] + halves[3]))


@kernel
def replace(a, i, value, out):
    store(replace_lane(load(a, 0, 4), i, value), out, 0)


@pytest.mark.parametrize("i", range(-2, 7))
def test_a_lane_that_is_there_is_replaced(i):
    a = np.arange(4.0)
    expected = [9.0 if lane == i else lane for lane in a]
    assert both(replace, "replace", a, i, 9.0, np.zeros(4)).tolist() == expected


@kernel
def shift(a, integers, out):
    store(add_to_exponent(load(a, 0, 4), load(integers, 0, 4)), out, 0)


def test_an_integer_is_added_to_the_exponent():
    n = np.array([-1022, -3, 0, 40])
    out = both(shift, "shift", np.array([1.0, 1.5, -2.25, 1.75]), 1.5 * 2.0**52 + n, np.zeros(4))
    assert out.tolist() == [2.0**-1022, 1.5 / 8, -2.25, 1.75 * 2.0**40]


@kernel
def copy_columns(table, indices, out):
    for i in range(0, 4, 4):
        for_four(table, indices, i, out)
    for i in range(4, indices.size):
        a, b, c, d = columns(table, 2, indices, i, 1)
        store(a, out[0], i)
        store(b, out[1], i)
        store(c, out[2], i)
        store(d, out[3], i)


@kernel
def for_four(table, indices, i, out):
    a, b, c, d = columns(table, 2, indices, i, 4)
    store(a, out[0], i)
    store(b, out[1], i)
    store(c, out[2], i)
    store(d, out[3], i)


def test_columns_of_some_rows_become_lanes():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(9, 6))
    indices = np.array([7, 0, 3, 8, 2, 5], np.uint32)
    assert same_bits(both(copy_columns, "columns", table, indices, np.zeros((4, 6))), table[indices, 2:].T)


@kernel
def add_columns(a, indices, table):
    x = load(a, 0, 4)
    add_to_columns(table, 1, indices, 0, x, x * x, zeros(4) + 1.0, zeros(4))
    y = load(a, 4, 1)
    add_to_columns(table, 1, indices, 4, y, y * y, zeros(1) + 1.0, zeros(1))


@pytest.mark.parametrize("indices", [[7, 0, 3, 8, 2], [7, 7, 7, 1, 7]])
def test_lanes_are_added_to_columns_of_some_rows(indices):
    rng = np.random.default_rng(1)
    a = rng.normal(size=5)
    table = rng.normal(size=(9, 6))
    expected = table.copy()
    for j, x in zip(indices, a, strict=True):
        expected[j, 1:5] += (x, x * x, 1, 0)
    assert same_bits(both(add_columns, "add_columns", a, np.array(indices, np.uint32), table), expected)
