"""How fast the package is, as ratios against plain loops that are measured in the same minutes.

``python benchmarks/speed.py`` prints the tables; ``--quick`` measures less, ``--full`` also what takes long, and
``--write`` also puts the tables into RESULTS.md.
All on one thread and in float64 unless said otherwise. Contestants take turns and each keeps its best time, and
on one thread it is CPU time that counts: a busy machine then slows all of them or none.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy_loops  # isort: skip - first, as it sets the threads of NumPy's linear algebra
import numpy as np
from rich.console import Console

import delaytron as dt
from c_loop import c_dense, c_sparse
from data import GAMMA, cases, two_forms
from delaytron.rng import stream
from latency import online, start_up
from model import durable, model_online, opening
from report import Sheet, machine, markdown, show
from vowpal import learn_seconds

LONGEST = 1000
DELAY = dt.delays.Uniform(LONGEST)
RESULTS = Path(__file__).with_name("RESULTS.md")


class Stopwatch:
    """Wraps a compiled kernel and adds up the seconds of CPU time that it takes."""

    def __init__(self, kernel):
        self.kernel, self.seconds = kernel, 0.0

    def __call__(self, *args):
        begin = thread_time()
        self.kernel(*args)
        self.seconds += thread_time() - begin


def simulate(data, runs, n_jobs=1):
    """Play what is measured everywhere here."""
    return dt.simulate("delaytron", data, delay=DELAY, runs=runs, n_jobs=n_jobs, gamma=GAMMA)


def simulate_default(data, runs):
    """Play the default learner on the same rows with the same delays."""
    return dt.simulate(dt.DEFAULT_LEARNER, data, delay=DELAY, runs=runs, n_jobs=1)


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


def make_scenarios(T, runs):
    """Return the delays and draws that ``simulate`` with seed 0 plays, for the other contestants."""
    delays = [DELAY.sample(T, stream(0, "delays", run)) for run in range(runs)]
    draws = [stream(0, "exploration", run).random(T) for run in range(runs)]
    return np.stack(delays), np.stack(draws)


def seconds_of(play: Callable[[], Any], clock: Callable[[], float] = thread_time) -> float:
    """Return how long a call takes."""
    begin = clock()
    play()
    return clock() - begin


def best_in_turns(plays: list[Callable[[], Any]], turns: int, clock: Callable[[], float] = thread_time) -> list[float]:
    """Return the best seconds of every call; they take turns."""
    seconds = [[seconds_of(play, clock) for play in plays] for _ in range(turns)]
    return [min(column) for column in zip(*seconds, strict=True)]


def measure(case, repeats):
    """Return the best microseconds per round and run of every contestant, and the errors of ours and of C."""
    data, n = case.data, min(case.short, case.data.n_rows)
    T, K = data.n_rows, data.n_classes
    delays, draws = make_scenarios(T, case.runs)
    play_c = c_sparse if data.sparse else c_dense
    X, y, lag, u = data.X[:n], data.y[:n], delays[0, :n], draws[0, :n]
    loops = {
        "tuned": partial(numpy_loops.tuned, X, y, lag, u, K, GAMMA),
        "preallocated": partial(numpy_loops.preallocated, X, y, lag, u, K, GAMMA),
        "naive": partial(numpy_loops.naive, X, y, lag, K, GAMMA, 0),
    }
    times = {name: [] for name in ("ours", "kernel", "C", *loops, "vw")}
    play_ours(data, runs=1)
    for turn in range(repeats):
        whole, kernel, error = play_ours(data, case.runs)
        c = play_c(data.X, data.y, delays, draws, K, GAMMA, keep=False)
        for name, seconds in (("ours", whole), ("kernel", kernel), ("C", c.seconds)):
            times[name].append(seconds / (T * case.runs))
        for name, play in loops.items():
            times[name].append(seconds_of(play) / n)
        if turn < 3:
            rows = min(case.vw_rows, T)
            times["vw"].append(learn_seconds(data.X[:rows], data.y[:rows], K) / rows)
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


def default_learner(quick):
    """Measure the default learner against Delaytron."""
    rows = []
    for case in cases(quick):
        simulate(case.data, runs=1)
        simulate_default(case.data, runs=1)
        plays = [partial(play, case.data, case.runs) for play in (simulate, simulate_default)]
        rounds = case.data.n_rows * case.runs
        paper, ours = (1e6 * best / rounds for best in best_in_turns(plays, 2 if quick else 5))
        rows.append([case.name, f"{paper:.3f}", f"{ours:.3f}", f"{ours / paper:.2f}x"])
    notes = [
        "Microseconds per round and run of `simulate`, as above, in turns, best of each. "
        f"`{dt.DEFAULT_LEARNER}` plays as it is, without parameters."
    ]
    return Sheet("The default learner", ["data", "`delaytron`", f"`{dt.DEFAULT_LEARNER}`", "ratio"], rows, notes)


def threads(quick):
    """Measure two threads against one."""
    rows = []
    for name, data in two_forms(20_000 if quick else 100_000):
        simulate(data, 2, n_jobs=2)
        plays = [partial(simulate, data, 20, n) for n in (1, 2)]
        one, two = best_in_turns(plays, 3 if quick else 9, perf_counter)
        rows.append([name, f"{one:.3f} s", f"{two:.3f} s", f"{one / two:.2f}x"])
    header = ["SynSep, 20 runs", "one thread", "two threads", "gain"]
    return Sheet(
        "Threads", header, rows, ["`simulate` with n_jobs=1 and n_jobs=2, in turns, best of each, by the clock."]
    )


def updated(page, sheets):
    """Return the page of results with these sheets; sections of other scripts stay."""
    parts = [part.strip() for part in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]]
    sections = {part.partition("\n")[0]: part for part in parts}
    sections |= {f"## {sheet.title}": markdown(sheet).strip() for sheet in sheets}
    head = f"# Measured speed\n\nBy `python benchmarks/speed.py --write` on {machine()}."
    return "\n\n".join([head, *sections.values()]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and repeats")
    parser.add_argument("--full", action="store_true", help="also open a journal of a million decisions")
    parser.add_argument("--write", action="store_true", help=f"also write the tables to {RESULTS.name}")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(machine(), "", highlight=False)
    sheets = []
    sections = [simulator, default_learner, threads, online, model_online, durable, start_up]
    for section in [*sections, opening] if options.full else sections:
        sheets.append(section(options.quick))
        show(console, sheets[-1])
    if options.write:
        RESULTS.write_text(updated(RESULTS.read_text(), sheets))


if __name__ == "__main__":
    main()
