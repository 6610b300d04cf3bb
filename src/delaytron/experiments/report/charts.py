"""The charts of an experiment: what they show as plain numbers, and figures of them for print, .png and .svg.

The page draws the same charts on the screen. Figures are drawn again only if charts, their files or this file changed.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any, TypeAlias

import msgspec
import numpy as np

from delaytron import plotting
from delaytron._version import __version__
from delaytron.delays import as_delay
from delaytron.delays.dependent import depends_on_rows
from delaytron.experiments.report.model import (
    DAGGER,
    FEW_RUNS,
    Chart,
    Facts,
    Numbers,
    Panel,
    Series,
    distinct,
    estimate,
    span,
)
from delaytron.experiments.spec import Condition
from delaytron.experiments.store import Outcome, RunStore
from delaytron.extras import needs
from delaytron.files.atomic import replace_file
from delaytron.plotting import LineStyle, draw_band, draw_majority, name_errors, save_figure, style_of
from delaytron.simulation.results import MAJORITY, Result
from delaytron.simulation.scenarios import mean_wait

LONGEST_NAME = 60
REFERENCES = {"banditron": 6, "soba": 5}  # without delay, beside the curves of others, each with its style
SeriesOf: TypeAlias = Callable[[str], Iterator[Series]]  # of a data set

# Of figures for print
ENDINGS = (".png", ".svg")
WIDTH = 3.1  # inches of a panel
HEIGHT = 2.5
MOST_COLUMNS = 4
LETTERS = 13  # of a legend that fit into an inch
TICK_LETTER = 0.065  # inches of a letter of a name below a panel
POINTS = 72  # of an inch
LINE_STEP = 3.0  # points between lines that share their x, so that none hides another
LINES_SPREAD = 15.0  # points between the first and the last of them, at most
NAME_SHARE = 0.6  # of the distance between two names is for the dots of all series side by side
MARKER = 4.0  # points
SMALLEST_MARKER = 2.0
DASHES = (0, (4, 4))  # gaps as long as dashes, so that the line below is visible
SIDE_MARGIN = 0.09  # of a panel's width is free on either side, for lines that are moved aside
DEEPEST_BAR = 4  # on a log axis, bars are cut at a quarter of the lowest mean

Handle: TypeAlias = Any  # of a legend: an artist or a container of them


def means(label: str, x: Numbers, results: Sequence[Result], style: int) -> Series:
    """Return the series of final errors with their 95 % intervals; a single run has none."""
    estimates = [estimate(result.final_error) for result in results]
    margins = [one.margin if one.runs > 1 else 0.0 for one in estimates]
    values = [one.value for one in estimates]
    return Series(
        label,
        x,
        values,
        [value - margin for value, margin in zip(values, margins, strict=True)],
        [value + margin for value, margin in zip(values, margins, strict=True)],
        style,
        runs=[one.runs for one in estimates],
    )


def curve(label: str, result: Result, style: int, dashed: bool = False) -> Series:
    """Return the series of errors so far, without rounds at which a run has none: a log axis cannot show 0."""
    shown = (result.error_rate > 0).all(axis=0)
    errors = result.error_rate[:, shown]
    return Series(
        label,
        result.rounds[shown].astype(float).tolist(),
        errors.mean(axis=0).tolist(),
        errors.min(axis=0).tolist(),
        errors.max(axis=0).tolist(),
        style,
        dashed,
        runs=[len(errors)] * errors.shape[1],
    )


def with_dashes(series: Sequence[Series]) -> tuple[Series, ...]:
    """Return the same series; one that lies on an earlier one is dashed, so that both are visible."""
    hiding = {later.label for earlier, later in combinations(series, 2) if _equal(earlier, later)}
    return tuple(one._replace(dashed=one.dashed or one.label in hiding) for one in series)


def equal_series(panels: Iterable[Panel]) -> Mapping[str, str]:
    """Return the labels of series that equal an earlier one in all panels where both are, with that one's label."""
    verdicts: dict[tuple[str, str], bool] = {}
    for panel in panels:
        for earlier, later in combinations(panel.series, 2):
            pair = (later.label, earlier.label)
            verdicts[pair] = verdicts.get(pair, True) and _equal(earlier, later)
    same: dict[str, str] = {}
    for (later_label, earlier_label), equal in verdicts.items():
        if equal:
            same.setdefault(later_label, earlier_label)
    return same


def _equal(earlier: Series, later: Series) -> bool:
    """Whether all points of the later series are points of the earlier one."""
    values = dict(zip(earlier.x, earlier.y, strict=True))
    return bool(later.x) and all(values.get(x) == y for x, y in zip(later.x, later.y, strict=True))


