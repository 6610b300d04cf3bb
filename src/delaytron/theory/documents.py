"""What the bounds come to, as JSON has it: the keys and their types."""

from typing import Literal, TypedDict

Number = float | Literal["inf", "-inf"]  # JSON has no infinity


class BoundLine(TypedDict):
    """A statement, and what it comes to; None where it says nothing about the problem."""

    statement: str
    origin: str
    learner: str
    loss: str
    valid_for: str
    bound: Number | None
    eta: Number | None
    vacuous: bool


class MeasuredLine(BoundLine):
    """A statement beside what was measured, and the weights W that it is about."""

    measured: float
    measured_margin: float | None
    hinge: float | None
    hinge_margin: float | None
    comparator: str
    norm: float
    comparator_loss: float


class ComparatorLine(TypedDict):
    """Weights that runs are compared with."""

    comparator: str
    norm: float
    loss_per_round: float


class DelaySums(TypedDict):
    """What the delays contribute to the bounds; means over the runs, but for the last, which is the maximum."""

    missing: float
    delay_received: float
    total_delay: Number
    outstanding: float
    max_outstanding: float


class StudyDocument(DelaySums):
    """Bounds beside what was measured, at one delay."""

    dataset: str
    rows: int
    classes: int
    radius: float
    delay: str
    gamma: float
    rounds: int
    runs: int
    seed: int
    sampling: str
    loss_bound: float | None
    comparators: list[ComparatorLine]
    bounds: list[MeasuredLine]
    versions: dict[str, str]
