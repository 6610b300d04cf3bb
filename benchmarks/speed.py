"""How fast the package is, as ratios against plain loops that are measured in the same minutes.

``python benchmarks/speed.py`` prints the tables; ``--quick`` measures less; ``--write`` also writes RESULTS.md.
All on one thread and in float64 unless said otherwise. Contestants take turns and each keeps its best time, and
on one thread it is CPU time that counts: a busy machine then slows all of them or none.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, perf_counter_ns, thread_time
from typing import Any, NamedTuple

import peers  # isort: skip - first, as it sets the threads of NumPy's linear algebra
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import delaytron as dt
from delaytron.rng import stream

GAMMA, LONGEST = 0.014, 1000
DELAY = dt.delays.Uniform(LONGEST)
RESULTS = Path(__file__).with_name("RESULTS.md")


class Case(NamedTuple):
    """One row of the table; the NumPy loops play ``short`` rounds of one run, VW learns ``vw_rows`` rows."""

    name: str
    data: dt.datasets.Dataset
    runs: int
    short: int
    vw_rows: int


class Sheet(NamedTuple):
    """A table on its way to the screen and to the Markdown file."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


# ---------------------------------------------------------------------- the data


def cases(quick):
    """Make the data of each row just before it is measured."""
    less = 5 if quick else 1
    words = dt.datasets.load("synsep", n_samples=100_000 // less, seed=0)
    T = f"T={words.n_rows:,}"
    dense = dt.datasets.Dataset(words.X.toarray(), words.y, "dense", words.class_names)
    yield Case(f"dense, K=9, d=400, {T}, 20 runs", dense, 20, 10_000, 10_000)
    del dense
    yield Case(f"CSR, K=9, d=400, 45 of them non-zero, {T}, 20 runs", words, 20, 10_000, 10_000)
    T = 20_000 // less
    yield Case(f"dense, K=10, d=784, T={T:,}, 20 runs", clouds(T), 20, 5_000, 1_000)
    yield Case(f"CSR, K=53, d=47,236, 75 non-zero, T={T:,}, 5 runs", articles(T), 5, 2_000, 1_000)


def clouds(n_rows, n_features=784, n_classes=10):
    """A mean for each class, and as much noise as leaves the classes apart."""
    rng = np.random.default_rng(1)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.normal(size=(n_classes, n_features))[y]
    X += 2 * rng.normal(size=X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return dt.datasets.as_dataset((X, y), name="clouds")


def articles(n_rows, n_features=47_236, n_classes=53, nonzeros=75):
    """Sparse unit rows as a text gives them: a few frequent words, many rare ones, a third of them topical.

    The words are cut into segments that grow like an exponential, and a row has one word from each.
    """
    rng = np.random.default_rng(2)
    y = rng.integers(n_classes, size=n_rows)
    growth = np.expm1(np.linspace(0, 6, nonzeros + 1)) / np.expm1(6)
    edges = np.arange(nonzeros + 1) + (growth * (n_features - nonzeros)).astype(int)
    place = rng.random((n_rows, nonzeros))
    topical = rng.random((n_classes, nonzeros))[y, ::3]
    place[:, ::3] = (topical + place[:, ::3] / n_classes) % 1
    columns = edges[:-1] + (place * np.diff(edges)).astype(int)
    values = rng.exponential(size=columns.shape)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    indptr = np.arange(n_rows + 1) * nonzeros
    X = sparse.csr_array((values.ravel(), columns.ravel(), indptr), shape=(n_rows, n_features))
    return dt.datasets.as_dataset((X, y), name="articles")


# ---------------------------------------------------------------------- the simulator against the loops


class Stopwatch:
    """Stands in for a compiled kernel and adds up the seconds of CPU time that it takes."""

    def __init__(self, kernel):
        self.kernel, self.seconds = kernel, 0.0

    def __call__(self, *args):
        begin = thread_time()
        self.kernel(*args)
        self.seconds += thread_time() - begin


def simulate(data, runs, n_jobs=1):
    """Play what is measured everywhere here."""
    return dt.simulate("delaytron", data, delay=DELAY, runs=runs, n_jobs=n_jobs, gamma=GAMMA)


def play_ours(data, runs):
    """Return the seconds of the whole call, of the kernel within it, and the mean error."""
    rule = dt.Delaytron.rule
    kernel = rule.play
    rule.__dict__["play"] = watch = Stopwatch(kernel)
    try:
        begin = thread_time()
        result = simulate(data, runs)
        return thread_time() - begin, watch.seconds, result.final_error.mean()
    finally:
        rule.__dict__["play"] = kernel


def make_worlds(T, runs):
    """Return the delays and draws that ``simulate`` with seed 0 plays, for the other contestants."""
    delays = [DELAY.sample(T, stream(0, "delays", run)) for run in range(runs)]
    draws = [stream(0, "exploration", run).random(T) for run in range(runs)]
    return np.stack(delays), np.stack(draws)


def seconds_of(play: Callable[[], Any], clock: Callable[[], float] = thread_time) -> float:
    """Return how long a call takes."""
    begin = clock()
    play()
    return clock() - begin


def measure(case, repeats):
    """Return the best microseconds per round and run of every contestant, and the errors of ours and of C."""
    data, n = case.data, min(case.short, case.data.n_rows)
    T, K = data.n_rows, data.n_classes
    delays, draws = make_worlds(T, case.runs)
    c_loop = peers.c_sparse if data.sparse else peers.c_dense
    X, y, lag, u = data.X[:n], data.y[:n], delays[0, :n], draws[0, :n]
    numpy_loops = {
        "tuned": partial(peers.tuned, X, y, lag, u, K, GAMMA),
        "preallocated": partial(peers.preallocated, X, y, lag, u, K, GAMMA),
        "naive": partial(peers.naive, X, y, lag, K, GAMMA, 0),
    }
    times = {name: [] for name in ("ours", "kernel", "C", *numpy_loops, "vw")}
    play_ours(data, runs=1)
    for turn in range(repeats):
        whole, kernel, error = play_ours(data, case.runs)
        c = c_loop(data.X, data.y, delays, draws, K, GAMMA, keep=False)
        for name, seconds in (("ours", whole), ("kernel", kernel), ("C", c.seconds)):
            times[name].append(seconds / (T * case.runs))
        for name, play in numpy_loops.items():
            times[name].append(seconds_of(play) / n)
        if turn < 3:
            rows = min(case.vw_rows, T)
            times["vw"].append(peers.vowpal_learn(data.X[:rows], data.y[:rows], K) / rows)
    return {name: 1e6 * min(column) for name, column in times.items()}, (error, c.mistakes.mean() / T)


def simulator(quick):
    """Measure every case against every loop."""
    rows = []
    for case in cases(quick):
        best, (ours_error, c_error) = measure(case, 3 if quick else 7)
        if abs(ours_error - c_error) > 0.01:
            raise SystemExit(f"{case.name}: our error is {ours_error:.4f}, that of the C loop {c_error:.4f}")
        others = [f"{best[k]:.3g} ({best[k] / best['ours']:.3g}x)" for k in ("tuned", "preallocated", "naive", "vw")]
        share = f"{best['C']:.3f} ({best['C'] / best['ours']:.0%} / {best['C'] / best['kernel']:.0%})"
        rows.append([case.name, f"{best['ours']:.3f}", f"{best['kernel']:.3f}", share, *others])
    notes = [
        "Microseconds per round and run; in brackets how many times slower than `simulate`. "
        f"Delaytron, gamma={GAMMA}, delays Uniform({LONGEST}), one thread, float64, CPU time, best of several turns.",
        "simulate: the whole call after a warm-up, on a ready Dataset; it draws its delays and its randomness and "
        "sorts the arrivals. Kernel: the compiled loop within it.",
        "C: limit.c, the loop alone, given its delays, draws and arrival order. In brackets our speed as a share "
        "of its speed: of the whole call, and of the kernel.",
        "NumPy loops play 2,000 to 10,000 rounds of one run, since their time per round is constant. Tuned: the "
        "best we could do; preallocated: one uniform draw and no new arrays; naive: from the pseudo-code.",
        "VW: Workspace.learn of Vowpal Wabbit's --cbify on 1,000 to 10,000 parsed examples without delays; it is "
        "another learner, in single precision, and reads the non-zeros only.",
    ]
    numpy_names = ["tuned NumPy", "preallocated NumPy", "naive NumPy"]
    header = ["data", "simulate", "its kernel", "C loop", *numpy_names, "VW learn"]
    return Sheet("Simulating", header, rows, notes)


def threads(quick):
    """Measure two threads against one."""
    rows = []
    for name, data in two_forms(20_000 if quick else 100_000):
        simulate(data, 2, n_jobs=2)
        turns = [
            [seconds_of(partial(simulate, data, 20, n), perf_counter) for n in (1, 2)] for _ in range(3 if quick else 9)
        ]
        one, two = (min(column) for column in zip(*turns, strict=True))
        rows.append([name, f"{one:.3f} s", f"{two:.3f} s", f"{one / two:.2f}x"])
    header = ["SynSep, 20 runs", "one thread", "two threads", "gain"]
    return Sheet(
        "Threads", header, rows, ["`simulate` with n_jobs=1 and n_jobs=2, in turns, best of each, by the clock."]
    )


def two_forms(n_rows):
    """SynSep as CSR, then as a dense array."""
    words = dt.datasets.load("synsep", n_samples=n_rows, seed=0)
    yield "CSR", words
    yield "dense", dt.datasets.Dataset(words.X.toarray(), words.y, "dense", words.class_names)


# ---------------------------------------------------------------------- one decision at a time


def online(quick):
    """Measure the live object: one decide and one feedback."""
    pairs = 5_000 if quick else 20_000
    rows = []
    for name, late in (("feedback at once", 0), ("feedback 100 rounds late", 100)):
        turns = [pair_times(pairs, late) for _ in range(1 if quick else 3)]
        middle, slow = min((statistics.median(turn), float(np.quantile(turn, 0.99))) for turn in turns)
        rows.append([name, f"{middle / 1e3:.1f} us", f"{slow / 1e3:.1f} us"])
    header = ["K=10, d=64", "median", "99 %"]
    return Sheet("Online", header, rows, [f"One decide and one feedback of Delaytron, {pairs:,} pairs."])


def pair_times(pairs, late):
    """Return the nanoseconds of every pair of a decision and an answer, ``late`` decisions afterwards."""
    data = clouds(pairs + late, n_features=64)
    truth = data.y.tolist()
    learner = dt.Delaytron(data.n_classes, data.n_features, gamma=GAMMA, seed=0)
    waiting, times = deque(), []
    for x, y in zip(data.X, truth, strict=True):
        begin = perf_counter_ns()
        decision = learner.decide(x)
        waiting.append((decision.id, decision.label == y))
        if len(waiting) > late:
            learner.feedback(*waiting.popleft())
            times.append(perf_counter_ns() - begin)
    return times


# ---------------------------------------------------------------------- from nothing

IMPORT = """
import sys, time
begin = time.perf_counter()
import delaytron
print(time.perf_counter() - begin)
if "numba" in sys.modules: sys.exit("import delaytron imports numba")
"""

REPLAY = """
import time
begin = time.perf_counter()
import delaytron as dt
import numpy as np
learner = dt.Delaytron(n_classes=3, n_features=8, gamma=0.1, seed=0)
dt.replay(learner, np.ones((20, 8)), np.arange(20) % 3, np.ones(20, int), np.linspace(0, 0.9, 20))
print(time.perf_counter() - begin)
"""

ONLINE = """
import time
begin = time.perf_counter()
import delaytron as dt
learner = dt.Delaytron(n_classes=3, n_features=8, gamma=0.1, seed=0)
learner.feedback(learner.decide([1.0] * 8).id, True)
learner.decide([1.0] * 8)
print(time.perf_counter() - begin)
"""


def fresh(script, cache_folder):
    """Run a script in a new process with its own compiler cache; return the seconds that it prints."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["NUMBA_CACHE_DIR"] = str(cache_folder)
    done = subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def start_up(quick):
    """Measure new processes, with an empty compiler cache and with the one they left behind."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="delaytron-cache-") as folder:
        fresh(IMPORT, folder)  # leaves the byte code behind
        rows.append(["import delaytron", "", f"{min(fresh(IMPORT, folder) for _ in range(5)):.3f} s"])
        for name, script in (("import and a first replay", REPLAY), ("import and two first decisions", ONLINE)):
            colds = []
            for turn in range(1 if quick else 2):
                cache = Path(folder) / f"{name}-{turn}"
                colds.append(fresh(script, cache))
            warm = min(fresh(script, cache) for _ in range(3))
            rows.append([name, f"{min(colds):.2f} s", f"{warm:.3f} s"])
    notes = ["Each in a new process, import included. Cold: nothing compiled yet; warm: best of three after that."]
    return Sheet("Starting", ["", "cold", "warm"], rows, notes)


# ---------------------------------------------------------------------- showing it


def machine():
    """Name what was measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{cpu} ({os.cpu_count()} cores), {platform.system()}, Python {platform.python_version()}, {versions}"


def show(console, sheet):
    """Print a table and its notes."""
    table = Table(title=sheet.title, caption="\n".join(sheet.notes), caption_justify="left", title_justify="left")
    for i, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if i else "left")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table, "")


def markdown(sheet):
    """Return the same as Markdown."""
    lines = [f"## {sheet.title}", "", _line(sheet.header), _line([":--", *["--:"] * (len(sheet.header) - 1)])]
    lines += [_line(row) for row in sheet.rows]
    return "\n".join([*lines, "", *(f"* {note}" for note in sheet.notes), ""])


def _line(cells):
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and repeats")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULTS.name}")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(machine(), "", highlight=False)
    sheets = []
    for section in (simulator, threads, online, start_up):
        sheets.append(section(options.quick))
        show(console, sheets[-1])
    if options.write:
        head = ["# Measured speed", "", f"By `python benchmarks/speed.py --write` on {machine()}.", ""]
        RESULTS.write_text("\n".join([*head, *map(markdown, sheets)]))


if __name__ == "__main__":
    main()
