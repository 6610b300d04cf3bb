"""What a plan simulates: learners, with a tuned gamma if they take one, on data that may be made up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from delaytron.checks import check_integer, shown
from delaytron.comparison.tuning import Terms, tune
from delaytron.datasets import Dataset, as_dataset
from delaytron.delays import Delay
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS
from delaytron.learners.options import GAMMAS, own_parameters
from delaytron.records import Array, Ints
from delaytron.rng import stream
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Result, Setting, index_from_which_below
from delaytron.simulation.simulate import simulate_settings

MOST_ROUNDS = 100_000  # of a simulated run
FEWEST_ROUNDS = 5_000  # the same, however long the rows are
WORK = MOST_ROUNDS * 10 * 64  # rounds x classes x numbers in a row that cost no more than some seconds
MOST_ROWS = 20_000  # of made-up data; runs draw their own rounds from them
MOST_CLASSES = 1_000  # the same
MOST_FEATURES = 10_000  # the same
WIDEST = 100.0  # of a cloud
FEATURES = 32  # of made-up data: numbers in a row
BEST = 0.02  # of made-up data: error of the best linear rule
CHECKPOINTS = 256  # log-spaced: neighbours differ by 5 % in 100,000 rounds


def mixture(n_classes: int, n_features: int, n_rows: int, best: float, seed: int) -> Dataset:
    """Make up rows of norm 1: a round cloud per class, so wide that the nearest centre is wrong in a share `best`.

    The centres have norm 1 as well, so that rule is linear, and no other rule is better on average. The cloud is as
    wide as just fits these rows: each of them has a width from which on another centre is nearer.

    Examples
    --------
    >>> data = mixture(5, 8, n_rows=1000, best=0.1, seed=0)
    >>> data, round(float(((data.X @ data.certificate.T).argmax(axis=1) != data.y).mean()), 2)
    (Dataset('made-up data', 1000 rows, 8 features, 5 classes, dense), 0.1)
    """
    if n_classes > MOST_CLASSES:
        raise InvalidInput(f"made-up data have at most {MOST_CLASSES} classes, got {shown(n_classes)}: give data")
    if n_features > MOST_FEATURES:
        raise InvalidInput(f"made-up data have at most {MOST_FEATURES} features, got {shown(n_features)}: give data")
    rng = stream(seed, "mixture")
    centres = _of_norm_1(rng.standard_normal((n_classes, n_features)))
    y = rng.integers(n_classes, size=n_rows)
    noise = rng.standard_normal((n_rows, n_features))
    apart = 1.0 - centres @ centres.T
    pushed = noise @ centres.T
    pushed -= pushed[np.arange(n_rows), y][:, None]
    widths = np.divide(apart[y], pushed, out=np.full(pushed.shape, np.inf), where=pushed > 0).min(axis=1)
    width = min(WIDEST, np.quantile(widths, best, method="lower"))
    certificate = centres / apart[~np.eye(n_classes, dtype=np.bool_)].min()
    rows = _of_norm_1(centres[y] + width * noise)
    return Dataset(rows, y, "made-up data", tuple(map(str, range(n_classes))), certificate)


def _of_norm_1(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def row_length(data: Dataset) -> float:
    """Return how many numbers other than 0 a row has on average; all of them where the matrix is dense."""
    X: Any = data.X
    return max(1.0, X.nnz / data.n_rows) if data.sparse else float(data.n_features)


def affordable(n_classes: int, length: float) -> int:
    """Return of how many rounds a run may be, so that all that is simulated takes some seconds.

    Examples
    --------
    >>> affordable(10, 32), affordable(10, 256)
    (100000, 25000)
    """
    return int(np.clip(WORK / (n_classes * length), FEWEST_ROUNDS, MOST_ROUNDS))


def round_from_which_below(rounds: Ints, errors: Array, target: float) -> int | None:
    """Return the first of these rounds from which on the error stays at most the target; None if it does not.

    Examples
    --------
    >>> round_from_which_below(np.array([1, 10, 100, 1000]), np.array([0.0, 0.5, 0.2, 0.1]), 0.2)
    100
    """
    index = index_from_which_below(errors, target)
    return None if index is None else int(rounds[index])


class Reached(NamedTuple):
    """From which round on each run stayed at or below the target; None for a run that did not."""

    each: tuple[int | None, ...]

    @property
    def rounds(self) -> list[int]:
        """Those of the runs that got there."""
        return [reached for reached in self.each if reached is not None]

    @property
    def mean(self) -> float | None:
        """Of the runs that got there, if any did."""
        return float(np.mean(self.rounds)) if self.rounds else None


@dataclass(frozen=True)
class Simulated:
    """A learner at one delay: all gammas tried, and the reported runs with the one that was best on other seeds.

    `tried` is None, and there is no gamma, where a learner takes none: it plays as it is.
    """

    tried: Result | None
    result: Result

    @property
    def learner(self) -> str:
        """The learner's name."""
        return self.result.learner

    @property
    def gamma(self) -> float | None:
        """The exploration rate that was chosen."""
        return None if self.tried is None else float(self.result.parameters[0]["gamma"])

    @property
    def gammas(self) -> Sequence[tuple[float, Array]]:
        """The final errors of all runs for each gamma that was tried, ascending in gamma."""
        if self.tried is None:
            return []
        found = [(float(setting["gamma"]), part.final_error) for setting, part in self.tried.groups()]
        return sorted(found, key=lambda pair: pair[0])

    def reached(self, target: float) -> Reached:
        """Return when each of the reported runs reached the target."""
        result = self.result
        return Reached(tuple(round_from_which_below(result.rounds, errors, target) for errors in result.error_rate))


