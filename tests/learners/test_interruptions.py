"""An exception at any line of the package: the learner continues with the same bits."""

import signal
import sys
import threading
import time
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.answers import Known, Status
from delaytron.kernels.loop import BEGUN
from streams import by_learner, known_rounds

PACKAGE = str(Path(dt.__file__).parent)
RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(40, 3))
LEARNERS = {
    "banditron": lambda: dt.Banditron(3, 3, gamma=0.3, seed=1),
    "delaytron": lambda: dt.Delaytron(3, 3, gamma=0.3, seed=1),
    "expiring": lambda: dt.AdaptiveDelaytron(3, 3, gamma=0.3, seed=1, expire_after=3, on_expiry="wrong"),
    "releasing": lambda: dt.Delaytron(3, 3, gamma=0.3, seed=1, expire_after=2, on_expiry="wrong", correct_within=3),
    "dropping": lambda: dt.HingeDelaytron(3, 3, gamma=0.3, seed=1, expire_after=2),
    "pool": lambda: dt.Bold(dt.Delaytron(3, 3, gamma=0.3, seed=1), expire_after=4, on_expiry="wrong"),
    "label": lambda: dt.Perceptron(3, 3, seed=1),
    "logit": lambda: dt.BanditLogit(3, 3, seed=1, expire_after=3, on_expiry="wrong"),
    "standardizing": lambda: dt.OvaLogistic(3, 3, gamma=0.3, seed=1, standardize=True),
}


class Interrupted(BaseException):
    """Raised by the trace function, as a signal handler would."""


class Interruption:
    """Raises at the n-th line of the package that is executed, once."""

    def __init__(self, after):
        self.left = after

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Interrupted
        return self

    def __enter__(self):
        self.before = sys.gettrace()  # that of coverage, for example
        sys.settrace(self)

    def __exit__(self, *_):
        sys.settrace(self.before)


def answer_of(learner, number):
    return {"label": number % 3} if learner.feedback_type == "label" else {"correct": number % 2 == 0}


def knowledge(learner):
    """Return all that later rounds depend on."""
    plays = [(p.round, p.greedy, p.label, p.prob, p.extra.tolist(), p.x.values.tolist()) for p in ordered(learner)]
    state = [np.asarray(field).tobytes() for field in learner.state]
    return state, plays, known_rounds(learner), learner.pending


def ordered(learner):
    return [learner.book.play(number) for number in sorted(learner.book.kept)]


def play(learner, last):
    """Play to the round `last`, with answers that come one, two, three or six rounds later."""
    while learner.book.rounds < last:
        now = learner.book.rounds + 1
        for number in range(1, now):
            if number + (1, 2, 3, 6)[number % 4] == now:
                learner.feedback(number, **answer_of(learner, number))
        learner.decide(ROWS[now])
    return learner


def after_nine_rounds(name):
    """Return a learner with nine rounds played, some of which wait for their answers, and two answers to apply."""
    learner = play(LEARNERS[name](), 9)
    for number in (7, 9):
        learner.feedback(number, **answer_of(learner, number))
    return learner


def interrupted(learner, action, line):
    """Whether an exception at this line interrupted the action, or it ended before."""
    try:
        with Interruption(line):
            action(learner)
    except Interrupted:
        return True
    return False


def decide(learner):
    """Make the tenth decision; the caller may not know that it was made."""
    if learner.book.rounds < 10:
        learner.decide(ROWS[10])


def flush(learner):
    learner.flush()


def goes_on_like(expected, learner, tmp_path, action, last):
    """Assert that after the action, done again, an interrupted learner and its saved copy continue as expected.

    A file may forget that the clock of an interrupted round has ticked. Such a copy has the same state and the same
    events to apply, so that no answer is applied twice.
    """
    learner.save(tmp_path / "model")
    saved = dt.load(tmp_path / "model")
    assert knowledge(saved) == knowledge(learner)
    assert saved.book.to_apply() == learner.book.to_apply()
    has_ticked = learner.book.marks[BEGUN] > learner.book.rounds
    for one in (learner, saved):
        action(one)
        play(one, last)
        if one is learner or not has_ticked:
            assert knowledge(one) == knowledge(expected)
        assert known_rounds(one) == known_rounds(expected)


