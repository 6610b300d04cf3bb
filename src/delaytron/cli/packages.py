"""The packages that this one asks for, and those that are installed."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from platform import python_version
from typing import NamedTuple

from delaytron.cli.doctor_documents import ExtraRow

ASKED = re.compile(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;\s*(.*))?")  # name, bounds, condition
EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
BOUND = re.compile(r"(>=|<=|==|<|>)\s*([\w.]+)")
COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


class Requirement(NamedTuple):
    """A package that this one asks for: always, or by an extra."""

    package: str
    bounds: str
    extra: str | None


def requirements() -> Iterator[Requirement]:
    """Yield what the installed metadata ask for; of the package itself (an extra made of others) nothing."""
    for line in requires("delaytron") or ():
        found = ASKED.match(line)
        if found is None or found[1] == "delaytron" or ("win32" in line and sys.platform == "win32"):
            continue
        extra = EXTRA.search(found[3] or "")
        yield Requirement(found[1], found[2].strip(), extra[1] if extra else None)


def installed(package: str) -> str | None:
    """Return the version of a package, None if it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def allows(bounds: str, given: str) -> bool:
    """Whether a version lies within bounds; only numbers are compared.

    Examples
    --------
    >>> allows(">=0.62.1,<0.69", "0.68.1"), allows(">=2.0", "1.26.4"), allows("", "1")
    (True, False, True)
    """
    return all(COMPARE[sign](*_same_length(_release(given), _release(bound))) for sign, bound in BOUND.findall(bounds))


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", re.split(r"[a-z+]", text, maxsplit=1)[0])))


def _same_length(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    length = max(len(a), len(b))
    return a + (0,) * (length - len(a)), b + (0,) * (length - len(b))


def versions_of(known: list[Requirement]) -> dict[str, str]:
    """Return the versions of Python, of this package and of what it always needs."""
    core = [one.package for one in known if one.extra is None]
    found = {name: installed(name) for name in ["delaytron", *core, "llvmlite"]}
    return {"python": python_version()} | {name: text for name, text in found.items() if text is not None}


def extras_of(known: list[Requirement]) -> list[ExtraRow]:
    """Return the extras, each with its packages and their versions."""
    rows: dict[str, dict[str, str | None]] = {}
    for one in known:
        if one.extra is not None:
            rows.setdefault(one.extra, {})[one.package] = installed(one.package)
    return [{"extra": extra, "packages": packages} for extra, packages in sorted(rows.items())]
