"""Figures of an experiment, a panel for each data set: error against gamma, against rounds, against delays."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.delays import as_delay
from delaytron.experiments.runs import Line
from delaytron.experiments.store import Store
from delaytron.experiments.summary import Outcome
from delaytron.plots import COLOURS, draw_curve, look_of, name_errors, save_picture
from delaytron.records import Array
from delaytron.results import mean_of
from delaytron.worlds import mean_wait

if TYPE_CHECKING:
    from delaytron.results import Result

REFERENCES = {"banditron": ("#000000", "--"), "soba": ("#777777", ":")}  # without delay, beside the curves of others
ENDINGS = (".png", ".svg")
WIDTH, HEIGHT = 3.1, 2.5  # inches of a panel
MOST_COLUMNS = 4


def draw_figures(found: Sequence[Outcome], store: Store, folder: Path) -> list[Path]:
    """Draw all figures of an experiment, each as .png and .svg; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in _figures(found, store):
        for ending in ENDINGS:
            save_picture(figure, folder / f"{name}{ending}")
            written.append(folder / f"{name}{ending}")
    return written


def _figures(found: Sequence[Outcome], store: Store) -> Iterator[tuple[str, Any]]:
    lines = [outcome.line for outcome in found]
    titles = list(dict.fromkeys(line.title for line in lines))
    for title in titles:
        own = [line for line in lines if line.title == title]
        name = title.replace(", ", "-").replace(" ", "-")
        full = [line for line in own if line.all_reported and len(_gammas(line)) > 1]
        if full:
            yield f"gamma-{name}", _gamma_figure(title, full, store)
        yield f"rounds-{name}", _rounds_figure(title, found)
    if len({line.delay for line in lines}) > 1:
        yield "delay", _delay_figure(titles, found)


def _panels(data: Sequence[str], title: str, axes: dict[str, Any], draw: Callable[[str, Any], object]) -> Any:
    """Return a figure with a panel for each data set, drawn one by one, and one legend for all."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    columns = min(len(data), MOST_COLUMNS)
    rows = -(-len(data) // columns)
    figure = Figure(figsize=(WIDTH * columns + 0.4, HEIGHT * rows + 1.1), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    entries: dict[str, Any] = {}
    for name, panel in zip(data, panels, strict=False):
        draw(name, panel)
        panel.set(title=name, **axes)
        _dress(panel)
        lines, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, lines, strict=True))
    for panel in panels[len(data) :]:
        panel.set_axis_off()
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=min(len(entries), 5), frameon=False)
    figure.suptitle(title)
    return figure


def _dress(panel: Any) -> None:
    """Write errors as plain numbers, never below 0."""
    panel.grid(visible=True, which="major", alpha=0.3)
    low, high = panel.get_ylim()
    if panel.get_yscale() == "log":
        panel.set_ylim(max(low, high / 1000), high)
        name_errors(panel)
    else:
        panel.set_ylim(max(0.0, low), high)


def _data(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.data for line in lines))


def _gammas(line: Line) -> list[float]:
    return [run.parameters["gamma"] for run in line.reported if "gamma" in run.parameters]


def _gamma_figure(title: str, lines: Sequence[Line], store: Store) -> Any:
    """Figure 1 of the paper: the final error against gamma, a line for each delay."""
    delays = list(dict.fromkeys(line.delay for line in lines))

    def draw(data: str, panel: Any) -> None:
        for line in lines:
            if line.data == data:
                errors = [mean_of(store.read(run).final_error) for run in line.reported]
                look = look_of(delays.index(line.delay))
                _draw_means(panel, np.array(_gammas(line)), np.array(errors), f"delay {line.delay}", look)

    axes = {"xscale": "log", "xlabel": "gamma", "ylabel": "final error"}
    return _panels(_data(lines), f"{title}: final error against gamma, mean and 95 % interval", axes, draw)


def _rounds_figure(title: str, found: Sequence[Outcome]) -> Any:
    """Figures 2 and 3 of the paper: the error against rounds, a line for each delay, and the references without."""
    own = [outcome for outcome in found if outcome.line.title == title]
    delays = list(dict.fromkeys(outcome.line.delay for outcome in own))

    def draw(data: str, panel: Any) -> None:
        for outcome in own:
            if outcome.line.data == data:
                colour = COLOURS[delays.index(outcome.line.delay) % len(COLOURS)]
                draw_curve(panel, outcome.result, color=colour, label=f"delay {outcome.line.delay}")
        for name, result in _references(found, data, title).items():
            colour, dash = REFERENCES[name]
            draw_curve(panel, result, color=colour, linestyle=dash, label=f"{name}, delay 1")

    axes = {"xscale": "log", "yscale": "log", "xlabel": "rounds", "ylabel": "error so far"}
    lines = [outcome.line for outcome in own]
    return _panels(_data(lines), f"{title}: error against rounds, mean, lowest and highest run", axes, draw)


def _references(found: Sequence[Outcome], data: str, title: str) -> "dict[str, Result]":
    return {
        outcome.line.title: outcome.result
        for outcome in found
        if (outcome.line.data, outcome.line.delay) == (data, "1") and outcome.line.title in REFERENCES.keys() - {title}
    }


def _delay_figure(titles: Sequence[str], found: Sequence[Outcome]) -> Any:
    """What delay costs: the final error against the mean delay, a line for each learner."""
    played = {(outcome.run.delay, outcome.run.rounds, outcome.run.seed) for outcome in found}
    mean_delays = {delay: mean_wait(as_delay(delay), rounds, seed) for delay, rounds, seed in played}

    def draw(data: str, panel: Any) -> None:
        for title in titles:
            own = [o for o in found if (o.line.data, o.line.title) == (data, title)]
            means = np.array([mean_of(outcome.result.final_error) for outcome in own])
            waits = np.array([mean_delays[outcome.run.delay] for outcome in own])
            _draw_means(panel, waits, means, title, look_of(titles.index(title)))

    axes = {"xscale": "log", "yscale": "log", "xlabel": "mean delay in rounds", "ylabel": "final error"}
    return _panels(_data([o.line for o in found]), "What delay costs: mean and 95 % interval", axes, draw)


def _draw_means(panel: Any, x: Array, means: Array, label: str, look: dict[str, Any]) -> None:
    order = np.argsort(x)
    value, margin = means[order].T
    panel.errorbar(x[order], value, np.nan_to_num(margin), label=label, capsize=2, **look)
