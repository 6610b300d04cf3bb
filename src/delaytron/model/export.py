"""The decisions of a journal as a log: what was chosen, with which probability, and what came of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.checks import check_path, reason_of
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.journal import FactStore
from delaytron.journal.records import ANSWERED, OPEN
from delaytron.journal.view import JournalView
from delaytron.logs.schema import DENSE, SPARSE, About, log_schema
from delaytron.model import facts
from delaytron.model.classes import Classes, Name
from delaytron.model.fact_checks import WORDS, begin
from delaytron.model.memory import MemoryStore

if TYPE_CHECKING:
    import pyarrow as pa

Started = Callable[[int], Callable[[int], object]]

GROUP = 10_000  # decisions that are read, and written as a row group, at once
CHANGES = (facts.CLASS_ADDED, facts.CLASS_RETIRED)
LATEST = "SELECT max(wall) FROM (SELECT wall FROM facts UNION ALL SELECT wall FROM inbox)"
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


class _Shared(NamedTuple):
    """What all decisions of a journal share; `changes` of its classes are facts, in their order."""

    about: About
    learner: str
    told_labels: bool
    sparse: bool
    first_classes: list[Name]
    changes: list[tuple[int, int, Name]]


def export_own(store: FactStore | MemoryStore, target: str | Path) -> Exported:
    """Write the decisions of a model that is open; one without a journal has none."""
    if not isinstance(store, FactStore):
        raise InvalidInput("a model without a journal keeps no decisions to write; make it with journal=path")
    return export_journal(store.path, check_path("path", target))


def export_journal(path: str | Path, target: Path, started: Started | None = None) -> Exported:
    """Write the decisions of a journal to a Parquet file that `dt.logs.read_parquet` reads, some thousand at once.

    Another process may go on writing. Beside the columns of a log there are `round`, `greedy` (what looked best),
    `status` and `ended_at`, when a decision was answered, cancelled or expired.

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
    ...     pyarrow.parquet.read_table(file).select(["id", "features", "outcome", "status"]).to_pylist()
    ...     dt.logs.read_parquet(file)
    Exported(decided=1, purged=0)
    [{'id': 'req-1', 'features': [1.0, 0.5], 'outcome': 0.7, 'status': 'answered'}]
    Log(1 decisions, 1 with an outcome, 2 classes, 2 features)
    """
    needs("pyarrow")
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

    with JournalView(path) as view:
        shared = _read_shared(view)
        schema = _schema(shared)
        counts = view.count_by_kind()
        count = sum(counts.get(kind, 0) for kind in facts.DECISIONS)
        advance = None if started is None else started(count)
        offers = _Offers(shared)
        with replacing(Path(target)) as file, ParquetWriter(file, schema) as writer:
            for made in _groups(view):
                writer.write_table(_table(made, shared, offers, schema))
                if advance is not None:
                    advance(len(made))
        return Exported(count, view.purged())


def _read_shared(view: JournalView) -> _Shared:
    recipe, core = begin(view)
    rows = view.rows("SELECT seq, kind, body FROM facts WHERE kind IN (?, ?) ORDER BY seq", CHANGES)
    changes = [(seq, kind, facts.decode(body)) for seq, kind, body in rows]
    first = list(core.classes.names)
    names = list(dict.fromkeys([*first, *(name for _, kind, name in changes if kind == facts.CLASS_ADDED)]))
    if not all(isinstance(name, int) for name in names):
        names = [str(name) for name in names]  # a column has one type
    about = About(tuple(names), core.encoder.n_features, view.rows(LATEST)[0][0])
    sparse = core.encoder.sparse
    return _Shared(about, recipe.asked["learner"], core.learner.feedback_type == "label", sparse, first, changes)


def _schema(shared: _Shared) -> "pa.Schema":
    """Return the schema of a log, with further columns."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    schema = log_schema(SPARSE if shared.sparse else DENSE, shared.about)
    for name, kind in (("round", pa.int64()), ("greedy", pa.int32()), ("status", pa.string())):
        schema = schema.append(pa.field(name, kind, nullable=False))
    return schema.append(pa.field("ended_at", pa.timestamp("ns", tz="UTC")))


class _Offers:
    """Which classes could be chosen, fact after fact: they come and go."""

    def __init__(self, shared: _Shared) -> None:
        self.classes = Classes(shared.first_classes)
        self.changes = iter(shared.changes)
        self.next = next(self.changes, None)
        self.count = len(shared.about.classes)

    def of(self, made: _Made) -> Any:
        """Return the labels among which a decision was made; None if they were all."""
        while self.next is not None and self.next[0] < made.seq:
            _, kind, name = self.next
            (self.classes.add if kind == facts.CLASS_ADDED else self.classes.retire)(name)
            self.next = next(self.changes, None)
        labels = made.told.labels(self.classes.allowed(None))
        return None if labels.size == self.count else labels


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
        raise InvalidInput(f"fact {seq} is damaged: {reason_of(problem)}; restore the journal from a backup") from None


def _table(made: list[_Made], shared: _Shared, offers: _Offers, schema: "pa.Schema") -> "pa.Table":
    """Return decisions as a table."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    told = [one.told for one in made]
    outcomes = [_outcome(one, shared.told_labels) for one in made]
    columns = {
        "id": [one.id for one in made],
        "decided_at": [one.wall for one in made],
        "features": [_features(one) for one in told],
        "allowed": [offers.of(one) for one in made],
        "label": [one.label for one in told],
        "prob": [one.prob for one in told],
        "learner": [shared.learner] * len(made),
        "outcome": outcomes,
        "received_at": [None if outcome is None else one.ended for one, outcome in zip(made, outcomes, strict=True)],
        "round": [one.round for one in told],
        "greedy": [one.greedy for one in told],
        "status": [WORDS[one.status] for one in made],
        "ended_at": [one.ended for one in made],
    }
    empty = [None] * len(made)
    arrays = [pa.array(columns.get(field.name, empty), type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _features(told: facts.Decided) -> Any:
    values = np.frombuffer(told.values, "<f8")
    return values if told.indices is None else {"indices": np.frombuffer(told.indices, "<u4"), "values": values}


def _outcome(made: _Made, told_labels: bool) -> float | None:
    """Return the reward of a decision, if there is one."""
    if made.value is None:
        return None
    return float(made.value == made.told.label) if told_labels else made.value
