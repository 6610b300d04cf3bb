"""Why requests are refused, as application/problem+json: a status, a word for programs, and a line for people."""

from collections.abc import Iterable
from math import ceil
from typing import ClassVar

import msgspec

from delaytron.checks import did_you_mean, shown
from delaytron.errors import ConflictingFeedback, DelaytronError, InvalidInput, JournalError, UnknownDecision
from delaytron.service.messages import ProblemReply

MEDIA_TYPE = "application/problem+json"
NOT_TAKEN = "nothing was acknowledged; try again, or see the log of the service"
FAILED = f"the service failed; {NOT_TAKEN}"  # by an error that nobody foresaw


class ServiceError(DelaytronError):
    """What a service refuses that a model would not know of."""

    status: ClassVar[int]
    word: ClassVar[str]
    headers: dict[str, str] = {}


class UnknownModel(ServiceError):  # noqa: N818 - told as a word, as those of `delaytron.errors`
    """There is no such model."""

    status = 404
    word = "unknown_model"


class Gone(ServiceError):  # noqa: N818
    """The decision was purged."""

    status = 410
    word = "purged"


class Conflict(ServiceError):  # noqa: N818
    """There is something else under this name, id or key."""

    status = 409
    word = "conflict"


class ForgedToken(ServiceError):  # noqa: N818
    """A token that this service did not sign."""

    status = 403
    word = "forged_token"


class ForeignToken(ServiceError):  # noqa: N818
    """A token of another model, or signed with a key that is not known here."""

    status = 403
    word = "foreign_token"


class ExpiredToken(ServiceError):  # noqa: N818
    """A token after its time."""

    status = 410
    word = "expired_token"


class Unauthorized(ServiceError):  # noqa: N818
    """No key, or none that is known."""

    status = 401
    word = "unauthorized"
    headers = {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):  # noqa: N818
    """A key that may not do this."""

    status = 403
    word = "forbidden"


class TooLarge(ServiceError):  # noqa: N818
    """A body or a batch above the limit."""

    status = 413
    word = "too_large"


class TooSlow(ServiceError):  # noqa: N818
    """A body that did not come in time."""

    status = 408
    word = "too_slow"
    headers = {"Connection": "close"}


class TooMany(ServiceError):  # noqa: N818
    """More requests, or more open decisions, than are allowed."""

    status = 429
    word = "too_many"

    def __init__(self, message: str, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(max(1, ceil(seconds)))}


class Unavailable(ServiceError):  # noqa: N818
    """The store cannot be reached or written; nothing was acknowledged."""

    status = 503
    word = "unavailable"
    headers = {"Retry-After": "1"}


def purged(id: str) -> Gone:
    """Return the error for an answer to a decision that was purged."""
    return Gone(f"decision {id!r} was settled long ago and purged; drop its answer, it cannot be taken any more")


def nothing_left(id: str) -> Gone:
    """Return the error for a question about a decision that was purged."""
    return Gone(f"decision {id!r} was purged, and nothing is left to be explained; ask for a later one")


def unknown_model(name: str, known: Iterable[str]) -> UnknownModel:
    """Return the error for a model that is not there; `known` are names that may have been meant.

    Examples
    --------
    >>> print(unknown_model("rooter", ["router"]))
    there is no model 'rooter'; did you mean 'router'?
    """
    make = "; make it with POST /v1/models, in Python with create_model"
    return UnknownModel(f"there is no model {shown(name)}{did_you_mean(repr(name), map(repr, known)) or make}")


TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    503: "Service Unavailable",
}
KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (ConflictingFeedback, 409, "conflict"),
    (UnknownDecision, 404, "unknown_decision"),
    (JournalError, 503, "unavailable"),
    (InvalidInput, 422, "invalid"),
    (msgspec.ValidationError, 422, "invalid"),
    (msgspec.DecodeError, 400, "malformed"),
    (UnicodeDecodeError, 400, "malformed"),
)


def problem(status: int, word: str, detail: str) -> ProblemReply:
    """Return a problem; `word` is for programs."""
    return ProblemReply(f"urn:delaytron:{word}", TITLES[status], status, detail, word)


def problem_of(error: Exception) -> ProblemReply:
    """Return an error as a problem; one that nobody foresaw tells nothing of itself.

    Examples
    --------
    >>> problem_of(UnknownModel("there is no model 'rooter'")).status
    404
    >>> problem_of(ZeroDivisionError("secret")).detail.split(";")[0]
    'the service failed'
    """
    if isinstance(error, ServiceError):
        return problem(error.status, error.word, str(error))
    for kind, status, word in KINDS:
        if isinstance(error, kind):
            return problem(status, word, str(error))
    return problem(503, "unavailable", FAILED)


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers that belong to an error."""
    if isinstance(error, ServiceError):
        return error.headers
    return Unavailable.headers if problem_of(error).status == 503 else {}
