"""Anything in any order: a model with a journal, its twin in memory, and a plain Python account of ids and classes.

After every step both models have the same digest, and the account agrees with what they return. After every error the
digest is what it was before.
"""

import sqlite3
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from account import Account
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from models import CLASSES, FakeClock, abandon, replayed_digest

import delaytron as dt
from delaytron.errors import JournalError
from delaytron.journal.database import Database
from delaytron.model import engine

numbers = st.integers(-9, 9)
texts = st.sampled_from(["x", "y", "two words"])
dicts = st.dictionaries(st.sampled_from(["a", "b", "c"]), numbers | texts | st.none(), max_size=3)
bad_rows = st.sampled_from([{"a": float("inf")}, [1, 2], None, "text", {1: 1}, {"a": object()}])
ids = st.sampled_from([f"id{n}" for n in range(25)])
bad_ids = st.sampled_from(["", "x" * 201, 7, None, b"a", "\0"])
names = st.sampled_from([*CLASSES, "huge", 7])
bad_names = st.sampled_from(["", True, 1.5, None])
some_names = st.none() | st.lists(names, min_size=1, max_size=3)
answers = st.one_of(
    st.fixed_dictionaries({"correct": st.booleans()}),
    st.fixed_dictionaries({"reward": st.sampled_from([0, 0.5, 1.0])}),
    st.fixed_dictionaries({"label": names}),
)
bad_answers = st.sampled_from([{}, {"correct": True, "reward": 1.0}, {"reward": 2}, {"reward": "1"}, {"label": "none"}])
WAITS = [(None, "drop"), (3, "drop"), (3, "wrong"), ("60s", "drop"), ("60s", "wrong")]


def outcome(call):
    """Return what a call returns, or the class of the error that it raises."""
    try:
        return call()
    except dt.DelaytronError as problem:
        return type(problem) if "\n" not in str(problem) else str(problem)


