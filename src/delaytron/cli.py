"""The command line: parse, one call, print."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from delaytron import __version__, datasets, delays, tables
from delaytron.checks import choice, whole
from delaytron.errors import DelaytronError, InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.common import own_parameters
from delaytron.simulate import learner_class, simulate

DELAY_HELP = f"{delays.ALLOWED}. Repeatable; 1,100,1000 tries all three."
RUN_EXAMPLES = """
Examples

delaytron run
delaytron run banditron delaytron adaptive_delaytron --delay 1,100,1000
delaytron run delaytron --gamma 0.005,0.01,0.02 --runs 20 --plot curves.png
delaytron run --data digits --delay lognormal:100,1.5+missing:0.2 --json
delaytron run adaptive_delaytron --set tracker=cumulative,instant --output out
"""


UsageError: Any = typer.BadParameter.__base__  # its module depends on the version of typer


class _Commands(TyperGroup):
    """Turns what went wrong into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (DelaytronError, OSError) as problem:
            _stop(str(problem), 2)
        except UsageError as problem:
            _stop(f"{problem.format_message().rstrip('.')}; see delaytron --help", 2)
        except MemoryError:
            _stop("not enough memory; try fewer --rounds, --runs or --threads", 2)
        except KeyboardInterrupt:
            _stop("interrupted", 130)


