"""The reference of the command line, generated from the objects that print `--help`."""

from collections.abc import Iterator
from typing import Any

import typer

from delaytron.cli import app


def commands_page() -> str:
    """Return a section for each command, as Markdown."""
    root = typer.main.get_command(app)
    return "\n\n".join(_section(path, command) for path, command in walk("delaytron", root))


def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(f"{path} {name}", child)


def _section(path: str, command: Any) -> str:
    context = typer.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [
        f"## `{path}`",
        command.help or "",
        f"```text\n{usage}\n```",
        _parameters(command, context),
        _examples(command),
    ]
    return "\n\n".join(part for part in parts if part)


def _parameters(command: Any, context: Any) -> str:
    rows = [
        _row(parameter, context) for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)
    ]
    return "\n".join(["| argument or option | |", "|---|---|", *rows])


def _row(parameter: Any, context: Any) -> str:
    names, text = parameter.get_help_record(context)
    return f"| {_code(names)} | {_cell(text)} |"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _examples(command: Any) -> str:
    lines = (command.epilog or "").strip().splitlines()
    return "```sh\n" + "\n".join(line for line in lines[1:] if line) + "\n```" if lines else ""
