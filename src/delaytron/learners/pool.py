"""A pool of states: a free one plays each round, and is free again when its answer has come."""

from collections import namedtuple
from functools import cache, partial
from typing import Any

import numpy as np

from delaytron.compiler.kernel import fill, kernel, slot, taker
from delaytron.errors import InvalidInput
from delaytron.kernels.loop import ANSWERED
from delaytron.learners.ledger import OPEN, Ledger
from delaytron.learners.rule import Rule, right_or_wrong, step_late, step_late_by
from delaytron.records import Array, Play, Row, Size

MOST_BYTES = 2 * 2**30  # that a pool may take
HEAD, FREE, MADE = 0, 1, 2  # the cells of the pool: where the free instances begin in their ring, how many, of how many
INSTANCE, TURN, OWN = 0, 1, 2  # what a round notes first: who played it, and the how-manieth round of that one it was

take: Any = slot()  # (state) -> the free instance whose turn it is
instance_of: Any = slot()  # (state, i) -> the state of instance i
base_pick: Any = slot()
base_step: Any = slot()
base_tick: Any = slot()
base_revise: Any = slot()
base_is_correct: Any = slot()


@kernel
def take_last(state: Any) -> int:
    """Return the instance that became free last."""
    state.pool[FREE] -= 1
    return int(state.free[(state.pool[HEAD] + state.pool[FREE]) % state.free.size])


@kernel
def take_first(state: Any) -> int:
    """Return the instance that became free first."""
    i = state.free[state.pool[HEAD]]
    state.pool[HEAD] = (state.pool[HEAD] + 1) % state.free.size
    state.pool[FREE] -= 1
    return int(i)


@kernel
def release(state: Any, i: int) -> None:
    """Let instance `i` play again."""
    state.free[(state.pool[HEAD] + state.pool[FREE]) % state.free.size] = i
    state.pool[FREE] += 1


@kernel
def pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Let a free instance play, a new one if there is none."""
    if state.pool[FREE] == 0:
        release(state, state.pool[MADE])
        base_tick(instance_of(state, state.pool[MADE]), params, 1, 1)
        state.pool[MADE] += 1
    i = take(state)
    state.turns[i] += 1
    extra[INSTANCE], extra[TURN] = i, state.turns[i]
    greedy, label, prob = base_pick(instance_of(state, i), params, x, allowed, u, scratch, extra[OWN:])
    return greedy, label, prob


@kernel
def as_played(past: Play) -> Play:
    """Return a round as the instance that played it counts and remembers it."""
    return Play(int(past.extra[TURN]), past.x, past.greedy, past.label, past.prob, past.extra[OWN:])


@kernel
def step(state: Any, params: Any, past: Play, observation: Any) -> None:
    """Begin the next turn of the instance that played, as without delay: first its clock, then the answer."""
    i, own = int(past.extra[INSTANCE]), as_played(past)
    base_tick(instance_of(state, i), params, own.round + 1, 1)
    base_step(instance_of(state, i), params, own, observation)
    release(state, i)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Correct the instance that played; it has been free since the round was counted as wrong."""
    base_revise(instance_of(state, int(past.extra[INSTANCE])), params, as_played(past), reward)


@kernel
def is_correct(label: int, extra: Array, y: int) -> bool:
    """Whether what was played is right, as the base has it."""
    return bool(base_is_correct(label, extra[OWN:], y))


ORDERS: dict[str, Any] = {"lifo": take_last, "fifo": take_first}


@cache
def pool_of(fields: tuple[str, ...]) -> Any:
    """Return the class of a pool of such states; a name in this module lets the compiler's disk cache find it."""
    name = "__".join(("Pool", *fields))
    globals()[name] = namedtuple(name, (*fields, "free", "pool", "turns"), module=__name__)
    return globals()[name]


def allowed_capacity(n_bytes: int) -> int:
    """Return how many instances of this size a pool may hold."""
    return MOST_BYTES // n_bytes


def init(base: Rule, params: Any, size: Size) -> Any:
    """Return as many untouched instances as rounds may be open at once."""
    n_runs, capacity = params[0].size, size.n_open
    one = base.init(type(params)(*(field[:1] for field in params)), size._replace(n_open=1))
    n_bytes = n_runs * capacity * sum(field.nbytes for field in one)
    if n_bytes > MOST_BYTES:
        have = f"{n_bytes / 2**30:.1f} GiB for {capacity} instances of {base.name}, one for every round open at once"
        raise InvalidInput(
            f"the pool would take {have}; at most {MOST_BYTES / 2**30:g} GiB: "
            "use shorter delays, or expire_after=n with on_expiry='wrong'"
        )
    repeated = type(params)(*(np.repeat(field, capacity) for field in params))
    fields = [
        field.reshape(n_runs, capacity, *field.shape[1:]) for field in base.init(repeated, size._replace(n_open=1))
    ]
    free, pool, turns = (np.zeros((n_runs, length), np.int64) for length in (capacity, 3, capacity))
    return pool_of(base.state._fields)(*fields, free, pool, turns)  # type: ignore[attr-defined]


@cache
def pooled(base: Rule, order: str) -> Rule:
    """Return the rule of a pool of learners with this rule."""
    names = ("policy", "step", "tick", "observation", "note", "revise", "pick", "is_correct")
    theirs = {name: getattr(base, name) for name in names} | {"shares_ties": base.ties == "random"}
    if base.revise is step_late and base.observation is right_or_wrong:
        theirs["revise"] = step_late_by
    slots = {f"base_{name}": fill(theirs[name], **theirs) for name in ("pick", "step", "tick", "revise", "is_correct")}
    slots |= {"take": ORDERS[order], "instance_of": taker(base.state)}
    ours: dict[str, Any] = {template.__name__: fill(template, **slots) for template in (pick, step, revise, is_correct)}
    extras, state = ("number", "number", *base.extras), pool_of(base.state._fields)  # type: ignore[attr-defined]
    return Rule(
        f"bold({base.name})",
        base.params,
        None,
        state=state,
        init=partial(init, base),
        observation=base.observation,
        extras=extras,
        restricts=base.restricts,
        grows=False,
        per_round_state=True,
        **ours,
    )


def check_pool(state: Any, ledger: Ledger) -> None:
    """Raise if an instance of a pool is missing, or is free and waits, or waits for two answers."""
    capacity, (head, n_free, made) = state.turns.size, state.pool.tolist()
    same = all(len(field) == capacity for name, field in state._asdict().items() if name != "pool")
    if not (same and 0 <= head < capacity and 0 <= n_free <= made <= capacity):
        raise InvalidInput("state.pool is inconsistent")
    noted = np.array([ledger.play(n).extra[:OWN] for n in ledger.plays]).reshape(-1, OWN)
    waits = [ledger.answers[n - 1] == OPEN or ledger.arrived.get(n) == ANSWERED for n in ledger.plays]
    owner, busy = noted[:, INSTANCE], np.array(waits, bool)
    taken = np.concatenate([np.roll(state.free, -head)[:n_free], owner[busy]])
    if not (np.isin(np.concatenate([owner, taken]), np.arange(made)).all() and np.unique(taken).size == taken.size):
        raise InvalidInput("state.free is inconsistent")
    turn, turns = noted[:, TURN], state.turns[owner.astype(np.int64)]
    if not np.where(busy, turn == turns, (turn >= 1) & (turn <= turns) & (turn % 1 == 0)).all():
        raise InvalidInput("state.turns is inconsistent")
