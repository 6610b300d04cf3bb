"""What came out of a comparison: the errors of tuned learners at several delays, as numbers, table or figure."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from delaytron.comparison.tuning import Terms
from delaytron.extras import needs
from delaytron.formats import assignments
from delaytron.simulation.results import Errors, Result, Setting

if TYPE_CHECKING:
    import pyarrow as pa

SIGNS = "¹²³⁴⁵⁶⁷⁸⁹"


class EntryRow(Errors):
    """An entry as plain values: the columns of comparison.csv."""

    learner: str
    dataset: str
    delay: str
    setting: Setting
    rounds: int
    runs: int
    seconds: float
    settings_tried: int
    tuning_seconds: float
    remark: str
    majority_error: float | None


@dataclass(frozen=True)
class Entry:
    """A learner at one delay: its best setting of those tried, and the reported runs with it.

    Parameters
    ----------
    delay : str
        As the user gave it; `result.delay` spells it out.
    setting : dict
        The parameters that were tuned; `result.parameters` has them all. Empty where the defaults play, untuned.
    seconds, tuning_seconds : float
        What the reported runs took, and the search for the setting; the compiler's time is in neither.
    remark : str
        Why the errors mean something else than those of most learners, or "".
    """

    learner: str
    delay: str
    setting: Setting
    tried: int
    result: Result
    seconds: float
    tuning_seconds: float
    remark: str

    def row(self) -> EntryRow:
        """Return the entry as plain values."""
        return {
            "learner": self.learner,
            "dataset": self.result.dataset,
            "delay": self.delay,
            "setting": self.setting,
            "rounds": int(self.result.rounds[-1]),
            "runs": len(self.result.run),
            **self.result.errors(),
            "seconds": self.seconds,
            "settings_tried": self.tried,
            "tuning_seconds": self.tuning_seconds,
            "remark": self.remark,
            "majority_error": self.result.majority_error,
        }


@dataclass(frozen=True)
class Comparison:
    """An entry per learner and delay, and for those who could not play the reason."""

    dataset: str
    terms: Terms
    entries: tuple[Entry, ...]
    left_out: dict[str, str]

    @property
    def majority_error(self) -> float | None:
        """The error of always playing the most frequent class of the data."""
        return self.entries[0].result.majority_error

    @property
    def delays(self) -> list[str]:
        """The delays, by the mean wait, ascending."""
        return list(dict.fromkeys(entry.delay for entry in self.entries))

    @property
    def learners(self) -> dict[str, list[Entry]]:
        """The learners with their entries, by the mean error, ascending, at the largest delay."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.learner, []).append(entry)
        return dict(sorted(found.items(), key=lambda item: item[1][-1].result.final_error.mean()))

    @property
    def marks(self) -> dict[str, str]:
        """The sign of a footnote for each remark that there is."""
        return dict(zip(dict.fromkeys(entry.remark for entry in self.entries if entry.remark), SIGNS, strict=False))

    def marked(self, learner: str) -> str:
        """Return the name of a learner with the sign of its footnote."""
        remark = next(entry.remark for entry in self.entries if entry.learner == learner)
        return learner + self.marks.get(remark, "")

    def to_table(self) -> "pa.Table":
        """Return one row per learner and delay, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = [{**entry.row(), "setting": assignments(entry.setting)} for entry in self.entries]
        return pa.Table.from_pylist(rows)

    def plot(self, path: str | Path) -> None:
        """Save the final errors against the delays as a figure."""
        from delaytron.comparison.plots import plot_comparison  # noqa: PLC0415 - needs matplotlib

        plot_comparison(self, path)
