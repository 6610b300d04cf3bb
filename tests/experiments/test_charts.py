"""Charts: the numbers of the results, under the right names; figures: the numbers of the charts."""

from pathlib import Path

import numpy as np
import pytest

from delaytron.experiments.execute import execute
from delaytron.experiments.report import charts as figures
from delaytron.experiments.report.charts import charts, equal_series, with_dashes
from delaytron.experiments.report.model import Chart, Panel, Series
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import DataFacts, RunStore, outcomes
from delaytron.plotting import COLOURS
from delaytron.simulation.results import MAJORITY, mean_of

TOML = """
name = "small"
data = ["digits", {name = "synsep", n_samples = 500}]
delays = [1, "fixed:30"]
rounds = 300
runs = 3
tuning_runs = 2

[[learners]]
name = "delaytron"
gamma = [0.2, 0.05]

[[learners]]
name = "soba"
delays = [1]
gamma = 0.1

[[learners]]
name = "pab"
report = "chosen"
gamma = [0.2, 0.05]
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    lines, store = parse_spec(TOML.encode()).conditions(), RunStore(tmp_path_factory.mktemp("played"))
    execute(lines, store)
    return outcomes(lines, store), store


@pytest.fixture(scope="module")
def drawn(played):
    return {chart.name: chart for chart in charts(*played)}


def series_of(chart, data, label):
    panel = next(panel for panel in chart.panels if panel.data == data)
    return next(series for series in panel.series if series.label == label)


def test_learners_that_are_reported_in_full_have_charts_of_their_own(drawn):
    assert list(drawn) == ["learners", "delay", "gamma-delaytron", "rounds-delaytron", "rounds-soba"]


def test_errors_are_drawn_against_gamma(played, drawn):
    found, store = played
    line = next(
        o.condition
        for o in found
        if (o.condition.data, o.condition.title, o.condition.delay) == ("synsep", "delaytron", "fixed:30")
    )
    series = series_of(drawn["gamma-delaytron"], "synsep", "delay fixed:30")
    assert series.x == [0.2, 0.05]
    for place, run in enumerate(line.reported):
        mean, margin = mean_of(store.read(run).final_error)
        assert (series.y[place], series.low[place], series.high[place]) == (mean, mean - margin, mean + margin)


def test_errors_are_drawn_against_rounds_beside_the_references(played, drawn):
    result = played[0][0].result
    panel = drawn["rounds-delaytron"].panels[0]
    assert [series.label for series in panel.series] == ["delay 1", "delay fixed:30", "soba, delay 1"]
    assert [series.dashed for series in panel.series] == [False, False, True]
    own = panel.series[0]
    shown = (result.error_rate > 0).all(axis=0)
    assert own.x == result.rounds[shown].tolist()
    assert own.y == result.error_rate.mean(axis=0)[shown].tolist()
    assert own.low == result.error_rate.min(axis=0)[shown].tolist()
    assert own.high == result.error_rate.max(axis=0)[shown].tolist()
    assert [series.label for series in drawn["rounds-soba"].panels[0].series] == ["delay 1"]


def test_errors_are_drawn_against_delays_in_ascending_order(drawn):
    delaytron = series_of(drawn["delay"], "digits", "delaytron")
    assert delaytron.x == [1, 30]
    assert series_of(drawn["delay"], "digits", "soba").x == [1]
    assert series_of(drawn["learners"], "digits", "delay 1").y[0] == delaytron.y[0]


def test_every_learner_is_drawn_at_each_delay(played, drawn):
    chart = drawn["learners"]
    assert chart.ticks == ("delaytron", "soba", "pab")
    assert series_of(chart, "digits", "delay fixed:30").x == [0, 2]
    error = next(
        o.result.final_error.mean() for o in played[0] if (o.condition.data, o.condition.title) == ("synsep", "pab")
    )
    assert series_of(chart, "synsep", "delay 1").y[2] == error


@pytest.fixture(scope="module")
def axes(drawn):
    """What matplotlib is given to draw."""
    return {name: figures._figure(chart).axes for name, chart in drawn.items()}


@pytest.mark.parametrize("name", ["gamma-delaytron", "delay", "learners"])
def test_bars_are_drawn_as_charted(drawn, axes, name):
    for panel, ax in zip(drawn[name].panels, axes[name], strict=True):
        assert ax.get_title() == panel.data
        for series, bars in zip(panel.series, ax.containers, strict=True):
            line, _, (around,) = bars.lines
            assert line.get_xydata().tolist() == np.transpose([series.x, series.y]).tolist()
            ends = np.array([segment[:, 1] for segment in around.get_segments()])
            assert np.allclose(ends, np.transpose([series.low, series.high]), atol=1e-15)


def test_bands_are_drawn_as_charted(drawn, axes):
    for panel, ax in zip(drawn["rounds-delaytron"].panels, axes["rounds-delaytron"], strict=True):
        for series, line, band in zip(panel.series, ax.lines, ax.collections, strict=True):
            assert line.get_xydata().tolist() == np.transpose([series.x, series.y]).tolist()
            assert line.get_color() == COLOURS[series.style]
            assert (line.get_linestyle() == "--") is series.dashed
            corners = band.get_paths()[0].vertices[:, 1]
            assert corners.min() == min(series.low)
            assert corners.max() == max(series.high)


def odd(**values):
    """Return a chart with one line; by default without any error, under a title that means something to TeX."""
    series = Series(r"$\frac$", [1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0)
    plain = {
        "name": "odd",
        "title": r"all $\frac$ of it " * 9,
        "x": "rounds",
        "y": "error",
        "log_x": True,
        "log_y": True,
    }
    return Chart(**plain, **{"kind": "band", "ticks": (), "panels": (Panel(r"$x^", (series,)),)} | values)


@pytest.mark.parametrize("kind", ["band", "bars", "dots"])
def test_no_errors_and_no_tex_are_drawn_too(kind, tmp_path):
    written = figures.draw_figures([odd(kind=kind, ticks=("$a_",))], tmp_path)
    assert all(path.stat().st_size > 5000 for path in written)


def test_what_was_drawn_before_is_gone(drawn, tmp_path):
    for old in ("old.png", "old.svg", "notes.txt"):
        (tmp_path / old).write_text("")
    figures.draw_figures([drawn["delay"]], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["delay.png", "delay.svg", "notes.txt"]


def test_figures_are_written_for_print_and_screen(drawn, tmp_path):
    written = figures.draw_figures([drawn["delay"]], tmp_path / "figures")
    assert [path.name for path in written] == ["delay.png", "delay.svg"]
    assert [Path(path).read_bytes()[:4] for path in written] == [b"\x89PNG", b"<?xm"]


def test_a_curve_on_another_is_dashed_and_labelled():
    lower = Series("low", [1.0, 2.0], [0.5, 0.25], [0.0, 0.0], [1.0, 1.0], 0)
    upper = lower._replace(label="same", style=1)
    part = Series("part", [2.0], [0.25], [0.0], [1.0], 2)
    other = lower._replace(label="other", y=[0.5, 0.26])
    drawn = with_dashes([lower, upper, part, other])
    assert [series.dashed for series in drawn] == [False, True, True, False]
    assert equal_series([Panel("x", drawn)]) == {"same": "low", "part": "low"}
    assert equal_series([Panel("x", drawn), Panel("y", (lower, upper._replace(y=[0.5, 0.3])))]) == {"part": "low"}


def test_without_delay_banditron_is_labelled_as_the_same_as_delaytron(tmp_path):
    toml = """
