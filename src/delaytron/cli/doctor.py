"""`delaytron doctor`: whether this installation works, and what to do where it does not."""

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from delaytron.cli.doctor_documents import CheckRow, DoctorDocument, ExtraRow
from delaytron.cli.options import Json
from delaytron.cli.outputs import busy, show
from delaytron.cli.tables import new_table

EXAMPLES = """
Examples

delaytron doctor
delaytron doctor --json
"""


def doctor(json: Json = False) -> None:
    """Check this installation: versions, extras, folders, and a small run whose every bit is known.

    The exit code is 1 if something is wrong; the line says what to do. The first time it compiles for some seconds.
    """
    from delaytron.cli.checkup import check_up  # noqa: PLC0415 - only where used

    with busy("checking"):
        document = check_up()
    show(document, report(document), json)
    if not document["healthy"]:
        raise typer.Exit(1)


def report(document: DoctorDocument) -> RenderableType:
    """Return a document as people read it."""
    versions = " ".join(f"{name} {text}" for name, text in document["versions"].items())
    verdict = "All is well." if document["healthy"] else "Something is wrong: see the advice above."
    parts = (escape(versions), escape(document["system"]), check_table(document["checks"]))
    return Group(*parts, extra_table(document["extras"]), verdict)


def check_table(checks: list[CheckRow]) -> Table:
    """Return the checks as a table; advice is below what was found."""
    table = new_table("check", "", "found")
    for check in checks:
        found = check["found"] + (f"\n-> {check['advice']}" if check["advice"] else "")
        table.add_row(*map(escape, (check["check"], check["status"], found)))
    return table


def extra_table(extras: list[ExtraRow]) -> Table:
    """Return the extras as a table."""
    table = new_table("extra", "packages", "if you need it")
    for one in extras:
        packages = ", ".join(f"{name} {text or 'missing'}" for name, text in one["packages"].items())
        missing = None in one["packages"].values()
        advice = f"pip install 'delaytron[{one['extra']}]'" if missing else ""
        table.add_row(*map(escape, (one["extra"], packages, advice)))
    return table
