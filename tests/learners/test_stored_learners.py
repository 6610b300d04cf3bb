"""Learners that released versions saved are loaded, and go on to the bit."""

import json
from pathlib import Path

import pytest
from fixtures.make_learners import go_on

import delaytron as dt

FIXTURES = Path(__file__).parent / "fixtures"
NEXT = {path.parent.name: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*/next.json"))}
CASES = [
    pytest.param(version, name, marks=pytest.mark.xdist_group(name)) for version, told in NEXT.items() for name in told
]


def test_every_learner_of_this_version_is_stored():
    kept = {dt.load(path).name for path in (FIXTURES / dt.__version__).glob("*.safetensors")}
    assert kept >= dt.LEARNERS.keys(), "run tests/learners/fixtures/make_learners.py"


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_learner_of_a_released_version_goes_on_to_the_bit(version, name):
    learner = dt.load(FIXTURES / version / f"{name}.safetensors")
    assert go_on(learner, "sparse" in name) == NEXT[version][name]
