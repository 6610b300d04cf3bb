"""Tables as numbers: one encoder for CSV, JSON lines, Parquet, Feather, and frames of pandas and polars.

Numbers stay numbers, true and false are 1 and 0, dates become their parts, and text becomes a column of 0 and 1 for
each category. A first pass finds what each column holds, a second one encodes the rows in blocks. In text files the
cells of a column say what it is; typed columns of Parquet, Feather and frames are taken as they are.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_choice, check_matrix, installed_memory, stack_rows
from delaytron.datasets.columns import (
    MOST_CATEGORIES,
    Column,
    Columns,
    Feature,
    Source,
    check_names,
    find_column,
    find_columns,
    find_label,
    leave_out,
    listed,
    refuse_cell,
    refuse_text,
)
from delaytron.datasets.dataset import (
    Block,
    Dataset,
    choose_form,
    encode_labels,
    encodes_sparse,
    is_frame,
    labelled,
)
from delaytron.delays.times import delays_between
from delaytron.delays.traces import NEVER_MARK
from delaytron.errors import InvalidInput, Setting, Text, shown
from delaytron.extras import needs
from delaytron.records import NEVER, Bools

if TYPE_CHECKING:
    import pyarrow as pa

    from delaytron.checks import Matrix

MISSING_CELLS = ("error", "drop", "impute")  # ways to treat them
MOST_NOTES = 6  # about columns of one kind
BLOCK_BYTES = 4 * 2**20  # of the features that are encoded together
MOST_HELD = 2**25  # bytes of text kept between the two passes; a larger file is read twice
EMPTY = "the cell is empty or no finite number"
FILL_IN = ("fill it in, or pass ", Setting("missing", "'drop'"), " or ", Setting("missing", "'impute'"))
DAMAGED = (OSError, ValueError, TypeError, LookupError, RuntimeError, MemoryError)  # raised by pyarrow, besides its own


class TableOptions(TypedDict, total=False):
    """The options of any table; see `files.load_file`."""

    label: Column | None
    categorical: Columns
    drop: Columns
    keep: Columns
    missing: str
    decided: Column | None
    answered: Column | None


class FittedTable:
    """A table whose columns are known: encodes its rows in blocks or as a whole.

    Parameters
    ----------
    labels : ndarray
        The labels by their codes.
    n_rows : int
        The number of rows, as counted in the first pass.
    missing : {"error", "drop", "impute"}
        What is done with a row that has a missing value which cannot be filled in.
    times : pair of str, optional
        The columns of the times at which each row was decided and answered; `whole` then sorts the rows by the former.
    """

    def __init__(
        self,
        source: Source,
        features: list[Feature],
        label: Feature | None,
        labels: NDArray[Any],
        n_rows: int,
        missing: str,
        notes: tuple[str, ...],
        times: tuple[str, str] | None = None,
    ) -> None:
        self.times = times
        self.source, self.features, self.label, self.labels = source, features, label, labels
        self.n_rows, self.missing, self.notes = n_rows, missing, notes
        self.names = tuple(name for feature in features for name in feature.names)
        self.n_filled = sum(feature.n_filled for feature in features)
        self.sparse = encodes_sparse(self.n_filled, len(self.names))
        check_names(source.name, self.names)

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, some megabytes of features at a time.

        Raises InvalidInput at a missing cell, if those are not allowed, and if no row is left or the file has changed.
        """
        step = max(1, BLOCK_BYTES // (8 * (self.n_filled if self.sparse else len(self.names))))
        columns = [*self.features, *([] if self.label is None else [self.label])]
        first = n_left = 0
        with closing(self.source.read([column.name for column in columns])) as pieces:
            for piece in pieces:
                for start in range(0, piece.num_rows, step):
                    rows = piece.slice(start, step)
                    if first + rows.num_rows > self.n_rows:
                        self._refuse_change()
                    block = self._encode(rows, first)
                    n_left += block.X.shape[0]
                    yield block
                    first += rows.num_rows
        if first != self.n_rows:
            self._refuse_change()
        if not n_left:
            why = f"all {first:,} rows have a missing value" if first else "got none"
            hint: Text = ("pass ", Setting("missing", "'impute'")) if first else "add rows"
            raise InvalidInput(f"{self.source.name}: there must be at least one row, {why}", hint)

    def whole(self) -> Block:
        """Return all rows as one block; raise as `blocks` does, and if they do not fit into memory."""
        parts: list[Block] = []
        X: Any = None
        if self.sparse:
            parts = list(self.blocks())
            X = stack_rows([part.X for part in parts])
        else:  # stacking dense blocks would take their memory twice
            self._check_memory()
            X = np.empty((self.n_rows, len(self.names)))
            n_rows = 0
            for block in self.blocks():
                X[n_rows : n_rows + len(block.X)] = block.X
                n_rows += len(block.X)
                parts.append(block._replace(X=X[:0]))  # frees the rows of the block
            X = X[:n_rows]
        labels = np.concatenate([part.labels for part in parts])
        dropped, filled = sum(part.dropped for part in parts), sum(part.filled for part in parts)
        block = Block(X, labels, self.names, self.notes, dropped, filled)
        if self.times is None:
            return block
        kept = ~np.concatenate([part.lost for part in parts if part.lost is not None])
        return self._in_time(block, kept, self.times)

    def _in_time(self, block: Block, kept: Bools, times: tuple[str, str]) -> Block:
        """Return the kept rows in the order of their decisions, with their delays; raise if a time is wrong."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        with closing(self.source.read(list(times))) as pieces:
            table = pa.concat_tables([pa.table(piece) for piece in pieces]).filter(pa.array(kept))
        rows = np.flatnonzero(kept)

        def place(row: int) -> str:
            return f"{self.source.name}, {self.source.place(int(rows[row]))}"

        decided, answered = (table[name].combine_chunks() for name in times)
        recorded = delays_between(decided, answered, NEVER_MARK, place, words=("decision", "answer"))
        order = recorded.order
        ordered = bool((order[1:] > order[:-1]).all())  # then nothing is copied
        share = np.mean(recorded.delays == NEVER)
        notes = f"delays: rounds from {times[0]!r} to {times[1]!r}, {share:.1%} never answered"
        moved = "" if ordered else f"; rows sorted by {times[0]!r}"
        X, labels = (block.X, block.labels) if ordered else (block.X[order], block.labels[order])
        return block._replace(X=X, labels=labels, notes=(*block.notes, notes + moved), delays=recorded.delays)

    def _check_memory(self) -> None:
        """Raise InvalidInput if this machine has too little memory for the rows."""
        n_bytes, there = 8 * self.n_rows * len(self.names), installed_memory()
        if there is not None and n_bytes > there:
            raise InvalidInput(
                f"{self.source.name}: {self.n_rows:,} rows of {len(self.names):,} numbers take "
                f"{n_bytes / 2**30:,.1f} GB, but this machine has {there / 2**30:,.1f}",
                ("leave columns out by ", Setting("drop"), ", or read the file in blocks: datasets.stream, --stream"),
            )

    def _refuse_change(self) -> NoReturn:
        raise InvalidInput(
            f"{self.source.name}: must have {self.n_rows} rows as before, got more or fewer",
            "read it again when no other process writes it",
        )

    def _encode(self, rows: "pa.Table", first: int) -> Block:
        """Return some rows encoded, without rows that lack a required value."""
        lost = np.zeros(rows.num_rows, np.bool_)
        columns: list[tuple[int, bool, NDArray[Any]]] = []  # the first feature, whether these are codes, the cells
        place = filled = 0
        for feature in self.features:
            parts, missing = feature.encode(rows[feature.name])
            if feature.means or feature.fills:
                filled += int(missing.sum())
            else:
                self._check_missing(feature.name, missing, first)
                lost |= missing
            one_hot = feature.kind == "categories"
            columns += [(place + i, one_hot, part) for i, part in enumerate(parts)]
            place += len(feature.names)
        labels: NDArray[Any] = np.empty(0)
        if self.label is not None:
            (codes,), missing = self.label.encode(rows[self.label.name])
            self._check_missing(self.label.name, missing, first)
            lost |= missing
            labels = self.labels[codes[~lost]]
        if lost.any():
            columns = [(place, one_hot, cells[~lost]) for place, one_hot, cells in columns]
        n_left = int((~lost).sum())
        X = self._matrix(columns, n_left)
        return Block(X, labels, self.names, self.notes, rows.num_rows - n_left, filled, lost)

    def _check_missing(self, name: str, missing: Bools, first: int) -> None:
        """Raise InvalidInput at the first missing cell if those are not allowed."""
        if self.missing == "error" and missing.any():
            refuse_cell(self.source, first + int(missing.argmax()), name, EMPTY, FILL_IN)

    def _matrix(self, columns: list[tuple[int, bool, NDArray[Any]]], n_rows: int) -> "Matrix":
        if not self.sparse:
            X = np.zeros((n_rows, len(self.names)))
            for place, one_hot, cells in columns:
                if one_hot:
                    X[np.arange(n_rows), place + cells] = 1.0
                else:
                    X[:, place] = cells
            return X
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

        data = np.ones((n_rows, len(columns)))
        indices = np.empty((n_rows, len(columns)), np.int32)
        for i, (place, one_hot, cells) in enumerate(columns):
            indices[:, i] = place + (cells if one_hot else 0)
            if not one_hot:
                data[:, i] = cells
        ends = np.arange(0, data.size + 1, len(columns))
        return csr_array((data.ravel(), indices.ravel(), ends), shape=(n_rows, len(self.names)))


def fit(source: Source, hold: bool = False, with_label: bool = True, **options: Unpack[TableOptions]) -> FittedTable:
    """Return a table with what every column becomes, found in one pass over the columns that must be read for it.

    Raises InvalidInput if an option names a column that is not there, and if a column cannot be features or labels.

    Parameters
    ----------
    hold : bool
        Keep what is read, unless it is large, so that `FittedTable.whole` need not read it again; only for sources of
        text, of which the first pass reads all columns.
    with_label : bool
        Whether one of the columns holds the labels.
    """
    names, header = list(source.types), source.header or source.name
    check_names(header, names)
    label = find_label(header, names, options.get("label")) if with_label else None
    categorical = find_columns(header, names, options.get("categorical", ()), "categorical")
    dropped = find_columns(header, names, options.get("drop", ()), "drop")
    kept = find_columns(header, names, options.get("keep", ()), "keep")
    missing = check_choice("missing", options.get("missing", "error"), MISSING_CELLS)
    times = _find_times(header, names, options.get("decided"), options.get("answered"))
    for name in times or ():
        if name == label or name in dropped:
            other = "label" if name == label else "drop"
            raise InvalidInput(
                f"{source.name}: column {name!r} is a time, so it cannot be in {other}", "name another one"
            )
    if label in dropped:
        raise InvalidInput(
            f"{source.name}: column {label!r} is the label, so it cannot be dropped",
            ("pass another ", Setting("label")),
        )
    columns = [
        _feature(source, name, name == label or name in categorical, name in kept)
        for name in names
        if name not in dropped and name not in (times or ())
    ]
    features = [column for column in columns if column.name != label]
    if not features:
        raise InvalidInput(
            f"{source.name}: there must be at least one column besides the label, got none",
            ("drop fewer columns, or pass another ", Setting("label")),
        )
    dropped = [name for name in names if name in dropped]
    seen = [column for column in columns if column.kind in ("categories", "text") or missing == "impute"]
    n_rows, held, n_held = 0, [], 0
    if seen:
        with closing(source.read([column.name for column in seen])) as pieces:
            for piece in pieces:
                for column in seen:
                    column.partial_fit(piece[column.name])
                    if column.fault:
                        refuse_text(source, column.name, column.fault)
                    if len(column.texts) > column.most:
                        raise InvalidInput(
                            f"{source.name}: column {column.name!r} has more than {MOST_CATEGORIES:,} different texts",
                            (*leave_out(column.name), " or keep it by ", Setting("keep", repr(column.name))),
                        )
                n_rows += piece.num_rows
                if hold:
                    held.append(piece)
                    n_held += piece.nbytes
                    hold = n_held <= MOST_HELD
                else:
                    held.clear()
    else:
        n_rows = source.n_rows
    for feature in features:
        feature.finish_fit(source, missing == "impute")
    target = next((column for column in columns if column.name == label), None)
    labels = np.empty(0) if target is None else target.finish_fit_label()
    notes = (*source.notes, *_notes(source, columns, label, dropped))
    if hold:
        read_again = source.read

        def read(names: Sequence[str]) -> "Generator[pa.Table, None, None]":
            if set(names) <= {column.name for column in seen}:
                yield from (piece.select(list(names)) for piece in held)
            else:  # times, which are no features
                yield from read_again(names)

        source = source._replace(read=read)
    return FittedTable(source, features, target, labels, n_rows, missing, notes, times)


def _find_times(
    header: str, names: Sequence[str], decided: Column | None, answered: Column | None
) -> tuple[str, str] | None:
    """Return the columns of the times of decisions and answers; raise InvalidInput if only one of them is named."""
    if decided is None and answered is None:
        return None
    if decided is None or answered is None:
        given, other = ("answered", "decided") if decided is None else ("decided", "answered")
        hint = ("name both, as in ", Setting(other, "COLUMN"))
        raise InvalidInput((f"{header}: ", Setting(given), " needs ", Setting(other)), hint, parameter=given)
    first, second = find_column(header, names, decided, "decided"), find_column(header, names, answered, "answered")
    if first == second:
        raise InvalidInput(f"{header}: decisions and answers cannot have the same times, {first!r}", "name two columns")
    return first, second


def _feature(source: Source, name: str, categorical: bool, keep: bool) -> Feature:
    """Return a column as its type and the user describe it; raise InvalidInput if it cannot be a feature."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    kind = source.types[name]
    if source.text and not categorical:
        return Feature(name, "text", most=np.inf if keep else MOST_CATEGORIES)
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary, types.is_null)
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_time)
    dates = (types.is_date, types.is_timestamp)
    if any(is_a(kind) for is_a in text) or (categorical and any(is_a(kind) for is_a in (*numbers, *dates))):
        return Feature(name, "categories", most=np.inf if keep or categorical else MOST_CATEGORIES)
    if any(is_a(kind) for is_a in (*numbers, types.is_duration)):
        return Feature(name, "numbers")
    if any(is_a(kind) for is_a in dates):
        return Feature(name, "dates", hours=types.is_timestamp(kind))
    problem = f"must hold numbers, text, dates or true and false, not {kind}"
    return refuse_cell(source, 0, name, problem, leave_out(name))


