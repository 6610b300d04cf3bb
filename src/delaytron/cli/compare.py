"""`delaytron compare`: all learners x delays, each learner tuned at the same expense."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from delaytron.cli import options
from delaytron.cli.comparison_tables import comparison_document, comparison_table
from delaytron.cli.data_options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import Target, log, progress_bar, show, targets, write, write_numbers
from delaytron.comparison.compare import PreparedComparison, prepare, read_feedback
from delaytron.comparison.results import Comparison, Entry
from delaytron.comparison.tuning import Terms
from delaytron.formats import with_margin

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


@with_data_options()
def compare(
    data: Data,
    learner: Names = [],  # noqa: B006 - typer copies it
    delay: options.Delays = ["1,1000,5000"],  # noqa: B006
    runs: Runs = 10,
    rounds: options.Rounds = 100_000,
    tuning_runs: TuningRuns = 2,
    budget: Budget = 16,
    seed: Seed = 0,
    how_to_load: DataOptions = AS_IT_IS,
    workers: options.Workers = None,
    noise: options.Noise = None,
    expire_after: ExpireAfter = None,
    on_expiry: options.OnExpiry = "drop",
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Compare all learners at several delays, each tuned at the same expense.

    The default learner needs no tuning, and is played as it is.
    At every delay every learner tries the same number of settings (all that
    it has, if fewer) in the same number of runs, on other seeds than those
    reported. Whether rows are standardised online is one of the things tried,
    but for sparse rows of more than 1000 features. For the tuning a synthetic
    data set is drawn again with another seed; other data sets have only one
    set of rows. The setting with the lowest mean error then plays the
    reported runs. With --output, what is there is written after every learner.
    """
    terms = Terms(rounds, runs, tuning_runs, budget, seed)
    feedback = read_feedback(options.read_noise(noise), expire_after, on_expiry)
    files = targets(plot, csv, output, "comparison", "comparison")
    n_jobs = options.check_workers(workers)
    texts = options.read_delays(delay)
    dataset = how_to_load.load(data, seed)
    options.tell(options.rows_note(data, dataset, rounds))
    tuning_data = how_to_load.load_for_tuning(data, seed)
    names = options.split_names(learner) or None
    prepared = prepare(dataset, names, texts, terms, tuning_data, feedback)
    comparison = _play(prepared, n_jobs, files)
    document = comparison_document(comparison)
    show(document, comparison_table(comparison, options.drawn_note(data, dataset, rounds)), json)
    write(files, comparison, document, json)


def _play(prepared: PreparedComparison, n_jobs: int | None, files: Sequence[Target]) -> Comparison:
    """Play all; after every learner write what is there, so that an interrupted comparison is not lost."""
    entries: list[Entry] = []
    with progress_bar(prepared.n_rounds, tenths=False) as advance:
        for entry in prepared.entries(n_jobs, advance):
            entries.append(entry)
            log(_line(entry, len(entries), prepared.n_entries))
            if len(entries) % len(prepared.delays) == 0 and len(entries) < prepared.n_entries:
                so_far = prepared.collect(entries)
                write_numbers(files, so_far, comparison_document(so_far))
    return prepared.collect(entries)


def _line(entry: Entry, done: int, total: int) -> str:
    row = entry.row()
    error = with_margin(row["error"], row["error_margin"])
    return f"{entry.learner}, delay {entry.delay}: error {error} ({done} of {total})"
