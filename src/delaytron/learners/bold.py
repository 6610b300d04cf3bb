"""BOLD (Joulani, Gyorgy and Szepesvari, 2013): a pool of learners, none of which ever sees a delay."""

from dataclasses import replace
from functools import cache, partial
from typing import Any, Unpack

import numpy as np

from delaytron.checks import check_choice
from delaytron.compiler.kernel import fill, kernel, slot, taker
from delaytron.errors import InvalidInput, Setting
from delaytron.kernels.loop import ANSWER_EVENT, EXPIRY_EVENT
from delaytron.learners.arguments import COMMON, Common, own_parameters
from delaytron.learners.book import Book
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import Contributions, LinearForm, linear_form
from delaytron.learners.rule import Rule, extended_state, right_or_wrong, stack, step_late, step_late_by
from delaytron.records import Array, Bools, Ints, Play, Row, Size

MOST_BYTES = 2 * 2**30  # that a pool may take
# Cells of `pool`: where the free instances begin in their ring, how many are free, how many exist.
HEAD, FREE, MADE = 0, 1, 2
# Extras of a round: the instance that played it, the number of the round among those of the instance; then the base's.
INSTANCE, TURN, OWN = 0, 1, 2

take: Any = slot()  # (state) -> the free instance that plays next
instance_of: Any = slot()  # (state, i) -> the state of instance i
base_pick: Any = slot()
base_step: Any = slot()
base_tick: Any = slot()
base_revise: Any = slot()
base_is_correct: Any = slot()


@kernel
def take_last(state: Any) -> int:
    """Take the instance that became free last out of the ring; return its number."""
    state.pool[FREE] -= 1
    return int(state.free[(state.pool[HEAD] + state.pool[FREE]) % state.free.size])


@kernel
def take_first(state: Any) -> int:
    """Take the instance that became free first out of the ring; return its number."""
    i = state.free[state.pool[HEAD]]
    state.pool[HEAD] = (state.pool[HEAD] + 1) % state.free.size
    state.pool[FREE] -= 1
    return int(i)


@kernel
def release(state: Any, i: int) -> None:
    """Put instance `i` back into the ring of free instances."""
    state.free[(state.pool[HEAD] + state.pool[FREE]) % state.free.size] = i
    state.pool[FREE] += 1


