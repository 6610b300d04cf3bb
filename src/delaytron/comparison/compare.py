"""All learners on the same data, each with parameters that were tuned on other seeds than those reported."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from delaytron.checks import check_distinct
from delaytron.comparison.results import Comparison, Entry
from delaytron.comparison.tuning import Terms, tune
from delaytron.datasets import Dataset, as_dataset
from delaytron.delays import Delay, as_delay
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.feedback import read_feedback_model
from delaytron.learners.options import COMMON
from delaytron.rng import stream
from delaytron.simulation.batches import Progress
from delaytron.simulation.results import Setting
from delaytron.simulation.scenarios import mean_wait
from delaytron.simulation.simulate import learner_class, simulate_settings

MOST_WRITTEN_OUT = 1000  # features of sparse rows: with more, standardised rows, which have no zeros, take too long
Learners = Iterable[str | type[Learner]] | None
T = TypeVar("T")


def compare(
    data: Any,
    learners: Learners = None,
    delays: Iterable[Any] = (1, 1000, 5000),
    rounds: int = 100_000,
    runs: int = 10,
    tuning_runs: int = 2,
    budget: int = 16,
    seed: int = 0,
    tuning_data: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    *,
    noise: Any = None,
    expire_after: int | None = None,
    on_expiry: str = "drop",
) -> Comparison:
    """Compare learners at several delays, each with its parameters tuned at the same expense.

    For every learner and delay, `budget` settings of the learner's `grid`, rows as they are and with `standardize`,
    are drawn without replacement (all, if there are fewer). They play `tuning_runs` runs of `rounds` rounds with the
    seed `seed` + 1000003, so with other rows, delays and draws than the reported runs. The setting with the lowest mean
    error of the played labels then plays `runs` runs with `seed`: these are reported. What a learner gets does not
    depend on the others. Standardised rows are not tried on sparse rows of more than 1000 features.

    Parameters
    ----------
    learners : names or classes, optional
        All of `LEARNERS` by default. Those that cannot play on these data are listed with the reason.
    delays : delay models, ints or texts
        See `delaytron.delays`; they are sorted by the mean wait.
    tuning_data : Dataset or (X, y), optional
        Other data of the same kind to tune on, see `load_for_tuning`. By default `data`: then, if they have enough
        rows for `rounds`, the tuning sees the same rows in the same order, with other delays and draws.
    noise, expire_after, on_expiry
        What the feedback is like for all, see `Learner`.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> comparison = compare(data, ["delaytron", "banditron"], delays=[1, 100], rounds=1000, runs=2, budget=3)
    >>> [(entry.learner, entry.delay, entry.tried) for entry in comparison.entries]
    [('delaytron', '1', 3), ('delaytron', '100', 3), ('banditron', '1', 3), ('banditron', '100', 3)]
    """
    terms = Terms(rounds, runs, tuning_runs, budget, seed)
    feedback = read_feedback(noise, expire_after, on_expiry)
    return prepare(data, learners, delays, terms, tuning_data, feedback).play(n_jobs, progress)


def read_feedback(noise: Any, expire_after: Any, on_expiry: Any) -> Setting:
    """Check what the feedback is like; return it as parameters of every learner, without what is usual."""
    feedback_model = read_feedback_model(noise, expire_after, on_expiry)
    rates = None if noise is None else (feedback_model.rho0, feedback_model.rho1)
    given = {"noise": rates, "expire_after": expire_after, "on_expiry": on_expiry}
    return {name: value for name, value in given.items() if value != COMMON[name]}


def prepare(
    data: Any, learners: Learners, delays: Iterable[Any], terms: Terms, tuning_data: Any, feedback: Setting
) -> "PreparedComparison":
    """Check everything, draw the settings to try, and find out who cannot play; see `compare`."""
    dataset = as_dataset(data)
    tuning = dataset if tuning_data is None else as_dataset(tuning_data)
    if (tuning.n_classes, tuning.n_features) != (dataset.n_classes, dataset.n_features):
        raise InvalidInput(f"tuning_data must have the classes and features of {dataset!r}; got {tuning!r}")
    ordered = _ordered(delays, terms)
    candidates = {}
    left_out = {}
    for name, cls in _classes(learners).items():
        settings, problem = _candidates(cls, dataset, terms, feedback)
        if settings:
            candidates[cls] = settings
        else:
            left_out[name] = problem
    if not candidates:
        raise InvalidInput("no learner can play: " + "; ".join(map(": ".join, left_out.items())))
    return PreparedComparison(dataset, tuning, ordered, candidates, left_out, terms)


@dataclass(frozen=True)
class PreparedComparison:
    """A comparison that is ready to be played: all is checked, and the settings to try are drawn."""

    data: Dataset
    tuning_data: Dataset
    delays: Mapping[str, Delay]
    candidates: Mapping[type[Learner], list[Setting]]
    left_out: dict[str, str]
    terms: Terms

    @property
    def n_rounds(self) -> int:
        """How many rounds will be played, of all learners together."""
        tuned = sum(len(settings) for settings in self.candidates.values() if len(settings) > 1)
        runs = self.terms.tuning_runs * tuned + self.terms.runs * len(self.candidates)
        return self.terms.rounds * runs * len(self.delays)

    @property
    def n_entries(self) -> int:
        """How many entries there will be, one per learner and delay."""
        return len(self.candidates) * len(self.delays)

    def play(self, n_jobs: int | None = None, progress: Progress | None = None) -> Comparison:
        """Tune and play every learner at every delay."""
        return self.collect(self.entries(n_jobs, progress))

    def collect(self, entries: Iterable[Entry]) -> Comparison:
        """Return what came out, of all entries or of those that are there so far."""
        return Comparison(self.data.name, self.terms, tuple(entries), self.left_out)

    def entries(self, n_jobs: int | None = None, progress: Progress | None = None) -> Iterator[Entry]:
        """Tune and play learner by learner at every delay; each entry comes as soon as it is there."""
        for cls, settings in self.candidates.items():
            for data in (self.data, self.tuning_data):  # compiles, so that the clocks below see no compiler
                simulate_settings(cls, data, settings, rounds=1, n_jobs=n_jobs)
            for label, delay in self.delays.items():
                yield self._entry(cls, label, delay, n_jobs, progress)

    def _entry(
        self, cls: type[Learner], label: str, delay: Delay, n_jobs: int | None, progress: Progress | None
    ) -> Entry:
        begin = perf_counter()
        setting = self._chosen(cls, delay, n_jobs, progress)
        middle = perf_counter()
        result = simulate_settings(
            cls,
            self.data,
            [setting],
            delay=delay,
            rounds=self.terms.rounds,
            runs=self.terms.runs,
            seed=self.terms.seed,
            n_jobs=n_jobs,
            progress=progress,
        )
        return Entry(
            learner=cls.name,
            delay=label,
            setting={name: setting[name] for name in tuned(cls, self.data)},
            tried=len(self.candidates[cls]),
            result=result,
            seconds=perf_counter() - middle,
            tuning_seconds=middle - begin if len(self.candidates[cls]) > 1 else 0.0,
            remark=cls.remark,
        )

    def _chosen(self, cls: type[Learner], delay: Delay, n_jobs: int | None, progress: Progress | None) -> Setting:
        """Return the setting with the lowest mean final error; a single one need not be tried."""
        settings = self.candidates[cls]
        if len(settings) == 1:
            return settings[0]
        return tune(cls, self.tuning_data, settings, delay, self.terms, n_jobs, progress).best().parameters[0]


def _classes(learners: Learners) -> dict[str, type[Learner]]:
    asked = list(LEARNERS if learners is None else [learners] if isinstance(learners, str) else learners)
    return _by_name("learners", [(cls.name, cls) for cls in map(learner_class, asked)])


def _ordered(delays: Iterable[Any], terms: Terms) -> dict[str, Delay]:
    """Return the delays by the names that the user gave them, by the mean wait, ascending."""
    asked = [delays] if isinstance(delays, str | int) else list(delays)
    named = _by_name("delays", [(_label(delay), as_delay(delay)) for delay in asked])
    return dict(sorted(named.items(), key=lambda item: mean_wait(item[1], terms.rounds, terms.seed)))


def _by_name(what: str, named: list[tuple[str, T]]) -> dict[str, T]:
    check_distinct(what, [name for name, _ in named])
    return dict(named)


def _label(delay: Any) -> str:
    return str(as_delay(delay)) if isinstance(delay, Delay) or np.ndim(delay) else str(delay).strip()


def _candidates(cls: type[Learner], data: Dataset, terms: Terms, feedback: Setting) -> tuple[list[Setting], str]:
    """Return the settings that a learner tries; where it can play with none, say why."""
    values = tuned(cls, data)
    grid = [dict(zip(values, chosen, strict=True)) | feedback for chosen in product(*values.values())]
    order = stream(terms.seed, "tuning").permutation(len(grid)).tolist()
    problems: dict[int, str] = {}
    chosen = sorted(islice(_distinct(cls, data, grid, order, problems), min(terms.budget, len(grid))))
    return [grid[place] for place in chosen], "" if chosen else problems[min(problems)]


def tuned(cls: type[Learner], data: Dataset) -> dict[str, Sequence[Any]]:
    """Return the values that a comparison tries: the learner's own, and rows as they are or standardised online.

    Standardised rows are not tried where they change nothing, nor on sparse rows of more than 1000 features.

    Examples
    --------
    >>> data = as_dataset(([[1.0], [2.0]], [0, 1]))
    >>> list(tuned(LEARNERS["gap"], data)), list(tuned(LEARNERS["exp3"], data))
    (['gamma', 'eta', 'standardize'], ['eta'])
    """
    affordable = not data.sparse or data.n_features <= MOST_WRITTEN_OUT
    both = {"standardize": (False, True)} if affordable and cls.rule.standardizable else {}
    return {**cls.grid, **both}


def _distinct(
    cls: Any, data: Dataset, grid: list[Setting], order: list[int], problems: dict[int, str]
) -> Iterator[int]:
    """Iterate over the settings that can play and are not the same learner as one before; note why others cannot."""
    seen = set()
    for place in order:
        try:
            learner = cls(data.n_classes, data.n_features, seed=0, **grid[place])
        except (InvalidInput, MemoryError) as problem:
            problems[place] = " ".join(str(problem).split()) or "not enough memory"
            continue
        if (key := (id(learner.rule), learner.params)) not in seen:
            seen.add(key)
            yield place
