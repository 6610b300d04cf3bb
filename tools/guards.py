"""Guards: digests of what learners and models do, to show that a rebuild moves not one bit of learning.

    python tools/guards.py check             # compare with tests/guards.json; exit code 1 if a digest differs
    python tools/guards.py check soba bold   # only some groups: learners, "bold", "reference"
    python tools/guards.py record            # write tests/guards.json; refuses to overwrite it

A guard is a short random life of a learner, a replay, a simulation or a model, a pure function of its key. Digests are
taken over values: arrays by name, decisions, open plays, pending answers, statuses, the next uniform draw; never over
bytes of files or the layout of objects. Lives use public calls; what is private is read by guard_adapters.py.

The recorded file is committed once and never regenerated. It was recorded on x86-64 Linux: another C library may give
other last bits of logarithms.

What HOUSE.md changes on purpose is not recorded: replies after an expiry, ids, settled rounds in saved learners, noise
and averages of online learners. A decision that expired as wrong is answered and compared within `WINDOW` times
`expire_after` only, since later its row is released.
"""

import argparse
import json
import pickle
import platform
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from copy import deepcopy
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import numba
import numpy as np
from scipy.sparse import csr_array, csr_matrix

import delaytron as dt
from guard_adapters import ADAPTER, Heard, Noise, heard_as_it_is

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "guards.json"
REFERENCE = ROOT / "tests" / "reference"  # copies of the worked examples

Parts = dict[str, Any]  # what is digested of one guard, by name

STREAMS = 30  # of each learner
WINDOW = 5  # times `expire_after`
NEVER = 10**9  # the delay of an answer that does not come
SECONDS = 60  # `expire_after` of models that expire by time

# The settings of each learner that choose or learn in ways of their own.
FORMS: dict[str, list[dict[str, Any]]] = {
    "bandit_logit": [{}, {"lr": 2.0, "explore_floor": 0.01}, {"forget": 0.05}, {"replay": 2}],
    "banditron": [{"gamma": 0.3}],
    "delaytron": [{"gamma": 0.3, "eta": 0.7}],
    "adaptive_delaytron": [
        {"gamma": 0.3},
        {"gamma": 0.3, "tracker": "instant"},
        {"gamma": 0.3, "count_self": False, "restart": True},
    ],
    "hinge_delaytron": [{"gamma": 0.3}, {"gamma": 0.3, "eta": 0.1}, {"gamma": 0.3, "B": 3.0, "R": 2.0}],
    "soba": [{"gamma": 0.3}, {"gamma": 0.3, "a": 2.0, "matrix": "full"}],
    "newtron": [
        {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05},
        {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05, "play": "argmax"},
        {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05, "matrix": "full"},
    ],
    "confidit": [{"alpha": 0.5}, {"alpha": 0.5, "matrix": "diagonal"}],
    "pab": [{"gamma": 0.3}, {"gamma": 0.3, "C": 0.1, "variant": "I"}, {"gamma": 0.3, "C": 0.1, "variant": "II"}],
    "exact_pa": [
        {"gamma": 0.3},
        {"gamma": 0.3, "C": 0.02, "variant": "I"},
        {"gamma": 0.3, "C": 0.1, "variant": "II"},
        {"gamma": 0.3, "refute": "best"},
    ],
    "ova_logistic": [{"gamma": 0.3}, {"gamma": 0.3, "explore": "squarecb"}],
    "gap": [{"gamma": 0.3}],
    "rcnbf": [
        {"gamma": 0.3},
        {"gamma": 0.3, "rho0": 0.1, "rho1": 0.2},
        {"gamma": 0.3, "estimate": True, "block": 10},
    ],
    "dilute": [{"gamma": 0.3, "m": 2}, {"gamma": 0.3, "m": 2, "estimator": "set"}],
    "exp3": [{}, {"eta": 0.1}],
    "perceptron": [{}],
    "passive_aggressive": [{}, {"C": 0.1, "variant": "I"}, {"C": 0.1, "variant": "II"}],
}
BOLD: list[tuple[str, dict[str, Any], str]] = [  # base, its settings, order
    ("banditron", {"gamma": 0.3}, "lifo"),
    ("adaptive_delaytron", {"gamma": 0.3}, "fifo"),
    ("bandit_logit", {}, "lifo"),
]
GROUPS = ("reference", *FORMS, "bold")

# What learners can do is fixed here and not read from them: a version that can do less must not be guarded by less.
LABEL_FEEDBACK = ("perceptron", "passive_aggressive")
NO_REWARDS = (*LABEL_FEEDBACK, "soba", "newtron", "pab", "exact_pa")
PLAYS_SETS = ("dilute",)
CANNOT_GROW = ("newtron", "dilute", "bold")
NOT_STANDARDIZED = ("bandit_logit", "exp3", "bold")
NO_TIES = ("newtron", "confidit", "dilute", "bold")
WITH_REGRET = ("banditron", "delaytron", "perceptron")


