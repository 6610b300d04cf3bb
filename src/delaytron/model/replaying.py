"""Facts done again, one after another: what comes out must be what came out when they were written."""

from collections.abc import Callable

import msgspec
import numpy as np

from delaytron.errors import JournalError
from delaytron.journal.records import Fact
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.records import Ints, Play, Row

DAMAGED = (LookupError, TypeError, ValueError, ArithmeticError, msgspec.MsgspecError)

Action = Callable[[Core, Fact], None]


def replay_fact(core: Core, fact: Fact) -> None:
    """Do again what a fact tells; raise `JournalError` if that cannot be."""
    action = ACTIONS.get(fact.kind)
    if action is None:
        raise JournalError(f"fact {fact.seq} is of the unknown kind {fact.kind}; update delaytron")
    try:
        action(core, fact)
    except DAMAGED as problem:
        raise JournalError(f"fact {fact.seq} is damaged: {problem!r}; restore the journal from a backup") from problem


def _again(play: Callable[[Core, Fact, facts.Decided, Ints], Play]) -> Action:
    """Return what plays a round again, among the labels of then, and compares."""

    def action(core: Core, fact: Fact) -> None:
        told = facts.decode_decided(fact.body)
        labels = told.labels(core.classes.allowed(None))
        _check_indices("label", labels, core.learner.n_classes)
        _check_row(core, told.row)
        _compare(fact, told, play(core, fact, told, labels))
        core.encoder.add_names(told.names)

    return action


def _adopt(core: Core, fact: Fact, told: facts.Decided, _: Ints) -> Play:
    return core.adopt(_id_of(fact), _chosen(core, told), fact.now)


def _adopt_issued(core: Core, _: Fact, told: facts.Decided, __: Ints) -> Play:
    return core.adopt_issued(_chosen(core, told))


def _chosen(core: Core, told: facts.Decided) -> Play:
    if not 0 <= min(told.label, told.greedy) <= max(told.label, told.greedy) < core.learner.n_classes:
        raise ValueError(f"it has label {told.label}")
    return told.play


def _redeem(core: Core, fact: Fact) -> None:
    told = facts.decode_redeemed(fact.body)
    _check_row(core, told.decided.row)
    core.redeem(told.decided.play, told.value, fact.now.clock - told.clock)


def _nothing(core: Core, fact: Fact) -> None:
    """Some facts change nothing of what a model knows."""


ACTIONS: dict[int, Action] = {
    facts.CREATED: _nothing,
    facts.DECIDED: _again(lambda core, fact, told, labels: core.decide(_id_of(fact), told.row, labels, fact.now)),
    facts.ANSWERED: lambda core, fact: core.answer(_id_of(fact), facts.decode(fact.body), fact.now),
    facts.EXPIRED: lambda core, fact: core.expire(_id_of(fact)),
    facts.CANCELLED: lambda core, fact: core.cancel(_id_of(fact)),
    facts.CLASS_ADDED: lambda core, fact: core.add_class(facts.decode(fact.body)),
    facts.CLASS_RETIRED: lambda core, fact: core.retire_class(facts.decode(fact.body)),
    facts.ADOPTED: _again(_adopt),
    facts.ISSUED: _again(lambda core, _, told, labels: core.issue(told.row, labels)),
    facts.REDEEMED: _redeem,
    facts.RECORDED: _nothing,
    facts.ISSUED_ELSEWHERE: _again(_adopt_issued),
}


def _compare(fact: Fact, told: facts.Decided, play: Play) -> None:
    """Raise if a round was not played again as it was played."""
    came = (play.round, play.greedy, play.label, play.prob, play.extra.astype("<f8").tobytes())
    if came != (told.round, told.greedy, told.label, told.prob, told.extra):
        raise JournalError(
            f"fact {fact.seq} tells of label {told.label} with probability {told.prob!r} in round {told.round}, "
            f"played again it is {play.label} with {play.prob!r}: use the version of delaytron that wrote it"
        )


def _check_row(core: Core, row: Row) -> None:
    """Raise if compiled code, which trusts its callers, cannot take a row."""
    size = core.learner.n_features if row.indices is None else row.indices.size
    if core.encoder.sparse is (row.indices is None) or row.values.size != size:
        raise ValueError(f"it has a row of {row.values.size} numbers")
    if row.indices is not None and row.indices.size:
        _check_indices("feature", row.indices, core.learner.n_features)


def _check_indices(what: str, indices: Ints, count: int) -> None:
    if not (indices.size and indices[-1] < count and np.all(indices[1:] > indices[:-1])):
        raise ValueError(f"a {what} is not in ascending order within 0..{count - 1}")


def _id_of(fact: Fact) -> str:
    if fact.id is None:
        raise JournalError(f"fact {fact.seq} is damaged: it names no decision; restore the journal from a backup")
    return fact.id
