"""Many runs: seeds x parameters, on all cores, the data read once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from delaytron.checks import choice, whole
from delaytron.datasets import Dataset, as_dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.base import new_scratch
from delaytron.learners.common import COMMON, own_parameters
from delaytron.matrices import as_stream
from delaytron.records import Ints, Span
from delaytron.results import Result
from delaytron.worlds import (
    BYTES_PER_LIVELY_ROUND,
    BYTES_PER_ROUND,
    Setting,
    checkpoints,
    empty_log,
    make_worlds,
    most_busy,
)

MEMORY = 56 * 2**20  # bytes that the runs being played may take, all threads together
BATCH_RUNS = 32
CACHE_BYTES = 4 * 2**20
AHEAD = 4  # rounds: far enough for the memory to answer, near enough to be cached still

Progress = Callable[[int], object]


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
    **parameters: Any,
) -> Result:
    """Play `runs` runs of a learner for every combination of its list-valued parameters.

    Run i has its own rows, delays and draws, a function of (seed, i) alone: the same for every learner and
    parameter, whatever runs beside it and on however many threads.

    Parameters
    ----------
    learner : str, class or learner
        A name in `LEARNERS`, a learner class, or a learner as a pattern (its size must fit the data).
    data : Dataset or (X, y)
        The examples. They are shown as they stand; when `rounds` exceeds them they are drawn.
    delay : delay model, int or str
        See `delaytron.delays`; an int D means `Uniform(D)`.
    sampling : {"replacement", "epochs"}
        How rows are drawn when `rounds` exceeds them: uniformly (the paper's protocol), or in reshuffled passes.
    n_jobs : int, optional
        Threads; all cores by default, and by -1.
    progress : callable, optional
        Called with the number of rounds just played, by the thread that played them.
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
    settings = [parameters] if isinstance(learner, Learner) else _grid(learner_class(learner), parameters)
    options: dict[str, Any] = {"rounds": rounds, "runs": runs, "seed": seed, "sampling": sampling}
    return simulate_settings(learner, data, settings, delay=delay, n_jobs=n_jobs, progress=progress, **options)


def simulate_settings(
    learner: str | type[Learner] | Learner,
    data: Any,
    settings: Sequence[dict[str, Any]],
    *,
    delay: Any = 1,
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    sampling: str = "replacement",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Play `runs` runs of a learner for each of these settings, each a dict of parameters; else like `simulate`."""
    dataset = as_dataset(data)
    learners = _learners(learner, dataset, settings)
    n_rounds = dataset.n_rows if rounds is None else whole("rounds", rounds, at_least=1)
    choice("sampling", sampling, ("replacement", "epochs"))
    setting = Setting(dataset.n_rows, n_rounds, as_delay(delay), whole("seed", seed, at_least=0), sampling)
    plan = _Plan(dataset, setting, progress)
    jobs = [(run, entry) for run in range(whole("runs", runs, at_least=1)) for entry in range(len(settings))]
    mistakes = _play_all(plan, learners, jobs, n_jobs)
    order = sorted(range(len(jobs)), key=lambda j: (jobs[j][1], jobs[j][0]))
    return Result(
        learner=learners[0].name,
        dataset=dataset.name,
        delay=repr(setting.delay),
        rounds=checkpoints(n_rounds),
        parameters=[settings[jobs[j][1]] for j in order],
        run=np.array([jobs[j][0] for j in order]),
        mistakes=mistakes[order],
    )


def learner_class(learner: str | type[Learner]) -> type[Learner]:
    """Return the class that a name in the registry stands for."""
    if isinstance(learner, type) and issubclass(learner, Learner):
        return learner
    return LEARNERS[choice("learner", learner, LEARNERS)]


def parameter_names(cls: type[Learner]) -> list[str]:
    """Return the names of the parameters with which a learner can be simulated.

    Examples
    --------
    >>> parameter_names(LEARNERS["delaytron"])
    ['gamma', 'eta', 'noise', 'expire_after', 'on_expiry']
    """
    return [*own_parameters(cls), *(name for name in COMMON if name not in ("seed", "average"))]


def _learners(learner: Any, data: Dataset, settings: Sequence[dict[str, Any]]) -> list[Learner]:
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
    for name in names:
        if name not in known:
            raise InvalidInput(f"{cls.name} takes {', '.join(known)}; got {name}")


def _grid(cls: type[Learner], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the list-valued parameters."""
    _check_names(cls, parameters)
    values = [list(dict.fromkeys(_several(value))) for value in parameters.values()]
    for name, several in zip(parameters, values, strict=True):
        if not several:
            raise InvalidInput(f"{name} must have at least one value, got []")
    return [dict(zip(parameters, combination, strict=True)) for combination in product(*values)]


def _several(value: Any) -> list[Any]:
    """Return the values that a user gives: a list or an array is many, anything else, a pair of rates too, is one."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    return [tuple(v) if isinstance(v, list) else v for v in value] if isinstance(value, list) else [value]


@dataclass(frozen=True)
class _Plan:
    """What all batches of a simulation share."""

    data: Dataset
    setting: Setting
    progress: Progress | None

    @property
    def ahead(self) -> int:
        """How early to ask the memory for rows: only rows drawn from more than the caches hold are worth it."""
        return AHEAD if self.setting.n_rounds > self.data.n_rows and self.data.n_bytes > CACHE_BYTES else 0


Job = tuple[int, int]  # run, and entry of the parameter grid


def _play_all(plan: _Plan, learners: list[Learner], jobs: list[Job], n_jobs: int | None) -> Ints:
    """Play all jobs; return the mistakes of each in the order of the jobs."""
    from joblib import Parallel, cpu_count, delayed  # noqa: PLC0415 - slow to import

    threads = cpu_count() if n_jobs in (None, -1) else whole("n_jobs", n_jobs, at_least=1)
    batches = [batch for group in _groups(learners, jobs) for batch in _batches(plan, learners, group, threads)]
    played = Parallel(threads, require="sharedmem")(delayed(_play)(plan, learners, batch) for batch in batches)
    place = {job: i for i, job in enumerate(job for batch in batches for job in batch)}
    return np.asarray(np.concatenate(played)[[place[job] for job in jobs]])


def _groups(learners: list[Learner], jobs: list[Job]) -> list[list[Job]]:
    """Put together the jobs that one compiled loop can play side by side: same rule, same kind of feedback."""
    groups: dict[Any, list[Job]] = {}
    for run, entry in jobs:
        groups.setdefault((id(learners[entry].rule), learners[entry].life), []).append((run, entry))
    return list(groups.values())


def _batches(plan: _Plan, learners: list[Learner], jobs: list[Job], threads: int) -> Iterator[list[Job]]:
    """Cut the jobs into batches that fit the memory, keep every thread busy and have runs side by side."""
    pattern = learners[jobs[0][1]]
    most = 1 if pattern.rule.pools else min(BATCH_RUNS, -(-len(jobs) // threads))  # how large a pool is shows later
    world_bytes = plan.setting.n_rounds * (BYTES_PER_LIVELY_ROUND if pattern.life.expires else BYTES_PER_ROUND)
    state_bytes = pattern.state_bytes(plan.data.sparse)
    batch: list[Job] = []
    for job in jobs:
        worlds = len({run for run, _ in [*batch, job]})
        size = worlds * world_bytes + (len(batch) + 1) * state_bytes
        if batch and (len(batch) >= most or size > MEMORY / threads):
            yield batch
            batch = []
        batch.append(job)
    yield batch


def _play(plan: _Plan, learners: list[Learner], jobs: list[Job]) -> Ints:
    """Play one batch; return the mistakes of every run at every checkpoint, of played and of greedy labels."""
    pattern = learners[jobs[0][1]]
    rule, scratch = pattern.rule, new_scratch(plan.data.n_classes)
    stream = as_stream(plan.data.X, plan.data.y)
    runs = sorted({run for run, _ in jobs})
    worlds, longest = make_worlds(runs, plan.setting, pattern.life)
    world_of = np.searchsorted(runs, [run for run, _ in jobs])
    params = rule.params(*map(np.array, zip(*(learners[entry].params for _, entry in jobs), strict=True)))
    size = pattern.size(plan.data.sparse)._replace(n_open=most_busy(worlds) if rule.pools else 1)
    log, states = empty_log(len(jobs), longest, len(rule.extras)), rule.init(params, size)
    noted, begin = [], 0
    for end in checkpoints(plan.setting.n_rounds).tolist():
        rule.play(stream, worlds, world_of, log, states, params, scratch, (0, 0), Span(begin, end, plan.ahead))
        noted.append(log.mistakes.copy())
        if plan.progress is not None:
            plan.progress((end - begin) * len(jobs))
        begin = end
    return np.stack(noted, axis=1)
