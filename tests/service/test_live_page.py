"""The live page in a real browser, with a real service and a real stream of decisions and late answers behind it."""

import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from time import monotonic

import httpx
import pytest
from live_stream import WORDS, Stream
from test_live_connections import listen, received

from changing import CALM, CLASSES, OPTIONS, served
from delaytron.service.live import pages
from delaytron.service.live.pages import MOST_WATCHERS
from services import Service, serving

pytestmark = pytest.mark.xdist_group("live")  # one browser for all

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>\'"&{{7*7}}'
KEY = "a-client-key-of-some-length"
SOON = 20_000  # milliseconds
REFUSED = re.compile(r"Failed to load resource: (net::ERR_|the server responded with a status of (401|404|429|503))")


@pytest.fixture
def opened(browser):
    """Return a function that opens a page; at the end no error and no request elsewhere must have been seen."""
    contexts, problems, requests, hosts, allowed = [], [], [], set(), []

    def open_page(url, width=1280, refusals=False, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(SOON)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        hosts.add(url.split("/")[2])
        allowed.append(REFUSED) if refusals else None
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in problems if not any(pattern.match(text) for pattern in allowed)] == []
    assert {url.split("/")[2] for url in requests} <= hosts


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with a stream that has ended, and a model whose names are hostile."""
    with serving(tmp_path_factory.mktemp("live")) as running:
        running.make("router", classes=list(WORDS))
        with Stream(running) as stream:
            while (
                len(stream.waiting) < 5 or stream.service.client.get("/v1/models/router/stats").json()["answered"] < 40
            ):
                stream.stopping.wait(0.1)
        running.make("hostile", classes=[HOSTILE, "__proto__", 7])
        decided = running.decide({HOSTILE: 1.5, "text": HOSTILE}, "hostile", id=HOSTILE).json()
        assert running.feedback(decided["id"], "hostile", reward=0.25).status_code == 200
        running.decide({HOSTILE: 2.5, "text": HOSTILE}, "hostile", id=f"2 {HOSTILE}")
        yield running


def stats_of(service, name="router"):
    return service.client.get(f"/v1/models/{name}/stats").json()


def percent(share):
    if share is None:
        return "\u2013"
    return f"{Decimal(100 * share).quantize(Decimal('0.1'), ROUND_HALF_UP)}\u202f%"


def rate(number):
    places = "1" if number >= 100 else "0.1" if number >= 10 else "0.01"
    return str(Decimal(number).quantize(Decimal(places), ROUND_HALF_UP))


def live(page):
    page.wait_for_selector("#status[data-kind=live]")
    return page


def figure(page, name):
    return page.locator(f"#{name} .figure").inner_text()


def note(page, name):
    return page.locator(f"#{name} .note").inner_text()


def wait_for(page, condition, seconds=SOON / 1000):
    """Wait until a condition is true; return its value."""
    until = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < until, "it did not come"
        page.wait_for_timeout(50)
    return found


def shown(page):
    """Return the figures that the page shows, in the form of `expected`."""
    return {
        "accuracy": figure(page, "accuracy"),
        "range": note(page, "accuracy").split(" with")[0],
        "open": figure(page, "open"),
        "rate": figure(page, "rate"),
        "decisions": note(page, "rate"),
        "explored": figure(page, "exploration"),
        "answered": figure(page, "answered"),
        "classes": sorted(page.locator("#classes tbody tr").evaluate_all(CELLS)),
    }


CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.firstChild.textContent))"


def expected(stats):
    accuracy = stats["accuracy"]
    rows = [
        [str(one["name"]), f"{one['played']:,}", f"{one['answered']:,}", percent(one["mean_reward"])]
        for one in stats["classes"]
    ]
    return {
        "accuracy": percent(accuracy["mean"]),
        "range": f"{percent(accuracy['low'])} to {percent(accuracy['high'])}",
        "open": f"{stats['open']:,}",
        "rate": rate(stats["decisions_per_second"]),
        "decisions": f"{stats['decisions']:,} decisions in all",
        "explored": percent(stats["exploration"]),
        "answered": f"{stats['answered']:,}",
        "classes": sorted(rows),
    }


def test_the_figures_are_those_of_stats(service, opened):
    page = live(opened(f"{service.url}/#router"))
    wait_for(page, lambda: shown(page) == expected(stats_of(service)))
    stats = stats_of(service)
    assert stats["accuracy"]["low"] < stats["accuracy"]["mean"] < stats["accuracy"]["high"]
    age = (
        float(re.fullmatch(r"oldest: ([\d.]+)\u202fs", note(page, "open"))[1]) if stats["oldest_seconds"] < 55 else None
    )
    assert age is None or abs(age - stats["oldest_seconds"]) < 5
    bars = page.locator("#waits-chart rect").evaluate_all(
        "bars => bars.filter(bar => +bar.getAttribute('height')).length"
    )
    assert bars == len(stats["waits"])
    recent = service.client.get("/v1/models/router/decisions").json()["decisions"]
    assert page.locator("#recent .id").all_inner_texts() == [one["id"] for one in recent]
    assert page.locator("#recent .class").all_inner_texts() == [one["label"] for one in recent]
    outcomes = [one["status"] if one["value"] is None else "right" if one["value"] else "wrong" for one in recent]
    assert page.locator("#recent .outcome").all_inner_texts() == outcomes


def test_a_stream_is_followed_without_a_reload(service, opened):
    page = live(opened(f"{service.url}/#router"))
    page.evaluate("window.mark = 1")
    before = figure(page, "accuracy"), note(page, "rate")
    with Stream(service, seed=2):
        points = page.locator("#accuracy-chart .line")
        wait_for(page, lambda: points.get_attribute("d").count("L") >= 4)
        assert note(page, "rate") != before[1]
        page.wait_for_timeout(2000)
    wait_for(page, lambda: shown(page) == expected(stats_of(service)))
    assert page.evaluate("window.mark") == 1
    label = page.locator("#accuracy-chart svg").get_attribute("aria-label")
    assert label == f"Accuracy: {percent(stats_of(service)['accuracy']['mean'])}, between " + " and ".join(
        percent(stats_of(service)["accuracy"][end]) for end in ("low", "high")
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["router", "hostile"])
def test_it_fits_in_light_and_dark_and_on_any_width(service, opened, width, scheme, name):
    page = live(opened(f"{service.url}/#{name}", width=width, color_scheme=scheme))
    page.locator("#recent li button").first.click()
    page.wait_for_selector(".bars")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(
        "[...document.querySelectorAll('body *')].every(part => part.getBoundingClientRect().right <= innerWidth + 1)"
    )
    assert (luminance(page, "body", "background-color") < 0.2) == (scheme == "dark")
    for part in (".tiles dt", "#facts", "#recent .time", ".figure", "figcaption output"):
        assert contrast(luminance(page, part, "color"), luminance(page, ".card", "background-color")) >= 4.5, part
    labels = page.locator("svg[role=img]").evaluate_all(
        "charts => charts.map(chart => chart.getAttribute('aria-label'))"
    )
    assert [label.split(":")[0] for label in labels] == [
        "Accuracy",
        "Decisions per second",
        "Open decisions",
        "How long answers took",
    ]


def luminance(page, selector, name):
    """Return the relative luminance of a colour, by the formula of WCAG."""
    text = page.locator(selector).first.evaluate("(part, name) => getComputedStyle(part).getPropertyValue(name)", name)
    parts = [float(number) / 255 for number in re.findall(r"[\d.]+", text)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("width", [1280, 400])
def test_challengers_are_counted_and_marked_when_they_come(tmp_path, opened, width):
    with serving(tmp_path) as running:
        running.make("changing", classes=CLASSES, **OPTIONS)
        served(running, "changing", "broken", 0, CALM)
        page = live(opened(f"{running.url}/#changing", width=width, refusals=True))
        wait_for(page, lambda: note(page, "drift") == "none was born yet")
        assert figure(page, "drift") == "none"
        marks = page.locator("#accuracy-chart text.event")
        assert marks.count() == 0
        served(running, "changing", "broken", CALM, CALM + 200)
        drift = stats_of(running, "changing")["drift"]
        assert drift["born"] > 0
        counts = ", ".join(f"{drift[what]} {what}" for what in ("born", "won", "dropped"))
        wait_for(page, lambda: re.fullmatch(rf"{counts}; last change \d\d:\d\d:\d\d", note(page, "drift")))
        assert figure(page, "drift") == ("learning" if drift["challenger"] else "none")
        wait_for(page, marks.count)
        assert "challenger born" in marks.first.text_content()
        assert page.locator("#accuracy-chart line.event").count() == marks.count()
        ends = marks.evaluate_all(
            "marks => marks.flatMap(mark => [mark.getBoundingClientRect().left, mark.getBoundingClientRect().right])"
        )
        edge = page.locator("#accuracy-chart").bounding_box()
        assert edge["x"] <= min(ends) <= max(ends) <= edge["x"] + edge["width"]
        assert contrast(luminance(page, "text.event", "fill"), luminance(page, ".card", "background-color")) >= 4.5
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_learner_without_challengers_has_no_figure_for_them(tmp_path, opened):
    with serving(tmp_path) as running:
        running.make("steady", learner="bandit_logit", features=2)
        running.decide([1.0, 2.0], "steady")
        page = live(opened(f"{running.url}/#steady", refusals=True))
        wait_for(page, lambda: figure(page, "open") == "1")
        assert page.locator("#drift").is_hidden()


def test_hostile_names_are_shown_as_text(service, opened):
    page = live(opened(f"{service.url}/#hostile"))
    assert HOSTILE in page.locator("#classes .name").all_text_contents()
    assert HOSTILE in page.locator("#recent .id").all_text_contents()
    page.locator("#recent li button").last.click()
    page.wait_for_selector(".bars")
    names = page.locator(".bars .name").all_text_contents()
    assert HOSTILE in names
    assert "__proto__" in names
    assert page.locator("#recent .outcome").last.inner_text() == "reward 0.25"
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 1  # its own mark
    assert page.locator("script").count() == 1


def test_a_decision_is_explained_as_the_service_explains_it(service, opened):
    page = live(opened(f"{service.url}/#router"))
    row = page.locator("#recent li button").nth(3)
    chosen = row.locator(".id").inner_text()
    row.click()
    page.wait_for_selector(".bars")
    assert row.get_attribute("aria-current") == "true"
    decision = service.client.get(f"/v1/models/router/decisions/{chosen}").json()
    summary = page.locator(".summary").inner_text()
    assert summary.startswith(f"{decision['label']} was chosen at ")
    assert percent(decision["prob"]) in summary
    explained = service.client.get(f"/v1/models/router/explanations/{chosen}").json()
    scores, parts = bars(page)
    assert scores == sorted(explained["scores"].items(), key=lambda item: -item[1])
    assert parts == parts_of(explained, decision["label"])
    other = next(label for label in explained["scores"] if label != decision["label"])
    page.get_by_role("button", name=re.compile(f"^{other}")).last.focus()
    page.keyboard.press("Enter")
    assert bars(page)[1] == parts_of(explained, other)
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def bars(page):
    """Return both lists of bars: names and numbers, as accurate as they are shown."""
    lists = page.locator(".bars").evaluate_all(
        "lists => lists.map(list => [...list.querySelectorAll('.name')].map(name => "
        "[name.textContent, name.closest('li').querySelector('.number').textContent]))"
    )
    return [
        [(name, pytest.approx(float(text.replace("\u2212", "-")), rel=0.06, abs=0.0006)) for name, text in one]
        for one in lists
    ]


def parts_of(explained, label):
    parts = {name: added[label] for name, added in explained["features"].items()}
    parts["(constant)"] = explained["constant"][label]
    return sorted(parts.items(), key=lambda item: -abs(item[1]))


def test_any_decision_can_be_asked_for_by_its_id(service, opened):
    page = live(opened(f"{service.url}/#router", refusals=True))
    oldest = service.decide({"prompt": "hello"}, "router", id="of mine/1").json()
    page.get_by_label("Id of a decision").fill("of mine/1")
    page.keyboard.press("Enter")
    wait_for(page, lambda: page.locator(".summary").inner_text().startswith(f"{oldest['label']} was chosen"))
    wait_for(page, lambda: "Outcome: open" in page.locator(".summary").inner_text())
    service.feedback("of mine/1", "router", correct=False)
    wait_for(page, lambda: "Outcome: wrong" in page.locator(".summary").inner_text())  # by an event
    page.get_by_label("Id of a decision").fill("never issued")
    page.keyboard.press("Enter")
    wait_for(page, lambda: "was never issued" in page.locator(".summary").inner_text())
    assert page.locator(".bars").count() == 0


def test_the_list_of_decisions_is_not_updated_while_it_is_hovered_or_paused(service, opened):
    page = live(opened(f"{service.url}/#router"))
    rows = page.locator("#recent .id")

    def decide_and_wait():
        decisions = note(page, "rate")
        decided = service.decide({"prompt": "hello"}, "router").json()["id"]
        wait_for(page, lambda: note(page, "rate") != decisions)
        return decided

    page.locator("#recent li button").nth(2).hover()
    before = rows.all_inner_texts()
    decide_and_wait()
    assert rows.all_inner_texts() == before
    page.mouse.move(5, 5)
    wait_for(page, lambda: rows.all_inner_texts() != before)
    page.get_by_role("button", name="Pause").click()
    before = rows.all_inner_texts()
    newest = decide_and_wait()
    assert rows.all_inner_texts() == before
    page.get_by_role("button", name="Go on").click()
    assert rows.first.inner_text() == newest


def test_after_a_tap_the_list_of_decisions_goes_on(service, opened):
    page = live(opened(f"{service.url}/#router", width=400, has_touch=True))
    page.locator("#recent li button").nth(2).tap()
    page.wait_for_selector(".bars")
    newest = service.decide({"prompt": "hello"}, "router").json()["id"]
    wait_for(page, lambda: page.locator("#recent .id").first.inner_text() == newest)


def test_charts_are_read_with_the_arrow_keys_and_the_mouse(service, opened):
    page = live(opened(f"{service.url}/#router"))
    output = page.locator("#waits-chart output")
    summary = wait_for(page, output.inner_text)
    assert "within" in summary
    page.locator("#waits-chart svg").focus()
    page.keyboard.press("ArrowRight")
    assert re.search(r" to .*: \d+ answers?, ", output.inner_text())
    assert output.get_attribute("aria-live") == "polite"
    page.keyboard.press("Escape")
    assert output.inner_text() == summary
    page.locator("#open-chart svg").hover()
    assert re.fullmatch(r"\d\d:\d\d:\d\d · [\d,]+ open", page.locator("#open-chart output").inner_text())


def test_another_model_is_chosen(service, opened):
    page = live(opened(service.url))
    chooser = page.get_by_label("Model")
    assert chooser.locator("option").all_inner_texts() == ["hostile", "router"]
    assert chooser.input_value() == "hostile"
    chooser.select_option("router")
    wait_for(page, lambda: shown(page) == expected(stats_of(service)))
    assert page.url.endswith("#router")
    assert page.title().startswith("router")
    page.go_back()
    wait_for(page, lambda: shown(page) == expected(stats_of(service, "hostile")))


def test_an_empty_service_says_how_to_begin(tmp_path, opened):
    with serving(tmp_path) as running:
        page = opened(running.url, refusals=True)  # the service ends before the page
        calls = page.locator("#empty code")
        wait_for(page, lambda: f"curl -X POST {running.url}/v1/models -d " in calls.inner_text())
        make = re.search(r"-d '(.*)'", calls.inner_text())[1]
        assert running.client.post("/v1/models", content=make).status_code == 201
        wait_for(page, lambda: "/v1/models/router/decisions" in calls.inner_text())  # by itself
        decide, answer = re.findall(r"curl -X POST (\S+) -d '(.*)'", calls.inner_text())
        decided = httpx.post(decide[0], content=decide[1])
        assert decided.status_code == 200
        wait_for(page, lambda: page.locator("#figures").is_visible())
        assert figure(page, "open") == "1"
        assert (figure(page, "accuracy"), note(page, "accuracy")) == (
            percent(None),
            f"{percent(0)} to {percent(1)} with the open ones",
        )
        assert httpx.post(answer[0], content=answer[1].replace("ID", decided.json()["id"])).status_code == 200
        wait_for(page, lambda: figure(page, "accuracy") == percent(1))
        assert note(page, "accuracy") == "nothing is open"
        assert page.locator("#model b").inner_text() == "router"  # one needs no chooser
        assert not page.get_by_label("Model").is_visible()


@pytest.mark.parametrize(("name", "features"), [("three", 3), ("twenty", 20), ("named", ["age", "it's"])])
def test_the_call_that_is_shown_fits_the_features_of_the_model(shop, opened, name, features):
    shop.make(name, features=features)
    calls = opened(f"{shop.url}/#{name}").locator("#empty code")
    body = re.search(r"decisions -d '(.*)'\n", wait_for(calls.page, calls.inner_text) + "\n")[1].replace("'\\''", "'")
    assert shop.client.post(f"/v1/models/{name}/decisions", content=body).status_code == 200


def test_a_key_is_asked_for_and_kept_in_this_tab_only(tmp_path, opened):
    with Keyed(tmp_path) as url:
        page = opened(url, refusals=True)
        field = page.get_by_label("API key")
        assert field.get_attribute("type") == "password"
        for wrong, said in (("not-a-key-at-all-here", "not known here"), ("schlüssel mit ü", "ASCII")):
            field.fill(wrong)
            page.keyboard.press("Enter")
            wait_for(page, lambda said=said: said in page.locator("#key .problem").inner_text())
        field.fill(KEY)
        page.get_by_role("button", name="Show the figures").click()
        live(page)
        assert "Bearer $KEY" in page.locator("#empty code").inner_text()
        assert KEY not in page.content()
        page.reload()
        live(page)
        tab = page.context.new_page()
        tab.goto(url)
        tab.get_by_label("API key").wait_for()
        page.get_by_role("button", name="Forget the key").click()
        field.wait_for()
        page.reload()
        field.wait_for()
        assert page.evaluate("sessionStorage.length + localStorage.length") == 0
        assert page.context.cookies() == []


class Keyed:
    """A service that needs a key, with a model."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        environment = {"DELAYTRON_CLIENT_KEY": KEY, "DELAYTRON_ADMIN_KEY": f"admin-{KEY}"}
        self.service = Service(self.folder, environment=environment)
        self.service.client.headers["Authorization"] = f"Bearer admin-{KEY}"
        self.service.make()
        return self.service.url

    def __exit__(self, *_):
        self.service.kill()


