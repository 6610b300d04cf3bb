"""Learners as files."""

import json
import os

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_online import ROWS, everything, trained

import delaytron as dt
from delaytron.files.tensors import pack_tensors, read_tensors
from streams import answer


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
    content = (tmp_path / "a").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])  # safetensors: a JSON header, then plain numbers
    assert header["state.W"]["shape"] == [4, 5]
    assert (
        max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        == len(content) - 8 - length
    )


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


def changed(**tensors):
    """Replace tensors of the file, and seal it again: no accident, but somebody's work."""

    def harm(path):
        texts, old = read_tensors(path)
        path.write_bytes(b"".join(pack_tensors(old | tensors, texts)))

    return harm


wrong_shape = changed(**{"state.W": np.zeros((2, 2))})


def with_header(header):
    def harm(path):
        texts, tensors = read_tensors(path)
        path.write_bytes(b"".join(pack_tensors(tensors, texts | {"header": header})))

    return harm


N_OPEN = len(trained().ledger.plays)
HARMS = {
    "open.greedy": np.full(N_OPEN, 10**12),
    "open.label": np.full(N_OPEN, 4),
    "open.prob": np.full(N_OPEN, 2.0),
    "open.values": np.zeros(3),
    "open.starts": np.arange(N_OPEN + 1),
    "answers": np.full(41, 7, np.int32),
    "arrived": np.array([99]),
    "arrived.kind": np.array([7]),
    "open.round": np.full(N_OPEN, 0.5),
    "open.extra": np.zeros((N_OPEN, 2)),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_damaged_file_cannot_reach_the_compiled_update(name, tmp_path):
    path = tmp_path / "a"
    trained().save(path)
    changed(**{name: HARMS[name]})(path)
    with pytest.raises(dt.InvalidInput, match=r"is inconsistent|must be a column of") as caught:
        dt.load(path)
    assert "\n" not in str(caught.value)


def test_a_sparse_file_with_wrong_indices_is_refused(tmp_path):
    path = tmp_path / "a"
    learner = trained(rows=[csr_matrix(row) for row in ROWS])
    learner.save(path)
    n_values = sum(play.x.values.size for play in map(learner.ledger.play, learner.ledger.plays))
    changed(**{"open.indices": np.full(n_values, 5, np.uint32)})(path)
    with pytest.raises(dt.InvalidInput, match=r"open.indices is inconsistent"):
        dt.load(path)


def test_indices_in_a_file_of_dense_rows_are_not_used(tmp_path):
    learner = trained()
    learner.save(tmp_path / "a")
    n_values = sum(play.x.values.size for play in map(learner.ledger.play, learner.ledger.plays))
    changed(**{"open.indices": np.full(n_values, 2**31, np.uint32)})(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert all(play.x.indices is None for play in map(again.ledger.play, again.ledger.plays))


@pytest.mark.parametrize("extra", [np.full((1, 2), 7.0), np.full((1, 2), np.nan), np.full((1, 2), 0.5)])
def test_a_noted_label_that_is_none_is_refused(extra, tmp_path):
    learner = dt.Gap(3, 2, seed=0)
    learner.decide([1.0, 0.0])
    learner.save(tmp_path / "a")
    changed(**{"open.extra": extra})(tmp_path / "a")
    with pytest.raises(dt.InvalidInput, match=r"open\.extra is inconsistent"):
        dt.load(tmp_path / "a")


@pytest.mark.parametrize("clock", [[2**62, 63, 0], [-1, 3, 0]])
def test_a_clock_that_no_run_can_reach_does_no_harm(clock, tmp_path):
    learner = dt.AdaptiveDelaytron(3, 2, seed=0)
    learner.decide([1.0, 0.0])
    learner.save(tmp_path / "a")
    changed(**{"state.clock": np.array(clock)})(tmp_path / "a")
    if clock[0] < 0:
        with pytest.raises(dt.InvalidInput, match="below 0"):
            dt.load(tmp_path / "a")
    else:
        assert dt.load(tmp_path / "a").decide([1.0, 0.0]).id == 2


def overflowed(cls, **settings):
    """Return a learner that was shown rows at the ends of what they may be, with open decisions."""
    learner = cls(3, 2, seed=1, **settings)
    for x in ([1e40, 1e-160], [1e20, -1e50], [1e-50, 1e-200], [1e50, 1e50], [-1e50, 1e40]) * 4:
        decision = learner.decide(x)
        if decision.id % 3:
            answer(learner, decision, decision.id % 2)
    return learner


def with_infinite_numbers(learner):
    """Let every number of a state that can be infinite be so, and the open rounds have noted it."""
    for field in learner.state:
        if field.dtype == np.float64:
            field.flat[::2] = np.nan
            field.flat[1::2] = -np.inf
    numbers = [i for i, kind in enumerate(learner.rule.extras) if kind == "number"]
    for number, play in learner.ledger.plays.items():
        play.extra[numbers] = np.nan
        learner.ledger.plays[number] = play._replace(prob=np.nan)
    return learner


@pytest.mark.parametrize("cls", dt.LEARNERS.values())
@pytest.mark.parametrize("harm", [lambda learner: learner, with_infinite_numbers])
@pytest.mark.filterwarnings("ignore:.*was saved with numbers that are not finite")
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
def test_whatever_became_of_a_learner_it_is_saved_with_its_open_decisions(cls, harm, tmp_path):
    learner = harm(overflowed(cls))
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    for round_ in range(2):
        for one, path in ((learner, tmp_path / "a"), (again, tmp_path / "b")):
            one.save(path)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        for one in (learner, again):
            one.feedback(3 * round_ + 15, **{one.feedback_type: 1 if one.feedback_type == "label" else True})
            one.decide([1.0, 2.0])


def test_a_file_with_infinite_weights_is_loaded_with_a_warning(tmp_path):
    trained().save(tmp_path / "a")
    changed(**{"state.W": np.full((4, 5), np.nan)})(tmp_path / "a")
    with pytest.warns(UserWarning, match=r"a was saved with numbers that are not finite in state\.W: rows were too"):
        again = dt.load(tmp_path / "a")
    assert again.pending == trained().pending


def test_a_numpy_number_of_rounds_is_saved(tmp_path):
    dt.Delaytron(3, 2, expire_after=np.int64(5)).save(tmp_path / "a")
    assert dt.load(tmp_path / "a").expire_after == 5


def test_a_learner_that_could_not_be_loaded_is_not_saved(tmp_path):
    class Own(dt.Delaytron):
        pass

    with pytest.raises(dt.InvalidInput, match=r"only learners of dt\.LEARNERS can be saved, got Own; add it"):
        Own(3, 2).save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def nothing_there(path):
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (truncated, "is not a safetensors file"),
        (other_format, "is not a learner: its format is 'pt'"),
        (wrong_shape, r"state.W has shape \(2, 2\) of float64, expected \(4, 5\) of float64"),
        (nothing_there, "there is no file"),
        (with_header("{"), "is not a learner that this version can read"),
        (with_header("[]"), "is not a learner that this version can read"),
        (with_header("[" * 30_000), "is not a learner that this version can read: (maximum recursion|Expecting)"),
        (with_header('{"a":' * 8_000), "is not a learner that this version can read: (maximum recursion|Expecting)"),
    ],
)
def test_a_file_that_is_no_learner_is_refused_in_one_line(harm, message, tmp_path):
    path = tmp_path / "a"
    trained().save(path)
    harm(path)
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        dt.load(path)
    assert "\n" not in str(caught.value)
