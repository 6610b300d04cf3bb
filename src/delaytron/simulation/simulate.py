"""Many runs: seeds x parameters, on all cores, the data read once."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_bool, check_choice, check_integer, did_you_mean, shown
from delaytron.datasets import Dataset, FileStream, as_dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.options import COMMON, own_parameters
from delaytron.simulation.batches import BatchPlan, Progress, play_all
from delaytron.simulation.results import Result, Setting
from delaytron.simulation.scenarios import CHECKPOINTS, SimulationConfig, checkpoints, make_scenarios

if TYPE_CHECKING:
    from delaytron.simulation.run_logs import LogPlan

MOST_ROUNDS = 2**32 - 2  # of a run: rounds are counted in 32 bits
MOST_RUNS = 1_000_000  # of a setting: the results of each take a kilobyte


def simulate(
    learner: str | type[Learner] | Learner,
    data: Any,
    *,
    delay: Any = 1,
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    sampling: str = "replacement",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    regret: bool = False,
    log: str | Path | None = None,
    **parameters: Any,
) -> Result:
    """Play `runs` runs of a learner for every combination of its list-valued parameters.

    Run i has its own rows, delays and draws, a function of (seed, i) alone: the same for every learner and
    parameter, whatever runs beside it and on however many threads.

    Parameters
    ----------
    learner : str, class or learner
        A name in `LEARNERS`, a learner class, or a learner as a pattern (its size must fit the data).
    data : Dataset, (X, y) or FileStream
        The examples. They are shown in file order; when `rounds` exceeds them they are drawn. A stream (see
        `datasets.stream`) is read in blocks, and shown once.
    delay : delay model, int or str
        See `delaytron.delays`; an int D means `Uniform(D)`.
    sampling : {"replacement", "epochs"}
        How rows are drawn when `rounds` exceeds them: uniformly (the paper's protocol), or in reshuffled passes.
    n_jobs : int, optional
        Threads; all cores by default, and by -1.
    progress : callable, optional
        Called with the number of rounds just played, by the thread that played them.
    regret : bool
        Also note the hinge losses of the scores, for `theory.regret`.
    log : path, optional
        Write every decision to a Parquet file that `dt.logs.read_parquet` reads; of several runs, a file each to this
        folder. Round t is decided t seconds after 1970 began, and its feedback received when it is delivered; feedback
        that does not arrive before the run ends is missing.
    **parameters
        Of the learner; a list gives one set of runs per entry.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> result = dt.simulate("banditron", data, runs=3, gamma=[0.1, 0.2])
    >>> result.error_rate.shape == (6, result.rounds.size)
    True
    """
    settings = [parameters] if isinstance(learner, Learner) else grid(learner_class(learner), parameters)
    return simulate_settings(
        learner,
        data,
        settings,
        delay=delay,
        rounds=rounds,
        runs=runs,
        seed=seed,
        sampling=sampling,
        n_jobs=n_jobs,
        progress=progress,
        regret=regret,
        log=log,
    )


def simulate_settings(
    learner: str | type[Learner] | Learner,
    data: Any,
    settings: Sequence[Setting],
    *,
    delay: Any = 1,
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    sampling: str = "replacement",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    n_checkpoints: int = CHECKPOINTS,
    regret: bool = False,
    scenarios: Any = make_scenarios,
    log: str | Path | None = None,
) -> Result:
    """Play `runs` runs of a learner for each of these settings, each a dict of parameters; else like `simulate`.

    `scenarios` makes what happens to runs apart from the learner, or knows it from before.
    """
    dataset = data if isinstance(data, FileStream) else as_dataset(data)
    learners = _learners(learner, dataset, settings)
    n_rounds = _n_rounds(dataset, rounds)
    check_choice("sampling", sampling, ("replacement", "epochs"))
    first_seed = check_integer("seed", seed, at_least=0)
    losses = check_bool("regret", regret)
    config = SimulationConfig(dataset.n_rows, n_rounds, as_delay(delay), first_seed, sampling, n_checkpoints, losses)
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function of the number of rounds just played, got {shown(progress)}")
    curved = [learner.rule.name for learner in learners if not learner.rule.is_linear]
    if losses and curved:
        linear = "regret=True needs a learner whose scores are linear in the row"
        raise InvalidInput(f"{linear}, got {curved[0]}; leave it out, or take another learner")
    n_runs = check_runs("runs", runs)
    logs = None if log is None else _plan_logs(log, dataset, learners, settings, n_runs, n_rounds)
    plan = BatchPlan(dataset, config, progress, scenarios, logs)
    jobs = [(run, entry) for run in range(n_runs) for entry in range(len(settings))]
    mistakes, noted = play_all(plan, learners, jobs, n_jobs)
    order = sorted(range(len(jobs)), key=lambda j: (jobs[j][1], jobs[j][0]))
    return Result(
        learner=learners[0].name,
        dataset=dataset.name,
        delay=str(config.delay),
        rounds=checkpoints(n_rounds, n_checkpoints),
        parameters=[settings[jobs[j][1]] for j in order],
        run=np.array([jobs[j][0] for j in order]),
        mistakes=mistakes[order],
        losses=noted[order] if losses else None,
        config=config,
        form="sparse" if dataset.sparse else "dense",
        majority_error=dataset.majority_error,
    )


def _plan_logs(*asked: Any) -> "LogPlan":
    from delaytron.simulation.run_logs import plan_logs  # noqa: PLC0415 - slow to import, seldom needed

    return plan_logs(*asked)


def _n_rounds(data: Dataset | FileStream, rounds: int | None) -> int:
    asked = data.n_rows if rounds is None else check_rounds(rounds)
    if isinstance(data, FileStream) and asked > data.n_rows:
        raise InvalidInput(f"a stream shows each of its rows once: rounds must be at most {data.n_rows}, got {asked}")
    return asked


def check_rounds(rounds: Any) -> int:
    """Return the number of rounds of a run, or raise."""
    return check_integer("rounds", rounds, at_least=1, at_most=MOST_ROUNDS)


def check_runs(name: str, runs: Any) -> int:
    """Return a number of runs, or raise."""
    return check_integer(name, runs, at_least=1, at_most=MOST_RUNS)


def learner_class(learner: str | type[Learner]) -> type[Learner]:
    """Return the class that a name in the registry stands for."""
    if isinstance(learner, type) and issubclass(learner, Learner):
        return learner
    return LEARNERS[check_choice("learner", learner, LEARNERS)]


def parameter_names(cls: type[Learner]) -> list[str]:
    """Return the names of the parameters with which a learner can be simulated.

    Examples
    --------
    >>> parameter_names(LEARNERS["delaytron"])
    ['gamma', 'eta', 'noise', 'expire_after', 'on_expiry', 'standardize', 'ties']
    """
    return [*own_parameters(cls), *(name for name in COMMON if name not in ("seed", "average"))]


def _learners(learner: Any, data: Dataset | FileStream, settings: Sequence[Setting]) -> list[Learner]:
    """Return a learner for each of the settings."""
    if isinstance(learner, Learner):
        if (learner.n_classes, learner.n_features) != (data.n_classes, data.n_features) or list(settings) != [{}]:
            asked = f"{data.n_classes} classes and {data.n_features} features, and no further parameters"
            raise InvalidInput(f"a learner given as a pattern must have the data's {asked}; got {learner!r}")
        return [learner]
    cls: Any = learner_class(learner)
    _check_names(cls, [name for setting in settings for name in setting])
    return [cls(data.n_classes, data.n_features, seed=0, **setting) for setting in settings]


def _check_names(cls: type[Learner], names: Iterable[str]) -> None:
    known = parameter_names(cls)
    own = [name for name in signature(simulate).parameters if name not in known]
    for name in names:
        if name not in known:
            raise InvalidInput(f"{cls.name} takes {', '.join(known)}; got {name}{did_you_mean(name, own + known)}")


def grid(cls: type[Learner], parameters: Mapping[str, Any]) -> list[Setting]:
    """Return every combination of the list-valued parameters.

    Examples
    --------
    >>> grid(LEARNERS["delaytron"], {"gamma": [0.1, 0.2], "eta": 2})
    [{'gamma': 0.1, 'eta': 2}, {'gamma': 0.2, 'eta': 2}]
    """
    _check_names(cls, parameters)
    values = [_distinct(name, _several(value)) for name, value in parameters.items()]
    return [dict(zip(parameters, combination, strict=True)) for combination in product(*values)]


def _distinct(name: str, values: list[Any]) -> list[Any]:
    if not values:
        raise InvalidInput(f"{name} must have at least one value, got []")
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # a dict, a set, a Series
        raise InvalidInput(f"{name} must be a value or a list of values, got {shown(values[0])}") from None


def _several(value: Any) -> list[Any]:
    """Return the values that a user gives: a list or an array is many, anything else, a pair of rates too, is one."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    return [tuple(v) if isinstance(v, list) else v for v in value] if isinstance(value, list) else [value]
