"""Predictions of a learner: scores, probabilities, contributions of features, and `predict` as a linear formula.

Nothing here explores, and nothing changes the learner.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delaytron.checks import as_kind, as_stream
from delaytron.compiler.kernel import fill
from delaytron.errors import InvalidInput
from delaytron.kernels.linear import padded
from delaytron.kernels.loop import score_all
from delaytron.kernels.standardize import CENTRE, INVERSE
from delaytron.learners.arguments import as_kind_of_row
from delaytron.learners.book import NO_LABELS
from delaytron.learners.standardize import standardized_row, standardized_rows
from delaytron.records import Array, Ints, Row, Stream

if TYPE_CHECKING:
    from delaytron.checks import Matrix
    from delaytron.learners.learner import Learner

ROWS_AT_ONCE = 256  # so that converting or standardising rows takes little memory

_score_all = fill(score_all, "score_all")


def new_scratch(n_classes: int) -> tuple[Array, Array]:
    """Return buffers for the scores and the probabilities of one round."""
    return np.empty(padded(n_classes)), np.empty(n_classes)


# Scores.


def score_seen_rows(learner: "Learner", rows: "Matrix", W: Array) -> Array:
    """Return the (n, K) scores of checked rows by these weights; rows are standardised first if the rule does so."""
    standardizes = learner.rule.standardizes

    def score(part: Stream, scratch: Array, out: Array) -> None:
        if standardizes:
            part = Stream(None, None, standardized_rows(learner, part, out.shape[0]), NO_LABELS)
        _score_all(W, part, scratch, out)

    # Rows to be standardised are not converted: the kernel writes a sparse row out as a dense one.
    return score_parts(rows, learner.n_classes, None if standardizes else learner.sparse, score)


def score_parts(
    rows: "Matrix", n_classes: int, sparse: bool | None, score: Callable[[Stream, Array, Array], None]
) -> Array:
    """Return the (n, K) scores of checked rows, converted to the kind `sparse` says (None: left as they are).

    `score(part, scratch, out)` writes the scores of some rows to `out`; `scratch` holds those of one row.
    """
    out = np.empty((rows.shape[0], n_classes))
    scratch = np.empty(padded(n_classes))
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        part = part if sparse is None else as_kind(part, sparse)
        score(as_stream(part, NO_LABELS), scratch, out[start : start + ROWS_AT_ONCE])
    return out


# Probabilities.

Scratch = dict[str, Array]


def private_scratch(learner: "Learner") -> Scratch:
    """Return new arrays for the fields of the state that only hold intermediate results."""
    fields = {name: getattr(learner.state, name) for name in learner.rule.scratch}
    return {name: np.zeros(field.shape, field.dtype) for name, field in fields.items()}


def with_own_scratch(learner: "Learner", scratch: Scratch | None = None) -> Any:
    """Return the state with other scratch arrays, so that kernels do not change the learner's own."""
    return learner.state._replace(**(private_scratch(learner) if scratch is None else scratch))


def look(learner: "Learner", row: Row, allowed: Ints, scratch: Scratch | None = None) -> tuple[int, Array]:
    """Return the greedy label, and the probability with which each label would be played.

    Raises InvalidInput if the learner plays sets of labels. Callers that look often pass one `private_scratch`.
    """
    if learner.rule.peek is None:
        raise InvalidInput(
            f"{learner.name} plays sets of labels: a single label has no probability", "use scores(x) instead"
        )
    scores, p = new_scratch(learner.n_classes)
    seen = as_kind_of_row(row, learner.n_features, learner.sparse)
    greedy = learner.rule.peek.compiled(with_own_scratch(learner, scratch), learner.params, seen, allowed, scores, p)
    return int(greedy), p


def models_classes(name: Any) -> bool:
    """Return whether `name` is a learner that models the probability of every class.

    Examples
    --------
    >>> models_classes("bandit_logit"), models_classes("banditron"), models_classes(7)
    (True, False, False)
    """
    from delaytron.learners import LEARNERS  # noqa: PLC0415 - the registry imports every learner, and they this

    return isinstance(name, str) and name in LEARNERS and LEARNERS[name].rule.softmax is not None


def class_probabilities(learner: "Learner", X: Any) -> Array:
    """Return for every row the probability of each class, as the learner models it: an (n, K) array.

    That is not the probability with which each label would be played: see `Learner.probabilities`. Raises InvalidInput
    if the learner has no such model.

    Examples
    --------
    >>> import delaytron as dt
    >>> class_probabilities(dt.BanditLogit(n_classes=2, n_features=1, seed=0), [[3.0]]).tolist()
    [[0.5, 0.5]]
    """
    if learner.rule.softmax is None:
        raise InvalidInput(f"{learner.name} does not model the probabilities of classes", "use scores(X) instead")
    logits = learner.scores(X) * learner.rule.softmax(learner.state, learner.params)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))  # at most 1: no overflow
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


# Contributions.


