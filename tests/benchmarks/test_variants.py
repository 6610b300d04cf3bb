"""The variants of the default learner: that each can be made, and how they are compared."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import variant_runs
import variants
from variant_list import VARIANTS
from variant_runs import Store, Task, Variant, copy_sources, random_cosines, replace_once

TASK = Task("digits", "1", 10, 1, 2)


def test_every_variant_can_be_made_and_no_two_are_the_same(tmp_path):
    digests = [copy_sources(variant, tmp_path / str(i)) for i, variant in enumerate(VARIANTS)]
    assert len(set(digests)) == len(VARIANTS)


@pytest.mark.parametrize("variant", [one for one in VARIANTS if one.patch], ids=lambda one: one.name)
def test_what_a_patch_makes_is_python(tmp_path, variant):
    copy_sources(variant, tmp_path)
    for path in (tmp_path / "src/delaytron/learners").glob("*.py"):
        assert ast.parse(path.read_text()).body


def test_every_patch_belongs_to_a_variant():
    assert {path.stem for path in variant_runs.PATCHES.glob("*")} == {one.patch for one in VARIANTS if one.patch}


@pytest.mark.parametrize("old", ["c", "a"])
def test_a_text_that_does_not_occur_exactly_once_cannot_be_replaced(tmp_path, old):
    path = tmp_path / "source.py"
    path.write_text("a b a")
    with pytest.raises(ValueError, match="not one"):
        replace_once(path, old, "d")


def test_a_store_knows_what_was_played_with_the_same_sources_only(tmp_path):
    path = tmp_path / "folder" / "store.jsonl"
    Store(path).put("a", "1", TASK, [0.5, 0.25])
    with path.open("a") as file:
        file.write('\n{"variant": "a", "err')
    Store(path).put("b", "1", TASK, [0.125])
    store = Store(path)
    assert store.get("a", "1", TASK) == [0.5, 0.25]
    assert store.get("b", "1", TASK) == [0.125]
    assert store.get("a", "2", TASK) is None


def test_a_variant_plays_and_is_not_played_again(tmp_path, monkeypatch):
    store = Store(tmp_path / "store.jsonl")
    variant = Variant("steps", "a", parameters={"lr": 0.5})
    errors = variant_runs.play_variant(variant, [TASK], store)
    assert len(errors[TASK]) == TASK.runs
    monkeypatch.setattr(variant_runs, "_play_in_process", None)
    assert variant_runs.play_variant(variant, [TASK], store) == errors


def test_differences_are_paired():
    mean = variants.difference([0.2, 0.3, 0.4], [0.1, 0.2, 0.3])
    assert mean.value == pytest.approx(1000)
    assert mean.margin == pytest.approx(0, abs=1e-6)
    assert variants.verdict(mean) == 1
    assert variants.verdict(variants.difference([0.2, 0.3], [0.3, 0.2])) == 0


def test_random_features_have_the_products_of_a_gaussian_kernel():
    X = np.random.default_rng(0).normal(size=(40, 3))
    features = random_cosines(X, 20_000, 1.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    squared = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    assert np.allclose(2 * features @ features.T / 20_000, np.exp(-squared / (4 * Z.shape[1])), atol=0.05)