@pytest.mark.parametrize("action", [decide, flush])
@pytest.mark.parametrize("name", by_learner(LEARNERS))
def test_an_action_interrupted_at_any_line_and_done_again_is_the_action(name, action, tmp_path):
    """Live and saved, the learner continues with the same bits as one that was never interrupted."""
    expected = after_nine_rounds(name)
    action(expected)
    play(expected, 30)
    line = 1
    while interrupted(learner := after_nine_rounds(name), action, line):
        goes_on_like(expected, learner, tmp_path, action, 30)
        line += 1
    assert line > 20


def decide_four(learner):
    """Make the next decisions up to the 13th at once; the caller may not know how many were made."""
    if learner.book.rounds < 13:
        learner.decide_many(ROWS[learner.book.rounds + 1 : 14])


@pytest.mark.parametrize("name", by_learner(["delaytron", "releasing"]))
def test_decisions_made_at_once_may_be_interrupted_at_any_line(name, tmp_path):
    expected = after_nine_rounds(name)
    decide_four(expected)
    play(expected, 30)
    line = 1
    while interrupted(learner := after_nine_rounds(name), decide_four, line):
        goes_on_like(expected, learner, tmp_path, decide_four, 30)
        line += 1
    assert line > 20


def first(learner):
    """Make the first decision, which turns the learner to sparse rows."""
    if not learner.book.rounds:
        learner.decide(csr_array(ROWS[:1]))


@pytest.mark.parametrize("name", by_learner(LEARNERS))
def test_the_first_decision_may_be_interrupted_at_any_line_too(name, tmp_path):
    """It makes a new state for sparse rows: until it is there, the old one is used."""
    expected = LEARNERS[name]()
    first(expected)
    play(expected, 20)
    line = 1
    while interrupted(learner := LEARNERS[name](), first, line):
        learner.predict(ROWS[:2])
        twin = deepcopy(learner)
        goes_on_like(expected, learner, tmp_path, first, 20)
        first(twin)
        assert knowledge(play(twin, 20)) == knowledge(expected)
        line += 1
    assert line > 20


@pytest.mark.parametrize("name", by_learner(LEARNERS))
def test_an_answer_interrupted_at_any_line_is_taken_or_not(name):
    def answer(learner):
        learner.feedback(8, **answer_of(learner, 8))

    line = 1
    while interrupted(learner := after_nine_rounds(name), answer, line):
        assert learner.feedback(8, **answer_of(learner, 8)) in ("accepted", "duplicate")
        assert learner.pending == known_rounds(learner).count(Known(Status.OPEN))
        learner.flush()
        assert 8 not in learner.book.kept
        assert known_rounds(learner)[7] == Known(Status.ANSWERED, float(next(iter(answer_of(learner, 8).values()))))
        line += 1
    assert line > 10


def test_after_an_interrupted_decision_a_second_answer_is_a_duplicate_or_a_conflict():
    """Also if the first one comes between an expiry that nothing corrects and the round that applies it."""

    def prepare():
        learner = dt.Delaytron(3, 3, gamma=0.3, seed=1, expire_after=2, on_expiry="wrong", correct_within=0)
        for number in (1, 2, 3):
            learner.decide(ROWS[number])
        return learner

    line, replies = 1, set()
    while interrupted(learner := prepare(), lambda learner: learner.decide(ROWS[4]), line):
        replies.add(learner.feedback(2, correct=True))
        for _ in range(2):
            assert learner.feedback(2, correct=True) == "duplicate"
            with pytest.raises(dt.ConflictingFeedback):
                learner.feedback(2, correct=False)
            learner.flush()
        line += 1
    assert replies == {"accepted", "corrected", "late"}


