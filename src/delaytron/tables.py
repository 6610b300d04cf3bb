"""What the command line shows and writes: results and registries as rows, tables and files."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import getdoc, signature
from math import isnan
from os import W_OK, access
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from delaytron.datasets import DATASETS
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.common import own_parameters
from delaytron.results import Result, mean_of
from delaytron.simulate import Progress

PICTURES = (".png", ".pdf", ".svg")
LAST_COLUMNS = ("run", "round", "error_rate", "greedy_error_rate")

Row = dict[str, Any]
Writer = Callable[["Report", Path], None]


@dataclass(frozen=True)
class Played:
    """One simulation, the delay as the user wrote it, and the time it took."""

    result: Result
    delay: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The simulations of one command, with what they share."""

    played: Sequence[Played]
    seed: int
    sampling: str

    @cached_property
    def rows(self) -> list[Row]:
        """One row per learner, delay and setting; plain values that go into JSON as they are."""
        shared = {"seed": self.seed, "sampling": self.sampling, "versions": versions()}
        return [{**row, **shared} for played in self.played for row in _rows(played)]


def _rows(played: Played) -> Iterator[Row]:
    result = played.result
    best = result.best().parameters[0]
    for setting, part in result.groups():
        error, greedy = mean_of(part.final_error), mean_of(part.greedy_error)
        yield {
            "learner": result.learner,
            "dataset": result.dataset,
            "delay": result.delay,
            "parameters": setting,
            "rounds": int(result.rounds[-1]),
            "runs": len(part.run),
            "error": error.value,
            "error_margin": None if isnan(error.margin) else error.margin,
            "greedy_error": greedy.value,
            "greedy_error_margin": None if isnan(greedy.margin) else greedy.margin,
            "best": setting == best,
            "final_errors": part.final_error.tolist(),
            "final_greedy_errors": part.greedy_error.tolist(),
            "rounds_per_second": float(result.rounds[-1] * len(result.run) / played.seconds),
        }


def versions() -> dict[str, str]:
    """Return the versions on which the numbers may depend."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import
    from platform import python_version  # noqa: PLC0415

    return {"python": python_version()} | {name: version(name) for name in ("delaytron", "numpy", "numba")}


def results_table(report: Report) -> Table:
    """Return the table of errors, a line per learner, delay and setting."""
    names = list(dict.fromkeys(name for row in report.rows for name in row["parameters"]))
    compared = any(not row["best"] for row in report.rows)
    table = _table("learner", "delay", *names, caption="* lowest mean error of its learner and delay" * compared)
    table.columns[0].no_wrap = True
    for title in ("error ± 95 %", "greedy", "runs", "rounds", "per s"):
        table.add_column(title, justify="right", no_wrap=True)
    for played in report.played:
        rows = list(_rows(played))
        for row in rows:
            best = row["best"] and len(rows) > 1
            cells = (row["learner"], played.delay, *(_short(row["parameters"].get(name, "")) for name in names))
            table.add_row(*map(escape, cells), *_numbers(row, best, compared), style="bold" if best else None)
        if compared:
            table.add_section()
    return table


def _numbers(row: Row, best: bool, compared: bool) -> list[str]:
    margin = "" if row["error_margin"] is None else f" ± {row['error_margin']:.4f}"
    return [
        f"{row['error']:.4f}{margin}" + ("*" if best else " " * compared),
        f"{row['greedy_error']:.4f}",
        str(row["runs"]),
        _exact(row["rounds"]),
        compact(row["rounds_per_second"]),
    ]


def learner_rows() -> list[Row]:
    """Return the registry of learners, a row each."""
    return [
        {
            "name": name,
            "class": cls.__name__,
            "parameters": own_parameters(cls),
            "hears": cls.hears,
            "description": _summary(cls),
        }
        for name, cls in LEARNERS.items()
    ]


def dataset_rows() -> list[Row]:
    """Return the registry of data sets, a row each."""
    return [
        {"name": name, "options": _defaults(make), "description": _summary(make)} for name, make in DATASETS.items()
    ]


def registry_table(rows: Sequence[Row]) -> Table:
    """Return rows as a table, a column per key; the class stands below the name."""
    table = _table(*(key for key in rows[0] if key != "class"))
    for row in rows:
        values = {key: _assignments(v) if isinstance(v, dict) else v for key, v in row.items()}
        if "class" in values:
            values["name"] += "\n" + values.pop("class")
        table.add_row(*map(escape, values.values()))
        table.add_section()
    return table


def as_json(rows: Sequence[Row]) -> str:
    """Return rows as one indented JSON document."""
    import msgspec  # noqa: PLC0415 - only where used

    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode()


def write_json(report: Report, path: Path) -> None:
    """Write the rows as JSON."""
    path.write_text(as_json(report.rows) + "\n", encoding="utf-8")


def write_csv(report: Report, path: Path) -> None:
    """Write one line per run and checkpoint; a parameter that a learner does not take is left empty."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import csv  # noqa: PLC0415

    table = pa.concat_tables([played.result.to_table() for played in report.played], promote_options="permissive")
    first = [name for name in table.column_names if name not in LAST_COLUMNS]
    csv.write_csv(table.select([*first, *LAST_COLUMNS]), path)


def write_picture(report: Report, path: Path) -> None:
    """Draw the error curves."""
    from delaytron.plots import plot_curves  # noqa: PLC0415 - needs matplotlib

    plot_curves([played.result for played in report.played], path)


def check_target(path: Path, picture: bool) -> None:
    """Refuse, before any work is done, a file that could not be written after it."""
    if picture and path.suffix.lower() not in PICTURES:
        raise InvalidInput(f"a picture must end in {', '.join(PICTURES)}; got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    if path.is_dir() or not access(path if path.exists() else path.parent, W_OK):
        raise InvalidInput(f"cannot write {str(path)!r}: {'it is a folder' if path.is_dir() else 'no permission'}")


@contextmanager
def progress_bar(total: int) -> Iterator[Progress | None]:
    """Show a bar on stderr while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress  # noqa: PLC0415 - slow to import

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> str:
            return f"{compact(task.speed)} rounds/s" if task.speed else "compiling"

    columns = (progress.BarColumn(), progress.TaskProgressColumn(), progress.TimeRemainingColumn(), Speed())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda rounds: bar.advance(task, rounds)


def compact(number: float) -> str:
    """Return a number in a few characters.

    Examples
    --------
    >>> compact(321.4), compact(45678), compact(9876543)
    ('321', '45.7k', '9.88M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:#.3g}".rstrip(".") + letter
    return f"{number:.0f}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _exact(count: int) -> str:
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count % size == 0:
            return f"{count // size}{letter}"
    return f"{count:,}"


def _table(*columns: str, caption: str = "") -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, caption_justify="left")
    table.caption = caption or None
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _assignments(values: dict[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items()) or "-"


def _defaults(function: Any) -> dict[str, Any]:
    return {name: p.default for name, p in signature(function).parameters.items()}


def _summary(thing: Any) -> str:
    return (getdoc(thing) or "").partition("\n")[0]
