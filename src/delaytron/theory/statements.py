"""The table of all bounds: the learner and the loss of each, its conditions, and its value."""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.theory import bounds, repaired
from delaytron.theory.bounds import Arguments, Real, check_argument_names

PAPER = "published"
REPAIRED = "repaired"
OTHERS = "of others"
GATED = "gated hinge"
HINGE = "hinge"
GREEDY = "greedy mistakes"
PLAYED = "played mistakes"
LOST = "all rounds, given L"  # L is above the loss of the learner's own weights in every unanswered round


class Statement(NamedTuple):
    """A theorem: what it is about, the conditions under which it is true, and its formula.

    Parameters
    ----------
    learner : str
        The name in the registry; empty where no learner has the update and step of the theorem.
    loss : str
        What is bounded: the regret in the gated hinge or the hinge, or the greedy or played mistakes.
    step : callable, optional
        The constant step for which the bound is least, and with which the learner has to play.
    most_gamma : float
        The largest exploration rate for which it holds.
    no_delay : bool
        Whether it holds only without delay.
    """

    name: str
    source: str
    learner: str
    loss: str
    valid_for: str
    bound: Callable[..., Any]
    step: Callable[..., Any] | None = None
    most_gamma: float = 1.0
    no_delay: bool = False

    @property
    def counts_mistakes(self) -> bool:
        """Whether it bounds mistakes, including the loss of W, and not regret."""
        return self.loss in (GREEDY, PLAYED)

    def takes(self, argument: str) -> bool:
        """Whether its formula has this argument."""
        return argument in signature(self.bound).parameters

    def applies(self, arguments: Arguments) -> bool:
        """Whether it holds for this exploration rate, and L is given where it is needed."""
        check_argument_names(arguments)
        _check_given(("gamma",), arguments)
        lacks_bound = self.takes("loss_bound") and arguments.get("loss_bound") is None
        return not lacks_bound and bool(np.all(np.less_equal(arguments["gamma"], self.most_gamma)))

    def eta(self, arguments: Arguments) -> float | None:
        """Return the step of the learner: the given one if the formula takes one, else the best; None without one."""
        if self.step is None:
            return None
        given = self.own(arguments).get("eta") if self.takes("eta") else None
        return float(_call(self.step, arguments) if given is None else given)

    def own(self, arguments: Arguments) -> Arguments:
        """Return the arguments for its learner: a given step is that of Delaytron, and dropped for others."""
        return arguments if self.learner == "delaytron" else {**arguments, "eta": None}

    def value(self, arguments: Arguments) -> Any:
        """Return the bound for these arguments, numbers or arrays of them; `eta` None means the best step."""
        return _call(self.bound, arguments)

    def total(self, arguments: Arguments) -> Any:
        """Return the bound of the learner's own loss or mistakes: the regret plus the loss of W."""
        return self.value(arguments) + (0.0 if self.counts_mistakes else arguments["comparator_loss"])


class BoundRow(NamedTuple):
    """A statement with its bound and its step, None where it does not apply.

    Parameters
    ----------
    vacuous : bool
        Whether the bound is no better than that of weights of 0, which lose 1 in every round.
    """

    statement: Statement
    bound: float | None
    eta: float | None
    vacuous: bool


def _check_given(needed: Iterable[str], arguments: Arguments) -> None:
    lacking = ", ".join(name for name in needed if name not in arguments)
    if lacking:
        got = ", ".join(arguments) or "no arguments"
        raise InvalidInput(f"the bound also needs {lacking}; got {got}", f"add {lacking} to the arguments")


def _call(formula: Callable[..., Any], arguments: Arguments) -> Any:
    """Return the value of a formula for the arguments that it takes; raise InvalidInput for an unknown one."""
    check_argument_names(arguments)
    known = signature(formula).parameters
    lacking = [name for name, one in known.items() if one.default is one.empty]
    _check_given(lacking, arguments)
    return formula(**{name: value for name, value in arguments.items() if name in known})


def played_r2(
    *,
    norm: Real,
    n_classes: Real,
    gamma: Real,
    radius: Real,
    n_rounds: Real,
    outstanding: Real,
    comparator_loss: Real,
) -> Any:
    """Corollary R2 for the labels played: its greedy mistakes, and the cost of exploration."""
    greedy = repaired.corollary_r2(
        norm=norm,
        n_classes=n_classes,
        gamma=gamma,
        radius=radius,
        n_rounds=n_rounds,
        outstanding=outstanding,
        comparator_loss=comparator_loss,
    )
    return bounds.played_mistakes(greedy_mistakes=greedy, n_classes=n_classes, gamma=gamma, n_rounds=n_rounds)


