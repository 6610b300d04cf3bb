"""What an experiment plays, as plain values: each run is named by the hash of its content."""

from hashlib import file_digest as digest_of
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from delaytron._version import __version__
from delaytron.delays import Delay, Trace, WithMissing, as_delay
from delaytron.errors import InvalidInput
from delaytron.simulation.scenarios import CHECKPOINTS

FORMAT = "delaytron-run-1"  # another one where the same content would give other numbers

Options = dict[str, Any]  # what a table of the TOML file says: numbers, words and lists of them


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a learner on one data set at one delay, played several times.

    Parameters
    ----------
    data : dict
        The `name` of the data set and the options of `datasets.load`; of a file also its `sha256`.
    delay : str
        As on the command line.
    recorded : str
        The SHA-256 of recorded delays: the file that `delay` names may change.
    runs : int
        The runs 0, ..., runs - 1 of the seed.
    checkpoints : int
        At how many rounds, log-spaced, errors are noted at most.
    """

    data: Options
    learner: str
    parameters: Options
    delay: str
    rounds: int
    runs: int
    seed: int
    sampling: str
    checkpoints: int = CHECKPOINTS
    recorded: str = ""

    @property
    def content(self) -> str:
        """All of it in one line, always in the same order.

        Examples
        --------
        >>> run = RunSpec(data={"name": "digits"}, learner="delaytron", parameters={"gamma": 0.5}, delay="10", rounds=1,
        ...           runs=1, seed=0, sampling="replacement")
        >>> run.content[:50]
        '{"checkpoints":64,"data":{"name":"digits"},"delay"'
        """
        values = msgspec.structs.asdict(self) | {"format": FORMAT, "version": __version__}
        values["parameters"] = {name: _written(value) for name, value in self.parameters.items()}
        return msgspec.json.encode(values, order="sorted").decode()

    @property
    def key(self) -> str:
        """The name of its file."""
        return sha256(self.content.encode()).hexdigest()[:32]

    @property
    def n_rounds(self) -> int:
        """How many rounds it plays in all."""
        return self.rounds * self.runs


class Condition(NamedTuple):
    """One learner on one data set at one delay: a run for each of its settings, and one on other seeds to choose by.

    Where only the chosen setting is reported, the others are not played with the seed of the reports.
    """

    data: str
    title: str
    delay: str
    reported: tuple[RunSpec, ...]
    tuning: tuple[RunSpec, ...]
    report: str = "all"

    @property
    def all_reported(self) -> bool:
        """Whether every setting is played with the seed of the reports."""
        return self.report == "all" or not self.tuning

    @property
    def untuned(self) -> bool:
        """Whether there is but one setting, so that nothing was chosen."""
        return len(self.reported) == 1


def _written(value: Any) -> Any:
    """JSON has no infinity: it would be written as null, which is another parameter."""
    return repr(value) if isinstance(value, float) and not isfinite(value) else value


def delays_digest(delay: Delay) -> str:
    """Return the SHA-256 of the delays that a model has recorded; nothing where it has none."""
    model = delay.model if isinstance(delay, WithMissing) else delay
    return sha256(model.delays.tobytes()).hexdigest() if isinstance(model, Trace) else ""


def recorded_delay(delay: str, recorded: str) -> Delay:
    """Return the model that a text stands for; raise if the delays that it has recorded are others by now."""
    model = as_delay(delay)
    if delays_digest(model) != recorded:
        raise InvalidInput(
            f"{delay} is not what it was when the experiment began, or not the same on a worker;"
            " bring it back, or begin in another folder"
        )
    return model


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.expanduser().open("rb") as file:
            return digest_of(file, "sha256").hexdigest()
    except (OSError, ValueError) as problem:  # a name may hold what no file's name can
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidInput(f"cannot read {str(path)!r}: {reason}; check the name") from None
