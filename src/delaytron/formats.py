"""Numbers and settings as text, documents as JSON, and the versions on which results depend."""

from collections.abc import Mapping
from contextlib import suppress
from math import isinf
from typing import Any


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which results depend."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import
    from platform import python_version  # noqa: PLC0415

    return {"python": python_version()} | {name: version(name) for name in ("delaytron", "numpy", "numba")}


def with_margin(error: float, margin: float | None) -> str:
    """Return an error rate as text, with ± half the width of its interval if that is given."""
    return f"{error:.4f}" + ("" if margin is None else f" ± {margin:.4f}")


def plain_value(text: str) -> Any:
    """Return a text as a bool, an int or a float if it is one, else stripped.

    Examples
    --------
    >>> [plain_value(text) for text in ("True", "3", "0.5", " instant ")]
    [True, 3, 0.5, 'instant']
    """
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()


def as_json(document: Any) -> str:
    """Return records or plain values as indented JSON; infinite numbers, which JSON lacks, become strings."""
    import msgspec  # noqa: PLC0415 - only where used

    return msgspec.json.format(msgspec.json.encode(_finite(msgspec.to_builtins(document))), indent=2).decode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and isinf(value) else value


def compact(number: float) -> str:
    """Return a number in a few characters.

    Examples
    --------
    >>> compact(321.4), compact(45678), compact(9876543)
    ('321', '45.7k', '9.88M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:#.3g}".rstrip(".") + letter
    return f"{number:.0f}"


def assignments(setting: Mapping[str, object]) -> str:
    """Return settings in one line.

    Examples
    --------
    >>> assignments({"gamma": 0.25, "variant": "II"})
    'gamma=0.25 variant=II'
    """
    return " ".join(f"{name}={value}" for name, value in setting.items())
