"""The oldest and the newest Numba that are allowed compute the same bits as this one, and all lower bounds are true."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import bits
import pytest
from cases import HERE, longer_cases, run, worked_cases, write
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = HERE.parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENDS = ["oldest", "newest"]
LOCKED_EXTRAS = ["plot", "tables", "datasets", "client"]


def python_of(end):
    """Return the interpreter beside that Numba; CI builds both, so there a missing one is an error."""
    python = Path(sys.prefix) / f"numba-{end}" / "bin" / "python"
    if not python.exists() and not os.environ.get("CI"):
        pytest.skip(f"there is no {python}: `make numbas` builds it")
    return python


def pinned(end):
    (version,) = Requirement(PROJECT["dependency-groups"][f"numba-{end}"][0]).specifier
    return Version(version.version)


@pytest.mark.parametrize("end", ENDS)
def test_errors_and_weights_are_the_same_to_the_bit(end, tmp_path):
    python = python_of(end)
    cases = worked_cases()[::3] + longer_cases()  # each is compiled by each version, cold
    kept = python.parents[1] / "compiled"  # a second run of the test compiles nothing
    done = run(python, ["-W", "error", HERE / "bits.py", write(cases, tmp_path / "cases.json")], kept)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    assert Version(theirs["numba"]) == pinned(end)
    for case, played in zip(cases, theirs["played"], strict=True):
        assert played == bits.play(case), f"{case['learner']} with {case['settings']}"


def test_all_that_is_installed_works_with_the_oldest():
    """With the newest it does by all other tests: `dev` has the same one, see below."""
    python = python_of("oldest")
    done = run(python, [ROOT / "tests" / "smoke.py", "experiments"], python.parents[1] / "compiled")
    assert done.returncode == 0, done.stdout + done.stderr


def lower_bounds():
    """Yield the packages of the oldest environment, each with the lowest version that is allowed."""
    project = PROJECT["project"]
    extras = [line for extra in LOCKED_EXTRAS for line in project["optional-dependencies"][extra]]
    for requirement in map(Requirement, project["dependencies"] + extras):
        (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
        yield requirement.name, bound


def test_the_oldest_environment_has_every_lower_bound():
    locked = (ROOT / "requirements" / "numba-oldest.txt").read_text()
    found = dict(re.findall(r"^([\w-]+)==(\S+)", locked, re.MULTILINE))
    for name, bound in lower_bounds():
        assert Version(found[name]) == Version(bound), f"{name}: run make lock"


def test_the_range_that_is_allowed_is_the_one_that_is_tested():
    (allowed,) = (r.specifier for r in map(Requirement, PROJECT["project"]["dependencies"]) if r.name == "numba")
    oldest, newest = map(pinned, ENDS)
    assert str(allowed) == f"<{newest.major}.{newest.minor + 1},>={oldest}"
    for name, version in (("numba-oldest", oldest), ("numba-newest", newest), ("dev", newest)):
        locked = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert re.findall(r"^numba==(\S+)", locked, re.MULTILINE) == [str(version)]