def _notes(source: Source, columns: Sequence[Feature], label: str | None, dropped: Sequence[str]) -> list[str]:
    """Return notes on what was done with the columns, a line each.

    The first one warns that the header of a text file may be data, if a column has its own name as a value.
    """
    notes = []
    names = list(source.types)
    by_label = sorted(columns, key=lambda column: column.name != label)  # it has few values: the best evidence
    same = next((column.name for column in by_label if column.name in column.texts), None)
    no_header = names == [str(i) for i in range(len(names))]  # numbers are the names without one
    if same is not None and not no_header and source.text and not source.notes:  # those note a number in the header
        note = f"header: the first row, with {same!r}, which is also a value of its column"
        notes.append(f"{note}; if it is data, pass header=False (--no-header)")
    if dropped:
        notes.append(f"left out: {'column' if len(dropped) == 1 else 'columns'} {listed(dropped)}")
    for kind, word in (("dates", "date"), ("categories", "categories")):
        lines = [
            f"column {one.name!r} read as {word}: {len(one.names):,} column{'' if len(one.names) == 1 else 's'}"
            for one in columns
            if one.kind == kind and one.name != label
        ]
        more = len(lines) - MOST_NOTES
        notes += [*lines[:MOST_NOTES], f"and so are {more} more columns"] if more > 1 else lines
    return notes


