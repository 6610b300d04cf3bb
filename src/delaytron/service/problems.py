"""Errors of the service, and every error as a reply of application/problem+json (RFC 9457)."""

from collections.abc import Iterable
from math import ceil, isfinite
from typing import Any, ClassVar, TypeVar

from msgspec import UNSET, Struct, UnsetType

from delaytron.checks import did_you_mean
from delaytron.errors import (
    ConflictingDecision,
    ConflictingFeedback,
    DelaytronError,
    InvalidInput,
    JournalError,
    Text,
    UnknownDecision,
    shown,
)

MEDIA_TYPE = "application/problem+json"
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
    422: "Unprocessable Content",
    429: "Too Many Requests",
    503: "Service Unavailable",
}
LONGEST_VALUE = 200  # characters of a string that a problem repeats
LARGEST_VALUE = 2**63  # of an integer, which many JSON parsers read into 64 bits

Error = TypeVar("Error", bound=DelaytronError)


class ServiceError(DelaytronError):
    """An error that only the service raises, with the status and headers of its reply; `word` is for programs."""

    status: ClassVar[int]
    word: ClassVar[str]
    headers: dict[str, str] = {}


class Malformed(ServiceError):  # noqa: N818 - named as those of `delaytron.errors`
    """The body is not JSON."""

    status = 400
    word = "malformed"


class UnknownPath(ServiceError):  # noqa: N818
    """There is no route of this path."""

    status = 404
    word = "unknown_path"


class WrongMethod(ServiceError):  # noqa: N818
    """The route does not take this method."""

    status = 405
    word = "wrong_method"


class UnknownModel(ServiceError):  # noqa: N818
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


class Unauthorized(ServiceError):  # noqa: N818
    """The request has no API key, or an unknown one."""

    status = 401
    word = "unauthorized"
    headers = {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):  # noqa: N818
    """The API key does not permit this, or a service without keys was called from elsewhere."""

    status = 403
    word = "forbidden"


class TooLarge(ServiceError):  # noqa: N818
    """A body or a batch above the limit."""

    status = 413
    word = "too_large"


class TooSlow(ServiceError):  # noqa: N818
    """A body that did not arrive in time."""

    status = 408
    word = "too_slow"
    headers = {"Connection": "close"}


class TooMany(ServiceError):  # noqa: N818
    """More requests, or more open decisions, than are allowed; `seconds` is the `Retry-After` of the reply."""

    status = 429
    word = "too_many"

    def __init__(self, problem: Text, hint: Text, *, seconds: float = 1.0, **data: Any) -> None:
        super().__init__(problem, hint, **data)
        self.headers = {"Retry-After": str(max(1, ceil(seconds)))}


class Unavailable(ServiceError):  # noqa: N818
    """The service cannot answer now: starting, stopping, or a failure of it or its store; nothing was acknowledged."""

    status = 503
    word = "unavailable"
    headers = {"Retry-After": "1"}


RETRY = "try again, or see the log of the service"


def failed(what: str = "the service failed") -> Unavailable:
    """Return the error for a request that failed for a reason that clients must not see; the log has it.

    Examples
    --------
    >>> print(failed())
    the service failed; nothing was acknowledged; try again, or see the log of the service
    """
    return Unavailable(f"{what}; nothing was acknowledged", RETRY)


def purged(id: str) -> Gone:
    """Return the error for an answer to a decision that was purged."""
    return Gone(f"decision {id!r} was settled long ago and purged", "discard its answer, it cannot be stored any more")


def nothing_left(id: str) -> Gone:
    """Return the error for an explanation of a decision that was purged."""
    return Gone(f"the features of decision {id!r} were purged", "ask for a later decision")


def unknown_model(name: str, known: Iterable[str]) -> UnknownModel:
    """Return the error for a model that does not exist; `known` are names that may have been meant.

    Examples
    --------
    >>> print(unknown_model("rooter", ["router"]))
    there is no model 'rooter'; did you mean 'router'?
    """
    create = "make it with POST /v1/models, in Python with create_model"
    return UnknownModel(f"there is no model {shown(name)}", did_you_mean(repr(name), map(repr, known)) or create)


def advised(error: Error, advice: str) -> Error:
    """Return the same error with one more hint.

    Examples
    --------
    >>> print(advised(TooMany("too many requests", "wait"), "tries: 2"))
    too many requests; wait; tries: 2
    """
    problem, hint = error.args
    parts = (hint,) if isinstance(hint, str) else hint
    data = {"parameter": error.parameter, "value": error.value, "allowed": error.allowed}
    return type(error)(problem, (*parts, f"; {advice}") if hint else advice, **data)


class ProblemReply(Struct, rename={"kind": "type"}):
    """Why a request was refused (RFC 9457).

    `result` is the last word of `type`, for programs. `detail` says what is wrong and `hint` what to do; where one
    value is wrong, `parameter` is its name, `allowed` says what it must be, and `value` is what came, if it is short.
    """

    kind: str
    title: str
    status: int
    detail: str
    result: str
    hint: str | UnsetType = UNSET
    parameter: str | UnsetType = UNSET
    allowed: str | UnsetType = UNSET
    value: str | int | float | bool | UnsetType = UNSET


KINDS: tuple[tuple[type[DelaytronError], int, str], ...] = (
    (ConflictingFeedback, 409, "conflict"),
    (ConflictingDecision, 409, "conflict"),
    (UnknownDecision, 404, "unknown_decision"),
    (JournalError, 503, "unavailable"),
    (InvalidInput, 422, "invalid"),
)


def problem_of(error: Exception) -> ProblemReply:
    """Return an error as a problem; an unexpected one becomes `failed`, which says nothing about it.

    Examples
    --------
    >>> problem_of(UnknownModel("there is no model 'rooter'", "did you mean 'router'?")).hint
    "did you mean 'router'?"
    >>> problem_of(InvalidInput.of("reward", "a number from 0 to 1", 7)).value
    7
    >>> problem_of(ZeroDivisionError("secret")).detail
    'the service failed; nothing was acknowledged'
    """
    kinds = ((ServiceError, error.status, error.word),) if isinstance(error, ServiceError) else KINDS
    found = next(((status, word) for kind, status, word in kinds if isinstance(error, kind)), None)
    if found is None or not isinstance(error, DelaytronError):
        return problem_of(failed())
    status, word = found
    return ProblemReply(
        f"urn:delaytron:{word}",
        TITLES[status],
        status,
        error.problem,
        word,
        hint=error.hint if error.args[1] else UNSET,  # else `hint` repeats `allowed`
        parameter=error.parameter or UNSET,
        allowed=error.allowed or UNSET,
        value=_scalar(error.value),
    )


def _scalar(value: Any) -> str | int | float | bool | UnsetType:
    """Return a value that JSON can hold as it is; UNSET for others, and for those that are long."""
    if isinstance(value, bool):
        return value
    if type(value) is str and len(value) <= LONGEST_VALUE and value.isprintable():
        return value
    if type(value) is int and abs(value) < LARGEST_VALUE:
        return value
    return value if type(value) is float and isfinite(value) else UNSET


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers of the reply to an error."""
    if isinstance(error, ServiceError):
        return error.headers
    return Unavailable.headers if problem_of(error).status == Unavailable.status else {}
