"""What `delaytron doctor` tells."""

from typing import TypedDict


class ExtraRow(TypedDict):
    """An extra: the packages that it brings, with their versions; null for one that is missing."""

    extra: str
    packages: dict[str, str | None]


class CheckRow(TypedDict):
    """A part of the installation: `ok`, `note` or `wrong`, and what to do about it."""

    check: str
    status: str
    found: str
    advice: str


class DoctorDocument(TypedDict):
    """The state of an installation."""

    healthy: bool
    versions: dict[str, str]
    system: str
    checks: list[CheckRow]
    extras: list[ExtraRow]
