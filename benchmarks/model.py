"""What an application waits for with ``dt.Model``: three tables of ``speed.py``; the third takes long (``--full``).

Named features beside Vowpal Wabbit on the same ones, durable decisions beside the disk's own syncs, opening a journal.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Lock, Thread
from time import perf_counter, perf_counter_ns

import numpy as np

import delaytron as dt
from report import Sheet, quantiles

K = 10
CLASSES = [f"class {label}" for label in range(K)]
EPSILON = 0.02
LETTERS = "abcdefgh"
LOCKS = 1_000  # acquired in a row

# ---------------------------------------------------------------------- in memory


def requests(count):
    """Return dicts of 20 named features, 12 numbers, 6 short strings and 2 booleans, and the right class of each."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(count, 12))
    words = rng.integers(len(LETTERS), size=(count, 6))
    flags = rng.integers(2, size=(count, 2))
    found = []
    for row, letters, bits in zip(numbers.tolist(), words.tolist(), flags.tolist(), strict=True):
        features = {f"number_{j}": value for j, value in enumerate(row)}
        features |= {f"word_{j}": LETTERS[letter] for j, letter in enumerate(letters)}
        features |= {f"flag_{j}": bool(bit) for j, bit in enumerate(bits)}
        found.append((features, (letters[0] + bits[0]) % K))
    return found


def model_online(quick):
    """Measure a decision and its answer, from named features, beside Vowpal Wabbit; and parts of it."""
    pairs = 3_000 if quick else 20_000
    played = requests(pairs)
    contestants = {
        "`dt.Model`, decide and feedback": lambda: model_times(played),
        "Vowpal Wabbit, predict and learn": lambda: vowpal_times(played),
        "the same, its texts made before": lambda: vowpal_times([(text_of(x), y) for x, y in played]),
    }
    turns = [[quantiles(times()) for times in contestants.values()] for _ in range(1 if quick else 3)]
    rows = [
        [name, f"{middle / 1e3:.1f} us", f"{slow / 1e3:.1f} us"]
        for name, (middle, slow) in zip(contestants, map(min, zip(*turns, strict=True)), strict=True)
    ]
    for name, times in {
        "`decide_many` of 1,000 vectors of 64 numbers, a row": many_times(quick),
        "`with lock:`, uncontended": lock_times(),
    }.items():
        middle, slow = quantiles(times)
        rows.append([name, f"{middle / 1e3:.2f} us", f"{slow / 1e3:.2f} us"])
    notes = [
        f"20 named features (12 numbers, 6 strings, 2 booleans), {K} classes, {pairs:,} pairs of a decision and its "
        "answer, without a journal; in turns, best of each.",
        f"Vowpal Wabbit: --cb_explore {K} --epsilon {EPSILON}, another learner in single precision; a text is made of "
        "the features, its probabilities are predicted, a label is drawn, and the text with the answer is learned.",
    ]
    return Sheet("A model in memory", ["", "median", "99 %"], rows, notes)


def model_times(played):
    """Return the nanoseconds of every decision with its answer."""
    model = dt.Model(CLASSES, seed=0)
    times = []
    for x, y in played:
        begin = perf_counter_ns()
        decision = model.decide(x)
        model.feedback(decision.id, decision.label == CLASSES[y])
        times.append(perf_counter_ns() - begin)
    return times


def text_of(features):
    """Return features as Vowpal Wabbit reads them."""
    return " ".join(
        f"{name}={value}" if isinstance(value, str) else f"{name}:{float(value):.9g}"
        for name, value in features.items()
    )


def vowpal_times(played):
    """Return the same of Vowpal Wabbit, from dicts or from texts."""
    from vowpalwabbit import Workspace  # noqa: PLC0415 - only here, and only for measurements

    rng = np.random.default_rng(0)
    draws = rng.random(len(played)).tolist()
    times = []
    with Workspace(f"--cb_explore {K} --epsilon {EPSILON} --quiet") as vw:
        for (x, y), draw in zip(played, draws, strict=True):
            begin = perf_counter_ns()
            text = x if isinstance(x, str) else text_of(x)
            label, prob = _drawn(vw.predict(f"| {text}"), draw)
            vw.learn(f"{label + 1}:{int(label != y)}:{prob} | {text}")
            times.append(perf_counter_ns() - begin)
    return times


