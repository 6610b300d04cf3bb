"""What the tests of models share."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import delaytron as dt
from delaytron.journal.ids import Clock

TESTS = Path(__file__).parents[1]
NS = 10**9
CLASSES = ["small", "medium", "large"]


class FakeClock:
    """The sources of every clock of a model, as long as it is `used`."""

    def __init__(self):
        self.wall = 1_700_000_000 * NS
        self.uptime = 1_000 * NS
        self.boot = "first"

    def pass_time(self, seconds):
        self.wall += round(seconds * NS)
        self.uptime += round(seconds * NS)

    def set_wall_clock(self, seconds):
        """Let the wall clock jump; no time passes."""
        self.wall += round(seconds * NS)

    def restart_machine(self, seconds):
        """Let the machine be off for some time."""
        self.wall += round(seconds * NS)
        self.uptime = 5 * NS
        self.boot += "+"

    @contextmanager
    def used(self):
        """Be the default of the class `Clock`."""
        defaults = Clock.__init__.__kwdefaults__
        before = dict(defaults)
        defaults.update(wall=lambda: self.wall, uptime=lambda: self.uptime, boot_id=lambda: self.boot)
        try:
            yield self
        finally:
            defaults.update(before)


def small_model(**options):
    """Return a model that is compiled fast, of vectors of two numbers."""
    return dt.Model(CLASSES, **{"learner": "delaytron", "features": 2, "seed": 3, "gamma": 0.5} | options)


def refused(model, action, *words, error=dt.InvalidInput):
    """Assert that an action raises an error of one line with these words, and changes nothing."""
    before = model.digest()
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
    assert model.digest() == before


def learner_of(model):
    return model._engine.state.learner


def abandon(model):
    """Abandon a journal as a crash does: nothing more is written. What was acknowledged is on disk."""
    store = model._engine.store
    writer = model._engine.writer
    writer._finalizer.detach()
    model._engine._since_snapshot = 0

    def close_connections():
        for database in (store._database, store._reader):
            database.close()

    # In the writer's turn: SQLite crashes if a connection is closed while the thread of a snapshot commits on it.
    writer._shared.closing = True
    writer._shared.run_in_turn(close_connections)
    store._lock.forget()


def replayed_digest(path):
    """Return the digest of the model that the facts of a journal make, from the first one, without snapshots."""
    from delaytron.journal.sqlite import SqliteStore
    from delaytron.model.recipe import Recipe
    from delaytron.model.snapshots import digest
    from delaytron.model.state import State

    with SqliteStore(path) as store:
        recipe = Recipe(**json.loads(store.config)["recipe"])
        state = State.new(recipe)
        for fact in store.facts():
            state.replay(fact)
    return digest(state, recipe)


def environment():
    """Return the environment of a process that finds this file."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS / "model"), *filter(None, sys.path)])}


def run_python(code, *arguments):
    """Run code in a process of its own; return the completed process."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def work(model, start, stop, **more):
    """Make decisions and answer some; add a class and retire another one."""
    for t in range(start, stop):
        model.decide([1, t], id=str(t), allowed=["small", "large"] if t % 7 == 0 else None, **more)
        if t % 3:
            model.feedback(str(t - t % 3), reward=(t % 5) / 4) if t % 3 == 1 else model.feedback(str(t), label="small")
        if t == 10:
            model.add_class("huge")
            model.retire_class("medium")
        if t % 11 == 0:
            model.cancel(str(t)) if t % 3 == 0 and str(t) in [d.id for d in model.open_decisions()] else None