def test_it_reconnects_after_a_kill(tmp_path, opened):
    with serving(tmp_path) as running:
        running.make("router", classes=list(WORDS), features="hashed")
        running.decide({"prompt": "hello"}, "router")
        page = live(opened(running.url, refusals=True))
        wait_for(page, lambda: figure(page, "open") == "1")
        page.evaluate("window.mark = 1")
        page.wait_for_timeout(1500)
        running.process.kill()
        running.process.wait()
        status = page.locator("#status")
        wait_for(page, lambda: re.match(r"Disconnected since \d\d:\d\d:\d\d; trying again", status.inner_text()))
        since = status.inner_text()
        page.wait_for_timeout(2500)
        assert status.inner_text() == since
        with serving(tmp_path, "--port", running.url.rsplit(":", 1)[1]) as again:
            again.decide({"prompt": "hello"}, "router")
            live(page)
            wait_for(page, lambda: figure(page, "open") == "2")
            gaps = page.locator("#open-chart .line")
            wait_for(page, lambda: gaps.get_attribute("d").count("M") == 2)  # nothing is known of the time between
            assert page.evaluate("window.mark") == 1


def test_sigterm_with_open_pages_stops_at_once(tmp_path, opened):
    with serving(tmp_path) as running:
        running.make("router", classes=list(WORDS))
        running.decide({"prompt": "hello"}, "router")
        open_pages = [live(opened(running.url, refusals=True)) for _ in range(3)]
        began = monotonic()
        assert running.stop() == 0
        assert monotonic() - began < 10, "open pages must not hold up the service, which waits for 30 seconds"
        for page in open_pages:
            wait_for(page, lambda page=page: "Disconnected" in page.locator("#status").inner_text())


