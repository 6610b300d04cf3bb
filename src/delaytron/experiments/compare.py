"""Comparison of learners on the same data, each tuned at the same cost on other seeds than those reported."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import fill
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from delaytron.checks import check_distinct, check_integer
from delaytron.datasets import Dataset, as_dataset, is_drawn, load
from delaytron.delays import Delay, as_delay
from delaytron.delays.models import OWN
from delaytron.errors import InvalidInput
from delaytron.errors import Setting as ErrorSetting
from delaytron.extras import needs
from delaytron.formats import assignments
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.arguments import COMMON
from delaytron.learners.book import read_expiry
from delaytron.plotting import draw_majority, name_errors, save_figure, style_of
from delaytron.rng import stream
from delaytron.simulation.results import MAJORITY, Errors, Result, Setting, mean_of
from delaytron.simulation.scenarios import mean_wait, read_noise
from delaytron.simulation.simulate import (
    Progress,
    check_rounds,
    check_runs,
    labels_for,
    learner_class,
    make_learner,
    simulate_settings,
)

if TYPE_CHECKING:
    import pyarrow as pa


DELAYS = ("1", "1000", "5000")
ROUNDS = 100_000
TUNING_SEED_OFFSET = 1_000_003  # between the seed of the reported runs and that of the tuning


@dataclass(frozen=True)
class Terms:
    """The terms of all learners of a comparison; raises InvalidInput if a number is out of range."""

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
        """The seed of the rows, delays and draws of the tuning."""
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
    """Play every setting on the tuning seed; `best()` of the returned result is the setting to report.

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
    """Draw a synthetic data set again for the tuning of a comparison with this seed; None for other data sets.

    Examples
    --------
    >>> load_for_tuning("synsep", 0, n_samples=500), load_for_tuning("digits", 0)
    (Dataset('synsep', 500 rows, 400 features, 9 classes, sparse), None)
    """
    if not is_drawn(name):
        return None
    return load(name, **options, seed=seed + TUNING_SEED_OFFSET)


SIGNS = "¹²³⁴⁵⁶⁷⁸⁹"  # of footnotes
LABEL_HEIGHT = 0.17  # inches of a name beside the lines of a figure


class EntryRow(Errors):
    """An entry as plain values: the columns of comparison.csv."""

    learner: str
    dataset: str
    delay: str
    setting: Setting
    rounds: int
    runs: int
    seconds: float
    settings_tried: int
    tuning_seconds: float
    remark: str
    majority_error: float | None


@dataclass(frozen=True)
class Entry:
    """A learner at one delay: its best setting of those tried, and the reported runs with it.

    Parameters
    ----------
    delay : str
        As the user gave it; `result.delay` spells it out.
    setting : dict
        The parameters that were tuned; `result.parameters` has all. Empty for an untuned learner.
    seconds, tuning_seconds : float
        The time of the reported runs, and of the tuning, both without compilation.
    remark : str
        Why the errors mean something else than those of most learners, or "".
    """

    learner: str
    delay: str
    setting: Setting
    tried: int
    result: Result
    seconds: float
    tuning_seconds: float
    remark: str

    def row(self) -> EntryRow:
        """Return the entry as plain values."""
        return {
            "learner": self.learner,
            "dataset": self.result.dataset,
            "delay": self.delay,
            "setting": self.setting,
            "rounds": int(self.result.rounds[-1]),
            "runs": len(self.result.run),
            **self.result.errors(),
            "seconds": self.seconds,
            "settings_tried": self.tried,
            "tuning_seconds": self.tuning_seconds,
            "remark": self.remark,
            "majority_error": self.result.majority_error,
        }


