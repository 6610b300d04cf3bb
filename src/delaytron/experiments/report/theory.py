"""The section of a report that holds regret against the bounds: a small study of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

from delaytron.datasets import is_drawn, load
from delaytron.experiments.report.model import Cell, Section, Table
from delaytron.theory.statements import STATEMENTS
from delaytron.theory.study import Measured, play
from delaytron.theory.trials import Comparator, TrialTerms, prepare

NAMES = ("synsep", "digits")  # data sets that need no download
SHOWN = ("Theorem 1", "Theorem 3", "Theorem R1", "Corollary R2", "Corollary R3", "Theorem R4")
COLUMNS = ("data", "delay", "statement", "of", "bound", "measured", "share", "hinge regret", "norm of W", "loss of W")


def theory_section(
    data_names: Sequence[str],
    delays: Sequence[Any],
    *,
    gamma: float = 0.05,
    rounds: int = 20_000,
    runs: int = 5,
    seed: int = 0,
) -> Section | None:
    """Return measured regret beside the bounds, of those data sets that need no download; None if there is none.

    Everything is played anew; that takes seconds.
    """
    terms = {"gamma": gamma, "rounds": rounds, "runs": runs, "seed": seed}
    rows = [row for name in data_names if name in NAMES for row in _rows(name, delays, terms)]
    return Section("Theory", _text(gamma, rounds, runs), Table(COLUMNS, tuple(rows))) if rows else None


def _rows(name: str, delays: Sequence[Any], terms: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    data = load(name, **({"n_samples": terms["rounds"]} if is_drawn(name) else {}))  # no more rows are shown
    statements = [statement for statement in STATEMENTS if statement.name in SHOWN]
    known: Sequence[Comparator] | None = None
    for delay in delays:
        trial = prepare(data, TrialTerms(delay=delay, **terms), known, statements)
        known = trial.comparators
        yield from ((name, str(delay), *_cells(one)) for one in play(trial).measured)


def _cells(one: Measured) -> tuple[Cell, ...]:
    bound, statement = float(one.bound[-1]), one.statement
    what = f"{statement.loss}, {statement.learner}"
    share, norm = one.at_end.value / bound, one.comparator.norm
    return statement.name, what, bound, one.at_end, share, one.stated_at_end, norm, one.comparator.loss


def _text(gamma: float, rounds: int, runs: int) -> str:
    return (
        f"Regret in the gated hinge or the hinge, or mistakes, measured in {runs} runs of {rounds:,} rounds with "
        f"gamma = {gamma:g}, mean and 95 % interval, beside bounds on their expectation. Each line has the step that "
        "its bound prescribes, and weights W to compare with: for SynSep the smallest known ones without loss, else "
        "those for which loss and bound add up to least; the loss of W is the mean of a round. Theorems 1 and 3 are "
        "the paper's, and true in the gated hinge (Theorem 1 for the answered rounds). The paper states them for the "
        "hinge regret, which is shown beside them; where that is above the bound, the statement is false. R1 to R4 are "
        f"proved in docs/theory.md. Bounds that, with the loss of W, are above {rounds:,} promise no more than weights "
        "of 0 give. A number D as delay is uniform on 1, ..., D."
    )
