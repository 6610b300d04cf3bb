"""`delaytron compare`: all learners at several delays, each tuned with the same budget."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from delaytron.cli import options
from delaytron.cli.documents import ComparisonDocument, ComparisonRow, LeftOut
from delaytron.cli.options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import (
    MAJORITY_LINES,
    Target,
    exact,
    log,
    majority_cell,
    new_table,
    progress_bar,
    short,
    show,
    targets,
    write,
    write_numbers,
)
from delaytron.experiments.compare import (
    DELAYS,
    ROUNDS,
    Comparison,
    Entry,
    PreparedComparison,
    Terms,
    prepare,
    read_feedback,
    usual_rounds,
)
from delaytron.formats import assignments, versions, with_margin


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """Return a comparison as plain values."""
    terms = comparison.terms
    return ComparisonDocument(
        dataset=comparison.dataset,
        rounds=terms.rounds,
        runs=terms.runs,
        tuning_runs=terms.tuning_runs,
        budget=terms.budget,
        seed=terms.seed,
        tuning_seed=terms.tuning_seed,
        results=[
            ComparisonRow(
                learner=entry.learner,
                dataset=entry.result.dataset,
                form=entry.result.form,
                delay=entry.delay,
                parameters=entry.result.parameters[0],
                tuned=list(entry.setting),
                rounds=int(entry.result.rounds[-1]),
                runs=len(entry.result.run),
                **entry.result.errors(),
                majority_error=entry.result.majority_error,
                final_errors=entry.result.final_error.tolist(),
                final_greedy_errors=entry.result.greedy_error.tolist(),
                seconds=entry.seconds,
                settings_tried=entry.tried,
                tuning_seconds=entry.tuning_seconds,
                remark=entry.remark,
            )
            for entry in comparison.entries
        ],
        left_out=[LeftOut(learner=name, reason=reason) for name, reason in comparison.left_out.items()],
        versions=versions(),
    )


def comparison_table(comparison: Comparison, drawn: str) -> Table:
    """Return the table of a comparison: a line per learner, the best at the largest delay first.

    Learners whose errors are not comparable, such as those that learn from the true label, are below the others.
    `drawn` is a note on repeated rows, or empty.
    """
    delays = comparison.delays
    ranked = sorted(comparison.learners.items(), key=lambda item: bool(item[1][0].remark))
    lines = _comparison_lines(comparison, ranked, gap=" ")
    if _width(lines, unbroken=len(delays) + 1) > Console().width:
        lines = _comparison_lines(comparison, ranked, gap="\n")
    terms = comparison.terms
    caption = [
        f"error ± 95 %: {terms.runs} runs of {exact(terms.rounds)} rounds, seed {terms.seed}; tuned, if not "
        f"said otherwise, by {terms.tuning_runs} runs of at most {terms.budget} settings, seed {terms.tuning_seed}",
        *[drawn] * bool(drawn),
        *(f"{sign} {remark}" for remark, sign in comparison.marks.items()),
        *(f"{name} cannot play: {reason}" for name, reason in comparison.left_out.items()),
    ]
    table = new_table(caption=escape("\n".join(caption)))
    for place, title in enumerate(lines[0]):
        is_text = place in (0, len(delays) + 1)
        table.add_column(escape(title), justify="left" if is_text else "right", overflow="fold", no_wrap=place == 0)
    usable = 1 + sum(not rows[0].remark for _, rows in ranked)
    for line in lines[1:usable]:
        table.add_row(*map(escape, line))
    table.add_row(MAJORITY_LINES, *(majority_cell(comparison.majority_error) for _ in delays))
    if lines[usable:]:
        table.add_section()
        table.add_row("for reference", style="bold")
    for line in lines[usable:]:
        table.add_row(*map(escape, line))
    return table


def _comparison_lines(
    comparison: Comparison, ranked: Sequence[tuple[str, Sequence[Entry]]], gap: str
) -> list[list[str]]:
    """Return the titles and a line per learner; `gap` separates a delay from its word and an error from its margin."""
    delays = comparison.delays
    lines = [["learner", *(f"delay{gap}{delay}" for delay in delays), f"setting at {delays[-1]}", "s", "tune s"]]
    for name, entries in ranked:
        rows = [entry.row() for entry in entries]
        errors = [with_margin(row["error"], row["error_margin"]).replace(" ±", f"{gap}±") for row in rows]
        chosen = entries[-1].setting.items()
        setting = {
            parameter: f"{value:.3g}" if isinstance(value, float) and abs(value) < 1 else short(value)
            for parameter, value in chosen
            if parameter != "standardize" or value
        }
        seconds, tuning_seconds = (f"{sum(row[key] for row in rows):.1f}" for key in ("seconds", "tuning_seconds"))
        cells = [*errors, assignments(setting) or "untuned", seconds, tuning_seconds]
        lines.append([comparison.marked(name), *cells])
    return lines


def _width(lines: Sequence[Sequence[str]], unbroken: int) -> int:
    """Return the width of a table in which the first columns are not broken, and others only between words."""
    widths = []
    for place, cells in enumerate(zip(*lines, strict=True)):
        pieces = cells if place < unbroken else [word for cell in cells for word in cell.split()]
        widths.append(max(map(len, pieces)) + 2)
    return sum(widths)


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
Delays = Annotated[
    list[str],
    typer.Option(metavar="DELAY", help=options.DELAY_HELP, show_default=f"1,1000,5000{options.WHERE_RECORDED}"),
]
TuningRuns = Annotated[int, typer.Option(help="Runs of every setting that is tried.")]
Budget = Annotated[int, typer.Option(help="Settings that every learner may try at every delay.")]
Seed = Annotated[
    int, typer.Option(help="Random seed of the reported runs and of the settings tried; tuning adds 1000003.")
]
ExpireAfter = Annotated[
    int | None, typer.Option(metavar="ROUNDS", help="Rounds after which a decision expires.", show_default="never")
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw errors against delays: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line per learner and delay.")]
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write comparison.csv, comparison.json and comparison.png.")
]


@with_data_options()
def compare(
    data: Data,
    learner: Names = [],  # noqa: B006 - typer copies it
    delay: Delays = [],  # noqa: B006
    runs: Runs = 10,
    rounds: options.Rounds = None,
    tuning_runs: TuningRuns = 2,
    budget: Budget = 16,
    seed: Seed = 0,
    how_to_load: DataOptions = AS_IT_IS,
    workers: options.Workers = None,
    noise: options.Noise = None,
    expire_after: ExpireAfter = None,
    on_expiry: options.OnExpiry = "drop",
    correct_within: options.CorrectWithin = None,
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: options.Json = False,
) -> None:
    """Compare all learners at several delays, each tuned with the same budget.

    The default learner is not tuned. At every delay every other learner tries
    the same number of settings (all that it has, if fewer) in the same number
    of runs, on other seeds than those reported. Online standardisation of rows
    is one of the settings tried, except for sparse rows of more than 1000
    features. For the tuning a synthetic data set is drawn with another seed;
    other data sets have only one set of rows. The setting with the lowest mean
    error plays the reported runs. With --csv or --output, results are written
    after every learner.
    """
    terms = Terms(ROUNDS if rounds is None else rounds, runs, tuning_runs, budget, seed)
    feedback = read_feedback(options.read_noise(noise), expire_after, on_expiry, correct_within)
    files = targets(plot, csv, output, "comparison", "comparison")
    n_jobs = options.check_workers(workers)
    texts = options.read_delays(delay or options.usual_delays(data, how_to_load, DELAYS))
    dataset = how_to_load.load(data, seed)
    if rounds is None:
        terms = replace(terms, rounds=usual_rounds(dataset))
    options.print_notes(options.rows_note(data, dataset, terms.rounds))
    tuning_data = how_to_load.load_for_tuning(data, seed)
    names = options.split_names(learner) or None
    prepared = prepare(dataset, names, texts, terms, tuning_data, feedback)
    comparison = _play(prepared, n_jobs, files)
    document = comparison_document(comparison)
    show(document, comparison_table(comparison, options.drawn_note(data, dataset, terms.rounds)), json)
    write(files, comparison, document, json)


def _play(prepared: PreparedComparison, n_jobs: int | None, files: Sequence[Target]) -> Comparison:
    """Play all; after every learner write the results so far, so that an interrupted comparison is not lost."""
    entries: list[Entry] = []
    with progress_bar(prepared.n_rounds, tenths=False) as advance:
        for entry in prepared.entries(n_jobs, advance):
            entries.append(entry)
            row = entry.row()
            error = with_margin(row["error"], row["error_margin"])
            log(f"{entry.learner}, delay {entry.delay}: error {error} ({len(entries)} of {prepared.n_entries})")
            if len(entries) % len(prepared.delays) == 0 and len(entries) < prepared.n_entries:
                so_far = prepared.collect(entries)
                write_numbers(files, so_far, comparison_document(so_far))
    return prepared.collect(entries)
