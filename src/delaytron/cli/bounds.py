"""`delaytron bounds`: the bounds of the theory; with data, the measured regret beside them."""

import json as json_files
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import numpy as np
import typer
from msgspec.structs import asdict
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from delaytron import datasets, delays
from delaytron.cli import options
from delaytron.cli.documents import BoundLine, BoundsDocument, ComparatorLine, MeasuredLine, StudyDocument
from delaytron.cli.options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import busy, new_table, progress_bar, show, targets, write
from delaytron.delays.models import ALLOWED
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.formats import compact, versions
from delaytron.learners import Delaytron
from delaytron.learners.arguments import COMMON, own_parameters
from delaytron.simulation.results import Mean, Setting
from delaytron.theory import measure
from delaytron.theory.bounds import Arguments
from delaytron.theory.statements import GATED, GREEDY, HINGE, PLAYED, BoundRow, table
from delaytron.theory.study import Study, Trial, TrialTerms, play, prepare

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")
THEORY_ALONE = ("classes", "radius", "norm", "comparator_loss")  # known where there are data
MEASURED = ("comparator", "runs", "sampling", "workers", "plot")  # needed for runs only
RECORDED = ("rounds", "gamma", "eta", "seed", "missing", "runs", "sampling")  # stored with results


@dataclass(frozen=True)
class BoundOptions:
    """The options of the command that concern the bounds and the runs; None for what was not given."""

    rounds: int | None
    classes: int | None
    gamma: float | None
    radius: float | None
    norm: float | None
    comparator_loss: float | None
    delay: str | None
    missing: float | None
    eta: float | None
    loss_bound: float | None
    comparator: str | None
    runs: int | None
    seed: int | None
    sampling: str | None
    workers: int | None
    plot: Path | None

    def flags(self, names: Iterable[str]) -> list[str]:
        """Return the flags of the options among `names` that were given."""
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    @property
    def delay_text(self) -> str:
        """The delay and the share of missing answers, as one model."""
        text = given_or(self.delay, str(TrialTerms.delay))
        return text if self.missing is None else f"{text}+missing:{self.missing}"

    @property
    def terms(self) -> TrialTerms:
        """The terms of the runs, with defaults for options that were not given."""
        return TrialTerms(
            gamma=given_or(self.gamma, TrialTerms.gamma),
            delay=self.delay_text,
            rounds=given_or(self.rounds, TrialTerms.rounds),
            runs=given_or(self.runs, TrialTerms.runs),
            seed=given_or(self.seed, TrialTerms.seed),
            sampling=given_or(self.sampling, TrialTerms.sampling),
            eta=self.eta,
            loss_bound=self.loss_bound,
            comparator=self.comparator,
        )


def given_or(value: T | None, usual: T) -> T:
    """Return a value that was given, else the usual one."""
    return usual if value is None else value


SHORT = {GATED: "gated", HINGE: "hinge", GREEDY: "greedy", PLAYED: "played"}
CSV_COLUMNS = {"statement": "name", "origin": "source"}  # where they differ from the keys in JSON
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LOSSES = (
    "gated, hinge: regret, the loss of the learner less that of W; gated is the hinge where the greedy label is wrong, "
    "else 0. greedy, played: mistakes."
)
VACUOUS = "* vacuous: no better than weights of 0, which lose 1 in every round"
STATED = "The paper states its bounds for the hinge; for that they are false in general (docs/explanation/theory.md)."
STATED_HINGE = "† as the paper states it: false in general (docs/explanation/theory.md), and here where above 100 %"
SOURCES = (
    "R and repaired: proved in docs/explanation/theory.md; the others are as published. Theorem 1 is about answered "
    "rounds, measured are all. adaptive_delaytron plays with restart=True."
)
WITH_L = (
    "L: above the learner's own loss in every unanswered round; Theorems 2 and 4 and Corollary 1 need --loss-bound."
)
ORDER = ("delaytron", "hinge_delaytron", "adaptive_delaytron")