def runs_in_words(counts: Iterable[int], mark: str = DAGGER) -> str:
    """Return the range of some numbers of runs, with a mark where these are few.

    Examples
    --------
    >>> runs_in_words([20, 20]), runs_in_words([4, 20]), runs_in_words([1])
    ('20 runs', '4 to 20 runs†', '1 run')
    """
    kept = set(counts)
    if kept == {1}:
        return "1 run"
    return f"{span(kept)} runs" + mark * (min(kept) < FEW_RUNS)


def file_names(titles: Sequence[str]) -> dict[str, str]:
    """Return a distinct file name for each title.

    Examples
    --------
    >>> file_names(["a/b", "a b", "soba"])
    {'a/b': 'a-b', 'a b': 'a-b-2', 'soba': 'soba'}
    """
    names: dict[str, str] = {}
    for title in titles:
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-")[:LONGEST_NAME] or "learner"
        taken = [name for name in names.values() if name == plain or name.startswith(f"{plain}-")]
        names[title] = f"{plain}-{len(taken) + 1}" if taken else plain
    return names


def charts(outcomes: Sequence[Outcome], store: RunStore, facts: Facts | None = None) -> list[Chart]:
    """Return all charts of an experiment, first those that compare learners."""
    conditions = [outcome.condition for outcome in outcomes]
    drawn = []
    if len({condition.title for condition in conditions}) > 1:
        drawn.append(_learners_chart(outcomes))
    independent = [outcome for outcome in outcomes if not depends_on_rows(as_delay(outcome.condition.delay))]
    if len({outcome.condition.delay for outcome in independent}) > 1:
        drawn.append(_delay_chart(independent))  # of others the mean delay differs between data sets
    in_full = {outcome.run.learner for outcome in outcomes if outcome.condition.report == "all"}
    titles = distinct(outcome.condition.title for outcome in outcomes if outcome.run.learner in in_full)
    names = file_names(titles)
    for title in titles:
        own = [outcome for outcome in outcomes if outcome.condition.title == title]
        # Errors can be drawn against gamma where every setting has another one.
        tried = [o.condition for o in own if o.condition.all_reported and len(o.condition.reported) > 1]
        tried = [condition for condition in tried if len(set(_gammas(condition))) == len(condition.reported)]
        if tried:
            drawn.append(_gamma_chart(names[title], title, tried, store))
        drawn.append(_rounds_chart(names[title], title, own, outcomes))
    known = {} if facts is None else {name: fact.majority_error for name, fact in facts.items()}
    for place, chart in enumerate(drawn):
        panels = tuple(Panel(data, with_dashes(series), known.get(data)) for data, series, _ in chart.panels)
        drawn[place] = chart._replace(panels=panels, same=equal_series(chart.panels))
    return drawn


def _gamma_chart(name: str, title: str, conditions: Sequence[Condition], store: RunStore) -> Chart:
    """Figure 1 of the paper: the final error against gamma, a line for each delay."""
    delays = distinct(condition.delay for condition in conditions)

    def series(data: str) -> Iterator[Series]:
        for condition in conditions:
            if condition.data == data:
                results = [store.read(run) for run in condition.reported]
                yield means(f"delay {condition.delay}", _gammas(condition), results, delays.index(condition.delay))

    return Chart(
        name=f"gamma-{name}",
        title=f"{title}: final error against gamma",
        caption=f"Mean and 95 % interval of {runs_in_words(condition.reported[0].runs for condition in conditions)}.",
        x="gamma",
        y="final error",
        log_x=True,
        log_y=True,
        kind="bars",
        ticks=(),
        panels=_panels(conditions, series),
    )


def _rounds_chart(name: str, title: str, own: Sequence[Outcome], outcomes: Sequence[Outcome]) -> Chart:
    """Figures 2 and 3 of the paper: the error against rounds, a line for each delay, and the references without."""
    delays = distinct(outcome.condition.delay for outcome in own)
    references = [o for o in outcomes if o.condition.delay == "1" and o.condition.title in REFERENCES.keys() - {title}]

    def series(data: str) -> Iterator[Series]:
        for outcome in own:
            delay = outcome.condition.delay
            if outcome.condition.data == data:
                yield curve(f"delay {delay}", outcome.result, delays.index(delay))
        for outcome in references:
            reference = outcome.condition.title
            if outcome.condition.data == data:
                yield curve(f"{reference}, delay 1", outcome.result, REFERENCES[reference], dashed=True)

    runs = runs_in_words((outcome.run.runs for outcome in (*own, *references)), mark="")  # a band is no interval
    return Chart(
        name=f"rounds-{name}",
        title=f"{title}: error against rounds",
        caption=f"Mean of {runs}; the band reaches from the lowest run to the highest.",
        x="rounds",
        y="error so far",
        log_x=True,
        log_y=True,
        kind="band",
        ticks=(),
        panels=_panels([outcome.condition for outcome in own], series),
        spread="lowest and highest run",
    )


