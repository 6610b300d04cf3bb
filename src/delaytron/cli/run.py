"""`delaytron run`: learners with parameters that the user gives."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from delaytron import datasets
from delaytron.cli import options, tables
from delaytron.cli.data_options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.jobs import GAMMA, ROUNDS, Data, Grid, RunJob, RunTerms, notes, plan_jobs
from delaytron.cli.outputs import LONG, busy, log, progress_bar, show, targets, write
from delaytron.errors import InvalidInput
from delaytron.learners import DEFAULT_LEARNER

EXAMPLES = """
Examples

delaytron run
delaytron run bandit_logit ova_logistic delaytron --data digits
delaytron run banditron delaytron adaptive_delaytron --delay 1,100,1000
delaytron run delaytron --gamma 0.005,0.01,0.02 --runs 20 --plot curves.png
delaytron run --data digits --delay lognormal:100,1.5+missing:0.2 --json
delaytron run --data iris.csv --label species --scale standard --bias
delaytron run --data iris.csv --label species --missing impute --shuffle
delaytron run ova_logistic --data digits --standardize
delaytron run --data clicks.svm.gz --stream --delay 5000
delaytron run adaptive_delaytron --set tracker=cumulative,instant --output out
"""

Names = Annotated[list[str], typer.Argument(metavar="LEARNERS", help="Names from `delaytron learners`.")]
DataName = Annotated[str, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP)]
Stream = Annotated[bool, typer.Option("--stream", help="Read a file in blocks, each row once: it may exceed memory.")]
Rounds = Annotated[
    int | None, typer.Option(help="Rounds of every run.", show_default="all rows of a file; else 100000")
]
Gammas = Annotated[
    list[str],
    typer.Option(
        metavar="GAMMA",
        help="Exploration rate in (0, 1] of learners that take one; A,B tries both.",
        show_default=str(GAMMA),
    ),
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


@with_data_options()
def run(
    learners: Names = [DEFAULT_LEARNER],  # noqa: B006 - typer copies it
    data: DataName = "synsep",
    how_to_load: DataOptions = AS_IT_IS,
    stream: Stream = False,
    delay: options.Delays = ["1000"],  # noqa: B006
    gamma: Gammas = [],  # noqa: B006
    runs: options.Runs = 5,
    rounds: Rounds = None,
    seed: Seed = 0,
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
    """Play learners on a data set with late feedback and compare their errors.

    The default learner needs no tuning, and raw features will do. Beside the
    learners stands what always playing the most frequent class errs.
    """
    asked = options.read_assignments([*(f"gamma={text}" for text in gamma), *settings])
    common = _feedback(noise, expire_after, on_expiry)
    if standardize:
        common["standardize"] = [True]
    jobs = plan_jobs(learners, options.read_delays(delay), asked, common)
    default = ROUNDS if data in datasets.DATASETS else None  # None: all rows of a file
    terms = RunTerms(default if rounds is None else rounds, runs, seed, sampling)
    files = targets(plot, csv, output, "results", "curves")
    n_jobs = options.check_workers(workers)
    dataset = _open_stream(data, how_to_load) if stream else how_to_load.load(data, seed)
    for job in jobs:
        job.check(dataset)
    options.tell([*notes(jobs, asked), *options.rows_note(data, dataset, terms.rounds_on(dataset))])
    drawn = options.drawn_note(data, dataset, terms.rounds_on(dataset), sampling)
    report = replace(_play(jobs, dataset, terms, n_jobs), drawn=drawn)
    show(report.rows, tables.results_table(report), json)
    write(files, report, report.rows, json)


def _open_stream(path: str, how_to_load: DataOptions) -> datasets.FileStream:
    if path in datasets.DATASETS:
        raise InvalidInput(f"--stream reads files, and {path} is a named data set; leave --stream out")
    given: Any = how_to_load.given
    if given.keys() & {"n_samples", "features", "part"}:
        raise InvalidInput(
            "--samples, --input and --part are for named data sets, --stream is for files; leave one out"
        )
    if "shuffle" in given:
        raise InvalidInput("--shuffle needs all rows in memory, and a stream is played in file order; leave one out")
    with busy(f"checking {path}"):
        opened = datasets.stream(path, **given)
    options.tell(opened.notes)
    return opened


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


def _play(jobs: Sequence[RunJob], data: Data, terms: RunTerms, n_jobs: int | None) -> tables.RunReport:
    n_rounds = terms.rounds_on(data) * terms.runs * sum(job.n_settings for job in jobs)
    played = []
    with progress_bar(n_rounds, tenths=len(jobs) == 1) as advance:
        for job in jobs:
            played.append(job.play(data, terms, n_jobs, advance))
            if n_rounds >= LONG and len(jobs) > 1:
                error = played[-1].result.best().final_error.mean()
                log(f"{job.learner}, delay {job.delay}: error {error:.4f} ({len(played)} of {len(jobs)})")
    return tables.RunReport(played, terms.seed, terms.sampling)
