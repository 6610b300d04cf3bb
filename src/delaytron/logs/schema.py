"""The one schema of a log: a row for each decision, with what came of it; docs/howto/logs.md describes its columns."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from delaytron.errors import InvalidInput
from delaytron.extras import needs

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "1"
NAMED, DENSE, SPARSE = "named", "dense", "sparse"  # JSON objects; vectors; vectors of which most numbers are 0
REQUIRED = ("id", "features", "label", "prob", "outcome")
TIMES = ("decided_at", "occurred_at", "received_at")
LARGEST_TIME = 2**63 - 1  # nanoseconds since 1970: in the year 2262
EXPECTED = "write it with dt.logs.write_parquet, dt.logs.from_arrays or delaytron export"


class About(NamedTuple):
    """What all rows of a log share; it stands in the metadata of the schema.

    `classes` are the names of the labels. `n_features` is None where features have names. The log was observed until
    `until`, in nanoseconds since 1970; None stands for the latest time in it. `actions` has what is known of each
    class, a dict of features by label, where a log of another tool says it.
    """

    classes: tuple[Any, ...]
    n_features: int | None = None
    until: int | None = None
    actions: tuple[dict[str, Any], ...] | None = None


def log_schema(kind: str, about: About) -> "pa.Schema":
    """Return the schema of a log whose features are `named`, `dense` or `sparse`.

    Examples
    --------
    >>> log_schema("dense", About(("a", "b"), n_features=3)).names
    ['id', 'decided_at', 'features', 'allowed', 'label', 'prob', 'probabilities', 'learner', 'outcome', 'occurred_at', \
'received_at', 'weight', 'position']
    """
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    time = pa.timestamp("ns", tz="UTC")
    columns = {
        "id": pa.string(),
        "decided_at": time,
        "features": _feature_types()[kind],
        "allowed": pa.list_(pa.int32()),
        "label": pa.int32(),
        "prob": pa.float64(),
        "probabilities": pa.list_(pa.float64()),
        "learner": pa.string(),
        "outcome": pa.float64(),
        "occurred_at": time,
        "received_at": time,
        "weight": pa.float64(),
        "position": pa.int32(),
    }
    fields = [pa.field(name, of, name not in REQUIRED[:4]) for name, of in columns.items()]
    return pa.schema(fields, metadata=encode_about(about))


def _feature_types() -> "dict[str, pa.DataType]":
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    pairs = [("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
    return {NAMED: pa.string(), DENSE: pa.list_(pa.float64()), SPARSE: pa.struct(pairs)}


def kind_of(schema: "pa.Schema") -> str:
    """Return how features stand in a table, by the type of their column."""
    needs("pyarrow")
    from pyarrow import types  # noqa: PLC0415 - slow to import

    given = schema.field("features").type
    if types.is_string(given) or types.is_large_string(given):
        return NAMED
    return SPARSE if types.is_struct(given) else DENSE


def encode_about(about: About) -> dict[str, str]:
    """Return the metadata of a schema."""
    texts = {"delaytron.log": VERSION, "delaytron.classes": json.dumps(about.classes, ensure_ascii=False)}
    if about.n_features is not None:
        texts["delaytron.n_features"] = str(about.n_features)
    if about.until is not None:
        texts["delaytron.until"] = str(about.until)
    if about.actions is not None:
        texts["delaytron.actions"] = json.dumps(about.actions, ensure_ascii=False)
    return texts


def decode_about(metadata: Mapping[bytes, bytes] | None) -> About:
    """Read the metadata of a schema, or raise."""
    texts = {name.decode("utf-8", "replace"): value for name, value in (metadata or {}).items()}
    version = texts.get("delaytron.log")
    if version is None:
        raise InvalidInput(f"a log needs the key delaytron.log in the metadata of its schema, got none; {EXPECTED}")
    if version != VERSION.encode():
        raise InvalidInput(f"a log must be of version {VERSION}, got {version[:20]!r}; update delaytron, or {EXPECTED}")
    try:
        classes = json.loads(texts.get("delaytron.classes", b"null"))
        actions = json.loads(texts.get("delaytron.actions", b"null"))
        n_features, until = (_number(texts.get(f"delaytron.{name}")) for name in ("n_features", "until"))
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the metadata of the log cannot be read: {problem}; {EXPECTED}") from None
    return About(check_classes(classes), n_features, until, _check_actions(actions, len(classes)))


def _number(text: bytes | None) -> int | None:
    if text is None:
        return None
    number = int(text)
    if not -LARGEST_TIME <= number <= LARGEST_TIME:
        raise ValueError(f"{number} is too large")
    return number


def _check_actions(actions: Any, n_classes: int) -> tuple[dict[str, Any], ...] | None:
    """Return what is known of the classes, or raise."""
    if actions is None:
        return None
    if not isinstance(actions, list) or len(actions) != n_classes or not all(isinstance(one, dict) for one in actions):
        raise InvalidInput(f"delaytron.actions must be a list of {n_classes} objects, one for each class; {EXPECTED}")
    return tuple(actions)


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return names of classes: at least two, all strings or all integers, no two alike."""
    names = tuple(classes) if isinstance(classes, list | tuple) else ()
    alike = all(isinstance(name, str) for name in names) or all(type(name) is int for name in names)
    if len(names) < 2 or not alike or len(set(names)) < len(names):
        shown = repr(classes)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        raise InvalidInput(f"classes must be two or more different strings, or integers; got {shown}")
    return names
