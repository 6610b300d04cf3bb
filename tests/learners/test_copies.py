"""Copies by `copy` and `pickle`: they continue with the same bits, here and in another process."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_online import ROWS

import delaytron as dt
from streams import answer

SETTINGS = {
    "soba": {"matrix": "full"},
    "newtron": {"matrix": "full"},
    "confidit": {"matrix": "diagonal"},
    "rcnbf": {"estimate": True},
}

# Each pool is compiled by itself: one of weights alone, with a clock, with what a round notes, with a state of its own.
POOLED = ("banditron", "adaptive_delaytron", "gap", "newtron {'matrix': 'full'}", "rcnbf {'estimate': True}", "dilute")


def pickled(protocol):
    return lambda learner: pickle.loads(pickle.dumps(learner, protocol))  # noqa: S301 - our own


def from_read_only_memory(learner):
    """Copy as joblib does: large arrays (here: a state) are in read-only memory."""
    buffers = []

    def stays_inside(buffer):
        large = buffer.raw().nbytes >= 160
        if large:
            buffers.append(bytes(buffer))
        return not large

    content = pickle.dumps(learner, protocol=5, buffer_callback=stays_inside)
    return pickle.loads(content, buffers=buffers)  # noqa: S301


COPIES = {"pickle 2": pickled(2), "pickle 5": pickled(5), "deepcopy": copy.deepcopy, "read-only": from_read_only_memory}


def makers():
    """Return every learner, each kind of rule that its settings choose, and pools of them."""
    single = {name: lambda cls=cls, **more: cls(4, 5, seed=11, **more) for name, cls in dt.LEARNERS.items()}
    chosen = {
        f"{name} {settings}": lambda cls=dt.LEARNERS[name], settings=settings, **more: cls(
            4, 5, seed=11, **settings, **more
        )
        for name, settings in SETTINGS.items()
    }
    made = single | chosen
    pools = {f"bold {name}": lambda make=made[name], **more: dt.Bold(make(), order="fifo", **more) for name in POOLED}
    return single | chosen | pools


MAKERS = makers()


def play(learner, rows):
    """Decide on rows, answer some; the same learner does the same."""
    decisions = [learner.decide(row) for row in rows]
    for decision in decisions[::3]:
        answer(learner, decision, decision.id % 4)
    return decisions


def weights(learner):
    return [field.tobytes() for field in learner.state]


def cases():
    for name in MAKERS:
        for way in COPIES:
            yield pytest.param(name, way, id=f"{name}-{way}")


@pytest.mark.parametrize(("name", "way"), list(cases()))
def test_a_copy_continues_with_the_same_bits(name, way):
    learner = MAKERS[name]()
    play(learner, ROWS)
    again = COPIES[way](learner)
    assert type(again) is type(learner)
    assert again.rule is learner.rule
    assert repr(again) == repr(learner)
    assert weights(again) == weights(learner)
    assert play(again, ROWS[::-1]) == play(learner, ROWS[::-1])
    again.flush()
    learner.flush()
    assert weights(again) == weights(learner)
    assert again.pending == learner.pending


@pytest.mark.parametrize("settings", [{}, {"expire_after": 4, "on_expiry": "wrong"}])
@pytest.mark.parametrize("name", ["delaytron", "dilute", "bold gap", "bold dilute"])
def test_expiry_and_sparse_rows_are_copied(name, settings):
    rows = [csr_matrix(row) for row in ROWS]
    learner = MAKERS[name](**settings)
    play(learner, rows)
    again = pickled(5)(learner)
    assert play(again, rows) == play(learner, rows)
    assert weights(again) == weights(learner)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["dilute", "bold banditron", "bold dilute"])
def test_a_copy_shares_nothing_with_its_original(name, way):
    learner = MAKERS[name]()
    play(learner, ROWS)
    before = weights(learner)
    pending = learner.pending
    play(COPIES[way](learner), ROWS[::-1])
    assert (weights(learner), learner.pending) == (before, pending)


ELSEWHERE = """
import pickle, sys
import numpy as np
learners, rows = pickle.load(sys.stdin.buffer)
decisions = [[learner.decide(row) for row in rows] for learner in learners]
sys.stdout.buffer.write(pickle.dumps([[tuple(d) for d in made] for made in decisions]))
"""


def test_a_copy_in_another_process_continues_with_the_same_bits():
    names = ["banditron", "dilute", "bold banditron", "bold dilute"]
    learners = [MAKERS[name]() for name in names]
    for learner in learners:
        play(learner, ROWS)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=pickle.dumps((learners, ROWS)), capture_output=True, check=True
    )
    here = [[tuple(learner.decide(row)) for row in ROWS] for learner in learners]
    assert pickle.loads(done.stdout) == here  # noqa: S301


def test_a_pool_and_its_copy_predict_the_same_and_do_not_change():
    learner = MAKERS["bold dilute"]()
    play(learner, ROWS)
    before = weights(learner)
    assert np.array_equal(learner.predict(ROWS), pickled(5)(learner).predict(ROWS))
    assert weights(learner) == before
