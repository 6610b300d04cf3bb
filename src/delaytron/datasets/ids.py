"""Columns that tell rows apart and say nothing about them: ids, found by names and by how few values come twice."""

import re

NAMED = re.compile(r"(^|.*[^a-z])(id|uid|uuid|guid|rowid|index)$|id[^a-z].*", re.IGNORECASE)
ROWS = re.compile(r"(unnamed: *\d+|row|rows?[_ ]?(names?|num|number|nr|no))", re.IGNORECASE)
CAMEL = re.compile(r".*[a-z]I[dD]$")
ENOUGH = 100_000  # cells after which a column is judged
FEWEST = 50  # cells below which it is not
FEWEST_NAMED = 20  # the same, of a column that is called an id
NEARLY_ALL = 0.9  # of the cells differ from each other
MOST_CATEGORIES = 1_000_000


def is_called_id(name: str) -> bool:
    """Whether a column is called as ids are.

    Examples
    --------
    >>> [is_called_id(name) for name in ("id", "request_id", "userId", "UUID", "paid", "valid", "width")]
    [True, True, True, True, False, False, False]
    >>> [is_called_id(name) for name in ("Unnamed: 0", "row", "rownames", "rowing")]
    [True, True, True, False]
    """
    return any(pattern.fullmatch(name.strip()) for pattern in (NAMED, CAMEL, ROWS))


def looks_like_id(name: str, n_cells: int, n_distinct: int, text: bool) -> bool:
    """Whether a column of so many cells is an id; one of numbers must be called so.

    Examples
    --------
    >>> looks_like_id("request", 20_000, 19_990, text=True), looks_like_id("weight", 20_000, 20_000, text=False)
    (True, False)
    """
    named = is_called_id(name)
    if n_cells < (FEWEST_NAMED if named else FEWEST) or not (text or named):
        return False
    return n_distinct >= NEARLY_ALL * n_cells
