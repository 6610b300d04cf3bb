"""A log of dsjson, the ways in which it is imported, and hashes of what a model learned from it."""

import sqlite3
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random

import numpy as np

import delaytron as dt
from delaytron.model import facts
from dsjson_lines import MULTI, event, outcome

TIMES = ("Timestamp", "EnqueuedTimeUtc")
START = datetime(2021, 2, 4, 16, tzinfo=UTC)
WAYS = {  # the options of `delaytron import`, without --bits and --seed
    "plain": [],
    "delaytron": ["--learner", "delaytron", "--set", "gamma=0.25"],
    "soba": ["--learner", "soba"],
    "scaled": ["--reward-scale", "-1,3", "--learner", "ova_logistic"],
    "default": ["--default-reward", "0"],
    "classes": ["--classes", "Latte,Tea,Cappucino", "--learner", "banditron", "--set", "gamma=0.3"],
    "expiring": ["--expire-after", "15", "--on-expiry", "wrong"],
    "forgetting": ["--expire-after", "15"],
    "untimed": [],
    "misdated": ["--learner", "soba", "--expire-after", "20", "--on-expiry", "wrong"],
    "priced": ["--action-features"],
}


def at(seconds):
    return f"{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%f}0Z"


def timed_lines(n_events=400, seed=5):
    """Return events with outcomes beside them, up to 40 seconds later in lines of their own, and never; in time order.

    Not all events offer the same actions.
    """
    rng = Random(seed)
    lines = []
    for i in range(n_events):
        offered = rng.choice([MULTI, MULTI, MULTI, [MULTI[2], MULTI[0]]])
        label = rng.randrange(len(offered))
        prob = rng.uniform(0.2, 0.9)
        reward = float(rng.random() < (0.8 if offered[label] == MULTI[i % 3] else 0.3))
        kind = rng.random()
        context = {"FromUrl": [{"season": ["spring", "summer", "autumn"][i % 3], "n": i % 5}]}
        beside = reward if kind < 0.3 else None
        line = event(f"e{i}", label, prob, beside, context=context, multi=offered, Timestamp=at(i))
        lines.append((float(i), line))
        if 0.3 <= kind < 0.9:
            heard = i + rng.uniform(0.01, 40.0)
            lines.append((heard, outcome(f"e{i}", reward) | {"EnqueuedTimeUtc": at(heard)}))
    return [line for _, line in sorted(lines, key=lambda pair: pair[0])]


def lines_of(way):
    """Return the lines of a log that is imported in one of the ways."""
    lines = timed_lines()
    if way == "untimed":
        return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]
    if way == "misdated":  # the order of the lines is not that of the times
        times = [at(1000 - i) for i in range(len(lines))]
        return [
            line | {name: time for name in TIMES if name in line} | _noted(line, time)
            for line, time in zip(lines, times, strict=True)
        ]
    if way == "priced":
        return [_priced(line, i) if "c" in line else line for i, line in enumerate(lines)]
    return lines


def _noted(line, time):
    return {"o": [note | {"EnqueuedTimeUtc": time} for note in line["o"]]} if "o" in line else {}


def _priced(line, i):
    multi = [
        action | {"k": {"price": (i % 7) / 3}} if place else action for place, action in enumerate(line["c"]["_multi"])
    ]
    return line | {"c": line["c"] | {"_multi": multi}}


def hashes_of(journal):
    """Return hashes of the decisions in a journal, and of the weights of its model."""
    connection = sqlite3.connect(journal)
    query = "SELECT facts.id, body, status, value FROM facts JOIN ids USING (id) WHERE kind = ? ORDER BY facts.seq"
    rows = connection.execute(query, (facts.RECORDED,)).fetchall()
    connection.close()
    decided = sha256()
    for issued, body, status, value in rows:
        stored = facts.decode_decided(body)
        decided.update(
            repr(
                (issued, stored.round, stored.greedy, stored.label, stored.prob, stored.allowed, status, value)
            ).encode()
        )
        decided.update(stored.values + stored.extra + (stored.indices or b""))
    with dt.Model.open(journal) as model:
        learner = model._engine.state.learner
        learner.flush()
        weights = np.ascontiguousarray(learner.weights)
        return {
            "decisions": len(rows),
            "open": len(model.open_decisions()),
            "decided": decided.hexdigest(),
            "weights": sha256(weights.astype("<f8").tobytes()).hexdigest(),
        }
