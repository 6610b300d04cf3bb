"""`dt.simulate`: runs of all seeds and parameters, played in batches on all cores; a stream is read once per batch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from itertools import chain, pairwise, product
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.checks import as_stream, check_bool, check_choice, check_integer, did_you_mean, stack_rows
from delaytron.datasets import Dataset, FileStream, as_dataset
from delaytron.delays import Delay, OfRows, as_delay
from delaytron.delays.dependent import Labelled, check_fits, depends_on_rows
from delaytron.delays.models import one_line
from delaytron.errors import InvalidInput
from delaytron.errors import Setting as Mention
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.arguments import COMMON, own_parameters
from delaytron.learners.book import Expiry
from delaytron.learners.predictions import new_scratch
from delaytron.records import Array, Ints, Scenarios, Span, Stream
from delaytron.simulation.results import Result, Setting
from delaytron.simulation.scenarios import (
    CHECKPOINTS,
    SAMPLINGS,
    Noise,
    SimulationConfig,
    bytes_per_round,
    checkpoints,
    empty_log,
    make_scenarios,
    max_open_rounds,
    noise_for,
)

if TYPE_CHECKING:
    from delaytron.simulation.run_logs import LogPlan


class Window(NamedTuple):
    """The rounds begin..end-1, with their rows and those of earlier rounds whose answers arrive in them.

    Parameters
    ----------
    scenarios : Scenarios
        Those of the simulation; `rows` are places in this window, valid until the next window is made.
    """

    stream: Stream
    begin: int
    end: int
    scenarios: Scenarios


def windows(data: Dataset | FileStream, scenarios: Scenarios, longest: int) -> Iterator[Window]:
    """Iterate over the windows of a simulation: one for a data set, one per block of a stream.

    `longest` is the longest delay that is delivered. The scenarios may be shared, and are not changed.
    """
    n_rounds = scenarios.rows.shape[1]
    if isinstance(data, Dataset):
        yield Window(as_stream(data.X, data.y), 0, n_rounds, scenarios)
        return
    scenarios = scenarios._replace(rows=scenarios.rows.copy())
    begin = 0
    X: Any = None
    for block_X, block_y in data.blocks():
        if begin == 0:
            X, y = block_X, block_y
        else:  # rows of open rounds are copied in front of the block: their answers need them
            last = min(begin + longest, n_rounds)
            events = zip(scenarios.arrivals, scenarios.starts, strict=True)
            arriving = [arrivals[starts[begin] : starts[last]] for arrivals, starts in events]
            answered = np.unique(np.concatenate(arriving))
            still_open = answered[: np.searchsorted(answered, begin)].astype(np.int64)
            kept = scenarios.rows[0, still_open]  # all scenarios of a stream show the same rows
            X, y = stack_rows([X[kept], block_X]), np.concatenate([y[kept], block_y])
            scenarios.rows[:, still_open] = np.arange(kept.size)
        end = min(begin + len(block_y), n_rounds)
        first = len(y) - len(block_y)
        scenarios.rows[:, begin:end] = np.arange(first, first + end - begin)
        yield Window(as_stream(X, y), begin, end, scenarios)
        begin = end
        if end == n_rounds:
            return


MEMORY = 56 * 2**20  # bytes of the runs that are played at the same time, on all threads
MEMORY_OF_STREAM = 192 * 2**20  # the same for a stream, whose file every batch reads again
BATCH_RUNS = 32
MOST_THREADS = 1024
CACHE_BYTES = 4 * 2**20
AHEAD = 4  # rounds to prefetch: early enough to hide the latency, late enough to stay in the cache

Progress = Callable[[int], object]
ScenarioMaker = Callable[[Sequence[int], SimulationConfig, Expiry, Noise], tuple[Scenarios, int]]
Job = tuple[int, int]  # run, and entry of the parameter grid


@dataclass(frozen=True)
class BatchPlan:
    """What all batches of a simulation have in common."""

    data: Dataset | FileStream
    config: SimulationConfig
    progress: Progress | None
    noise: Sequence[Noise]  # by entry of the parameter grid
    make_scenarios: ScenarioMaker
    logs: "LogPlan | None"


def play_all(plan: BatchPlan, learners: list[Learner], jobs: list[Job], n_jobs: int | None) -> tuple[Ints, Array]:
    """Play all jobs; return the mistakes and the losses of each, in the order of the jobs."""
    from joblib import Parallel, cpu_count, delayed  # noqa: PLC0415 - slow to import

    all_cores = n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1)
    threads = cpu_count() if all_cores else check_threads("n_jobs", n_jobs)
    memory = MEMORY
    if isinstance(plan.data, FileStream):
        threads = 1  # reading takes longer than playing, so as many runs as possible share one reading
        memory = MEMORY_OF_STREAM
    groups: dict[Any, list[Job]] = {}
    for run, entry in jobs:  # all runs of a compiled loop have the same rule and the same kind of feedback
        key = (id(learners[entry].rule), learners[entry].book.expiry, plan.noise[entry])
        groups.setdefault(key, []).append((run, entry))
    batches: list[list[Job]] = []  # each fits into its share of the memory, and every thread has some
    for group in groups.values():
        pattern = learners[group[0][1]]
        most = min(BATCH_RUNS, -(-len(group) // threads))
        if pattern.rule.per_round_state:  # its size is known only when it is played
            most = 1
        scenario_bytes = plan.config.n_rounds * bytes_per_round(plan.config.delay, pattern.book.expiry.expires)
        state_bytes = pattern._state_bytes(plan.data.sparse)
        batch: list[Job] = []
        for job in group:
            n_scenarios = len({run for run, _ in [*batch, job]})
            size = n_scenarios * scenario_bytes + (len(batch) + 1) * state_bytes
            if batch and (len(batch) >= most or size > memory / threads):
                batches.append(batch)
                batch = []
            batch.append(job)
        batches.append(batch)
    played = Parallel(threads, require="sharedmem")(delayed(_play)(plan, learners, batch) for batch in batches)
    place = {job: i for i, job in enumerate(chain.from_iterable(batches))}
    order = [place[job] for job in jobs]
    mistakes, losses = (np.concatenate(parts)[order] for parts in zip(*played, strict=True))
    return mistakes, losses


def check_threads(name: str, threads: Any) -> int:
    """Return a number of threads; raise InvalidInput if it is not one."""
    return check_integer(name, threads, at_least=1, at_most=MOST_THREADS)


def _play(plan: BatchPlan, learners: list[Learner], jobs: list[Job]) -> tuple[Ints, Array]:
    """Play one batch; return mistakes and losses (see `RoundRing`) of every run at every checkpoint."""
    data, config = plan.data, plan.config
    first = jobs[0][1]
    pattern = learners[first]
    rule = pattern.rule
    runs = sorted({run for run, _ in jobs})
    scenarios, longest = plan.make_scenarios(runs, config, pattern.book.expiry, plan.noise[first])
    scenario_of = np.searchsorted(runs, [run for run, _ in jobs])
    params = rule.params(*map(np.array, zip(*[learners[entry].params for _, entry in jobs], strict=True)))
    size = pattern.size(data.sparse)._replace(n_open=max_open_rounds(scenarios) if rule.per_round_state else 1)
    piece = None if plan.logs is None else plan.logs.n_rounds  # the ring must keep these rounds until they are logged
    log = empty_log(len(jobs), max(longest, piece or 0), len(rule.extras), config.losses)
    states = rule.init(params, size)
    scratch = new_scratch(data.n_classes)
    play = rule.play.compiled
    # Prefetching pays only where rows are drawn at random from more than the caches hold.
    drawn = isinstance(data, Dataset) and config.n_rounds > data.n_rows and data.n_bytes > CACHE_BYTES
    ahead = AHEAD if drawn else 0
    stops = checkpoints(config.n_rounds, config.n_checkpoints).tolist()
    noted = []
    with nullcontext() if plan.logs is None else plan.logs.open(jobs, config) as logs:
        for window in windows(data, scenarios, longest):
            logged = window.begin
            cuts = {stop for stop in stops if window.begin < stop < window.end}
            cuts.update(range(window.begin, window.end, piece or config.n_rounds))
            for begin, end in pairwise([*sorted(cuts), window.end]):
                span = Span(begin, end, ahead)
                play(window.stream, window.scenarios, scenario_of, log, states, params, scratch, (0, 0), span)
                if end in stops:
                    noted.append((log.mistakes.copy(), log.losses.copy()))
                if logs is not None and (end - logged == piece or end == window.end):
                    logs.write(window, scenario_of, log, (logged, end))
                    logged = end
                if plan.progress is not None:
                    plan.progress((end - begin) * len(jobs))
    mistakes, losses = (np.stack(parts, axis=1) for parts in zip(*noted, strict=True))
    return mistakes, losses


MOST_ROUNDS = 2**32 - 2  # of a run: rounds are counted in 32 bits
MOST_RUNS = 1_000_000  # of a setting: the results of a run take a kilobyte


def simulate(
    learner: str | type[Learner] | Learner,
    data: Any,
    *,
    delay: Any = None,
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    sampling: str = "replacement",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    regret: bool = False,
    log: str | Path | None = None,
    noise: Any = None,
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
    delay : delay model, int or str, optional
        See `delaytron.delays`; an int D means `Uniform(D)`, "recorded" and "shuffled" the delays that the rows were
        recorded with. By default "recorded" where the data have them, else 1: no delay.
    sampling : {"replacement", "epochs", "drawn"}
        How rows are drawn when `rounds` exceeds them: uniformly (the paper's protocol), or in reshuffled passes.
        "drawn" draws uniformly in any case, so that no run shows them in file order.
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
    noise : (rho0, rho1), optional
        Flip answers: a "wrong" arrives as "right" at the rate rho0, a "right" as "wrong" at rho1. Errors are counted
        against the truth. A list of pairs gives one set of runs per pair.
    **parameters
        Of the learner; a list gives one set of runs per entry.

    Returns
    -------
    Result
        The errors of every run at every checkpoint.

    Raises
    ------
    InvalidInput
        If an argument is not allowed, or the learner does not fit the data.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> result = dt.simulate("banditron", data, runs=3, gamma=[0.1, 0.2])
    >>> result.error_rate.shape == (6, result.rounds.size)
    True
    """
    varied = parameters if noise is None else {**parameters, "noise": noise}
    settings = combinations(varied) if isinstance(learner, Learner) else grid(learner_class(learner), varied)
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
    delay: Any = None,
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    sampling: str = "replacement",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    n_checkpoints: int = CHECKPOINTS,
    regret: bool = False,
    scenarios: ScenarioMaker = make_scenarios,
    log: str | Path | None = None,
) -> Result:
    """Play `runs` runs of a learner for each of these settings, each a dict of parameters; else like `simulate`.

    A setting may also have `noise`. `scenarios` returns the rows, delays and draws of some runs, which may be those of
    an earlier call.
    """
    dataset = data if isinstance(data, FileStream) else as_dataset(data)
    names = [name for setting in settings for name in setting]
    learners: list[Learner] = []
    if isinstance(learner, Learner):
        same_size = (learner.n_classes, learner.n_features) == (dataset.n_classes, dataset.n_features)
        if not same_size or set(names) - {"noise"}:
            asked = f"{dataset.n_classes} classes and {dataset.n_features} features, and no further parameters"
            problem = f"a learner given as a pattern must have the data's {asked}; got {learner!r}"
            raise InvalidInput(problem, "give its class or its name, with parameters")
        learners = [learner] * len(settings)
    else:
        cls = learner_class(learner)
        _check_names(cls, names)
        for setting in settings:
            learners.append(make_learner(cls, dataset.n_classes, dataset.n_features, setting))
    noise = [noise_for(one, setting.get("noise")) for one, setting in zip(learners, settings, strict=True)]
    n_rounds = dataset.n_rows if rounds is None else check_rounds(rounds)
    if isinstance(dataset, FileStream) and n_rounds > dataset.n_rows:
        hint = "a stream shows each of its rows once: give fewer rounds, or load the file whole"
        raise InvalidInput.of("rounds", f"at most {dataset.n_rows}, the rows of the stream", n_rounds, hint)
    check_choice("sampling", sampling, SAMPLINGS)
    if sampling == "drawn" and isinstance(dataset, FileStream):
        needs = (Mention("sampling", "'drawn'"), " needs rows in memory: a stream shows them in their order")
        raise InvalidInput(needs, "load the file whole", parameter="sampling")
    first_seed = check_integer("seed", seed, at_least=0)
    losses = check_bool("regret", regret)
    model = delay_for(dataset, delay)
    labelled = labels_for(model, dataset, n_rounds)
    config = SimulationConfig(dataset.n_rows, n_rounds, model, first_seed, sampling, n_checkpoints, losses, labelled)
    if progress is not None and not callable(progress):
        raise InvalidInput.of("progress", "a function of the number of rounds just played", progress)
    curved = [one.rule.name for one in learners if not one.rule.is_linear]
    if losses and curved:
        linear = f" needs a learner whose scores are linear in the row, got {curved[0]}"
        raise InvalidInput((Mention("regret", "True"), linear), "leave it out, or take another learner")
    n_runs = check_runs("runs", runs)
    logs: LogPlan | None = None
    if log is not None:
        from delaytron.simulation.run_logs import plan_logs  # noqa: PLC0415 - slow to import, seldom needed

        logs = plan_logs(log, dataset, learners, settings, n_runs, n_rounds)
    plan = BatchPlan(dataset, config, progress, noise, scenarios, logs)
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