def test_a_page_above_the_limit_shows_the_error(service, opened):
    connections = [listen(service, "router") for _ in range(MOST_WATCHERS)]
    for connection in connections:
        received(connection, b"event: stats")
    page = opened(f"{service.url}/#router", refusals=True)
    wait_for(page, lambda: f"{MOST_WATCHERS} live pages are open already" in page.locator("#status").inner_text())
    for connection in connections:
        connection.close()
    live(page)


FILL = """async (many) => {
    const { Series } = await import("/live/series.js");
    const series = new Series(100);
    const largest = [];
    for (let i = 0; i < many; i++) {
        if (i % 1000 === 999) series.cut(i);
        series.add({ t: i + 0.5, open: i });
        if (i % 1000 === 0) largest.push(series.points.length);
    }
    return [Math.max(...largest), series.points, series.step];
}"""


def test_the_page_keeps_some_points_however_long_it_is_open(service, opened):
    page = live(opened(f"{service.url}/#router"))
    most, points, step = page.evaluate(FILL, 200_000)  # more than two days
    assert 50 <= len(points) <= most <= 100
    assert 2000 <= step <= 4096
    times = [point["t"] for point in points]
    assert times == sorted(set(times))
    assert points[-1]["open"] == 199_999
    assert all(abs(point["open"] - point["t"]) <= 2 for point in points)
    assert times[0] <= step