# Frames


def load_frame(
    frame: Any,
    label: Column | None = None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
    decided: Column | None = None,
    answered: Column | None = None,
) -> Dataset:
    """Return the data set of a frame of pandas, polars or anything else with `__arrow_c_stream__`.

    For the options and what is raised see `files.load_file`.
    """
    asked = TableOptions(
        label=label,
        categorical=categorical,
        drop=drop,
        keep=keep,
        missing=missing,
        decided=decided,
        answered=answered,
    )
    table = fit(_frame_source(frame), **asked)
    return labelled(table.whole(), "data", "the frame")


def read_features(frame: Any) -> Block:
    """Return the rows of a frame of features, without labels."""
    return fit(_frame_source(frame), with_label=False).whole()


def as_dataset(data: Any, name: str = "data") -> Dataset:
    """Return a Dataset: the given one, or that of a pair (X, y) or of a frame with a column called label or class.

    Whole non-negative labels of a pair are class numbers; any others (text, negative numbers, fractions) are numbered
    in sorted order and keep their names. Frames of pandas or polars keep the names of their columns, see `load`. A pair
    and a Dataset keep their form, dense or sparse. Raises InvalidInput if the values cannot be features and labels.

    Examples
    --------
    >>> as_dataset(([[0, 1], [1, 0], [1, 1]], ["cat", "dog", "cat"]), name="pets").class_names
    ('cat', 'dog')
    """
    if isinstance(data, Dataset):
        if data.sparse:
            check_matrix(data.X)  # the loop trusts its indices, and the caller may have written into them since
        return data
    if is_frame(data):
        return choose_form(replace(load_frame(data), name=name))
    if not isinstance(data, tuple | list) or len(data) != 2:
        named = isinstance(data, str | Path)
        hint = f"load it first: dt.datasets.load({shown(str(data))})" if named else "pass X and y as a tuple"
        raise InvalidInput.of("data", "a Dataset or a pair (X, y)", got=type(data).__name__, hint=hint)
    features = read_features(data[0]) if is_frame(data[0]) else Block(data[0], np.empty(0))
    y, class_names = encode_labels(data[1])
    return Dataset(features.X, y, name, class_names, feature_names=features.feature_names)


