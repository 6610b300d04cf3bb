"""What the figures of an experiment show, as plain numbers: `figures` draws it for print, `report` for the screen."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from delaytron.delays import as_delay
from delaytron.experiments.runs import Condition
from delaytron.experiments.selection import Outcome
from delaytron.experiments.store import Store
from delaytron.simulation.results import Result, mean_of
from delaytron.simulation.scenarios import mean_wait

REFERENCES = {"banditron": 6, "soba": 5}  # without delay, beside the curves of others, each with its look
LONGEST_NAME = 60
Numbers = list[float]


class Series(NamedTuple):
    """A line or a row of dots: means with what is around them; the same `look` wherever it is the same thing."""

    label: str
    x: Numbers
    y: Numbers
    low: Numbers
    high: Numbers
    look: int
    dashed: bool = False


class Panel(NamedTuple):
    """What belongs to one data set."""

    data: str
    series: tuple[Series, ...]


class Chart(NamedTuple):
    """Panels of the same kind.

    Parameters
    ----------
    kind : {"band", "bars", "dots"}
        Lines with a band around them; with bars; or bars only, above the names `ticks` of x = 0, 1, 2, ...
    """

    name: str
    title: str
    x: str
    y: str
    log_x: bool
    log_y: bool
    kind: str
    ticks: tuple[str, ...]
    panels: tuple[Panel, ...]


def charts(found: Sequence[Outcome], store: Store) -> list[Chart]:
    """Return all charts of an experiment."""
    lines = [outcome.condition for outcome in found]
    shown = [*_charts_of_learners(found, store)]
    if len({line.delay for line in lines}) > 1:
        shown.append(_delay_chart(found))
    if len({line.title for line in lines}) > 1:
        shown.append(_learners_chart(found))
    return shown


def _charts_of_learners(found: Sequence[Outcome], store: Store) -> Iterator[Chart]:
    """Iterate over the charts of every learner that is reported in full."""
    in_full = {outcome.run.learner for outcome in found if outcome.condition.report == "all"}
    titles = _distinct(outcome.condition.title for outcome in found if outcome.run.learner in in_full)
    names = file_names(titles)
    for title in titles:
        own = [outcome for outcome in found if outcome.condition.title == title]
        tried = [
            outcome.condition
            for outcome in own
            if outcome.condition.all_reported and _differ_in_gamma(outcome.condition)
        ]
        if tried:
            yield _gamma_chart(names[title], title, tried, store)
        yield _rounds_chart(names[title], title, own, found)


def _gamma_chart(name: str, title: str, lines: Sequence[Condition], store: Store) -> Chart:
    """Figure 1 of the paper: the final error against gamma, a line for each delay."""
    delays = _distinct(line.delay for line in lines)

    def series(data: str) -> Iterator[Series]:
        for line in lines:
            if line.data == data:
                means = [store.read(run) for run in line.reported]
                yield _means(f"delay {line.delay}", _gammas(line), means, delays.index(line.delay))

    about = f"{title}: final error against gamma, mean and 95 % interval"
    panels = _panels(lines, series)
    return Chart(f"gamma-{name}", about, "gamma", "final error", True, False, "bars", (), panels)


def _rounds_chart(name: str, title: str, own: Sequence[Outcome], found: Sequence[Outcome]) -> Chart:
    """Figures 2 and 3 of the paper: the error against rounds, a line for each delay, and the references without."""
    delays = _distinct(outcome.condition.delay for outcome in own)

    def series(data: str) -> Iterator[Series]:
        for outcome in own:
            if outcome.condition.data == data:
                delay = outcome.condition.delay
                yield _curve(f"delay {delay}", outcome.result, delays.index(delay))
        for outcome in found:
            line = outcome.condition
            if (line.data, line.delay) == (data, "1") and line.title in REFERENCES.keys() - {title}:
                yield _curve(f"{line.title}, delay 1", outcome.result, REFERENCES[line.title], dashed=True)

    about = f"{title}: error against rounds, mean, lowest and highest run"
    panels = _panels([outcome.condition for outcome in own], series)
    return Chart(f"rounds-{name}", about, "rounds", "error so far", True, True, "band", (), panels)


def _delay_chart(found: Sequence[Outcome]) -> Chart:
    """What delay costs: the final error against the mean delay, a line for each learner."""
    played = {(outcome.run.delay, outcome.run.rounds, outcome.run.seed) for outcome in found}
    waits = {delay: mean_wait(as_delay(delay), rounds, seed) for delay, rounds, seed in played}
    titles = _distinct(outcome.condition.title for outcome in found)

    def series(data: str) -> Iterator[Series]:
        for place, title in enumerate(titles):
            own = [o for o in found if (o.condition.data, o.condition.title) == (data, title)]
            own.sort(key=lambda outcome: waits[outcome.run.delay])
            if own:
                yield _means(title, [waits[o.run.delay] for o in own], [o.result for o in own], place)

    panels = _panels([outcome.condition for outcome in found], series)
    about = "What delay costs: mean and 95 % interval"
    return Chart("delay", about, "mean delay in rounds", "final error", True, True, "bars", (), panels)


def _learners_chart(found: Sequence[Outcome]) -> Chart:
    """Every learner at every delay."""
    titles, delays = (_distinct(getattr(o.condition, name) for o in found) for name in ("title", "delay"))

    def series(data: str) -> Iterator[Series]:
        for place, delay in enumerate(delays):
            own = [o for o in found if (o.condition.data, o.condition.delay) == (data, delay)]
            at = [float(titles.index(outcome.condition.title)) for outcome in own]
            yield _means(f"delay {delay}", at, [o.result for o in own], place)

    panels = _panels([outcome.condition for outcome in found], series)
    about = "Every learner at each delay: mean and 95 % interval"
    return Chart("learners", about, "", "final error", False, True, "dots", tuple(titles), panels)


def _panels(lines: Iterable[Condition], series: Callable[[str], Iterator[Series]]) -> tuple[Panel, ...]:
    return tuple(Panel(data, tuple(series(data))) for data in _distinct(line.data for line in lines))


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def file_names(titles: Sequence[str]) -> dict[str, str]:
    """Return a name for the files of each title, no two the same.

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


def _gammas(line: Condition) -> Numbers:
    return [run.parameters["gamma"] for run in line.reported if "gamma" in run.parameters]


def _differ_in_gamma(line: Condition) -> bool:
    """Whether every setting has a gamma of its own, so that errors can stand against it."""
    return len(set(_gammas(line))) == len(line.reported) > 1


def _means(label: str, x: Numbers, results: Sequence[Result], look: int) -> Series:
    """Return final errors with their 95 % intervals."""
    means = np.array([mean_of(result.final_error) for result in results]).reshape(-1, 2)
    value, margin = means[:, 0], np.nan_to_num(means[:, 1])
    return Series(label, x, value.tolist(), (value - margin).tolist(), (value + margin).tolist(), look)


def _curve(label: str, result: Result, look: int, dashed: bool = False) -> Series:
    """Return errors so far, as far as no run is at 0: a log axis has no place for it."""
    shown = (result.error_rate > 0).all(axis=0)
    errors = result.error_rate[:, shown]
    x, y = result.rounds[shown].astype(float), errors.mean(axis=0)
    return Series(label, x.tolist(), y.tolist(), errors.min(axis=0).tolist(), errors.max(axis=0).tolist(), look, dashed)
