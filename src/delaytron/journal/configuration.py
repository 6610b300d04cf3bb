"""The configuration that a journal was made with: the same again, or a clear error."""

import json
from pathlib import Path
from typing import Any

from delaytron.errors import InvalidInput

LONGEST = 200  # characters of a value in a message


def check_config(config: Any) -> bytes:
    """Raise if a configuration is not a JSON object as bytes."""
    try:
        if isinstance(config, bytes) and isinstance(json.loads(config), dict):
            return config
    except ValueError:
        pass
    raise InvalidInput(f"config must be a JSON object as bytes, got {_cut(repr(config))}")


def raise_if_different(path: Path, stored: bytes, given: bytes) -> None:
    """Raise if a journal was made with another configuration; say what differs.

    Examples
    --------
    >>> raise_if_different(Path("a.db"), b'{"gamma": 0.1}', b'{"gamma": 0.2}')
    Traceback (most recent call last):
    delaytron.errors.InvalidInput: a.db has another configuration: gamma is 0.1 there, 0.2 here; give the same one
    """
    there, here = json.loads(stored), json.loads(given)
    names = [name for name in sorted(there.keys() | here.keys()) if _value(there, name) != _value(here, name)]
    if names:
        both = ", ".join(
            f"{name} is {_cut(_value(there, name))} there, {_cut(_value(here, name))} here" for name in names
        )
        raise InvalidInput(f"{path} has another configuration: {both}; give the same one")


def _value(config: dict[str, Any], name: str) -> str:
    return json.dumps(config[name], sort_keys=True) if name in config else "not given"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