def delay_for(data: Dataset | FileStream, delay: Any) -> Delay:
    """Return a delay model; without one the delays that the rows were recorded with, or none.

    Examples
    --------
    >>> delay_for(as_dataset(([[1.0], [2.0]], [0, 1])), None)
    Uniform(D=1)
    """
    if delay is not None:
        return as_delay(delay)
    return OfRows() if isinstance(data, Dataset) and data.delays is not None else as_delay(1)


def labels_for(delay: Delay, data: Dataset | FileStream, n_rounds: int) -> Labelled | None:
    """Return what the delays depend on, if they depend on the rows; raise InvalidInput if they do not fit these."""
    if not depends_on_rows(delay):
        return None
    if isinstance(data, FileStream):
        raise InvalidInput(
            f"the delay {one_line(delay)} depends on the rows, which a stream reads later", "load the file whole"
        )
    labelled = Labelled(data.y, data.class_names, data.delays)
    check_fits(delay, labelled, n_rounds)
    return labelled


def check_rounds(rounds: Any) -> int:
    """Return the number of rounds of a run; raise InvalidInput if it is not one."""
    return check_integer("rounds", rounds, at_least=1, at_most=MOST_ROUNDS)


def check_runs(name: str, runs: Any) -> int:
    """Return a number of runs; raise InvalidInput if it is not one."""
    return check_integer(name, runs, at_least=1, at_most=MOST_RUNS)


