"""Files of keys: made once, read by their owner only, given new keys and losing none."""

import os
import re
import stat
import sys
from traceback import format_exception

import pytest

from delaytron import InvalidInput
from delaytron.model.facts import Decided
from delaytron.service.problems import ForeignToken
from delaytron.service.token_files import make_token_keys, read_token_keys, rotate
from delaytron.service.tokens import Ticket

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
SECRET = "0123456789abcdef" * 4
MADE = r"([0-9a-f]{8}) [0-9a-f]{64}\n# \1 was made \d{4}-\d\d-\d\d\n"
TICKET = Ticket("uid", "req-17", Decided(1, None, b"", None, 0, 0, 1.0, b""), 1, 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.keys"


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)


def names(folder):
    return sorted(found.name for found in folder.iterdir())


def test_a_file_is_made_once_and_then_read(path):
    keys = make_token_keys(path)
    assert re.fullmatch("#.*\n" + MADE, path.read_text())
    token = keys.sign(TICKET)
    assert make_token_keys(path).read(token, "uid", 0) == read_token_keys(path).read(token, "uid", 0) == TICKET
    assert names(path.parent) == ["tokens.keys"]


def test_two_files_have_different_keys(tmp_path):
    first, second = (make_token_keys(tmp_path / name).sign(TICKET) for name in "ab")
    assert first != second


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_file_is_its_owners_whatever_the_umask(path, umask):
    before = os.umask(umask)
    try:
        make_token_keys(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o777])
def test_a_file_that_others_have_rights_to_is_refused(path, mode):
    make_token_keys(path)
    path.chmod(mode)
    before = path.read_text()
    for use in (read_token_keys, make_token_keys, rotate):
        with pytest.raises(InvalidInput, match=rf"\(mode {mode:o}\); run chmod 600 .*tokens\.keys$"):
            use(path)
    assert path.read_text() == before


@posix
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_its_owner_is_read(path, mode):
    keys = make_token_keys(path)
    path.chmod(mode)
    assert read_token_keys(path).ids == keys.ids


def test_a_new_key_comes_first_and_nothing_else_changes(path):
    write(path, f"# ours\r\n\n# from before\nold {SECRET}\n  # older\nolder {SECRET.upper()}00")
    token = read_token_keys(path).sign(TICKET)
    new = rotate(path)
    keys = read_token_keys(path)
    assert keys.ids == [new, "old", "older"]
    assert keys.read(token, "uid", 0) == TICKET
    rest = path.read_bytes().decode().replace("# ours\r\n\n# from before\n", "")
    assert re.fullmatch(MADE + rf"old {SECRET}\n  # older\nolder {SECRET.upper()}00", rest)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(path.parent) == ["tokens.keys"]


def test_a_dropped_key_is_not_known_any_more(path):
    token = make_token_keys(path).sign(TICKET)
    rotate(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    with pytest.raises(ForeignToken):
        read_token_keys(path).read(token, "uid", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no key; remove the file"),
        ("# none\n\n", "has no key"),
        (f"a {SECRET}\n{SECRET}\n", "line 2: must be ID HEX, two words; got 1"),
        (f"a {SECRET} {SECRET}\n", "line 1: must be ID HEX, two words; got 3"),
        (f"\na {SECRET}x0\n", "line 2: a key must be hexadecimal digits"),
        (f"a {SECRET}0\n", "line 1: a key must be hexadecimal digits"),
        (f"a {SECRET[:62]}\n", "line 1: a key must have 32 to 1,024 random bytes, got 31"),
        (f"{SECRET} a\n", "line 1: "),
        (f"a,{SECRET} {SECRET}\n", "line 1: the id of a key must be"),
        (f"a {SECRET}\na {SECRET}00\n", "no two of the same id"),
        (f"a {SECRET}\n" * 1_000, "65,536 bytes at most"),
        (f"a {SECRET}\xff\n".encode("latin-1"), "must be text in UTF-8"),
        (f"a {SECRET}\n".encode("utf-16"), "must be text in UTF-8"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_without_the_key(path, text, message):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    for use in (read_token_keys, rotate):
        with pytest.raises(InvalidInput, match=re.escape(str(path))) as caught:
            use(path)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert SECRET[:16] not in "".join(format_exception(caught.value))
    assert path.read_bytes() == (text if isinstance(text, bytes) else text.encode())


def test_a_file_that_is_not_there_or_no_file_is_said(path):
    for use in (read_token_keys, rotate):
        with pytest.raises(InvalidInput, match=r"cannot read .*tokens\.keys: No such file"):
            use(path)
    path.mkdir(mode=0o700)
    with pytest.raises(InvalidInput, match=r"cannot read .*tokens\.keys: Is a directory"):
        make_token_keys(path)
    with pytest.raises(InvalidInput, match=r"cannot write .*keys: there is no folder .*nowhere; make it"):
        make_token_keys(path / "nowhere" / "tokens.keys")


@posix
def test_a_link_stays_a_link(tmp_path, path):
    path.symlink_to(tmp_path / "elsewhere")
    keys = make_token_keys(path)
    new = rotate(path)
    assert path.is_symlink()
    assert read_token_keys(tmp_path / "elsewhere").ids == [new, *keys.ids]
