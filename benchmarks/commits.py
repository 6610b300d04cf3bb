"""Two versions of the package side by side in one run: python benchmarks/commits.py OLD/src NEW/src.

Each version has a process of its own; they take turns at every task, so that both see the same noise of the machine. A
ratio is new over old, the median over the turns with the quartiles; above 1 the new one is slower. Times are CPU time;
those of durable tasks, which wait for the disk, are wall time. The bare SQLite tasks write rows of the size of a fact
and of an id without this package: a measure of what the disk and SQLite alone take, the same in both versions.
"""

import json
import subprocess
import sys
import tempfile

import numpy as np

TURNS = 15
FOLDER = tempfile.mkdtemp(prefix="delaytron-commits-")  # on the disk of the temporary files
WORKER = """
import json, os, sqlite3, sys, tempfile, time
from threading import Thread
import numpy as np
from scipy.sparse import random as random_csr
import delaytron as dt

rng = np.random.default_rng(0)
y = rng.integers(9, size=4000)
DENSE = (rng.normal(size=(4000, 400)), y)
SPARSE = (random_csr(4000, 400, 0.11, format="csr", rng=rng), y)
ROWS = rng.normal(size=(400, 64))
SMALL = list(ROWS)

def simulated(name, data, **options):
    dt.simulate(name, data, delay=1000, rounds=600_000, runs=1, n_jobs=1, **options)

def online(learner, rows, times=1):
    for row in rows * times:
        learner.feedback(learner.decide(row).id, correct=True)

LEARNER = dt.Delaytron(10, 64, seed=0)
MODEL = dt.Model(["small", "medium", "large"], seed=0)
VECTORS = dt.Model(["small", "medium", "large"], features=64, learner="delaytron", seed=0)
REQUESTS = [{"prompt": "Translate this letter please", "tenant": "acme", "tokens": i} for i in range(400)]

FOLDER = tempfile.mkdtemp(dir=os.environ["JOURNALS"])
SHAPE = dict(learner="delaytron", features=64, seed=0)
DURABLE = dt.Model(["small", "medium", "large"], journal=FOLDER + "/full.db", **SHAPE)
BATCHED = dt.Model(["small", "medium", "large"], journal=FOLDER + "/batched.db", durability="batched", **SHAPE)
MANY = dt.Model(["small", "medium", "large"], journal=FOLDER + "/many.db", **SHAPE)
BARE = sqlite3.connect(FOLDER + "/bare.db", isolation_level=None)
BARE.execute("PRAGMA journal_mode = WAL")
BARE.execute("PRAGMA synchronous = FULL")
BARE.execute("CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind INTEGER, id TEXT, wall INTEGER, clock INTEGER, body)")
BARE.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, status INTEGER, value REAL, seq INTEGER) WITHOUT ROWID")

def in_threads(count, each):
    threads = [Thread(target=online, args=(DURABLE, SMALL[:each])) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def bare(transactions, each):
    made = 0
    for _ in range(transactions):
        BARE.execute("BEGIN IMMEDIATE")
        for _ in range(each):
            name = f"{time.time_ns():x}{made:016x}"
            made += 1
            seq = BARE.execute("INSERT INTO facts VALUES (NULL, 1, ?, 0, 0, ?)", (name, SMALL[0].tobytes())).lastrowid
            BARE.execute("INSERT INTO ids VALUES (?, 0, NULL, ?)", (name, seq))
        BARE.execute("COMMIT")

TASKS = {
    "durable: 200 decisions, one thread": lambda: [DURABLE.decide(row) for row in SMALL[:200]],
    "durable: bare SQLite, 200 commits of one": lambda: bare(200, 1),
    "durable: 32 threads, 20 decisions and answers each": lambda: in_threads(32, 20),
    "durable: bare SQLite, 40 commits of 32": lambda: bare(40, 32),
    "durable: 400 decisions and answers, batched": lambda: online(BATCHED, SMALL),
    "durable: 400 decisions, decide_many": lambda: MANY.decide_many(ROWS),
    "durable: bare SQLite, one commit of 400": lambda: bare(1, 400),
    "delaytron, dense": lambda: simulated("delaytron", DENSE),
    "delaytron, CSR": lambda: simulated("delaytron", SPARSE),
    "delaytron, CSR, noise and expiry": lambda: simulated(
        "delaytron", SPARSE, noise=(0.1, 0.1), expire_after=500, on_expiry="wrong"),
    "adaptive_delaytron, CSR": lambda: simulated("adaptive_delaytron", SPARSE),
    "soba, CSR": lambda: simulated("soba", SPARSE, matrix="diagonal"),
    "ova_logistic, CSR": lambda: simulated("ova_logistic", SPARSE),
    "newtron, dense": lambda: simulated("newtron", DENSE, matrix="diagonal"),
    "pab, dense": lambda: simulated("pab", DENSE),
    "4,000 decisions and answers, learner": lambda: online(LEARNER, SMALL, 10),
    "4,000 decisions and answers, dt.Model, named features": lambda: online(MODEL, REQUESTS, 10),
    "4,000 decisions and answers, dt.Model, vectors": lambda: online(VECTORS, SMALL, 10),
}
for task in TASKS.values():
    task()  # compiles
print(json.dumps(list(TASKS)), flush=True)
for line in sys.stdin:
    name = json.loads(line)
    clock = time.perf_counter if name.startswith("durable") else time.process_time
    start = clock()
    TASKS[name]()
    print(clock() - start, flush=True)
"""


class Version:
    """A process that runs one version."""

    def __init__(self, source: str) -> None:
        command = [sys.executable, "-c", WORKER]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        places = {"HOME": tempfile.gettempdir(), "JOURNALS": FOLDER}
        self.process = subprocess.Popen(command, env={"PYTHONPATH": source, **places}, **pipes)
        self.tasks = json.loads(self.process.stdout.readline())

    def time(self, task: str) -> float:
        print(json.dumps(task), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    old, new = (Version(source) for source in sys.argv[1:3])
    print(f"{'task':52} {'old ms':>8} {'new ms':>8} {'new/old':>8}  quartiles")
    for task in old.tasks:
        times = np.array([[old.time(task), new.time(task)] for _ in range(TURNS)])
        ratios = times[:, 1] / times[:, 0]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        old_ms, new_ms = 1000 * np.median(times, axis=0)
        print(f"{task:52} {old_ms:8.1f} {new_ms:8.1f} {middle:8.3f}  {low:.3f} .. {high:.3f}")


if __name__ == "__main__":
    main()
