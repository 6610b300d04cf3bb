"""`DelayedClassifier`: a learner as a River classifier, for which labels are right-or-wrong feedback, however late."""

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
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.learners import DEFAULT_LEARNER
from delaytron.learners.book import Book
from delaytron.learners.files import make_named, parts_of
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import class_probabilities, models_classes
from delaytron.model.encoders import make_encoder
from delaytron.records import Row

__all__ = ["DelayedClassifier"]

Key: TypeAlias = tuple[bytes, bytes]  # the bytes of a row: equal rows have the same key


class DelayedClassifier(Classifier):  # type: ignore[misc] # without types
    """A classifier that learns only whether its own predictions are right, however late the labels come.

    `predict_one` makes a decision: it may explore, and stays open until the label of its features comes. `learn_one`
    gives feedback, right or wrong, for the oldest open decision about the same features. If there is none, it makes a
    decision first.

    Parameters
    ----------
    learner
        A name of `dt.LEARNERS`; the default needs no tuning.
    parameters
        Parameters of the learner.
    classes
        The labels among which to choose. By default a label can be chosen after its first `learn_one`.
    bits
        Features are hashed to 2**bits indices.
    ngrams
        The number of words of the longest phrases that are features of free text.
    max_open
        The maximum number of open decisions; beyond it the oldest is cancelled.
    seed
        Random seed of the exploration; drawn from the operating system by default.

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
            raise InvalidInput.of("classes", "a list of labels", classes)
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
            self._names = [_check_class(name) for name in self.classes]
            check_distinct("classes", self._names)
            self._labels = {name: label for label, name in enumerate(self._names)}
        made = self._make_learner(max(2, len(self._names)), 1)  # raises if the learner or a parameter is wrong
        if not made.rule.restricts:
            raise InvalidInput(
                f"{learner} plays sets of labels, and River needs one", ("take another ", Setting("learner"))
            )
        self._begin()

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Give feedback for the oldest open decision about these features; if none is open, decide first.

        Raises InvalidInput for a value that cannot be a label, and for a new label if the learner cannot take another
        class.
        """
        row = self._encode(x)
        label = self._label_of(y)
        if self._learner is None:
            return  # there is only one class
        key = _key_of(row)
        number = self._open[key][0] if key in self._open else self._decide(self._learner, row)
        play = self._learner.book.play(number)
        answer = label if self._learner.feedback_type == "label" else int(play.label == label)
        self._close(number)
        self._learner.answer(number, answer)
        self._learner.flush()

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:  # noqa: ARG002 - River's
        """Return a label for these features, and leave the decision open for `learn_one`; it may explore.

        Returns None before a label is known. Raises InvalidInput if features are no dict.
        """
        row = self._encode(x)
        if self._learner is None:
            return self._names[0] if self._names else None
        number = self._decide(self._learner, row)
        return self._names[self._learner.book.play(number).label]

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ARG002 - River's
        """Return the probability of each label; makes no decision and changes nothing.

        Raises NotImplementedError, as River's own classifiers do, if the learner does not model probabilities.
        """
        if not models_classes(self.learner):
            raise NotImplementedError(f"{self.learner} has scores, and no probabilities; use predict_one")
        row = self._encode(x)
        if self._learner is None:
            return dict.fromkeys(self._names, 1.0)
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

        parts = (row.values, row.indices.astype(np.int32), np.array([0, row.values.size]))
        matrix = csr_array(parts, shape=(1, self._learner.n_features))
        chances = class_probabilities(self._learner, matrix)[0]
        return dict(zip(self._names, chances.tolist(), strict=True))

    @property
    def n_open(self) -> int:
        """The number of open decisions."""
        return len(self._waiting)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _raw_memory_usage(self) -> int:
        """The bytes of the learner and of open decisions; River itself would count compiled code, too."""
        own = 0 if self._learner is None else sum(part.nbytes for part in parts_of(self._learner)[1].values())
        waiting = sum(map(len, chain.from_iterable(self._waiting.values())))
        return sys.getsizeof(self) + sum(map(sys.getsizeof, (self._names, self._labels, self._open))) + own + waiting

    def _make_learner(self, n_classes: int, n_features: int) -> Learner:
        return make_named(self.learner, self.parameters, n_classes, n_features, self.seed)

    def _begin(self) -> None:
        """Create the learner when there are two classes."""
        if len(self._names) > 1:
            self._learner = self._make_learner(len(self._names), self._encoder.n_features)
            self._learner._reset_state(sparse=True)

    def _encode(self, x: dict[Any, Any]) -> Row:
        """Return features as a row; in River their names need not be text."""
        if not isinstance(x, Mapping):
            raise InvalidInput.of("features", "a dict, as in {'age': 7}", got=type(x).__name__, hint="give a dict")
        row = self._encoder.encode({name if isinstance(name, str) else str(name): x[name] for name in x})
        self._encoder.new_names()  # discards them: they are for explanations only
        return row

    def _label_of(self, name: Any) -> int:
        """Return the index of a label; a new one is added to the classes."""
        if _check_class(name) in self._labels:
            return self._labels[name]
        if self._learner is not None and not self._learner.rule.grows:
            raise InvalidInput(
                f"{self.learner} cannot take another class, {name!r}",
                ("give all of them, ", Setting("classes", "[...]")),
            )
        if self._learner is not None:
            self._learner.add_class()
        self._names.append(name)
        self._labels[name] = len(self._names) - 1
        if self._learner is None:
            self._begin()
        return self._labels[name]

    def _decide(self, learner: Learner, row: Row) -> int:
        """Make a decision and leave it open; return its round."""
        if len(self._waiting) >= self.max_open:
            oldest = next(iter(self._waiting))
            self._close(oldest)
            learner.end(Book.cancel, oldest)
        number = learner.play_round(row, learner._labels).round
        key = _key_of(row)
        self._waiting[number] = key
        self._open.setdefault(key, deque()).append(number)
        return number

    def _close(self, number: int) -> None:
        """Remove a decision, which is the oldest about its features, from the open ones."""
        key = self._waiting.pop(number)
        self._open[key].popleft()
        if not self._open[key]:
            del self._open[key]


def _check_class(name: Any) -> Any:
    """Return a label; raise InvalidInput unless it is hashable, and equal to itself."""
    try:
        if isinstance(name, Hashable) and name is not None and bool(name == name):  # noqa: PLR0124 - NaN is not
            return name
    except TypeError:  # pandas.NA is neither
        pass
    raise InvalidInput(f"a label must be text, a number or True or False, got {shown(name)}", "use str(label)")


def _key_of(row: Row) -> Key:
    """Return the key of a row, the same for equal rows."""
    return row.indices.tobytes(), row.values.tobytes()
