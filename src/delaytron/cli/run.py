"""`delaytron run`: learners with parameters that the user gives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from delaytron import datasets, delays
from delaytron.checks import check_choice, check_integer
from delaytron.cli import options, tables
from delaytron.cli.outputs import LONG, busy, log, progress_bar, show, targets, write
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.options import own_parameters
from delaytron.simulation.batches import Progress
from delaytron.simulation.simulate import check_rounds, check_runs, learner_class, simulate

EXAMPLES = """
Examples

delaytron run
delaytron run banditron delaytron adaptive_delaytron --delay 1,100,1000
delaytron run delaytron --gamma 0.005,0.01,0.02 --runs 20 --plot curves.png
delaytron run --data digits --delay lognormal:100,1.5+missing:0.2 --json
delaytron run --data iris.csv --label species --scale standard --bias
delaytron run ova_logistic --data digits --standardize
delaytron run --data clicks.svm.gz --stream --delay 5000
delaytron run adaptive_delaytron --set tracker=cumulative,instant --output out
"""

GAMMA = 0.01  # where none is given
ROUNDS = 100_000
SAMPLING = ("replacement", "epochs")

Data = datasets.Dataset | datasets.FileStream
Grid = dict[str, list[Any]]  # parameters of a learner, each with all the values to try
Names = Annotated[list[str], typer.Argument(metavar="LEARNERS", help="Names from `delaytron learners`.")]
DataName = Annotated[str, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP)]
Stream = Annotated[
    bool, typer.Option("--stream", help="Read a Parquet or LIBSVM file in blocks, each row once: it may exceed memory.")
]
Rounds = Annotated[
    int | None, typer.Option(help="Rounds of every run.", show_default="100000; of a stream all its rows")
]
Gammas = Annotated[
    list[str],
    typer.Option(metavar="GAMMA", help="Exploration rate in (0, 1]; 0.01,0.02 tries both.", show_default=str(GAMMA)),
]
Seed = Annotated[int, typer.Option(help="Fixes rows, delays and draws of the runs; the data set stays the same.")]
Sampling = Annotated[str, typer.Option(help="How rows are drawn when rounds exceed them: replacement or epochs.")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; A,B tries both. Repeatable.")
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Standardise every row by those before it, with a constant appended.")
]
ExpireAfter = Annotated[list[int], typer.Option(metavar="ROUNDS", help="Stop waiting for an answer then. Repeatable.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the error curves: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the errors of every run at every checkpoint.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write results.csv, results.json and curves.png.")]


def run(
    learners: Names = ["delaytron"],  # noqa: B006 - typer copies it
    data: DataName = "synsep",
    label: options.Label = None,
    categorical: options.Categorical = [],  # noqa: B006
    format: options.Format = None,
    scale: options.Scale = None,
    bias: options.Bias = False,
    stream: Stream = False,
    delay: options.Delays = ["1000"],  # noqa: B006
    gamma: Gammas = [],  # noqa: B006
    runs: options.Runs = 5,
    rounds: Rounds = None,
    seed: Seed = 0,
    samples: options.Samples = None,
    input: options.Input = None,
    part: options.Part = None,
    sampling: Sampling = "replacement",
    workers: options.Workers = None,
    settings: Settings = [],  # noqa: B006
    standardize: Standardize = False,
    noise: options.Noise = None,
    expire_after: ExpireAfter = [],  # noqa: B006
    on_expiry: options.OnExpiry = "drop",
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Play learners on a data set with late feedback and compare their errors."""
    asked = options.read_assignments([*(f"gamma={text}" for text in gamma), *settings])
    common = _feedback(noise, expire_after, on_expiry)
    if standardize:
        common["standardize"] = [True]
    jobs = _plan(learners, options.split_delays(delay), asked, common)
    terms = _Terms(rounds, runs, seed, sampling)
    files = targets(plot, csv, output, "results", "curves")
    n_jobs = options.check_workers(workers)
    how_to_load = options.DataOptions(label, categorical, format, scale, bias, samples, input, part)
    dataset = _open_stream(data, how_to_load) if stream else how_to_load.load(data)
    for job in jobs:
        job.check(dataset)
    for line in _notes(jobs, asked):
        typer.echo(f"delaytron: note: {line}", err=True)
    report = _play(jobs, dataset, terms, n_jobs)
    show(report.rows, tables.results_table(report), json)
    write(files, report, report.rows, json)


def _open_stream(path: str, how_to_load: options.DataOptions) -> datasets.FileStream:
    given: Any = how_to_load.given
    if given.keys() & {"n_samples", "features", "part"}:
        raise InvalidInput("--samples, --input and --part are for named data sets; a stream is a file")
    with busy(f"checking {path}"):
        return datasets.stream(path, **given)