@dataclass(frozen=True)
class Setup:
    """What all simulations of a plan share."""

    data: Dataset
    tuning_data: Dataset
    terms: Terms

    @property
    def tuning_rounds(self) -> int:
        """How many rounds it takes to tune a learner at one delay."""
        return self.terms.budget * self.terms.tuning_runs * self.terms.rounds

    @property
    def reported_rounds(self) -> int:
        """How many rounds are reported of a learner at one delay."""
        return self.terms.runs * self.terms.rounds

    def simulate(self, learner: str, delay: Delay, n_jobs: int | None, progress: Progress | None) -> Simulated:
        """Play the reported runs, with the gamma that is best on other seeds if the learner takes one."""
        if not takes_gamma(learner):
            return Simulated(None, self.play(learner, delay, {}, n_jobs, progress))
        settings = [{"gamma": gamma} for gamma in GAMMAS[: self.terms.budget]]
        tried = tune(learner, self.tuning_data, settings, delay, self.terms, n_jobs, progress)
        return Simulated(tried, self.play(learner, delay, tried.best().parameters[0], n_jobs, progress))

    def play(
        self, learner: str, delay: Delay, setting: Setting, n_jobs: int | None, progress: Progress | None
    ) -> Result:
        """Play the reported runs with this setting."""
        return simulate_settings(
            learner,
            self.data,
            [setting],
            delay=delay,
            rounds=self.terms.rounds,
            runs=self.terms.runs,
            seed=self.terms.seed,
            n_jobs=n_jobs,
            progress=progress,
            n_checkpoints=CHECKPOINTS,
        )


def takes_gamma(learner: str) -> bool:
    """Whether a learner explores at a rate that has to be chosen.

    Examples
    --------
    >>> takes_gamma("delaytron"), takes_gamma("bandit_logit")
    (True, False)
    """
    return "gamma" in own_parameters(LEARNERS[learner])


def synthetic_setup(classes: int | None, features: int | None, best: float, limit: int | None, terms: Terms) -> Setup:
    """Return made-up data, and others for the tuning; runs draw their own rows from them."""
    if classes is None:
        raise InvalidInput("classes must be given where there are no data; give classes, or data")
    K = check_integer("classes", classes, at_least=2)
    d = check_integer("features", FEATURES if features is None else features, at_least=2)
    shorter = _shorter(terms, limit, affordable(K, d))
    n_rows = max(1, min(MOST_ROWS, shorter.rounds // 2))
    data = mixture(K, d, n_rows, best, terms.seed)
    others = mixture(K, d, n_rows, best, terms.tuning_seed)
    return Setup(data, others, shorter)


def given_setup(data: Dataset, tuning_data: Any, classes: int | None, limit: int | None, terms: Terms) -> Setup:
    """Return the user's data, and those for the tuning, which may be the same."""
    others = data if tuning_data is None else as_dataset(tuning_data)
    if classes not in (None, data.n_classes):
        raise InvalidInput(f"classes must be those of the data, {data.n_classes}, or left out; got {shown(classes)}")
    if (others.n_classes, others.n_features) != (data.n_classes, data.n_features):
        raise InvalidInput(f"tuning_data must have the classes and features of {data!r}; got {others!r}")
    return Setup(data, others, _shorter(terms, limit, affordable(data.n_classes, row_length(data))))


def _shorter(terms: Terms, limit: int | None, usual: int) -> Terms:
    most = usual if limit is None else check_integer("limit", limit, at_least=1)
    return replace(terms, rounds=min(terms.rounds, most))
