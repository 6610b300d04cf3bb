"""What the theory says to a plan: the gamma with the least bound on wrong decisions, and from when on it suffices."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_number, check_positive, shown
from delaytron.datasets import Dataset
from delaytron.errors import InvalidInput
from delaytron.planning.simulation import round_from_which_below, row_length
from delaytron.records import Array, Ints
from delaytron.theory import corollary_r2, corollary_r3, hinge_losses, played_mistakes
from delaytron.theory.comparators import learned_weights

STATEMENTS = ("Corollary R2", "Corollary R3")
SMALLEST_GAMMA = 1e-6
POINTS = 1001  # of a grid of gammas or rounds
ZOOMS = 4  # each makes the grid of gammas 500 times finer
SCALES = tuple(2.0**k for k in range(-2, 4))  # of a comparator
MOST_ROUNDS = 20_000  # from which a comparator is learned
MOST_NUMBERS = 20_000_000  # in the rows of these rounds


class Problem(NamedTuple):
    """What the bounds need to know of the data: how long the rows are, and weights that do well on them."""

    n_classes: int
    radius: float
    norms: Array  # of the weights, each of which is a comparator
    losses: Array  # their hinge losses per round

    def mistakes(self, gamma: Any, n_rounds: Any, waited: Any, most: Any) -> Array:
        """Return the bounds on the greedy mistakes, by statement, by weights, and as the arguments broadcast."""
        norm = self.norms[:, None]
        loss = self.losses[:, None] * n_rounds
        r2 = corollary_r2(
            norm=norm,
            n_classes=self.n_classes,
            gamma=gamma,
            radius=self.radius,
            n_rounds=n_rounds,
            outstanding=waited,
            comparator_loss=loss,
        )
        r3 = corollary_r3(
            norm=norm,
            n_classes=self.n_classes,
            gamma=np.minimum(gamma, 0.5),
            radius=self.radius,
            n_rounds=n_rounds,
            max_outstanding=most,
            comparator_loss=loss,
        )
        return np.stack([r2, np.where(np.asarray(gamma) <= 0.5, r3, np.inf)])

    def played(self, gamma: Any, n_rounds: Any, waited: Any, most: Any) -> Array:
        """Return the least of the bounds on the played mistakes: all of them hold."""
        greedy = self.mistakes(gamma, n_rounds, waited, most).min(axis=(0, 1))
        return np.asarray(
            played_mistakes(greedy_mistakes=greedy, n_classes=self.n_classes, gamma=gamma, n_rounds=n_rounds)
        )


class Bound(NamedTuple):
    """The least that is proved of the played mistakes: with which gamma, by which statement, for which weights.

    `until` is the round from which on the bound on the error is at most the target, `early` that bound after the rounds
    that are simulated.
    """

    gamma: float
    wrong: float
    until: int | None
    early: float
    statement: str
    norm: float
    loss: float


def best_bound(problem: Problem, waits: Ints, target: float, simulated: int) -> Bound | None:
    """Find the gamma with the least bound on the played mistakes; None where no bound is better than guessing.

    Parameters
    ----------
    waits : array
        How many earlier rounds wait in each round, see `theory.outstanding`.

    Examples
    --------
    >>> easy = Problem(n_classes=2, radius=1.0, norms=np.array([1.0]), losses=np.array([0.0]))
    >>> found = best_bound(easy, np.zeros(100_000, np.int64), target=0.05, simulated=10_000)
    >>> round(found.gamma, 4), round(found.wrong), found.until, found.statement
    (0.0062, 667, 7102, 'Corollary R3')
    """
    T = len(waits)
    sums = np.cumsum(waits)
    highest = np.maximum.accumulate(waits)
    gamma = smallest(lambda gammas: problem.played(gammas, T, sums[-1], highest[-1]), SMALLEST_GAMMA, 1.0)
    every = problem.mistakes(np.array([gamma]), T, sums[-1], highest[-1])[..., 0]
    wrong = (1 - gamma) * float(every.min()) + exploring(problem.n_classes, gamma, T)
    if wrong >= exploring(problem.n_classes, 1.0, T) * (1 - 1e-9):
        return None

    def error(rounds: Ints) -> Array:
        return problem.played(gamma, rounds, sums[rounds - 1], highest[rounds - 1]) / rounds

    statement, weights = np.unravel_index(int(every.argmin()), every.shape)
    return Bound(
        gamma=gamma,
        wrong=wrong,
        until=first_round(error, T, target),
        early=float(error(np.array([simulated]))[0]),
        statement=STATEMENTS[int(statement)],
        norm=float(problem.norms[weights]),
        loss=float(problem.losses[weights]),
    )


def smallest(value: Callable[[Array], Array], low: float, high: float) -> float:
    """Return where a function of positive numbers is least: on a fine grid, and on finer ones around that.

    Examples
    --------
    >>> round(smallest(lambda x: x + 4 / x, 0.01, 100), 6)
    2.0
    """
    for _ in range(ZOOMS):
        grid = np.geomspace(low, high, POINTS)
        place = int(value(grid).argmin())
        low = float(grid[max(place - 1, 0)])
        high = float(grid[min(place + 1, POINTS - 1)])
    return float(grid[place])


def first_round(error: Callable[[Ints], Array], n_rounds: int, target: float) -> int | None:
    """Return from which round on an error stays at most the target: among many rounds, and then one by one.

    Examples
    --------
    >>> first_round(lambda rounds: 100 / rounds, 10_000, 0.1), first_round(lambda rounds: 100 / rounds, 99, 1)
    (1000, None)
    """
    grid = np.unique(np.geomspace(1, n_rounds, POINTS).round().astype(np.int64))
    found = round_from_which_below(grid, error(grid), target)
    if found is None:
        return None
    before = grid[max(0, int(np.searchsorted(grid, found)) - 1)]
    between = np.arange(before, found + 1)
    return round_from_which_below(between, error(between), target)


def exploring(n_classes: int, gamma: float, n_rounds: int) -> float:
    """Return how many labels are wrong on average because they are played at random: gamma (K - 1) / K T.

    Examples
    --------
    >>> exploring(4, 0.125, 1000)
    93.75
    """
    return float(played_mistakes(greedy_mistakes=0, n_classes=n_classes, gamma=gamma, n_rounds=n_rounds))


def describe(data: Dataset, norm: float | None, loss: float | None, radius: float | None, seed: int) -> Problem:
    """Take what the user knows of the problem, and find the rest in the data."""
    X: Any = data.X
    squares = np.asarray((X.multiply(X) if data.sparse else X**2).sum(axis=1), np.float64).ravel()
    longest = max(float(np.sqrt(squares.max())), 1e-12) if radius is None else check_positive("radius", radius)
    if norm is not None:
        return Problem(data.n_classes, longest, np.array([check_positive("norm", norm)]), np.array([_loss(loss)]))
    if loss is not None:
        raise InvalidInput("loss needs norm, that of the weights with this loss; give norm, or leave out loss")
    n_rounds = max(1, int(min(MOST_ROUNDS, MOST_NUMBERS / row_length(data))))
    found = learned_weights(data, n_rounds, max(float(squares.mean()), 1e-12), seed)
    weights = [scale * W for W in found for scale in SCALES]
    losses = [hinge_losses(W, data).mean() for W in weights]
    return Problem(data.n_classes, longest, np.array([np.linalg.norm(W) for W in weights]), np.array(losses))


def _loss(given: float | None) -> float:
    if given is not None and check_number("loss", given) < 0:
        raise InvalidInput(f"loss must be at least 0, got {shown(given)}")
    return float(given or 0.0)