_paper = partial(Statement, source=PAPER, learner="delaytron", loss=GATED)
_ours = partial(Statement, source=REPAIRED, learner="delaytron", loss=GATED, valid_for="all rounds")
_case_1 = partial(_paper, valid_for="no delay", no_delay=True)

STATEMENTS: tuple[Statement, ...] = (
    _case_1("Case 1", bound=bounds.case_1, step=bounds.case_1_eta),
    _case_1("Case 1, best step", bound=partial(bounds.case_1, tight=True), step=partial(bounds.case_1_eta, tight=True)),
    _paper("Theorem 1", valid_for="the answered rounds", bound=bounds.theorem_1, step=bounds.theorem_2_eta),
    _paper("Theorem 2", valid_for=LOST, bound=bounds.theorem_2, step=bounds.theorem_2_eta),
    _paper("Corollary 1", valid_for=LOST, bound=bounds.corollary_1, step=bounds.theorem_2_eta),
    _paper("Theorem 3", valid_for="all rounds", bound=bounds.theorem_3, step=bounds.theorem_3_eta),
    _paper(
        "Corollary 2",
        valid_for="not proved: can be below Theorem 3",
        bound=bounds.corollary_2,
        step=bounds.theorem_3_eta,
    ),
    _paper("Theorem 4", learner="adaptive_delaytron", valid_for=f"restart=True; {LOST}", bound=bounds.theorem_4),
    _ours("Corollary 2, repaired", bound=partial(bounds.corollary_2, repaired=True), step=bounds.theorem_3_eta),
    _ours("Theorem R1", bound=repaired.theorem_r1, step=bounds.theorem_r1_eta),
    _ours("Corollary R2", loss=GREEDY, valid_for="all rounds, any step", bound=repaired.corollary_r2),
    _ours("Corollary R2, played", loss=PLAYED, valid_for="all rounds, any step", bound=played_r2),
    _ours(
        "Corollary R3", loss=GREEDY, valid_for="any step, gamma up to 1/2", bound=repaired.corollary_r3, most_gamma=0.5
    ),
    _ours("Theorem R4", learner="hinge_delaytron", loss=HINGE, bound=repaired.theorem_r4, step=bounds.theorem_r4_eta),
    _ours(
        "Theorem R5",
        learner="hinge_delaytron",
        loss=HINGE,
        valid_for="its own step, B = ||W||",
        bound=repaired.theorem_r5,
    ),
    _ours(
        "Theorem R5, gated",
        learner="",
        valid_for="the update of delaytron with the step of R5",
        bound=partial(repaired.theorem_r5, hinge=False),
    ),
    _ours("Theorem R6", learner="adaptive_delaytron", valid_for="restart=True", bound=repaired.theorem_r6),
    Statement(
        "Banditron",
        OTHERS,
        "banditron",
        PLAYED,
        "no delay, gamma up to 1/2",
        bounds.banditron_mistakes,
        most_gamma=0.5,
        no_delay=True,
    ),
    Statement(
        "Perceptron",
        OTHERS,
        "perceptron",
        GREEDY,
        "no delay, true label revealed",
        bounds.perceptron_mistakes,
        no_delay=True,
    ),
)


def table(arguments: Arguments) -> list[BoundRow]:
    """Return all bounds for the numbers of one problem, by the names that all bounds share.

    Examples
    --------
    >>> from delaytron.theory import measure
    >>> run = measure([1, 3, 1, 2, 2, 1, 4, 1])._asdict()
    >>> arguments = run | {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "comparator_loss": 1, "eta": None}
    >>> rows = {row.statement.name: row for row in table(arguments)}
    >>> round(rows["Theorem R1"].bound, 6), round(rows["Theorem R1"].eta, 6), rows["Theorem 2"].bound
    (29.393877, 0.136083, None)
    """
    return [row_of(statement, arguments) for statement in STATEMENTS]


def row_of(statement: Statement, arguments: Arguments) -> BoundRow:
    """Return one statement for the numbers of one problem."""
    check_argument_names(arguments)
    _check_given(("n_rounds", "comparator_loss"), arguments)
    if not statement.applies(arguments):
        return BoundRow(statement, None, None, False)
    own = statement.own(arguments)
    vacuous = statement.total(own) >= arguments["n_rounds"]
    return BoundRow(statement, float(statement.value(own)), statement.eta(own), bool(vacuous))
