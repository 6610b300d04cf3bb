"""`delaytron compare`: all learners x delays, each learner tuned at the same expense."""

from pathlib import Path
from typing import Annotated

import typer

from delaytron import datasets
from delaytron.cli import options
from delaytron.cli.outputs import progress_bar, show, targets, write
from delaytron.cli.tables import comparison_document, comparison_table
from delaytron.comparison.compare import prepare, read_feedback
from delaytron.comparison.tuning import Terms, load_for_tuning

EXAMPLES = """
Examples

delaytron compare synsep --rounds 20000 --runs 5 --budget 4
delaytron compare synnonsep --delay 1,100,1000 --output out
delaytron compare digits --learner delaytron,pab --delay lognormal:100,1.5
delaytron compare clicks.parquet --label clicked --scale standard --bias
delaytron compare synsep --learner gap --expire-after 500 --on-expiry wrong
"""

Data = Annotated[str, typer.Argument(metavar="DATASET", help=options.DATA_HELP)]
Names = Annotated[
    list[str], typer.Option("--learner", metavar="LEARNER", help="Only these: A,B. Repeatable.", show_default="all")
]
Runs = Annotated[int, typer.Option(help="Reported runs of every learner at every delay.")]
TuningRuns = Annotated[int, typer.Option(help="Runs of every setting that is tried.")]
Budget = Annotated[int, typer.Option(help="Settings that every learner may try at every delay.")]
Seed = Annotated[int, typer.Option(help="Of the reported runs and the choice of settings; tuning adds 1000003.")]
ExpireAfter = Annotated[int | None, typer.Option(metavar="ROUNDS", help="Stop waiting for an answer then.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw errors against delays: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line per learner and delay.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write comparison.csv, comparison.json, and .png.")]


def compare(
    data: Data,
    learner: Names = [],  # noqa: B006 - typer copies it
    delay: options.Delays = ["1,1000,5000"],  # noqa: B006
    runs: Runs = 10,
    rounds: options.Rounds = 100_000,
    tuning_runs: TuningRuns = 2,
    budget: Budget = 16,
    seed: Seed = 0,
    label: options.Label = None,
    categorical: options.Categorical = [],  # noqa: B006
    format: options.Format = None,
    scale: options.Scale = None,
    bias: options.Bias = False,
    samples: options.Samples = None,
    features: options.Features = None,
    part: options.Part = None,
    threads: options.Threads = None,
    noise: options.Noise = None,
    expire_after: ExpireAfter = None,
    on_expiry: options.OnExpiry = "drop",
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Compare all learners at several delays, each tuned at the same expense.

    At every delay every learner tries the same number of settings (all that
    it has, if fewer) in the same number of runs, on other seeds than those
    reported. For this a synthetic data set is drawn anew; other data sets have
    but one set of rows. The setting with the lowest mean error then plays the
    reported runs.
    """
    terms = Terms(rounds, runs, tuning_runs, budget, seed)
    feedback = read_feedback(options.read_noise(noise), expire_after, on_expiry)
    files, n_jobs = targets(plot, csv, output, ("comparison", "comparison")), options.check_threads(threads)
    names = options.split_names(learner) or None
    of_file, of_name = {"label": label, "format": format}, {"features": features, "part": part}
    loading = options.load_options(samples, categorical, scale=scale, bias=bias, **of_file, **of_name)
    dataset = datasets.load(data, **loading)
    contest = prepare(
        dataset, names, options.split_delays(delay), terms, load_for_tuning(data, seed, **loading), feedback
    )
    with progress_bar(contest.n_rounds) as advance:
        comparison = contest.play(n_jobs, advance)
    document = comparison_document(comparison)
    show(document, comparison_table(comparison), json)
    write(files, comparison, document, json)
