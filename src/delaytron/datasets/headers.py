"""Which column of a table is meant: by its name, by its position, or because it is called as labels are."""

from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral

from delaytron.checks import did_you_mean
from delaytron.errors import InvalidInput

LABELS = ("label", "class", "target", "y")
MOST_LISTED = 12

Column = str | int  # the name of a column, or its position
Columns = Column | Iterable[Column]


def check_header(place: str, names: Sequence[str]) -> None:
    """Raise if two columns have the same name: nobody could say which is meant."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(
            f"{place}: no two columns may have the same name, got {twice[0]!r} more than once; rename one"
        )


def find_label(place: str, names: Sequence[str], label: Column | None) -> str:
    """Return the column with the labels: the one asked for, or the only one that is called as labels are.

    Examples
    --------
    >>> find_label("iris.csv", ["width", "Class"], None), find_label("iris.csv", ["width", "species"], -1)
    ('Class', 'species')
    """
    if not names:
        raise InvalidInput(f"{place}: there must be at least two columns, got none")
    if label is not None:
        return find_column(place, names, label, "label")
    called = [name for name in names if name.lower() in LABELS]
    if len(called) == 1:
        return called[0]
    usual = f"{', '.join(LABELS[:-1])} or {LABELS[-1]}"
    problem = f"{listed(called)} may all be the label" if called else f"no column is called {usual}"
    raise InvalidInput(f"{place}: {problem}; pass label=COLUMN (--label COLUMN), one of {listed(names)}")


def find_column(place: str, names: Sequence[str], wanted: Column, option: str) -> str:
    """Return the name of a column that is given by its name or its position; a negative one counts from the end."""
    if str(wanted) in names and not isinstance(wanted, bool):
        return str(wanted)  # the columns of a frame may be called by numbers in any order
    position = _position(wanted)
    if position is not None and -len(names) <= position < len(names):
        return names[position]
    hint = did_you_mean(str(wanted), names)
    raise InvalidInput(f"{place}: {option} must be one of the columns {listed(names)}; got {wanted!r}{hint}")


def find_columns(place: str, names: Sequence[str], wanted: Columns, option: str) -> list[str]:
    """Return the names of columns."""
    return [find_column(place, names, one, option) for one in each_of(wanted)]


def each_of(wanted: Columns) -> list[Column]:
    """Return the columns that are wanted; a single one need not come in a list."""
    return list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]


def listed(names: Sequence[str]) -> str:
    """Return names for a message: a table may have thousands."""
    more = len(names) - MOST_LISTED
    shown = (" ".join(name.split()) for name in names[:MOST_LISTED])
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _position(wanted: Column) -> int | None:
    if isinstance(wanted, bool):
        return None
    digits = isinstance(wanted, str) and wanted.removeprefix("-").isdecimal()
    return int(wanted) if digits or isinstance(wanted, Integral) else None
