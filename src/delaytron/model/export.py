"""The decisions of a journal as a table for others: what was chosen, with which probability, and what came of it."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.journal.records import ANSWERED, OPEN
from delaytron.journal.view import JournalView
from delaytron.model import facts
from delaytron.model.fact_checks import WORDS, begin

if TYPE_CHECKING:
    import pyarrow as pa

Started = Callable[[int], Callable[[int], object]]

GROUP = 10_000  # decisions that are read, and written as a row group, at once
ENDINGS = (facts.ANSWERED, facts.EXPIRED, facts.CANCELLED, facts.RECORDED, facts.REDEEMED)
DECISIONS = """
SELECT facts.seq, facts.id, facts.wall, facts.body, ids.status, ids.value, ended.wall, ended.redeemed
FROM facts LEFT JOIN ids ON ids.id = facts.id LEFT JOIN temp.ended ON ended.id = facts.id
WHERE facts.kind IN (?, ?, ?) AND facts.seq > ? ORDER BY facts.seq LIMIT ?
"""
ENDED = """
INSERT OR REPLACE INTO ended SELECT id, wall, CASE kind WHEN ? THEN body END FROM facts
WHERE kind IN (?, ?, ?, ?, ?) ORDER BY seq
"""


class Exported(NamedTuple):
    """How many decisions were written; of the `purged` ones nothing is left to be written."""

    decided: int
    purged: int


class _Made(NamedTuple):
    """A decision, and what became of it."""

    seq: int
    id: str
    wall: int
    told: facts.Decided
    status: int
    value: float | None
    ended: int | None


class _About(NamedTuple):
    """What all decisions of a journal share."""

    names: Sequence[Any]
    learner: str
    told_labels: bool


def export_journal(path: str | Path, target: Path, started: Started | None = None) -> Exported:
    """Write the decisions of a journal to a Parquet file, some thousand at once; another process may go on writing.

    Parameters
    ----------
    path
        The journal. What was committed when this began is written.
    target
        The file; after an error it is as it was.
    started
        Called with the number of decisions; returns what is called with how many were just written.

    Examples
    --------
    >>> import delaytron as dt, pyarrow.parquet, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "decisions.parquet")
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         said = model.feedback(model.decide([1.0, 0.5], id="req-1").id, reward=0.7)
    ...         export_journal(f"{folder}/a.db", file)
    ...     pyarrow.parquet.read_table(file).select(["id", "values", "outcome", "status"]).to_pylist()
    Exported(decided=1, purged=0)
    [{'id': 'req-1', 'values': [1.0, 0.5], 'outcome': 0.7, 'status': 'answered'}]
    """
    needs("pyarrow")
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

    with JournalView(path) as view:
        about = _read_about(view)
        schema = _schema(about)
        counts = view.count_by_kind()
        count = sum(counts.get(kind, 0) for kind in facts.DECISIONS)
        advance = None if started is None else started(count)
        with replacing(Path(target)) as file, ParquetWriter(file, schema) as writer:
            for made in _groups(view):
                writer.write_table(_table(made, about, schema))
                if advance is not None:
                    advance(len(made))
        return Exported(count, view.purged())


def _read_about(view: JournalView) -> _About:
    recipe, core = begin(view)
    names = core.classes.names if view.classes is None else json.loads(view.classes)
    if not all(isinstance(name, int) for name in names):
        names = [str(name) for name in names]  # a column has one type
    return _About(names, recipe.asked["learner"], core.learner.feedback_type == "label")


def _schema(about: _About) -> "pa.Schema":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    name = pa.int64() if isinstance(about.names[0], int) else pa.string()
    time = pa.timestamp("us", tz="UTC")
    word = pa.dictionary(pa.int8(), pa.string())
    columns = {
        "id": pa.string(),
        "round": pa.int64(),
        "decided_at": time,
        "indices": pa.list_(pa.uint32()),
        "values": pa.list_(pa.float64()),
        "allowed": pa.list_(name),
        "label": name,
        "greedy": name,
        "prob": pa.float64(),
        "learner": word,
        "outcome": pa.float64(),
        "status": word,
        "received_at": time,
    }
    return pa.schema(columns)


def _groups(view: JournalView) -> Iterator[list[_Made]]:
    """Iterate over all decisions in their order, some thousand at once."""
    view.rows("CREATE TEMP TABLE ended (id TEXT PRIMARY KEY, wall INTEGER, redeemed BLOB) WITHOUT ROWID")
    view.rows(ENDED, (facts.REDEEMED, *ENDINGS))
    view.rows("INSERT OR REPLACE INTO ended SELECT id, wall, NULL FROM inbox ORDER BY place")
    after = 0
    while rows := view.rows(DECISIONS, (*facts.DECISIONS, after, GROUP)):
        yield [_made(*row) for row in rows]
        after = rows[-1][0]


def _made(seq: int, id: str, wall: int, body: bytes, *became: Any) -> _Made:
    status, value, ended, redeemed = became
    try:
        if status is None:  # it was handed out
            status = OPEN if redeemed is None else ANSWERED
            value = None if redeemed is None else facts.decode_redeemed(redeemed).value
        return _Made(seq, id, wall, facts.decode_decided(body), status, value, ended)
    except ValueError as problem:
        raise InvalidInput(f"fact {seq} is damaged: {problem}; see delaytron verify") from None


def _table(made: list[_Made], about: _About, schema: "pa.Schema") -> "pa.Table":
    """Return decisions as a table."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    told = [one.told for one in made]
    columns = {
        "id": [one.id for one in made],
        "round": [one.round for one in told],
        "decided_at": [one.wall // 1000 for one in made],
        "indices": _lists([one.indices for one in told], "<u4"),
        "values": _lists([one.values for one in told], "<f8"),
        "allowed": [_allowed(one, about.names) for one in told],
        "label": [about.names[one.label] for one in told],
        "greedy": [about.names[one.greedy] for one in told],
        "prob": [one.prob for one in told],
        "learner": [about.learner] * len(made),
        "outcome": [_outcome(one, about.told_labels) for one in made],
        "status": [WORDS[one.status] for one in made],
        "received_at": [None if one.ended is None else one.ended // 1000 for one in made],
    }
    arrays = {name: pa.array(column, type=schema.field(name).type) for name, column in columns.items()}
    return pa.table(arrays, schema=schema)


def _lists(stored: Sequence[bytes | None], kind: str) -> list[Any]:
    return [None if content is None else np.frombuffer(content, kind) for content in stored]


def _allowed(told: facts.Decided, names: Sequence[Any]) -> list[Any] | None:
    """Return the names of the classes to which a decision was restricted."""
    return None if told.allowed is None else [names[label] for label in np.frombuffer(told.allowed, "<u4")]


def _outcome(made: _Made, told_labels: bool) -> float | None:
    """Return the reward of a decision, if there is one."""
    if made.value is None:
        return None
    return float(made.value == made.told.label) if told_labels else made.value
