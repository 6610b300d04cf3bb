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


class ImportDocument(TypedDict):
    """Logs of another service that a model begins with, and what became of their lines."""

    journal: str
    logs: list[str]
    events: int
    imported: int
    imported_before: int
    answered: int
    answered_after_expiry: int
    open: int
    omitted: dict[str, int]
    unused_answers: dict[str, int]
    class_names: list[str | int]
    classes_by: str
    varying_actions: int
    reward_scale: list[float]
    mean_reward: float | None
    mean_reward_margin: float | None
    warnings: list[str]
