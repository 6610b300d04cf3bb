"""`delaytron experiment` and `reproduce`: what a TOML file says, played as far as it is not yet."""

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
from delaytron.cli.outputs import busy, make_folder, show, telling_bar
from delaytron.cli.tables import majority_cell, new_table
from delaytron.errors import InvalidInput
from delaytron.files.atomic import replace_file
from delaytron.formats import assignments, with_margin
from delaytron.simulation.results import MAJORITY

if TYPE_CHECKING:
    from delaytron.experiments.report.model import Report
    from delaytron.experiments.runs import Condition
    from delaytron.experiments.selection import Outcome
    from delaytron.experiments.spec import Spec
    from delaytron.experiments.store import Store
    from delaytron.experiments.theory import TheorySpec
    from delaytron.experiments.workers import Workers as Players

MOST_ROWS = 100  # that anybody reads on a screen
GRACE = 20.0  # seconds that an ending command has to stop its workers

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

File = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What is played; docs/howto/experiments.md tells how.")]
Output = Annotated[Path, typer.Option(metavar="DIR", help="Keep results here; what is there is not played again.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small version, on data that need no download.")]
Only = Annotated[list[str], typer.Option(metavar="DATASET", help="Only these data sets: A,B. Repeatable.")]
Share = Annotated[float, typer.Option(help="A share of the rounds, in (0, 1].")]
Backend = Annotated[str, typer.Option(help="threads, processes, dask or ray.")]
Workers = Annotated[int | None, typer.Option(help="How many of them.", show_default="all cores")]
Address = Annotated[
    str | None, typer.Option(help="Of a Dask scheduler or Ray cluster; a local one is started without.")
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
    """Play an experiment, or what is missing of it, and sum it up.

    It may be stopped at any time, also by a crash: the same command goes on
    where it was. The setting that stands for a learner is chosen on other
    seeds than those reported if the file asks for tuning_runs.
    """
    from delaytron.experiments.spec import read_spec  # noqa: PLC0415 - other commands need none of it

    spec = read_spec(file).only(options.split_names(only)).scaled(share)
    players = _workers(backend, workers, address)
    try:
        conditions = spec.conditions()
    except InvalidInput as problem:
        raise InvalidInput(f"{file}: {problem}") from None
    _play(spec, conditions, file.read_bytes(), output, players, json)


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
    """Play the paper's experiments, or what is missing of them, and sum them up.

    The authors' scale: 8 data sets, 5 delays, 9 gammas, 20 runs of a million
    rounds, for Delaytron, Adaptive Delaytron, Banditron and SOBA. Beyond the
    paper: the default learner, untuned, and every other that there is. It may
    be stopped at any time; the same command goes on where it was.
    """
    from delaytron.experiments.spec import built_in  # noqa: PLC0415 - other commands need none of it

    spec, content = built_in("quick" if quick else "paper")
    asked = spec.only(options.split_names(only)).scaled(share)
    players = _workers(backend, workers, address)
    _play(asked, asked.conditions(), content, output, players, json, with_theory=True)


def _workers(backend: str, number: int | None, address: str | None) -> "Players":
    from delaytron.experiments.workers import Workers  # noqa: PLC0415 - other commands need none of it

    return Workers(backend, number, address).checked


def _play(
    spec: "Spec",
    conditions: "list[Condition]",
    content: bytes,
    output: Path,
    workers: "Players",
    json: bool,
    with_theory: bool = False,
) -> None:
    from delaytron.experiments.facts import read_facts, write_facts  # noqa: PLC0415 - other commands need none of it
    from delaytron.experiments.report import write_report  # noqa: PLC0415
    from delaytron.experiments.selection import outcomes  # noqa: PLC0415
    from delaytron.experiments.store import Store  # noqa: PLC0415
    from delaytron.experiments.theory import theory_specs  # noqa: PLC0415

    names = [condition.data for condition in conditions]
    theory = theory_specs(names, spec.delays, spec.rounds) if with_theory else []
    make_folder(output)
    store = Store(output, warn=_warn)
    replace_file(output / "spec.toml", content)
    _play_missing(conditions, theory, store, workers)
    write_facts(conditions, output)
    found = outcomes(conditions, store)
    with busy("writing the report"):
        report = write_report(spec, found, store, output, theory)
    facts = read_facts(conditions, output)
    known = {name: one.majority_error for name, one in facts.items()}
    rows = [_row(one, known.get(one.condition.data)) for one in found]
    show(rows, _summary(rows, report), json)
    typer.echo(f"wrote {output / 'report.html'}, report.md, results.csv and figures", err=json)


def _play_missing(
    conditions: "list[Condition]", theory: "list[TheorySpec]", store: "Store", workers: "Players"
) -> None:
    """Play what is not there, with a bar; say where it is kept if something ends it."""
    from delaytron.experiments.execute import Watch, execute  # noqa: PLC0415 - other commands need none of it
    from delaytron.experiments.selection import missing_rounds  # noqa: PLC0415

    n_rounds = sum(missing_rounds(condition, store) for condition in conditions)
    n_rounds += sum(spec.n_rounds for spec in theory if not store.theory.has(spec))
    with telling_bar(n_rounds, "rounds", "compiling") as callbacks, _ended_by_signals(workers.backend):
        try:
            execute(conditions, store, workers, Watch(*callbacks), theory)
        except (KeyboardInterrupt, SystemExit):
            typer.echo(f"what was played is kept in {store.folder}; the same command goes on there", err=True)
            raise


@contextmanager
def _ended_by_signals(backend: str) -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that no worker is left; threads end by themselves."""
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
    code = 128 + number  # as a shell says it
    hard_end = threading.Timer(GRACE, os._exit, (code,))  # for a library that waits for ever; what was played is kept
    hard_end.daemon = True
    hard_end.start()
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(code)


def _warn(line: str) -> None:
    typer.echo(f"delaytron: {line}", err=True)


def _summary(rows: list[OutcomeRow], report: "Report") -> Group:
    """Return the errors, or if these are too many to look at what they mean, and the verdicts."""
    table = _table(rows) if len(rows) <= MOST_ROWS else _short_table(report)
    return Group(table, *(f"({claim.key}) {claim.verdict}: {claim.statement}" for claim in report.claims))


def _short_table(report: "Report") -> Table:
    """Return the first table of the report: who wins, where that is asked."""
    from delaytron.experiments.report.model import shown  # noqa: PLC0415

    first = report.sections[0].table
    table = new_table(*first.columns)
    for row in first.rows:
        table.add_row(*("" if cell is None else escape(shown(cell)) for cell in row))
    return table


def _row(outcome: "Outcome", majority_error: float | None) -> OutcomeRow:
    return {
        "dataset": outcome.condition.data,
        "learner": outcome.condition.title,
        "delay": outcome.condition.delay,
        "parameters": outcome.run.parameters,
        "rounds": outcome.run.rounds,
        "runs": outcome.run.runs,
        **outcome.result.errors(),
        "majority_error": majority_error,
        "final_errors": outcome.result.final_error.tolist(),
        "file": f"{outcome.run.key}.parquet",
    }


def _table(rows: list[OutcomeRow]) -> Table:
    """Return a line for the most frequent class of each data set, and one per outcome."""
    table = new_table("dataset", "learner", "delay", "setting")
    for title in ("error ± 95 %", "greedy ± 95 %", "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, majority in {row["dataset"]: row["majority_error"] for row in rows}.items():
        table.add_row(escape(name), MAJORITY, "any", "-", majority_cell(majority))
    for row in rows:
        setting = assignments(row["parameters"]) or "untuned"
        cells = [row["dataset"], row["learner"], row["delay"], setting]
        error = with_margin(row["error"], row["error_margin"])
        greedy = with_margin(row["greedy_error"], row["greedy_error_margin"])
        table.add_row(*map(escape, cells), error, greedy, str(row["runs"]))
    return table
