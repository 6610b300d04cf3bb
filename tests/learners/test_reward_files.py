"""Rewards in files, and files of before there were rewards."""

import numpy as np
import pytest
from test_online import everything
from test_rewards import AFFINE, SOFT

import delaytron as dt
from delaytron.files.tensors import pack_tensors, read_tensors
from forms import ROWS, forms, taught


@pytest.mark.parametrize("form", forms(AFFINE + SOFT))
def test_rewards_are_saved_applied_or_not(form, tmp_path):
    learner = taught(form)
    learner.feedback(40, reward=0.3)
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert everything(again) == everything(learner)
    for t, x in enumerate(ROWS[40:]):
        assert learner.decide(x) == again.decide(x)
        for one in (learner, again):
            assert one.feedback(40, reward=0.3) == "duplicate"
            assert one.feedback(41 + t, reward=t / 20) == "accepted"
    assert everything(again) == everything(learner)


@pytest.mark.parametrize("form", forms(["delaytron", "exp3 eta", "ova_logistic"]))
def test_a_file_of_before_there_were_rewards_is_read(form, tmp_path):
    """It has the answers as integers of 32 bits, and knows nothing of ties."""
    learner = taught(form, expire_after=5, on_expiry="wrong")
    learner.feedback(40, correct=True)
    learner.save(tmp_path / "new")
    texts, tensors = read_tensors(tmp_path / "new")
    assert tensors["answers"].dtype == np.float64
    assert '"ties": null, ' in texts["header"] or ', "ties": null' in texts["header"]
    texts["header"] = texts["header"].replace(', "ties": null', "").replace('"ties": null, ', "")
    old = tensors | {"answers": tensors["answers"].astype(np.int32)}
    (tmp_path / "old").write_bytes(b"".join(pack_tensors(old, texts)))
    again = dt.load(tmp_path / "old")
    assert everything(again) == everything(learner)
    assert again.decide(ROWS[41]) == learner.decide(ROWS[41])
    assert again.feedback(41, reward=0.5) == "accepted"
    again.save(tmp_path / "newer")
    assert dt.load(tmp_path / "newer").ledger.answers[40] == 0.5


def test_answers_of_another_kind_are_refused(tmp_path):
    taught("delaytron").save(tmp_path / "a")
    texts, tensors = read_tensors(tmp_path / "a")
    for kind in (np.float32, np.int64):
        changed = tensors | {"answers": tensors["answers"].astype(kind)}
        (tmp_path / "a").write_bytes(b"".join(pack_tensors(changed, texts)))
        with pytest.raises(dt.InvalidInput, match="answers must be a column of float64"):
            dt.load(tmp_path / "a")
    changed = tensors | {"answers": tensors["answers"] - 0.5}
    (tmp_path / "a").write_bytes(b"".join(pack_tensors(changed, texts)))
    with pytest.raises(dt.InvalidInput, match="answers is inconsistent"):
        dt.load(tmp_path / "a")
