"""Problems that a service tells, as the errors that a caller can catch: the same ones that the service raised."""

from delaytron.errors import DelaytronError, InvalidInput, UnknownDecision
from delaytron.service import problems
from delaytron.service.messages import ProblemReply


class NoConnection(problems.Unavailable):
    """No reply came from the service."""

    word = "no_connection"


class UnexpectedReply(DelaytronError):  # noqa: N818 - named as those of `service.problems`
    """What answered is no service of ours, or one of another version."""


REFUSALS: dict[str, type[DelaytronError]] = {
    kind.word: kind
    for kind in (
        problems.UnknownModel,
        problems.Gone,
        problems.ForgedToken,
        problems.ForeignToken,
        problems.ExpiredToken,
        problems.Unauthorized,
        problems.Forbidden,
        problems.TooLarge,
        problems.TooSlow,
        problems.TooMany,
        problems.Unavailable,
    )
} | {"unknown_decision": UnknownDecision, "invalid": InvalidInput, "malformed": InvalidInput}
BY_STATUS: dict[int, type[DelaytronError]] = {  # of what stands before a service and knows no words
    401: problems.Unauthorized,
    403: problems.Forbidden,
    408: problems.TooSlow,
    413: problems.TooLarge,
    429: problems.TooMany,
    502: problems.Unavailable,
    503: problems.Unavailable,
    504: problems.Unavailable,
}


def error_of(problem: ProblemReply, conflict: type[DelaytronError]) -> DelaytronError:
    """Return a problem as an error; `conflict` is that of this request.

    Examples
    --------
    >>> error_of(ProblemReply("urn:delaytron:purged", "Gone", 410, "decision 'a' was purged", "purged"), InvalidInput)
    Gone("decision 'a' was purged")
    """
    kind = conflict if problem.result == "conflict" else REFUSALS.get(problem.result)
    return UnexpectedReply(f"{problem.detail}; check the url") if kind is None else kind(problem.detail)