# Digests and random choices ---------------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """Return 8 hexadecimal digits that differ for values that differ in a bit, a name, a shape or an order.

    Arrays of integers of any width are alike, so are arrays of floats, NaNs, tuples and lists. Raises TypeError for
    anything but plain values and arrays.
    """
    content = sha256()
    for piece in _pieces(value):
        content.update(piece)
    return content.hexdigest()[:8]


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield a value as bytes that no other value gives: a letter for its kind, its length, its content."""
    if isinstance(value, np.ndarray):
        kind = "<f8" if value.dtype.kind == "f" else "<i8"
        numbers = value.astype(kind)
        if kind == "<f8":
            numbers[np.isnan(numbers)] = np.nan  # one of many bit patterns
        yield f"a{kind}{value.shape};".encode()
        yield numbers.tobytes()
    elif value is None:
        yield b"n;"
    elif isinstance(value, bool | int | np.integer | np.bool_):
        yield f"i{int(value)};".encode()
    elif isinstance(value, float):
        yield b"f" + struct.pack("<d", value)
    elif isinstance(value, str):
        yield f"s{len(value.encode())};{value}".encode()
    elif isinstance(value, dict):
        yield f"d{len(value)};".encode()
        for name in sorted(value):
            yield from _pieces(name)
            yield from _pieces(value[name])
    elif isinstance(value, list | tuple):
        yield f"l{len(value)};".encode()
        for item in value:
            yield from _pieces(item)
    else:
        raise TypeError(f"a digest takes plain values and arrays, got {type(value).__name__}")


class Dice:
    """Random choices, a pure function of the key; from uniform numbers only, which no version of NumPy changes."""

    def __init__(self, key: str) -> None:
        self._numbers = np.random.Generator(np.random.PCG64(np.random.SeedSequence(crc32(key.encode()))))

    def uniform(self, *shape: int) -> Any:
        """Return an array of numbers in [0, 1)."""
        return self._numbers.random(shape)

    def below(self, n: int) -> int:
        """Return an integer in 0..n-1."""
        return int(self._numbers.random() * n)

    def chance(self, p: float) -> bool:
        """Return True with this probability."""
        return bool(self._numbers.random() < p)

    def pick(self, options: Any) -> Any:
        """Return one of several."""
        return options[self.below(len(options))]

    def some(self, options: Any) -> list[Any]:
        """Return some of several, at least one, in their order."""
        kept = [option for option in options if self.chance(0.6)]
        return kept or [self.pick(options)]

    def normals(self, *shape: int) -> Any:
        """Return numbers of mean 0 and variance 1, nearly normal."""
        return 2.0 * (self.uniform(3, *shape).sum(axis=0) - 1.5)


class World(NamedTuple):
    """Examples of some classes, nearly separable by a linear rule."""

    rows: Any  # (n, d), dense
    labels: Any
    sparse: bool

    def one(self, t: int) -> Any:
        """Return a row as a caller has it."""
        return csr_matrix(self.rows[t]) if self.sparse else self.rows[t]

    def many(self, start: int, stop: int) -> Any:
        """Return some rows as a matrix."""
        return csr_array(self.rows[start:stop]) if self.sparse else self.rows[start:stop]


