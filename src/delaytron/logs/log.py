"""A log: what was known, what was decided, with which probability, and what came of it."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.logs import columns
from delaytron.logs.log_checks import checked_table
from delaytron.logs.schema import decode_about, kind_of
from delaytron.records import Array, Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa


class Log:
    """Decisions and their outcomes, one row each; it does not change.

    `dt.logs.from_arrays` and the readers of `dt.logs` make one. Where a decision has no outcome yet, `outcomes` is NaN
    and the times of the outcome are the smallest 64-bit integer.

    Parameters
    ----------
    table : pyarrow.Table
        Columns and metadata as docs/howto/logs.md describes them. Columns that may be empty can be left out; others
        that the schema does not know are dropped.

    Examples
    --------
    >>> import delaytron as dt
    >>> log = dt.logs.from_arrays(features=[[1, 0], [0, 1]], labels=[2, 0], probs=[0.5, 0.8], rewards=[1, None],
    ...                           n_classes=3)
    >>> log
    Log(2 decisions, 1 with an outcome, 3 classes, 2 features)
    >>> log.labels, log.outcomes
    (array([2, 0]), array([ 1., nan]))
    """

    def __init__(self, table: "pa.Table") -> None:
        if not hasattr(table, "schema"):
            raise InvalidInput(f"table must be a pyarrow.Table, got {type(table).__name__}; see dt.logs.from_arrays")
        about = decode_about(table.schema.metadata)
        self._table = checked_table(table, about)
        self._about = about

    @property
    def table(self) -> "pa.Table":
        """The log as a table of the documented schema."""
        return self._table

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes; `labels` counts them from 0."""
        return self._about.classes

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self._about.classes)

    @property
    def actions(self) -> tuple[dict[str, Any], ...] | None:
        """What is known of each class, a dict of features by label; None where the log does not say it."""
        return self._about.actions

    @property
    def n_features(self) -> int | None:
        """How many features a row has; None where they have names."""
        return self._about.n_features

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def labels(self) -> Ints:
        """The class that was chosen, as its place in `classes`."""
        labels: Ints = self._numbers("label", np.int64)
        return labels

    @cached_property
    def probs(self) -> Array:
        """The probability with which it was chosen."""
        probs: Array = self._numbers("prob", np.float64)
        return probs

    @cached_property
    def outcomes(self) -> Array:
        """The reward, from 0 to 1; NaN where there is none yet."""
        outcomes: Array = self._numbers("outcome", np.float64)
        return outcomes

    @cached_property
    def weights(self) -> Array | None:
        """For how many decisions each one stands where some were dropped; None where each stands for itself."""
        column = self._table["weight"]
        return None if column.null_count == len(self) else _fixed(columns.numbers(column, np.float64, 1.0))

    @cached_property
    def positions(self) -> Ints | None:
        """The place at which it was shown, from 0, where several are shown at once; None in a log without places."""
        column = self._table["position"]
        return None if column.null_count == len(self) else _fixed(columns.numbers(column, np.int64, -1))

    @cached_property
    def decided_at(self) -> Ints | None:
        """When it was decided, in nanoseconds since 1970 UTC; None in a log without times."""
        return self._times("decided_at")

    @cached_property
    def occurred_at(self) -> Ints | None:
        """When the outcome was there; None in a log without times of outcomes."""
        return self._times("occurred_at")

    @cached_property
    def received_at(self) -> Ints | None:
        """When the outcome was heard of; None in a log without times of outcomes."""
        return self._times("received_at")

    @cached_property
    def until(self) -> int | None:
        """The time to which the log was observed; the latest one in it unless it says otherwise, None without times."""
        if self._about.until is not None:
            return self._about.until
        return columns.latest_time(self._table)

    @cached_property
    def allowed(self) -> Bools | None:
        """(n, K): which classes could be chosen; None where all could, always."""
        mask = columns.allowed_mask(self._table["allowed"], self.n_classes)
        return None if mask is None else _fixed(mask)

    @cached_property
    def probabilities(self) -> Array | None:
        """(n, K): the probabilities of all classes when it was decided; None unless every row has them."""
        column = self._table["probabilities"]
        return None if column.null_count or not len(self) else _fixed(columns.dense_rows(column, self.n_classes))

    @cached_property
    def features(self) -> Any:
        """What was known: an (n, d) array, a CSR matrix, or a list of dicts, as it was given."""
        return columns.features(self._table["features"], kind_of(self._table.schema), self.n_features)

    def write_parquet(self, path: str | Path) -> None:
        """Write the log to a Parquet file; `dt.logs.read_parquet` reads it."""
        from delaytron.logs.parquet import write_parquet  # noqa: PLC0415 - imports this module

        write_parquet(self, path)

    def _numbers(self, name: str, kind: Any) -> Any:
        return _fixed(columns.numbers(self._table[name], kind))

    def _times(self, name: str) -> Ints | None:
        column = self._table[name]
        return None if column.null_count == len(self) else _fixed(columns.times(column))

    def __repr__(self) -> str:
        decided = f"{len(self)} decisions, {len(self) - self._table['outcome'].null_count} with an outcome"
        width = "named" if self.n_features is None else str(self.n_features)
        return f"Log({decided}, {self.n_classes} classes, {width} features)"


def _fixed(array: Any) -> Any:
    """Return an array that nobody can change."""
    array.flags.writeable = False
    return array


def check_log(log: Any) -> None:
    """Raise if something is no log."""
    if not isinstance(log, Log):
        how = "read one by dt.logs.read_parquet, or make one by dt.logs.from_arrays"
        raise InvalidInput(f"log must be a dt.logs.Log, got {type(log).__name__}; {how}")
