"""Many runs: seeds x parameters, on all cores, the data read once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from itertools import product
from typing import Any

import numpy as np

from delaytron.checks import choice, whole
from delaytron.datasets import Dataset, as_dataset
from delaytron.delays import Delay, as_delay
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import weight_shape
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.base import new_scratch
from delaytron.matrices import as_stream
from delaytron.records import Ints, Span, Worlds
from delaytron.results import Result
from delaytron.worlds import BYTES_PER_ROUND, checkpoints, empty_log, make_worlds

MEMORY = 56 * 2**20  # bytes that the runs being played may take, all threads together
BATCH_RUNS = 32
CACHE_BYTES = 4 * 2**20
AHEAD = 4  # rounds: far enough for the memory to answer, near enough to be cached still

Progress = Callable[[int], object]


def simulate(
    learner: str | type[Learner],
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
    learner : str or class
        A name in `LEARNERS`, or a learner class.
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
    dataset = as_dataset(data)
    cls = learner_class(learner)
    grid = _grid(cls, parameters)
    learners = [cls(dataset.n_classes, dataset.n_features, seed=0, **settings) for settings in grid]
    n_rounds = dataset.n_rows if rounds is None else whole("rounds", rounds, at_least=1)
    choice("sampling", sampling, ("replacement", "epochs"))
    plan = _Plan(dataset, as_delay(delay), n_rounds, whole("seed", seed, at_least=0), sampling, progress)
    jobs = [(run, entry) for run in range(whole("runs", runs, at_least=1)) for entry in range(len(grid))]
    mistakes = _play_all(plan, learners, jobs, n_jobs)
    order = sorted(range(len(jobs)), key=lambda j: (jobs[j][1], jobs[j][0]))
    return Result(
        learner=cls.rule.name,
        dataset=dataset.name,
        delay=repr(plan.delay),
        rounds=checkpoints(n_rounds),
        parameters=[grid[jobs[j][1]] for j in order],
        run=np.array([jobs[j][0] for j in order]),
        mistakes=mistakes[order],
    )


def learner_class(learner: str | type[Learner]) -> type[Learner]:
    """Return the class that a name in the registry stands for."""
    if isinstance(learner, type) and issubclass(learner, Learner):
        return learner
    return LEARNERS[choice("learner", learner, LEARNERS)]


def parameter_names(cls: type[Learner]) -> list[str]:
    """Return the names of a learner's own parameters.

    Examples
    --------
    >>> parameter_names(LEARNERS["delaytron"])
    ['gamma', 'eta']
    """
    return [name for name in signature(cls).parameters if name not in ("n_classes", "n_features", "seed")]


def _grid(cls: type[Learner], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the list-valued parameters."""
    known = parameter_names(cls)
    for name in parameters:
        if name not in known:
            raise InvalidInput(f"{cls.rule.name} takes {', '.join(known) or 'no parameters'}; got {name}")
    values = [
        list(dict.fromkeys(v if isinstance(v, list | tuple) else np.ravel(v).tolist())) for v in parameters.values()
    ]
    for name, several in zip(parameters, values, strict=True):
        if not several:
            raise InvalidInput(f"{name} must have at least one value, got []")
    return [dict(zip(parameters, combination, strict=True)) for combination in product(*values)]


@dataclass(frozen=True)
class _Plan:
    """What all batches of a simulation share."""

    data: Dataset
    delay: Delay
    n_rounds: int
    seed: int
    sampling: str
    progress: Progress | None

    def worlds(self, runs: list[int]) -> tuple[Worlds, int]:
        return make_worlds(runs, self.data.n_rows, self.n_rounds, self.delay, self.seed, self.sampling)

    @property
    def ahead(self) -> int:
        """How early to ask the memory for rows: only rows drawn from more than the caches hold are worth it."""
        return AHEAD if self.n_rounds > self.data.n_rows and self.data.n_bytes > CACHE_BYTES else 0

    @property
    def weight_shape(self) -> tuple[int, int]:
        return weight_shape(self.data.n_classes, self.data.n_features, self.data.sparse)


Job = tuple[int, int]  # run, and entry of the parameter grid


def _play_all(plan: _Plan, learners: list[Learner], jobs: list[Job], n_jobs: int | None) -> Ints:
    from joblib import Parallel, cpu_count, delayed  # noqa: PLC0415 - slow to import

    threads = cpu_count() if n_jobs in (None, -1) else whole("n_jobs", n_jobs, at_least=1)
    batches = _batches(plan, jobs, threads)
    played = Parallel(threads, require="sharedmem")(delayed(_play)(plan, learners, batch) for batch in batches)
    return np.concatenate(played)


def _batches(plan: _Plan, jobs: list[Job], threads: int) -> Iterator[list[Job]]:
    """Cut the jobs into batches that fit the memory, keep every thread busy and have runs side by side."""
    most = min(BATCH_RUNS, -(-len(jobs) // threads))
    state_bytes = 8 * plan.weight_shape[0] * plan.weight_shape[1]
    batch: list[Job] = []
    for job in jobs:
        worlds = len({run for run, _ in [*batch, job]})
        size = worlds * plan.n_rounds * BYTES_PER_ROUND + (len(batch) + 1) * state_bytes
        if batch and (len(batch) >= most or size > MEMORY / threads):
            yield batch
            batch = []
        batch.append(job)
    yield batch


def _play(plan: _Plan, learners: list[Learner], jobs: list[Job]) -> Ints:
    """Play one batch; return the mistakes of every run at every checkpoint, of played and of greedy labels."""
    rule, scratch = learners[0].rule, new_scratch(plan.data.n_classes)
    stream = as_stream(plan.data.X, plan.data.y)
    runs = sorted({run for run, _ in jobs})
    worlds, longest = plan.worlds(runs)
    world_of = np.searchsorted(runs, [run for run, _ in jobs])
    log, states = empty_log(len(jobs), longest), rule.init(len(jobs), plan.weight_shape)
    params = rule.params(*map(np.array, zip(*(learners[entry].params for _, entry in jobs), strict=True)))
    noted, begin = [], 0
    for end in checkpoints(plan.n_rounds).tolist():
        rule.play(stream, worlds, world_of, log, states, params, scratch, (0, 0), Span(begin, end, plan.ahead))
        noted.append(log.mistakes.copy())
        if plan.progress is not None:
            plan.progress((end - begin) * len(jobs))
        begin = end
    return np.stack(noted, axis=1)
