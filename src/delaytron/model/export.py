"""Exports of a model: the decisions of its journal as a log, its greedy prediction as an ONNX file."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from delaytron.answers import Status
from delaytron.checks import check_path, reason_of
from delaytron.errors import InvalidInput, Setting
from delaytron.extras import needs
from delaytron.files.atomic import replacing
from delaytron.journal.sqlite import SqliteStore
from delaytron.journal.store import Store
from delaytron.journal.view import JournalView
from delaytron.learners.onnx import write_form
from delaytron.learners.predictions import linear_form
from delaytron.logs.schema import DENSE, SPARSE, About, log_schema
from delaytron.model import facts
from delaytron.model.classes import Classes, Name
from delaytron.model.encoders import DenseEncoder, NamedEncoder
from delaytron.model.engine import Engine
from delaytron.model.state import State
from delaytron.model.verify import begin

GROUP = 10_000  # decisions that are read, and written as a row group, at once
LATEST = "SELECT max(wall) FROM (SELECT wall FROM facts UNION ALL SELECT wall FROM inbox)"
CHANGES = "SELECT seq, kind, body FROM facts WHERE kind IN (?, ?) ORDER BY seq"
DECISIONS = """
SELECT facts.seq, facts.id, facts.wall, facts.body, ids.status, ids.value, ended.wall
FROM facts LEFT JOIN ids ON ids.id = facts.id LEFT JOIN temp.ended ON ended.id = facts.id
WHERE facts.kind IN (?, ?) AND facts.seq > ? ORDER BY facts.seq LIMIT ?
"""
ENDED = """
INSERT OR REPLACE INTO ended SELECT id, wall FROM facts
WHERE kind IN (?, ?, ?, ?) ORDER BY seq
"""
ENDINGS = (facts.ANSWERED, facts.EXPIRED, facts.CANCELLED, facts.ANSWERED_LATE)

Started = Callable[[int], Callable[[int], object]]


class Exported(NamedTuple):
    """How many decisions were written; `purged` ones have no facts any more, and are not among them."""

    decided: int
    purged: int


class _Made(NamedTuple):
    """A decision, its status and its answer."""

    seq: int
    id: str
    wall: int
    decided: facts.Decided
    status: int
    value: float | None
    ended: int | None


class _Shared(NamedTuple):
    """What all decisions of a journal share; `changes` are the facts about its classes, in their order."""

    about: About
    learner: str
    answers_are_labels: bool
    sparse: bool
    first_classes: list[Name]
    changes: list[tuple[int, int, Name]]


def export_own(store: Store, target: str | Path) -> Exported:
    """Write the decisions of an open model, see `export_journal`; raise InvalidInput if it has no journal."""
    if not isinstance(store, SqliteStore):
        raise InvalidInput(
            "a model without a journal keeps no decisions to write", ("make it with ", Setting("journal", "path"))
        )
    return export_journal(store.path, check_path("path", target))


def export_journal(path: str | Path, target: Path, started: Started | None = None) -> Exported:
    """Write the decisions of a journal to a Parquet file that `dt.logs.read_parquet` reads.

    Another process may continue to write to the journal. Besides the columns of a log there are `round`, `greedy` (the
    label that looked best), `status`, and `ended_at`: when a decision was answered, cancelled or expired.

    Parameters
    ----------
    path
        The journal; what was committed when this began is written.
    target
        The file; after an error it is unchanged.
    started
        Called with the number of decisions; returns a function that is called with the number of decisions written
        since its last call.

    Examples
    --------
    >>> import delaytron as dt, pyarrow.parquet, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "decisions.parquet")
    ...     with dt.Model(classes=["a", "b"], features=2, journal=f"{folder}/a.db", seed=1) as model:
    ...         reply = model.feedback(model.decide([1.0, 0.5], id="req-1").id, reward=0.7)
    ...         export_journal(f"{folder}/a.db", file)
    ...     pyarrow.parquet.read_table(file).select(["id", "features", "outcome", "status"]).to_pylist()
    ...     dt.logs.read_parquet(file)
    Exported(decided=1, purged=0)
    [{'id': 'req-1', 'features': [1.0, 0.5], 'outcome': 0.7, 'status': 'answered'}]
    Log(1 decisions, 1 with an outcome, 2 classes, 2 features)
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

    with JournalView(path) as view:
        shared = _read_shared(view)
        schema = log_schema(SPARSE if shared.sparse else DENSE, shared.about)
        for name, kind in (("round", pa.int64()), ("greedy", pa.int32()), ("status", pa.string())):
            schema = schema.append(pa.field(name, kind, nullable=False))
        schema = schema.append(pa.field("ended_at", pa.timestamp("ns", tz="UTC")))
        counts = view.count_by_kind()
        count = sum(counts.get(kind, 0) for kind in facts.DECISIONS)
        advance = None if started is None else started(count)
        allowed = _AllowedLabels(shared)
        with replacing(Path(target)) as file, ParquetWriter(file, schema) as writer:
            for made in _groups(view):
                columns = _columns(made, shared, allowed)
                empty = [None] * len(made)
                arrays = [pa.array(columns.get(field.name, empty), type=field.type) for field in schema]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
                if advance is not None:
                    advance(len(made))
        return Exported(count, view.purged())


