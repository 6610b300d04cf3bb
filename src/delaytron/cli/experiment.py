"""`delaytron experiment` and `reproduce`: the missing runs of an experiment in TOML, and its report."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from delaytron.cli import options
from delaytron.cli.documents import OutcomeRow
from delaytron.cli.outputs import bar_with_line, busy, majority_cell, make_folder, new_table, show
from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.formats import assignments, with_margin
from delaytron.simulation.results import MAJORITY

if TYPE_CHECKING:
    from delaytron.experiments.execute import Workers as Players
    from delaytron.experiments.report.model import Report
    from delaytron.experiments.report.model import Table as PlainTable
    from delaytron.experiments.spec import Condition, Spec
    from delaytron.experiments.store import Outcome

NAMED = ("hotel_resort", "incidents")  # experiments that come with the package, besides those of `reproduce`
MOST_ROWS = 100  # of the table on the screen; beyond, the first table of the report is shown
GRACE = 20.0  # seconds to stop the workers after a signal

EXAMPLES = """
Examples

delaytron experiment spec.toml --output results
delaytron experiment spec.toml --only digits --share 0.1
"""

REPRODUCE_EXAMPLES = """
Examples

delaytron reproduce --quick
delaytron reproduce --only digits,usps --share 0.1 --output results/part
"""

File = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC.toml",
        help=f"The experiment, see docs/howto/experiments.md; or one that comes with the package: {', '.join(NAMED)}.",
    ),
]
Output = Annotated[Path, typer.Option(metavar="DIR", help="The folder of results; runs in it are not played again.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small version, on data that need no download.")]
Only = Annotated[list[str], typer.Option(metavar="DATASET", help="Only these data sets: A,B. Repeatable.")]
Share = Annotated[float, typer.Option(help="Play this share of the rounds, in (0, 1].")]
Backend = Annotated[str, typer.Option(help="Kind of workers: threads, processes, dask or ray.")]
Workers = Annotated[int | None, typer.Option(help="Number of workers.", show_default="all cores")]
Address = Annotated[
    str | None, typer.Option(help="A Dask scheduler or Ray cluster.", show_default="a local one is started")
]


def experiment(
    file: File,
    output: Output = Path("results"),
    only: Only = [],  # noqa: B006 - typer copies it
    share: Share = 1.0,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = None,
    json: options.Json = False,
) -> None:
    """Play the missing runs of an experiment, and write its report.

    It can be interrupted at any time, also by a crash: the same command
    resumes. If the file has tuning_runs, the setting of a learner is chosen on
    other seeds than those reported.
    """
    from delaytron.experiments.execute import Workers as Players  # noqa: PLC0415 - other commands need none of it
    from delaytron.experiments.spec import built_in, read_spec  # noqa: PLC0415

    known = str(file) in NAMED and not file.exists()
    spec, content = built_in(str(file)) if known else (read_spec(file), file.read_bytes())
    spec = spec.only(options.split_names(only)).scaled(share)
    players = Players(backend, workers, address).checked
    try:
        conditions = spec.conditions()
    except InvalidInput as problem:
        raise problem.at(str(file)) from None
    _play(spec, conditions, content, output, players, json)


def reproduce(
    quick: Quick = False,
    output: Output = Path("results/paper"),
    only: Only = [],  # noqa: B006
    share: Share = 1.0,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = None,
    json: options.Json = False,
) -> None:
    """Play the missing runs of the paper's experiments, and write their report.

    The authors' scale: 8 data sets, 5 delays, 9 gammas, 20 runs of a million
    rounds, for Delaytron, Adaptive Delaytron, Banditron and SOBA. Beyond the
    paper: the default learner, untuned, and all other learners. It can be
    interrupted at any time; the same command resumes.
    """
    from delaytron.experiments.execute import Workers as Players  # noqa: PLC0415 - other commands need none of it
    from delaytron.experiments.spec import built_in  # noqa: PLC0415

    spec, content = built_in("quick" if quick else "paper")
    asked = spec.only(options.split_names(only)).scaled(share)
    players = Players(backend, workers, address).checked
    _play(asked, asked.conditions(), content, output, players, json, with_theory=True)


def _play(
    spec: "Spec",
    conditions: "list[Condition]",
    content: bytes,
    output: Path,
    workers: "Players",
    json: bool,
    with_theory: bool = False,
) -> None:
    """Play the missing runs (if interrupted, print where the results are), write the report and show its table."""
    from delaytron.experiments.execute import Watch, execute  # noqa: PLC0415 - other commands need none of it
    from delaytron.experiments.report.report import write_report  # noqa: PLC0415
    from delaytron.experiments.store import (  # noqa: PLC0415
        RunStore,
        missing_rounds,
        outcomes,
        write_facts,
    )
    from delaytron.experiments.theory import theory_specs  # noqa: PLC0415

    names = [condition.data for condition in conditions]
    theory = theory_specs(names, spec.delays, spec.rounds) if with_theory else []
    make_folder(output)
    store = RunStore(output, warn=lambda line: typer.echo(f"delaytron: {line}", err=True))
    replace_file(output / "spec.toml", content)
    n_rounds = sum(missing_rounds(condition, store) for condition in conditions)
    n_rounds += sum(study.n_rounds for study in theory if not store.theory.has(study))
    with bar_with_line(n_rounds, "rounds", "compiling") as callbacks, _ended_by_signals(workers.backend):
        try:
            execute(conditions, store, workers, Watch(*callbacks), theory)
        except (KeyboardInterrupt, SystemExit):
            typer.echo(f"what was played is kept in {store.folder}; the same command resumes", err=True)
            raise
    write_facts(conditions, output)
    found = outcomes(conditions, store)
    if spec.bakeoff:
        _show_bakeoff(spec, found, output, json)
        return
    with busy("writing the report"):
        report = write_report(spec, found, store, output, theory)
    rows = _rows(found, output)
    verdicts = (f"({claim.key}) {claim.verdict}: {claim.statement}" for claim in report.claims)
    show(rows, Group(_table(rows, report), *verdicts), json)
    typer.echo(f"wrote {output / 'report.html'}, report.md, results.csv and figures", err=json)


def _show_bakeoff(spec: "Spec", found: "list[Outcome]", output: Path, json: bool) -> None:
    """Write the page of a bake-off, and show its first table."""
    from delaytron.experiments.report.bakeoff import write_bakeoff  # noqa: PLC0415 - other commands need none of it

    with busy("writing the page"):
        page = write_bakeoff(spec, found, spec.left_out(), output)
    show(_rows(found, output), _plain_table(page.first), json)
    typer.echo(f"wrote {output / 'bakeoff.md'}, bakeoff.csv and figures", err=json)


def _rows(found: "list[Outcome]", output: Path) -> list[OutcomeRow]:
    """Return every outcome as plain values."""
    from delaytron.experiments.store import read_facts  # noqa: PLC0415 - other commands need none of it

    facts = read_facts([one.condition for one in found], output)
    known = {name: one.majority_error for name, one in facts.items()}
    return [
        OutcomeRow(
            dataset=one.condition.data,
            learner=one.condition.title,
            delay=one.condition.delay,
            parameters=one.run.parameters,
            rounds=one.run.rounds,
            runs=one.run.runs,
            **one.result.errors(),
            majority_error=known.get(one.condition.data),
            final_errors=one.result.final_error.tolist(),
            file=f"{one.run.key}.parquet",
        )
        for one in found
    ]


@contextmanager
def _ended_by_signals(backend: str) -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that no worker process is left behind."""
    if backend == "threads" or threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)]  # Windows has no SIGHUP
    before = {name: signal.signal(getattr(signal, name), _end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _end(number: int, _: object) -> NoReturn:
    code = 128 + number  # the convention of shells
    hard_end = threading.Timer(GRACE, os._exit, (code,))  # in case a library never returns; what was played is kept
    hard_end.daemon = True
    hard_end.start()
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(code)


def _table(rows: list[OutcomeRow], report: "Report") -> Table:
    """Return a line for the most frequent class of each data set and one per outcome; of many, the report's table."""
    if len(rows) > MOST_ROWS:
        return _plain_table(report.sections[0].table)
    table = new_table("dataset", "learner", "delay", "setting", numbers=("error ± 95 %", "greedy ± 95 %", "runs"))
    for name, majority in {row.dataset: row.majority_error for row in rows}.items():
        table.add_row(escape(name), MAJORITY, "any", "-", majority_cell(majority))
    for row in rows:
        names = (row.dataset, row.learner, row.delay, assignments(row.parameters) or "untuned")
        error = with_margin(row.error, row.error_margin)
        greedy = with_margin(row.greedy_error, row.greedy_error_margin)
        table.add_row(*map(escape, names), error, greedy, str(row.runs))
    return table


def _plain_table(shown_table: "PlainTable") -> Table:
    """Return a table of a report for the screen."""
    from delaytron.experiments.report.model import shown  # noqa: PLC0415 - other commands need none of it

    table = new_table(*shown_table.columns)
    for cells in shown_table.rows:
        table.add_row(*("" if cell is None else escape(shown(cell)) for cell in cells))
    return table
