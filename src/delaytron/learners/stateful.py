"""What a learner is made of: its settings, its state, and how both are copied and kept in files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Self, cast

import numpy as np

from delaytron.checks import check_integer
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import as_matrix, zero_weights
from delaytron.learners import rounds
from delaytron.learners.average import Average
from delaytron.learners.copies import copy_deeply, fields_of, reduce_learner, take_over
from delaytron.learners.fixed import fix_parameters
from delaytron.learners.ledger import Ledger, RoundBlock
from delaytron.learners.options import COMMON, GAMMAS, WORDS, Common, own_parameters, read_common
from delaytron.learners.rule import Rule, sharing_ties, stack
from delaytron.learners.standardize import standardizing
from delaytron.records import Array, Bools, Ints, Row, Size

MOST = 2**31 - 1  # classes, and features: as many as 32-bit indices can tell apart


class Stateful:
    """The part of a learner that does not decide: what it was made with and what it knows. See `Learner`."""

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
    _run_round: Callable[..., Any]
    _run_reward: Callable[..., Any] | None
    _draws: np.random.Generator
    _noise: np.random.Generator

    def __init_subclass__(cls) -> None:
        own = set(own_parameters(cls)) - {"params", "common"}
        fix_parameters(cls, {"n_classes", "n_features", *own, *COMMON})

    def __init__(self, n_classes: int, n_features: int, params: Any, common: Common) -> None:
        options, self.feedback_model = read_common(self, common)
        self.n_classes = check_integer("n_classes", n_classes, at_least=2, at_most=MOST)
        self.n_features = check_integer("n_features", n_features, at_least=1, at_most=MOST)
        self.seed = int(options["seed"])
        self.average = bool(options["average"])
        self.noise = (self.feedback_model.rho0, self.feedback_model.rho1) if options["noise"] is not None else None
        self.expire_after = options["expire_after"]
        self.on_expiry = str(options["on_expiry"])
        self.standardize = bool(options["standardize"])
        self.ties = options["ties"]
        self.rule = sharing_ties(self.rule) if self.ties == "random" and self.rule.ties == "first" else self.rule
        self.rule = standardizing(self.rule) if self.standardize else self.rule
        self.params = params
        self.ledger = Ledger(WORDS.get(self.feedback_type, ()), self.takes_rewards)
        self._lock = RLock()
        self._interrupted = False
        self._at_hand: tuple[Row, Array] | RoundBlock = (
            Row(None, np.empty(0)),
            np.empty(0),
        )  # of the rounds being played
        self._flips: dict[int, int] = {}
        rounds.rewind(self)
        self._take_memory()

    def _take_memory(self) -> None:
        """Make room for what is to be learned, or say that it is too much."""
        try:
            self._reset_state(sparse=False)
            self._labels = np.arange(self.n_classes)
        except (MemoryError, ValueError) as problem:  # NumPy counts arrays that no memory can hold among the values
            if isinstance(problem, InvalidInput):
                raise
            size = f"n_classes={self.n_classes} and n_features={self.n_features}"
            raise InvalidInput(f"{size} need more memory than there is; take fewer of them") from None

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

    def export_onnx(self, path: str | Path, *, exact: bool = True) -> None:
        """Write the greedy prediction as an ONNX graph, which runs without this package; needs the extra `onnx`.

        Rows `X` of 64-bit floats give `label` (as `predict` does), `scores` and, where the learner has a softmax,
        `probabilities` that it gives to the labels. See docs/howto/onnx.md.

        Parameters
        ----------
        exact : bool
            Take sums in the order of `predict`, so that labels agree where scores differ in the last bit only; or leave
            the order to the runtime, which is faster.
        """
        from delaytron.learners.onnx_file import export  # noqa: PLC0415 - it knows all learners

        export(self, path, exact)  # type: ignore[arg-type]

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

    def _knowing(self, sparse: bool, state: Any) -> Self:
        """Return a learner like this one but for its state, which is not copied."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, sparse=sparse, state=state)
        return twin

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ["n_classes", "n_features", *own_parameters(type(self)), *COMMON]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._shown_settings().items())})"

    def _repr_html_(self) -> str:
        from delaytron.notebooks import facts, page  # noqa: PLC0415 - for notebooks only

        known = {"rounds played": self.ledger.rounds, "waiting for an answer": self.ledger.pending}
        return page(type(self).__name__, facts(known | self._shown_settings()))

    def _shown_settings(self) -> dict[str, Any]:
        """Return the settings that say something: those that all learners have only where they are not the usual."""
        return {k: v for k, v in self.settings().items() if k == "seed" or k not in COMMON or v != COMMON[k]}


rounds.ENTRIES.update(call.__code__ for call in (Stateful.save, fields_of))
