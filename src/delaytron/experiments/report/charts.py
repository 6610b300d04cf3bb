"""What the figures of an experiment show, as plain numbers: `figures` draws it for print, the page for the screen."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from delaytron.delays import as_delay
from delaytron.experiments.report.model import Chart, Numbers, Panel, Series
from delaytron.experiments.report.series import (
    curve,
    distinct,
    equal_series,
    file_names,
    means,
    of_runs,
    runs_in_words,
    with_dashes,
)
from delaytron.experiments.report.tables import Facts
from delaytron.experiments.runs import Condition
from delaytron.experiments.selection import Outcome
from delaytron.experiments.store import Store
from delaytron.simulation.scenarios import mean_wait

REFERENCES = {"banditron": 6, "soba": 5}  # without delay, beside the curves of others, each with its style
SeriesOf = Callable[[str], Iterator[Series]]  # of a data set


def charts(outcomes: Sequence[Outcome], store: Store, facts: Facts | None = None) -> list[Chart]:
    """Return all charts of an experiment, first those that compare the learners."""
    conditions = [outcome.condition for outcome in outcomes]
    drawn = []
    if len({condition.title for condition in conditions}) > 1:
        drawn.append(_learners_chart(outcomes))
    if len({condition.delay for condition in conditions}) > 1:
        drawn.append(_delay_chart(outcomes))
    drawn.extend(_charts_of_learners(outcomes, store))
    return [_completed(chart, facts or {}) for chart in drawn]


def _completed(chart: Chart, facts: Facts) -> Chart:
    """Return a chart with the error of the most frequent class, and no line hidden under another."""
    panels = tuple(
        Panel(panel.data, with_dashes(panel.series), facts[panel.data].majority_error if panel.data in facts else None)
        for panel in chart.panels
    )
    return chart._replace(panels=panels, same=equal_series(chart.panels))


def _charts_of_learners(outcomes: Sequence[Outcome], store: Store) -> Iterator[Chart]:
    """Iterate over the charts of every learner that is reported in full."""
    in_full = {outcome.run.learner for outcome in outcomes if outcome.condition.report == "all"}
    titles = distinct(outcome.condition.title for outcome in outcomes if outcome.run.learner in in_full)
    names = file_names(titles)
    for title in titles:
        own = [outcome for outcome in outcomes if outcome.condition.title == title]
        conditions = [outcome.condition for outcome in own]
        tried = [condition for condition in conditions if condition.all_reported and _differ_in_gamma(condition)]
        if tried:
            yield _gamma_chart(names[title], title, tried, store)
        yield _rounds_chart(names[title], title, own, outcomes)


def _gamma_chart(name: str, title: str, conditions: Sequence[Condition], store: Store) -> Chart:
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
        caption=f"Mean and 95 % interval {of_runs(condition.reported[0].runs for condition in conditions)}.",
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

    runs = of_runs((outcome.run.runs for outcome in (*own, *references)), few_marked=False)
    return Chart(
        name=f"rounds-{name}",
        title=f"{title}: error against rounds",
        caption=f"Mean {runs}; the band reaches from the lowest run to the highest.",
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
        f"{of_runs(outcome.run.runs for outcome in outcomes)}.",
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
        caption=f"Final error at each delay: mean and 95 % interval {of_runs(o.run.runs for o in outcomes)}.",
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


def _differ_in_gamma(condition: Condition) -> bool:
    """Whether every setting has a gamma of its own, so that errors can stand against it."""
    return len(set(_gammas(condition))) == len(condition.reported) > 1
