"""Ids: what is one, and random ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.journal import check_id, new_id


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_text_of_up_to_200_bytes_is_an_id(id):
    assert check_id(id) == id


def test_the_limit_counts_bytes():
    assert check_id("ä" * 100) == "ä" * 100
    with pytest.raises(dt.InvalidInput, match="201"):
        check_id("ä" * 100 + "a")


@pytest.mark.parametrize("bad", ["", "a" * 201, "\ud800", "a\0b", b"a", 17, None, True, ["a"]])
def test_anything_else_is_none(bad):
    with pytest.raises(dt.InvalidInput, match=r"^id must") as caught:
        check_id(bad)
    assert "\n" not in str(caught.value)


def test_random_ids_are_hexadecimal_and_differ():
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in ids)