@dataclass(frozen=True)
class Promises:
    """All bounds for one problem."""

    delay: str
    seed: int
    arguments: Arguments
    rows: Sequence[BoundRow]

    @cached_property
    def document(self) -> BoundsDocument:
        """All numbers as plain values."""
        arguments = self.arguments
        loss_bound = arguments["loss_bound"]
        eta = arguments["eta"]
        return BoundsDocument(
            rounds=int(arguments["n_rounds"]),
            classes=int(arguments["n_classes"]),
            gamma=float(arguments["gamma"]),
            radius=float(arguments["radius"]),
            norm=float(arguments["norm"]),
            comparator_loss=float(arguments["comparator_loss"]),
            eta=None if eta is None else float(eta),
            loss_bound=None if loss_bound is None else float(loss_bound),
            delay=self.delay,
            seed=self.seed,
            missing=float(arguments["missing"]),
            delay_received=float(arguments["delay_received"]),
            total_delay=float(arguments["total_delay"]),
            outstanding=float(arguments["outstanding"]),
            max_outstanding=float(arguments["max_outstanding"]),
            bounds=[
                BoundLine(
                    statement=row.statement.name,
                    origin=row.statement.source,
                    learner=row.statement.learner,
                    loss=row.statement.loss,
                    valid_for=row.statement.valid_for,
                    bound=row.bound,
                    eta=row.eta,
                    vacuous=row.vacuous,
                )
                for row in self.rows
            ],
            versions=versions(),
        )

    @property
    def shown(self) -> RenderableType:
        """What the screen shows."""
        document = self.document
        sizes = f"T = {document.rounds:,}, K = {document.classes}, gamma = {document.gamma:g}"
        loss = f"hinge losses of W {document.comparator_loss:g}"
        weights = f"R = {document.radius:g}, ||W|| = {document.norm:g}, {loss}"
        delays = f"delay {self.delay}, seed {self.seed}: {_waiting(self.arguments)}"
        notes = [LOSSES, VACUOUS * any(row.vacuous for row in self.rows), STATED, WITH_L]
        table = _new_table(["bound", "eta"], notes)
        table.add_column("holds for", overflow="fold")
        for source, rows in groupby(self.rows, lambda row: row.statement.source):
            _begin_section(table, source)
            for row in rows:
                one = row.statement
                numbers = [_number(row.bound) + ("*" if row.vacuous else " "), _step(row.eta)]
                valid_for = f"{one.learner}: {one.valid_for}" if one.learner else one.valid_for
                table.add_row(one.name, SHORT[one.loss], *numbers, escape(valid_for))
        return Group(Text(f"{sizes}, {weights}\n{delays}\n"), table)

    def to_table(self) -> "pa.Table":
        """Return one line per bound."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = pa.Table.from_pylist(list(map(asdict, self.document.bounds)))
        return rows.rename_columns([CSV_COLUMNS.get(name, name) for name in rows.column_names])

    def plot(self, path: str | Path) -> None:
        """Raise InvalidInput: bounds alone have no figure."""
        raise InvalidInput(f"cannot draw {str(path)!r} without measured regret", "give --data or --results")


@dataclass(frozen=True)
class Studies:
    """Bounds beside what was measured, for one delay or several."""

    studies: Sequence[Study]

    @cached_property
    def document(self) -> list[StudyDocument]:
        """All numbers as plain values, an entry per delay."""
        return [study_document(study) for study in self.studies]

    @property
    def shown(self) -> RenderableType:
        """What the screen shows."""
        return Group(*(part for study in self.studies for part in _study_parts(study)))

    def to_table(self) -> "pa.Table":
        """Return one line per statement and checkpoint."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.concat_tables([study.to_table() for study in self.studies])

    def plot(self, path: str | Path) -> None:
        """Draw bounds and measured regret against rounds."""
        from delaytron.theory.plots import plot_studies  # noqa: PLC0415 - needs matplotlib

        plot_studies(self.studies, path)


def study_document(study: Study) -> StudyDocument:
    """Return all numbers of a study as plain values."""
    data = study.trial.data
    terms = study.trial.terms
    delays = study.trial.arguments(study.trial.comparators[0])
    return StudyDocument(
        dataset=data.name,
        rows=data.n_rows,
        classes=data.n_classes,
        radius=float(study.trial.given["radius"]),
        delay=study.delay,
        gamma=terms.gamma,
        rounds=terms.rounds,
        runs=terms.runs,
        seed=terms.seed,
        sampling=terms.sampling,
        loss_bound=terms.loss_bound,
        missing=float(delays["missing"]),
        delay_received=float(delays["delay_received"]),
        total_delay=float(delays["total_delay"]),
        outstanding=float(delays["outstanding"]),
        max_outstanding=float(delays["max_outstanding"]),
        comparators=[
            ComparatorLine(comparator=one.name, norm=one.norm, loss_per_round=one.loss)
            for one in study.trial.comparators
        ],
        bounds=[
            MeasuredLine(
                statement=one.statement.name,
                origin=one.statement.source,
                learner=one.statement.learner,
                loss=one.statement.loss,
                valid_for=one.statement.valid_for,
                bound=float(one.bound[-1]),
                vacuous=one.vacuous(terms.rounds),
                measured=one.at_end.value,
                measured_margin=one.at_end.known_margin,
                hinge=None if one.stated_at_end is None else one.stated_at_end.value,
                hinge_margin=None if one.stated_at_end is None else one.stated_at_end.known_margin,
                comparator=one.comparator.name,
                norm=one.comparator.norm,
                comparator_loss=float(one.comparator_loss[-1]),
                eta=one.eta,
            )
            for one in study.measured
        ],
        versions=versions(),
    )