def _stop(message: str, code: int) -> None:
    typer.echo(f"delaytron: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line."""
    app(prog_name="delaytron")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"delaytron {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Names = Annotated[list[str], typer.Argument(metavar="LEARNERS", help="Names from `delaytron learners`.")]
Data = Annotated[str, typer.Option(help="A name from `delaytron datasets`.")]
Delays = Annotated[list[str], typer.Option(metavar="DELAY", help=DELAY_HELP)]
Gammas = Annotated[list[str], typer.Option(metavar="GAMMA", help="Exploration rate in (0, 1]; 0.01,0.02 tries both.")]
Runs = Annotated[int, typer.Option(help="Runs of every setting.")]
Rounds = Annotated[int, typer.Option(help="Rounds of every run.")]
Seed = Annotated[int, typer.Option(help="Fixes rows, delays and draws of the runs; the data set stays the same.")]
Samples = Annotated[int | None, typer.Option(help="Rows of a synthetic data set.", show_default="100000")]
Sampling = Annotated[str, typer.Option(help="How rows are drawn when rounds exceed them: replacement or epochs.")]
Threads = Annotated[int | None, typer.Option(help="Runs played at the same time.", show_default="all cores")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; A,B tries both. Repeatable.")
]
Noise = Annotated[
    str | None, typer.Option(metavar="RHO0,RHO1", help="Rates at which a wrong is told as right, a right as wrong.")
]
ExpireAfter = Annotated[list[int], typer.Option(metavar="ROUNDS", help="Stop waiting for an answer then. Repeatable.")]
OnExpiry = Annotated[str, typer.Option(help="What no answer in time means: drop (nothing) or wrong (until corrected).")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the error curves: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the errors of every run at every checkpoint.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write results.csv, results.json and curves.png.")]


@app.callback(epilog="Examples\n\ndelaytron run --rounds 20000\ndelaytron run --help\ndelaytron learners")
def delaytron(version: Version = False) -> None:
    """Choose among K labels when the only answer is right or wrong, and comes late, out of order, or never."""


@app.command(epilog=RUN_EXAMPLES)
def run(
    learners: Names = ["delaytron"],  # noqa: B006 - typer copies it
    data: Data = "synsep",
    delay: Delays = ["1000"],  # noqa: B006
    gamma: Gammas = ["0.01"],  # noqa: B006
    runs: Runs = 5,
    rounds: Rounds = 100_000,
    seed: Seed = 0,
    samples: Samples = None,
    sampling: Sampling = "replacement",
    threads: Threads = None,
    settings: Settings = [],  # noqa: B006
    noise: Noise = None,
    expire_after: ExpireAfter = [],  # noqa: B006
    on_expiry: OnExpiry = "drop",
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Play learners on a data set with late feedback and compare their errors."""
    life = _life(noise, expire_after, on_expiry)
    jobs = _plan(learners, delay, _assigned(f"gamma={text}" for text in gamma) | _assigned(settings), life)
    targets = list(_targets(plot, csv, output))
    if threads is not None:
        whole("threads", threads, at_least=1)
    shared = {"rounds": rounds, "runs": runs, "seed": seed, "sampling": sampling, "n_jobs": threads}
    report = _play(jobs, _load(data, samples), shared)
    _show(report.rows, tables.results_table(report), json)
    for path, write in targets:
        write(report, path)
        typer.echo(f"wrote {path}", err=json)


@app.command(epilog="Examples\n\ndelaytron learners\ndelaytron learners --json")
def learners(json: Json = False) -> None:
    """List the learners with their parameters, and what feedback tells them."""
    rows = tables.learner_rows()
    _show(rows, tables.registry_table(rows), json)


@app.command("datasets", epilog="Examples\n\ndelaytron datasets\ndelaytron datasets --json")
def list_datasets(json: Json = False) -> None:
    """List the data sets with their options."""
    rows = tables.dataset_rows()
    _show(rows, tables.registry_table(rows), json)


def _show(rows: Sequence[tables.Row], table: Any, json: bool) -> None:
    if json:
        typer.echo(tables.as_json(rows))
    else:
        Console(highlight=False).print(table)


@dataclass(frozen=True)
class _Job:
    """One call of `simulate`: a learner, a delay, and lists of parameter values."""

    learner: str
    delay: str
    grid: dict[str, Any]

    def check(self) -> None:
        """Refuse bad values before anything is played."""
        delays.parse(self.delay)
        for values in product(*self.grid.values()):
            cls: Any = LEARNERS[self.learner]
            cls(2, 1, seed=0, **dict(zip(self.grid, values, strict=True)))


def _life(noise: str | None, expire_after: list[int], on_expiry: str) -> dict[str, Any]:
    """Return what the feedback is like, as parameters of every learner; only what was asked for."""
    asked: dict[str, Any] = {"on_expiry": [on_expiry]} if expire_after or on_expiry != "drop" else {}
    if expire_after:
        asked["expire_after"] = expire_after
    if noise is not None:
        asked["noise"] = [tuple(map(_value, noise.split(",")))]
    return asked


def _plan(
    names: Sequence[str], delay_texts: Sequence[str], parameters: Mapping[str, Any], life: dict[str, Any]
) -> list[_Job]:
    takes = {name: list(own_parameters(learner_class(name))) for name in names}
    taken = dict.fromkeys(chain(["gamma"], *takes.values()))  # gamma has a default, so it is always given
    for parameter in parameters:
        choice(f"a parameter of {', '.join(takes)}", parameter, taken)
    jobs = [
        _Job(name, delay, {p: values for p, values in parameters.items() if p in own} | life)
        for name, own in takes.items()
        for delay in _split_delays(delay_texts)
    ]
    for job in jobs:
        job.check()
    return jobs


def _play(jobs: Sequence[_Job], data: datasets.Dataset, shared: dict[str, Any]) -> tables.Report:
    played = []
    n_settings = sum(prod(map(len, job.grid.values())) for job in jobs)
    with tables.progress_bar(shared["rounds"] * shared["runs"] * n_settings) as advance:
        for job in jobs:
            simulate(job.learner, data, rounds=1)  # compiles, so that the clock below sees no compiler
            start = perf_counter()
            result = simulate(job.learner, data, delay=job.delay, progress=advance, **shared, **job.grid)
            played.append(tables.Played(result, job.delay, perf_counter() - start))
    return tables.Report(played, shared["seed"], shared["sampling"])


def _load(name: str, samples: int | None) -> datasets.Dataset:
    options = {} if samples is None else {"n_samples": samples}
    return datasets.load(name, **options)


def _split_delays(texts: Sequence[str]) -> list[str]:
    """Split 1,100,1000 but not lognormal:100,1.5 and drop what comes twice."""
    plain = {text: all(piece.strip().isdecimal() for piece in text.split(",")) for text in texts}
    return list(dict.fromkeys(piece.strip() for t in texts for piece in (t.split(",") if plain[t] else [t])))


def _assigned(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Read NAME=VALUE,VALUE; a name given twice collects all its values."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set wants NAME=VALUE, as in --set eta=0.5; got {text!r}")
        known = found.setdefault(name.strip(), [])
        known.extend(v for v in map(_value, values.split(",")) if v not in known)
    return found


def _value(text: str) -> Any:
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()


def _targets(plot: Path | None, csv: Path | None, output: Path | None) -> Iterator[tuple[Path, tables.Writer]]:
    """Go through the files to write, each checked, with the function that writes it."""
    asked = [(plot, tables.write_picture), (csv, tables.write_csv)]
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        asked.append((output / "results.csv", tables.write_csv))
        asked.append((output / "results.json", tables.write_json))
        asked.append((output / "curves.png", tables.write_picture))
    for path, write in asked:
        if path is not None:
            tables.check_target(path, picture=write is tables.write_picture)
            yield path, write
