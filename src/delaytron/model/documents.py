"""The JSON that the commands about journals print: the keys and their types."""

from typing import TypedDict


class MismatchDocument(TypedDict):
    """What does not agree in a journal: the number of a fact, where it is about one, and why."""

    fact: int | None
    reason: str


class VerifyDocument(TypedDict):
    """A journal whose facts were played again, and whether they agree with what was made of them."""

    journal: str
    agrees: bool
    facts: dict[str, int]
    replayed_after: int
    replayed: int
    snapshots: int
    decided: int
    answered: int
    expired: int
    cancelled: int
    open: int
    purged: int
    hash: str | None
    mismatch: MismatchDocument | None


class ExportDocument(TypedDict):
    """Decisions of a journal that were written to a file."""

    journal: str
    file: str
    decided: int
    purged: int
    bytes: int


class CompactDocument(TypedDict):
    """A journal before and after what is settled and old was dropped."""

    journal: str
    facts_before: int
    facts_after: int
    bytes_before: int
    bytes_after: int
