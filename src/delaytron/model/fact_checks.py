"""Facts as they come from a disk: compiled code must not see numbers that no model can have written."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from delaytron.errors import JournalError
from delaytron.journal.records import ANSWERED, CANCELLED, EXPIRED, Fact, Status
from delaytron.learners.rows import check_row
from delaytron.model import facts
from delaytron.model.core import Core
from delaytron.model.encoding import FeatureEncoder
from delaytron.records import Ints, Row


class Known(NamedTuple):
    """Against what a fact is held: the journal's configuration and table of ids, and the state before the fact."""

    config: bytes
    status: Status | None
    core: Core
    encoder: FeatureEncoder


def check_fact(fact: Fact, known: Known) -> None:
    """Raise if a fact is damaged, or the table of ids tells something else of its decision."""
    check = CHECKS.get(fact.kind)
    if check is None:
        raise JournalError(f"its kind is {fact.kind}, which this version does not know")
    check(fact, known)


def kind_of(kind: int) -> str:
    """Return the name of a kind of facts."""
    return facts.KINDS[kind] if 0 <= kind < len(facts.KINDS) else f"kind {kind}"


def _check_created(fact: Fact, known: Known) -> None:
    if fact.seq != 1 or fact.body != known.config:
        raise JournalError("it has another configuration than the journal")


def _check_decided(fact: Fact, known: Known) -> None:
    told = facts.decode_decided(fact.body)
    n_classes = len(known.core.classes.names)
    _check_shape(told.row, known.encoder)
    check_row(told.row.values)
    labels = told.labels(known.core.classes.allowed(None))
    if labels.size == 0 or not _ascending_below(labels, n_classes):
        raise JournalError(f"it allows the labels {labels[:10].tolist()} of {n_classes} classes")
    if known.status is None or known.status.label != told.label:
        raise JournalError(f"it tells of label {told.label}, the table of ids has {_word(known.status)}")


def _check_shape(row: Row, encoder: FeatureEncoder) -> None:
    count = row.values.size
    if encoder.sparse:
        good = row.indices is not None and row.indices.size == count
        good = good and _ascending_below(row.indices, encoder.n_features)
    else:
        good = row.indices is None and count == encoder.n_features
    if not (good and np.isfinite(row.values).all()):
        raise JournalError(f"its row of {count} numbers does not fit {encoder.n_features} features")


def _ascending_below(numbers: Ints, limit: int) -> bool:
    inside = numbers.size == 0 or 0 <= int(numbers[0]) <= int(numbers[-1]) < limit
    return inside and bool((numbers[1:] > numbers[:-1]).all())


def _check_answered(fact: Fact, known: Known) -> None:
    value = facts.decode(fact.body)
    _check_value(value, known.core)
    if known.status is None or known.status.status != ANSWERED or known.status.value != value:
        raise JournalError(f"it tells {value!r}, the table of ids has {_word(known.status)}")


def _check_value(value: Any, core: Core) -> None:
    is_label = core.learner.feedback_type == "label"
    most = len(core.classes.names) - 1 if is_label else 1
    good = isinstance(value, float) and 0 <= value <= most and (value.is_integer() or not is_label)
    if not good:
        raise JournalError(f"its answer is {value!r}, which must be from 0 to {most}")


def _check_expired(_: Fact, known: Known) -> None:
    allowed = (EXPIRED, ANSWERED) if known.core.as_wrong else (EXPIRED,)
    if known.status is None or known.status.status not in allowed:
        raise JournalError(f"the table of ids has {_word(known.status)}")


def _check_cancelled(_: Fact, known: Known) -> None:
    if known.status is None or known.status.status != CANCELLED:
        raise JournalError(f"the table of ids has {_word(known.status)}")


def _check_class(fact: Fact, _: Known) -> None:
    facts.decode(fact.body)


def _word(status: Status | None) -> str:
    if status is None:
        return "nothing"
    word = ("open", "answered", "expired", "cancelled")[status.status]
    return f"label {status.label}, {word}" + ("" if status.value is None else f" {status.value!r}")


CHECKS: dict[int, Callable[[Fact, Known], None]] = {
    facts.CREATED: _check_created,
    facts.DECIDED: _check_decided,
    facts.ANSWERED: _check_answered,
    facts.EXPIRED: _check_expired,
    facts.CANCELLED: _check_cancelled,
    facts.CLASS_ADDED: _check_class,
    facts.CLASS_RETIRED: _check_class,
}
