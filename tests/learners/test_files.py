"""Learners as files."""

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from fixtures.make_learners import go_on
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from test_online import ROWS, trained

import delaytron as dt
from delaytron.answers import Status
from delaytron.files.tensors import pack_tensors, read_tensors
from delaytron.kernels.loop import CORRECTION_EVENT, DROP_EVENT, EXPIRY_EVENT
from delaytron.learners.book import Book, Kept
from forms import everything
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
    """Return a function that replaces tensors of a file and gives it a valid digest: crafted, not damaged."""

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


N_OPEN = len(trained().book.kept)
ROUNDS = trained().book.rounds  # one answer, to round 2, waits to be applied


def settled(status, values, level=6):
    return np.frombuffer(zlib.compress(bytes(status) + np.array(values, np.float64).tobytes(), level), np.uint8)


HARMS = {
    "open.greedy": np.full(N_OPEN, 10**12),
    "open.label": np.full(N_OPEN, 4),
    "open.prob": np.full(N_OPEN, 2.0),
    "open.values": np.zeros(3),
    "open.starts": np.arange(N_OPEN + 1),
    "open.round": np.full(N_OPEN, 0.5),
    "open.extra": np.zeros((N_OPEN, 2)),
    "open.round twice": np.full(N_OPEN, 2),
    "open.round descending": np.arange(N_OPEN)[::-1] + 1,
    "open.round not played": np.arange(N_OPEN) + ROUNDS,
    "open.round of 0": np.arange(N_OPEN),
    "rounds": np.array([ROUNDS]),
    "rounds fewer than settled": np.array([ROUNDS, ROUNDS + 1]),
    "rounds of another count": np.array([ROUNDS, 3]),
    "rounds below 0": np.array([ROUNDS, -1]),
    "rounds too many": np.array([2**62, 0]),
    "rounds of huge memory": np.array([2**50, 2**50]),
    "rounds as floats": np.array([float(ROUNDS), 0.0]),
    "ended.round": np.array([99]),
    "ended.round settled": np.array([1]),
    "ended.round twice": np.array([2, 2]),
    "ended.round none": np.empty(0, np.int64),
    "ended.status": np.array([7]),
    "ended.status open": np.array([Status.OPEN]),
    "ended.status expired": np.array([Status.EXPIRED]),
    "ended.status cancelled": np.array([Status.CANCELLED]),
    "ended.value": np.array([7.0]),
    "ended.value nan": np.array([np.nan]),
    "ended.value below": np.array([-0.5]),
    "ended.value infinite": np.array([np.inf]),
    "ended.event": np.array([7]),
    "ended.event none": np.array([-1]),
    "ended.event expired": np.array([EXPIRY_EVENT]),
    "ended.event revised": np.array([CORRECTION_EVENT]),
    "ended.event dropped": np.array([DROP_EVENT]),
    "settled": np.zeros(9, np.uint8),
    "settled nothing": np.empty(0, np.uint8),
    "settled shorter": settled([1] * 3, [1.0] * 3),
    "settled longer": settled([1] * 60, [1.0] * 60),
    "settled truncated": settled([1] * 40, [1.0] * 40)[:-6],
    "settled without an answer": settled([1] * 40, [np.nan] * 40),
    "settled status": settled([4] * 40, [1.0] * 40),
    "settled value": settled([1] * 40, [7.0] * 40),
    "settled infinite": settled([1] * 40, [np.inf] * 40),
    "settled kind": np.zeros(9, np.int8),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_cannot_reach_the_compiled_update(harm, tmp_path):
    path = tmp_path / "a"
    trained().save(path)
    assert read_tensors(path)[1]["ended.round"].tolist() == [2]
    changed(**{harm.split()[0]: HARMS[harm]})(path)
    with pytest.raises(dt.InvalidInput, match=r"is inconsistent|must be a column of|not compressed") as caught:
        dt.load(path)
    assert "\n" not in str(caught.value)


def small_expiring(path):
    """Save a learner with every kind of decision: open, answered, expired and applied, expired, corrected, settled."""
    learner = dt.Bold(dt.Banditron(3, 2, gamma=0.5, seed=0), expire_after=3, on_expiry="wrong")
    for t in range(9):
        learner.decide([1.0, t])
    learner.feedback(2, correct=True)
    learner.feedback(8, correct=True)
    learner.end(Book.expire, 7)
    learner.end(Book.cancel, 9)
    learner.save(path)
    return read_tensors(path)


BOOK = ("rounds", "ended.", "open.", "settled")


# A probability of NaN or 0 is loaded: weights that overflowed play with such. Loading it, or what it makes, warns.
@pytest.mark.filterwarnings("ignore:.* was saved with numbers that are not finite")
@given(data=st.data())
@settings(max_examples=150)
def test_every_crafted_change_is_refused_or_harmless(data, tmp_path_factory):
    """Change numbers of one tensor of the Book: what is loaded decides, learns, expires and is saved."""
    path = tmp_path_factory.mktemp("crafted") / "a"
    texts, tensors = small_expiring(path)
    name = data.draw(st.sampled_from(sorted(name for name in tensors if name.startswith(BOOK))))
    tensor = tensors[name].copy().ravel()
    odd = [0, 1, 2, 3, 7, -1, 8, 9, 10, 255, 2**31, 2**53, 2**62, -(2**63)]
    odd += [] if tensor.dtype.kind in "iu" else [0.5, -0.5, np.nan, np.inf]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, max(0, tensor.size - 1)))
        with np.errstate(all="ignore"):
            tensor[place : place + 1] = np.array([data.draw(st.sampled_from(odd))]).astype(tensor.dtype)
    if data.draw(st.integers(0, 4)) == 0:
        tensor = tensor[: data.draw(st.integers(0, tensor.size))]
    shaped = tensor.reshape(tensors[name].shape) if tensor.size == tensors[name].size else tensor
    path.write_bytes(b"".join(pack_tensors(tensors | {name: shaped}, texts)))
    try:
        learner = dt.load(path)
    except dt.InvalidInput:
        return
    for number in range(1, 11):
        with suppress(dt.UnknownDecision, dt.ConflictingFeedback):
            learner.feedback(number, correct=number % 2 == 0)
    for t in range(8):
        learner.decide([1.0, t])
    learner.save(path)
    assert dt.load(path).pending == learner.pending


