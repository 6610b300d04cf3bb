"""What users may rely on changes only when it is written down."""

import inspect
import re
from difflib import unified_diff

import delaytron as dt
import public_surface
from public_surface import STORED, member_line, parameters_of, surface


def test_the_public_surface_is_the_one_that_is_written_down():
    """Else: python tests/public_surface.py, and a line in CHANGELOG.md for what goes or changes."""
    stored = STORED.read_text()
    changes = list(unified_diff(stored.splitlines(), surface().splitlines(), lineterm="", n=0))
    assert not changes, "\n".join(["run python tests/public_surface.py (docs/reference/stability.md):", *changes])


def test_every_kind_of_thing_is_listed():
    text = STORED.read_text()
    for line in (
        "python delaytron.Delaytron(n_classes, n_features, *, gamma=0.015625, eta=1.0, **common)",
        "python delaytron.Learner.decide(self, x, allowed=None)",
        "python delaytron.delays.Fixed(d)",
        "python delaytron.delays.Delay.sample(self, n_rounds, rng)",
        "command delaytron run LEARNERS --data ",
        "command delaytron datasets show",
        "http POST /v1/models/{name}/decisions",
        "format journal: 3",
        "format learner file: delaytron-learner-1",
    ):
        assert line in text, line
    assert len(text.splitlines()) == len(set(text.splitlines()))
    assert not re.search(r"0x[0-9a-f]{6}|/(home|root|work)/", text)


def test_a_changed_parameter_changes_its_line():
    def before(a, b=1): ...
    def after(a, b=2): ...

    assert parameters_of(before) == "(a, b=1)"
    assert parameters_of(after) == "(a, b=2)"
    assert parameters_of(lambda x=sorted: x) == "(x=sorted)"


def test_members_are_those_of_the_package():
    class Public:
        __module__ = "delaytron.example"

        def shown(self, x=1): ...
        def _hidden(self): ...
        @property
        def number(self): ...

    members = [name for name in dir(Public) if public_surface.is_public(Public, name)]
    assert [member_line("P", Public, name) for name in members] == ["python P.number", "python P.shown(self, x=1)"]
    assert inspect.isclass(Public)


def test_what_a_base_class_lists_is_not_repeated():
    lines = STORED.read_text()
    assert "python delaytron.Learner.save(self, path)\n" in lines
    assert "python delaytron.Delaytron.gamma\n" in lines
    for repeated in ("Delaytron.save", "Delaytron.n_classes", "Decision.label", "Learner.restore", "Gone.status"):
        assert f".{repeated}" not in lines, repeated


def test_completion_offers_what_is_public():
    assert dir(dt) == sorted(dt.__all__)
