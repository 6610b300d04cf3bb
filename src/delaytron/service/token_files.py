"""The file with the keys that sign tokens: read, made, and given a new key."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.service.secret_files import only_writer, read_secret_text, secret_lines
from delaytron.service.tokens import SHORTEST_SECRET, TokenKey, TokenKeys

FORM = "ID HEX"
HEADER = "# Keys of decision tokens, ID HEX: the first one signs, all of them verify. Keep this file to yourself.\n"


def read_token_keys(path: Path) -> TokenKeys:
    """Return the keys of a file: lines of an id and hexadecimal digits, comments begin with #."""
    return _parse(path, read_secret_text(path))


def make_token_keys(path: Path) -> TokenKeys:
    """Return the keys of a file; make it with one new key if there is none.

    Processes that do this at the same time get the same keys. The file has the mode 600.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     first, again = (make_token_keys(Path(folder, "tokens.keys")) for _ in range(2))
    >>> first.ids == again.ids
    True
    """
    if not path.exists():
        with only_writer(path):
            if not path.exists():
                replace_file(path, (HEADER + _new_lines(_new_key())).encode(), mode=0o600)
    return read_token_keys(path)


def rotate(path: Path) -> str:
    """Put a new key before the others of a file; return its id. Services sign with it once they read the file again."""
    with only_writer(path):
        text = read_secret_text(path)
        known = _parse(path, text).ids
        key = _new_key()
        while key.id in known:
            key = _new_key()
        place = _first_key(path, text)
        lines = text.splitlines(keepends=True)
        replace_file(path, "".join([*lines[:place], _new_lines(key), *lines[place:]]).encode())
    return key.id


def _parse(path: Path, text: str) -> TokenKeys:
    keys = [_key(path, *line) for line in secret_lines(path, text, FORM)]
    if not keys:
        raise InvalidInput(f"{path} has no key; remove the file and a new one is made, or write a line {FORM}")
    try:
        return TokenKeys(keys)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def _key(path: Path, number: int, id: str, digits: str) -> TokenKey:
    try:
        return TokenKey(id, bytes.fromhex(digits))
    except InvalidInput as problem:
        raise InvalidInput(f"{path}, line {number}: {problem}") from None
    except ValueError:
        form = "a key must be hexadecimal digits, two for each byte"
        raise InvalidInput(f"{path}, line {number}: {form}; make one with `openssl rand -hex 32`") from None


def _first_key(path: Path, text: str) -> int:
    """Return the index of the first line that has a key."""
    return next(number - 1 for number, *_ in secret_lines(path, text, FORM))


def _new_key() -> TokenKey:
    return TokenKey(secrets.token_hex(4), secrets.token_bytes(SHORTEST_SECRET))


def _new_lines(key: TokenKey) -> str:
    return f"{key.id} {key.secret.hex()}\n# {key.id} was made {datetime.now(UTC):%Y-%m-%d}\n"
