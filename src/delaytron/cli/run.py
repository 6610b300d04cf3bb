"""`delaytron run`: learners with parameters that the user gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from delaytron import datasets, delays
from delaytron.checks import check_choice
from delaytron.cli import options, tables
from delaytron.cli.outputs import busy, progress_bar, show, targets, write
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.options import own_parameters
from delaytron.simulation.simulate import learner_class, simulate

EXAMPLES = """
Examples

delaytron run
delaytron run banditron delaytron adaptive_delaytron --delay 1,100,1000
delaytron run delaytron --gamma 0.005,0.01,0.02 --runs 20 --plot curves.png
delaytron run --data digits --delay lognormal:100,1.5+missing:0.2 --json
delaytron run --data iris.csv --label species --scale standard --bias
delaytron run --data clicks.svm.gz --stream --delay 5000
delaytron run adaptive_delaytron --set tracker=cumulative,instant --output out
"""

Data = datasets.Dataset | datasets.FileStream
Names = Annotated[list[str], typer.Argument(metavar="LEARNERS", help="Names from `delaytron learners`.")]
DataName = Annotated[str, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP)]
Stream = Annotated[
    bool, typer.Option("--stream", help="Read a Parquet or LIBSVM file in blocks, each row once: it may exceed memory.")
]
Rounds = Annotated[
    int | None, typer.Option(help="Rounds of every run.", show_default="100000; of a stream all its rows")
]
Gammas = Annotated[list[str], typer.Option(metavar="GAMMA", help="Exploration rate in (0, 1]; 0.01,0.02 tries both.")]
Seed = Annotated[int, typer.Option(help="Fixes rows, delays and draws of the runs; the data set stays the same.")]
Sampling = Annotated[str, typer.Option(help="How rows are drawn when rounds exceed them: replacement or epochs.")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; A,B tries both. Repeatable.")
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
    gamma: Gammas = ["0.01"],  # noqa: B006
    runs: options.Runs = 5,
    rounds: Rounds = None,
    seed: Seed = 0,
    samples: options.Samples = None,
    features: options.Features = None,
    part: options.Part = None,
    sampling: Sampling = "replacement",
    threads: options.Threads = None,
    settings: Settings = [],  # noqa: B006
    noise: options.Noise = None,
    expire_after: ExpireAfter = [],  # noqa: B006
    on_expiry: options.OnExpiry = "drop",
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Play learners on a data set with late feedback and compare their errors."""
    rates = options.read_assignments(f"gamma={text}" for text in gamma)
    jobs = _plan(learners, delay, rates | options.read_assignments(settings), _life(noise, expire_after, on_expiry))
    files = targets(plot, csv, output, ("results", "curves"))
    how = {"runs": runs, "seed": seed, "sampling": sampling, "n_jobs": options.check_threads(threads)}
    of_file, of_name = {"label": label, "format": format}, {"features": features, "part": part}
    loading = options.load_options(samples, categorical, scale=scale, bias=bias, **of_file, **of_name)
    dataset = _open_stream(data, loading) if stream else datasets.load(data, **loading)
    report = _play(jobs, dataset, {"rounds": _usual_rounds(dataset) if rounds is None else rounds, **how})
    show(report.rows, tables.results_table(report), json)
    write(files, report, report.rows, json)


def _open_stream(path: str, loading: dict[str, Any]) -> datasets.FileStream:
    if loading.keys() & {"n_samples", "features", "part"}:
        raise InvalidInput("--samples, --features and --part are for named data sets; a stream is a file")
    with busy(f"checking {path}"):
        return datasets.stream(path, **loading)


@dataclass(frozen=True)
class _Job:
    """One call of `simulate`: a learner, a delay, and lists of parameter values."""

    learner: str
    delay: str
    grid: dict[str, Any]

    def check(self, data: Data) -> None:
        """Raise if a value is bad, before anything is played."""
        delays.parse(self.delay)
        for values in product(*self.grid.values()):
            cls: Any = LEARNERS[self.learner]
            cls(data.n_classes, data.n_features, seed=0, **dict(zip(self.grid, values, strict=True)))


def _life(noise: str | None, expire_after: list[int], on_expiry: str) -> dict[str, Any]:
    """Return what the feedback is like, as parameters of every learner; only what was asked for."""
    asked: dict[str, Any] = {"on_expiry": [on_expiry]} if expire_after or on_expiry != "drop" else {}
    if expire_after:
        asked["expire_after"] = expire_after
    if noise is not None:
        asked["noise"] = [options.read_noise(noise)]
    return asked


def _plan(
    names: Sequence[str], delay_texts: Sequence[str], parameters: Mapping[str, Any], feedback_model: dict[str, Any]
) -> list[_Job]:
    takes = {name: list(own_parameters(learner_class(name))) for name in names}
    taken = dict.fromkeys(chain(["gamma"], *takes.values()))  # gamma has a default, so it is always given
    for parameter in parameters:
        check_choice(f"a parameter of {', '.join(takes)}", parameter, taken)
    return [
        _Job(name, delay, {p: values for p, values in parameters.items() if p in own} | feedback_model)
        for name, own in takes.items()
        for delay in options.split_delays(delay_texts)
    ]


def _usual_rounds(data: Data) -> int:
    return data.n_rows if isinstance(data, datasets.FileStream) else 100_000


def _play(jobs: Sequence[_Job], data: Data, shared: dict[str, Any]) -> tables.RunReport:
    for job in jobs:
        job.check(data)
    played = []
    n_settings = sum(prod(map(len, job.grid.values())) for job in jobs)
    with progress_bar(shared["rounds"] * shared["runs"] * n_settings) as advance:
        for job in jobs:
            simulate(job.learner, data, rounds=1, **job.grid)  # compiles, so that the clock below sees no compiler
            start = perf_counter()
            result = simulate(job.learner, data, delay=job.delay, progress=advance, **shared, **job.grid)
            played.append(tables.TimedResult(result, job.delay, perf_counter() - start))
    return tables.RunReport(played, shared["seed"], shared["sampling"])