class Contributions(NamedTuple):
    """The scores of one row in parts: `constant` has one number for each class, `parts` a column for each feature.

    The features are those of the row: all of a dense one, the non-zeros of a sparse one. A score is the constant plus
    the sum of its parts.
    """

    constant: Array
    parts: Array


def contributions_of(learner: "Learner", row: Row, W: Array) -> Contributions:
    """Return the parts of the scores W x of a row, which is standardised first if the rule does so."""
    K = learner.n_classes
    if not learner.rule.standardizes:
        parts = W * row.values if row.indices is None else (W[row.indices, :K] * row.values[:, None]).T
        return Contributions(np.zeros(K), np.ascontiguousarray(parts))
    every = W * standardized_row(learner, row)
    features = np.arange(learner.n_features) if row.indices is None else row.indices
    # Features that a sparse row lacks belong to the constant: a standardised zero need not be zero.
    others = np.delete(every, features, axis=1)
    return Contributions(others.sum(axis=1), np.ascontiguousarray(every[:, features]))


# The greedy prediction as one formula, which other tools can compute.
#
# .. math::
#     s = c\, \frac{W z + b}{\sqrt{\|z\|^2 + a^2}} + o, \qquad
#     z_j = \mathrm{clip}\Big(\frac{x_j - \mu_j}{\sigma_j},\, -5,\, 5\Big) - \zeta_j
#
# where the learner standardises its rows; where it does not, s = c (W x + b) + o. The greedy label is the first of
# those with the highest score; c is 1 for all learners but one, a mostly, o and :math:`\zeta` are mostly 0.


class Standard(NamedTuple):
    """The statistics of standardised rows: mean and inverse deviation of each feature (0 if it never varied).

    `zero` is what is subtracted after that, None for nothing; `squared_constant` is a^2 in the formula above.
    """

    centre: Array
    inverse: Array
    zero: Array | None = None
    squared_constant: float = 1.0


class LinearForm(NamedTuple):
    """The formula above: (K, d) weights, K constants, c; `sharpness` if softmax(sharpness s) models probabilities.

    `offset` has K numbers o, or is None.
    """

    weights: Array
    constant: Array
    standard: Standard | None = None
    scale: float = 1.0
    sharpness: float | None = None
    offset: Array | None = None

    def only(self, labels: Ints) -> "LinearForm":
        """Return the formula for some of the labels."""
        offset = None if self.offset is None else self.offset[labels]
        return self._replace(weights=self.weights[labels], constant=self.constant[labels], offset=offset)


def linear_form(learner: "Learner") -> LinearForm:
    """Return the formula of `predict` and `scores`.

    A learner that overrides one of these defines `_linear_form` beside it. Raises InvalidInput if it does not, or if
    its weights are not finite.

    Examples
    --------
    >>> import delaytron as dt
    >>> learner = dt.Banditron(n_classes=2, n_features=2, gamma=0.5, seed=0)
    >>> learner.feedback(learner.decide([3.0, 1.0], allowed=[1]).id, correct=False)
    'accepted'
    >>> learner.flush()
    >>> linear_form(learner).weights.tolist()
    [[0.0, 0.0], [-3.0, -1.0]]
    """
    cls: Any = type(learner)
    # The class nearest to this one that defines any of the three must define the formula, or be `Learner` itself.
    nearest = next(base for base in cls.__mro__ if {"scores", "predict", "_linear_form"} & vars(base).keys())
    if "_linear_form" not in vars(nearest) and nearest.__module__ != "delaytron.learners.learner":
        raise InvalidInput(
            f"{cls.__name__} computes its scores in its own way, not by a linear formula", "export another learner"
        )
    with learner._lock:
        if hasattr(cls, "_linear_form"):
            form: LinearForm = cls._linear_form(learner)
        else:
            form = form_of_weights(learner, learner.weights)
    offset = 0.0 if form.offset is None else form.offset
    if not all(np.isfinite(part).all() for part in (form.weights, form.constant, form.scale, offset)):
        raise InvalidInput(
            f"the weights of this {cls.__name__} are not finite", "train a new learner on rows that are scaled"
        )
    return form


def form_of_weights(learner: "Learner", W: Array) -> LinearForm:
    """Return the formula of these weights; the last column is that of the constant if rows are standardised."""
    softmax = learner.rule.softmax
    sharpness = None if softmax is None else float(softmax(learner.state, learner.params))
    if not learner.rule.standardizes:
        return LinearForm(W, np.zeros(len(W)), sharpness=sharpness)
    return standardized_form(W, learner.state.row_features, sharpness)


def standardized_form(W: Array, table: Array, sharpness: float | None) -> LinearForm:
    """Return the formula of (K, d + 1) weights on rows standardised by a table of `kernels.standardize`."""
    standard = Standard(table[CENTRE].copy(), table[INVERSE].copy())
    return LinearForm(W[:, :-1], W[:, -1], standard, sharpness=sharpness)
