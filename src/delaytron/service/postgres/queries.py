"""What the learner asks of the tables, and what those who verify ask."""

from delaytron.journal.clock import Moment
from delaytron.journal.records import Fact

CLOCK = "SELECT delaytron.now()"
MODELS = "SELECT number, recipe FROM delaytron.models ORDER BY number"
UNPUBLISHED = """
SELECT number FROM delaytron.models LEFT JOIN delaytron.published ON model = number
WHERE (SELECT max(seq) FROM delaytron.facts WHERE facts.model = number) > greatest(1, published.seq)
"""
RECIPE = "SELECT recipe FROM delaytron.models WHERE number = %s"
NEWEST_SNAPSHOT = "SELECT seq, body FROM delaytron.snapshots WHERE model = %s ORDER BY seq DESC LIMIT 1"
FACTS_AFTER = """
SELECT seq, kind, id, wall, clock, body FROM delaytron.facts WHERE model = %s AND seq > %s ORDER BY seq LIMIT %s
"""
WAITING = """
SELECT DISTINCT model FROM (SELECT model FROM delaytron.inbox WHERE model <> ALL(%s) ORDER BY place LIMIT %s) AS first
"""
TAKE = """
WITH first AS (SELECT place FROM delaytron.inbox WHERE model = ANY(%s) ORDER BY place LIMIT %s)
DELETE FROM delaytron.inbox USING first WHERE inbox.place = first.place
RETURNING inbox.model, inbox.place, inbox.kind, inbox.id, inbox.wall, inbox.body
"""
ROUNDS = "SELECT id, round FROM delaytron.tokens WHERE model = %s AND id = ANY(%s)"
EXPIRE = """
WITH due AS (
    SELECT model, id FROM delaytron.ids WHERE model = %s AND id = ANY(%s) AND status = %s FOR UPDATE SKIP LOCKED
)
UPDATE delaytron.ids SET status = %s FROM due WHERE ids.model = due.model AND ids.id = due.id RETURNING ids.id
"""
APPEND = """
INSERT INTO delaytron.facts (model, seq, kind, id, wall, clock, body)
SELECT * FROM unnest(%b::int[], %b::bigint[], %b::smallint[], %b::text[], %b::bigint[], %b::bigint[], %b::bytea[])
"""
ISSUE = "INSERT INTO delaytron.tokens (model, id, round) SELECT * FROM unnest(%b::int[], %b::text[], %b::bigint[])"
PUBLISH = """
INSERT INTO delaytron.published (model, seq, wall, body, names) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (model) DO UPDATE SET seq = excluded.seq, wall = excluded.wall, body = excluded.body,
    names = coalesce(excluded.names, published.names)
"""
PUT_SNAPSHOT = "INSERT INTO delaytron.snapshots (model, seq, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
DROP_SNAPSHOTS = """
DELETE FROM delaytron.snapshots WHERE model = %s AND seq NOT IN (
    SELECT seq FROM delaytron.snapshots WHERE model = %s ORDER BY seq DESC LIMIT %s)
"""
DROP_REQUESTS = "DELETE FROM delaytron.requests WHERE wall < delaytron.now() - %s"
PAGE = 2000  # facts that are read at once


def as_fact(row: tuple[int, int, str | None, int, int, bytes]) -> Fact:
    """Return a row as a fact."""
    seq, kind, name, wall, clock, body = row
    return Fact(seq, kind, name, Moment(wall, clock), body)