@dataclass(frozen=True)
class Comparison:
    """An entry per learner and delay; `left_out` has the reasons why others could not play."""

    dataset: str
    terms: Terms
    entries: tuple[Entry, ...]
    left_out: dict[str, str]

    @property
    def majority_error(self) -> float | None:
        """The error of always playing the most frequent class of the data."""
        return self.entries[0].result.majority_error

    @property
    def delays(self) -> list[str]:
        """The delays, by the mean wait, ascending."""
        return list(dict.fromkeys(entry.delay for entry in self.entries))

    @property
    def learners(self) -> dict[str, list[Entry]]:
        """The learners with their entries, by the mean error, ascending, at the largest delay."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.learner, []).append(entry)
        return dict(sorted(found.items(), key=lambda item: item[1][-1].result.final_error.mean()))

    @property
    def marks(self) -> dict[str, str]:
        """The footnote sign of each remark."""
        return dict(zip(dict.fromkeys(entry.remark for entry in self.entries if entry.remark), SIGNS, strict=False))

    def marked(self, learner: str) -> str:
        """Return the name of a learner with the sign of its footnote."""
        remark = next(entry.remark for entry in self.entries if entry.learner == learner)
        return learner + self.marks.get(remark, "")

    def to_table(self) -> "pa.Table":
        """Return one row per learner and delay, as a pyarrow table."""
        needs("pyarrow")
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = [{**entry.row(), "setting": assignments(entry.setting)} for entry in self.entries]
        return pa.Table.from_pylist(rows)

    def plot(self, path: str | Path) -> None:
        """Save a figure: the final error against the delay, a line with 95 % bars and a name at its end per learner.

        Learners with a remark have hollow markers, and a footnote.
        """
        needs("matplotlib")
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

        delays, learners, marks, terms = self.delays, self.learners, self.marks, self.terms
        tall = max(3.2, 1.7 * LABEL_HEIGHT * len(learners))  # so that names are near their lines
        size = (3.0 + 1.5 * max(2, len(delays)), tall + 1.6 + 0.16 * len(marks))
        figure = Figure(figsize=size, layout="constrained")
        panel = figure.subplots()
        # The ends of the axis: all means and the most frequent class are inside and, up to 1, all bars.
        means = [mean_of(entry.result.final_error) for entry in self.entries]
        tops = [value + np.nan_to_num(margin) for value, margin in means] + [self.majority_error or 0.0]
        lowest = min((value for value, _ in means if value > 0), default=0.5)
        low, high = lowest / 1.3, min(1.0, max(lowest, *tops)) * 1.15
        ends = np.array([max(low, entries[-1].result.final_error.mean()) for entries in learners.values()])
        heights = spread((np.log(ends / low) / np.log(high / low)).tolist(), LABEL_HEIGHT / tall)
        known = list(dict.fromkeys(entry.learner for entry in self.entries))  # not by rank: a learner keeps its style
        for (name, entries), height in zip(learners.items(), heights, strict=True):
            style = style_of(known.index(name), hollow=bool(entries[0].remark))
            # A little aside, so that bars do not hide each other.
            aside = min(0.03, 0.24 / len(known)) * (known.index(name) - (len(known) - 1) / 2)
            own = [mean_of(entry.result.final_error) for entry in entries]
            x = np.arange(len(entries)) + aside
            y = np.array([max(low, mean.value) for mean in own])  # a log axis has no place for 0
            margins = np.nan_to_num([mean.margin for mean in own])
            below = y - np.maximum(y - margins, low / 10)
            panel.errorbar(x, y, yerr=(below, margins), elinewidth=1.0, capsize=2.0, **style)
            # The name beside the panel, joined to the end of the line.
            thin = {"arrowstyle": "-", "color": style["color"], "linewidth": 0.7, "alpha": 0.7}
            line = thin | {"shrinkA": 0, "shrinkB": 4}
            end = (x[-1], y[-1])
            panel.annotate("", end, (1.04, height), "data", "axes fraction", arrowprops=line, annotation_clip=False)
            panel.plot(1.04, height, transform=panel.transAxes, clip_on=False, **style)
            label = self.marked(name) + " (untuned)" * (not entries[0].setting)
            panel.text(1.065, height, label, transform=panel.transAxes, va="center", fontsize=9)
        if self.majority_error is not None:
            draw_majority(panel, self.majority_error)
            beside = panel.get_yaxis_transform()
            panel.text(0.01, self.majority_error, MAJORITY, transform=beside, va="bottom", fontsize=8, color="0.3")
        panel.set(yscale="log", ylim=(low, high), xlim=(-0.2, len(delays) - 0.8))
        name_errors(panel)
        panel.set_xticks(range(len(delays)), [fill(delay.replace("+", " +"), 20) for delay in delays])
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.set_xlabel("delay in rounds (a number D: uniform on 1, ..., D)")
        panel.set_ylabel("error of the played labels")
        what = f"{terms.runs} runs of {terms.rounds:,} rounds, mean and 95 % interval"
        if terms.runs == 1:
            what = f"a single run of {terms.rounds:,} rounds"
        panel.set_title(f"{self.dataset}: learners, each tuned if not said otherwise\n{what}", fontsize=10)
        notes = [f"{mark} {remark}" for remark, mark in marks.items()]
        figure.supxlabel("\n".join(notes), fontsize=8, x=0.02, ha="left", linespacing=1.4)
        save_figure(figure, path)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move ascending heights in [0, 1] apart by at least a gap, as little as possible, within [0, 1] if they fit.

    Examples
    --------
    >>> [round(height, 3) for height in spread([0.2, 0.5, 0.5, 1.0], 0.1)]
    [0.2, 0.45, 0.55, 1.0]
    """
    steps = gap * np.arange(len(wanted))
    rising = np.maximum.accumulate(np.asarray(wanted) - steps)
    falling = np.minimum.accumulate((np.asarray(wanted) - steps)[::-1])[::-1]
    room = max(0.0, 1.0 - gap * (len(wanted) - 1))
    return [float(height) for height in np.clip((rising + falling) / 2, 0.0, room) + steps]


