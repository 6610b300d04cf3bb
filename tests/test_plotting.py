"""Figures as files: the same figure always has the same bytes, and is written whole or not at all."""

import errno
import os
import subprocess
import sys

import pytest

import delaytron as dt
from delaytron.plotting import draw_band, name_errors, save_figure, style_of

FORMS = ["svg", "png", "pdf"]
DRAWING = """
import sys
from test_plotting import figure
from delaytron.plotting import save_figure
save_figure(figure(), sys.argv[1])
"""


def figure():
    """Return a figure with everything that gets an id in an SVG: markers, clips, hatches, text."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(4, 3))
    panel = drawn.subplots()
    panel.set_yscale("log")
    for place in range(3):
        colour = style_of(place)["color"]
        draw_band(panel, [1, 2, 3], [0.3, 0.2, 0.1 + place], [0.1] * 3, [0.5] * 3, color=colour, marker="o")
        panel.plot([1, 2], [0.4, 0.3], label=f"line {place}", **style_of(place, hollow=True))
    panel.bar([1, 2], [0.2, 0.3], hatch="//")
    name_errors(panel)
    panel.legend()
    return drawn


@pytest.mark.parametrize("ending", FORMS)
def test_the_same_figure_has_the_same_bytes(ending, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    one = figure()
    paths = [tmp_path / f"{i}.{ending}" for i in range(4)]
    save_figure(one, paths[0])
    save_figure(one, paths[1])
    save_figure(figure(), paths[2])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")  # another day
    save_figure(figure(), paths[3])
    assert len({path.read_bytes() for path in paths}) == 1


@pytest.mark.parametrize("ending", FORMS)
def test_another_process_draws_the_same_bytes(ending, tmp_path):
    paths = [tmp_path / f"{i}.{ending}" for i in range(2)]
    save_figure(figure(), paths[0])
    folder = os.path.dirname(__file__)
    found = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", DRAWING, paths[1]], check=True, env=os.environ | {"PYTHONPATH": found})
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("ending", FORMS)
def test_a_figure_contains_no_date(ending, tmp_path):
    save_figure(figure(), tmp_path / f"a.{ending}")
    content = (tmp_path / f"a.{ending}").read_bytes()
    assert not any(word in content for word in (b"dc:date", b"CreationDate", b"tIME", b"Creation Time"))


def test_saving_does_not_change_the_settings_of_matplotlib(tmp_path):
    from matplotlib import rcParams

    before = dict(rcParams)
    save_figure(figure(), tmp_path / "a.svg")
    assert dict(rcParams) == before


def test_a_name_without_ending_becomes_a_png(tmp_path):
    save_figure(figure(), tmp_path / "a")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a.svg"
    path.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(dt.InvalidInput, match=r"cannot save the figure as .*a\.svg': .*No space left on device"):
            save_figure(figure(), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]


@pytest.mark.parametrize("name", ["a.unknown", "nowhere/a.png"])
def test_a_figure_that_cannot_be_written_is_one_line(name, tmp_path):
    with pytest.raises(dt.InvalidInput, match="cannot save the figure as") as caught:
        save_figure(figure(), tmp_path / name)
    assert "\n" not in str(caught.value)


def test_no_two_of_many_lines_look_alike():
    styles = [tuple(style_of(place).values()) for place in range(28)]
    assert len(set(styles)) == 28
