"""The page of calls, docs/howto/service.md: every call is made, to a real service, and prints what the page says."""

import os
import shutil

import pytest
from service_page import BLOCK, COMMAND, PAGE, check_python, normalised, run_page

needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None and not os.environ.get("CI"), reason="needs curl, as the reader of the page does"
)


@needs_curl
def test_the_page_prints_what_it_says(tmp_path):
    page = PAGE.read_text()
    assert normalised(run_page(page, tmp_path)).splitlines() == normalised(page).splitlines()


def test_commands_are_separated_from_their_output():
    block = "$ curl a -d '{\n>  }'\n{}\n\nmore\n$ name=1\n$ echo\n"
    assert COMMAND.findall(block) == [("curl a -d '{\n>  }'", "{}\n\nmore\n"), ("name=1", ""), ("echo", "")]


def test_the_page_shows_every_result():
    typed = "".join(block for kind, block in BLOCK.findall(PAGE.read_text()) if kind == "console")
    words = ("accepted", "duplicate", "conflict", "corrected", "late", "cancelled", "unknown_decision")
    for word in (*words, "purged", "invalid", "too_large", "too_many", "unavailable"):
        assert f'"result":"{word}"' in typed


def test_only_what_varies_is_left_out():
    first, second = "a" * 32, "b" * 32
    assert normalised(f"{first} {second} {first}") == normalised(f"{second} {first} {second}")
    assert normalised(f"{first} {second}") != normalised(f"{first} {first}")
    assert normalised('"prob":0.5') != normalised('"prob":0.4')
    assert normalised('{"open": 2, "oldest_seconds": 1.5e-05}') == normalised('{"open": 2, "oldest_seconds": 3}')


@pytest.mark.parametrize("block", ["print(1)      # 2\n", "print(1)\n", "x = 1      # 1\nprint(x, x)     # 1\n"])
def test_wrong_output_in_the_page_is_found(block):
    with pytest.raises(AssertionError):
        check_python(block, block)


def test_three_dots_match_anything():
    block = "print('0.123, b')       # 0.1..., b\n"
    check_python(block, block)
