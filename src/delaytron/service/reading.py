"""What requests ask for, as models take it; the same for all who keep models."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

from delaytron.checks import check_choice, shown
from delaytron.errors import InvalidInput
from delaytron.journal.requests import Request
from delaytron.learners import LEARNERS
from delaytron.learners.options import COMMON, own_parameters
from delaytron.model.encoding import FeatureEncoder
from delaytron.model.fixed import VectorEncoder
from delaytron.model.making import Recipe, check_same, read_recipe
from delaytron.records import Row
from delaytron.service.backend import Repeatable
from delaytron.service.limits import Limits, check_features
from delaytron.service.messages import DecisionReply, DecisionRequest, FeedbackRequest, NewModel
from delaytron.service.problems import Conflict

MOST_IN_TOKEN = 8_000  # features
T = TypeVar("T")

encode_replies = msgspec.msgpack.Encoder().encode
_decode_replies = msgspec.msgpack.Decoder(list[DecisionReply]).decode


def recipe_of(wanted: NewModel) -> Recipe:
    """Return what makes the model that is wanted, or raise."""
    _check_parameters(wanted)
    shape = {"features": wanted.features, "bits": wanted.bits, "ngrams": wanted.ngrams}
    waiting = {"expire_after": wanted.expire_after, "on_expiry": wanted.on_expiry}
    try:
        return read_recipe(wanted.classes, wanted.learner, shape, waiting, wanted.seed, wanted.parameters)
    except TypeError as problem:  # a parameter that is given twice, or of a type that nobody foresaw
        raise InvalidInput(f"parameters do not fit {wanted.learner}: {problem}; leave it out, or mend it") from None


def _check_parameters(wanted: NewModel) -> None:
    """Raise if a parameter is none of the learner; the seed is a field of its own."""
    learner: Any = LEARNERS.get(wanted.learner)
    for name in wanted.parameters if learner is not None else ():
        known = [*own_parameters(learner), *(word for word in COMMON if word != "seed")]
        check_choice(f"a parameter of {wanted.learner}", name, known)


def check_same_model(there: Recipe, stateless: bool, wanted: NewModel, recipe: Recipe) -> None:
    """Raise if there is another model of the name that is wanted."""
    try:
        check_same(there, recipe, f"model {wanted.name!r}")
    except InvalidInput as problem:
        raise Conflict(str(problem).split(";")[0] + "; take another name") from None
    if stateless != wanted.stateless:
        raise Conflict(
            f"model {wanted.name!r} was made with stateless={stateless}, not {wanted.stateless}; take another name"
        )


def check_request(limits: Limits, wanted: DecisionRequest, stateless: bool) -> None:
    """Raise if a decision has too many features, or an id where its token will have one."""
    check_features(limits, wanted.features)
    if stateless and wanted.id is not None:
        raise InvalidInput(
            f"a stateless decision has the id of its token, got id {wanted.id!r}; leave it out, or stateless"
        )


def check_fits_token(row: Row) -> None:
    """Raise if no token can hold a row."""
    if row.values.size > MOST_IN_TOKEN:
        raise InvalidInput(
            f"a token holds {MOST_IN_TOKEN:,} features at most, got {row.values.size:,}; leave some out, or stateless"
        )


def check_each(wanted: list[DecisionRequest], check: Callable[[DecisionRequest], T]) -> list[T]:
    """Return each decision checked, or raise; an error says which one of a batch it is."""
    checked = []
    for place, one in enumerate(wanted):
        try:
            checked.append(check(one))
        except InvalidInput as problem:
            raise problem if len(wanted) == 1 else InvalidInput(f"decisions[{place}]: {problem}") from None
    return checked


def check_distinct_ids(ids: list[str]) -> None:
    """Raise if two decisions of a batch have the same id."""
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InvalidInput(f"ids of a batch must all be different, got {twice!r} twice")


def check_named(given: FeedbackRequest) -> None:
    """Raise if an answer names not exactly one decision."""
    if (given.id is None) == (given.token is None):
        came = "none" if given.id is None else "both"
        raise InvalidInput(f"feedback must name its decision by id or by token, got {came}; give one of both")


def class_named(names: list[Any], label: str) -> Any:
    """Return the class that a path names: a text, or the number that it tells.

    Examples
    --------
    >>> class_named(["small", 2], "2"), class_named(["small", "2"], "2")
    (2, '2')
    """
    return int(label) if label not in names and re.fullmatch(r"-?\d{1,20}", label) else label


def repeated(before: Request, repeatable: Repeatable) -> list[DecisionReply]:
    """Return what a request got that came before; raise if it was another one."""
    if before.fingerprint != repeatable.fingerprint:
        raise Conflict("this Idempotency-Key came with another body before; use a new key for a new request")
    return _decode_replies(before.reply)


def as_features(encoder: FeatureEncoder, features: Any) -> Any:
    """Return features as the model takes them; pairs of an index and a number become a vector."""
    if isinstance(encoder, VectorEncoder) and isinstance(features, list) and _are_pairs(features):
        return _spread(features, encoder.n_features)
    return features


def _are_pairs(features: list[Any]) -> bool:
    return bool(features) and all(isinstance(item, list) for item in features)


def _spread(pairs: list[Any], n_features: int) -> Any:
    vector = np.zeros(n_features)
    seen = set()
    for pair in pairs:
        index, number = pair if len(pair) == 2 else (None, None)
        if type(index) is not int or not 0 <= index < n_features or index in seen or type(number) not in (int, float):
            allowed = f"pairs of an index from 0 to {n_features - 1}, each once, and a number"
            raise InvalidInput(f"sparse features must be {allowed}; got {shown(pair)}")
        seen.add(index)
        try:
            vector[index] = number
        except OverflowError:
            raise InvalidInput(f"the number at index {index} must fit into a 64-bit float; scale it") from None
    return vector