def as_input(x, allowed):
    """Return what two requests for the same decision share."""
    known = {name: value for name, value in x.items() if value not in (None, 0)}
    return tuple(sorted(known.items())), None if allowed is None else frozenset(allowed)


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        self.path = Path(self.stack.enter_context(TemporaryDirectory())) / "router.db"
        self.clock = self.stack.enter_context(FakeClock().used())
        self.stack.enter_context(patch.object(engine, "FACTS_A_SNAPSHOT", 6))
        self.drawn = count()
        self.stack.enter_context(patch.object(engine, "new_id", self.draw_id))
        self.stack.enter_context(patch.object(engine, "new_ids", lambda n: [self.draw_id() for _ in range(n)]))

    def draw_id(self):
        return f"random-{next(self.drawn)}"

    @initialize(wait=st.sampled_from(WAITS), seed=st.integers(0, 5))
    def begin(self, wait, seed):
        self.options = {"learner": "delaytron", "bits": 4, "gamma": 0.5, "seed": seed}
        self.options |= {"expire_after": wait[0], "on_expiry": wait[1]}
        self.model = dt.Model(CLASSES, journal=self.path, **self.options)
        self.twin = dt.Model(CLASSES, **self.options)
        self.account = Account(CLASSES, *wait, self.clock)
        self.digest = self.twin.digest()

    def both(self, call):
        """Make a call on both models; they must agree."""
        place = next(self.drawn)
        results = []
        for model in (self.model, self.twin):
            self.drawn = count(place)
            results.append(outcome(lambda model=model: call(model)))
        assert results[0] == results[1]
        self.changed = not isinstance(results[0], type)
        return results[0]

    # Decisions

    @rule(x=dicts, id=st.none() | ids, allowed=some_names)
    def decide(self, x, id, allowed):
        result = self.both(lambda model: model.decide(x, id=id, allowed=allowed))
        given = as_input(x, allowed)
        error = None if id is None else self.account.error_of([id], [given])
        if not self.account.allows(allowed, id):
            assert result is dt.InvalidInput
        elif error is not None:
            assert result is error
        else:
            self.changed = id not in self.account.entries
            self.account.decided(result, allowed, given)

    @rule(xs=st.lists(dicts, max_size=4), own=st.lists(ids, max_size=4) | st.none(), allowed=some_names)
    def decide_many(self, xs, own, allowed):
        result = self.both(lambda model: model.decide_many(xs, ids=own, allowed=allowed))
        inputs = [as_input(x, allowed) for x in xs]
        error = None if own is None else self.account.error_of(own, inputs)
        allows = all(self.account.allows(allowed, issued) for issued in own or [None])
        if error is dt.InvalidInput or (xs and not allows):
            assert result is dt.InvalidInput
        elif error is not None:
            assert result is error
        else:
            assert len(result) == len(xs)
            self.changed = any(decision.id not in self.account.entries for decision in result)
            for decision, given in zip(result, inputs, strict=True):
                self.account.decided(decision, allowed, given)

    @rule(x=bad_rows, good=dicts)
    def decide_on_nothing(self, x, good):
        assert self.both(lambda model: model.decide(x)) is dt.InvalidInput
        assert self.both(lambda model: model.decide_many([good, x])) is dt.InvalidInput

    @rule(id=bad_ids, allowed=bad_names)
    def decide_wrongly(self, id, allowed):
        if id is not None:
            assert self.both(lambda model: model.decide({}, id=id)) is dt.InvalidInput
        assert self.both(lambda model: model.decide({}, allowed=[allowed])) is dt.InvalidInput
        assert self.both(lambda model: model.decide_many([{}], ids=[id])) is dt.InvalidInput

    # Answers

    @rule(data=st.data(), answer=answers)
    def feedback(self, data, answer):
        issued = data.draw(self.some_id())
        assert self.both(lambda model: model.feedback(issued, **answer)) == self.account.answered(issued, answer)

    @rule(data=st.data(), answer=answers)
    def feedback_from_elsewhere(self, data, answer):
        issued = data.draw(self.some_id())
        with dt.Journal(self.path) as journal:
            said = outcome(lambda: journal.feedback(issued, **answer))
        assert said == outcome(lambda: self.twin.feedback(issued, **answer)) == self.account.answered(issued, answer)
        self.changed = said in ("accepted", "corrected", "late")

    @rule(data=st.data(), answer=bad_answers)
    def feedback_of_nothing(self, data, answer):
        issued = data.draw(self.some_id())
        assert self.both(lambda model: model.feedback(issued, **answer)) is dt.InvalidInput

    @rule(data=st.data())
    def cancel(self, data):
        issued = data.draw(self.some_id())
        assert self.both(lambda model: model.cancel(issued)) == self.account.cancelled(issued)

    def some_id(self):
        return st.sampled_from([*self.account.entries, "never issued"])

    # Classes

    @rule(name=names | bad_names)
    def add_class(self, name):
        assert self.both(lambda model: model.add_class(name)) is self.account.added(name)

    @rule(name=names | bad_names)
    def retire_class(self, name):
        assert self.both(lambda model: model.retire_class(name)) is self.account.retired_now(name)

    # Time, restarts, files, failures

    @rule(seconds=st.sampled_from([0.001, 1, 20, 59, 60, 1000]))
    def pass_time(self, seconds):
        self.clock.pass_time(seconds)
        self.account.expire_by_time()
        self.changed = True

    @rule(seconds=st.sampled_from([-1e9, -60, 60, 1e8]))
    def set_wall_clock(self, seconds):
        self.clock.set_wall_clock(seconds)

    @rule(crash=st.booleans(), knowing=st.booleans())
    def restart(self, crash, knowing):
        abandon(self.model) if crash else self.model.close()
        self.model = dt.Model(CLASSES, journal=self.path, **self.options) if knowing else dt.Model.open(self.path)

    @rule()
    def snapshot(self):
        self.model._engine.run(lambda _: self.model._engine.put_snapshot())

    @rule()
    def save_and_load(self):
        for model in (self.model, self.twin):
            model.save(self.path.with_suffix(".model"))
            loaded = dt.load(self.path.with_suffix(".model"))
            assert loaded.digest() == self.digest
        self.twin = loaded

    @rule(x=dicts, data=st.data())
    def fail(self, x, data):
        issued = data.draw(self.some_id())
        calls = [
            lambda: self.model.decide(x),
            lambda: self.model.cancel(issued),
            lambda: self.model.add_class("new one"),
        ]
        for call in calls:
            with patch.object(Database, "commit", lambda self: self._attempt(disk_error)):
                assert outcome(call) is JournalError

    @rule(x=dicts, allowed=some_names)
    def look(self, x, allowed):
        assert self.both(lambda model: model.predict(x)) in self.account.active()
        probabilities = self.both(lambda model: model.probabilities(x, allowed=allowed))
        if self.account.allows(allowed):
            assert set(probabilities) == set(self.account.active() if allowed is None else allowed)
        assert self.both(lambda model: model.explain(x).scores).keys() == set(self.account.active())
        self.changed = False

    # What holds after each step

    @invariant()
    def both_are_the_same(self):
        digest = self.model.digest()
        assert self.twin.digest() == digest
        if not self.__dict__.pop("changed", False):
            assert digest == self.digest
        self.digest = digest

    @invariant()
    def the_account_agrees(self):
        for model in (self.model, self.twin):
            assert [decision.id for decision in model.open_decisions()] == self.account.ids("open")
            assert model.classes == self.account.active()
            stats = model.stats()
            assert (stats.decisions, stats.open) == (len(self.account.entries), len(self.account.ids("open")))
            assert (stats.answered, stats.cancelled) == (
                len(self.account.ids("answered")),
                len(self.account.ids("cancelled")),
            )
            counts = (self.account.n_expired, self.account.n_corrected, self.account.n_late)
            assert (stats.expired, stats.corrected, stats.late) == counts

    def teardown(self):
        self.model.close()
        assert replayed_digest(self.path) == self.digest
        self.stack.close()


def disk_error(_):
    raise sqlite3.OperationalError("disk I/O error")


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=25, stateful_step_count=30)


@pytest.mark.torture
class TestMachineAtLength(Machine.TestCase):
    settings = settings(max_examples=400, stateful_step_count=50)