name = "same"
data = ["digits"]
delays = [1, 20]
rounds = 200
runs = 2
learners = [{name = "delaytron", gamma = 0.1}, {name = "banditron", gamma = 0.1, delays = [1]}]
"""
    conditions = parse_spec(toml.encode()).conditions()
    store = RunStore(tmp_path)
    execute(conditions, store)
    drawn = {chart.name: chart for chart in charts(outcomes(conditions, store), store)}
    assert drawn["delay"].same == {"banditron": "delaytron"}
    assert drawn["rounds-delaytron"].same == {"banditron, delay 1": "delay 1"}
    legend = figures._figure(drawn["delay"]).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["delaytron", "banditron (same as delaytron)"]


def test_the_most_frequent_class_is_a_line_in_every_panel(played):
    outcomes_, store = played
    facts = {"digits": DataFacts(name="digits", rows=9, features=2, classes=3, majority_error=0.875, storage="dense")}
    for chart in charts(outcomes_, store, facts):
        assert [(panel.data, panel.majority) for panel in chart.panels] == [("digits", 0.875), ("synsep", None)]
        figure = figures._figure(chart)
        lines = [line for line in figure.axes[0].lines if set(line.get_ydata()) == {0.875}]
        assert [line.get_linestyle() for line in lines] == [":"]
        assert MAJORITY in [text.get_text() for text in figure.legends[0].get_texts()]
        low, high = figure.axes[0].get_ylim()
        assert low < 0.875 < high


def test_series_that_share_their_x_are_drawn_side_by_side(axes):
    for name in ("gamma-delaytron", "delay", "learners"):
        ax = axes[name][0]
        places = [bars.lines[0].get_transform().transform((1.0, 0.5))[0] for bars in ax.containers]
        assert places == sorted(set(places))


def test_captions_and_labels_have_the_numbers_of_runs(played, drawn, tmp_path):
    assert drawn["learners"].caption == "Final error at each delay: mean and 95 % interval of 3 runs†."
    toml = TOML.replace('name = "soba"', 'name = "soba"\nruns = 12')
    conditions = parse_spec(toml.encode()).only(["digits"]).conditions()
    store = RunStore(tmp_path)
    execute(conditions, store)
    mixed = {chart.name: chart for chart in charts(outcomes(conditions, store), store)}
    assert mixed["learners"].ticks == ("delaytron (3 runs†)", "soba (12 runs)", "pab (3 runs†)")
    assert mixed["learners"].caption.endswith("of 3 to 12 runs†.")
    assert mixed["rounds-soba"].caption.startswith("Mean of 12 runs; ")
    soba = series_of(mixed["learners"], "digits", "delay 1")
    assert soba.runs == [3, 12, 3]
