"""`delaytron learners`: the registry, a row each."""

from collections.abc import Sequence
from inspect import getdoc
from typing import Any

from rich.markup import escape
from rich.table import Table

from delaytron.cli.options import Json
from delaytron.cli.outputs import show
from delaytron.cli.tables import Row, new_table
from delaytron.learners import LEARNERS
from delaytron.learners.options import own_parameters


def learners(json: Json = False) -> None:
    """List the learners with their parameters, and what feedback tells them."""
    rows = learner_rows()
    show(rows, registry_table(rows), json)


def learner_rows() -> list[Row]:
    """Return the registry of learners, a row each."""
    return [
        {
            "name": name,
            "class": cls.__name__,
            "parameters": own_parameters(cls),
            "feedback_type": cls.feedback_type,
            "description": _summary(cls),
        }
        for name, cls in LEARNERS.items()
    ]


def registry_table(rows: Sequence[Row]) -> Table:
    """Return rows as a table, a column per key; the class stands below the name."""
    table = new_table(*(key for key in rows[0] if key != "class"))
    for row in rows:
        values = {key: _lines(value) if isinstance(value, dict) else value for key, value in row.items()}
        values["name"] += "\n" + values.pop("class")
        table.add_row(*map(escape, values.values()))
        table.add_section()
    return table


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items()) or "-"


def _summary(thing: Any) -> str:
    return (getdoc(thing) or "").partition("\n")[0]
