"""What front ends need of a model: what was learned, without the decisions that wait for an answer.

The state that the next learner goes on from has all of these, and grows with them. This does not.
"""

import copy
import json
from threading import RLock
from typing import Any, NamedTuple

import msgspec
import numpy as np

from delaytron.journal.clock import Moment
from delaytron.learners import rounds
from delaytron.learners.average import Average
from delaytron.learners.base import Learner
from delaytron.learners.ledger import Ledger
from delaytron.model.core import Core
from delaytron.model.making import Recipe, make_core
from delaytron.model.snapshots import compress, decompress, pack_core, unpack_core
from delaytron.records import Play
from delaytron.service.messages import StatsReply
from delaytron.service.rates import Rates
from delaytron.service.replies import stats_reply

Seconds = dict[int, tuple[int, int]]  # of the last minute: decisions, and how many of them explored


class CountedRounds(Ledger):
    """Counts rounds, and keeps none of them but those whose answers wait to be applied."""

    def __init__(self, rounds: int, pending: int) -> None:
        super().__init__()
        self._rounds = rounds
        self._pending = pending
        self.answers: Any = {}

    @property
    def rounds(self) -> int:
        """How many decisions were issued."""
        return self._rounds

    @property
    def pending(self) -> int:
        """How many decisions wait for an answer."""
        return self._pending

    def open(self, play: Play) -> None:  # noqa: ARG002
        """Count the decision of the next round."""
        self._rounds += 1
        self._pending += 1


class Published(NamedTuple):
    """What a front end decides with, and what it tells of the model."""

    core: Core
    stats: StatsReply
    seconds: Seconds


def pack_published(core: Core, recipe: Recipe, stats: StatsReply, seconds: Seconds) -> bytes:
    """Return what front ends need, as bytes."""
    ledger = core.learner.ledger
    more = {
        "rounds": ledger.rounds,
        "pending": ledger.pending,
        "stats": msgspec.to_builtins(stats),
        "seconds": [[second, *counts] for second, counts in seconds.items()],
    }
    return compress(pack_core(_without_rounds(core), recipe, more))


def _without_rounds(core: Core) -> Core:
    light = copy.copy(core)
    light.learner = _up_to_date(core.learner)
    light.learner.ledger = Ledger(core.learner.ledger.words, core.learner.takes_rewards)
    light.open = {}
    light.lapsed = {}
    return light


def _up_to_date(learner: Learner) -> Learner:
    """Return a copy to which the answers that came are applied, as the next round would do."""
    kept = learner.ledger
    ledger = CountedRounds(kept.rounds, kept.pending)
    ledger.arrived = dict(kept.arrived)
    ledger.plays = {number: kept.play(number) for number in kept.arrived}
    ledger.answers = {number - 1: kept.answers[number - 1] for number in kept.arrived}
    twin = learner._knowing(learner.sparse, type(learner.state)(*(np.array(field) for field in learner.state)))
    vars(twin).update(_lock=RLock(), ledger=ledger, _flips=dict(learner._flips))
    if learner.average:
        twin._average = Average(learner._average.total.copy())
    rounds.start_from(twin, begun=0)
    rounds.apply_arrived(twin)
    return twin


def read_published(body: bytes, source: str) -> Published:
    """Return what a front end decides with; its draws are its own."""
    core, _, more = unpack_core(decompress(body, source), source)
    core.learner.ledger = CountedRounds(more["rounds"], more["pending"])
    seconds = {second: (decisions, explored) for second, decisions, explored in more["seconds"]}
    return _ready(Published(core, msgspec.convert(more["stats"], StatsReply), seconds))


def unpublished(recipe: Recipe) -> Published:
    """Return the same for a model of which nothing was published yet."""
    core = make_core(recipe)
    stats = stats_reply(core, Moment(0, 0), Rates())
    core.learner.ledger = CountedRounds(0, 0)
    return _ready(Published(core, stats, {}))


def _ready(published: Published) -> Published:
    """Give a learner draws of its own, which nobody can foresee, and its machine code."""
    published.core.learner._draws = np.random.default_rng()
    published.core.warm_up()
    return published


def pack_names(core: Core) -> bytes:
    """Return the names of features that were seen."""
    return compress(json.dumps(core.encoder.names()).encode())


def add_names(core: Core, names: bytes) -> None:
    """Let an encoder know names that others saw."""
    known = json.loads(decompress(names, "the table of names"))
    core.encoder.add_names((int(index), name) for index, listed in known.items() for name in listed)
