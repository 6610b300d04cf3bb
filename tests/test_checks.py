"""Checks of arguments: one short line has the wrong value, what is allowed, and the nearest word."""

from pathlib import Path

import numpy as np
import pytest

from delaytron.checks import check_bool, check_choice, check_integer, check_number, check_path, did_you_mean
from delaytron.errors import InvalidInput, shown

LONG = ["x" * 5000, list(range(5000)), np.zeros((9, 9)), 10**5000, "one\ntwo", None, b"\xff", object()]


@pytest.mark.parametrize("check", [check_number, check_bool, lambda name, value: check_integer(name, value, 1, 9)])
@pytest.mark.parametrize("value", LONG, ids=lambda value: type(value).__name__)
def test_a_refusal_is_one_short_line(check, value):
    with pytest.raises(InvalidInput, match=r"^gamma must be ") as caught:
        check("gamma", value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 160


def test_an_integer_has_two_limits():
    assert check_integer("runs", np.int64(9), 1, 9) == 9
    with pytest.raises(InvalidInput, match=r"^runs must be at most 9, got 10$"):
        check_integer("runs", 10, 1, 9)


def test_the_nearest_word_is_suggested():
    assert did_you_mean(7, ["7"]) == ""
    with pytest.raises(InvalidInput, match=r"order must be one of lifo, fifo, got 'filo'; did you mean fifo\?$"):
        check_choice("order", "filo", ["lifo", "fifo"])


@pytest.mark.parametrize("path", ["a", Path("a")])
def test_paths_are_returned_as_path_objects(path):
    assert check_path("path", path) == Path("a")


@pytest.mark.parametrize("path", [None, 5, "", b"a", "a\0b", "\ud800", ["a"], np.array(["a", "b"])])
def test_invalid_paths_are_refused(path):
    with pytest.raises(InvalidInput, match=r"^log must be a str or a Path that is not empty, got ") as caught:
        check_path("log", path)
    assert str(caught.value).endswith(shown(path))