def _delay_chart(outcomes: Sequence[Outcome]) -> Chart:
    """What delay costs: the final error against the mean delay, a line for each learner."""
    played = {(outcome.run.delay, outcome.run.rounds, outcome.run.seed) for outcome in outcomes}
    waits = {delay: mean_wait(as_delay(delay), rounds, seed) for delay, rounds, seed in played}
    titles = distinct(outcome.condition.title for outcome in outcomes)
    labels = _with_runs(titles, outcomes)

    def series(data: str) -> Iterator[Series]:
        for place, title in enumerate(titles):
            own = [o for o in outcomes if (o.condition.data, o.condition.title) == (data, title)]
            own.sort(key=lambda outcome: waits[outcome.run.delay])
            if own:
                yield means(labels[place], [waits[o.run.delay] for o in own], [o.result for o in own], place)

    return Chart(
        name="delay",
        title="What delay costs",
        caption="Final error against the mean delay: mean and 95 % interval "
        f"of {runs_in_words(outcome.run.runs for outcome in outcomes)}.",
        x="mean delay in rounds",
        y="final error",
        log_x=True,
        log_y=True,
        kind="bars",
        ticks=(),
        panels=_panels([outcome.condition for outcome in outcomes], series),
        leads=True,
    )


def _learners_chart(outcomes: Sequence[Outcome]) -> Chart:
    """Every learner at every delay."""
    titles = distinct(outcome.condition.title for outcome in outcomes)
    delays = distinct(outcome.condition.delay for outcome in outcomes)

    def series(data: str) -> Iterator[Series]:
        for place, delay in enumerate(delays):
            own = [o for o in outcomes if (o.condition.data, o.condition.delay) == (data, delay)]
            at = [float(titles.index(outcome.condition.title)) for outcome in own]
            yield means(f"delay {delay}", at, [o.result for o in own], place)

    return Chart(
        name="learners",
        title="Every learner",
        caption=f"Final error at each delay: mean and 95 % interval of {runs_in_words(o.run.runs for o in outcomes)}.",
        x="",
        y="final error",
        log_x=False,
        log_y=True,
        kind="dots",
        ticks=tuple(_with_runs(titles, outcomes)),
        panels=_panels([outcome.condition for outcome in outcomes], series),
        leads=True,
    )


