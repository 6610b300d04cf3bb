"""`delaytron learners`: the registry, a row each."""

from collections.abc import Mapping, Sequence
from inspect import getdoc
from typing import Any

from rich.markup import escape
from rich.table import Table

from delaytron.cli.documents import LearnerRow
from delaytron.cli.options import Json
from delaytron.cli.outputs import show
from delaytron.cli.tables import new_table
from delaytron.learners import LEARNERS
from delaytron.learners.options import own_parameters


def learners(json: Json = False) -> None:
    """List the learners with their parameters, and the feedback that they learn from."""
    rows = learner_rows()
    show(rows, registry_table(rows), json)


def learner_rows() -> list[LearnerRow]:
    """Return the registry of learners, a row each."""
    return [
        {
            "learner": name,
            "class_name": cls.__name__,
            "parameters": own_parameters(cls),
            "feedback_type": cls.feedback_type,
            "description": _summary(cls),
        }
        for name, cls in LEARNERS.items()
    ]


def registry_table(rows: Sequence[LearnerRow]) -> Table:
    """Return rows as a table; the class is below the name."""
    table = new_table("learner", "parameters", "feedback", "description")
    for row in rows:
        name = f"{row['learner']}\n{row['class_name']}"
        cells = [name, _lines(row["parameters"]), row["feedback_type"], row["description"]]
        table.add_row(*map(escape, cells))
        table.add_section()
    return table


def _lines(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items()) or "-"


def _summary(thing: Any) -> str:
    return (getdoc(thing) or "").partition("\n")[0]
