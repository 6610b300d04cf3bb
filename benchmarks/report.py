"""Tables of measurements, on the screen and in Markdown, and the machine that they come from."""

import os
import platform
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from delaytron.simulation.results import mean_of


class Sheet(NamedTuple):
    """A table on its way to the screen and to the Markdown file."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


def short(number):
    """Return a number without the zero before the point."""
    return f"{number:.4f}".replace("0.", ".", 1)


def error_cell(errors):
    """Return the mean of the errors of runs, and half its 95 % interval."""
    mean = mean_of(np.array(errors))
    return f"{short(mean.value)} ± {short(mean.margin)}"


def quantiles(times):
    """Return the median of some times, and the time that one in a hundred exceeds."""
    return statistics.median(times), float(np.quantile(times, 0.99))


def machine():
    """Name what was measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{cpu} ({os.cpu_count()} cores), {platform.system()}, Python {platform.python_version()}, {versions}"


def show(console, sheet):
    """Print a table and its notes."""
    table = Table(title=sheet.title, caption="\n".join(sheet.notes), caption_justify="left", title_justify="left")
    for i, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if i else "left")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table, "")


def markdown(sheet):
    """Return the same as Markdown."""
    lines = [f"## {sheet.title}", "", _line(sheet.header), _line([":--", *["--:"] * (len(sheet.header) - 1)])]
    lines += [_line(row) for row in sheet.rows]
    return "\n".join([*lines, "", *(f"* {note}" for note in sheet.notes), ""])


def _line(cells):
    return f"| {' | '.join(cells)} |"
