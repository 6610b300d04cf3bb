"""The section of a report that holds measured regret against the bounds, as it was played."""

from collections.abc import Iterator, Sequence

from delaytron.experiments.report.model import Cell, Section, Table
from delaytron.experiments.store import Store
from delaytron.experiments.theory import Number, TheoryRow, TheorySpec
from delaytron.simulation.results import Mean

COLUMNS = ("data", "delay", "statement", "of", "bound", "measured", "share", "hinge regret", "norm of W", "loss of W")


def theory_section(specs: Sequence[TheorySpec], store: Store) -> Section | None:
    """Return measured regret beside the bounds; None if nothing was played."""
    if not specs:
        return None
    rows = tuple(row for spec in specs for row in _rows(spec, store))
    return Section("Theory", _text(specs[0]), Table(COLUMNS, rows))


def _rows(spec: TheorySpec, store: Store) -> Iterator[tuple[Cell, ...]]:
    for row in store.theory.read(spec):
        yield spec.dataset, spec.delay, *_cells(row)


def _cells(row: TheoryRow) -> tuple[Cell, ...]:
    bound = float(row.bound)
    measured = _mean(row.measured)
    return (
        row.statement,
        f"{row.bounded}, {row.learner}",
        bound,
        measured,
        measured.value / bound,
        None if row.stated is None else _mean(row.stated),
        float(row.norm),
        float(row.loss),
    )


def _mean(pair: tuple[Number, Number]) -> Mean:
    value, margin = pair
    return Mean(float(value), float(margin))


def _text(spec: TheorySpec) -> str:
    return (
        f"Regret in the gated hinge or the hinge, or mistakes, measured in {spec.runs} runs of {spec.rounds:,} rounds "
        f"with gamma = {spec.gamma:g}, mean and 95 % interval, beside bounds on their expectation. Each row has the "
        "step that its bound prescribes, and weights W to compare with: for SynSep the smallest known ones without "
        "loss, else "
        "those for which loss and bound add up to least; the loss of W is the mean of a round. Theorems 1 and 3 are "
        "the paper's, and true in the gated hinge (Theorem 1 for the answered rounds). The paper states them for the "
        "hinge regret, which is shown beside them; where that is above the bound, the statement is false. R1 to R4 are "
        f"proved in docs/explanation/theory.md. Bounds that, with the loss of W, are above {spec.rounds:,} promise no "
        "more than weights of 0 give. A number D as delay is uniform on 1, ..., D."
    )