def _study_parts(study: Study) -> Iterator[RenderableType]:
    """Iterate over what the screen shows of one delay: the problem, the table, the comparators."""
    trial = study.trial
    terms = trial.terms
    arguments = trial.arguments(trial.comparators[0])
    rows = f"{trial.data.name}: {trial.data.n_rows:,} rows, K = {trial.data.n_classes}, R = {arguments['radius']:.4g}"
    runs = f"{terms.runs} run{'s' * (terms.runs > 1)} of {terms.rounds:,} rounds, gamma = {terms.gamma:g}"
    yield Text(f"{rows}; {runs}\ndelay {study.delay}, seed {terms.seed}: {_waiting(arguments)}\n")
    used = {one.comparator.name: one.comparator for one in study.measured}
    letters = dict(zip(used, LETTERS, strict=False))
    vacuous = any(one.vacuous(terms.rounds) for one in study.measured)
    notes = [LOSSES, VACUOUS * vacuous, STATED_HINGE, SOURCES, WITH_L * (terms.loss_bound is None)]
    table = _new_table(["bound", "measured ± 95 %", "share", "W", "eta"], notes)
    for learner in ORDER:
        _begin_section(table, learner)
        for one in study.measured:
            if one.statement.learner != learner:
                continue
            bound = float(one.bound[-1])
            shown = _number(bound) + ("*" if one.vacuous(terms.rounds) else " ")
            cells = [*_against(one.at_end, bound), letters[one.comparator.name], _step(one.eta)]
            table.add_row(one.statement.name, SHORT[one.statement.loss], shown, *cells)
            if one.stated_at_end is not None and one.statement.name.startswith("Theorem"):  # corollaries only repeat it
                stated = _against(one.stated_at_end, bound)
                table.add_row("", "hinge†", "", *stated, style="bold" if one.fails else None)
    yield table
    for name, comparator in used.items():
        yield Text(f"{letters[name]}: {name}: ||W|| = {comparator.norm:.4g}, loss {comparator.loss:.4g} a round")
    yield Text("")


def _begin_section(table: Table, title: str) -> None:
    table.add_section()
    table.add_row(f"[italic]{title}[/italic]")


def _against(mean: Mean, bound: float) -> list[str]:
    margin = "" if isnan(mean.margin) else f" ± {_number(mean.margin)}"
    share = 100 * mean.value / bound
    shown = "<0.01" if 0 < share < 0.01 else f"{share:.0f}" if abs(share) >= 10 else f"{share:.2g}"
    return [_number(mean.value) + margin, f"{shown} %"]


def _new_table(numbers: Sequence[str], notes: Sequence[str]) -> Table:
    table = new_table("statement", "loss", numbers=numbers, caption=escape("\n".join(filter(None, notes))))
    for column in table.columns[:2]:
        column.no_wrap = True
    return table


def _waiting(arguments: Arguments) -> str:
    mean = arguments["outstanding"] / arguments["n_rounds"]
    most = arguments["max_outstanding"]
    return f"{arguments['missing']:,.0f} never answered; {mean:,.4g} wait on average, {most:,.0f} at most"


def _number(value: float | None) -> str:
    """Return a bound or a measured value in a few characters.

    Examples
    --------
    >>> [_number(value) for value in (None, 0, 12.34, 123456.7, -1234.5, 1.2e9, 1.2e20)]
    ['-', '0', '12.3', '123,457', '-1,234', '1.20G', '1.2e+20']
    """
    if value is None:
        return "-"
    if abs(value) >= 1e12:
        return f"{value:.3g}"
    if abs(value) >= 1e6:
        return ("-" if value < 0 else "") + compact(abs(value))
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _step(eta: float | None) -> str:
    return "-" if eta is None else f"{eta:.2g}"