def test_what_did_not_change_is_held_and_not_drawn_as_a_slope(service, opened):
    page = live(opened(f"{service.url}/#router"))
    points = page.evaluate("""async () => {
        const { Series } = await import("/live/series.js");
        const series = new Series();
        series.add({ t: 0, open: 1 });
        series.add({ t: 100, open: 9 });
        series.cut(150);
        series.add({ t: 200, open: 5 });
        return series.points.map(({ t, open, after }) => [t, open, after]);
    }""")
    assert points == [[0, 1, False], [99, 1, False], [100, 9, False], [149, 9, False], [150, 9, False], [200, 5, True]]


def test_nothing_moves_for_those_who_do_not_want_it(service, opened):
    page = live(opened(f"{service.url}/#router", reduced_motion="reduce"))
    moving = (
        "[...document.querySelectorAll('*')].filter(part => ['', '::before', '::after'].some("
        "which => parseFloat(getComputedStyle(part, which).transitionDuration) > 0)).length"
    )
    assert page.evaluate(moving) == 0


# The files


def test_the_page_and_its_files_may_do_nothing_but_what_they_need(service):
    files = [path.name for path in pages.FOLDER.iterdir() if path.name != pages.PAGE]
    for address in ("/", *(f"/live/{name}" for name in files)):
        reply = service.client.get(address)
        assert reply.status_code == 200
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    text = service.client.get("/").text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|https?://", text)
    assert re.findall(r"<script[^>]*>(.*?)</script>", text) == [""]
    assert service.client.post("/").status_code == 405
    assert service.client.get("/live/../pages.py").status_code == 404
    assert service.client.get("/live/page.html").status_code == 404


def test_every_file_is_used():
    files = {path.name: path.read_text() for path in pages.FOLDER.iterdir()}
    named = {name for text in files.values() for name in re.findall(r"(?:live/|\./)([\w.]+)", text)}
    assert named == set(files) - {pages.PAGE}
    assert "innerHTML" not in "".join(files.values())
    assert Path(pages.__file__).parent in pages.FOLDER.parents  # they are package data
