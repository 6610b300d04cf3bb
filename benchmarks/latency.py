"""How long one decision takes, and how long the first one takes in a new process: two tables of ``speed.py``."""

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from time import perf_counter_ns

import delaytron as dt
from data import GAMMA, clouds
from report import Sheet, quantiles

# ---------------------------------------------------------------------- one decision at a time


def online(quick):
    """Measure the live object: one decide and one feedback of Delaytron and of the default learner."""
    pairs = 5_000 if quick else 20_000
    rows = []
    for name, late in (("feedback at once", 0), ("feedback 100 rounds late", 100)):
        turns = [
            [quantiles(pair_times(make, pairs, late)) for make in LEARNERS.values()] for _ in range(1 if quick else 3)
        ]
        for learner, measured in zip(LEARNERS, zip(*turns, strict=True), strict=True):
            middle, slow = min(measured)
            rows.append([f"{learner}, {name}", f"{middle / 1e3:.1f} us", f"{slow / 1e3:.1f} us"])
    header = ["K=10, d=64", "median", "99 %"]
    return Sheet("Online", header, rows, [f"One decide and one feedback, {pairs:,} pairs, in turns, best of each."])


def delaytron(data):
    """Return the paper's learner."""
    return dt.Delaytron(data.n_classes, data.n_features, gamma=GAMMA, seed=0)


def default_learner(data):
    """Return the learner that people get."""
    return dt.LEARNERS[dt.DEFAULT_LEARNER](data.n_classes, data.n_features, seed=0)


LEARNERS = {"`delaytron`": delaytron, f"`{dt.DEFAULT_LEARNER}`": default_learner}


def pair_times(make, pairs, late):
    """Return the nanoseconds of every pair of a decision and an answer, ``late`` decisions afterwards."""
    data = clouds(pairs + late, n_features=64)
    truth = data.y.tolist()
    learner = make(data)
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
