"""Results of commands on the screen and in files; progress bars."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import W_OK, access
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import cannot, replace_file
from delaytron.formats import as_json, compact
from delaytron.simulation.results import MAJORITY
from delaytron.simulation.simulate import Progress

if TYPE_CHECKING:
    import pyarrow as pa


FIGURES = (".png", ".pdf", ".svg")
LONG = 10_000_000  # rounds from which on progress is logged where there is no terminal


class Writable(Protocol):
    """A result that has a table and a figure."""

    def to_table(self) -> "pa.Table":
        """Return the table."""

    def plot(self, path: str | Path) -> None:
        """Save the figure."""


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
    """Return the files to write; raise InvalidInput if one cannot be written.

    In the folder `output` these are numbers.csv, numbers.json and figure.png.
    """
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
    """Create a folder unless it exists; raise InvalidInput if that fails."""
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"cannot make the folder {str(path)!r}: there is a file of this name", "choose another")
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)


def check_target(file: Target) -> None:
    """Raise InvalidInput if a file could not be written, before any work is done."""
    path = file.path
    if file.kind == "figure" and path.suffix.lower() not in FIGURES:
        raise InvalidInput(
            f"a figure must be a file of a known format, got {str(path)!r}", f"end it in {', '.join(FIGURES)}"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}", "create it first")
    if path.is_dir():
        raise InvalidInput(f"cannot write {str(path)!r}: it is a folder", "name a file in it")
    if not access(path if path.exists() else path.parent, W_OK):
        raise InvalidInput(f"cannot write {str(path)!r}: no permission", "choose another place")


def write(files: Sequence[Target], outcome: Writable, document: Any, json: bool) -> None:
    """Write the files and print their names: on stderr if stdout has a JSON document."""
    for file in files:
        if file.kind == "figure":
            write_figure(file.path, outcome.plot, json)
        else:
            write_numbers([file], outcome, document)
            typer.echo(f"wrote {file.path}", err=json)


def write_figure(path: Path, plot: Callable[[Path], object], json: bool) -> None:
    """Save a figure and print its name."""
    with naming(path):
        plot(path)
    typer.echo(f"wrote {path}", err=json)


def write_numbers(files: Sequence[Target], outcome: Writable, document: Any) -> None:
    """Write the files that are not figures; after a crash each is the old one or the new one, never half of one."""
    for kind, path in files:
        if kind == "csv":
            needs("pyarrow")
            from pyarrow import BufferOutputStream  # noqa: PLC0415 - slow to import
            from pyarrow.csv import write_csv  # noqa: PLC0415

            buffer = BufferOutputStream()
            write_csv(outcome.to_table(), buffer)
            content = bytes(buffer.getvalue())
        elif kind == "json":
            content = (as_json(document) + "\n").encode()
        else:
            continue
        with naming(path):
            if path.exists() and not path.is_file():  # a pipe or a device, which must not be replaced by a file
                path.write_bytes(content)
            else:
                replace_file(path, content)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise an error of the system as InvalidInput with the file: "No space left on device" alone names none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise cannot("write", path, problem) from None


def log(line: str) -> None:
    """Write a line to stderr unless it is a terminal, where a bar shows the progress."""
    if not sys.stderr.isatty():
        typer.echo(f"delaytron: {line}", err=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show a spinner on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(escape(what)):
        yield


class TenthLog:
    """A progress callback, possibly called by many threads, that logs a line at every tenth of the total."""

    def __init__(self, total: int, unit: str) -> None:
        self.total = total
        self.unit = unit
        self.done = 0
        self.lock = Lock()

    def __call__(self, more: int) -> None:
        """Add to what is done."""
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
    with bar_with_line(total, unit, at_first) as (advance, _):
        yield advance


@contextmanager
def bar_with_line(total: int, unit: str, at_first: str) -> Iterator[tuple[Progress | None, Callable[[str], object]]]:
    """Show a bar with a line of text above it; yield the callbacks that advance the bar and set the line."""
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


MAJORITY_LINES = MAJORITY.replace("most ", "most\n")  # no wider than the names of learners


def majority_cell(error: float | None) -> str:
    """Return a cell with the error of always playing the most frequent class."""
    return "not known" if error is None else f"{error:.4f}"


def new_table(*columns: str, numbers: Iterable[str] = (), caption: str = "") -> Table:
    """Return an empty table in the style of all commands; columns of `numbers` follow the others, to the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, caption_justify="left")
    table.caption = caption or None
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def short(value: Any) -> str:
    """Return a value as a cell: floats with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def exact(count: int) -> str:
    """Return a count in thousands or millions, where no digit is lost."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count % size == 0:
            return f"{count // size}{letter}"
    return f"{count:,}"