EXAMPLES = """
Examples

delaytron bounds --rounds 10000 --classes 10 --gamma 0.1 --norm 2 --delay 100
delaytron bounds --delay lognormal:100,1.5 --missing 0.1 --loss-bound 5 --json
delaytron bounds --data synsep --rounds 20000 --runs 5 --plot synsep.png
delaytron bounds --data iris.csv --label species --delay 10 --csv bounds.csv
delaytron bounds --results out
"""

DataName = Annotated[
    str | None, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP, show_default="none: only bounds")
]
Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The --output of `delaytron run delaytron`: play its runs again.")
]
Rounds = Annotated[int | None, typer.Option(help="T, the rounds of every run.", show_default="100000")]
Classes = Annotated[int | None, typer.Option(help="Without data: K, the number of classes.", show_default="10")]
Gamma = Annotated[float | None, typer.Option(help="Exploration rate in (0, 1].", show_default="0.05")]
Radius = Annotated[float | None, typer.Option(help="Without data: R, the largest norm of a row.", show_default="1")]
Norm = Annotated[float | None, typer.Option(help="Without data: the norm of the comparator W.", show_default="1")]
Loss = Annotated[float | None, typer.Option(help="Without data: the sum of the hinge losses of W.", show_default="0")]
Delay = Annotated[str | None, typer.Option(metavar="DELAY", help=f"{ALLOWED}.", show_default="1000")]
Missing = Annotated[float | None, typer.Option(metavar="RATE", help="The share of answers that never come.")]
Eta = Annotated[float | None, typer.Option(help="The step size of Delaytron.", show_default="the best for each bound")]
LossBound = Annotated[
    float | None, typer.Option(help="L of Theorems 2 and 4 and Corollary 1.", show_default="these are left out")
]
Comparator = Annotated[
    str | None,
    typer.Option(
        help="best: for each bound the W with the least sum of loss and bound; separating: the smallest known W "
        "without loss.",
        show_default="separating if the data set has a certificate, else best",
    ),
]
Runs = Annotated[int | None, typer.Option(help="Runs to play with data.", show_default="20")]
Seed = Annotated[int | None, typer.Option(help="Random seed of rows, delays and draws.", show_default="0")]
Sampling = Annotated[
    str | None,
    typer.Option(
        help="How rows are drawn when rounds exceed them: replacement or epochs; always: drawn.",
        show_default="replacement",
    ),
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw regret and bounds: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bounds; with data, at every checkpoint.")]


@with_data_options("missing")
def bounds(
    data: DataName = None,
    results: Results = None,
    rounds: Rounds = None,
    classes: Classes = None,
    gamma: Gamma = None,
    radius: Radius = None,
    norm: Norm = None,
    comparator_loss: Loss = None,
    delay: Delay = None,
    missing: Missing = None,
    eta: Eta = None,
    loss_bound: LossBound = None,
    comparator: Comparator = None,
    runs: Runs = None,
    seed: Seed = None,
    sampling: Sampling = None,
    how_to_load: DataOptions = AS_IT_IS,
    workers: options.Workers = None,
    plot: Plot = None,
    csv: Csv = None,
    json: options.Json = False,
) -> None:
    """Show all bounds of the paper and the repaired ones; with data, the measured regret beside them.

    With --data, Delaytron, Hinge Delaytron and Adaptive Delaytron play, each
    with the step that the bound prescribes; the regret is against the weights W
    of the same line. With --results, the best delaytron line of every delay in
    DIR/results.json is played again, with its own step; a data set that was
    loaded with options needs --data with the same options.
    """
    files = targets(plot, csv)
    asked = BoundOptions(
        rounds=rounds,
        classes=classes,
        gamma=gamma,
        radius=radius,
        norm=norm,
        comparator_loss=comparator_loss,
        delay=delay,
        missing=missing,
        eta=eta,
        loss_bound=loss_bound,
        comparator=comparator,
        runs=runs,
        seed=seed,
        sampling=sampling,
        workers=workers,
        plot=plot,
    )
    outcome: Promises | Studies
    if data is None and results is None:
        _refuse([*asked.flags(MEASURED), *how_to_load.flags], "is for runs on data", "give --data or --results, too")
        outcome = _promise(asked)
    else:
        _refuse(asked.flags(THEORY_ALONE), "is for bounds without data", "leave it out")
        if results is not None:
            _refuse(asked.flags(RECORDED), "is recorded in the results", "leave it out")
        outcome = _measure(data, results, asked, how_to_load)
    show(outcome.document, outcome.shown, json)
    write(files, outcome, outcome.document, json)


def _refuse(flags: Sequence[str], why: str, hint: str) -> None:
    if flags:
        raise InvalidInput(f"{flags[0]} {why}", hint)


def _promise(asked: BoundOptions) -> Promises:
    """Return the bounds for the delays of one run."""
    terms = asked.terms.checked()
    run = measure(terms.delays())
    arguments: Arguments = {
        "n_rounds": run.n_rounds,
        "n_classes": given_or(asked.classes, 10),
        "gamma": terms.gamma,
        "radius": given_or(asked.radius, 1.0),
        "norm": given_or(asked.norm, 1.0),
        "comparator_loss": given_or(asked.comparator_loss, 0.0),
        "eta": terms.eta,
        "loss_bound": terms.loss_bound,
        "missing": run.missing,
        "delay_received": run.delay_received,
        "total_delay": run.total_delay,
        "outstanding": run.outstanding,
        "max_outstanding": run.max_outstanding,
    }
    return Promises(asked.delay_text, terms.seed, arguments, table(arguments))


def _measure(name: str | None, results: Path | None, asked: BoundOptions, how_to_load: DataOptions) -> Studies:
    """Play what is asked for, or the recorded runs again; raise InvalidInput if those have other errors now."""
    n_jobs = options.check_workers(asked.workers)
    lines = [] if results is None else _recorded(results, asked.delay)
    if name is None and lines[0].dataset not in datasets.DATASETS:
        raise InvalidInput(f"the results are of the file {lines[0].dataset}", "give --data, with the options it had")
    data = how_to_load.load(lines[0].dataset if name is None else name, asked.terms.seed)
    trials: list[Trial] = []
    with busy("computing comparators"):
        for terms in [line.terms(asked.terms, asked.delay) for line in lines] or [asked.terms]:
            trials.append(prepare(data, terms, trials[0].comparators if trials else None))
    with progress_bar(sum(trial.n_rounds for trial in trials)) as advance:
        studies = [play(trial, advance, n_jobs) for trial in trials]
    for study, line in zip(studies, lines, strict=bool(lines)):
        line.check_same(study)
    return Studies(studies)


class _Line(NamedTuple):
    """The runs of a line of results.json."""

    dataset: str
    delay: str
    parameters: Setting
    rounds: int
    runs: int
    seed: int
    sampling: str
    final_errors: list[float]

    def terms(self, asked: TrialTerms, delay: str | None) -> TrialTerms:
        """Return the terms of these runs, with `delay` for their delay if it is given."""
        other = self.parameters.keys() & {*COMMON, "noise"}
        if other:
            problem = f"there is no bound for runs with {', '.join(sorted(other))}, as in these results"
            raise InvalidInput(problem, "run it without")
        model: str | delays.Delay | None = delay
        if model is None:
            try:
                model = delays.parse(self.delay)
            except InvalidInput:  # recorded delays that are not from a file
                raise InvalidInput(f"the results do not hold the delays of {self.delay}", "give --delay") from None
        own = own_parameters(Delaytron) | self.parameters
        return replace(
            asked,
            delay=model,
            gamma=own["gamma"],
            eta=own["eta"],
            rounds=self.rounds,
            runs=self.runs,
            seed=self.seed,
            sampling=self.sampling,
        )

    def check_same(self, study: Study) -> None:
        """Raise InvalidInput if the errors of runs are not those recorded."""
        result = study.results["delaytron"][0]  # of Theorem 1, with the step given
        if result.final_error.tolist() != self.final_errors:
            errors = f"error {result.final_error.mean():.6f}, but {np.mean(self.final_errors):.6f} in the results"
            raise InvalidInput(f"played again, {self.dataset} has the {errors}", "give --data and the options it had")


def _recorded(folder: Path, delay: str | None) -> list[_Line]:
    """Return the best line of delaytron for every delay, or for the given one; raise InvalidInput without any."""
    path = folder / "results.json"
    if not path.is_file():
        raise InvalidInput(f"there is no {str(path)!r}", "--results must be the --output of `delaytron run delaytron`")
    try:
        rows = [row for row in json_files.loads(path.read_bytes()) if row["learner"] == "delaytron" and row["best"]]
        lines = [_Line(**{name: row[name] for name in _Line._fields}) for row in rows]
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{str(path)!r} is not what `delaytron run --output` writes", "run that again") from None
    wanted = [line for line in lines if delay is None or line.delay == str(delays.parse(delay))]
    if not wanted:
        there = ", ".join(line.delay for line in lines)
        if there:
            raise InvalidInput(f"{str(path)!r} has no delaytron with delay {delay}", f"it has {there}")
        raise InvalidInput(f"{str(path)!r} has no delaytron, which bounds are about", "name it in `delaytron run`")
    return wanted
