"""Learners as files."""

import os

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import delaytron as dt
from test_online import ROWS, everything, trained


@pytest.mark.parametrize("cls", dt.LEARNERS.values())
@pytest.mark.parametrize("sparse", [False, True])
def test_a_loaded_learner_is_the_saved_one_to_the_bit(cls, sparse, tmp_path):
    learner = trained(cls, [csr_matrix(row) for row in ROWS] if sparse else ROWS)
    learner.save(tmp_path / "a.safetensors")
    again = dt.load(tmp_path / "a.safetensors")
    assert everything(again) == everything(learner)
    assert type(again) is cls
    assert again.pending == learner.pending
    assert [again.decide(row) for row in ROWS] == [learner.decide(row) for row in ROWS]


def test_a_fresh_learner_can_be_saved(tmp_path):
    learner = dt.Delaytron(3, 2, seed=1)
    learner.save(tmp_path / "fresh")
    assert everything(dt.load(str(tmp_path / "fresh"))) == everything(learner)


def test_a_file_holds_no_code(tmp_path):
    trained().save(tmp_path / "a")
    assert b"pickle" not in (tmp_path / "a").read_bytes()
    from safetensors.numpy import load_file

    assert load_file(tmp_path / "a")["state.W"].shape == (4, 5)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    learner = trained()
    learner.save(path)
    before = path.read_bytes()
    learner.decide(ROWS[0])
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        learner.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def other_format(path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(1)}, path, {"format": "pt"})


def wrong_shape(path):
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path) | {"state.W": np.zeros((2, 2))}, path, metadata)


def nothing_there(path):
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (truncated, "is not a safetensors file"),
        (other_format, "is not a learner: its format is 'pt'"),
        (wrong_shape, r"state.W has shape \(2, 2\), expected \(4, 5\)"),
        (nothing_there, "there is no file"),
    ],
)
def test_a_file_that_is_no_learner_is_refused_in_one_line(harm, message, tmp_path):
    path = tmp_path / "a"
    trained().save(path)
    harm(path)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.load(path)
    assert "\n" not in str(caught.value)
