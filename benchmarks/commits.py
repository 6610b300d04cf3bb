"""Two versions of the package side by side in one run: python benchmarks/commits.py OLD/src NEW/src.

Each version has a process of its own; they take turns at every task, so that both see the same noise of the machine. A
ratio is new over old in CPU time, the median over the turns with the quartiles; above 1 the new one is slower.
"""

import json
import subprocess
import sys

import numpy as np

TURNS = 15
WORKER = """
import json, sys, time
import numpy as np
from scipy.sparse import random as random_csr
import delaytron as dt

rng = np.random.default_rng(0)
y = rng.integers(9, size=4000)
DENSE = (rng.normal(size=(4000, 400)), y)
SPARSE = (random_csr(4000, 400, 0.11, format="csr", rng=rng), y)
SMALL = rng.normal(size=(400, 64))

def simulated(name, data, **options):
    dt.simulate(name, data, delay=1000, rounds=200_000, runs=1, n_jobs=1, **options)

def online(**options):
    learner = dt.Delaytron(10, 64, seed=0, **options)
    for row in SMALL:
        learner.feedback(learner.decide(row).id, correct=True)

TASKS = {
    "delaytron, dense": lambda: simulated("delaytron", DENSE),
    "delaytron, CSR": lambda: simulated("delaytron", SPARSE),
    "delaytron, CSR, noise and expiry": lambda: simulated(
        "delaytron", SPARSE, noise=(0.1, 0.1), expire_after=500, on_expiry="wrong"),
    "adaptive_delaytron, CSR": lambda: simulated("adaptive_delaytron", SPARSE),
    "soba, CSR": lambda: simulated("soba", SPARSE, matrix="diagonal"),
    "ova_logistic, CSR": lambda: simulated("ova_logistic", SPARSE),
    "newtron, dense": lambda: simulated("newtron", DENSE, matrix="diagonal"),
    "pab, dense": lambda: simulated("pab", DENSE),
    "online, one decision and answer": online,
    "online, averaged": lambda: online(average=True),
}
for task in TASKS.values():
    task()  # compiles
print(json.dumps(list(TASKS)), flush=True)
for line in sys.stdin:
    start = time.process_time()
    TASKS[json.loads(line)]()
    print(time.process_time() - start, flush=True)
"""


class Version:
    """A process that runs one version."""

    def __init__(self, source: str) -> None:
        command = [sys.executable, "-c", WORKER]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={"PYTHONPATH": source, "HOME": "/tmp"}, **pipes)  # noqa: S108
        self.tasks = json.loads(self.process.stdout.readline())

    def time(self, task: str) -> float:
        print(json.dumps(task), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    old, new = (Version(source) for source in sys.argv[1:3])
    print(f"{'task':40} {'old ms':>8} {'new ms':>8} {'new/old':>8}  quartiles")
    for task in old.tasks:
        times = np.array([[old.time(task), new.time(task)] for _ in range(TURNS)])
        ratios = times[:, 1] / times[:, 0]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        old_ms, new_ms = 1000 * np.median(times, axis=0)
        print(f"{task:40} {old_ms:8.1f} {new_ms:8.1f} {middle:8.3f}  {low:.3f} .. {high:.3f}")


if __name__ == "__main__":
    main()
