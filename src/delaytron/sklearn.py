"""A learner as a scikit-learn classifier: `DelayedClassifier` plays the labels as late right-or-wrong feedback."""

from typing import Any, Self

import numpy as np

from delaytron.extras import needs

needs("sklearn", "delaytron.sklearn")
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from delaytron.checks import check_bool
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.learners import DEFAULT_LEARNER
from delaytron.learners.base import Learner
from delaytron.learners.chances import chances_of, has_chances
from delaytron.learners.named import make_named
from delaytron.matrices import check_matrix
from delaytron.records import Array, Ints
from delaytron.rng import fresh_seed, stream
from delaytron.simulation.advance import Coming, advance, draw_piece, finish

__all__ = ["DelayedClassifier"]

MOST_SHOWN = 12  # classes in a message
NESTED = "parameters__"  # before the name of a parameter of the learner, in get_params and set_params


class DelayedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # without types
    """A classifier that gets to know whether its own labels are right, some rounds later, and nothing else.

    Every row is a round: the learner decides on a label, and the true one is used only to tell it, when the delay has
    passed, whether that was right. Rows are rounds in their order.

    Parameters
    ----------
    learner : str
        A name of `dt.LEARNERS`; by default the one that needs no tuning.
    delay : int, str or a model of `dt.delays`
        After how many rounds the feedback comes: an integer D means 1 to D at random, text is that of the command line,
        such as "fixed:100" or "lognormal:100,1.5+missing:0.2". 1 means before the next round.
    parameters : dict, optional
        Those of the learner, by their names. `set_params(parameters__gamma=0.1)` sets one of them.
    shuffle : bool
        Let `fit` play the rows in random order.
    random_state : int, RandomState, optional
        Fixes the exploration and the delays; by default nobody knows them before.

    Attributes
    ----------
    classes_ : ndarray
        The labels, ascending.
    error_curve_ : ndarray
        After each round, the share of rounds so far in which the label that was played is wrong.
    learner_ : dt.Learner
        What has learned; `learner_.save(path)` writes it to a file, its open decisions included.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    Notes
    -----
    `fit` begins anew, and waits at the end for the feedback that is still on its way, so that all rows count but those
    whose feedback is lost. `partial_fit` does not wait: what is on its way comes during the next calls, or with
    `finish`. Rows in pieces give the same, to the bit, as all in one call.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = DelayedClassifier(delay=100, random_state=0).fit(X[:1000], y[:1000])
    >>> classifier.error_curve_.size, classifier.score(X[1000:], y[1000:]) > 0.7
    (1000, True)
    """

    def __init__(
        self,
        learner: str = DEFAULT_LEARNER,
        *,
        delay: Any = 1,
        parameters: dict[str, Any] | None = None,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.delay = delay
        self.parameters = parameters
        self.shuffle = shuffle
        self.random_state = random_state

    learner_: Learner
    _coming: Coming
    _right: list[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Forget all, play a round for each row, and wait for the feedback that is still on its way.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d)
            The rows.
        y : array of shape (n,)
            Their true labels.
        """
        shuffle = check_bool("shuffle", self.shuffle)
        rows, named = self._check(X, y, reset=True)
        classes, labels = np.unique(named, return_inverse=True)
        self._begin(classes, rows.shape[1])
        if shuffle:
            order = stream(self.learner_.seed, "rows").permutation(rows.shape[0])
            rows, labels = rows[order], labels[order]
        self._play(rows, labels)
        return self.finish()

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Play a round for each row; feedback that comes later than the last row comes during the next calls.

        Parameters
        ----------
        X, y
            As for `fit`.
        classes : array, optional
            All labels that will ever come; needed in the first call.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InvalidInput("the first call of partial_fit needs classes=[...], all labels that will ever come")
        known = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(known, self.classes_):
            raise InvalidInput(f"classes must be those of the first call, {_shown(self.classes_)}; got {_shown(known)}")
        rows, named = self._check(X, y, reset=first)
        labels = _labels_of(named, known)
        if first:
            self._begin(known, rows.shape[1])
        self._play(rows, labels)
        return self

    def finish(self) -> Self:
        """Wait for the feedback that is still on its way: it is applied in the order of the rounds."""
        check_is_fitted(self)
        finish(self.learner_, self._coming)
        return self

    def predict(self, X: Any) -> Any:
        """Return the label that looks best for each row; explores nothing."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    def decision_function(self, X: Any) -> Array:
        """Return the scores of all labels, (n, K); of two labels, how much the second one is ahead, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    @available_if(lambda self: has_chances(self.learner))  # type: ignore[untyped-decorator] # without types
    def predict_proba(self, X: Any) -> Array:
        """Return how likely each label is, (n, K); only learners that model it have this method."""
        rows = self._rows(X)
        return chances_of(self.learner_, rows)

    @property
    def error_curve_(self) -> Array:
        """After each round, the share of rounds so far in which the label that was played is wrong."""
        if not hasattr(self, "_right"):
            raise AttributeError("a DelayedClassifier has no error_curve_ yet; call fit or partial_fit first")
        wrong = ~np.concatenate(self._right)
        return np.cumsum(wrong) / np.arange(1, wrong.size + 1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; those of the learner that are given also as `parameters__name`."""
        params: dict[str, Any] = super().get_params(deep)
        own = self.parameters if deep and isinstance(self.parameters, dict) else {}
        return params | {f"{NESTED}{name}": value for name, value in own.items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `parameters__name` sets one of the learner, and leaves the others."""
        own = {name.removeprefix(NESTED): params.pop(name) for name in list(params) if name.startswith(NESTED)}
        super().set_params(**params)
        if own:
            self.parameters = {**(self.parameters or {}), **own}
        return self

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know: sparse rows are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset)
        check_classification_targets(labels)
        return check_matrix(rows), labels

    def _begin(self, classes: Any, n_features: int) -> None:
        """Start with a learner that knows nothing; what is wrong is said before anything changes."""
        if classes.size < 2:
            raise InvalidInput(f"there must be two classes at least to choose from, got one class: {classes}")
        as_delay(self.delay)
        self.learner_ = make_named(self.learner, self.parameters, classes.size, n_features, self._seed())
        self.classes_ = classes
        self._coming = {}
        self._right = []

    def _seed(self) -> int:
        """Return an integer as it is; of a generator, its next number."""
        if self.random_state is None:
            return fresh_seed()
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _play(self, rows: Any, labels: Ints) -> None:
        delays = draw_piece(as_delay(self.delay), self.learner_.seed, self.learner_.ledger.rounds, labels.size)
        self._right.append(advance(self.learner_, rows, labels, delays, self._coming))

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _scores(self, X: Any) -> Array:
        rows = self._rows(X)
        return self.learner_.scores(rows)


def _labels_of(y: Any, classes: Any) -> Ints:
    """Return labels as their places among the classes, which ascend."""
    places = np.searchsorted(classes, y).clip(max=classes.size - 1)
    unknown = np.flatnonzero(classes[places] != y)
    if unknown.size:
        got = y[unknown[:1]].tolist()[0]
        raise InvalidInput(f"y must have labels of classes only, {_shown(classes)}; got {got!r}")
    return np.asarray(places, np.int64)


def _shown(classes: Any) -> str:
    """Return classes for a message; there may be thousands."""
    names = [str(name) for name in classes[:MOST_SHOWN].tolist()]
    return ", ".join(names) + (", ..." if classes.size > MOST_SHOWN else "")