def test_a_timer_that_interrupts_flush_applies_no_answer_twice():
    """300 wrong answers to a Banditron, interrupted again and again: its weights sum to -300."""

    def strike(*_):
        raise KeyboardInterrupt

    def flush(learner):
        """Flush; the timer interrupts once, during the flush or after it."""
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            learner.flush()
            time.sleep(0.05)  # not `pause`: a signal just before it would never wake it
        except KeyboardInterrupt:
            pass

    old = signal.signal(signal.SIGALRM, strike)
    try:
        for trial in range(20):
            learner = dt.Banditron(3, 1, gamma=0.5, seed=trial)
            for decision in [learner.decide([1.0]) for _ in range(300)]:
                learner.feedback(decision.id, correct=False)
            while learner.book.to_apply():
                flush(learner)
            assert learner.weights.sum() == -300
    finally:
        signal.signal(signal.SIGALRM, old)


def test_threads_share_a_learner():
    """Ids are issued once, every answer is applied once, and no thread dies."""
    learner = dt.Banditron(4, 2, gamma=0.5, seed=3)
    learner.decide([1.0, 0.0])  # compiles
    ids, failures = [], []

    def work():
        try:
            for _ in range(400):
                decision = learner.decide([1.0, 0.0])
                ids.append(decision.id)
                assert learner.feedback(decision.id, correct=False) == "accepted"
                learner.predict([[1.0, 0.0]])
        except BaseException as problem:
            failures.append(problem)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    learner.flush()
    assert failures == []
    assert sorted(ids) == list(range(2, 1602))
    assert learner.weights.sum() == -1600
    assert learner.pending == 1


def test_a_copy_made_beside_working_threads_is_of_one_moment():
    learner = dt.Banditron(3, 1, gamma=0.5, seed=3)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            learner.feedback(learner.decide([1.0]).id, correct=False)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(30):
            twin = deepcopy(learner)
            twin.flush()
            answered = twin.book.rounds - twin.pending
            assert twin.weights.sum() == -answered
    finally:
        stop.set()
        thread.join()


def test_calls_of_a_signal_handler_within_a_call_are_refused(tmp_path):
    """Each is refused in one line; the interrupted call is completed."""
    learner = dt.AdaptiveDelaytron(3, 3, gamma=0.3, seed=1, expire_after=3, on_expiry="wrong")
    expected = play(dt.AdaptiveDelaytron(3, 3, gamma=0.3, seed=1, expire_after=3, on_expiry="wrong"), 39)
    refused = []
    calls = [
        lambda: learner.save(tmp_path / "model"),
        lambda: learner.feedback(1, correct=True),
        lambda: learner.decide(ROWS[0]),
        lambda: learner.decide_many(ROWS[:2]),
        learner.flush,
        learner.add_class,
        lambda: deepcopy(learner),
    ]

    before = sys.gettrace()

    def handle(frame, event, _):
        if event == "line" and frame.f_code.co_name == "_play":
            sys.settrace(None)
            try:
                calls[len(refused) % len(calls)]()
            except dt.DelaytronError as problem:
                refused.append(str(problem))
        return handle

    while learner.book.rounds < 39:
        sys.settrace(handle)
        try:
            play(learner, learner.book.rounds + 1)
        finally:
            sys.settrace(before)
    assert len(refused) == 39
    assert refused[0].startswith("this AdaptiveDelaytron is in the middle of another call of the same thread; ")
    assert knowledge(learner) == knowledge(expected)


def test_a_refused_first_decision_leaves_a_state_that_can_be_used():
    """A pool too large for sparse rows was left with dense weights that compiled code took for sparse ones."""
    learner = dt.Bold(dt.Banditron(2, 40_000_000, seed=1))
    row = csr_array(([1.0], ([0], [39_999_999])), shape=(1, 40_000_000))
    with pytest.raises(dt.InvalidInput, match="the pool would take"):
        learner.decide(row)
    assert learner.predict(row).tolist() == [0]
