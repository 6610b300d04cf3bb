"""Draws pictures of this folder from the tables and examples of the pages: python docs/pictures/draw.py.

Others are drawn by draw_pages.py, and by commands that the pages show: `delaytron datasets show digits --plot`,
`delaytron bounds --data synsep --rounds 20000 --runs 5 --plot`.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import delaytron as dt

HERE = Path(__file__).parent
STYLE = HERE.parent / "_sphinx" / "matplotlibrc"


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table of a page whose head begins with some words."""
    lines = (HERE.parent / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading}"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


def draw_expiry() -> None:
    """What silence costs, from the table in feedback.md."""
    ways = ["all reported", "dropped", "wrong for good", "wrong, corrected"]
    rows = [row for row in rows_of("howto/feedback.md", "data | learner | all reported") if row[0] == "SynSep"]
    figure, ax = plt.subplots(figsize=(8, 3.4))
    for k, way in enumerate(ways):
        ax.bar(np.arange(len(rows)) + 0.2 * (k - 1.5), [float(row[2 + k]) for row in rows], 0.2, label=way)
    ax.set_xticks(range(len(rows)), [row[1] for row in rows], fontsize=8)
    ax.set(ylabel="error on SynSep", title="What silence costs: 100,000 rounds, mean of 2 runs")
    ax.legend(fontsize=8, ncols=2)
    figure.savefig(HERE / "expiry.png")


def draw_speed() -> None:
    """Microseconds per round, from the first table in speed.md."""
    rows = rows_of("explanation/speed.md", "data | `simulate`")
    names = ["simulate", "naive NumPy", "NumPy, preallocated", "best NumPy", "C loop"]
    figure, ax = plt.subplots(figsize=(8, 3.4))
    for k, name in enumerate(names):
        times = [float(re.match(r"[\d.]+", row[1 + k])[0]) for row in rows]
        ax.bar(np.arange(len(rows)) + 0.16 * (k - 2), times, 0.16, label=name)
    ax.set_xticks(range(len(rows)), [row[0] for row in rows], fontsize=7)
    ax.set(yscale="log", ylabel="microseconds per round", title="delaytron, one thread, delays Uniform(1000)")
    ax.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.savefig(HERE / "speed.png")


def draw_curves() -> None:
    """The figure that the first example in simulating.md draws."""
    data = dt.datasets.load("synsep")
    delay = dt.delays.Uniform(1000)
    dt.simulate("delaytron", data, delay=delay, rounds=20_000, runs=5, gamma=[0.02, 0.05], seed=0).plot(
        HERE / "curves.png"
    )


if __name__ == "__main__":
    with plt.rc_context(fname=STYLE):
        draw_expiry()
        draw_speed()
    draw_curves()
