"""What came, as the next facts of a model: a fact is done by the same function that replays it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from delaytron.journal.clock import Moment
from delaytron.journal.records import Fact, Snapshot
from delaytron.model import facts
from delaytron.model.making import Recipe, make_core
from delaytron.model.replaying import replay_fact
from delaytron.model.snapshots import compress, pack_core, read_snapshot
from delaytron.model.waiting import NS
from delaytron.service.messages import StatsReply
from delaytron.service.postgres.publishing import Seconds
from delaytron.service.rates import SECONDS, Rates
from delaytron.service.replies import stats_reply

DECISIONS = (facts.ADOPTED, facts.ISSUED_ELSEWHERE)


class Arrived(NamedTuple):
    """A row of the inbox; `wall` is when it was written, in ns by the clock of the database."""

    place: int
    kind: int
    id: str | None
    wall: int
    body: bytes


class FoldedModel:
    """The state of a model after the fact `seq`."""

    def __init__(self, number: int, recipe: Recipe, snapshot: Snapshot | None = None) -> None:
        self.number = number
        self.recipe = recipe
        self.core = make_core(recipe)
        self.seq = 0
        self.snapshot = 0  # the fact after which the newest snapshot is
        self.clock = 0
        if snapshot is not None:
            self.core, more = read_snapshot(snapshot)
            self.seq = self.snapshot = snapshot.seq
            self.clock = more["clock"]
        self.new: list[Fact] = []  # that no table has yet
        self.issued: dict[str, int] = {}  # tokens that no table has yet, and their rounds
        self.has_new_names = True
        self._seconds: Seconds = {}

    def replay(self, told: Iterable[Fact]) -> None:
        """Do facts again that follow those that are known."""
        for fact in told:
            self._do(fact)

    def fold(self, arrived: Iterable[Arrived], rounds: Mapping[str, int]) -> None:
        """Make facts of what came; `rounds` are those of tokens that were issued before."""
        for row in arrived:
            self._append(row.kind, row.id, row.wall, self._as_fact(row, rounds))

    def expire(self, ids: Iterable[str], wall: int) -> None:
        """Wait no longer for the answers to some decisions."""
        for name in ids:
            self._append(facts.EXPIRED, name, wall, b"")

    def due(self, wall: int, most: int) -> list[str]:
        """Return the decisions whose wait is over, some of them if they are many."""
        return self.core.due(self._moment(wall), self.core.rounds)[:most]

    def _moment(self, wall: int) -> Moment:
        """Return a moment; its clock never goes back."""
        return Moment(wall, max(self.clock, wall))

    def _append(self, kind: int, id: str | None, wall: int, body: bytes) -> None:
        fact = Fact(self.seq + 1, kind, id, self._moment(wall), body)
        self._do(fact)
        self.new.append(fact)

    def _do(self, fact: Fact) -> None:
        replay_fact(self.core, fact)
        self.seq = fact.seq
        self.clock = fact.now.clock
        if fact.kind in DECISIONS:
            self._count(fact)

    def _as_fact(self, row: Arrived, rounds: Mapping[str, int]) -> bytes:
        """Return what a fact tells: a decision gets its round now, in the order in which all are told."""
        if row.kind in DECISIONS:
            told = replace(facts.decode_decided(row.body), round=self.core.rounds + 1)
            if row.kind == facts.ISSUED_ELSEWHERE and row.id is not None:
                self.issued[row.id] = told.round
            return facts.encode(told)
        if row.kind == facts.REDEEMED and row.id is not None:
            redeemed = facts.decode_redeemed(row.body)
            known = self.issued[row.id] if row.id in self.issued else rounds[row.id]
            return facts.encode(replace(redeemed, decided=replace(redeemed.decided, round=known)))
        return row.body

    def _count(self, fact: Fact) -> None:
        told = facts.decode_decided(fact.body)
        self.has_new_names |= bool(told.names)
        second = fact.now.wall // NS
        decisions, explored = self._seconds.get(second, (0, 0))
        self._seconds[second] = decisions + 1, explored + (told.label != told.greedy)

    def seconds(self, wall: int) -> Seconds:
        """Return how many decisions there were in each of the last seconds; older ones are forgotten."""
        first = wall // NS - SECONDS
        self._seconds = {second: counts for second, counts in self._seconds.items() if second >= first}
        return self._seconds

    def stats(self, wall: int) -> StatsReply:
        """Return what the model counts."""
        return stats_reply(self.core, self._moment(wall), Rates())

    def pack(self) -> bytes:
        """Return the whole state, for the next learner."""
        more = {"names": self.core.encoder.names(), "clock": self.clock}
        return compress(pack_core(self.core, self.recipe, more))
