"""BOLD (Joulani, Gyorgy and Szepesvari, 2013): a pool of learners, none of which ever sees a delay."""

from typing import Any, Unpack

import numpy as np

from delaytron.checks import check_choice, shown
from delaytron.errors import InvalidInput
from delaytron.kernels.loop import ANSWERED, EXPIRED
from delaytron.learners.base import Learner
from delaytron.learners.ledger import Ledger
from delaytron.learners.looking import Contributions
from delaytron.learners.options import COMMON, Common, own_parameters
from delaytron.learners.pool import FREE, HEAD, MADE, ORDERS, OWN, allowed_capacity, check_pool, pooled
from delaytron.learners.rule import stack
from delaytron.records import Array, Bools, Ints, Play


class Bold(Learner):
    r"""BOLD: every round is played by an instance of `base` that waits for no answer, a new one if all wait.

    Its answer goes to the same instance, which is free again then. So each instance lives without delay, and
    a base with regret f(T) keeps, with at most G rounds open beside the present one,

    .. math:: R_T \le (G + 1)\, f\!\left(\frac{T}{G + 1}\right)

    The price is memory, (G + 1) times that of the base, 2 GiB at most, and that what one instance learns the
    others do not. A round that is never answered keeps its instance forever, and so does one that expires with
    on_expiry="drop"; on_expiry="wrong" sets it free. `predict`, `scores` and `weights` are those of the instance
    that would play next; while all wait (a new one would play, which knows nothing), of the one that played most.

    Parameters
    ----------
    base : Learner
        A fresh learner as the pattern; its noise, expiry and average must be left to this one. With
        standardize=True each instance standardises by the rows that it played itself.
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
    averages = False
    grid = {}

    def __init__(self, base: Learner, order: str = "lifo", **common: Unpack[Common]) -> None:
        self.base = _fresh(base)
        self.order = check_choice("order", order, ORDERS)
        if common.get("standardize"):
            raise InvalidInput("standardize belongs to the base, as in Bold(Banditron(9, 400, standardize=True))")
        if common.get("ties") is not None:
            raise InvalidInput("ties belongs to the base, as in Bold(Banditron(9, 400, ties='random'))")
        self.rule = pooled(base.rule, self.order)
        self.name, self.feedback_type = self.rule.name, base.feedback_type  # type: ignore[misc]
        self.takes_rewards = base.takes_rewards  # type: ignore[misc]
        if common.get("seed") is None:
            common["seed"] = base.seed
        super().__init__(base.n_classes, base.n_features, base.params, common)

    @property
    def instances(self) -> int:
        """How many instances there are: the most rounds that were open at once."""
        return int(self.state.pool[MADE])

    def _prepare(self, now: int) -> None:
        """Make room for one more instance if none will be free."""
        model = self.feedback_model
        will_be_free = {ANSWERED, EXPIRED} & set(self.ledger.arrived.values())
        if will_be_free or (model.as_wrong and self.ledger.waits(model.expiring(now))):
            return
        capacity, needed = self.state.turns.size, self._needed(1)
        if needed > capacity:
            self.state = self._grown(max(needed, min(2 * capacity, allowed_capacity(self._state_bytes(self.sparse)))))

    def _with_capacity(self, n_rounds: int) -> Any:
        """Return the state as a batch of one, with room for so many more rounds open at once."""
        state = self._grown(max(self.state.turns.size, self._needed(n_rounds)))
        return type(state)(*(field[None] for field in state))

    def _needed(self, n_rounds: int) -> int:
        return self.instances + max(0, n_rounds - int(self.state.pool[FREE]))

    def _grown(self, capacity: int) -> Any:
        """Return the state with room for so many instances."""
        stacked = self.rule.init(stack(self.params), self.size(self.sparse)._replace(n_open=capacity))
        state = type(stacked)(*(field[0] for field in stacked))
        unrolled = self.state._replace(free=np.roll(self.state.free, -self.state.pool[HEAD]))
        for field, known in zip(state, unrolled, strict=True):
            field[: len(known)] = known
        state.pool[HEAD] = 0
        return state

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row; explores nothing and changes nothing."""
        with self._lock:
            return self._speaker(self.state).predict(X)

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        with self._lock:
            return self._speaker(self.state).scores(X)

    def probabilities(self, x: Any, allowed: Any = None) -> Array:
        """Return with which probability each label would be played now; explores nothing and changes nothing."""
        with self._lock:
            return self._speaker(self.state).probabilities(x, allowed)

    def contributions(self, x: Any) -> Contributions:
        """Return the scores of one row in parts: a constant, and what each of its features adds."""
        with self._lock:
            return self._speaker(self.state).contributions(x)

    @property
    def weights(self) -> Array:
        """The weights as a (K, d) matrix, a copy."""
        with self._lock:
            return self._speaker(self.state).weights

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state as a (K, d) matrix, a copy."""
        return self._speaker(state).weights

    def _decision(self, play: Play) -> Any:
        """Return what the caller gets to know of a round, as the base has it."""
        return self.base._decision(play._replace(extra=play.extra[OWN:]))

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:
        """Return which of the rounds played rightly."""
        return self.base._is_correct(labels, extras[:, OWN:], y)

    def _speaker(self, state: Any) -> Learner:
        """Return a learner of the base's kind that knows what one instance knows."""
        last = self.order == "lifo"
        ring = (state.pool[HEAD] + (state.pool[FREE] - 1 if last else 0)) % state.free.size
        i = state.free[ring] if state.pool[FREE] else np.argmax(state.turns)
        instance = type(self.base.state)(*(getattr(state, name)[i] for name in self.base.state._fields))
        return self.base._knowing(self.sparse, instance)

    def restore(self, sparse: bool, state: Any, ledger: Ledger, average: Array | None, begun: bool = False) -> None:
        """Take over a saved state, if its pool is such that the compiled loop can trust it."""
        check_pool(state, ledger)
        super().restore(sparse, state, ledger, average, begun)

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in (*own_parameters(type(self)), *COMMON)}


def _fresh(base: Any) -> Learner:
    """Return the base if it can be one."""
    if not isinstance(base, Learner) or base.rule.per_round_state:
        raise InvalidInput(f"base must be a learner that is no pool, as in Bold(Banditron(9, 400)); got {shown(base)}")
    if base.ledger.rounds:
        raise InvalidInput(
            f"base must be fresh, this {type(base).__name__} has played {base.ledger.rounds} rounds; make a new one"
        )
    for name, default in COMMON.items():
        if name not in ("seed", "standardize", "ties") and getattr(base, name) != default:
            raise InvalidInput(f"{name} belongs to the pool, as in Bold(base, {name}={getattr(base, name)!r})")
    return base
