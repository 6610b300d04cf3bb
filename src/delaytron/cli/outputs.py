"""Where a command's results go: the screen, files, and meanwhile a bar that shows how far it is."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import W_OK, access
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from delaytron.errors import InvalidInput
from delaytron.formats import as_json, compact
from delaytron.simulation.batches import Progress

if TYPE_CHECKING:
    import pyarrow as pa

PICTURES = (".png", ".pdf", ".svg")


class Writable(Protocol):
    """Something that can be written as lines and drawn."""

    def to_table(self) -> "pa.Table":
        """Return the lines."""

    def plot(self, path: str | Path) -> None:
        """Draw it."""


def show(document: Any, table: RenderableType, json: bool) -> None:
    """Print one JSON document or a table."""
    if json:
        typer.echo(as_json(document))
    else:
        Console(highlight=False).print(table)


def targets(plot: Path | None, csv: Path | None, output: Path | None, names: tuple[str, str]) -> list[tuple[str, Path]]:
    """Return the files to write, each with its kind and checked; `names` are those of the numbers and the picture."""
    asked = [("picture", plot), ("csv", csv)]
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        numbers, picture = output / names[0], output / names[1]
        asked += [(kind, numbers.with_suffix(f".{kind}")) for kind in ("csv", "json")]
        asked.append(("picture", picture.with_suffix(".png")))
    files = [(kind, path) for kind, path in asked if path is not None]
    for kind, path in files:
        check_target(path, picture=kind == "picture")
    return files


def check_target(path: Path, picture: bool) -> None:
    """Raise if a file could not be written, before any work is done."""
    if picture and path.suffix.lower() not in PICTURES:
        raise InvalidInput(f"a picture must end in {', '.join(PICTURES)}; got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    if path.is_dir() or not access(path if path.exists() else path.parent, W_OK):
        raise InvalidInput(f"cannot write {str(path)!r}: {'it is a folder' if path.is_dir() else 'no permission'}")


def write(files: Sequence[tuple[str, Path]], outcome: Writable, document: Any, json: bool) -> None:
    """Write the files, and say so where it does not disturb the JSON document."""
    for kind, path in files:
        if kind == "picture":
            outcome.plot(path)
        elif kind == "csv":
            from pyarrow.csv import write_csv  # noqa: PLC0415 - slow to import

            write_csv(outcome.to_table(), path)
        else:
            path.write_text(as_json(document) + "\n", encoding="utf-8")
        typer.echo(f"wrote {path}", err=json)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on stderr, if that is a terminal, that something takes its time, nobody knows how much."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(escape(what)):
        yield


@contextmanager
def progress_bar(total: int, unit: str = "rounds", at_first: str = "compiling") -> Iterator[Progress | None]:
    """Show a bar on stderr while the block runs, if that is a terminal."""
    with telling_bar(total, unit, at_first) as (advance, _):
        yield advance


@contextmanager
def telling_bar(total: int, unit: str, at_first: str) -> Iterator[tuple[Progress | None, Callable[[str], object]]]:
    """Show a bar, and above it in words what is being done."""
    if not sys.stderr.isatty():
        yield None, lambda _: None
        return
    from rich import progress  # noqa: PLC0415 - slow to import

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> str:
            return f"{compact(task.speed)} {unit}/s" if task.speed else at_first

    columns = (progress.BarColumn(), progress.TaskProgressColumn(), progress.TimeRemainingColumn(), Speed())

    class Bar(progress.Progress):
        line = ""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield from [self.line] if self.line else []
            yield from super().get_renderables()

    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield partial(bar.advance, task), lambda line: setattr(bar, "line", escape(line))