MOST_WRITTEN_OUT = 1000  # features of sparse rows: with more, standardised rows, which have no zeros, take too long
Learners = Iterable[str | type[Learner]] | None


def compare(
    data: Any,
    learners: Learners = None,
    delays: Iterable[Any] | None = None,
    rounds: int | None = None,
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
    correct_within: int | None = None,
) -> Comparison:
    """Compare learners at several delays, each with its parameters tuned at the same cost.

    For every learner and delay, `budget` settings of the learner's `grid`, rows as they are and with `standardize`,
    are drawn without replacement (all, if there are fewer). They play `tuning_runs` runs of `rounds` rounds with the
    seed `seed` + 1000003, so with other rows, delays and draws than the reported runs. The setting with the lowest mean
    error of the played labels then plays `runs` runs with `seed`: these are reported. What a learner gets does not
    depend on the others. Standardised rows are not tried on sparse rows of more than 1000 features. A learner with an
    empty grid, such as the default one, plays with its defaults, untuned. Raises InvalidInput if no learner can play.

    Parameters
    ----------
    learners : names or classes, optional
        All of `LEARNERS` by default. Those that cannot play on these data are listed with the reason.
    delays : delay models, ints or texts, optional
        See `delaytron.delays`; they are sorted by the mean wait. By default 1, 1000 and 5000; where rows have their own
        delays, these: "recorded".
    rounds : int, optional
        100,000 by default; where rows have their own delays, one for each of them.
    tuning_data : Dataset or (X, y), optional
        Other data of the same kind to tune on, see `load_for_tuning`. By default `data`: then, if they have enough
        rows for `rounds`, the tuning sees the same rows in the same order, with other delays and draws.
    noise, expire_after, on_expiry, correct_within
        The feedback of all learners, see `simulate` and `Learner`.

    Examples
    --------
    >>> import delaytron as dt
    >>> data = dt.datasets.load("synsep", n_samples=1000)
    >>> comparison = compare(data, ["delaytron", "banditron"], delays=[1, 100], rounds=1000, runs=2, budget=3)
    >>> [(entry.learner, entry.delay, entry.tried) for entry in comparison.entries]
    [('delaytron', '1', 3), ('delaytron', '100', 3), ('banditron', '1', 3), ('banditron', '100', 3)]
    """
    dataset = as_dataset(data)
    terms = Terms(usual_rounds(dataset) if rounds is None else rounds, runs, tuning_runs, budget, seed)
    feedback = read_feedback(noise, expire_after, on_expiry, correct_within)
    asked = delays
    if asked is None:
        asked = DELAYS if dataset.delays is None else [OWN]
    return prepare(dataset, learners, asked, terms, tuning_data, feedback).play(n_jobs, progress)


def usual_rounds(data: Dataset) -> int:
    """Return the rounds of a run where none were asked for: rows with their own delays are played once."""
    return ROUNDS if data.delays is None else data.n_rows


def read_feedback(noise: Any, expire_after: Any, on_expiry: Any, correct_within: Any) -> Setting:
    """Check the options of feedback; return those that differ from the defaults, as a part of every setting."""
    read_expiry(expire_after, on_expiry, correct_within)
    rates = {} if noise is None else {"noise": tuple(read_noise(noise))}
    given = {"expire_after": expire_after, "on_expiry": on_expiry, "correct_within": correct_within}
    return rates | {name: value for name, value in given.items() if value != COMMON[name]}


