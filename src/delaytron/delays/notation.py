"""How recorded delays are written in one word, as `--delay` takes it: the file, and the columns that are meant."""

import re
from itertools import chain
from pathlib import Path
from typing import Any

from delaytron.checks import check_choice
from delaytron.errors import InvalidInput

TRACE = "trace:"
MISSING = "+missing:"  # between a model and the share of its feedback that gets lost
NAMED = ("event", "outcome", "wait", "rate", "unit")  # what may follow the file: the arguments of `Trace.from_file`
NAME = re.compile(r",\s*(\w+)=")


def written(value: float) -> str:
    """Return a number exactly, an integer without a decimal point.

    Examples
    --------
    >>> written(2.0), written(0.1)
    ('2', '0.1')
    """
    return repr(value).removesuffix(".0")


def how_to_name(file: Any) -> str:
    """Return how columns are named."""
    return f"{TRACE}{file},event=COLUMN,outcome=COLUMN or {TRACE}{file},wait=COLUMN,rate=R"


def write_trace(path: str | Path, **named: Any) -> str:
    """Return the text that means a file with these columns; nothing if it would be read as something else.

    Examples
    --------
    >>> write_trace("log.csv", event="shown", outcome="clicked", unit=None), write_trace("log.csv", wait="a,rate=2")
    ('trace:log.csv,event=shown,outcome=clicked', '')
    """
    given = [
        (name, value if isinstance(value, str) else written(value))
        for name, value in named.items()
        if value is not None
    ]
    words = ",".join([str(path), *map("=".join, given)])
    same = not given or NAME.split(words) == [str(path), *chain(*given)]
    return TRACE + words if same and MISSING not in words and words == words.strip() else ""


def read_trace(words: str) -> tuple[str, dict[str, Any]]:
    """Return the file that is meant and the arguments of `Trace.from_file`.

    Examples
    --------
    >>> read_trace("log.csv,wait=seconds,rate=2.5")
    ('log.csv', {'wait': 'seconds', 'rate': 2.5})
    """
    source, *rest = [words] if _is_there(words) else NAME.split(words)
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    for place, (name, _) in enumerate(pairs):
        check_choice("what follows the file of a trace", name, NAMED)
        if name in rest[: 2 * place : 2]:
            raise InvalidInput(f"{TRACE}{words} names {name} twice; leave one out")
    return source, {name: _number(value) if name == "rate" else value for name, value in pairs}


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"rate must be a number of rounds in a unit of the waiting times, got {text!r}") from None
