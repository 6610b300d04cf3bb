"""Waits that the caller ends, expired or cancelled: before and after that is applied, saved, and interrupted."""

import numpy as np
import pytest
from test_interruptions import LEARNERS, ROWS, answer_of, goes_on_like, interrupted, knowledge, play

import delaytron as dt
from delaytron.answers import Known, Status
from delaytron.learners.book import NO_EVENT, Book
from streams import by_learner, known_rounds

AS_WRONG = ["expiring", "releasing", "pool", "logit"]
DROPS = ["banditron", "delaytron", "dropping", "label", "standardizing"]
ENDS = {"cancelled": Status.CANCELLED, "expired": Status.EXPIRED, "wrong": Status.EXPIRED}
ENDED = 11


def after_twelve_rounds(name):
    """Return a learner with twelve rounds played, of which 11 and 12 are open, and an answer to 10 that waits."""
    learner = play(LEARNERS[name](), 9)
    for t in range(10, 13):
        learner.decide(ROWS[t])
    learner.feedback(10, **answer_of(learner, 10))
    assert learner.book.is_open(ENDED)
    return learner


def end(learner, how):
    """End the wait for a decision; the caller may not know that it was ended."""
    if learner.book.is_open(ENDED):
        learner.end(Book.cancel if how == "cancelled" else Book.expire, ENDED)


CASES = [
    pytest.param(name, how, id=f"{name}-{how}", marks=pytest.mark.xdist_group(name))
    for name in LEARNERS
    for how in ("cancelled", "wrong" if name in AS_WRONG else "expired")
]
every_end = pytest.mark.parametrize(("name", "how"), CASES)


@every_end
def test_an_ended_wait_is_no_longer_pending_and_has_a_status(name, how):
    learner = after_twelve_rounds(name)
    waiting = learner.pending
    end(learner, how)
    assert learner.pending == waiting - 1
    assert known_rounds(learner)[ENDED - 1] == Known(ENDS[how], correctable=how == "wrong")
    learner.flush()
    assert learner.book.to_apply() == []
    assert (ENDED in learner.book.kept) == (how == "wrong")
    reply = learner.feedback(ENDED, **answer_of(learner, ENDED))
    assert reply == {"cancelled": "cancelled", "expired": "late", "wrong": "corrected"}[how]
    assert learner.pending == known_rounds(learner).count(Known(Status.OPEN))


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
def test_a_released_wait_is_forgotten_and_was_a_wrong(name):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, "wrong")
    learner.flush()
    assert learner.book.ended[ENDED].event == NO_EVENT
    learner.end(Book.release, ENDED)
    assert ENDED not in learner.book.kept
    for reply in ("late", "duplicate"):
        assert learner.feedback(ENDED, correct=True) == reply
    with pytest.raises(dt.ConflictingFeedback):
        learner.feedback(ENDED, correct=False)
    other.feedback(ENDED, correct=False)
    for one in (learner, other):
        one.flush()
    assert knowledge(learner)[0] == knowledge(other)[0]


@pytest.mark.parametrize("name", by_learner(["banditron", "standardizing", "label"]))
@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_dropped_wait_changes_no_weights(name, how):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, how)
    for one in (learner, other):
        one.flush()
    assert knowledge(learner)[0] == knowledge(other)[0]


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
def test_a_wait_that_ends_as_wrong_is_a_wrong(name):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, "wrong")
    other.feedback(ENDED, correct=False)
    for one in (learner, other):
        one.flush()
    assert knowledge(learner)[0] == knowledge(other)[0]


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
@pytest.mark.parametrize("correct", [False, True])
def test_an_answer_before_the_end_is_applied_came_in_time(name, correct):
    learner, other = after_twelve_rounds(name), after_twelve_rounds(name)
    end(learner, "wrong")
    assert learner.feedback(ENDED, correct=correct) == "corrected"
    assert other.feedback(ENDED, correct=correct) == "accepted"
    assert knowledge(learner) == knowledge(other)
    assert knowledge(play_without(learner)) == knowledge(play_without(other))


def test_a_right_after_it_is_corrected_exactly():
    learner, other = after_twelve_rounds("expiring"), after_twelve_rounds("expiring")
    end(learner, "wrong")
    learner.flush()
    assert learner.feedback(ENDED, correct=True) == "corrected"
    assert other.feedback(ENDED, correct=True) == "accepted"
    for one in (learner, other):
        one.flush()
    np.testing.assert_allclose(learner.weights, other.weights, rtol=1e-12, atol=1e-12)
    assert ENDED not in learner.book.kept


def decide(learner):
    """Make the 13th decision; the caller may not know that it was made."""
    if learner.book.rounds < 13:
        learner.decide(ROWS[13])


def flush(learner):
    learner.flush()


def interrupt_at_every_line(prepare, act, then, tmp_path):
    """Interrupt an action at every line; done again, all must be as if nothing had happened. Return how many lines."""
    expected = prepare()
    act(expected)
    then(expected)
    play(expected, 30)

    def again(learner):
        act(learner)
        then(learner)
        assert learner.pending == known_rounds(learner).count(Known(Status.OPEN))

    line = 1
    while interrupted(learner := prepare(), act, line):
        goes_on_like(expected, learner, tmp_path, again, 30)
        line += 1
    return line - 1


def nothing(learner):
    """Do nothing more."""


@every_end
def test_an_end_interrupted_at_any_line_and_done_again_is_the_end(name, how, tmp_path):
    def prepare():
        return after_twelve_rounds(name)

    def act(learner):
        end(learner, how)

    assert interrupt_at_every_line(prepare, act, nothing, tmp_path) > 5


@every_end
@pytest.mark.parametrize("action", [decide, flush])
def test_applying_an_end_may_be_interrupted_at_any_line(name, how, action, tmp_path):
    def prepare():
        learner = after_twelve_rounds(name)
        end(learner, how)
        return learner

    assert interrupt_at_every_line(prepare, action, nothing, tmp_path) > 10


@pytest.mark.parametrize("name", by_learner(AS_WRONG))
def test_an_answer_after_the_end_may_be_interrupted_at_any_line(name, tmp_path):
    def prepare():
        learner = after_twelve_rounds(name)
        end(learner, "wrong")
        return learner

    def act(learner):
        assert learner.feedback(ENDED, correct=True) in ("corrected", "duplicate")

    assert interrupt_at_every_line(prepare, act, skip_answer, tmp_path) > 5


def play_without(learner):
    """Play on; the answer that `play` would give to the ended round has been given."""
    skip_answer(learner)
    return play(learner, 30)


def skip_answer(learner):
    """Play to where `play` would answer the ended round (17 = 11 + 6) in another way, and past it."""
    while learner.book.rounds < 17:
        now = learner.book.rounds + 1
        for number in range(10, now):
            if number != ENDED and number + (1, 2, 3, 6)[number % 4] == now:
                learner.feedback(number, **answer_of(learner, number))
        learner.decide(ROWS[now])
