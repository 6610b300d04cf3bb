"""The options of `delaytron bounds`: which were given, and what they ask for."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from delaytron.theory.trials import TrialTerms

T = TypeVar("T")
THEORY_ALONE = ("classes", "radius", "norm", "comparator_loss")  # what data bring
MEASURED = ("comparator", "runs", "sampling", "workers", "plot")  # what only runs need
RECORDED = ("rounds", "gamma", "eta", "seed", "missing", "runs", "sampling")  # what results say


@dataclass(frozen=True)
class BoundOptions:
    """The options of the command that concern the bounds and the runs; None for what was not given."""

    rounds: int | None
    classes: int | None
    gamma: float | None
    radius: float | None
    norm: float | None
    comparator_loss: float | None
    delay: str | None
    missing: float | None
    eta: float | None
    loss_bound: float | None
    comparator: str | None
    runs: int | None
    seed: int | None
    sampling: str | None
    workers: int | None
    plot: Path | None

    def flags(self, names: Iterable[str]) -> list[str]:
        """Return the flags of those that were given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    @property
    def delay_text(self) -> str:
        """The delay with what is missing, as one model."""
        text = given_or(self.delay, str(TrialTerms.delay))
        return text if self.missing is None else f"{text}+missing:{self.missing}"

    @property
    def terms(self) -> TrialTerms:
        """What is played, with the defaults for what was not given."""
        return TrialTerms(
            gamma=given_or(self.gamma, TrialTerms.gamma),
            delay=self.delay_text,
            rounds=given_or(self.rounds, TrialTerms.rounds),
            runs=given_or(self.runs, TrialTerms.runs),
            seed=given_or(self.seed, TrialTerms.seed),
            sampling=given_or(self.sampling, TrialTerms.sampling),
            eta=self.eta,
            loss_bound=self.loss_bound,
            comparator=self.comparator,
        )


def given_or(value: T | None, usual: T) -> T:
    """Return what was given, or what is usual."""
    return usual if value is None else value
