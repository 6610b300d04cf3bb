"""Runs of Vowpal Wabbit's --cbify, without delay, on the rows of our own runs."""

import json
from dataclasses import dataclass
from functools import cache
from time import thread_time
from typing import NamedTuple

from scipy import sparse

import delaytron as dt
from delaytron.datasets.dataset import Scaling
from delaytron.delays import as_delay
from delaytron.experiments.compare import TUNING_SEED_OFFSET, load_for_tuning
from delaytron.rng import stream
from delaytron.simulation.scenarios import SimulationConfig, draw_rows
from vowpal import feature_texts
from vowpal_settings import Setting

SEED = 0  # of the reported runs
BITS = 20  # of VW's table of weights: collisions are rare with 5 regressions of 512 features and 10 classes


@dataclass(frozen=True)
class Run:
    """One run of one setting."""

    data: str
    setting: Setting
    rounds: int
    number: int
    tuning: bool

    @property
    def key(self):
        """All of it, as it is stored."""
        seed = SEED + TUNING_SEED_OFFSET * self.tuning
        texts = {"data": self.data, "scaling": self.setting.form.scaling, "options": self.setting.options}
        return {**texts, "rounds": self.rounds, "seed": seed, "run": self.number}


class Outcome(NamedTuple):
    """The outcome of a run: the share of played labels that were wrong, and the CPU time of learning."""

    error: float
    seconds: float


class Texts:
    """The rows of a data set as VW reads them, made when they are first needed."""

    def __init__(self, data, scaling):
        self.X = scaled(data.X, scaling)
        self.y = data.y
        self.n_classes = data.n_classes
        self._made = {}

    def of(self, rows):
        """Return the texts of these rows, by row."""
        missing = [row for row in rows if row not in self._made]
        self._made.update(zip(missing, feature_texts(self.X[missing]), strict=True))
        return self._made


def scaled(X, scaling):
    """Scale by the moments of the whole data set, which no learner that plays online has: an advantage for VW."""
    X = X.toarray() if sparse.issparse(X) and "standard" in scaling else X  # so that sparse rows are centred too
    for kind in scaling.split(", "):
        if kind != "raw":
            step = Scaling(kind)
            step.partial_fit(X)
            X = step.apply(X)
    return X


@cache
def load(name, tuning):
    """Return the data; for the tuning drawn again, where they are drawn."""
    drawn = load_for_tuning(name, SEED) if tuning else None
    return dt.datasets.load(name) if drawn is None else drawn


@cache
def load_texts(name, tuning, scaling):
    return Texts(load(name, tuning), scaling)


def forget_data():
    """Free memory: texts of all rows are large."""
    load.cache_clear()
    load_texts.cache_clear()


def rows_of(run, n_rows):
    """Return the rows that a run shows.

    Those of a reported run are the rows of the same run of `dt.simulate`. Tuning orders are drawn in any case: in file
    order they would all be the same.
    """
    seed = run.key["seed"]
    if run.tuning:
        return stream(seed, "rows", run.number).integers(n_rows, size=run.rounds)
    config = SimulationConfig(n_rows, run.rounds, as_delay(1), seed, "replacement")
    return draw_rows(config, run.number)


def play(run):
    """Play one run.

    cbify draws by a seed of its own whatever --random_seed says (VW 9.11.9). So that runs over the same rows differ,
    each numbers its classes by itself.
    """
    from vowpalwabbit import Workspace  # noqa: PLC0415 - only to play; the tests go without

    texts = load_texts(run.data, run.tuning and dt.datasets.is_drawn(run.data), run.setting.form.scaling)
    rows = rows_of(run, texts.y.size)
    numbers = 1 + stream(run.key["seed"], "classes", run.number).permutation(texts.n_classes)
    labels = numbers[texts.y]
    # See `vowpal.learn_seconds` on --hash.
    options = f"--cbify {texts.n_classes} {run.setting.options} --hash all -b {BITS} --random_seed {run.number} --quiet"
    with Workspace(options) as vw:
        return _learn(vw, texts, rows.tolist(), labels)


def _learn(vw, texts, rows, labels):
    """Learn from each row in its turn. An example is parsed once, and learned whenever its row is shown."""
    shown = sorted(set(rows))
    lines = texts.of(shown)
    examples = {row: vw.parse(f"{labels[row]} | {lines[row]}") for row in shown}
    correct = labels[rows].tolist()
    begin = thread_time()
    wrong = 0
    for row, label in zip(rows, correct, strict=True):
        example = examples[row]
        vw.learn(example)
        wrong += example.get_multiclass_prediction() != label
    seconds = thread_time() - begin
    for example in examples.values():
        vw.finish_example(example)
    return Outcome(wrong / len(rows), seconds)


class Store:
    """Finished runs, a line of JSON each, so that an interrupted contest resumes."""

    def __init__(self, path):
        self.path = path
        self._outcomes = dict(_read(path)) if path.exists() else {}

    def get(self, run):
        """Return the outcome of a run; None if it was not played yet."""
        return self._outcomes.get(_named(run.key))

    def put(self, run, outcome):
        """Write it to the file at once."""
        self._outcomes[_named(run.key)] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({**run.key, **outcome._asdict()}) + "\n")


def _named(key):
    return json.dumps(key, sort_keys=True)


def _read(path):
    """Yield the runs of a file; leave out a truncated line, and end it."""
    text = path.read_text()
    if text and not text.endswith("\n"):
        with path.open("a") as file:
            file.write("\n")
    for line in text.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        outcome = Outcome(values.pop("error"), values.pop("seconds"))
        yield _named(values), outcome
