"""What a model counts: decisions and answers by class, and how long answers took."""

from typing import Any, NamedTuple

N_BUCKETS = 64  # of waits: bucket n has those of 2^(n-1) to 2^n nanoseconds


class ClassStats(NamedTuple):
    """What became of the decisions for one class."""

    played: int
    answered: int
    mean_reward: float | None


class Tally:
    """Counts by label, and what became of decisions."""

    def __init__(self, n_classes: int) -> None:
        self.played = [0] * n_classes
        self.answered = [0] * n_classes
        self.reward = [0.0] * n_classes
        self.expired = 0
        self.cancelled = 0
        self.late = 0
        self.issued = 0
        self.redeemed = 0
        self.waits = [0] * N_BUCKETS

    def make_room(self, n_classes: int) -> None:
        """Make room for so many classes."""
        self.played += [0] * (n_classes - len(self.played))
        self.answered += [0] * (n_classes - len(self.answered))
        self.reward += [0.0] * (n_classes - len(self.reward))

    def answer(self, label: int, reward: float, wait: int) -> None:
        """Count an answer about a label, and how many nanoseconds it took."""
        self.answered[label] += 1
        self.reward[label] += reward
        self.waits[min(max(wait, 0).bit_length(), N_BUCKETS - 1)] += 1

    def of_class(self, label: int) -> ClassStats:
        """Return what became of the decisions for a label."""
        count = self.answered[label]
        return ClassStats(self.played[label], count, self.reward[label] / count if count else None)

    def as_json(self) -> dict[str, Any]:
        """Return all counts, to be stored."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Tally":
        """Return the counts that were stored."""
        tally = cls(len(stored["played"]))
        for name in vars(tally):
            setattr(tally, name, stored.get(name, 0))  # older versions counted less
        return tally
