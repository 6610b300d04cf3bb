"""Models are made, and their classes come and go: all front ends know of it before the learner does."""

import asyncio
import json
from typing import Any

from delaytron.journal.ids import new_id
from delaytron.model import facts
from delaytron.model.classes import Classes
from delaytron.model.making import Recipe, make_core
from delaytron.service.limits import Limits, check_classes, check_room
from delaytron.service.messages import NewModel
from delaytron.service.postgres.connections import Connection, Connections
from delaytron.service.postgres.deciding import FrontModel, KnownClasses
from delaytron.service.postgres.loading import fetch_rows
from delaytron.service.reading import class_named

COUNT = "SELECT count(*) FROM delaytron.models"
MAKE = """
INSERT INTO delaytron.models (name, uid, recipe, stateless, classes, retired) VALUES (%s, %s, %s, %s, %s, '[]')
ON CONFLICT (name) DO NOTHING RETURNING number
"""
BEGIN = """
INSERT INTO delaytron.facts (model, seq, kind, id, wall, clock, body)
VALUES (%s, 1, %s, NULL, delaytron.now(), 0, %s)
"""
CLASSES = "SELECT classes, retired FROM delaytron.models WHERE number = %s FOR UPDATE"
SET_CLASSES = "UPDATE delaytron.models SET classes = %s, retired = %s WHERE number = %s"
TELL = "INSERT INTO delaytron.inbox (model, kind, id, body) VALUES (%s, %s, NULL, %s)"


async def make_model(connections: Connections, limits: Limits, wanted: NewModel, recipe: Recipe) -> bool:
    """Make a model, unless there is one of this name; return whether it is new."""
    described = recipe.as_bytes()
    values = (wanted.name, new_id(), described, wanted.stateless, json.dumps(recipe.asked["classes"]))

    async def make(connection: Connection) -> bool:
        async with connection.transaction():
            ((count,),) = await fetch_rows(connection, COUNT)
            rows = await fetch_rows(connection, MAKE, *values)
            if rows:
                check_room(limits, count)
                await connection.execute(BEGIN, (rows[0][0], facts.CREATED, described))
            return bool(rows)

    return await connections.run(make)


async def add_class(connections: Connections, limits: Limits, front: FrontModel, name: Any) -> None:
    """Add a class, or let a retired one come back."""
    if name not in front.core.classes.names:
        await asyncio.to_thread(_check_growth, front.row.recipe)

    def change(classes: Classes) -> tuple[int, Any]:
        checked = classes.check_new(name)
        if classes.add(checked):
            check_classes(limits, len(classes.names))
        return facts.CLASS_ADDED, checked

    front.bring(await _change_classes(connections, front, change))


async def retire_class(connections: Connections, front: FrontModel, label: Any) -> None:
    """Let a class not be chosen any more."""

    def change(classes: Classes) -> tuple[int, Any]:
        checked = classes.check_retirable(class_named(classes.names, label))
        classes.retire(checked)
        return facts.CLASS_RETIRED, checked

    front.bring(await _change_classes(connections, front, change))


def _check_growth(recipe: Recipe) -> None:
    """Raise if a learner of this kind cannot take another class."""
    make_core(recipe).learner.add_class()


async def _change_classes(connections: Connections, front: FrontModel, change: Any) -> KnownClasses:
    """Change the classes that all know, and let the learner be told, in one transaction; return them."""
    number = front.row.number

    async def work(connection: Connection) -> KnownClasses:
        async with connection.transaction():
            ((names, retired),) = await fetch_rows(connection, CLASSES, number)
            classes = Classes(json.loads(names), json.loads(retired))
            kind, name = change(classes)
            known = KnownClasses(classes.names, sorted(classes.retired))
            await connection.execute(SET_CLASSES, (json.dumps(known.names), json.dumps(known.retired), number))
            await connection.execute(TELL, (number, kind, facts.encode(name)))
            return known

    return await connections.run(work)
