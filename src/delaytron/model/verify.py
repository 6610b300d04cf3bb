"""Whether a journal and what was made of it agree: every fact is played again, and all that came out is compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from delaytron.errors import DelaytronError
from delaytron.journal.records import OPEN, Fact
from delaytron.journal.view import JournalView
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.fact_checks import begin, check_fact, kind_of
from delaytron.model.replaying import replay_fact
from delaytron.model.snapshots import decompress, digest, unpack_core

DAMAGED = (DelaytronError, msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

DECISIONS = "SELECT (SELECT count(*) FROM facts WHERE kind IN (?, ?)), (SELECT count(*) FROM ids WHERE NOT purged)"
SETTLED = """
SELECT (SELECT count(DISTINCT id) FROM facts WHERE kind IN (?, ?, ?) AND id NOT IN (SELECT id FROM inbox)),
(SELECT count(*) FROM ids WHERE status != ? AND NOT purged AND id NOT IN (SELECT id FROM inbox))
"""
COUNTS = {  # of facts and of ids, which must be equal; what is in the inbox has no fact yet
    "decisions": (DECISIONS, facts.KEPT_DECISIONS),
    "settled decisions": (SETTLED, (facts.ANSWERED, facts.EXPIRED, facts.CANCELLED, OPEN)),
}
STEP = 500  # facts between two calls that tell how far it is

Advance = Callable[[int], object]


class Mismatch(NamedTuple):
    """What does not agree: the number of a fact, where it is about one, and why."""

    fact: int | None
    reason: str


class Verification(NamedTuple):
    """What a journal has, and whether it agrees with itself.

    `facts` counts those that are there by their kinds; `replayed` of them came `after` the snapshot from which
    everything was played again, 0 for the first fact. The other counts are of all decisions ever made; `purged` ones
    have no facts any more. `hash` is that of the last state, as `Model.digest` returns it; None after a mismatch.
    """

    facts: dict[str, int]
    after: int
    replayed: int
    snapshots: int
    decided: int
    answered: int
    expired: int
    cancelled: int
    open: int
    purged: int
    hash: str | None
    mismatch: Mismatch | None


class _DisagreementError(Exception):
    """Ends the replay."""

    def __init__(self, fact: int | None, reason: str) -> None:
        super().__init__(reason)
        self.mismatch = Mismatch(fact, reason)


def verify_journal(path: str | Path, started: Callable[[int], Advance] | None = None) -> Verification:
    """Play all facts of a journal again and compare; nothing is changed, and another process may go on writing.

    Parameters
    ----------
    path
        The journal. What was committed when this began is looked at.
    started
        Called with the number of facts to replay; returns what is called with how many were just done.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         said = model.feedback(model.decide([1.0, 0.5]).id, correct=True)
    ...         found = verify_journal(f"{folder}/a.db")
    ...         found.mismatch, found.decided, found.hash == model.digest()
    (None, 1, True)
    """
    with JournalView(path) as view:
        replay = _Replay(view)
        try:
            replay.run(started)
        except _DisagreementError as found:
            return replay.summary(None, found.mismatch)
        return replay.summary(digest(replay.core, replay.recipe), None)


class _Replay:
    """The state of a model, made again from the facts of a journal."""

    def __init__(self, view: JournalView) -> None:
        self.view = view
        self.recipe, self.core = begin(view)
        self.facts: dict[str, int] = {}
        self.snapshots: list[int] = []
        self.purged = 0
        self.after = 0
        self.seq = 0
        self.checked = 0

    def run(self, started: Callable[[int], Advance] | None) -> None:
        """Replay everything; raise at the first thing that does not agree."""
        damage = self.view.damage()
        if damage is not None:
            raise _DisagreementError(None, f"SQLite finds the file damaged: {damage}")
        self.facts = {kind_of(kind): count for kind, count in self.view.count_by_kind().items()}
        self.purged = self.view.purged()
        self.snapshots = self.view.snapshot_seqs()
        self._start()
        last = self.view.last_seq
        advance = None if started is None else started(last - self.after)
        for count, fact in enumerate(self.view.facts(self.after), start=1):
            self._replay(fact)
            if advance is not None and (count % STEP == 0 or fact.seq == last):
                advance(count % STEP or STEP)
        if self.seq != last:
            raise _DisagreementError(self.seq + 1, f"fact {self.seq + 1} is missing, the last one is {last}")
        self._compare_end()

    def _start(self) -> None:
        """Begin with the first fact; if some were dropped, with the oldest snapshot after which all are there."""
        if (self.purged or self.view.is_compacted) and self.snapshots and not self._has_all_after(0):
            complete = [seq for seq in self.snapshots if self._has_all_after(seq)]
            self.after = self.seq = [*complete, self.snapshots[-1]][0]
            self.core = self._core_of_snapshot(self.after)
            self.checked = 1

    def _has_all_after(self, seq: int) -> bool:
        ((count,),) = self.view.rows("SELECT count(*) FROM facts WHERE seq > ?", (seq,))
        return bool(count == self.view.last_seq - seq)

    def _core_of_snapshot(self, seq: int) -> Core:
        source = f"the snapshot after fact {seq}"
        try:
            core, recipe, _ = unpack_core(decompress(self.view.snapshot(seq).body, source), source)
        except DAMAGED as problem:
            raise _DisagreementError(seq, str(problem)) from None
        if recipe != self.recipe:
            raise _DisagreementError(seq, f"{source} is of another model than the journal")
        return core

    def _replay(self, fact: Fact) -> None:
        if fact.seq != self.seq + 1:
            raise _DisagreementError(self.seq + 1, f"fact {self.seq + 1} is missing, {fact.seq} comes after {self.seq}")
        if fact.kind == facts.CREATED and fact.body != self.view.config:
            raise _DisagreementError(fact.seq, f"fact {fact.seq} has another configuration than the journal")
        self.seq = fact.seq
        try:
            check_fact(fact, self.view.status(fact.id), self.core.as_wrong)
            replay_fact(self.core, fact)
        except DAMAGED as problem:
            raise _DisagreementError(fact.seq, _told(fact, problem)) from None
        if fact.seq in self.snapshots:
            self._compare_snapshot(fact.seq)

    def _compare_snapshot(self, seq: int) -> None:
        stored = digest(self._core_of_snapshot(seq), self.recipe)
        played = digest(self.core, self.recipe)
        if stored != played:
            reason = f"the snapshot after fact {seq} has the hash {stored[:16]}..., played again it is {played[:16]}..."
            raise _DisagreementError(seq, reason)
        self.checked += 1

    def _compare_end(self) -> None:
        """Compare what the model would be when it is opened, its open decisions and its classes."""
        if self.snapshots and self.snapshots[-1] != self.after:
            self._compare_reopened(self.snapshots[-1])
        self._compare_ids()
        told = None if self.view.classes is None else json.loads(self.view.classes)
        names = self.core.classes.names
        if told not in (None, names):
            raise _DisagreementError(None, f"other processes are told of the classes {told}, the facts make {names}")

    def _compare_ids(self) -> None:
        """Compare the open decisions, and how many there are in all."""
        listed = {issued for (issued,) in self.view.rows("SELECT id FROM ids WHERE status = ?", (OPEN,))}
        others = listed ^ (self.core.open.keys() - self.view.waiting_in_inbox())
        if others:
            where = "by the table of ids" if others & listed else "by the facts"
            raise _DisagreementError(None, f"decision {min(others)!r} is open {where} only")
        for what, (sql, values) in COUNTS.items():
            ((told, known),) = self.view.rows(sql, values)
            if told != known:
                raise _DisagreementError(None, f"there are facts of {told} {what}, the table of ids has {known}")

    def _compare_reopened(self, seq: int) -> None:
        core = self._core_of_snapshot(seq)
        for fact in self.view.facts(seq):
            replay_fact(core, fact)
        if digest(core, self.recipe) != digest(self.core, self.recipe):
            raise _DisagreementError(None, f"opened from the snapshot after fact {seq}, the model has another state")

    def summary(self, state: str | None, mismatch: Mismatch | None) -> Verification:
        """Return what was found."""
        tally = self.core.tally
        return Verification(
            self.facts,
            self.after,
            self.seq - self.after,
            self.checked,
            self.core.rounds,
            sum(tally.answered),
            tally.expired,
            tally.cancelled,
            len(self.core.open),
            self.purged,
            state,
            mismatch,
        )


def _told(fact: Fact, problem: Exception) -> str:
    """Say what is wrong with a fact."""
    text = str(problem) or type(problem).__name__
    if text.startswith(f"fact {fact.seq} "):
        return text
    about = f" of decision {fact.id!r}" if fact.id is not None else ""
    return f"fact {fact.seq} ({kind_of(fact.kind)}{about}) does not agree: {text}"