def learner_class(learner: str | type[Learner]) -> type[Learner]:
    """Return a learner class, given itself or by its name; raise InvalidInput for an unknown name."""
    if isinstance(learner, type) and issubclass(learner, Learner):
        return learner
    return LEARNERS[check_choice("learner", learner, LEARNERS)]


def parameter_names(cls: type[Learner]) -> list[str]:
    """Return the names of the parameters that `simulate` takes for a learner.

    Examples
    --------
    >>> parameter_names(LEARNERS["delaytron"])
    ['gamma', 'eta', 'expire_after', 'on_expiry', 'correct_within', 'standardize', 'ties']
    """
    return [name for name in (*own_parameters(cls), *COMMON) if name != "seed"]


def make_learner(cls: Any, n_classes: int, n_features: int, setting: Setting) -> Learner:
    """Return the learner of a setting, which may also have `noise`; raise InvalidInput if a value is not allowed."""
    parameters = {name: value for name, value in setting.items() if name != "noise"}
    made: Learner = cls(n_classes, n_features, seed=0, **parameters)
    noise_for(made, setting.get("noise"))
    return made


def _check_names(cls: type[Learner], names: Iterable[str]) -> None:
    """Raise InvalidInput if a learner does not take a parameter; arguments of `simulate` are suggested, too."""
    known = parameter_names(cls)
    own = [name for name in signature(simulate).parameters if name not in known]
    for name in names:
        if name not in known and name != "noise":
            hint = did_you_mean(name, own + known) or "leave it out"
            raise InvalidInput(f"{cls.name} takes {', '.join(known)}, got {name}", hint, parameter=name)


def grid(cls: type[Learner], parameters: Mapping[str, Any]) -> list[Setting]:
    """Return every combination of the list-valued parameters and `noise`.

    Examples
    --------
    >>> grid(LEARNERS["delaytron"], {"gamma": [0.1, 0.2], "eta": 2})
    [{'gamma': 0.1, 'eta': 2}, {'gamma': 0.2, 'eta': 2}]
    """
    _check_names(cls, parameters)
    return combinations(parameters)


def combinations(parameters: Mapping[str, Any]) -> list[Setting]:
    """Return all combinations; a list or an array is several values, anything else, such as a pair of rates, is one."""
    varied = []
    for name, value in parameters.items():
        values = [value]
        if isinstance(value, np.ndarray):
            values = value.ravel().tolist()
        elif isinstance(value, list):
            values = [tuple(one) if isinstance(one, list) else one for one in value]
        if not values:
            raise InvalidInput.of(name, "at least one value", got="[]", verb="have")
        try:
            varied.append(list(dict.fromkeys(values)))
        except TypeError:  # a dict, a set, a Series
            raise InvalidInput.of(name, "a value or a list of values", values[0]) from None
    return [dict(zip(parameters, combination, strict=True)) for combination in product(*varied)]
