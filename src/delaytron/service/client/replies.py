"""How replies are read; a reader is also told whether an earlier try of the same request may have been taken."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

import msgspec

from delaytron.errors import ConflictingFeedback, DelaytronError
from delaytron.model.classes import Name
from delaytron.service import messages
from delaytron.service.client.refusals import error_of

T = TypeVar("T")
Read = Callable[[bytes, bool], T]
Word = Literal["applied", "duplicate", "late_corrected", "late_recorded", "cancelled", "known"]


class RemoteDecision(NamedTuple):
    """What was decided; feedback names it by its `id`, a stateless one by its `token`."""

    id: str
    label: Name
    prob: float
    round: int
    token: str | None


def _reading(kind: type[T]) -> Read[T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda content, _: decoder.decode(content)


read_model = _reading(messages.ModelReply)
read_state = _reading(messages.DecisionState)
read_stats = _reading(messages.StatsReply)
read_weights = _reading(messages.WeightsReply)
_read_digest = _reading(messages.DigestReply)
_read_models = _reading(messages.ModelList)
_read_recent = _reading(messages.RecentDecisions)
_read_decision = _reading(messages.DecisionReply)
_read_decisions = _reading(messages.DecisionReplies)
_read_result = _reading(messages.FeedbackReply)
_read_results = _reading(messages.FeedbackReplies)
_read_explanation = _reading(messages.ExplanationReply)


def read_models(content: bytes, unsure: bool) -> list[messages.ModelReply]:
    """Return all models."""
    return _read_models(content, unsure).models


def read_digest(content: bytes, unsure: bool) -> str:
    """Return the hash of a state."""
    return _read_digest(content, unsure).digest


def read_recent(content: bytes, unsure: bool) -> list[messages.DecisionState]:
    """Return the last decisions."""
    return _read_recent(content, unsure).decisions


def read_decision(content: bytes, unsure: bool) -> RemoteDecision:
    """Return a decision.

    Examples
    --------
    >>> read_decision(b'{"id": "req-17", "label": "small", "probability": 0.97, "round": 18}', False)
    RemoteDecision(id='req-17', label='small', prob=0.97, round=18, token=None)
    """
    return _decision(_read_decision(content, unsure))


def read_decisions(content: bytes, unsure: bool) -> list[RemoteDecision]:
    """Return the decisions of a batch."""
    return [_decision(one) for one in _read_decisions(content, unsure).decisions]


def _decision(reply: messages.DecisionReply) -> RemoteDecision:
    token = reply.token if isinstance(reply.token, str) else None
    return RemoteDecision(reply.id, reply.label, reply.probability, reply.round, token)


def read_word(content: bytes, unsure: bool) -> Word:
    """Return what became of an answer.

    Examples
    --------
    >>> read_word(b'{"result": "duplicate"}', unsure=False), read_word(b'{"result": "duplicate"}', unsure=True)
    ('duplicate', 'known')
    """
    return _word(_read_result(content, unsure).result, unsure)


def read_words(content: bytes, unsure: bool) -> list[Word | DelaytronError]:
    """Return what became of several answers."""
    return [_outcome(one, unsure) for one in _read_results(content, unsure).results]


def _outcome(one: messages.FeedbackOutcome, unsure: bool) -> Word | DelaytronError:
    if isinstance(one.problem, messages.ProblemReply):
        return error_of(one.problem, ConflictingFeedback)
    return _word(one.result, unsure)  # type: ignore[arg-type]  # one of both is there


def _word(result: messages.Result, unsure: bool) -> Word:
    """Return the service's word; after a lost reply nobody can tell which try, or who else, it is the duplicate of."""
    return "known" if unsure and result == "duplicate" else result


def read_explanation(content: bytes, unsure: bool) -> messages.ExplanationReply:
    """Return an explanation; names in JSON are texts, and those of classes may be integers."""
    told = _read_explanation(content, unsure)
    if isinstance(told.label, int):
        told.scores = _by_number(told.scores)
        told.constant = _by_number(told.constant)
        told.features = {feature: _by_number(parts) for feature, parts in told.features.items()}
    return told


def _by_number(parts: dict[Name, float]) -> dict[Name, float]:
    return {int(label) if re.fullmatch(r"-?\d+", str(label)) else label: part for label, part in parts.items()}
