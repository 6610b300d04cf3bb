"""Where a command's results go: the screen, files, and meanwhile a bar or lines that show how far it is."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import W_OK, access
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.advice import with_advice
from delaytron.files.atomic import replace_file
from delaytron.formats import as_json, compact
from delaytron.simulation.batches import Progress

if TYPE_CHECKING:
    import pyarrow as pa

FIGURES = (".png", ".pdf", ".svg")
LONG = 10_000_000  # rounds that take more than some seconds


class Writable(Protocol):
    """Something that can be written as lines and drawn."""

    def to_table(self) -> "pa.Table":
        """Return the lines."""

    def plot(self, path: str | Path) -> None:
        """Draw it."""


class Target(NamedTuple):
    """A file to write."""

    kind: str  # figure, csv, json or parquet
    path: Path


def show(document: Any, table: RenderableType, json: bool) -> None:
    """Print one JSON document or a table."""
    if json:
        typer.echo(as_json(document))
    else:
        Console(highlight=False).print(table)


def targets(
    plot: Path | None, csv: Path | None = None, output: Path | None = None, numbers: str = "", figure: str = ""
) -> list[Target]:
    """Return the files to write, checked; in the folder `output` these are numbers.csv, numbers.json, figure.png."""
    files = [] if plot is None else [Target("figure", plot)]
    if csv is not None:
        files.append(Target("csv", csv))
    if output is not None:
        make_folder(output)
        files.append(Target("csv", output / f"{numbers}.csv"))
        files.append(Target("json", output / f"{numbers}.json"))
        files.append(Target("figure", output / f"{figure}.png"))
    for file in files:
        check_target(file)
    return files


def make_folder(path: Path) -> None:
    """Make a folder, if there is none."""
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"cannot make the folder {str(path)!r}: there is a file of this name; choose another")
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)


def check_target(file: Target) -> None:
    """Raise if a file could not be written, before any work is done."""
    path = file.path
    if file.kind == "figure" and path.suffix.lower() not in FIGURES:
        raise InvalidInput(f"a figure must end in {', '.join(FIGURES)}; got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
    if path.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: it is a folder; name a file in it")
    if not access(path if path.exists() else path.parent, W_OK):
        raise InvalidInput(f"cannot write {str(path)!r}: no permission; choose another place")


def write(files: Sequence[Target], outcome: Writable, document: Any, json: bool) -> None:
    """Write the files, and say so where it does not disturb the JSON document."""
    for file in files:
        if file.kind == "figure":
            write_figure(file.path, outcome.plot, json)
        else:
            write_numbers([file], outcome, document)
            typer.echo(f"wrote {file.path}", err=json)


def write_figure(path: Path, plot: Callable[[Path], object], json: bool) -> None:
    """Draw a figure into a file, and say so."""
    with naming(path):
        plot(path)
    typer.echo(f"wrote {path}", err=json)


def write_numbers(files: Sequence[Target], outcome: Writable, document: Any) -> None:
    """Write the files that are no figures; after a crash each is the old one or the new one, never half of one."""
    for kind, path in files:
        if kind == "csv":
            _write(path, _csv(outcome.to_table()))
        elif kind == "json":
            _write(path, (as_json(document) + "\n").encode())


def _csv(table: "pa.Table") -> bytes:
    needs("pyarrow")
    from pyarrow import BufferOutputStream  # noqa: PLC0415 - slow to import
    from pyarrow.csv import write_csv  # noqa: PLC0415

    content = BufferOutputStream()
    write_csv(table, content)
    return bytes(content.getvalue())


def _write(path: Path, content: bytes) -> None:
    with naming(path):
        if path.exists() and not path.is_file():  # a pipe or a device, which must not be replaced
            path.write_bytes(content)
        else:
            replace_file(path, content)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in an error of the system: "No space left on device" alone does not say where."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise InvalidInput(f"cannot write {str(path)!r}: {with_advice(problem)}") from None


def log(line: str) -> None:
    """Write a plain line to stderr, if that is no terminal: there a bar shows how far it is."""
    if not sys.stderr.isatty():
        typer.echo(f"delaytron: {line}", err=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on stderr, if that is a terminal, that something takes an unknown time."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(escape(what)):
        yield


class TenthLog:
    """Called with what was just done, possibly by many threads: logs a line at every tenth of the total."""

    def __init__(self, total: int, unit: str) -> None:
        self.total = total
        self.unit = unit
        self.done = 0
        self.lock = Lock()

    def __call__(self, more: int) -> None:
        """Count what was just done."""
        with self.lock:
            before = 10 * self.done // self.total
            self.done += more
            now = 10 * self.done // self.total
        if now > before:
            log(f"{10 * now} % of {self.total:,} {self.unit}")


@contextmanager
def progress_bar(
    total: int, unit: str = "rounds", at_first: str = "compiling", tenths: bool = True
) -> Iterator[Progress | None]:
    """Show a bar on stderr while the block runs; without a terminal, log the `tenths` of a long one."""
    if not sys.stderr.isatty() and not tenths:
        yield None
        return
    with telling_bar(total, unit, at_first) as (advance, _):
        yield advance


@contextmanager
def telling_bar(total: int, unit: str, at_first: str) -> Iterator[tuple[Progress | None, Callable[[str], object]]]:
    """Show a bar, and above it a line that says what is being done."""
    if not sys.stderr.isatty():
        yield TenthLog(total, unit) if total >= LONG else None, lambda _: None
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
