"""The page of a bake-off: win : loss matrix, ratios, normalised losses and bad runs, as Markdown, CSV and a figure."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from delaytron.experiments.bakeoff import (
    Anchors,
    DataCase,
    Pairing,
    Scores,
    Standing,
    duel,
    read_anchors,
    scores,
    standing,
    write_anchors,
)
from delaytron.experiments.report.model import UNTUNED, Row, Table, distinct, span
from delaytron.experiments.report.report import as_csv, markdown_table
from delaytron.experiments.sources import KINDS, kind_of
from delaytron.experiments.spec import Refusal, Spec
from delaytron.experiments.store import Outcome
from delaytron.extras import needs
from delaytron.files.atomic import replace_file
from delaytron.formats import assignments, versions
from delaytron.plotting import COLOURS, DASHES, save_figure
from delaytron.simulation.results import Mean, mean_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

TITLES = {
    "labels": "One right label",
    "clicks": "Clicks: one label is best, and answers are rare or random",
    "rewards": "Dense rewards: several labels are good",
}
MEASURES = {
    "labels": "The loss is the error of the played labels over all rounds.",
    "clicks": "The loss is 1 - the share of what can be won beyond random labels, in the last quarter of the rounds.",
    "rewards": "The loss is 1 - the share of what can be won beyond random labels, in the last quarter of the rounds.",
}
FIGURE = "bakeoff.png"
PLACES = 6  # of the numbers in the CSV file
AXES = {
    "labels": "normalised loss",
    "clicks": "share lost, last quarter",
    "rewards": "share lost, last quarter",
}
TOP = {"labels": 1.5, "clicks": 1.2, "rewards": 1.2}  # of the axis


class Page(NamedTuple):
    """The bake-off as a page: its Markdown, the rows of its CSV file, and the first table, for the screen."""

    markdown: str
    rows: Table
    first: Table


def write_bakeoff(spec: Spec, outcomes: Sequence[Outcome], left_out: Sequence[Refusal], folder: Path) -> Page:
    """Write bakeoff.md, bakeoff.csv and figures/bakeoff.png; return the page."""
    conditions = [outcome.condition for outcome in outcomes]
    write_anchors(conditions, folder)
    page = compose_page(spec, outcomes, read_anchors(conditions, folder), left_out)
    replace_file(folder / "bakeoff.csv", as_csv(page.rows).encode())
    replace_file(folder / "bakeoff.md", page.markdown.encode())
    (folder / "figures").mkdir(exist_ok=True)
    draw(scores(outcomes, read_anchors(conditions, folder)), folder / "figures" / FIGURE)
    return page


def compose_page(
    spec: Spec, outcomes: Sequence[Outcome], anchors: Mapping[str, Anchors], left_out: Sequence[Refusal]
) -> Page:
    """Return the page of these outcomes."""
    found = scores(outcomes, anchors)
    learners = distinct(outcome.condition.title for outcome in outcomes)
    parts = [f"# {spec.name}", *_introduction(spec, found, outcomes), f"\n![{FIGURE_TEXT}](figures/{FIGURE})"]
    first = None
    for kind in KINDS:
        if tables := kind_tables(found, learners, kind):
            first = first or tables[0]
            parts += list(_section(kind, learners, tables))
    if left_out:
        parts.append("\n## Left out\n")
        parts += [
            f"* `{learner}` on {', '.join(data)}: {reason}" for (learner, reason), data in _grouped(left_out).items()
        ]
    text = files("delaytron.experiments").joinpath("report", "bakeoff_notes.md").read_text(encoding="utf-8")
    parts.append(f"\n{text.strip()}")
    known = versions()
    parts.append("\n## How it was made\n" + ", ".join(f"{name} {version}" for name, version in known.items()) + ".")
    table = Table(COLUMNS, tuple(_row(outcome, found) for outcome in outcomes))
    return Page("\n".join(parts) + "\n", table, first or Table(("learner",), ()))


FIGURE_TEXT = "Losses of each learner on its data sets, sorted"


def _introduction(spec: Spec, found: Scores, outcomes: Sequence[Outcome]) -> Iterator[str]:
    runs = span(outcome.run.runs for outcome in outcomes)
    counts = {kind: len({case.data for case in found if case.kind == kind}) for kind in KINDS}
    names = {
        "labels": "with one right label a row",
        "clicks": "with clicks",
        "rewards": "with a reward for every label",
    }
    data = ", ".join(f"{count} {names[kind]}" for kind, count in counts.items() if count)
    rounds = sorted({outcome.run.rounds for outcome in outcomes})
    lengths = " or ".join(f"{count:,}" for count in rounds)
    yield (
        f"\nData sets: {data}. Delays: {', '.join(map(str, spec.delays))}, where a number D is uniform on 1, ..., D "
        f"rounds. {lengths} rounds, {runs} seeds; settings are chosen by {spec.tuning_runs} runs on other seeds. Rows, "
        "delays and random numbers of run i are the same for all learners. The measures are "
        "[defined below](#what-the-numbers-mean), and [you can enter your own learner](#enter-your-own-learner)."
    )


def _section(kind: str, learners: Sequence[str], tables: Sequence[Table]) -> Iterator[str]:
    overall, duels, matrix = tables
    yield f"\n## {TITLES[kind]}\n{MEASURES[kind]}\n"
    yield from markdown_table(overall)
    yield (
        f"\n**`{learners[0]}` beside each of the others**: wins : losses, and the geometric mean of the ratios of the "
        "losses, below 1 where it loses less. ° The other one played at its only delay: it has no delay, "
        f"`{learners[0]}` has. Worst: the largest ratio.\n"
    )
    yield from markdown_table(duels)
    yield "\n**Wins : losses of the row against the column**, all delays together.\n"
    yield from markdown_table(matrix)


def kind_tables(found: Scores, learners: Sequence[str], kind: str) -> list[Table]:
    """Return the three tables of a kind: all learners, the first beside the others, wins and losses; none if empty."""
    stands = [one for learner in learners if (one := standing(found, learner, kind)) is not None]
    if not stands:
        return []
    delays = distinct(case.delay for case in found if case.kind == kind)
    names = [one.learner for one in stands]
    return [
        overall_table(stands, kind, delays),
        duels_table(found, learners[0], names, kind, delays),
        matrix_table(found, names, kind),
    ]


def overall_table(stands: Sequence[Standing], kind: str, delays: Sequence[str]) -> Table:
    """Return a row for each learner: what it lost at each delay, how far it is behind the best, and its bad runs."""
    what = "normalised loss" if kind == "labels" else "share won"
    columns = ("learner", *(f"{what}, D = {delay}" for delay in delays), "times the best", "worst", "bad runs")
    rows: list[Row] = []
    for one in stands:
        values = one.normalised if kind == "labels" else one.shares
        shown = [f"{values[delay]:.3f}" if delay in values else "" for delay in delays]
        worst = f"{one.worst:.2f} ({one.where.data}, D = {one.where.delay})"
        rows.append((f"`{one.learner}`", *shown, f"{one.behind:.2f}", worst, f"{one.bad} of {one.runs:,}"))
    return Table(columns, tuple(rows))


def duels_table(found: Scores, first: str, names: Sequence[str], kind: str, delays: Sequence[str]) -> Table:
    """Return a row for each other learner: wins, losses and ratio of the first one at each delay."""
    rows: list[Row] = []
    for name in names:
        if name == first:
            continue
        at = [duel(found, first, name, [delay], kind, rest=True) for delay in delays]
        own = [any(case.delay == delay and name in here for case, here in found.items()) for delay in delays]
        cells = [_duel_cell(one, there) for one, there in zip(at, own, strict=True)]
        over = duel(found, first, name, kind=kind)
        where = f" ({over.where.data}, D = {over.where.delay})" if over.where else ""
        rows.append((f"`{name}`", *cells, "" if isnan(over.worst) else f"{over.worst:.2f}{where}"))
    return Table((f"`{first}` against", *(f"D = {delay}" for delay in delays), "worst"), tuple(rows))


def _duel_cell(one: Pairing, played: bool) -> str:
    return f"{one.wins} : {one.losses}, {one.ratio:.2f}{'' if played else '°'}" if one.cases else ""


def matrix_table(found: Scores, names: Sequence[str], kind: str) -> Table:
    """Return wins : losses of every learner against every other in the cases that both played."""
    rows: list[Row] = []
    for name in names:
        cells = []
        for other in names:
            one = duel(found, name, other, kind=kind)
            cells.append("" if name == other or not one.cases else f"{one.wins} : {one.losses}")
        rows.append((f"`{name}`", *cells))
    return Table(("", *(f"`{name}`" for name in names)), tuple(rows))


def _grouped(left_out: Sequence[Refusal]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for learner, data, reason in left_out:
        found.setdefault((learner, reason), []).append(data)
    return found


COLUMNS = ("kind", "data", "delay", "learner", "setting", "runs", "loss", "normalised loss", "bad runs", "error")


def _row(outcome: Outcome, found: Scores) -> Row:
    """Return an outcome for a spreadsheet; the loss is empty where anchors are missing."""
    condition = outcome.condition
    kind = kind_of(outcome.run.data)
    one = found.get(DataCase(kind, condition.data, condition.delay), {}).get(condition.title)
    what = (kind, condition.data, condition.delay, condition.title)
    played = (assignments(outcome.run.parameters) or UNTUNED, outcome.run.runs)
    error = round(float(outcome.result.final_error.mean()), PLACES)
    if one is None:
        return (*what, *played, None, None, None, error)
    value, margin = mean_of(one.losses)
    normalised = None if one.normalised is None else round(one.normalised, PLACES)
    return (*what, *played, Mean(round(value, PLACES), round(margin, PLACES)), normalised, one.bad, error)


def draw(found: Scores, path: Path) -> None:
    """Save the figure: a panel for each kind and delay, in it for each learner its losses, sorted by data set."""
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    kinds = [kind for kind in KINDS if any(case.kind == kind for case in found)]
    delays = distinct(case.delay for case in found)
    learners = distinct(learner for here in found.values() for learner in here)
    figure = Figure(figsize=(3.4 * len(delays) + 2.6, 2.7 * len(kinds) + 0.6), layout="constrained")
    panels = figure.subplots(len(kinds), len(delays), squeeze=False, sharey="row", sharex="row")
    lines: dict[str, Line2D] = {}
    for (row, column), panel in np.ndenumerate(panels):
        lines |= _draw_panel(panel, found, kinds[row], delays[column], learners)
        panel.set_title(f"{kinds[row]}, D = {delays[column]}", fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if column == 0:
            panel.set_ylabel(AXES[kinds[row]])
        if row == len(kinds) - 1:
            panel.set_xlabel("data sets, each learner's own order")
    shown = [learner for learner in learners if learner in lines]
    figure.legend([lines[name] for name in shown], shown, loc="outside right upper", fontsize=8, frameon=False)
    save_figure(figure, path)


def _draw_panel(panel: "Axes", found: Scores, kind: str, delay: str, learners: Sequence[str]) -> "dict[str, Line2D]":
    """Draw the sorted losses of every learner; return their lines."""
    here = [one for case, one in found.items() if (case.kind, case.delay) == (kind, delay)]
    lines: dict[str, Line2D] = {}
    for place, learner in enumerate(learners):
        own = [scored[learner] for scored in here if learner in scored]
        values = [one.normalised if kind == "labels" else one.mean for one in own]
        heights = sorted(value for value in values if value is not None)
        if not heights:
            continue
        lines[learner] = panel.plot(
            np.arange(1, len(heights) + 1),
            heights,
            color=COLOURS[place % len(COLOURS)],
            linestyle=DASHES[place // len(COLOURS) % len(DASHES)],
            marker="o" if len(heights) < 20 else "",
            markersize=3,
            linewidth=1.2 if place else 2.4,
            zorder=len(learners) + 2 - place,  # the first one, which is compared, on top
        )[0]
    for level in (0.0, 1.0):
        panel.axhline(level, color="0.6", linewidth=0.8, zorder=1)
    panel.set_ylim(-0.15, TOP[kind])
    panel.grid(visible=True, axis="y", alpha=0.3)
    return lines
