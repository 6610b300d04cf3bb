"""Whatever line Ctrl-C interrupts, the model can be used, and its state is that of its journal."""

import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import current_thread

import numpy as np
import pytest
from models import replayed_digest, small_model

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.model import engine
from delaytron.records import Row

PARTS = tuple(
    str(Path(dt.__file__).parent / name) for name in ("model", "learners")
)  # the journal has tests of its own
fresh = count()


class Interruption:
    """Raises at the n-th line of these packages that is executed, once."""

    def __init__(self, after):
        self.left = after

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PARTS):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def __enter__(self):
        self.before = sys.gettrace()  # that of coverage, for example
        sys.settrace(self)

    def __exit__(self, *_):
        sys.settrace(self.before)


def refused(model):
    with pytest.raises(dt.InvalidInput):
        model.decide([1])


CALLS = {
    "decide": lambda model, _: model.decide([1, 5]),
    "many": lambda model, _: model.decide_many([[1, 5]] * 2, allowed=["small"]),
    "feedback": lambda model, issued: model.feedback(issued, reward=0.5),
    "cancel": lambda model, issued: model.cancel(issued),
    "add": lambda model, _: model.add_class(f"class {next(fresh)}"),
    "refused": lambda model, _: refused(model),
}


def wait_until_idle(writer):
    """Wait for the thread of a snapshot: beside it a call may run in the thread of the writer, which is not traced."""
    while True:
        writer.run(lambda _: None)  # after it the next caller runs its own transaction, if no snapshot is being made
        packer = writer._packer
        if packer is None or not packer.is_alive():
            return
        packer.join()


def note_threads(writer):
    """Return the list to which every transaction of a writer appends its thread."""
    threads, run_transaction = [], writer._run_transaction

    def noting(tasks):
        threads.append(current_thread())
        run_transaction(tasks)

    writer._run_transaction = noting
    return threads


def interrupt_everywhere(model, call, step):
    """Interrupt a call at every `step`-th line, until it ends before that; return how often."""
    threads = note_threads(model._engine.writer)
    times = 0
    while True:
        with suppress(JournalError):  # the call after an interrupted one may raise
            model.digest()
        for t in range(3):
            model.decide([1, t])
        issued = model.open_decisions()[0].id
        if len(model.classes) > 10:  # each makes the call longer: it would never end in time
            break
        wait_until_idle(model._engine.writer)
        threads.clear()
        with suppress(KeyboardInterrupt), Interruption(1 + times * step):
            call(model, issued)
            if set(threads) <= {current_thread()}:
                return times
            continue  # on a busy machine the writer's thread may still have the turn, and runs the call: once more
        times += 1
    return times


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.torture)])
def test_an_interrupted_model_is_that_of_its_journal(tmp_path, monkeypatch, call, on_expiry, step):
    monkeypatch.setattr(engine, "FACTS_A_SNAPSHOT", 30)
    path = tmp_path / "a.db"
    model = small_model(journal=path, expire_after=4, on_expiry=on_expiry)
    assert interrupt_everywhere(model, call, step) > 30 / step
    for t in range(10):
        model.feedback(model.decide([1, t]).id, correct=True)
    digest = model.digest()
    model.close()
    assert replayed_digest(path) == digest


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.torture)])
def test_an_interrupted_model_in_memory_can_be_used(call, on_expiry, step):
    model = small_model(expire_after=4, on_expiry=on_expiry)
    assert interrupt_everywhere(model, call, step) > 30 / step
    decisions = [model.decide([1, t]) for t in range(10)]
    assert {model.feedback(decision.id, correct=True) for decision in decisions[-4:]} == {"accepted"}
    assert model.open_decisions() == []
    assert decisions[-1].round == model.stats().decisions
    assert len(model.stats().classes) == len(model.classes) == model._engine.state.learner.n_classes


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.torture)])
def test_a_decision_in_memory_that_was_interrupted_can_be_retried(step):
    model = small_model()
    for times in range(10**6):
        call = {"x": [1, times], "id": f"d{times}", "allowed": ["small", "large"]}
        ended = False
        with suppress(KeyboardInterrupt), Interruption(1 + times * step):
            model.decide(**call)
            ended = True
        with suppress(JournalError):
            model.digest()
        assert model.decide(**call).id == f"d{times}"
        assert model.stats().decisions == sum(one.played for one in model.stats().classes.values()) == times + 1
        with pytest.raises(dt.ConflictingDecision):
            model.decide([2, times], id=f"d{times}", allowed=["small", "large"])
        if ended:
            break
    assert times > 30 / step


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.torture)])
def test_a_recorded_decision_in_memory_that_was_interrupted_keeps_its_probability(step):
    model = small_model()
    for times in range(10**6):
        issued = f"d{times}"
        chosen = engine.Elsewhere(Row(None, np.array([1.0, times])), label=1, prob=0.25, greedy=2)
        ended = False
        with suppress(KeyboardInterrupt), Interruption(1 + times * step):
            model._engine.run(lambda now, issued=issued, chosen=chosen: model._engine.record(now, issued, chosen))
            ended = True
        with suppress(JournalError):
            model.digest()
        number = model._engine.state.ids.get(issued)
        if number is not None:  # else nothing was recorded
            play = model._engine.state.book.play(number)
            assert (play.label, play.greedy, play.prob) == (1, 2, 0.25)
            found = model.decision(issued)
            assert (found.prob, found.round) == (0.25, number)
        if ended:
            break
    assert times > 30 / step