def make_world(dice: Dice, n: int, n_classes: int, n_features: int, sparse: bool) -> World:
    """Return n examples: columns of different scales, zeros, repeated rows, a few rows of zeros, 15 % false labels."""
    scales = np.array([dice.pick([0.01, 0.1, 1.0, 10.0]) for _ in range(n_features)])
    rows = dice.normals(n, n_features) * scales * (dice.uniform(n, n_features) < (0.4 if sparse else 0.9))
    weights = dice.normals(n_features, n_classes)
    true = np.argmax(((rows / scales)[:, :, None] * weights).sum(axis=1), axis=1)
    labels = np.where(dice.uniform(n) < 0.15, np.floor(n_classes * dice.uniform(n)), true).astype(np.int64)
    again = np.flatnonzero(dice.uniform(n) < 0.1)
    rows[again] = rows[again // 2]
    rows[dice.uniform(n) < 0.03] = 0.0
    return World(rows, labels, sparse)


# The worked examples ----------------------------------------------------------------------------------------------

X = np.array([(1, 0), (0, 1), (1, 1), (0.5, -1), (-1, 0.5), (1, 0.25), (-0.5, 1), (0.75, -0.5)])
Y = np.array([0, 1, 1, 2, 2, 0, 1, 0])
DELAYS = np.array([1, 3, 1, 2, 2, 1, 4, 1])
DRAWS = np.array([0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30])
# The learner and settings of each trace; those of learner_traces.json come without delays and with them. In the traces
# "delaytron/after" and "adaptive/after" a round's answers come after its choice, which no learner does.
ORDER_OF_NO_LEARNER = ("delaytron/after", "adaptive/after")
WORKED: dict[str, tuple[str, dict[str, Any]]] = {
    "delaytron/before": ("delaytron", {"gamma": 0.3, "eta": 0.5}),
    "adaptive/before": ("adaptive_delaytron", {"gamma": 0.3}),
    "adaptive/before/if": ("adaptive_delaytron", {"gamma": 0.3}),
    "adaptive/before/instant": ("adaptive_delaytron", {"gamma": 0.3, "tracker": "instant"}),
    "banditron": ("banditron", {"gamma": 0.3}),
    "rcnbf(rho0=.1,rho1=.2)": ("rcnbf", {"gamma": 0.3, "rho0": 0.1, "rho1": 0.2}),
    "hinge_da(B=1,R=sqrt2)": ("hinge_delaytron", {"gamma": 0.3, "B": 1.0, "R": 2**0.5}),
    "soba_full(a=1)": ("soba", {"gamma": 0.3, "matrix": "full"}),
    "soba_diag(a=1)": ("soba", {"gamma": 0.3}),
    "pab(C=inf)": ("pab", {"gamma": 0.3}),
    "pab_I(C=.1)": ("pab", {"gamma": 0.3, "C": 0.1, "variant": "I"}),
    "newtron_diag(alpha=10,beta=.01,D=1,argmax play)": ("newtron", {"gamma": 0.3, "play": "argmax"}),
    "confidit_full(alpha=1,eta=.1)": ("confidit", {"eta": 0.1}),
    "ova_logit(lr=.5,eps=1)": ("ova_logistic", {"gamma": 0.3, "lr": 0.5}),
}


def references() -> Iterator[tuple[str, Parts]]:
    """Yield every trace of the worked examples with its own draws: replayed, and by the online learner."""
    for file in ("delaytron_traces.json", "learner_traces.json"):
        for trace in json.loads((REFERENCE / file).read_text()):
            if trace in ORDER_OF_NO_LEARNER:
                continue
            name, settings = WORKED[trace.removesuffix("/nodelay").removesuffix("/delays")]
            delays = np.ones(8, np.int64) if trace.endswith("/nodelay") else DELAYS
            cls: Any = dt.LEARNERS[name]
            learner = cls(3, 2, seed=0, **settings)
            replayed = run_parts(dt.replay(learner, X, Y, delays, DRAWS))
            yield f"reference/{trace}", {"replay": replayed, "online": worked_online(learner, delays)}


def worked_online(learner: dt.Learner, delays: Any) -> list[Any]:
    """Return decision and state after every round of the worked example."""
    ADAPTER.use_draws(learner, DRAWS)
    decisions: list[Any] = []
    seen = []
    for t in range(len(Y)):
        for s in range(t):
            if s + delays[s] == t:
                learner.feedback(s + 1, correct=bool(decisions[s].label == Y[s]))
        decisions.append(learner.decide(X[t]))
        state = deepcopy(ADAPTER.state(learner))
        seen.append([decision_parts(decisions[-1]), state, learner.weights, learner.pending])
    return seen


# Streams of online learners ---------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What one stream of a learner is like."""

    settings: dict[str, Any]
    n_classes: int
    n_features: int
    rounds: int
    sparse: bool
    growing: bool
    rewards: bool
    longest: int  # delay
    missing: float  # rate of answers that do not come


def plan_stream(dice: Dice, name: str, number: int) -> Plan:
    """Choose what a stream is like; the last six standardise their rows or break ties at random, and expire, too."""
    forms = [{}] if name == "bold" else FORMS[name]
    special = number >= STREAMS - 6
    form = forms[0] if special else forms[number % len(forms)]
    full = form.get("matrix") == "full" or (name == "confidit" and "matrix" not in form)
    n_classes = (4 if name in PLAYS_SETS else 2) + dice.below(4 if full else 9)
    n_features = 1 + dice.below(5 if full else 14)
    settings: dict[str, Any] = {**form, "seed": dice.below(2**31)}
    wait = dice.pick([3, 5, 8, 13])
    longest = dice.pick([1, 4, 40])
    if special or dice.chance(0.5):
        as_wrong = dice.chance(0.6) and name not in LABEL_FEEDBACK
        settings |= {"expire_after": wait, "on_expiry": "wrong" if as_wrong else "drop"}
        longest = dice.pick([1, 4, 4 * wait])
    if STREAMS - 6 <= number < STREAMS - 3 and name not in NOT_STANDARDIZED:
        settings["standardize"] = True
    if number >= STREAMS - 3 and name not in NO_TIES:
        settings["ties"] = "random"
    return Plan(
        settings,
        n_classes,
        n_features,
        rounds=30 + dice.below(60),
        sparse=number % 3 == 2 if special else (number // len(forms)) % 2 == 1,
        growing=name not in CANNOT_GROW and not full and number % 3 == 0,
        rewards=(not special or number == STREAMS - 6) and name not in NO_REWARDS and "estimate" not in form,
        longest=longest,
        missing=dice.pick([0.0, 0.2, 0.5]),
    )


def make_learner(name: str, number: int, n_classes: int, n_features: int, **settings: Any) -> dt.Learner:
    """Return a fresh learner; the number chooses the base of a pool."""
    if name == "bold":
        base, own, order = BOLD[number % len(BOLD)]
        return dt.Bold(dt.LEARNERS[base](n_classes, n_features, **own), order, **settings)
    learner: Any = dt.LEARNERS[name]
    return learner(n_classes, n_features, **settings)  # type: ignore[no-any-return]


class Stream:
    """One random stream of an online learner."""

    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name = name
        self.path = folder / "learner"
        self.dice = dice = Dice(f"learner/{name}/{number:02d}")
        self.plan = plan = plan_stream(dice, name, number)
        self.learner = make_learner(name, number, plan.n_classes, plan.n_features, **plan.settings)
        self.rewards = plan.rewards and (name != "bold" or BOLD[number % len(BOLD)][0] not in NO_REWARDS)
        self.world = make_world(dice, plan.rounds, plan.n_classes + plan.growing, plan.n_features, plan.sparse)
        self.window = WINDOW * plan.settings.get("expire_after", NEVER)
        self.decisions: list[Any] = []
        self.due: dict[int, tuple[int, dict[str, Any]]] = {}  # round -> before which round its answer comes, the answer
        self.replies: list[Any] = []
        self.statuses: dict[int, tuple[str, float | None]] = {}

    def play(self) -> None:
        """Decide all rounds; on the way flush, save and load, copy, and add a class."""
        dice, plan = self.dice, self.plan
        todo = [(plan.rounds // 4, self._grow), (plan.rounds // 3, self._reload), (plan.rounds // 2, self._copy)]
        while (t := len(self.decisions)) < plan.rounds:
            self.deliver(t + 1)
            if dice.chance(0.08):
                self.learner.flush()
            while todo and t >= todo[0][0]:
                todo.pop(0)[1]()
            restricted = self.name not in PLAYS_SETS and dice.chance(0.2)
            allowed = dice.some(range(self.learner.n_classes)) if restricted else None
            if dice.chance(0.12):
                made = self.learner.decide_many(self.world.many(t, min(t + 1 + dice.below(4), plan.rounds)), allowed)
            else:
                row = self.world.rows[t] if dice.chance(0.05) else self.world.one(t)  # any learner takes a dense row
                made = [self.learner.decide(row, allowed)]
            for decision in made:
                delay = NEVER if dice.chance(plan.missing) else 1 + dice.below(plan.longest)
                self.due[decision.round] = (decision.round + delay, self.answer_to(decision))
            self.decisions += made
        self.deliver(plan.rounds + 1)
        self.answer_late("open")  # so that an answer and a correction are pending at the end
        if plan.settings.get("on_expiry") == "wrong":
            self.answer_late("expired")
        self.note_statuses()

    def _grow(self) -> None:
        if self.plan.growing:
            self.learner.add_class()

    def _reload(self) -> None:
        self.learner.save(self.path)
        self.learner = dt.load(self.path)

    def _copy(self) -> None:
        pickled = self.dice.chance(0.5)
        self.learner = pickle.loads(pickle.dumps(self.learner)) if pickled else deepcopy(self.learner)  # noqa: S301

    def answer_to(self, decision: Any) -> dict[str, Any]:
        """Return the answer to a decision."""
        y = min(int(self.world.labels[decision.round - 1]), self.learner.n_classes - 1)
        if self.name in LABEL_FEEDBACK:
            return {"label": y}
        right = y in getattr(decision, "labels", (decision.label,))
        if self.rewards and self.dice.chance(0.5):
            return {"reward": float(self.dice.uniform() * 0.4 + 0.6 * right)}
        return {"correct": right}

    def deliver(self, now: int) -> None:
        """Give the answers that are due before a round, in any order; some of them twice, or another one after it."""
        self.note_statuses()
        coming = [number for number, (when, _) in self.due.items() if when <= now]
        for number in sorted(coming, key=lambda _: self.dice.below(10**6)):
            _, answer = self.due.pop(number)
            self.give(number, answer)
            if self.dice.chance(0.1):
                self.give(number, answer)
            if self.dice.chance(0.05) and self.name not in LABEL_FEEDBACK:
                self.give(number, {"correct": self.dice.chance(0.5)})
        self.note_statuses()

    def give(self, number: int, answer: dict[str, Any]) -> None:
        """Give an answer; keep the reply, unless the decision had expired: HOUSE.md changes the words for that."""
        before, _ = ADAPTER.status(self.learner, number)
        reply = reply_of(lambda: self.learner.feedback(number, **answer))
        if before != "expired":
            self.replies.append([number, reply])

    def answer_late(self, status: str) -> None:
        """Answer the oldest decision of a status, if there is one."""
        numbers = (d.round for d in self.decisions if self.is_recent(d.round))
        found = next((number for number in numbers if ADAPTER.status(self.learner, number)[0] == status), None)
        if found is not None:
            self.give(found, {"label": 1} if self.name in LABEL_FEEDBACK else {"correct": True})

    def is_recent(self, number: int) -> bool:
        """Whether a decision, if it expired as wrong, can be answered in every version."""
        return number > len(self.decisions) - int(self.window)

    def note_statuses(self) -> None:
        """Note the status of every round that is not settled: a saved learner need not keep those that are."""
        for decision in self.decisions:
            number = decision.round
            if self.statuses.get(number, ("open", None))[0] in ("open", "expired") and self.is_recent(number):
                self.statuses[number] = ADAPTER.status(self.learner, number)

    def parts(self) -> Parts:
        """Return all that is known of the learner."""
        predictions = {"weights": self.learner.weights, "scores": self.learner.scores(self.world.many(0, 3))}
        if self.name not in PLAYS_SETS:
            predictions["probabilities"] = self.learner.probabilities(self.world.one(0))
        return knowledge_parts(self.learner, self.is_recent) | {
            "decisions": [decision_parts(decision) for decision in self.decisions],
            "predictions": predictions,
            "statuses": [self.statuses[decision.round] for decision in self.decisions],
            "replies": self.replies,
        }


def learner_streams(name: str, folder: Path, every: int) -> Iterator[tuple[str, Parts]]:
    """Yield the streams of one learner."""
    for number in range(0, STREAMS, every):
        stream = Stream(name, number, folder)
        stream.play()
        yield f"learner/{name}/{number:02d}", stream.parts()


def reply_of(call: Callable[[], str]) -> str:
    """Return the reply to an answer, or "conflict"."""
    try:
        return call()
    except dt.ConflictingFeedback:
        return "conflict"


def knowledge_parts(learner: dt.Learner, is_recent: Callable[[int], bool]) -> Parts:
    """Return the state of a learner, its open and correctable plays, pending answers, and the next draw."""
    plays = ADAPTER.plays(learner)
    kept = [p for p in plays if ADAPTER.status(learner, p["round"])[0] == "open" or is_recent(p["round"])]
    return {
        "state": ADAPTER.state(learner),
        "open": kept,
        "pending": [learner.pending, ADAPTER.pending(learner)],
        "draw": ADAPTER.next_draw(learner),
    }


def decision_parts(decision: Any) -> list[Any]:
    """Return a decision without its id; classes are numbers or names."""
    labels = [int(label) for label in decision.labels] if hasattr(decision, "labels") else None
    return [decision.round, decision.label, decision.greedy, float(decision.prob), labels]


# Replays and simulations ------------------------------------------------------------------------------------------


def replays(name: str, every: int) -> Iterator[tuple[str, Parts]]:
    """Yield random replays of one learner: every form, dense and CSR, expiry, noise, learners that have learned."""
    forms = [{}] if name == "bold" else FORMS[name]
    for number in range(0, STREAMS, every):
        key = f"replay/{name}/{number:02d}"
        dice = Dice(key)
        n_classes, n_features, n = 4 + dice.below(4), 2 + dice.below(4), 90
        world = make_world(dice, n, n_classes, n_features, sparse=dice.chance(0.5))
        delays = np.where(dice.uniform(n) < 0.15, NEVER, 1 + np.floor(12 * dice.uniform(n))).astype(np.int64)
        draws = dice.uniform(n)
        settings = {**forms[number % len(forms)], "seed": dice.below(2**31), **random_expiry(dice, name)}
        noise = random_noise(dice, name)
        rows = world.many(0, 20 if dice.chance(0.2) else 0)
        make = partial(taught_learner, name, number, n_classes, n_features, rows, **settings)
        yield key, run_parts(ADAPTER.replay(make, noise, world.many(0, n), world.labels, delays, draws))


def taught_learner(
    name: str, number: int, n_classes: int, n_features: int, rows: Any, heard: Heard = heard_as_it_is, **settings: Any
) -> dt.Learner:
    """Return a learner that has decided some rows; every third of them is open. `heard` may flip its answers."""
    learner = make_learner(name, number, n_classes, n_features, **settings)
    for decision in learner.decide_many(rows) if rows.shape[0] else []:
        if decision.round % 3:
            correct = {"correct": heard(learner, decision.round, decision.label == 1)}
            learner.feedback(decision.id, **({"label": 1} if name in LABEL_FEEDBACK else correct))
    return learner


def random_expiry(dice: Dice, name: str) -> dict[str, Any]:
    """Return settings of expiry by rounds, or none."""
    how = dice.pick([None, "drop", "drop" if name in LABEL_FEEDBACK else "wrong"])
    return {} if how is None else {"expire_after": 3 + dice.below(10), "on_expiry": how}


def random_noise(dice: Dice, name: str) -> Noise:
    """Return rates of flipped answers, or None."""
    noisy = dice.chance(0.3) and name not in (*LABEL_FEEDBACK, "bold")
    return (0.2, 0.1) if noisy else None


def run_parts(run: Any) -> Parts:
    """Return all of a run."""
    return {name: getattr(run, name) for name in ("labels", "greedy", "probs", "correct", "weights")}


def simulations(name: str, folder: Path, every: int) -> Iterator[tuple[str, Parts]]:
    """Yield random simulations of one learner: settings and runs, dense and CSR, delays, expiry, noise, a log."""
    for number in range(0, STREAMS // 3, every):
        key = f"simulate/{name}/{number:02d}"
        dice = Dice(key)
        world = make_world(dice, 120, 4, 5, sparse=number % 2 == 1)
        form = FORMS[name][number % len(FORMS[name])]
        same: dict[str, Any] = {"rounds": 300, "n_jobs": 1, "seed": dice.below(2**31), **form}
        geometric = dt.delays.Geometric(8.0)
        same["delay"] = dice.pick([1, 10, geometric, dt.delays.WithMissing(geometric, 0.3)])
        more: dict[str, Any] = {
            "runs": 2,
            "sampling": dice.pick(["epochs", "replacement"]),
            **random_expiry(dice, name),
        }
        if "gamma" in form:
            more["gamma"] = [0.1, 0.4]
        noise = random_noise(dice, name)
        data = world.many(0, 120), world.labels
        result = ADAPTER.simulate(name, data, noise, regret=name in WITH_REGRET and number == 0, **same | more)
        counts = {part: getattr(result, part) for part in ("rounds", "run", "mistakes", "losses")}
        logged: Parts = {}
        if name not in PLAYS_SETS and number % 3 == 0:
            dt.simulate(name, data, runs=1, log=folder / "log.parquet", **same)
            log = dt.logs.read_parquet(folder / "log.parquet")
            logged = {part: getattr(log, part) for part in ("labels", "probs", "outcomes")}
        yield key, {"counts": counts, "log": logged}


# Lives of models --------------------------------------------------------------------------------------------------

CLASSES: list[str | int] = ["small", "medium", 3, "large"]
WORDS = ("translate", "this", "letter", "please", "now", "Sum", "up", "the", "whole", "page")


class Life:
    """One random life of a model: a pure function of learner and number, wherever it is kept."""

    def __init__(self, name: str, number: int, journal: Path | None, saved: Path, advance: Any) -> None:
        self.name = name
        self.journal = journal
        self.saved = saved
        self.advance = advance  # the clock
        self.now = 0.0
        self.dice = dice = Dice(f"model/{name}/{number:02d}")
        form = number % 3
        self.features: Any = ("hashed", 3, ["a", "b", "c"])[form]
        self.wait = (None, 7, f"{SECONDS}s")[(number + number // 3) % 3]
        as_wrong = self.wait is not None and name not in LABEL_FEEDBACK and dice.chance(0.6)
        self.options: dict[str, Any] = {
            "learner": name,
            "features": self.features,
            "expire_after": self.wait,
            "on_expiry": "wrong" if as_wrong else "drop",
            "seed": dice.below(2**31),
            **FORMS[name][0],
        }
        if form == 0:
            self.options |= {"bits": 6 + number % 5, "ngrams": 1 + number % 2}
        if name == "bandit_logit" and number % 4 == 1:
            self.options["explore_floor"] = 0.02
        if journal is not None:
            self.options |= {"journal": journal, "durability": "batched" if number % 4 == 3 else "full"}
        self.original = CLASSES[: 2 + dice.below(3)]
        self.classes = list(self.original)
        self.model = dt.Model(self.original, **self.options)
        self.decisions: list[Any] = []
        self.times: list[float] = []
        self.replies: list[Any] = []

    def live(self) -> None:
        """Do ninety things: decide, answer, cancel, let time pass; change classes and reopen on the way."""
        acts = [self.decide] * 9 + [self.answer] * 8 + [self.decide_many, self.cancel, self.elapse, self.elapse]
        for step in range(90):
            self.dice.pick(acts)()
            if step == 20 and self.name not in CANNOT_GROW:
                self.model.add_class("huge")
                self.classes.append("huge")
            if step == 45:
                self.reopen()
            if step == 50:
                self.model.retire_class(self.classes[0])
            if step == 70:
                self.model.add_class(self.classes[0])
        ADAPTER.catch_up(self.model)

    def next_features(self) -> Any:
        """Return features in the form that the model takes."""
        dice = self.dice
        numbers = [round(float(number), 6) for number in dice.normals(3)]
        if self.features == 3:
            return numbers
        if self.features != "hashed":
            return dict(zip("abc", numbers, strict=True))
        x = {"prompt": " ".join(dice.pick(WORDS) for _ in range(1 + dice.below(5))), "tokens": numbers[0]}
        more = {"tenant": dice.pick("abc"), "urgent": dice.chance(0.5), "owner": dice.pick([None, "x"]), "n": 7}
        return x | {name: value for name, value in more.items() if dice.chance(0.7)}

    def allowed(self) -> list[Any] | None:
        """Return some of the classes, or None for all of them."""
        return self.dice.some(self.model.classes) if self.dice.chance(0.25) else None

    def decide(self) -> None:
        """Decide under an id of the caller or of the model."""
        given = f"request {len(self.decisions)}" if self.dice.chance(0.6) else None
        self.decisions.append(self.model.decide(self.next_features(), id=given, allowed=self.allowed()))
        self.times.append(self.now)

    def decide_many(self) -> None:
        """Decide a few at once."""
        count, first = 2 + self.dice.below(4), len(self.decisions)
        ids = [f"request {first + i}" for i in range(count)] if self.dice.chance(0.6) else None
        xs = [self.next_features() for _ in range(count)]
        self.decisions += self.model.decide_many(xs, ids=ids, allowed=self.allowed())
        self.times += [self.now] * count

    def answer(self) -> None:
        """Answer a recent decision, also one that was answered, expired or cancelled; some by another process."""
        recent = [decision for decision in self.decisions if self.is_recent(decision.round)]
        if not recent:
            return
        decision = self.dice.pick(recent)
        answer = self._answer_to(decision)
        before = self.status_of(decision)
        outside = self.dice.chance(0.2) and (before != "expired" or self.options["on_expiry"] == "wrong")
        if outside and self.journal is not None and self.options["durability"] == "full":
            with dt.Journal(self.journal) as journal:
                reply = reply_of(lambda: journal.feedback(decision.id, **answer))
            ADAPTER.catch_up(self.model)
        else:
            reply = reply_of(lambda: self.model.feedback(decision.id, **answer))
        if before != "expired":  # HOUSE.md changes the words for that
            self.replies.append([decision.round, reply])

    def _answer_to(self, decision: Any) -> dict[str, Any]:
        dice = self.dice
        best = self.classes[decision.round % 2]  # what is right does not matter, if it repeats itself
        kind = dice.pick(["correct", "label", "reward"])
        if self.name in LABEL_FEEDBACK or kind == "label":
            return {"label": best}
        if kind == "reward" and self.name not in NO_REWARDS:
            return {"reward": float(dice.pick([0.0, 1.0, 0.25, float(dice.uniform())]))}
        return {"correct": bool(decision.label == best)}

    def status_of(self, decision: Any) -> str:
        """Return the status of a decision at this moment."""
        ADAPTER.catch_up(self.model)
        return ADAPTER.model_status(self.model, decision.id)[0]

    def is_recent(self, number: int) -> bool:
        """Whether a decision, if it expired as wrong, can be answered in every version."""
        if isinstance(self.wait, int):
            return number > len(self.decisions) - WINDOW * self.wait
        return self.wait is None or self.now - self.times[number - 1] <= WINDOW * SECONDS

    def cancel(self) -> None:
        """Cancel any decision."""
        if not self.decisions:
            return
        decision = self.dice.pick(self.decisions)
        before = self.status_of(decision)
        reply = reply_of(lambda: self.model.cancel(decision.id))
        if before != "open":  # HOUSE.md does not say the reply to the first one
            self.replies.append([decision.round, reply])

    def elapse(self) -> None:
        """Let some time pass, less than `expire_after`."""
        seconds = float(self.dice.below(40))
        self.advance(seconds)
        self.now += seconds

    def reopen(self) -> None:
        """Close and open the journal, or open a copy, which replays its facts; a model in memory, save and load."""
        copied = self.dice.chance(0.5) and self.options.get("durability") != "batched"
        if self.journal is None:
            self.model.save(self.saved)
            self.model = dt.load(self.saved)
        elif copied:
            path = self.journal.with_suffix(".copy.db")
            with closing(sqlite3.connect(self.journal)) as source, closing(sqlite3.connect(path)) as target:
                source.backup(target)
            self.model.close()
            self.journal = path
            self.model = dt.Model.open(path)
        else:
            self.model.close()
            self.model = dt.Model(self.original, **self.options)

    def parts(self) -> Parts:
        """Return all that is known of the model."""
        model, learner = self.model, ADAPTER.learner_of(self.model)
        predictions: Parts = {"classes": model.classes, "weights": learner.weights}
        if self.name == "bandit_logit":
            x = self.next_features()
            predictions |= {"label": model.predict(x), "probabilities": list(model.probabilities(x).values())}
        stats = model.stats()
        counted = ("decisions", "open", "answered", "mean_reward", "expired", "cancelled")
        counts = [[name, c.played, c.answered, c.mean_reward] for name, c in stats.classes.items()]
        opened = [[one.round, one.label] for one in model.open_decisions()]
        statuses = [ADAPTER.model_status(model, decision.id) for decision in self.decisions]
        return knowledge_parts(learner, self.is_recent) | {
            "decisions": [decision_parts(decision) for decision in self.decisions],
            "predictions": predictions,
            "statuses": [opened, statuses],
            "replies": self.replies,
            "stats": [[getattr(stats, name) for name in counted], counts],
        }


def model_lives(name: str, folder: Path, every: int) -> Iterator[tuple[str, Parts]]:
    """Yield the lives of models of one learner, each in memory and, the same, with a journal."""
    for number in range(0, STREAMS if name == "bandit_logit" else 9, every):
        for place in ("memory", "journal"):
            journal = folder / f"{number}.db" if place == "journal" else None
            with ADAPTER.clock() as advance:
                life = Life(name, number, journal, folder / "model", advance)
                try:
                    life.live()
                    yield f"model/{name}/{number:02d}/{place}", life.parts()
                finally:
                    life.model.close()


# Recording and comparing ------------------------------------------------------------------------------------------


def guards(group: str, every: int = 1) -> Iterator[tuple[str, Parts]]:
    """Yield the guards of a group by their keys, the first of each kind and every `every`-th after it.

    Their parts may change with the next step.
    """
    with TemporaryDirectory() as folder:
        if group == "reference":
            yield from references()
            return
        yield from learner_streams(group, Path(folder), every)
        yield from replays(group, every)
        if group != "bold":
            yield from simulations(group, Path(folder), every)
        if group not in (*PLAYS_SETS, "bold"):
            yield from model_lives(group, Path(folder), every)


def digests(group: str, every: int = 1) -> dict[str, dict[str, str]]:
    """Return the digest of every part of the guards of a group, by key and name of the part."""
    return {key: {name: digest(part) for name, part in parts.items()} for key, parts in guards(group, every)}


def recorded(group: str, path: Path = RECORDED) -> dict[str, dict[str, str]]:
    """Return the recorded digests of a group, by key and name of the part."""
    content = json.loads(path.read_text())
    found = {}
    for key, line in content["digests"].items():
        kind, name, *_ = key.split("/")
        if group == (kind if kind == "reference" else name):
            found[key] = dict(zip(content["parts"][kind], line.split(), strict=True))
    return found


def record(groups: Iterable[str], path: Path = RECORDED) -> int:
    """Write the digests of groups, a line for a guard; return how many. Raises FileExistsError if there are some."""
    parts: dict[str, list[str]] = {}
    lines = {}
    with path.open("x") as file:
        for group in groups:
            for key, found in digests(group).items():
                parts[key.split("/")[0]] = list(found)
                lines[key] = " ".join(found.values())
        versions = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
        json.dump({"versions": versions, "parts": parts, "digests": lines}, file, indent=0)
        file.write("\n")
    return len(lines)


def differences(group: str, every: int = 1) -> list[str]:
    """Return a line for every guard of a group whose digests are not the recorded ones, with the parts that differ."""
    found, known = digests(group, every), recorded(group)
    lines = []
    for key in sorted(found.keys() | known.keys() if every == 1 else found.keys()):
        ours, theirs = found.get(key, {}), known.get(key, {})
        if names := [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]:
            lines.append(f"{key}: {', '.join(names)}")
    return lines


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["check", "record"])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"to check; default: all of {', '.join(GROUPS)}")
    given = parser.parse_args()
    if unknown := set(given.groups) - set(GROUPS):
        parser.error(f"unknown groups: {', '.join(sorted(unknown))}")
    if given.command == "record":
        if given.groups or RECORDED.exists():
            parser.error("everything is recorded, once: tests/guards.json must not exist, and no group be given")
        print(f"{record(GROUPS)} guards recorded")
        return 0
    total = 0
    for group in given.groups or GROUPS:
        lines = differences(group)
        print(f"{group}: {len(lines)} guards differ", *lines, sep="\n  ", flush=True)
        total += len(lines)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