@kernel
def pick(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Let a free instance play, or a new one if all wait for an answer."""
    if state.pool[FREE] == 0:
        release(state, state.pool[MADE])  # the only one in the ring, so `take` returns it
        # Its first round begins now; `step` ticks for every later one, before it applies an answer.
        base_tick(instance_of(state, state.pool[MADE]), params, 1, 1)
        state.pool[MADE] += 1
    i = take(state)
    state.turns[i] += 1
    extra[INSTANCE], extra[TURN] = i, state.turns[i]
    greedy, label, prob = base_pick(instance_of(state, i), params, x, allowed, u, scratch, extra[OWN:])
    return greedy, label, prob


@kernel
def as_played(past: Play) -> Play:
    """Return a round with the number and the extras that it has for the instance that played it."""
    return Play(int(past.extra[TURN]), past.x, past.greedy, past.label, past.prob, past.extra[OWN:])


@kernel
def step(state: Any, params: Any, past: Play, observation: Any) -> None:
    """Apply an answer to the instance that played, in the order of a run without delay: clock, then answer."""
    i, own = int(past.extra[INSTANCE]), as_played(past)
    base_tick(instance_of(state, i), params, own.round + 1, 1)
    base_step(instance_of(state, i), params, own, observation)
    release(state, i)


@kernel
def revise(state: Any, params: Any, past: Play, reward: float) -> None:
    """Correct the instance that played; it became free when the round was counted as wrong."""
    base_revise(instance_of(state, int(past.extra[INSTANCE])), params, as_played(past), reward)


@kernel
def is_correct(label: int, extra: Array, y: int) -> bool:
    """Return whether the play is right, by the definition of the base."""
    return bool(base_is_correct(label, extra[OWN:], y))


ORDERS: dict[str, Any] = {"lifo": take_last, "fifo": take_first}


def pool_of(one: type) -> Any:
    """Return the class of pools of such states."""
    return extended_state("Pool", one._fields, ("free", "pool", "turns"))  # type: ignore[attr-defined]


def init(base: Rule, params: Any, size: Size) -> Any:
    """Return as many new instances as rounds may be open at once; raise InvalidInput beyond `MOST_BYTES`."""
    n_runs, capacity = params[0].size, size.n_open
    one = base.init(type(params)(*(field[:1] for field in params)), size._replace(n_open=1))
    n_bytes = n_runs * capacity * sum(field.nbytes for field in one)
    if n_bytes > MOST_BYTES:
        needs = f"{n_bytes / 2**30:.1f} GiB for {capacity} instances of {base.name}, one for every round open at once"
        expiry = (Setting("expire_after", "n"), " with ", Setting("on_expiry", "'wrong'"))
        raise InvalidInput(
            f"the pool would take {needs}, at most {MOST_BYTES / 2**30:g} GiB are allowed",
            ("use shorter delays, or ", *expiry),
        )
    repeated = type(params)(*(np.repeat(field, capacity) for field in params))
    fields = [
        field.reshape(n_runs, capacity, *field.shape[1:]) for field in base.init(repeated, size._replace(n_open=1))
    ]
    free, pool, turns = (np.zeros((n_runs, length), np.int64) for length in (capacity, 3, capacity))
    return pool_of(base.state)(*fields, free, pool, turns)


@cache
def pooled(base: Rule, order: str) -> Rule:
    """Return the rule of a pool of learners with this rule."""
    # The loop calls the `revise` of a pool also with a reward below 1, which `step_late` would take for a "right".
    if base.revise is step_late and base.observation is right_or_wrong:
        base = replace(base, revise=step_late_by)
    slots = base.as_base("pick", "step", "tick", "revise", "is_correct")
    slots |= {"take": ORDERS[order], "instance_of": taker(base.state)}
    return Rule(
        f"bold({base.name})",
        base.params,
        None,
        fill(step, **slots),
        state=pool_of(base.state),
        init=partial(init, base),
        observation=base.observation,
        extras=("number", "number", *base.extras),
        revise=fill(revise, **slots),
        pick=fill(pick, **slots),
        is_correct=fill(is_correct, **slots),
        restricts=base.restricts,
        grows=False,
        per_round_state=True,
        corrects_exactly=base.corrects_exactly,
    )


def check_pool(state: Any, book: Book) -> None:
    """Raise ValueError if an instance of a pool is missing, or is both free and waiting, or waits for two answers."""
    capacity, (head, n_free, made) = state.turns.size, state.pool.tolist()
    same = all(len(field) == capacity for name, field in state._asdict().items() if name != "pool")
    if not (same and 0 <= head < capacity and 0 <= n_free <= made <= capacity):
        raise ValueError("state.pool is inconsistent")
    noted = np.array([book.play(n).extra[:OWN] for n in book.kept]).reshape(-1, OWN)
    # An instance is busy until an answer, or an expiry as wrong, is applied; a correction finds it free.
    waits = [n not in book.ended or book.ended[n].event in (ANSWER_EVENT, EXPIRY_EVENT) for n in book.kept]
    owner, busy = noted[:, INSTANCE], np.array(waits, bool)
    taken = np.concatenate([np.roll(state.free, -head)[:n_free], owner[busy]])
    if not (np.isin(np.concatenate([owner, taken]), np.arange(made)).all() and np.unique(taken).size == taken.size):
        raise ValueError("state.free is inconsistent")
    turn, turns = noted[:, TURN], state.turns[owner.astype(np.int64)]
    if not np.where(busy, turn == turns, (turn >= 1) & (turn <= turns) & (turn == np.floor(turn))).all():
        raise ValueError("state.turns is inconsistent")


class Bold(Learner):
    r"""BOLD: every round is played by an instance of `base` that waits for no answer, a new one if all wait.

    Its answer goes to the same instance, which is then free again. So no instance sees a delay, and a base
    with regret f(T) keeps, with at most G rounds open besides the present one,

    .. math:: R_T \le (G + 1)\, f\!\left(\frac{T}{G + 1}\right)

    The price is memory, (G + 1) times that of the base, 2 GiB at most, and that instances do not share what they learn.
    A round that is never answered occupies its instance forever, and so does one that expires with on_expiry="drop";
    on_expiry="wrong" frees it. `predict`, `scores` and `weights` are those of the instance that would play next;
    while all wait (a new one would play, which knows nothing), of the one that played most.

    Parameters
    ----------
    base : Learner
        A new learner, of which all instances are copies; expiry is set on the pool. With standardize=True each
        instance standardises by the rows that it played itself.
    order : {"lifo", "fifo"}
        Which of the free instances plays: the one that became free last (few instances learn much) or first
        (all learn the same).
    seed : int, optional
        By default that of the base.

    Examples
    --------
    >>> from delaytron import Banditron
    >>> learner = Bold(Banditron(n_classes=3, n_features=2, seed=7))
    >>> first, second = learner.decide([1.0, 0.0]), learner.decide([1.0, 0.0])
    >>> learner.instances
    2
    >>> learner.feedback(first.id, correct=True)
    'accepted'
    >>> _ = learner.decide([0.0, 1.0])
    >>> learner.instances
    2
    """

    name = "bold"
    grid = {}

    def __init__(self, base: Learner, order: str = "lifo", **common: Unpack[Common]) -> None:
        self.base = _checked_base(base)
        self.order = check_choice("order", order, ORDERS)
        for name in ("standardize", "ties"):
            value = common.get(name)
            if value not in (None, False):
                hint = f"as in Bold(Banditron(9, 400, {name}={value!r}))"
                raise InvalidInput(f"{name} belongs to the base", hint, parameter=name)
        self.rule = pooled(base.rule, self.order)
        self.name, self.feedback_type = self.rule.name, base.feedback_type  # type: ignore[misc]
        self.takes_rewards = base.takes_rewards  # type: ignore[misc]
        if common.get("seed") is None:
            common["seed"] = base.seed
        super().__init__(base.n_classes, base.n_features, base.params, common)

    @property
    def instances(self) -> int:
        """The number of instances: the most rounds that were open at once."""
        return int(self.state.pool[MADE])

    def _prepare(self) -> None:
        """Grow the pool if the next round needs one more instance than there is memory for; doubled, to grow rarely."""
        book = self.book
        # An answer, or an expiry as wrong, is applied before the choice and frees an instance.
        if any(book.ended[number].event in (ANSWER_EVENT, EXPIRY_EVENT) for number in book.to_apply()):
            return
        capacity, needed = self.state.turns.size, self._needed(1)
        if needed > capacity:
            self.state = self._grown(max(needed, min(2 * capacity, MOST_BYTES // self._state_bytes(self.sparse))))

    def _with_capacity(self, n_rounds: int) -> Any:
        """Return the state as a batch of one, for `n_rounds` more rounds open at once."""
        state = self._grown(max(self.state.turns.size, self._needed(n_rounds)))
        return type(state)(*(field[None] for field in state))  # views: `stack` would copy up to 2 GiB

    def _needed(self, n_rounds: int) -> int:
        """Return the number of instances for `n_rounds` more rounds open at once."""
        return self.instances + max(0, n_rounds - int(self.state.pool[FREE]))

    def _grown(self, capacity: int) -> Any:
        """Return the state with memory for `capacity` instances."""
        stacked = self.rule.init(stack(self.params), self.size(self.sparse)._replace(n_open=capacity))
        state = type(stacked)(*(field[0] for field in stacked))
        # The ring wraps around at its old length: in the longer one it has to begin at 0.
        unrolled = self.state._replace(free=np.roll(self.state.free, -self.state.pool[HEAD]))
        for field, known in zip(state, unrolled, strict=True):
            field[: len(known)] = known
        state.pool[HEAD] = 0
        return state

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row; explores nothing and changes nothing."""
        with self._lock:
            return self._next_instance(self.state).predict(X)

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        with self._lock:
            return self._next_instance(self.state).scores(X)

    def probabilities(self, x: Any, allowed: Any = None) -> Array:
        """Return the probability with which each label would be played now; explores nothing and changes nothing."""
        with self._lock:
            return self._next_instance(self.state).probabilities(x, allowed)

    def contributions(self, x: Any) -> Contributions:
        """Return the scores of one row in parts: a constant, and what each of its features adds."""
        with self._lock:
            return self._next_instance(self.state).contributions(x)

    def _linear_form(self) -> LinearForm:
        """Return the linear form of the instance that plays next."""
        return linear_form(self._next_instance(self.state))

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state as a (K, d) matrix, a copy."""
        return self._next_instance(state).weights

    def _decision(self, play: Play) -> Any:
        """Return a round as the base would return it."""
        return self.base._decision(play._replace(extra=play.extra[OWN:]))

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:
        """Return a mask of the plays that were right."""
        return self.base._is_correct(labels, extras[:, OWN:], y)

    def _next_instance(self, state: Any) -> Learner:
        """Return the instance that plays next (the one that played most while all wait) as a learner of its own."""
        last = self.order == "lifo"
        ring = (state.pool[HEAD] + (state.pool[FREE] - 1 if last else 0)) % state.free.size
        i = state.free[ring] if state.pool[FREE] else np.argmax(state.turns)
        instance = type(self.base.state)(*(getattr(state, name)[i] for name in self.base.state._fields))
        return self.base._knowing(self.sparse, instance)

    def restore(self, sparse: bool, state: Any, book: Book) -> None:
        """Take over a saved state; raise ValueError if compiled code cannot trust its pool."""
        check_pool(state, book)
        # The base was made without a state; only now is it known that the file has the numbers for one of that size.
        self.base._reset_state(sparse=False)
        super().restore(sparse, state, book)

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in (*own_parameters(type(self)), *COMMON)}


def _checked_base(base: Any) -> Learner:
    """Return the base; raise InvalidInput if a pool cannot be made from it."""
    if not isinstance(base, Learner) or base.rule.per_round_state:
        raise InvalidInput.of("base", "a learner that is no pool", base, "as in Bold(Banditron(9, 400))")
    if base.book.rounds:
        raise InvalidInput(
            f"base must be new, this {type(base).__name__} has played {base.book.rounds} rounds", "make a new one"
        )
    for name, default in COMMON.items():
        value = getattr(base, name)
        if name not in ("seed", "standardize", "ties") and value != default:
            raise InvalidInput(f"{name} belongs to the pool", f"as in Bold(base, {name}={value!r})", parameter=name)
    return base