@dataclass(frozen=True)
class _Terms:
    """What all simulations of a command share."""

    rounds: int | None
    runs: int
    seed: int
    sampling: str

    def __post_init__(self) -> None:
        check_rounds(1 if self.rounds is None else self.rounds)
        check_runs("runs", self.runs)
        check_integer("seed", self.seed, at_least=0)
        check_choice("sampling", self.sampling, SAMPLING)

    def rounds_on(self, data: Data) -> int:
        """Return the rounds of a run: by default 100000, or all rows of a stream."""
        if self.rounds is None:
            return data.n_rows if isinstance(data, datasets.FileStream) else ROUNDS
        return self.rounds


@dataclass(frozen=True)
class _Job:
    """One call of `simulate`: a learner, a delay, and lists of parameter values."""

    learner: str
    delay: str
    grid: Grid

    @property
    def n_settings(self) -> int:
        """How many combinations of values there are."""
        return prod(map(len, self.grid.values()))

    def check(self, data: Data) -> None:
        """Raise if a value is bad, before anything is played."""
        delays.parse(self.delay)
        for values in product(*self.grid.values()):
            cls: Any = LEARNERS[self.learner]
            cls(data.n_classes, data.n_features, seed=0, **dict(zip(self.grid, values, strict=True)))

    def play(self, data: Data, terms: _Terms, n_jobs: int | None, progress: Progress | None) -> tables.TimedResult:
        """Play all settings; the compiler's time does not count."""
        parameters: Any = self.grid
        simulate(self.learner, data, rounds=1, **parameters)
        start = perf_counter()
        result = simulate(
            self.learner,
            data,
            delay=self.delay,
            rounds=terms.rounds_on(data),
            runs=terms.runs,
            seed=terms.seed,
            sampling=terms.sampling,
            n_jobs=n_jobs,
            progress=progress,
            **parameters,
        )
        return tables.TimedResult(result, self.delay, perf_counter() - start)


def _feedback(noise: str | None, expire_after: list[int], on_expiry: str) -> Grid:
    """Return what the feedback is like, as parameters of every learner; only what was asked for."""
    asked: Grid = {}
    if expire_after or on_expiry != "drop":
        asked["on_expiry"] = [on_expiry]
    if expire_after:
        asked["expire_after"] = expire_after
    if noise is not None:
        asked["noise"] = [options.read_noise(noise)]
    return asked


def _plan(names: Sequence[str], delay_texts: Sequence[str], asked: Grid, common: Grid) -> list[_Job]:
    """Return what is to be played; raise if a parameter was given that no learner takes."""
    takes = {name: list(own_parameters(learner_class(name))) for name in names}
    for parameter in asked:
        _check_taken(parameter, takes)
    parameters: Grid = {"gamma": [GAMMA], **asked}
    return [
        _Job(name, delay, {p: values for p, values in parameters.items() if p in own} | common)
        for name, own in takes.items()
        for delay in delay_texts
    ]


def _check_taken(parameter: str, takes: Mapping[str, Sequence[str]]) -> None:
    """Raise if no learner takes a parameter."""
    known = dict.fromkeys(chain(*takes.values()))
    names = ", ".join(takes)
    if not known:
        raise InvalidInput(f"no parameter can be set of {names}; got {parameter!r}: leave it out")
    check_choice(f"a parameter of {names}", parameter, known)


def _notes(jobs: Sequence[_Job], asked: Iterable[str]) -> Iterator[str]:
    """Iterate over what is to be said of parameters that were given and that some learners do not take."""
    for parameter in asked:
        others = dict.fromkeys(job.learner for job in jobs if parameter not in job.grid)
        if others:
            yield f"{', '.join(others)} {'does' if len(others) == 1 else 'do'} not take {parameter}"


def _play(jobs: Sequence[_Job], data: Data, terms: _Terms, n_jobs: int | None) -> tables.RunReport:
    n_rounds = terms.rounds_on(data) * terms.runs * sum(job.n_settings for job in jobs)
    played = []
    with progress_bar(n_rounds, tenths=len(jobs) == 1) as advance:
        for job in jobs:
            played.append(job.play(data, terms, n_jobs, advance))
            if n_rounds >= LONG and len(jobs) > 1:
                error = played[-1].result.best().final_error.mean()
                log(f"{job.learner}, delay {job.delay}: error {error:.4f} ({len(played)} of {len(jobs)})")
    return tables.RunReport(played, terms.seed, terms.sampling)