def _with_runs(titles: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the titles of learners, with their numbers of runs where these differ."""
    runs = {title: {o.run.runs for o in outcomes if o.condition.title == title} for title in titles}
    if len(set().union(*runs.values())) < 2:
        return list(titles)
    return [f"{title} ({runs_in_words(runs[title])})" for title in titles]


def _panels(conditions: Iterable[Condition], series: SeriesOf) -> tuple[Panel, ...]:
    return tuple(Panel(data, tuple(series(data))) for data in distinct(condition.data for condition in conditions))


def _gammas(condition: Condition) -> Numbers:
    return [run.parameters["gamma"] for run in condition.reported if "gamma" in run.parameters]


# Figures for print


def draw_figures(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Draw charts, each as .png and .svg, and delete older figures; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.suffix in ENDINGS:
            old.unlink()
    written = []
    for chart in charts:
        figure = _figure(chart)
        for ending in ENDINGS:
            save_figure(figure, folder / f"{chart.name}{ending}")
            written.append(folder / f"{chart.name}{ending}")
    return written


def _figure(chart: Chart) -> Any:
    needs("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    columns = min(len(chart.panels), MOST_COLUMNS)
    rows = -(-len(chart.panels) // columns)
    below = TICK_LETTER * max(map(len, chart.ticks), default=0)
    width = WIDTH * columns + 0.4
    height = (HEIGHT + below) * rows + 0.8
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    entries: dict[str, Handle] = {}
    for panel, ax in zip(chart.panels, axes, strict=False):
        entries |= _draw_panel(ax, chart, panel)
    for ax in axes[len(chart.panels) :]:
        ax.set_axis_off()
    _add_legend(figure, chart, entries)
    figure.suptitle(fill(f"{chart.title}. {chart.caption}", int(LETTERS * width)), fontsize=11, parse_math=False)
    return figure


def _draw_panel(ax: Any, chart: Chart, panel: Panel) -> dict[str, Handle]:
    """Draw the series of a data set; return their handles for the legend."""
    if chart.kind == "dots":  # points between two series that share their x
        step = NAME_SHARE * POINTS * (WIDTH - 0.7) / max(1, len(chart.ticks)) / max(1, len(panel.series))
    else:
        step = min(LINE_STEP, LINES_SPREAD / max(1, len(panel.series)))
    middle = (len(panel.series) - 1) / 2
    drawn = {
        series.label: _draw(ax, chart.kind, series, step, place - middle) for place, series in enumerate(panel.series)
    }
    if panel.majority is not None:
        drawn |= {MAJORITY: draw_majority(ax, panel.majority)}
    ax.set_title(panel.data, parse_math=False)
    means = [y for series in panel.series for y in series.y if y > 0]  # a log axis cannot show 0
    log_x = chart.log_x and bool(means)
    log_y = chart.log_y and bool(means)
    ax.set(xlabel=chart.x, ylabel=chart.y, xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    ax.grid(visible=True, which="major", alpha=0.3)
    if chart.ticks:
        ax.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=90, fontsize=7, parse_math=False)
        ax.set_xlim(-0.5, len(chart.ticks) - 0.5)
    elif chart.kind == "bars":
        ax.margins(x=SIDE_MARGIN)
    low, high = ax.get_ylim()  # errors are never below 0
    ax.set_ylim(max(low, min(means) / DEEPEST_BAR) if log_y else max(0.0, low), high)
    if log_y:
        name_errors(ax)
    return drawn


def _draw(ax: Any, kind: str, series: Series, step: float, place: float) -> Handle:
    """Draw a series, `place` steps aside; return its handle for the legend."""
    needs("matplotlib")
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415 - slow to import

    style = style_of(series.style)
    if series.dashed:
        style["linestyle"] = DASHES
    if kind == "band":
        colour_and_dashes: LineStyle = {"color": style["color"], "linestyle": style["linestyle"]}
        return draw_band(ax, series.x, series.y, series.low, series.high, **colour_and_dashes)
    style["markersize"] = MARKER
    if kind == "dots":
        style |= {"linestyle": "none", "markersize": min(MARKER, max(SMALLEST_MARKER, step))}
    around = np.abs(np.array([series.y]) - np.array([series.low, series.high]))
    bars = ax.errorbar(series.x, series.y, around, capsize=2, **style)
    # Only what is drawn moves; the data, and the limits of the axes, stay the same.
    aside = ax.transData + ScaledTranslation(step * place / POINTS, 0, ax.figure.dpi_scale_trans)
    for artist in bars.get_children():
        artist.set_transform(aside)
    return bars


def _add_legend(figure: Any, chart: Chart, entries: dict[str, Handle]) -> None:
    """Add the legend below the panels, and its height to the figure; label lines that lie on another."""
    names = [f"{label} (same as {chart.same[label]})" if label in chart.same else label for label in entries]
    if not names:
        return
    width, height = figure.get_size_inches()
    columns = max(1, min(len(names), int(LETTERS * width) // (max(map(len, names)) + 6)))
    figure.set_figheight(height + 0.2 * -(-len(names) // columns))
    legend = figure.legend(entries.values(), names, loc="outside lower center", ncols=columns, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


class Drawn(msgspec.Struct, frozen=True):
    """The note of what was drawn: a digest of the charts and of the code that draws, and one of each file."""

    charts: str
    files: dict[str, str]


def draw_if_changed(charts: Sequence[Chart], folder: Path) -> None:
    """Draw charts into `folder`/figures if they, their files or the code that draws them have changed."""
    note = folder / "figures.json"
    how = [_source(sys.modules[__name__]), _source(plotting), version("matplotlib")]
    digest = sha256(msgspec.json.encode([charts, how], enc_hook=str)).hexdigest()
    with suppress(OSError, msgspec.DecodeError):
        before = msgspec.json.decode(note.read_bytes(), type=Drawn)
        if before == Drawn(digest, _files_digests(folder / "figures")):
            return
    note.unlink(missing_ok=True)
    draw_figures(charts, folder / "figures")
    drawn = Drawn(digest, _files_digests(folder / "figures"))
    replace_file(note, msgspec.json.encode(drawn) + b"\n")


def _source(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except OSError:  # installed without it
        return __version__


def _files_digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.glob("*") if path.suffix in ENDINGS)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}
