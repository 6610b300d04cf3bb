"""`DelayedClassifier`: a learner as a scikit-learn classifier, for which labels are delayed right-or-wrong feedback."""

from typing import Any, Self

import numpy as np

from delaytron.extras import needs

needs("sklearn", "delaytron.sklearn")
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from delaytron.checks import check_bool, check_matrix
from delaytron.delays import as_delay
from delaytron.delays.dependent import as_independent
from delaytron.errors import InvalidInput, Setting
from delaytron.learners import DEFAULT_LEARNER
from delaytron.learners.files import make_named
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import class_probabilities, models_classes
from delaytron.records import Array, Ints
from delaytron.rng import fresh_seed, stream
from delaytron.simulation.replay import Coming, advance, draw_piece, finish

__all__ = ["DelayedClassifier"]

MOST_SHOWN = 12  # classes in a message
NESTED = "parameters__"  # before the name of a parameter of the learner, in get_params and set_params


class DelayedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # without types
    """A classifier that learns, after a delay, only whether the labels that it played are right.

    Every row is a round, in the order of the rows: the learner plays a label, and the true one is only used to compute
    the feedback, right or wrong, which arrives when the delay has passed.

    Parameters
    ----------
    learner : str
        A name of `dt.LEARNERS`; the default needs no tuning.
    delay : int, str or a model of `dt.delays`
        The delay of feedback in rounds: an integer D means uniform on 1, ..., D, text is as on the command line, such
        as "fixed:100" or "lognormal:100,1.5+missing:0.2". 1 means before the next round.
    parameters : dict, optional
        Parameters of the learner. `set_params(parameters__gamma=0.1)` sets one of them.
    shuffle : bool
        Let `fit` play the rows in random order.
    random_state : int, RandomState, optional
        Seed of the exploration and the delays; drawn from the operating system by default.

    Attributes
    ----------
    classes_ : ndarray
        The labels, ascending.
    error_curve_ : ndarray
        After each round, the share of rounds so far in which the played label was wrong.
    learner_ : dt.Learner
        The trained learner; `learner_.save(path)` writes it to a file, with its open decisions.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    Notes
    -----
    `fit` starts from scratch, and applies the feedback that is still pending at the end, so that all rows count except
    those whose feedback is missing. After `partial_fit` it stays pending, and arrives during the next calls, or with
    `finish`. Rows in several calls give the same bits as all in one call.

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
        """Start from scratch, play a round for each row, and apply the feedback that is still pending; return self.

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
        """Play a round for each row, and leave later feedback pending; return self.

        Parameters
        ----------
        X, y
            As for `fit`.
        classes : array, optional
            All labels; required in the first call.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InvalidInput("the first call of partial_fit needs all labels", ("give ", Setting("classes", "[...]")))
        known = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(known, self.classes_):
            raise InvalidInput.of(
                "classes",
                f"those of the first call, {_shown(self.classes_)}",
                got=_shown(known),
                hint="leave it out after the first call",
            )
        rows, named = self._check(X, y, reset=first)
        labels = _labels_of(named, known)
        if first:
            self._begin(known, rows.shape[1])
        self._play(rows, labels)
        return self

    def finish(self) -> Self:
        """Apply the feedback that is still pending, in the order of the rounds; return self."""
        check_is_fitted(self)
        finish(self.learner_, self._coming)
        return self

    def predict(self, X: Any) -> Any:
        """Return the label with the highest score for each row; does not explore."""
        scores = self._scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def decision_function(self, X: Any) -> Array:
        """Return the scores of all labels, (n, K); of two labels, the second minus the first, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    @available_if(lambda self: models_classes(self.learner))  # type: ignore[untyped-decorator] # without types
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each label, (n, K); only learners that model it have this method."""
        rows = self._rows(X)
        return class_probabilities(self.learner_, rows)

    @property
    def error_curve_(self) -> Array:
        """After each round, the share of rounds so far in which the played label was wrong."""
        if not hasattr(self, "_right"):
            raise AttributeError("a DelayedClassifier has no error_curve_ yet; call fit or partial_fit first")
        wrong = ~np.concatenate(self._right)
        return np.cumsum(wrong) / np.arange(1, wrong.size + 1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; those of the learner also as `parameters__name`."""
        params: dict[str, Any] = super().get_params(deep)
        own = self.parameters if deep and isinstance(self.parameters, dict) else {}
        return params | {f"{NESTED}{name}": value for name, value in own.items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, `parameters__name` one of the learner; return self."""
        own = {name.removeprefix(NESTED): params.pop(name) for name in list(params) if name.startswith(NESTED)}
        super().set_params(**params)
        if own:
            self.parameters = {**(self.parameters or {}), **own}
        return self

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset)
        check_classification_targets(labels)
        return check_matrix(rows), labels

    def _begin(self, classes: Any, n_features: int) -> None:
        """Create an untrained learner; raise InvalidInput, before anything changes, if a parameter is wrong."""
        if classes.size < 2:
            raise InvalidInput.of(
                "y", "at least two classes", got=f"one class: {classes}", verb="have", hint="add rows"
            )
        as_independent(self.delay, "an estimator")
        state = self.random_state
        if state is None:
            seed = fresh_seed()
        elif isinstance(state, int | np.integer):
            seed = int(state)
        else:
            seed = int(check_random_state(state).randint(2**31 - 1))
        self.learner_ = make_named(self.learner, self.parameters, classes.size, n_features, seed)
        self.classes_ = classes
        self._coming = {}
        self._right = []

    def _play(self, rows: Any, labels: Ints) -> None:
        delays = draw_piece(as_delay(self.delay), self.learner_.seed, self.learner_.book.rounds, labels.size)
        self._right.append(advance(self.learner_, rows, labels, delays, self._coming))

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _scores(self, X: Any) -> Array:
        rows = self._rows(X)  # before `learner_` is read: raises NotFittedError
        return self.learner_.scores(rows)


def _labels_of(y: Any, classes: Any) -> Ints:
    """Return labels as indices into the sorted classes; raise InvalidInput if one is not among them."""
    places = np.searchsorted(classes, y).clip(max=classes.size - 1)
    unknown = np.flatnonzero(classes[places] != y)
    if unknown.size:
        got = y[unknown[:1]].tolist()[0]
        raise InvalidInput.of(
            "y",
            f"labels of classes only, {_shown(classes)}",
            got,
            ("give all labels in the first call, ", Setting("classes", "[...]")),
            verb="have",
        )
    return np.asarray(places, np.int64)


def _shown(classes: Any) -> str:
    """Return the first classes for a message; there may be thousands."""
    names = [str(name) for name in classes[:MOST_SHOWN].tolist()]
    return ", ".join(names) + (", ..." if classes.size > MOST_SHOWN else "")
