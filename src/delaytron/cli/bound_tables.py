"""What `delaytron bounds` shows and writes: bounds alone, or beside what was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from delaytron.cli import tables
from delaytron.cli.documents import BoundsDocument
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.formats import compact, versions
from delaytron.simulation.results import Mean
from delaytron.theory.arguments import Arguments
from delaytron.theory.documents import BoundLine, StudyDocument
from delaytron.theory.statements import GATED, GREEDY, HINGE, PLAYED, BoundRow
from delaytron.theory.study import Measured, Study

if TYPE_CHECKING:
    import pyarrow as pa

SHORT = {GATED: "gated", HINGE: "hinge", GREEDY: "greedy", PLAYED: "played"}
CSV_COLUMNS = {"statement": "name", "origin": "source"}  # as they were before JSON had other keys
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LOSSES = (
    "gated, hinge: regret, the loss of the learner less that of W; gated is the hinge where the greedy label is wrong, "
    "else 0. greedy, played: mistakes."
)
VACUOUS = "* vacuous: promises no more than weights of 0, which lose 1 in every round"
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
        return {
            "rounds": int(arguments["n_rounds"]),
            "classes": int(arguments["n_classes"]),
            "gamma": float(arguments["gamma"]),
            "radius": float(arguments["radius"]),
            "norm": float(arguments["norm"]),
            "comparator_loss": float(arguments["comparator_loss"]),
            "eta": None if eta is None else float(eta),
            "loss_bound": None if loss_bound is None else float(loss_bound),
            "delay": self.delay,
            "seed": self.seed,
            "missing": float(arguments["missing"]),
            "delay_received": float(arguments["delay_received"]),
            "total_delay": float(arguments["total_delay"]),
            "outstanding": float(arguments["outstanding"]),
            "max_outstanding": float(arguments["max_outstanding"]),
            "bounds": [_bound_line(row) for row in self.rows],
            "versions": versions(),
        }

    @property
    def shown(self) -> RenderableType:
        """What the screen shows."""
        arguments = self.document
        sizes = f"T = {arguments['rounds']:,}, K = {arguments['classes']}, gamma = {arguments['gamma']:g}"
        loss = f"hinge losses of W {arguments['comparator_loss']:g}"
        weights = f"R = {arguments['radius']:g}, ||W|| = {arguments['norm']:g}, {loss}"
        delays = f"delay {self.delay}, seed {self.seed}: {_waiting(self.arguments)}"
        return Group(Text(f"{sizes}, {weights}\n{delays}\n"), self._table())

    def _table(self) -> Table:
        notes = [LOSSES, VACUOUS * any(row.vacuous for row in self.rows), STATED, WITH_L]
        table = _new_table(["loss"], ["bound", "eta"], notes)
        table.add_column("holds for", overflow="fold")
        for source, rows in groupby(self.rows, lambda row: row.statement.source):
            _begin_section(table, source)
            for row in rows:
                one = row.statement
                numbers = [_number(row.bound) + ("*" if row.vacuous else " "), _step(row.eta)]
                valid_for = f"{one.learner}: {one.valid_for}" if one.learner else one.valid_for
                table.add_row(one.name, SHORT[one.loss], *numbers, escape(valid_for))
        return table

    def to_table(self) -> "pa.Table":
        """Return one line per bound."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = pa.Table.from_pylist(self.document["bounds"])
        return rows.rename_columns([CSV_COLUMNS.get(name, name) for name in rows.column_names])

    def plot(self, path: str | Path) -> None:
        """Raise: nothing was measured."""
        raise InvalidInput(f"cannot draw {path}: a figure needs --data or --results")


@dataclass(frozen=True)
class Studies:
    """Bounds beside what was measured, for one delay or several."""

    studies: Sequence[Study]

    @cached_property
    def document(self) -> list[StudyDocument]:
        """All numbers as plain values, an entry per delay."""
        return [study.document() for study in self.studies]

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


def _bound_line(row: BoundRow) -> BoundLine:
    return {
        "statement": row.statement.name,
        "origin": row.statement.source,
        "learner": row.statement.learner,
        "loss": row.statement.loss,
        "valid_for": row.statement.valid_for,
        "bound": row.bound,
        "eta": row.eta,
        "vacuous": row.vacuous,
    }


def _study_parts(study: Study) -> Iterator[RenderableType]:
    trial = study.trial
    terms = trial.terms
    arguments = trial.arguments(trial.comparators[0])
    rows = f"{trial.data.name}: {trial.data.n_rows:,} rows, K = {trial.data.n_classes}, R = {arguments['radius']:.4g}"
    runs = f"{terms.runs} run{'s' * (terms.runs > 1)} of {terms.rounds:,} rounds, gamma = {terms.gamma:g}"
    yield Text(f"{rows}; {runs}\ndelay {study.delay}, seed {terms.seed}: {_waiting(arguments)}\n")
    used = {one.comparator.name: one.comparator for one in study.measured}
    yield _study_table(study, list(used))
    for letter, comparator in zip(LETTERS, used.values(), strict=False):
        yield Text(f"{letter}: {comparator.name}: ||W|| = {comparator.norm:.4g}, loss {comparator.loss:.4g} a round")
    yield Text("")


def _study_table(study: Study, names: Sequence[str]) -> Table:
    rounds = study.trial.terms.rounds
    vacuous = any(one.vacuous(rounds) for one in study.measured)
    needs_l = study.trial.terms.loss_bound is None
    table = _new_table(
        ["loss"],
        ["bound", "measured ± 95 %", "share", "W", "eta"],
        [LOSSES, VACUOUS * vacuous, STATED_HINGE, SOURCES, WITH_L * needs_l],
    )
    for learner in ORDER:
        _begin_section(table, learner)
        for one in study.measured:
            if one.statement.learner == learner:
                _add_rows(table, one, one.vacuous(rounds), LETTERS[names.index(one.comparator.name)])
    return table


def _add_rows(table: Table, one: Measured, vacuous: bool, letter: str) -> None:
    bound = float(one.bound[-1])
    first = [one.statement.name, SHORT[one.statement.loss], _number(bound) + ("*" if vacuous else " ")]
    table.add_row(*first, *_against(one.at_end, bound), letter, _step(one.eta))
    if one.stated_at_end is not None and one.statement.name.startswith("Theorem"):  # corollaries only repeat it
        table.add_row("", "hinge†", "", *_against(one.stated_at_end, bound), style="bold" if one.fails else None)


def _begin_section(table: Table, title: str) -> None:
    table.add_section()
    table.add_row(f"[italic]{title}[/italic]")


def _against(mean: Mean, bound: float) -> list[str]:
    margin = "" if isnan(mean.margin) else f" ± {_number(mean.margin)}"
    share = 100 * mean.value / bound
    shown = "<0.01" if 0 < share < 0.01 else f"{share:.0f}" if abs(share) >= 10 else f"{share:.2g}"
    return [_number(mean.value) + margin, f"{shown} %"]


def _new_table(texts: Sequence[str], numbers: Sequence[str], notes: Sequence[str]) -> Table:
    table = tables.new_table("statement", *texts, caption=escape("\n".join(filter(None, notes))))
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
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
