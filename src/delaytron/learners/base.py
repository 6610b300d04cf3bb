"""The online object: decide now, learn whenever the answer comes. The same for every learner."""

from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from delaytron._jit import fill
from delaytron.checks import flag, whole
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import as_matrix, padded, weight_shape
from delaytron.kernels.loop import score_all
from delaytron.learners.ledger import Ledger
from delaytron.learners.rule import Rule
from delaytron.matrices import as_kind, as_row, as_stream, check_matrix
from delaytron.records import Array, Decision, Ints, Play
from delaytron.rng import fresh_seed, stream

DEFAULT_GAMMA = 2.0**-6
NO_LABELS = np.empty(0, np.int64)
SCORED = 256  # rows scored together, so that converting them takes little memory
WORDS = {"correct": ("wrong", "correct")}

_score_all = fill(score_all, "score_all")


def new_scratch(n_classes: int) -> tuple[Array, Array]:
    """Return room for the scores and the probabilities of one round."""
    return np.empty(padded(n_classes)), np.empty(n_classes)


class Learner:
    """A learner that decides, and is told later (or never) what came of it.

    The first decision fixes whether the learner works on dense rows or on sparse ones; rows of the other kind
    are converted. An error leaves everything as it was. One thread at a time may decide, give feedback or save;
    `predict` and `scores` may run beside each other.
    """

    rule: ClassVar[Rule]
    hears: ClassVar[str] = "correct"
    """What the feedback tells this learner: whether the label was `correct`, or the true `label`."""

    def __init__(self, n_classes: int, n_features: int, params: Any, seed: int | None) -> None:
        self.n_classes = whole("n_classes", n_classes, at_least=2)
        self.n_features = whole("n_features", n_features, at_least=1)
        self.seed = fresh_seed() if seed is None else whole("seed", seed, at_least=0)
        self.params = params
        self.ledger = Ledger(WORDS.get(self.hears, ()))
        self._draws = stream(self.seed, "exploration")
        self.scratch = new_scratch(self.n_classes)
        self.settle(sparse=False)

    def decide(self, x: Any) -> Decision:
        """Play one round: apply the answers that came, then choose a label for `x`.

        Parameters
        ----------
        x : 1-D array, list, or one CSR row
            The example.
        """
        now = self.ledger.rounds + 1
        row = as_row(x, self.n_features, None if now == 1 else self.sparse)
        if now == 1:
            self.settle(sparse=row.indices is not None)
        if self.rule.keeps_clock:
            self.rule.advance.compiled(self.state, self.params, now, self.ledger.pending + 1)
        self.flush()
        u = self._draws.random()
        greedy, label, prob = self.rule.choose.compiled(self.state, self.params, row, u, self.scratch)
        self.ledger.open(Play(now, row, greedy, label, prob))
        return Decision(now, now, label, greedy, prob)

    def feedback(self, id: int, correct: bool | None = None, *, label: int | None = None) -> str:
        """Tell the answer to a decision: at any time, in any order; it is applied when the next round begins.

        Returns
        -------
        str
            "accepted", or "duplicate" when the same answer was known already and nothing happened.
        """
        return self.ledger.answer(id, self._answer(correct, label))

    def flush(self) -> None:
        """Apply the answers that came now; this is not a round, so no clock moves."""
        for number in sorted(self.ledger.arrived):
            past, answer = self.ledger.plays[number], self.ledger.answers[number - 1]
            self.rule.learn.compiled(self.state, self.params, past, answer)
            self.ledger.close(number)

    @property
    def pending(self) -> int:
        """How many decisions still wait for an answer."""
        return self.ledger.pending

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row; explores nothing and changes nothing."""
        return np.asarray(np.argmax(self.scores(X), axis=1), np.int64)

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        out, scratch = np.empty((rows.shape[0], self.n_classes)), np.empty(padded(self.n_classes))
        for start in range(0, rows.shape[0], SCORED):
            part = as_stream(as_kind(rows[start : start + SCORED], self.sparse), NO_LABELS)
            _score_all(self.state.W, part, scratch, out[start : start + SCORED])
        return out

    @property
    def weights(self) -> Array:
        """The weights as a (K, d) matrix, a copy."""
        return np.array(as_matrix(self.state.W, self.n_classes, self.sparse), order="C")

    def save(self, path: str | Path) -> None:
        """Write the learner with its open decisions to one safetensors file; `delaytron.load` reads it."""
        from delaytron.learners.files import save  # noqa: PLC0415 - files.py knows all learners

        save(self, path)

    def settle(self, sparse: bool) -> None:
        """Start from zero, with weights for dense or for sparse rows."""
        self.sparse = sparse
        stacked = self.rule.init(1, weight_shape(self.n_classes, self.n_features, sparse))
        self.state = type(stacked)(*(field[0] for field in stacked))

    def restore(self, sparse: bool, state: Any, ledger: Ledger) -> None:
        """Take over a saved state; the exploration goes on with the draw after the last decision's."""
        self.sparse, self.state, self.ledger = sparse, state, ledger
        self._draws = stream(self.seed, "exploration")
        cast(np.random.PCG64, self._draws.bit_generator).advance(ledger.rounds)

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"

    def _answer(self, correct: Any, label: Any) -> int:
        given = {"correct": correct, "label": label}
        value = given.pop(self.hears)
        if value is None or next(iter(given.values())) is not None:
            raise InvalidInput(f"{type(self).__name__} is told feedback(id, {self.hears}=...), nothing else")
        if self.hears == "correct":
            return int(flag("correct", value))
        if whole("label", value, at_least=0) >= self.n_classes:
            raise InvalidInput(f"label must be in 0..{self.n_classes - 1}, got {value!r}")
        return int(value)