def _drawn(probabilities, draw):
    total = 0.0
    for label, prob in enumerate(probabilities):  # noqa: B007 - the last one, if rounding leaves a rest
        total += prob
        if draw < total:
            break
    return label, prob


def many_times(quick):
    """Return the nanoseconds of a row of ``decide_many``."""
    model = dt.Model(CLASSES, features=64, seed=0)
    rows = np.random.default_rng(0).normal(size=(1000, 64))
    times = []
    for _ in range(6 if quick else 30):
        begin = perf_counter_ns()
        model.decide_many(rows)
        times.append((perf_counter_ns() - begin) / len(rows))
    return times[1:]


def lock_times():
    """Return the nanoseconds of acquiring and releasing an uncontended lock."""
    lock = Lock()
    times = []
    for _ in range(100):
        begin = perf_counter_ns()
        for _ in range(LOCKS):
            with lock:
                pass
        times.append((perf_counter_ns() - begin) / LOCKS)
    return times


# ---------------------------------------------------------------------- on disk


def durable(quick):
    """Measure durable decisions per second, beside the syncs that the disk does without them."""
    seconds = 1.0 if quick else 5.0
    rows = []
    with tempfile.TemporaryDirectory(prefix="delaytron-journal-", dir=".") as folder:
        syncs = synced_writes(Path(folder, "plain"), seconds)
        rows.append(["a plain write and fsync", f"{syncs:,.0f}", ""])
        for threads in (1, 32):
            rate = decisions_from(threads, Path(folder, f"{threads}.db"), seconds)
            name = f"`decide` from {threads} thread{'s' if threads > 1 else ''}"
            rows.append([name, f"{rate:,.0f}", f"{rate / syncs:.2f}x"])
    notes = [
        f"In one folder, one after another, {seconds:g} s each. A decision has 20 named features and is on disk when "
        "the call returns; threads share a sync."
    ]
    return Sheet("A model with a journal", ["", "per second", "of the plain syncs"], rows, notes)


def synced_writes(path, seconds):
    """Return how often per second the disk takes 500 more bytes."""
    count, begin = 0, perf_counter()
    with path.open("wb", buffering=0) as file:
        while perf_counter() - begin < seconds:
            file.write(bytes(500))
            os.fsync(file.fileno())
            count += 1
    return count / (perf_counter() - begin)


def decisions_from(threads, path, seconds):
    """Return how many decisions per second several threads get, each waiting for its own."""
    xs = [x for x, _ in requests(1000)]
    counts = [0] * threads
    with dt.Model(CLASSES, journal=path, seed=0) as model:
        model.decide(xs[0])
        until = perf_counter() + seconds

        def work(number):
            while perf_counter() < until:
                model.decide(xs[counts[number] % len(xs)])
                counts[number] += 1

        workers = [Thread(target=work, args=(number,)) for number in range(threads)]
        begin = perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(counts) / (perf_counter() - begin)


WRITE = """
import os, sys, time
import numpy as np
import delaytron as dt
path, count = sys.argv[1], int(sys.argv[2])
model = dt.Model(["a", "b", "c"], features=8, journal=path, durability="batched", seed=0)
rows = np.random.default_rng(0).normal(size=(1000, 8))
for _ in range(count // 1000):
    for decision in model.decide_many(rows):
        model.feedback(decision.id, correct=True)
model.decide(rows[0])
if sys.argv[3] == "killed":
    time.sleep(1)  # all is on disk after 50 ms
    os._exit(0)
model.close()
"""


def opening(quick):
    """Measure how long it takes to open a journal of many answered decisions."""
    count = 29_000 if quick else 1_009_000  # 18,000 facts after the last snapshot; at most 50,000
    rows = []
    with tempfile.TemporaryDirectory(prefix="delaytron-journal-", dir=".") as folder:
        path = Path(folder, "large.db")
        for after in ("killed", "closed"):
            made = 0 if after == "closed" else count
            subprocess.run([sys.executable, "-c", WRITE, str(path), str(made), after], check=True)
            size = sum(part.stat().st_size for part in Path(folder).iterdir())
            begin = perf_counter()
            model = dt.Model.open(path)
            seconds = perf_counter() - begin
            rows.append([f"the process was {after}", f"{seconds:.2f} s", f"{size / 1e6:,.0f} MB"])
            model.close()
    notes = [f"A journal of {count:,} decisions of 8 numbers, all answered; opened once, compiled before."]
    return Sheet("Opening a journal", ["", "to open", "on disk"], rows, notes)