def _read_shared(view: JournalView) -> _Shared:
    recipe, state = begin(view)
    rows = view.rows(CHANGES, (facts.CLASS_ADDED, facts.CLASS_RETIRED))
    changes = [(seq, kind, facts.decode(body)) for seq, kind, body in rows]
    first = list(state.classes.names)
    names = list(dict.fromkeys([*first, *(name for _, kind, name in changes if kind == facts.CLASS_ADDED)]))
    if not all(isinstance(name, int) for name in names):
        names = [str(name) for name in names]  # a column has one type
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InvalidInput(
                f"a log names all classes by text, and cannot distinguish {twice} from {twice!r}",
                "name one of them differently in a new model",
            )
    about = About(tuple(names), state.encoder.n_features, view.rows(LATEST)[0][0])
    by_label = state.learner.feedback_type == "label"
    return _Shared(about, recipe.asked["learner"], by_label, state.encoder.sparse, first, changes)


class _AllowedLabels:
    """The labels that each decision was chosen from; classes are added and retired between decisions."""

    def __init__(self, shared: _Shared) -> None:
        self.classes = Classes(shared.first_classes)
        self.changes = iter(shared.changes)
        self.next = next(self.changes, None)
        self.count = len(shared.about.classes)

    def of(self, made: _Made) -> Any:
        """Return the labels of a decision, None for all; decisions must come in the order of their facts."""
        while self.next is not None and self.next[0] < made.seq:
            _, kind, name = self.next
            (self.classes.add if kind == facts.CLASS_ADDED else self.classes.retire)(name)
            self.next = next(self.changes, None)
        restricted = made.decided.allowed_labels
        labels = self.classes.allowed(None) if restricted is None else restricted
        return None if labels.size == self.count else labels


def _groups(view: JournalView) -> Iterator[list[_Made]]:
    """Iterate over all decisions in their order, in groups of 10,000; raise InvalidInput at a damaged fact."""
    view.rows("CREATE TEMP TABLE ended (id TEXT PRIMARY KEY, wall INTEGER) WITHOUT ROWID")
    view.rows(ENDED, ENDINGS)
    view.rows("INSERT OR REPLACE INTO ended SELECT id, wall FROM inbox ORDER BY place")
    after = 0
    while rows := view.rows(DECISIONS, (*facts.DECISIONS, after, GROUP)):
        group = []
        for seq, issued, wall, body, *status_value_ended in rows:
            try:
                group.append(_Made(seq, issued, wall, facts.decode_decided(body), *status_value_ended))
            except ValueError as problem:
                raise InvalidInput(
                    f"fact {seq} is damaged: {reason_of(problem)}", "restore the journal from a backup"
                ) from None
        yield group
        after = rows[-1][0]


def _columns(made: list[_Made], shared: _Shared, allowed: _AllowedLabels) -> dict[str, list[Any]]:
    """Return the columns of some decisions, by the names of the schema."""
    decided = [one.decided for one in made]
    features: list[Any] = []
    for one in decided:
        values = np.frombuffer(one.values, "<f8")
        if one.indices is None:
            features.append(values)
        else:
            features.append({"indices": np.frombuffer(one.indices, "<u4"), "values": values})
    outcomes = [one.value for one in made]
    if shared.answers_are_labels:  # a log has rewards
        outcomes = [None if one.value is None else float(one.value == one.decided.label) for one in made]
    return {
        "id": [one.id for one in made],
        "decided_at": [one.wall for one in made],
        "features": features,
        "allowed": [allowed.of(one) for one in made],
        "label": [one.label for one in decided],
        "prob": [one.prob for one in decided],
        "learner": [shared.learner] * len(made),
        "outcome": outcomes,
        "received_at": [None if outcome is None else one.ended for one, outcome in zip(made, outcomes, strict=True)],
        "round": [one.round for one in decided],
        "greedy": [one.greedy for one in decided],
        "status": [Status(one.status).name.lower() for one in made],
        "ended_at": [one.ended for one in made],
    }


def export(engine: Engine, path: str | Path) -> None:
    """Write `predict` as an ONNX graph that returns the names of classes, of those that are not retired.

    Raises InvalidInput if features are hashed, or the classes are named by both texts and integers.
    """
    encoder = engine.state.encoder
    if not isinstance(encoder, DenseEncoder):
        raise InvalidInput(
            "hashed features cannot be exported: an ONNX graph reads numbers",
            ("make the model with ", Setting("features", "[names]"), " or n"),
        )

    def known(state: State) -> tuple[Any, list[Any], str]:
        form = linear_form(state.learner).only(state.classes.allowed(None))
        return form, state.classes.active, state.learner.name

    form, names, learner = engine.read(known)
    if all(isinstance(name, int) for name in names):
        labels: Any = np.array(names, np.int64)
    elif all(isinstance(name, str) for name in names):
        labels = np.array(names, object)
    else:
        raise InvalidInput(
            "classes must be all text or all integers to be exported, a tensor cannot hold both",
            "name them all by text",
            parameter="classes",
        )
    notes = {"learner": learner, "classes": json.dumps(names), "features": json.dumps(encoder.feature_names)}
    write_form(form, path, labels, missing=isinstance(encoder, NamedEncoder), notes=notes)
