"""Choosing parameters, on other seeds than those reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from delaytron.checks import check_integer
from delaytron.datasets import Dataset, is_drawn, load
from delaytron.delays import Delay
from delaytron.learners import Learner
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Result, Setting
from delaytron.simulation.simulate import check_rounds, check_runs, simulate_settings

TUNING_SEED_OFFSET = 1_000_003  # between the seed of the reported runs and that of the tuning


@dataclass(frozen=True)
class Terms:
    """What is the same for every learner of a comparison."""

    rounds: int = 100_000
    runs: int = 10
    tuning_runs: int = 2
    budget: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        check_runs("runs", self.runs)
        check_runs("tuning_runs", self.tuning_runs)
        check_integer("budget", self.budget, at_least=1)
        check_integer("seed", self.seed, at_least=0)

    @property
    def tuning_seed(self) -> int:
        """The seed of the rows, delays and draws with which parameters are chosen."""
        return self.seed + TUNING_SEED_OFFSET


def tune(
    learner: str | type[Learner],
    data: Dataset,
    settings: Sequence[Setting],
    delay: Delay,
    terms: Terms,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Play every setting on the seed of the tuning; `best()` of what is returned is the setting to report.

    Examples
    --------
    >>> from delaytron.delays import Uniform
    >>> data = load_for_tuning("synsep", 0, n_samples=500)
    >>> terms = Terms(rounds=500, tuning_runs=3)
    >>> tried = tune("delaytron", data, [{"gamma": 0.1}, {"gamma": 0.9}], Uniform(5), terms)
    >>> len(tried.parameters), tried.best().parameters[0]
    (6, {'gamma': 0.1})
    """
    return simulate_settings(
        learner,
        data,
        settings,
        delay=delay,
        rounds=terms.rounds,
        runs=terms.tuning_runs,
        seed=terms.tuning_seed,
        n_jobs=n_jobs,
        progress=progress,
        n_checkpoints=1,  # the final error decides
    )


def load_for_tuning(name: str, seed: int, **options: Any) -> Dataset | None:
    """Draw a data set again for the tuning of a comparison with this seed; None where data are not drawn by a seed.

    Examples
    --------
    >>> load_for_tuning("synsep", 0, n_samples=500), load_for_tuning("digits", 0)
    (Dataset('synsep', 500 rows, 400 features, 9 classes, sparse), None)
    """
    if not is_drawn(name):
        return None
    return load(name, **options, seed=seed + TUNING_SEED_OFFSET)
