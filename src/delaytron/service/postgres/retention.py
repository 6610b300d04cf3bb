"""Retention: the facts of decisions that are settled and old may go; what became of them stays."""

from delaytron.errors import InvalidInput
from delaytron.journal.records import OPEN
from delaytron.model import facts
from delaytron.model.retention import read_age
from delaytron.service.postgres.connections import reading

MODEL = "SELECT number FROM delaytron.models WHERE name = %s"
SETTLED = """
CREATE TEMP TABLE settled ON COMMIT DROP AS
SELECT facts.id FROM delaytron.facts JOIN delaytron.ids ON ids.model = facts.model AND ids.id = facts.id
WHERE facts.model = %(model)s AND ids.status <> %(open)s
    AND facts.id NOT IN (SELECT id FROM delaytron.inbox WHERE model = %(model)s AND id IS NOT NULL)
GROUP BY facts.id
HAVING max(facts.seq) <= (SELECT min(seq) FROM delaytron.snapshots WHERE model = %(model)s)
    AND max(facts.wall) < delaytron.now() - %(age)s
"""
MARK = "UPDATE delaytron.ids SET purged = true WHERE model = %(model)s AND id IN (SELECT id FROM settled)"
DROP = """
DELETE FROM delaytron.facts WHERE model = %(model)s AND (
    id IN (SELECT id FROM settled)
    OR kind = ANY(%(tokens)s) AND wall < delaytron.now() - %(age)s
        AND seq <= (SELECT min(seq) FROM delaytron.snapshots WHERE model = %(model)s))
"""
TOKENS = [facts.ISSUED_ELSEWHERE, facts.REDEEMED]


def purge_model(dsn: str, name: str, older_than: str) -> int:
    """Drop the facts of decisions that were settled longer ago than a time such as "30d"; return how many.

    They must be in all snapshots that are kept. Every id stays, with what became of it: an answer to it is refused as
    gone, never as unknown. The service may run meanwhile.
    """
    age = read_age(older_than)
    with reading(dsn) as connection:
        rows = connection.execute(MODEL, (name,)).fetchall()
        if not rows:
            raise InvalidInput(f"there is no model {name!r} in this database; check its name")
        values = {"model": rows[0][0], "age": age, "open": OPEN, "tokens": TOKENS}
        connection.execute(SETTLED, values)
        connection.execute(MARK, values)
        return connection.execute(DROP, values).rowcount
