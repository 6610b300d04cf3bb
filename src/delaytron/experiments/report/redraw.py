"""Figures drawn only where they would not be as they are: drawing takes longer than everything else of a report."""

import inspect
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import msgspec

from delaytron import plotting
from delaytron._version import __version__
from delaytron.experiments.report import figures
from delaytron.experiments.report.model import Chart
from delaytron.files.atomic import replace_file


class Drawn(msgspec.Struct, frozen=True):
    """What was drawn: a digest of the charts and of how they are drawn, and one of each file."""

    charts: str
    files: dict[str, str]


def draw_if_changed(charts: Sequence[Chart], folder: Path) -> None:
    """Draw charts into `folder`/figures if they, their files or the way to draw them are others than last time."""
    note = folder / "figures.json"
    digest = _charts_digest(charts)
    before = _read_note(note)
    if before is not None and before == Drawn(digest, _files_digests(folder / "figures")):
        return
    note.unlink(missing_ok=True)
    figures.draw_figures(charts, folder / "figures")
    drawn = Drawn(digest, _files_digests(folder / "figures"))
    replace_file(note, msgspec.json.encode(drawn) + b"\n")


def _charts_digest(charts: Sequence[Chart]) -> str:
    how = [_source(figures), _source(plotting), version("matplotlib")]
    return sha256(msgspec.json.encode([charts, how], enc_hook=str)).hexdigest()


def _source(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except OSError:  # installed without it
        return __version__


def _files_digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in _files(folder)}


def _files(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in figures.ENDINGS)


def _read_note(path: Path) -> Drawn | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Drawn)
    except (OSError, msgspec.DecodeError):
        return None
