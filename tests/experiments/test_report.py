"""The HTML report: one file with all of the report, which works in a real browser."""

import json
import re
from html.parser import HTMLParser

import pytest

from delaytron.experiments.report.html import write_page
from delaytron.experiments.report.model import (
    FEW_RUNS_NOTE,
    Chart,
    Claim,
    Estimate,
    Panel,
    Report,
    Section,
    Series,
    Table,
    shown,
    with_runs,
)
from delaytron.experiments.report.report import as_markdown
from delaytron.plotting import COLOURS
from delaytron.simulation.results import MAJORITY, Mean

pytestmark = pytest.mark.xdist_group("report")  # one browser for all

NAN = float("nan")
HOSTILE = '</script><script>alert(1)</script><!-- & "it\'s"'
FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><path d="M 1.23456 2 L 50 50"/></svg>'
RESULTS = Table(
    ("data", "learner", "delay", "error", "greedy", "runs"),
    (
        ("digits", "soba", "1000", Estimate(0.0712, 0.0009, 20), 0.0634, 20),
        ("digits", "delaytron", "100", Mean(0.1234, 0.0012), 0.1, 1000),
        ("usps", "delaytron", "5", Mean(0.09, NAN), None, 3),
        ("usps", HOSTILE, "1", Mean(0.000214, 0.00001), 12345.6, 100),
    ),
)
ROUNDS = [1.0, 10.0, 100.0, 1000.0, 1234567.0]


def line(label, style, y, x=None, spread=0.1, dashed=False, runs=20):
    low, high = [[value * (1 + sign * spread) for value in y] for sign in (-1, 1)]
    return Series(label, x or ROUNDS, y, low, high, style, dashed, [runs] * len(y))


def a_chart(name, kind, x=None, ticks=(), log=True, leads=False):
    panels = tuple(
        Panel(data, (line("early", 0, y, x), line(HOSTILE, 1, y[::-1], x, dashed=True), line("late", 6, z, x)), 0.95)
        for data, y, z in (
            ("digits", [0.0, 0.5, 0.1, 0.01, 0.001], [0.9, 0.8, 0.7, 0.6, 0.5]),
            ("usps", [0.8, 0.4, 0.2, 0.1, 0.123456789], [0.3, 0.3, 0.3, NAN, 0.3]),
        )
    )
    title = f"{name} & more"
    log_x = log and not ticks
    caption = "Mean and 95 % interval."
    return Chart(name, title, "rounds", "error", log_x, log, kind, ticks, panels, caption, leads=leads)


def a_report(folder):
    names = ("delaytron", "adaptive_delaytron, instant", "soba", "exp3", "gap")
    charts = [
        a_chart("rounds", "band"),
        a_chart("gamma", "bars", x=[0.001, 0.01, 0.03, 0.1, 0.25], log=False),
        a_chart("learners", "dots", x=[0.0, 1.0, 2.0, 3.0, 4.0], ticks=names, log=False, leads=True),
    ]
    figures = {chart.name: folder / f"{chart.name}.svg" for chart in charts}
    for figure in figures.values():
        figure.write_text(FIGURE)
    claims = [
        Claim("a", f"It falls {HOSTILE}", "holds", "So in 8 of 8 cases.", RESULTS),
        Claim("b", "It is close.", "does not hold", "So in 1 of 8 cases.", RESULTS),
        Claim("c", "It meets.", "not tested", "There are no such runs.", Table((), ())),
    ]
    many = Table(("number", "word"), tuple((i, f"word {i}") for i in range(100)))
    sections = [Section("Results", "First.\n\nSecond.", RESULTS), Section("Many", "A hundred rows.", many)]
    return Report(
        title=f"Report {HOSTILE}",
        facts={"command": HOSTILE, "runs": "20"},
        claims=claims,
        sections=sections,
        charts=charts,
        figures=figures,
        headline=f"Late {HOSTILE} has 0.0712 ± 0.0009 (20 runs).",
        small_print=[FEW_RUNS_NOTE],
        machine={"cores": HOSTILE},
    )


@pytest.fixture(scope="module")
def report_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_page(folder / "report.html", a_report(folder))
    return folder / "report.html"


