"""Waits that the caller ends, expired or cancelled: before and after that is applied, saved, and interrupted."""

import numpy as np
import pytest
from test_interruptions import LEARNERS, ROWS, answer_of, interrupted, knowledge, play

import delaytron as dt
from delaytron.kernels.loop import DROPPED, EXPIRED
from delaytron.learners.ledger import CANCELLED, LAPSED, OPEN
from streams import by_learner

AS_WRONG = ["expiring", "pool", "logit"]
DROPS = ["banditron", "averaged", "noisy", "dropping", "label", "standardizing"]
ENDS = {"cancelled": (DROPPED, CANCELLED), "expired": (DROPPED, LAPSED), "wrong": (EXPIRED, LAPSED)}
ENDED = 11


def after_twelve_rounds(name):
    """Return a learner with twelve rounds played, of which 11 and 12 are open, and an answer to 10 that waits."""
    learner = play(LEARNERS[name](), 9)
    for t in range(10, 13):
        learner.decide(ROWS[t])
    learner.feedback(10, **answer_of(learner, 10))
    assert learner.ledger.answers[ENDED - 1] == OPEN
    return learner


def end(learner, how):
    learner._end_wait(ENDED, *ENDS[how])


CASES = [
    pytest.param(name, how, id=f"{name}-{how}", marks=pytest.mark.xdist_group(name))
    for name in LEARNERS
    for how in ("cancelled", "wrong" if name in AS_WRONG else "expired")
]
every_end = pytest.mark.parametrize(("name", "how"), CASES)


@every_end
def test_an_ended_wait_is_no_longer_pending_and_says_what_became_of_it(name, how):
    learner = after_twelve_rounds(name)
    waiting = learner.pending
    end(learner, how)
    assert learner.pending == waiting - 1
    end(learner, how)  # again: nothing new
    assert learner.pending == waiting - 1
    learner.flush()
    assert learner.ledger.ended == {}
    assert (ENDED in learner.ledger.plays) == (how == "wrong")
    told = learner.feedback(ENDED, **answer_of(learner, ENDED))
    assert told == {"cancelled": "cancelled", "expired": "expired", "wrong": "accepted"}[how]
    assert learner.pending == learner.ledger.answers.tolist().count(OPEN)


@pytest.mark.parametrize("name", by_learner(["banditron", "averaged", "standardizing", "label"]))
@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_dropped_wait_teaches_nothing(name, how):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, how)
    for one in (learner, other):
        one.flush()
    assert knowledge(learner)[:2] == knowledge(other)[:2]


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
def test_a_wait_that_ends_as_wrong_is_a_wrong(name):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, "wrong")
    other.feedback(ENDED, correct=False)
    for one in (learner, other):
        one.flush()
    assert knowledge(learner)[:2] == knowledge(other)[:2]


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
@pytest.mark.parametrize("correct", [False, True])
def test_an_answer_before_the_end_is_applied_came_in_time(name, correct):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, "wrong")
    for one in (learner, other):
        assert one.feedback(ENDED, correct=correct) == "accepted"
    assert knowledge(learner) == knowledge(other)
    assert knowledge(play_without(learner)) == knowledge(play_without(other))


def test_a_right_after_it_is_corrected_exactly():
    learner, other = after_twelve_rounds("expiring"), after_twelve_rounds("expiring")
    end(learner, "wrong")
    learner.flush()
    for one in (learner, other):
        assert one.feedback(ENDED, correct=True) == "accepted"
        one.flush()
    np.testing.assert_allclose(learner.weights, other.weights, rtol=1e-12, atol=1e-12)
    assert ENDED not in learner.ledger.plays


@every_end
def test_it_is_saved_before_it_is_applied(name, how, tmp_path):
    learner = after_twelve_rounds(name)
    end(learner, how)
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert again.ledger.ended == learner.ledger.ended == {ENDED: ENDS[how][1]}
    assert again.ledger.arrived == learner.ledger.arrived
    assert knowledge(again) == knowledge(learner)
    assert knowledge(play(again, 30)) == knowledge(play(learner, 30))


@every_end
def test_it_is_saved_after_it_was_applied(name, how, tmp_path):
    learner = after_twelve_rounds(name)
    end(learner, how)
    learner.decide(ROWS[13])
    learner.save(tmp_path / "a")
    again = dt.load(tmp_path / "a")
    assert knowledge(again) == knowledge(learner)
    assert again.feedback(ENDED, **answer_of(again, ENDED)) == learner.feedback(ENDED, **answer_of(learner, ENDED))
    assert knowledge(play(again, 30)) == knowledge(play(learner, 30))


def decide(learner):
    """Make the 13th decision; the caller may not know that it was made."""
    if learner.ledger.rounds < 13:
        learner.decide(ROWS[13])


def flush(learner):
    learner.flush()


def goes_on_like(expected, prepare, actions, tmp_path):
    """Interrupt the first action at every line; done again, all must be as if nothing had happened, live and saved."""
    line = 1
    while interrupted(learner := prepare(), actions[0], line):
        learner.save(tmp_path / "model")
        for one in (learner, dt.load(tmp_path / "model")):
            for action in actions:
                action(one)
            assert one.pending == one.ledger.answers.tolist().count(OPEN)
            assert knowledge(play(one, 30)) == expected, f"interrupted at line {line}"
        line += 1
    return line - 1


@every_end
def test_an_end_interrupted_at_any_line_and_done_again_is_the_end(name, how, tmp_path):
    def prepare():
        return after_twelve_rounds(name)

    def act(learner):
        end(learner, how)

    expected = prepare()
    act(expected)
    assert goes_on_like(knowledge(play(expected, 30)), prepare, [act], tmp_path) > 5


@every_end
@pytest.mark.parametrize("action", [decide, flush])
def test_what_applies_an_end_may_be_interrupted_at_any_line(name, how, action, tmp_path):
    def prepare():
        learner = after_twelve_rounds(name)
        end(learner, how)
        return learner

    expected = prepare()
    action(expected)
    assert goes_on_like(knowledge(play(expected, 30)), prepare, [action], tmp_path) > 10


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
def test_an_answer_after_the_end_may_be_interrupted_at_any_line(name, tmp_path):
    def prepare():
        learner = after_twelve_rounds(name)
        end(learner, "wrong")
        return learner

    def act(learner):
        assert learner.feedback(ENDED, correct=True) in ("accepted", "duplicate")

    expected = prepare()
    act(expected)
    assert goes_on_like(knowledge(play_without(expected)), prepare, [act, skip_answer], tmp_path) > 5


def play_without(learner):
    """Play on; the answer that `play` would give to the ended round has been given."""
    skip_answer(learner)
    return play(learner, 30)


def skip_answer(learner):
    """Play to where `play` would answer the ended round (17 = 11 + 6) in another way, and past it."""
    while learner.ledger.rounds < 17:
        now = learner.ledger.rounds + 1
        for number in range(10, now):
            if number != ENDED and number + (1, 2, 3, 6)[number % 4] == now:
                learner.feedback(number, **answer_of(learner, number))
        learner.decide(ROWS[now])


def test_a_mark_of_an_end_that_never_took_place_is_forgotten():
    """An end interrupted at its first step and given up: what expires later is taken back as any expiry is."""

    def cancel(learner):
        end(learner, "cancelled")

    line = 1
    while interrupted(learner := after_twelve_rounds("expiring"), cancel, line):
        learner.predict(ROWS[:1])
        learner.flush()
        assert set(learner.ledger.ended) <= set(learner.ledger.arrived)
        line += 1
    assert line > 5
