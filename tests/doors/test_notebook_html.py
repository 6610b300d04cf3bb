"""HTML for notebooks: well-formed, escaped and small for any names of users."""

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import delaytron as dt
from changing import CALM, CLASSES, FALSE, OPTIONS, answered
from delaytron import notebooks
from delaytron.datasets.dataset import Dataset
from delaytron.notebooks import Curve, curve_figure, facts, page, table, text_of
from delaytron.simulation.results import half_widths, mean_of

EMPTY = {"line", "polyline", "polygon"}  # written as <line/>
ALLOWED = {"div", "table", "thead", "tbody", "tr", "th", "td", "svg", "title", "text"} | EMPTY
ATTRIBUTES = {
    *("style", "colspan", "xmlns", "role", "width", "height", "viewbox", "points", "fill", "fill-opacity", "opacity"),
    *("stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "text-anchor", "x", "y", "x1", "x2", "y1", "y2"),
}
MOST = 40_000  # characters
HOSTILE = "</td><script>alert('x')</script><img src=x onerror=\"y\">&amp;\x00\ud800\u202e"


class Reader(HTMLParser):
    """Reads a page strictly: every element is known, closed, and in its place."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.counts = [], [], {}

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        assert not any("url(" in (value or "") for _, value in attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in EMPTY
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(html):
    """Return the texts of a page, and the number of each of its elements."""
    assert len(html) < MOST
    html.encode()  # a lone surrogate could not be sent to a browser
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.texts, reader.counts


def data_of(K=3, name="data", class_name=str):
    y = np.arange(2 * K) % K
    return Dataset(np.ones((2 * K, 2)), y, name, tuple(map(class_name, range(K))), source=name, licence=name)


def result_of(runs=3, **parameters):
    settings = parameters or {"gamma": 0.1}
    return dt.simulate("delaytron", dt.datasets.load("digits"), rounds=200, runs=runs, **settings)


def test_a_learner_shows_its_settings_and_open_rounds():
    learner = dt.Delaytron(3, 2, gamma=0.25, seed=7, expire_after=9)
    learner.decide([1.0, 2.0])
    texts, counts = read(learner._repr_html_())
    assert texts[0] == "Delaytron"
    shown = dict(zip(texts[1::2], texts[2::2], strict=True))
    assert shown["rounds played"] == shown["waiting for an answer"] == "1"
    assert (shown["gamma"], shown["n_classes"], shown["seed"], shown["expire_after"]) == ("0.25", "3", "7", "9")
    assert "standardize" not in shown
    assert counts["table"] == 1
    assert "Banditron(" in "".join(read(dt.Bold(dt.Banditron(3, 2))._repr_html_())[0])


def test_decisions_show_all_they_have():
    learner = dt.Banditron(3, 1, seed=0)
    decision = learner.decide([1.0])
    texts, _ = read(decision._repr_html_())
    assert texts[::2] == ["Decision", *map(str, (1, 1, decision.label, decision.greedy, f"{decision.prob:.4g}"))]
    assert texts[1::2] == list(decision._fields)
    assert repr(decision).startswith("Decision(id=1,")
    of_set = dt.Dilute(3, 1, m=2, seed=0).decide([1.0])
    assert str(of_set.labels) in read(of_set._repr_html_())[0]


def test_a_data_set_shows_its_classes():
    texts, _ = read(dt.datasets.load("digits")._repr_html_())
    assert texts[0] == "digits"
    assert texts[-3:] == ["9", "180", "10.0%"]
    assert "1797" in texts


def test_a_model_shows_its_classes_and_works_when_it_is_closed(tmp_path):
    with dt.Model(["a", "b"], journal=tmp_path / "m.db", seed=0) as model:
        model.feedback(model.decide({"x": 1}, allowed=["b"]).id, reward=0.5)
        model.decide({"x": 1}, allowed=["a"])
        model.retire_class("b")
    texts, counts = read(model._repr_html_())
    assert texts[-8:] == ["a", "1", "0", "-", "b (retired)", "1", "1", "0.5"]
    assert texts[texts.index("decisions") + 1] == "2"
    assert texts[texts.index("accuracy with the open ones") + 1] == "0.25 to 0.75"
    assert counts["table"] == 2


def test_a_model_shows_its_challengers():
    model = dt.Model(CLASSES, **OPTIONS)
    texts, _ = read(model._repr_html_())
    assert texts[texts.index("challengers") + 1] == "0 born, 0 won, 0 dropped"
    answered(model, "broken", CALM + FALSE)
    born, won, dropped = model.stats().drift[1:4]
    texts, _ = read(model._repr_html_())
    assert texts[texts.index("challengers") + 1] == f"one learns, {born} born, {won} won, {dropped} dropped"
    texts, _ = read(dt.Model(CLASSES, learner="bandit_logit")._repr_html_())
    assert "challengers" not in texts


def test_a_result_shows_the_best_setting_all_settings_and_a_curve():
    result = result_of(gamma=[0.05, 0.3])
    texts, counts = read(result._repr_html_())
    assert (counts["svg"], counts["polyline"], counts["polygon"], counts["table"]) == (1, 1, 1, 2)
    best = result.best()
    assert texts[texts.index("best setting") + 1] == f"gamma={best.parameters[0]['gamma']}"
    assert texts[texts.index("error") + 1].startswith(f"{best.final_error.mean():.4f} ± ")
    assert {"gamma=0.05", "gamma=0.3"} <= set(texts)


def test_a_single_run_and_a_stored_result_can_be_shown():
    texts, counts = read(result_of(runs=1)._repr_html_())
    assert counts["table"] == 1
    assert "±" not in "".join(texts)


def test_intervals_are_those_of_the_mean():
    rates = np.random.default_rng(0).random((5, 4))
    assert_allclose(half_widths(rates), [mean_of(column).margin for column in rates.T])
    assert np.isnan(half_widths(rates[:1])).all()


@given(st.text(max_size=200))
def test_any_text_is_escaped_and_can_be_read_again(text):
    texts, _ = read(page(text, facts({text: text}), table((text,), [(text,)], 1)))
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    wanted = plain if len(plain) <= notebooks.LONGEST else plain[: notebooks.LONGEST - 1] + "…"
    assert "".join(texts) == wanted * 5


def test_hostile_names_are_only_text():
    data = data_of(name=HOSTILE, class_name=lambda k: f"{HOSTILE}{k}")
    result = dt.simulate("banditron", data, rounds=5, seed=0)
    model = dt.Model(["a", "<script>alert(1)</script>"], features=["<b>", "b\N{RIGHT-TO-LEFT OVERRIDE}"])
    for shown in (data, result, model, dt.Decision(HOSTILE, 1, HOSTILE, HOSTILE, 0.5)):
        html = shown._repr_html_()
        read(html)
        assert "<script" not in html
        assert "<img" not in html


def test_many_classes_and_long_names_stay_small():
    data = data_of(K=1000, name="n" * 10_000, class_name=lambda k: "<&" * 5000 + str(k))
    texts, counts = read(data._repr_html_())
    assert texts[-1] == "… and 980 more"
    assert counts["tr"] == 4 + 2 + 1 + 20 + 1
    model = dt.Model([f"{k}" + "x" * 190 for k in range(1000)], features=[f"{k}" + "f" * 100 for k in range(1000)])
    assert read(model._repr_html_())[0][-1] == "… and 980 more"
    many = result_of(runs=1, gamma=np.linspace(0.01, 0.5, 60).tolist())
    assert read(many._repr_html_())[0][-1] == "… and 40 more"
    assert len(read(facts({str(i): "x" * 10**5 for i in range(10**4)}))[0]) == 2 * notebooks.MOST_FACTS + 1


numbers = st.floats(0, 1)
points = st.lists(st.tuples(st.integers(1, 10**9), numbers, st.one_of(numbers, st.just(math.nan))), max_size=300)


@given(points, st.none() | numbers)
def test_curves_stay_within_their_figure(points, level):
    rounds = sorted(t for t, _, _ in points)
    figure = curve_figure(Curve("<error>", rounds, [v for _, v, _ in points], [m for _, _, m in points]), level)
    if not points:
        assert figure == ""
        return
    read(figure)
    for places in re.findall(r'points="([^"]*)"', figure):
        pairs = [tuple(map(float, pair.split(","))) for pair in places.split()]
        assert len(pairs) <= 2 * notebooks.MOST_POINTS
        assert all(0 <= x <= notebooks.WIDTH and 0 <= y <= notebooks.HEIGHT for x, y in pairs)


def test_a_curve_is_drawn_where_its_numbers_are():
    figure = curve_figure(Curve("error", [1, 10, 100], [1.0, 0.5, 0.0], [0.0, 0.25, math.nan]), level=0.5)
    left, right = notebooks.LEFT, notebooks.WIDTH - notebooks.RIGHT
    top, bottom = notebooks.TOP, notebooks.HEIGHT - notebooks.BOTTOM
    middle = ((left + right) / 2, (top + bottom) / 2)
    line, band = (
        [tuple(map(float, pair.split(","))) for pair in re.search(rf'<{kind} points="([^"]*)"', figure)[1].split()]
        for kind in ("polyline", "polygon")
    )
    assert line == [(left, top), middle, (right, bottom)]
    quarter = (bottom - top) / 4
    assert band[1] == (middle[0], middle[1] - quarter)
    assert band[4] == (middle[0], middle[1] + quarter)
    assert f'y1="{middle[1]}" y2="{middle[1]}"' in figure


def test_the_last_point_is_always_drawn():
    n = 10 * notebooks.MOST_POINTS + 3
    figure = curve_figure(Curve("error", list(range(1, n + 1)), [0.5] * n, [0.0] * n))
    assert re.search(rf"{notebooks.WIDTH - notebooks.RIGHT}\.0,", figure)


@pytest.mark.parametrize(
    ("value", "text"), [(0.123456, "0.1235"), (10**7, "10000000"), (None, "None"), ("a\nb", "a\ufffdb")]
)
def test_values_as_text(value, text):
    assert text_of(value) == text
