"""What the tables tell of decisions, and how far the state of a front end is behind."""

from typing import Any

from msgspec.structs import replace

from delaytron.journal.clock import Moment
from delaytron.journal.ids import never_issued
from delaytron.journal.records import Status
from delaytron.model import facts
from delaytron.model.explaining import explain_row
from delaytron.model.waiting import NS
from delaytron.service.counts import Staleness
from delaytron.service.messages import DecisionState, ExplanationReply, StatsReply, WeightsReply
from delaytron.service.postgres.connections import Connections
from delaytron.service.postgres.deciding import FrontModel
from delaytron.service.postgres.folding import DECISIONS
from delaytron.service.postgres.publishing import Seconds, add_names
from delaytron.service.problems import nothing_left
from delaytron.service.rates import Rates
from delaytron.service.replies import decision_state, explanation_reply, weights_reply

FIND = f"""
SELECT ids.id, status, value, label, purged, body, wall FROM delaytron.ids LEFT JOIN LATERAL (
    SELECT body, wall FROM delaytron.facts AS told
    WHERE told.model = ids.model AND told.id = ids.id AND kind = {facts.ADOPTED}
    UNION ALL
    SELECT body, wall FROM delaytron.inbox AS waits
    WHERE waits.model = ids.model AND waits.id = ids.id AND kind = {facts.ADOPTED}
    LIMIT 1
) AS decided ON true WHERE ids.model = %s AND ids.id = %s
"""  # noqa: S608 - a number of ours, written out so that the index is found
RECENT = f"""
WITH last AS (
    (SELECT id, body, wall, true AS waits, place FROM delaytron.inbox
     WHERE model = %(model)s AND kind = {facts.ADOPTED} ORDER BY place DESC LIMIT %(count)s)
    UNION ALL
    (SELECT id, body, wall, false, seq FROM delaytron.facts
     WHERE model = %(model)s AND kind = {facts.ADOPTED} ORDER BY seq DESC LIMIT %(count)s)
)
SELECT last.id, status, value, label, purged, body, wall
FROM last JOIN delaytron.ids ON ids.model = %(model)s AND ids.id = last.id
ORDER BY waits DESC, place DESC LIMIT %(count)s
"""  # noqa: S608
SINCE = """
SELECT min(wall), count(*) FILTER (WHERE kind = ANY(%(kinds)s)) FROM (
    SELECT kind, wall FROM delaytron.facts WHERE model = %(model)s AND seq > %(seq)s
    UNION ALL SELECT kind, wall FROM delaytron.inbox WHERE model = %(model)s
) AS since
"""
NAMES = "SELECT names FROM delaytron.published WHERE model = %s AND names IS NOT NULL"


async def find_state(connections: Connections, front: FrontModel, id: str) -> DecisionState:
    """Return a decision, and what became of it; or raise."""
    return _state(front, await _find(connections, front, id))


async def recent_states(connections: Connections, front: FrontModel, count: int) -> list[DecisionState]:
    """Return the last decisions, the newest first."""
    rows = await connections.rows(RECENT, {"model": front.row.number, "count": count})
    return [_state(front, row) for row in rows]


async def _find(connections: Connections, front: FrontModel, id: str) -> tuple[Any, ...]:
    rows = await connections.rows(FIND, (front.row.number, id))
    if not rows:
        raise never_issued(id)
    return rows[0]


def _state(front: FrontModel, row: tuple[Any, ...]) -> DecisionState:
    name, status, value, label, purged, body, wall = row
    told = None if body is None else facts.decode_decided(body)
    now = None if wall is None else Moment(wall, wall)
    return decision_state(name, front.core.classes.names, Status(status, value, label, purged), told, now)


async def explain_decision(connections: Connections, front: FrontModel, id: str) -> ExplanationReply:
    """Return why a class looks best for the features of a decision."""
    *_, body, _ = await _find(connections, front, id)
    if body is None:
        raise nothing_left(id)
    await _learn_names(connections, front)
    return explanation_reply(explain_row(front.core, facts.decode_decided(body).row))


async def weights_of(connections: Connections, front: FrontModel) -> WeightsReply:
    """Return the weights that this front end decides with."""
    await _learn_names(connections, front)
    return weights_reply(front.core)


async def _learn_names(connections: Connections, front: FrontModel) -> None:
    """Know the names of features that other front ends saw."""
    for (names,) in await connections.rows(NAMES, (front.row.number,)):
        add_names(front.core, names)


async def stats_of(connections: Connections, front: FrontModel, now: int) -> StatsReply:
    """Return what the model counted when its state was published, and how far that is behind; `now` is in ns."""
    values = {"model": front.row.number, "seq": front.version.seq, "kinds": list(DECISIONS)}
    ((first, decisions),) = await connections.rows(SINCE, values)
    stats: StatsReply = front.published.stats
    age = max(0, now - front.version.wall) / NS
    per_second, exploration = _rates(front.published.seconds, now)
    oldest = None if stats.oldest_seconds is None else stats.oldest_seconds + age
    return replace(
        stats,
        decisions_per_second=per_second,
        exploration=exploration,
        oldest_seconds=oldest,
        staleness=staleness(0.0 if first is None else max(0, now - first) / NS, decisions),
    )


def _rates(seconds: Seconds, now: int) -> tuple[float, float | None]:
    """Return the rates of the last minute, of all front ends together."""
    second = 0.0
    rates = Rates(clock=lambda: second)
    for known, counts in sorted(seconds.items()):
        second = known
        rates.count(*counts)
    second = now / NS
    return rates.of_last_minute()


def staleness(seconds: float, decisions: int) -> Staleness:
    """Return how far a front end is behind, and what that costs.

    Examples
    --------
    >>> staleness(0.0, 0).bound
    'the state knows every answer: nothing is late but the answers themselves'
    """
    if not decisions and not seconds:
        return Staleness(0.0, 0, "the state knows every answer: nothing is late but the answers themselves")
    bound = (
        f"what came in the last {seconds:.1f} s is not known here yet, and {decisions:,} decisions were made since: it "
        f"is as if answers came up to {decisions:,} rounds later. If it were always so, the bound of theorem R1 for "
        f"delaytron (docs/explanation/theory.md) would have 4 * {decisions:,} more beside 1 + K / gamma in its root"
    )
    return Staleness(round(seconds, 3), decisions, bound)