def prepare(
    data: Any, learners: Learners, delays: Iterable[Any], terms: Terms, tuning_data: Any, feedback: Setting
) -> "PreparedComparison":
    """Check everything, draw the settings to try, and find the learners that cannot play; see `compare`."""
    dataset = as_dataset(data)
    tuning = dataset if tuning_data is None else as_dataset(tuning_data)
    if (tuning.n_classes, tuning.n_features) != (dataset.n_classes, dataset.n_features):
        raise InvalidInput.of("tuning_data", f"the classes and features of {dataset!r}", tuning, verb="have")
    asked_delays = [delays] if isinstance(delays, str | int) else list(delays)
    labels = [str(as_delay(d)) if isinstance(d, Delay) or np.ndim(d) else str(d).strip() for d in asked_delays]
    check_distinct("delays", labels)
    ordered = dict(zip(labels, map(as_delay, asked_delays), strict=True))
    waits = {}
    for label, delay in ordered.items():
        labels_for(delay, tuning, terms.rounds)  # raises where it does not fit
        waits[label] = mean_wait(delay, terms.rounds, terms.seed, labels_for(delay, dataset, terms.rounds))
    ordered = {label: ordered[label] for label in sorted(ordered, key=waits.__getitem__)}
    asked = list(LEARNERS if learners is None else [learners] if isinstance(learners, str) else learners)
    classes = [learner_class(learner) for learner in asked]
    check_distinct("learners", [cls.name for cls in classes])
    candidates = {}
    left_out = {}
    for cls in classes:
        settings, problem = _candidates(cls, dataset, terms, feedback)
        if settings:
            candidates[cls] = settings
        else:
            left_out[cls.name] = problem
    if not candidates:
        reasons = "; ".join(map(": ".join, left_out.items()))
        raise InvalidInput(f"no learner can play: {reasons}", ("give other ", ErrorSetting("learners")))
    return PreparedComparison(dataset, tuning, ordered, candidates, left_out, terms)


@dataclass(frozen=True)
class PreparedComparison:
    """A comparison that is checked and ready to be played, with the settings to try."""

    data: Dataset
    tuning_data: Dataset
    delays: Mapping[str, Delay]
    candidates: Mapping[type[Learner], list[Setting]]
    left_out: dict[str, str]
    terms: Terms

    @property
    def n_rounds(self) -> int:
        """The number of rounds of all learners, tuning included."""
        tuned = sum(len(settings) for settings in self.candidates.values() if len(settings) > 1)
        runs = self.terms.tuning_runs * tuned + self.terms.runs * len(self.candidates)
        return self.terms.rounds * runs * len(self.delays)

    @property
    def n_entries(self) -> int:
        """The number of entries, one per learner and delay."""
        return len(self.candidates) * len(self.delays)

    def play(self, n_jobs: int | None = None, progress: Progress | None = None) -> Comparison:
        """Tune and play every learner at every delay."""
        return self.collect(self.entries(n_jobs, progress))

    def collect(self, entries: Iterable[Entry]) -> Comparison:
        """Return the comparison of these entries, which may be those so far."""
        return Comparison(self.data.name, self.terms, tuple(entries), self.left_out)

    def entries(self, n_jobs: int | None, progress: Progress | None) -> Iterator[Entry]:
        """Tune and play learner by learner at every delay; yield each entry when it is finished."""
        for cls, settings in self.candidates.items():
            for data in (self.data, self.tuning_data):  # compiles, so that the times have no compilation in them
                simulate_settings(cls, data, settings, rounds=1, n_jobs=n_jobs)
            for label, delay in self.delays.items():
                begin = perf_counter()
                setting = settings[0]
                if len(settings) > 1:
                    tried = tune(cls, self.tuning_data, settings, delay, self.terms, n_jobs, progress)
                    setting = tried.best().parameters[0]
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
                yield Entry(
                    learner=cls.name,
                    delay=label,
                    setting={name: setting[name] for name in tuned(cls, self.data)},
                    tried=len(settings),
                    result=result,
                    seconds=perf_counter() - middle,
                    tuning_seconds=middle - begin if len(settings) > 1 else 0.0,
                    remark=cls.remark,
                )


def _candidates(cls: Any, data: Dataset, terms: Terms, feedback: Setting) -> tuple[list[Setting], str]:
    """Return the settings that a learner tries; where it can play with none, an empty list and the reason."""
    values = tuned(cls, data)
    grid = [dict(zip(values, chosen, strict=True)) | feedback for chosen in product(*values.values())]
    problems: dict[int, str] = {}
    seen: set[Any] = set()
    chosen: list[int] = []
    for place in stream(terms.seed, "tuning").permutation(len(grid)).tolist():
        if len(chosen) == terms.budget:
            break
        try:
            learner = make_learner(cls, data.n_classes, data.n_features, grid[place])
        except (InvalidInput, MemoryError) as problem:
            problems[place] = " ".join(str(problem).split()) or "not enough memory"
            continue
        if (key := (id(learner.rule), learner.params)) not in seen:  # else the same learner as one before
            seen.add(key)
            chosen.append(place)
    return [grid[place] for place in sorted(chosen)], "" if chosen else problems[min(problems)]


def tuned(cls: type[Learner], data: Dataset) -> dict[str, Sequence[Any]]:
    """Return the values that a comparison tries: the learner's grid, and rows as they are or standardised online.

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
