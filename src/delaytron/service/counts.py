"""What a model counts, as parts of a reply."""

from msgspec import Struct

ClassName = str | int


class ClassCounts(Struct):
    """What became of the decisions for one class."""

    name: ClassName
    retired: bool
    played: int
    answered: int
    mean_reward: float | None


class WaitCount(Struct):
    """How many answers took at most so many seconds, and more than half of them."""

    seconds: float
    answers: int


class Accuracy(Struct):
    """The mean reward of what has been answered, and what it would be if all open decisions were wrong, or right."""

    mean: float | None
    low: float | None
    high: float | None


class Staleness(Struct):
    """By how much front ends may lag behind the learner: it is more delay, of which the bound counts so many rounds."""

    seconds: float
    decisions: int
    bound: str
