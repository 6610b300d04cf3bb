"""What the command line shows and writes: results as rows and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from delaytron.cli.documents import RunRow
from delaytron.extras import needs
from delaytron.formats import compact, versions, with_margin
from delaytron.simulation.results import MAJORITY, Result

if TYPE_CHECKING:
    import pyarrow as pa

LAST_COLUMNS = ("run", "round", "error_rate", "greedy_error_rate", "majority_error")
MAJORITY_LINES = MAJORITY.replace("most ", "most\n")  # no wider than the names of learners


@dataclass(frozen=True)
class TimedResult:
    """One simulation, the delay as the user wrote it, and the time it took."""

    result: Result
    delay: str
    seconds: float


@dataclass(frozen=True)
class RunReport:
    """The simulations of one command, with what they share."""

    played: Sequence[TimedResult]
    seed: int
    sampling: str
    drawn: str = ""  # how often each row is played, where that must be said

    @cached_property
    def rows(self) -> list[RunRow]:
        """One row per learner, delay and setting; plain values that go into JSON as they are."""
        return [row for played in self.played for row in self.rows_of(played)]

    def rows_of(self, played: TimedResult) -> Iterator[RunRow]:
        """Iterate over the rows of one simulation, one per setting."""
        result = played.result
        best = result.best().parameters[0]
        for setting, part in result.groups():
            yield {
                "learner": result.learner,
                "dataset": result.dataset,
                "form": result.form,
                "delay": result.delay,
                "parameters": setting,
                "rounds": int(result.rounds[-1]),
                "runs": len(part.run),
                **part.errors(),
                "majority_error": result.majority_error,
                "best": setting == best,
                "final_errors": part.final_error.tolist(),
                "final_greedy_errors": part.greedy_error.tolist(),
                "rounds_per_second": float(result.rounds[-1] * len(result.run) / played.seconds),
                "seed": self.seed,
                "sampling": self.sampling,
                "versions": versions(),
            }

    def to_table(self) -> "pa.Table":
        """Return one line per run and checkpoint; a parameter that a learner does not take is left empty."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        table = pa.concat_tables([played.result.to_table() for played in self.played], promote_options="permissive")
        first = [name for name in table.column_names if name not in LAST_COLUMNS]
        return table.select([*first, *LAST_COLUMNS])

    def plot(self, path: str | Path) -> None:
        """Draw the error curves."""
        from delaytron.simulation.plots import plot_curves  # noqa: PLC0415 - needs matplotlib

        plot_curves([played.result for played in self.played], path)


def results_table(report: RunReport) -> Table:
    """Return the table of errors, a line per learner, delay and setting, and one of the most frequent class."""
    names = list(dict.fromkeys(name for row in report.rows for name in row["parameters"]))
    compared = any(not row["best"] for row in report.rows)
    table = new_table("learner", "delay", *names, caption=_results_caption(report, compared))
    table.columns[0].no_wrap = True
    for title in ("error ± 95 %", "greedy ± 95 %", "per s"):
        table.add_column(title, justify="right", no_wrap=True)
    for played in report.played:
        rows = list(report.rows_of(played))
        for row in rows:
            best = row["best"] and len(rows) > 1
            cells = (row["learner"], played.delay, *(short(row["parameters"].get(name, "")) for name in names))
            table.add_row(*map(escape, cells), *_numbers(row, best, compared), style="bold" if best else None)
        if compared:
            table.add_section()
    majority = majority_cell(report.rows[0]["majority_error"]) + " " * compared
    table.add_row(MAJORITY_LINES, "any", *("" for _ in names), majority)
    return table


def majority_cell(error: float | None) -> str:
    """Return the error of always playing the most frequent class as a table shows it."""
    return "not known" if error is None else f"{error:.4f}"


def _results_caption(report: RunReport, compared: bool) -> str:
    first = report.rows[0]
    runs = f"{first['runs']} runs" if first["runs"] > 1 else "a single run, so no interval,"
    lines = [
        f"{runs} of {exact(first['rounds'])} rounds; greedy: the labels with the highest scores",
        *[report.drawn] * bool(report.drawn),
    ]
    return "\n".join([*lines, *["* lowest mean error of its learner and delay"] * compared])


def _numbers(row: RunRow, best: bool, compared: bool) -> list[str]:
    return [
        with_margin(row["error"], row["error_margin"]) + ("*" if best else " " * compared),
        with_margin(row["greedy_error"], row["greedy_error_margin"]),
        compact(row["rounds_per_second"]),
    ]


def new_table(*columns: str, caption: str = "") -> Table:
    """Return an empty table in the style of all."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, caption_justify="left")
    table.caption = caption or None
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def short(value: Any) -> str:
    """Return a value as a cell shows it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def exact(count: int) -> str:
    """Return a count in thousands or millions, where that loses nothing."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count % size == 0:
            return f"{count // size}{letter}"
    return f"{count:,}"