class Reader(HTMLParser):
    """What a browser would see: tags with attributes, and the cells of tables."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.cells += [""] * (tag == "td")

    def handle_data(self, text):
        if self.lasttag == "td" and text.strip():
            self.cells[-1] += text


@pytest.fixture(scope="module")
def read(report_file):
    reader = Reader()
    reader.feed(report_file.read_text(encoding="utf-8"))
    return reader


def test_nothing_is_left_unescaped(report_file, read):
    text = report_file.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert text.count("<!--") == 0
    assert sum(tag == "script" for tag, _ in read.tags) == text.count("</script>") == 9
    assert HOSTILE in read.cells


def test_the_page_needs_no_other_file(read):
    addresses = [value for _, attrs in read.tags for name, value in attrs.items() if name in ("src", "href")]
    assert addresses
    assert all(address.startswith(("#", "data:image/svg+xml,")) for address in addresses)
    assert not any("://" in address for address in addresses)
    policies = [attrs["content"] for tag, attrs in read.tags if tag == "meta" and "http-equiv" in attrs]
    assert policies[0].startswith("default-src 'none'")


def test_links_within_the_page_lead_somewhere(read):
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    targets = {attrs["href"][1:] for tag, attrs in read.tags if tag == "a"}
    assert len(ids) == len(set(ids))
    assert targets <= set(ids)
    assert {"claims", "table-results", "chart-learners", "charts", "machine"} == targets - {"top", "table-many"}


def test_tables_hold_the_numbers_given(read):
    first = read.cells[: 4 * 6]
    assert first[:6] == ["digits", "soba", "1000", "0.0712 ± 0.0009", "0.0634", "20"]
    assert first[9:12] == ["0.1234 ± 0.0012", "0.1", "1,000"]
    assert first[15:18] == ["0.0900", "-", "3"]
    assert first[21:] == ["0.000214 ± 0.000010", "12,346", "100"]
    values = [float(attrs["data-value"]) for tag, attrs in read.tags if tag == "td" and "data-value" in attrs]
    assert values[:3] == [0.0712, 0.0634, 20.0]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        *[(Mean(12.34567, 0.5), "12.3457 ± 0.5000"), (Mean(123456.7, 89.12), "123,456.7 ± 89.1")],
        *[(Mean(0.0, 0.0), "0.0000 ± 0.0000"), (-0.0806449, "-0.08064"), (1778.0, "1,778")],
        *[(5000, "5,000"), ("5000", "5000")],
    ],
)
def test_cells_are_shown_in_as_many_digits_as_they_need(cell, text):
    assert shown(cell) == text


def test_every_chart_has_its_figure_and_the_leading_one_comes_first(read):
    images = [attrs for tag, attrs in read.tags if tag == "img"]
    assert [image["alt"].split(" & ")[0] for image in images] == ["learners", "rounds", "gamma"]
    assert all("M%201.23%202%20L%2050%2050" in image["src"].replace(" ", "%20") for image in images)


def test_the_data_are_rounded_and_what_is_missing_is_null(report_file):
    text = re.search(r'id="data">(.*?)</script>', report_file.read_text(encoding="utf-8")).group(1)
    assert "<" not in text
    chart = json.loads(text)["charts"][0]
    early, hostile, late = chart["panels"][1]["series"]
    assert chart["grids"] == [[1, 10, 100, 1000, 1234567]]
    assert (early["x"], late["x"]) == (0, 0)
    assert early["y"] == [0.8, 0.4, 0.2, 0.1, 0.12346]
    assert late["high"] == [0.33, 0.33, 0.33, None, 0.33]
    assert (hostile["label"], hostile["dashed"]) == (HOSTILE, True)


def test_a_report_may_have_neither_claims_nor_charts(tmp_path):
    write_page(tmp_path / "report.html", Report("Small", {}, [], [Section("One", "", RESULTS)], [], {}))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>One</h2>" in text
    assert "claims</h2>" not in text


# In a browser


@pytest.fixture
def opened(browser, report_file):
    """Return a function that opens the page; at the end there must have been neither errors nor requests."""
    contexts, problems, requests = [], [], []

    def open_page(width=1280, path=report_file, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        requests.remove(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
    assert [url for url in requests if not url.startswith("data:")] == []


COUNT_PIXELS = """(canvases, colour) => canvases.map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
        count += data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255;
    }
    return count;
})"""


def pixels(chart, colour):
    """Return how many pixels have just this colour, for every panel."""
    return chart.locator("canvas").evaluate_all(COUNT_PIXELS, colour)


def test_a_series_is_hidden_and_shown_in_all_panels_of_its_chart(opened):
    page = opened()
    for name in ("rounds", "gamma", "learners"):
        chart = page.locator(f"#chart-{name}")
        button = chart.get_by_role("button", name="early")
        assert button.get_attribute("aria-pressed") == "true"
        before = pixels(chart, COLOURS[0])
        assert len(before) == 2
        assert min(before) > 20
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        assert pixels(chart, COLOURS[0]) == [0, 0]
        assert min(pixels(chart, COLOURS[1])) > 20
        button.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert pixels(chart, COLOURS[0]) == before


SCALES = "plots => plots.map(({ plot }) => [plot.scales.x.distr, plot.scales.y.distr, plot.data[1][0]])"
LINEAR, LOG = 1, 3


def test_axes_are_switched_between_linear_and_log(opened):
    page = opened()
    chart = page.locator("#chart-rounds")
    plots = chart.locator(".plot")
    assert plots.evaluate_all(SCALES) == [[LOG, LOG, None], [LOG, LOG, 0.8]]  # 0 has no place on a log axis
    before = pixels(chart, COLOURS[0])
    chart.get_by_role("group", name="y axis").get_by_text("linear").click()
    assert plots.evaluate_all(SCALES) == [[LOG, LINEAR, 0], [LOG, LINEAR, 0.8]]
    assert pixels(chart, COLOURS[0]) != before
    chart.get_by_role("group", name="x axis").get_by_text("linear").click()
    assert plots.evaluate_all(SCALES) == [[LINEAR, LINEAR, 0], [LINEAR, LINEAR, 0.8]]
    chart.get_by_role("group", name="y axis").get_by_label("log").press("Space")
    chart.get_by_role("group", name="x axis").get_by_text("log").click()
    assert pixels(chart, COLOURS[0]) == before
    named = page.locator("#chart-learners")
    assert named.get_by_role("group", name="y axis").count() == 1
    assert named.get_by_role("group", name="x axis").count() == 0


def test_values_are_shown_under_the_cursor_and_at_the_same_place_in_other_panels(opened):
    page = opened()
    first, second = page.locator("#chart-rounds .plot").all()
    second.scroll_into_view_if_needed()
    tip = page.locator(".tip")
    assert not tip.is_visible()
    area = second.locator(".u-over").bounding_box()
    # The page hides values while it scrolls, and the event of the scroll above may come after the first move.
    for step in range(100):
        page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 20 + step % 2)
        page.wait_for_timeout(50)
        if tip.is_visible():
            break
    lines = tip.inner_text().splitlines()
    assert lines[0] == "usps rounds 1,234,567"
    assert [line.split("\t") for line in lines[2:]] == [
        [HOSTILE, "0.8000", "0.7200 .. 0.8800", "20"],
        ["late", "0.3000", "0.2700 .. 0.3300", "20"],
        ["early", "0.1235", "0.1111 .. 0.1358", "20"],
        [MAJORITY, "0.9500", "", ""],
    ]
    assert lines[1].split("\t") == ["error", "mean", "95 % interval", "runs"]
    assert first.locator(".aside").inner_text().splitlines() == ["0.500", "0.00100"]  # at this place one is 0
    page.mouse.move(area["x"] + area["width"] / 2, 2)
    tip.wait_for(state="hidden")


def test_values_are_reached_by_the_keyboard(opened):
    page = opened()
    plot = page.locator("#chart-learners .plot").first
    plot.focus()
    plot.press("ArrowRight")
    plot.press("ArrowRight")
    assert page.locator(".tip").inner_text().startswith("digits adaptive_delaytron, instant")
    assert page.locator("#chart-learners .aside").nth(1).inner_text().splitlines() == ["0.400", "0.300", "0.100"]


def column(page, place):
    return page.locator("#table-results tbody tr").evaluate_all(
        "(rows, place) => rows.map((row) => row.cells[place].textContent)", place
    )


SORTED = {
    "delay": (2, ["1", "5", "100", "1000"]),
    "error": (3, ["0.000214 ± 0.000010", "0.0712 ± 0.0009", "0.0900", "0.1234 ± 0.0012"]),
    "runs": (5, ["3", "20", "100", "1,000"]),
}


def test_tables_are_sorted_both_ways_and_what_is_missing_stays_last(opened):
    page = opened()
    for name, (place, rising) in SORTED.items():
        header = page.locator("#table-results").get_by_role("columnheader", name=name, exact=True)
        header.get_by_role("button").click()
        assert header.get_attribute("aria-sort") == "ascending"
        assert column(page, place) == rising
        header.get_by_role("button").press("Enter")
        assert header.get_attribute("aria-sort") == "descending"
        assert column(page, place) == rising[::-1]
    button = page.locator("#table-results").get_by_role("button", name="greedy")
    for expected in (["0.0634", "0.1", "12,346", "-"], ["12,346", "0.1", "0.0634", "-"]):
        button.click()
        assert column(page, 4) == expected
    assert page.locator("#table-results [aria-sort]").count() == 1


def test_long_tables_are_filtered_by_words(opened):
    page = opened()
    page.get_by_role("searchbox").fill("WORD 42")
    assert page.locator("#table-many tbody tr:visible").all_inner_texts() == ["42\tword 42"]
    assert page.get_by_role("searchbox").count() == 1  # short ones need none


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_does_not_scroll_sideways(opened, width):
    page = opened(width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    left, right = page.locator("#chart-rounds .panel").evaluate_all("all => all.map(one => one.offsetTop)")
    assert (left == right) == (width == 1280)
    page.locator("#chart-rounds .larger").first.click()
    page.wait_for_function("() => document.querySelector('.panel.large canvas').clientWidth > 300")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_figures_replace_charts_without_scripts_and_on_paper(opened):
    plain = opened(java_script_enabled=False)
    assert [image.is_visible() for image in plain.locator(".figure img").all()] == [True] * 3
    page = opened()
    images = page.locator(".figure img")
    canvases = page.locator("canvas")
    assert [image.is_visible() for image in images.all()] == [False] * 3
    page.wait_for_function("() => [...document.images].every((image) => image.naturalWidth === 90)")
    page.emulate_media(media="print")
    assert [image.is_visible() for image in images.all()] == [True] * 3
    assert [canvas.is_visible() for canvas in canvases.all()] == [False] * 6


def test_black_lines_are_white_on_a_dark_page(opened):
    page = opened(color_scheme="dark")
    chart = page.locator("#chart-rounds")
    assert pixels(chart, "#000000") == [0, 0]
    assert min(pixels(chart, "#ffffff")) > 20
    page.emulate_media(color_scheme="light")
    page.wait_for_function("() => document.querySelector('.plot').plot.series[3].stroke() === '#000000'")
    assert min(pixels(chart, "#000000")) > 20


def test_panels_may_hold_nothing_a_point_zeros_or_bars_below_zero(opened, tmp_path):
    (tmp_path / "odd.svg").write_text(FIGURE)
    panels = [[], [line("none", 0, [], [])], [line("one", 1, [0.5], [1.0])], [line("zero", 2, [0.0] * 5)]]
    panels.append([line("wide", 3, [0.5] * 5, spread=2)])
    named = tuple(Panel(f"data {i}", tuple(series)) for i, series in enumerate(panels))
    chart = Chart("odd", "Odd", "x", "y", True, True, "band", (), named)
    write_page(tmp_path / "odd.html", Report("Odd", {}, [], [], [chart], {"odd": tmp_path / "odd.svg"}))
    page = opened(path=tmp_path / "odd.html")
    for scale in ("log", "linear"):
        page.get_by_role("group", name="y axis").get_by_text(scale).click()
        for plot in page.locator(".plot").all():
            plot.hover()
        ends = page.locator(".plot").evaluate_all(
            "all => all.map(({ plot }) => [plot.scales.y.min, plot.scales.y.max])"
        )
        assert all(0 <= low < high for low, high in ends)
    assert page.locator(".chart.drawn canvas").count() == 5


# What a reader sees first


def test_the_story_begins_with_what_was_played_and_what_came_out(opened):
    page = opened()
    tops = [
        page.locator(place).first.bounding_box()["y"]
        for place in ("h1", ".facts", ".headline", "#chart-learners", "#claims", "#table-results", "#charts")
    ]
    assert tops == sorted(tops)
    assert tops[3] < 900  # the first chart begins on the first screen
    assert page.locator("#chart-learners canvas").first.is_visible()
    assert page.locator("header .note").inner_text() == FEW_RUNS_NOTE


def test_page_and_markdown_have_the_same_content(tmp_path, report_file):
    text = as_markdown(a_report(tmp_path))
    places = [
        text.index(part) for part in ("* command", "**Late", "## learners", "## Claim (a)", "## Learner by", "## How")
    ]
    assert places == sorted(places)
    assert FEW_RUNS_NOTE in text
    assert "Late" in report_file.read_text(encoding="utf-8")


def test_errors_show_their_runs_and_few_runs_are_marked():
    cells = [Estimate(0.1, 0.01, 20), Estimate(0.2, 0.02, 4), Estimate(0.3, NAN, 1)]
    assert [shown(cell) for cell in cells] == ["0.1000 ± 0.0100", "0.2000 ± 0.0200†", "0.3000 (one run, no interval)"]
    assert [shown(cell) for cell in with_runs([cells])[0]] == [
        "0.1000 ± 0.0100 (20 runs)",
        "0.2000 ± 0.0200† (4 runs)",
        "0.3000 (one run, no interval)",
    ]
    assert with_runs([("x", cells[1])]) == (("x", cells[1]),)


def test_the_most_frequent_class_has_a_line_in_every_chart(opened):
    page = opened()
    for chart in page.locator(".chart").all():
        highest = "plots => plots.map(({ plot }) => plot.scales.y.max)"
        with_line = chart.locator(".plot").evaluate_all(highest)
        grey = pixels(chart, "#57606a")
        chart.get_by_role("button", name=MAJORITY).click()
        without = chart.locator(".plot").evaluate_all(highest)
        assert all(top >= 0.95 for top in with_line)
        assert without[1] < with_line[1]  # the errors of this panel end below
        assert all(before > after for before, after in zip(grey, pixels(chart, "#57606a"), strict=True))


def page_of(folder, *charts):
    """Write a page with some charts only."""
    figures = {chart.name: folder / f"{chart.name}.svg" for chart in charts}
    for figure in figures.values():
        figure.write_text(FIGURE)
    write_page(folder / "own.html", Report("Own", {}, [], [], charts, figures))
    return folder / "own.html"


FITS = """plots => plots.map(({ plot }) => {
    const { ctx } = plot;
    ctx.font = plot.axes[0].font[0];
    const half = ctx.measureText("100k").width / 2 / uPlot.pxRatio;
    return plot.over.offsetLeft + plot.valToPos(100000, "x") + half <= plot.width;
})"""


@pytest.mark.parametrize("width", [1280, 400])
def test_the_last_tick_is_not_cut_off(opened, tmp_path, width):
    series = line("all", 0, [0.9, 0.5, 0.1], [1.0, 1000.0, 100_000.0])
    chart = Chart("rounds", "Rounds", "rounds", "error", True, True, "band", (), (Panel("digits", (series,)),))
    page = opened(width, path=page_of(tmp_path, chart))
    assert page.locator(".plot").evaluate_all(FITS) == [True]


@pytest.mark.parametrize(("kind", "dashed"), [("band", True), ("bars", False), ("dots", False)])
def test_no_line_hides_another(opened, tmp_path, kind, dashed):
    x = [0.0, 1.0, 2.0] if kind == "dots" else [1.0, 10.0, 100.0]
    errors = [0.5, 0.4, 0.1]
    series = (line("below", 0, errors, x), line("above", 1, errors, x, dashed=dashed))
    ticks = ("a", "b", "c") if kind == "dots" else ()
    panels = (Panel("digits", series),)
    chart = Chart("two", "Two", "x", "y", not ticks, True, kind, ticks, panels, same={"above": "below"})
    page = opened(path=page_of(tmp_path, chart))
    place = page.locator("#chart-two")
    assert min(*pixels(place, COLOURS[0]), *pixels(place, COLOURS[1])) > 20
    assert place.get_by_role("button", name="above (same as below)").count() == 1
