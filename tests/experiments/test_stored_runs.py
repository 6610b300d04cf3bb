"""Runs that released versions stored are read."""

import json
import shutil
from pathlib import Path

import pytest
from fixtures.make_runs import conditions, errors, runs

import delaytron as dt
from delaytron.experiments import runs as specs
from delaytron.experiments.execute import execute
from delaytron.experiments.store import Store

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(path.parent.name for path in FIXTURES.glob("*/errors.json"))


def test_runs_of_this_version_are_stored():
    assert dt.__version__ in VERSIONS, "run tests/experiments/fixtures/make_runs.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_of_a_released_version_are_read(version, tmp_path, monkeypatch):
    monkeypatch.setattr(specs, "__version__", version)
    folder = shutil.copytree(FIXTURES / version, tmp_path / "kept")
    told = json.loads((folder / "errors.json").read_text())
    assert errors(Store(folder)) == told
    assert {path.stem for path in folder.rglob("*.parquet")} == told.keys()


def test_what_this_version_has_stored_is_not_played_again(tmp_path):
    folder = shutil.copytree(FIXTURES / dt.__version__, tmp_path / "kept")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    execute(conditions(), Store(folder))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before


def test_another_version_leaves_them_alone_and_plays_its_own(tmp_path, monkeypatch):
    folder = shutil.copytree(FIXTURES / dt.__version__, tmp_path / "kept")
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    monkeypatch.setattr(specs, "__version__", "99.0")
    assert runs(Store(folder)) == {}
    execute(conditions(), Store(folder))
    assert {path: path.read_bytes() for path in before} == before
    assert len(runs(Store(folder))) == len(before)
