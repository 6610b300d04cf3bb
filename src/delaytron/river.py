"""A learner as a River classifier: what it predicts is a decision, and its label tells only whether that was right."""

import sys
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from delaytron.extras import needs

needs("river")
from river.base import Classifier

from delaytron.checks import check_distinct, check_integer
from delaytron.errors import InvalidInput
from delaytron.kernels.loop import DROPPED
from delaytron.learners import DEFAULT_LEARNER
from delaytron.learners.base import Learner
from delaytron.learners.chances import chances_of, has_chances
from delaytron.learners.files import parts_of
from delaytron.learners.ledger import CANCELLED
from delaytron.learners.named import make_named
from delaytron.model.encoding import make_encoder
from delaytron.records import Row

__all__ = ["DelayedClassifier"]

Key: TypeAlias = tuple[bytes, bytes]  # what a row is told by


class DelayedClassifier(Classifier):  # type: ignore[misc] # without types
    """A classifier that gets to know whether its own labels are right, whenever that comes, and nothing else.

    `predict_one` decides: it may explore, and waits for the label of its features. `learn_one` answers the oldest open
    decision about the same features by whether it was right. If there is none, it decides first. So a label is one
    answer, right or wrong, about one decision, however late it comes; and one for features that nobody asked for is an
    answer to a decision of that moment.

    Parameters
    ----------
    learner
        A name of `dt.LEARNERS`; by default the one that needs no tuning.
    parameters
        Those of the learner, by their names.
    classes
        The labels among which to choose. By default a label can be chosen when `learn_one` has had it once.
    bits
        Features are hashed to 2**bits places.
    ngrams
        Of free text, phrases of up to so many words count.
    max_open
        Wait for at most so many labels; the decision that has waited longest is dropped.
    seed
        Fixes the exploration; by default nobody knows it before.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = DelayedClassifier(bits=10, seed=0)
    >>> metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy(), delay=20)
    >>> metric.get() > 0.75
    True
    """

    def __init__(
        self,
        learner: str = DEFAULT_LEARNER,
        parameters: dict[str, Any] | None = None,
        classes: Iterable[Any] | None = None,
        bits: int = 18,
        ngrams: int = 1,
        max_open: int = 100_000,
        seed: int | None = None,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        if isinstance(classes, str) or not isinstance(classes, Iterable | None):
            raise InvalidInput(f"classes must be a list of labels, got {classes!r}")
        self.classes = None if classes is None else list(classes)
        self.bits = bits
        self.ngrams = ngrams
        self.max_open = check_integer("max_open", max_open, at_least=1)
        self.seed = seed
        self._encoder = make_encoder("hashed", bits, ngrams)
        self._names: list[Any] = []
        self._labels: dict[Any, int] = {}
        self._open: dict[Key, deque[int]] = {}
        self._waiting: dict[int, Key] = {}  # in the order of the decisions
        self._learner: Learner | None = None
        if self.classes is not None:
            check_distinct("classes", self.classes)
            self._names = [_check_class(name) for name in self.classes]
            self._labels = {name: label for label, name in enumerate(self._names)}
        made = self._make_learner(max(2, len(self._names)), 1)  # raises here if no such learner can be made
        if not made.rule.restricts:
            raise InvalidInput(f"{learner} plays sets of labels, and River asks for one; take another learner")
        self._begin()

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Tell the oldest open decision about these features whether it was right; if none is open, decide first."""
        row = self._encode(x)
        label = self._label_of(y)
        if self._learner is None:
            return  # of one class there is nothing to learn
        key = _key_of(row)
        number = self._open[key][0] if key in self._open else self._decide(self._learner, row)
        play = self._learner.ledger.play(number)
        answer = label if self._learner.feedback_type == "label" else int(play.label == label)
        self._close(number)
        self._learner._take_answer(number, answer)
        self._learner.flush()

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:  # noqa: ARG002 - River's
        """Decide on a label for these features, by chance now and then; its answer comes by `learn_one`.

        Returns None before a label is known.
        """
        row = self._encode(x)
        if self._learner is None:
            return self._names[0] if self._names else None
        number = self._decide(self._learner, row)
        return self._names[self._learner.ledger.play(number).label]

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ARG002 - River's
        """Return how likely each label is; decides nothing and changes nothing.

        Raises NotImplementedError, as River's own classifiers do, where the learner does not model that.
        """
        if not has_chances(self.learner):
            raise NotImplementedError(f"{self.learner} has scores, and no probabilities; use predict_one")
        row = self._encode(x)
        if self._learner is None:
            return dict.fromkeys(self._names, 1.0)
        chances = chances_of(self._learner, _as_matrix(row, self._learner.n_features))[0]
        return dict(zip(self._names, chances.tolist(), strict=True))

    @property
    def n_open(self) -> int:
        """How many decisions wait for their labels."""
        return len(self._waiting)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _raw_memory_usage(self) -> int:
        """The bytes of what was learned and of what waits; River itself would count compiled code and its compiler."""
        own = 0 if self._learner is None else sum(part.nbytes for part in parts_of(self._learner)[1].values())
        waiting = sum(map(len, chain.from_iterable(self._waiting.values())))
        return sys.getsizeof(self) + sum(map(sys.getsizeof, (self._names, self._labels, self._open))) + own + waiting

    def _make_learner(self, n_classes: int, n_features: int) -> Learner:
        return make_named(self.learner, self.parameters, n_classes, n_features, self.seed)

    def _begin(self) -> None:
        """Make the learner when there is something to choose."""
        if len(self._names) > 1:
            self._learner = self._make_learner(len(self._names), self._encoder.n_features)
            self._learner._reset_state(sparse=True)

    def _encode(self, x: dict[Any, Any]) -> Row:
        """Return features as a row; River's may have names of any kind."""
        if not isinstance(x, Mapping):
            raise InvalidInput(f"features must be a dict, as in {{'age': 7}}; got {type(x).__name__}")
        row = self._encoder.encode({name if isinstance(name, str) else str(name): x[name] for name in x})
        self._encoder.new_names()  # nobody asks for them: they need not be kept
        return row

    def _label_of(self, name: Any) -> int:
        """Return the number of a label; a new one can be chosen from now on."""
        if _check_class(name) in self._labels:
            return self._labels[name]
        if self._learner is not None and not self._learner.rule.grows:
            raise InvalidInput(f"{self.learner} cannot take another class, {name!r}: give all of them, classes=[...]")
        if self._learner is not None:
            self._learner.add_class()
        self._names.append(name)
        self._labels[name] = len(self._names) - 1
        if self._learner is None:
            self._begin()
        return self._labels[name]

    def _decide(self, learner: Learner, row: Row) -> int:
        """Make a decision that waits for its label; return its number."""
        if len(self._waiting) >= self.max_open:
            oldest = next(iter(self._waiting))
            self._close(oldest)
            learner._end_wait(oldest, DROPPED, CANCELLED)
        number = learner._play_row(row, learner._labels).round
        key = _key_of(row)
        self._waiting[number] = key
        self._open.setdefault(key, deque()).append(number)
        return number

    def _close(self, number: int) -> None:
        """Wait no longer for the label of a decision, which is the oldest about its features."""
        key = self._waiting.pop(number)
        self._open[key].popleft()
        if not self._open[key]:
            del self._open[key]


def _check_class(name: Any) -> Any:
    """Return a label, or raise: it must be hashable, and equal to itself."""
    try:
        if isinstance(name, Hashable) and name is not None and bool(name == name):  # noqa: PLR0124 - NaN is not
            return name
    except TypeError:  # pandas.NA is neither
        pass
    raise InvalidInput(f"a label must be a text, a number or True or False, got {name!r}")


def _key_of(row: Row) -> Key:
    """Return what two rows have in common only if they are the same to a learner."""
    return row.indices.tobytes(), row.values.tobytes()


def _as_matrix(row: Row, n_features: int) -> Any:
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    starts = np.array([0, row.values.size])
    return csr_array((row.values, row.indices.astype(np.int32), starts), shape=(1, n_features))
