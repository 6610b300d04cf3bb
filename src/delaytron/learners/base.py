"""The online object: decide now, learn whenever the answer comes. The same for every learner."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, cast

import numpy as np

from delaytron.checks import check_integer
from delaytron.errors import DelaytronError
from delaytron.kernels.linear import as_matrix, zero_weights
from delaytron.learners import rounds
from delaytron.learners.average import Average
from delaytron.learners.copies import copy_deeply, fields_of, reduce_learner, take_over
from delaytron.learners.ledger import Ledger
from delaytron.learners.options import COMMON, WORDS, Common, own_parameters, read_answer, read_common
from delaytron.learners.rows import as_kind_of_row, as_row
from delaytron.learners.rule import Rule, stack
from delaytron.learners.standardize import score_seen_rows, standardizing
from delaytron.matrices import check_matrix
from delaytron.records import Array, Bools, Decision, Ints, Play, Row, Size

DEFAULT_GAMMA = 2.0**-6
GAMMAS = tuple(2.0**-k for k in range(2, 12))


class Learner:
    """A learner that decides now, and gets to know later (or never) what came of it.

    The first decision fixes whether it works on dense rows or on sparse ones; others are converted. An error leaves all
    as it was; whatever exception interrupts a call, the next one goes on exactly. Threads may share a learner.

    Parameters
    ----------
    seed : int, optional
        Fixes the exploration and the noise; by default nobody knows it before.
    noise : (rho0, rho1), optional
        Rehearse with false feedback: a "wrong" arrives as "right" at the rate rho0, a "right" as "wrong" at rho1.
    expire_after : int, optional
        Stop waiting for an answer that has not come when this many rounds have passed.
    on_expiry : {"drop", "wrong"}
        Forget such a decision; or count it as wrong, and correct that when a "right" comes after all.
    average : bool
        Let `predict`, `scores` and `weights` use the average of the weights over all rounds.
    standardize : bool
        See every row standardised by the rows so far, with a constant behind it; `weights` then has d + 1 columns.
    """

    rule: Rule
    name: ClassVar[str]
    feedback_type: ClassVar[str] = "correct"
    """What the feedback tells this learner: whether the label was `correct`, or the true `label`."""
    takes_rewards: ClassVar[bool] = False
    """Whether the answer may also be a `reward` from 0 (wrong) to 1 (right)."""
    averages: bool = True
    """Whether an average of the weights makes sense: an answer moves only those of the features it is about."""
    remark: ClassVar[str] = ""
    """Why its errors mean something else than those of most others, where they do."""
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {"gamma": GAMMAS}
    """The values of its parameters among which a comparison chooses."""
    scratch: tuple[Array, Array, Array]
    _marks: Array
    _is_compiled: bool
    _draws: np.random.Generator
    _noise: np.random.Generator

    def __init__(self, n_classes: int, n_features: int, params: Any, common: Common) -> None:
        options, self.feedback_model = read_common(self, common)
        self.n_classes = check_integer("n_classes", n_classes, at_least=2)
        self.n_features = check_integer("n_features", n_features, at_least=1)
        self.seed = int(options["seed"])
        self.average = bool(options["average"])
        self.noise = (self.feedback_model.rho0, self.feedback_model.rho1) if options["noise"] is not None else None
        self.expire_after = options["expire_after"]
        self.on_expiry = str(options["on_expiry"])
        self.standardize = bool(options["standardize"])
        self.rule = standardizing(self.rule) if self.standardize else self.rule
        self.params = params
        self.ledger = Ledger(WORDS.get(self.feedback_type, ()), self.takes_rewards)
        self._lock = RLock()
        self._interrupted = False
        self._at_hand: tuple[Row, Array] = (Row(None, np.empty(0)), np.empty(0))  # of the round being played
        self._flips: dict[int, int] = {}
        rounds.rewind(self)
        self._reset_state(sparse=False)

    def decide(self, x: Any) -> Decision:
        """Play one round: apply the answers that came, then choose a label for `x`.

        Parameters
        ----------
        x : 1-D array, list, or one CSR row
            The example.
        """
        given = as_row(x, self.n_features, None)
        with self._lock:
            rounds.recover(self)
            self._interrupted = True
            now = self.ledger.rounds + 1
            if now == 1:
                self._reset_state(sparse=given.indices is not None)
            row = as_kind_of_row(given, self.n_features, self.sparse)
            self._prepare(now)
            rounds.compile_all(self, row)
            rounds.begin(self, now)
            play = rounds.choose(self, now, row)
            self._interrupted = False
            return cast(Decision, self._decision(play))

    def feedback(
        self, id: int, correct: bool | None = None, *, label: int | None = None, reward: float | None = None
    ) -> str:
        """Give the answer to a decision: at any time, in any order; it is applied when the next round begins.

        Returns "accepted"; "duplicate" when the same answer was known already; "expired" when the decision had been
        dropped. The last two change nothing.
        """
        answer = read_answer(self, correct, label, reward)
        with self._lock:
            rounds.recover(self)
            self._interrupted = True
            reply = self.ledger.answer(id, answer)
            self._interrupted = False
            if isinstance(reply, DelaytronError):
                raise reply
            return reply

    def flush(self) -> None:
        """Apply the answers that came now; this is not a round, so no clock moves."""
        with self._lock:
            rounds.recover(self)
            self._interrupted = True
            rounds.apply_arrived(self)
            self._interrupted = False

    def _prepare(self, now: int) -> None:
        """Get ready for a round; what can fail fails here, before anything has changed."""

    def _decision(self, play: Play) -> Any:
        """Return what the caller gets to know of a round."""
        return Decision(play.round, play.round, play.label, play.greedy, play.prob)

    @property
    def pending(self) -> int:
        """How many decisions still wait for an answer; one that expired does not."""
        return self.ledger.pending

    def predict(self, X: Any) -> Ints:
        """Return the greedy label of every row; explores nothing and changes nothing."""
        return np.asarray(np.argmax(self.scores(X), axis=1), np.int64)

    def scores(self, X: Any) -> Array:
        """Return the scores W x of every row, as an (n, K) array."""
        return self._score(X, self._scoring_weights)

    def _score(self, X: Any, weights: Callable[[], Array]) -> Array:
        """Score all rows by the weights of one moment, while no other thread changes them."""
        rows: Any = check_matrix(X, self.n_features, one_row_ok=True)
        with self._lock:
            return score_seen_rows(self, rows, weights())

    @property
    def weights(self) -> Array:
        """The weights as a (K, d) matrix, a copy."""
        with self._lock:
            return self._matrix(self._scoring_weights())

    def weights_of(self, state: Any) -> Array:
        """Return the weights of a state as a (K, d) matrix, a copy, not averaged."""
        return self._matrix(self._held_weights(state))

    def _held_weights(self, state: Any) -> Array:
        """Return the weights of a state the way `kernels.linear` wants them."""
        return cast(Array, state.W)

    def _is_correct(self, labels: Ints, extras: Array, y: Ints) -> Bools:  # noqa: ARG002
        """Return which of the rounds played rightly."""
        return np.asarray(labels == y)

    def _with_capacity(self, n_rounds: int) -> Any:  # noqa: ARG002
        """Return the state as a batch of one, with room for so many more rounds."""
        return stack(self.state)

    def _matrix(self, W: Array) -> Array:
        return np.array(as_matrix(W, self.n_classes, self.sparse and not self.rule.standardizes), order="C")

    def _scoring_weights(self) -> Array:
        """Return the weights that `scores` and `weights` show."""
        W = self._held_weights(self.state)
        return self._average.of(W, self.ledger.rounds) if self.average else W

    def save(self, path: str | Path) -> None:
        """Write the learner with its open decisions to one safetensors file; `delaytron.load` reads it."""
        from delaytron.learners.files import save  # noqa: PLC0415 - files.py knows all learners

        with self._lock:
            rounds.recover(self)
            save(self, path)

    def size(self, sparse: bool) -> Size:
        """Return for what the state of this learner must have room."""
        return Size(self.n_classes, self.n_features, sparse)

    def _state_bytes(self, sparse: bool) -> int:
        """Return how much memory the state of one run takes."""
        return sum(field.nbytes for field in self.rule.init(stack(self.params), self.size(sparse)))

    def _reset_state(self, sparse: bool) -> None:
        """Start from zero, with weights for dense or for sparse rows."""
        stacked = self.rule.init(stack(self.params), self.size(sparse))
        state = type(stacked)(*(field[0] for field in stacked))
        average = {"_average": Average(zero_weights(1, self.size(sparse))[0])} if self.average else {}
        rounds.start_from(self, begun=0)
        vars(self).update(average, sparse=sparse, state=state)  # all at once: compiled code trusts that they fit

    def restore(self, sparse: bool, state: Any, ledger: Ledger, average: Array | None, begun: bool = False) -> None:
        """Take over a saved state; exploration and noise go on with the draws after the last decision's."""
        self.sparse = sparse
        self.state = state
        self.ledger = ledger
        rounds.start_from(self, ledger.rounds + 1 if begun else 0)
        if average is not None:
            self._average = Average(average)
        rounds.rewind(self)

    __reduce__ = reduce_learner
    __setstate__ = take_over
    __deepcopy__ = copy_deeply

    def _knowing(self, sparse: bool, state: Any) -> "Learner":
        """Return a learner like this one but for its state, which is not copied."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, sparse=sparse, state=state)
        return twin

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ["n_classes", "n_features", *own_parameters(type(self)), *COMMON]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.settings().items() if k == "seed" or k not in COMMON or v != COMMON[k]}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


rounds.ENTRIES.update(
    call.__code__ for call in (Learner.decide, Learner.feedback, Learner.flush, Learner.save, fields_of)
)
