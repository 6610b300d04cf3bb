"""How much memory a simulation needs on top of its data.

``python benchmarks/footprint.py`` prints the peak that ``simulate`` adds, each case in a process of its own:
60,000 dense rows of 784 features in 10 classes, Delaytron, delays Uniform(5000), 20 runs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

N_ROWS, N_FEATURES, N_CLASSES = 60_000, 784, 10
GAMMA, LONGEST, RUNS = 0.014, 5000, 20
MB = 1e6


def make_data(n_rows=N_ROWS):
    """Class means and noise, made in place: the peak so far must be the data and nothing else."""
    rng = np.random.default_rng(0)
    y = rng.integers(N_CLASSES, size=n_rows)
    means = rng.normal(size=(N_CLASSES, N_FEATURES))
    X = np.empty((n_rows, N_FEATURES))
    for i in range(n_rows):
        rng.standard_normal(out=X[i])
        X[i] += means[y[i]]
    return X, y


def resident():
    """Return the bytes that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak():
    """Return the most bytes that the process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(rounds, n_jobs):
    """Return the bytes added to the data by a first small simulation and by the large one, and its seconds."""
    import delaytron as dt  # noqa: PLC0415 - only the measured process needs it

    def simulate(data, n_rounds, runs):
        delay = dt.delays.Uniform(LONGEST)
        dt.simulate("delaytron", data, delay=delay, rounds=n_rounds, runs=runs, n_jobs=n_jobs, gamma=GAMMA)

    data = make_data()
    start = resident()
    simulate(make_data(20), 100, 2)
    loaded = resident()
    begin = perf_counter()
    simulate(data, rounds, RUNS)
    return {"compiler": loaded - start, "added": peak() - start, "seconds": perf_counter() - begin}


def in_own_process(rounds, n_jobs):
    """Run ``measure`` in a new process; first let another one fill the compiler's cache."""
    command = [sys.executable, __file__, "--measure"]
    subprocess.run([*command, "100", "1"], check=True, capture_output=True)
    done = subprocess.run([*command, str(rounds), str(n_jobs)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", nargs=2, type=int, metavar=("ROUNDS", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    table = Table(title=f"Memory that simulate adds to {8 * N_ROWS * N_FEATURES / MB:.0f} MB of data")
    for name in ("rounds", "runs", "threads", "added, all", "of it Numba", "added by the runs", "seconds"):
        table.add_column(name, justify="right")
    for rounds in (N_ROWS, 1_000_000):
        for n_jobs in sorted({1, os.cpu_count() or 1}):
            found = in_own_process(rounds, n_jobs)
            sizes = [found["added"], found["compiler"], found["added"] - found["compiler"]]
            cells = [f"{rounds:,}", str(RUNS), str(n_jobs), *(f"{size / MB:.0f} MB" for size in sizes)]
            table.add_row(*cells, f"{found['seconds']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