def _frame_source(frame: Any) -> Source:
    """Return a frame as a source; raise InvalidInput if pyarrow cannot read it."""
    needs("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with reading_arrow("the frame", "a table", "convert or drop the column"):
        return table_source("the frame", pa.table(frame))


def table_source(name: str, table: "pa.Table") -> Source:
    """Return a table in memory as a source."""

    def read(names: Sequence[str]) -> "Generator[pa.Table, None, None]":
        yield table.select(list(names))

    return Source(name, column_types(name, table.schema), table.num_rows, read)


def column_types(name: str, schema: "pa.Schema") -> "dict[str, pa.DataType]":
    """Return the types of the columns, without the index of a pandas frame.

    Raises InvalidInput if two have the same name, ValueError if the metadata of pandas is damaged.
    """
    check_names(name, schema.names)
    about = schema.pandas_metadata or {}
    index = about.get("index_columns", []) if isinstance(about, dict) else None
    if not isinstance(index, list):
        raise ValueError("the metadata of pandas about its index cannot be read")  # noqa: TRY004 - the file is wrong
    return {column: kind for column, kind in zip(schema.names, schema.types, strict=True) if column not in index}


@contextmanager
def reading_arrow(name: str, kind: str, hint: Text) -> Iterator[None]:
    """Turn any error of pyarrow into InvalidInput that names what cannot be read."""
    needs("pyarrow")
    from pyarrow.lib import ArrowException  # noqa: PLC0415 - slow to import

    try:
        yield
    except InvalidInput:
        raise
    except (ArrowException, *DAMAGED) as problem:
        said = " ".join(" ".join(map(str, problem.args)).split())
        raise InvalidInput(f"{name} cannot be read as {kind}: {said.rstrip('.')}", hint) from None
