"""Variants of the default learner: each in a copy of the sources with a few changes, played in a process of its own.

All data sets are played as dense rows, which for this learner is the same model as on sparse ones.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from shutil import copytree, ignore_patterns, which
from tempfile import TemporaryDirectory

import numpy as np
from scipy import sparse

ROOT = Path(__file__).parents[1]
PATCHES = Path(__file__).with_name("variants")
LEARNER = "bandit_logit"
FEATURE_SEED = 7  # of the random features


@dataclass(frozen=True)
class Variant:
    """A name, and what is changed: lines of the sources (file, old, new), a patch, parameters, or the rows."""

    group: str
    name: str
    edits: tuple[tuple[str, str, str], ...] = ()
    patch: str = ""
    parameters: dict = field(default_factory=dict)
    random_features: int = 0
    bandwidth: float = 1.0  # of the random features, in root mean square distances between rows
    sample: int = 0  # of how many rows random features know mean and deviation; all if 0


@dataclass(frozen=True)
class Task:
    """Some runs of a variant on a data set."""

    data: str
    delay: str
    rounds: int
    seed: int
    runs: int


class Store:
    """The errors of finished tasks, a line of JSON each, so that an interrupted comparison resumes."""

    def __init__(self, path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._errors = dict(filter(None, map(_entry, lines)))

    def get(self, name, digest, task):
        """Return the errors of the runs of a task; None if it was not played yet, or with other sources."""
        return self._errors.get(_key({"variant": name, "sources": digest, **asdict(task)}))

    def put(self, name, digest, task, errors):
        """Write them to the file at once."""
        key = {"variant": name, "sources": digest, **asdict(task)}
        self._errors[_key(key)] = errors
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("\n" + json.dumps({**key, "errors": errors}))


def _key(values):
    return json.dumps(values, sort_keys=True)


def _entry(line):
    """Return what a line says; None for a truncated or empty one."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return _key({name: value for name, value in values.items() if name != "errors"}), values["errors"]


def copy_sources(variant, folder):
    """Copy the package, change what the variant changes, and return a digest of all of it."""
    target = Path(folder) / "src"
    copytree(ROOT / "src", target, ignore=ignore_patterns("__pycache__", "*.egg-info"))
    if variant.patch:
        subprocess.run(
            [which("git"), "apply", PATCHES / f"{variant.patch}.patch"], cwd=target / "delaytron", check=True
        )
    for name, old, new in variant.edits:
        replace_once(target / "delaytron" / name, old, new)
    rest = [variant.parameters, variant.random_features, variant.bandwidth]
    rest += [variant.sample] if variant.sample else []
    files = [path for part in ("learners", "kernels") for path in sorted((target / "delaytron" / part).glob("*.py"))]
    return sha256(b"".join([json.dumps(rest).encode(), *(path.read_bytes() for path in files)])).hexdigest()[:12]


def replace_once(path, old, new):
    """Replace a text that must occur in the file exactly once."""
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{path.name} has {text.count(old)} places, not one, with {old!r}")
    path.write_text(text.replace(old, new))


def play_variant(variant, tasks, store, only_stored=False):
    """Play what is not stored, unless nothing is to be played; return the errors of all tasks, None if unknown."""
    with TemporaryDirectory() as folder:
        digest = copy_sources(variant, folder)
        missing = [task for task in tasks if store.get(variant.name, digest, task) is None]
        if missing and not only_stored:
            _play_in_process(variant, digest, missing, store, folder)
        return {task: store.get(variant.name, digest, task) for task in tasks}


def _play_in_process(variant, digest, tasks, store, folder):
    """Play tasks with the sources in the folder, which are compiled on their own unless nothing in them is changed."""
    paths = {"PYTHONPATH": str(Path(folder) / "src"), "NUMBA_CACHE_DIR": str(Path(folder) / "compiled")}
    if not variant.edits and not variant.patch:
        paths = {"PYTHONPATH": str(ROOT / "src")}
    order = json.dumps({"variant": asdict(variant), "tasks": [asdict(task) for task in tasks]})
    command = [sys.executable, __file__, order]
    with subprocess.Popen(command, env={**os.environ, **paths}, stdout=subprocess.PIPE, text=True) as process:
        for task, line in zip(tasks, process.stdout, strict=True):
            store.put(variant.name, digest, task, json.loads(line))
    if process.returncode:
        raise RuntimeError(f"{variant.name} failed")


def play_order(order):
    """Play the tasks that another process asks for; print a line of errors for each."""
    import delaytron as dt  # noqa: PLC0415 - the copy, which the parent has put on the path

    variant, data, loaded = order["variant"], None, ""
    for task in order["tasks"]:
        if task["data"] != loaded:
            data = None  # frees memory
            data, loaded = rows_for(dt.datasets.load(task["data"]), variant), task["data"]
        options = {key: task[key] for key in ("delay", "rounds", "seed", "runs")}
        result = dt.simulate(LEARNER, data, **options, n_jobs=1, **variant["parameters"])
        print(json.dumps(result.final_error.tolist()), flush=True)


def rows_for(data, variant):
    """Return the rows, dense, and the labels."""
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    if variant["random_features"]:
        X = np.hstack([X, random_cosines(X, variant["random_features"], variant["bandwidth"], variant["sample"])])
    return X, data.y


def random_cosines(X, m, bandwidth, sample=0):
    """Return random Fourier features of a Gaussian kernel of the rows, standardised by all or a sample of them."""
    rng = np.random.default_rng(FEATURE_SEED)
    known = X[rng.choice(X.shape[0], sample)] if sample else X
    deviation = known.std(axis=0)
    varies = deviation > 0
    Z = np.clip((X[:, varies] - known[:, varies].mean(axis=0)) / deviation[varies], -5, 5)
    directions = rng.normal(size=(Z.shape[1], m)) / (bandwidth * np.sqrt(2 * Z.shape[1]))
    return np.cos(Z @ directions + rng.uniform(0, 2 * np.pi, m))


if __name__ == "__main__":
    play_order(json.loads(sys.argv[1]))