def test_a_sparse_file_with_wrong_indices_is_refused(tmp_path):
    path = tmp_path / "a"
    learner = trained(rows=[csr_matrix(row) for row in ROWS])
    learner.save(path)
    n_values = sum(play.x.values.size for play in map(learner.book.play, learner.book.kept))
    changed(**{"open.indices": np.full(n_values, 5, np.uint32)})(path)
    with pytest.raises(dt.InvalidInput, match=r"open.indices is inconsistent"):
        dt.load(path)


def test_indices_in_a_file_of_dense_rows_are_not_used(tmp_path):
    learner = trained()
    learner.save(tmp_path / "a")
    n_values = sum(play.x.values.size for play in map(learner.book.play, learner.book.kept))
    changed(**{"open.indices": np.full(n_values, 2**31, np.uint32)})(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert all(play.x.indices is None for play in map(again.book.play, again.book.kept))


@pytest.mark.parametrize("extra", [np.full((1, 2), 7.0), np.full((1, 2), np.nan), np.full((1, 2), 0.5)])
def test_a_noted_number_that_is_no_label_is_refused(extra, tmp_path):
    learner = dt.Gap(3, 2, seed=0)
    learner.decide([1.0, 0.0])
    learner.save(tmp_path / "a")
    changed(**{"open.extra": extra})(tmp_path / "a")
    with pytest.raises(dt.InvalidInput, match=r"open\.extra is inconsistent"):
        dt.load(tmp_path / "a")


@pytest.mark.parametrize("clock", [[2**62, 63, 0], [-1, 3, 0]])
def test_a_clock_that_no_run_can_reach_is_refused_or_harmless(clock, tmp_path):
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
    """Set all numbers of the state to NaN or infinity, and those that open rounds noted to NaN."""
    for field in learner.state:
        if field.dtype == np.float64:
            field.flat[::2] = np.nan
            field.flat[1::2] = -np.inf
    numbers = [i for i, kind in enumerate(learner.rule.extras) if kind == "number"]
    for number in learner.book.kept:
        play = learner.book.play(number)
        play.extra[numbers] = np.nan
        learner.book.replace(Kept(play._replace(prob=np.nan)))
    return learner


@pytest.mark.parametrize("cls", dt.LEARNERS.values())
@pytest.mark.parametrize("harm", [lambda learner: learner, with_infinite_numbers])
@pytest.mark.filterwarnings("ignore:.*was saved with numbers that are not finite")
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
def test_a_learner_with_extreme_or_infinite_numbers_is_saved_with_its_open_decisions(cls, harm, tmp_path):
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


def removed(path):
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (truncated, "is not a safetensors file"),
        (other_format, "is not a file of this package: it has no SHA-256 digest"),
        (wrong_shape, r"state.W has shape \(2, 2\) of float64, expected \(4, 5\) of float64"),
        (removed, "there is no file"),
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


# Learners that were saved by this version or an older one are loaded and continue with the same bits.


FIXTURES = Path(__file__).parent / "fixtures"
NEXT = {path.parent.name: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*/next.json"))}
CASES = [
    pytest.param(version, name, marks=pytest.mark.xdist_group(name))
    for version, played in NEXT.items()
    for name in played
]


def test_every_learner_of_this_version_is_stored():
    kept = {dt.load(path).name for path in (FIXTURES / dt.__version__).glob("*.safetensors")}
    assert kept >= dt.LEARNERS.keys(), "run tests/learners/fixtures/make_learners.py"


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_stored_learner_continues_with_the_same_bits(version, name):
    learner = dt.load(FIXTURES / version / f"{name}.safetensors")
    assert go_on(learner, "sparse" in name) == NEXT[version][name]
