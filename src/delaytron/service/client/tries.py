"""The tries that one request may take: what to do after each, and what the last one says. Nothing is sent here."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random
from typing import Generic, NamedTuple, TypeVar

import msgspec

from delaytron.errors import DelaytronError
from delaytron.service.client.refusals import BY_STATUS, NoConnection, UnexpectedReply, error_of
from delaytron.service.client.requests import ClientRequest
from delaytron.service.messages import ProblemReply

T = TypeVar("T")

FIRST_WAIT = 0.25  # seconds at most before the second try, twice as many before the next, and so on
LONGEST_WAIT = 10.0
MOST_DOUBLINGS = 30  # it is the longest wait by then
LONGEST_ASKED = 60.0  # a service that wants a client to wait longer is not waited for
NOT_TAKEN = (408, 429)  # refused before anything was done
PASSING = (*NOT_TAKEN, 502, 503, 504)  # it may be otherwise the next time
CERTAIN = (400, 404, 409, 422)  # refused for what it says, which was not taken in an earlier try either
NOT_THERE = "; start the service, or check the url"
NEXT = {  # where somebody before the service answers
    401: "; give a key that is known there",
    403: "; give a key that may do this",
    408: "; try again",
    413: "; send less at once",
    429: "; try again later",
}

_decode_problem = msgspec.json.Decoder(ProblemReply).decode


class HttpReply(NamedTuple):
    """What came back; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class NoReply(NamedTuple):
    """Nothing came back, and why; `sent` if the request may have arrived all the same."""

    reason: str
    sent: bool


class Tries(Generic[T]):
    """The tries of one request.

    Examples
    --------
    >>> from delaytron.service.client.requests import feedback
    >>> tries = Tries(feedback("router", {"id": "req-17", "correct": True}), "http://127.0.0.1:8100", retries=4)
    >>> 0 <= tries.take(NoReply("timed out", sent=True)) <= FIRST_WAIT
    True
    >>> tries.take(HttpReply(200, {}, b'{"result": "duplicate"}')) is None
    True
    >>> tries.result()
    'known'
    """

    def __init__(self, request: ClientRequest[T], url: str, retries: int) -> None:
        self._request = request
        self._url = url
        self._retries = retries
        self._count = 0
        self._unsure = False  # an earlier try may have been taken
        self._last: HttpReply | NoReply

    def take(self, outcome: HttpReply | NoReply) -> float | None:
        """Take what came of a try; return after how many seconds to try again, None if that is no use."""
        self._last = outcome
        self._count += 1
        if self._count > self._retries or not self._is_passing(outcome):
            return None
        asked = 0.0 if isinstance(outcome, NoReply) else seconds_asked(outcome.headers.get("retry-after"))
        if asked > LONGEST_ASKED:
            return None
        self._unsure = self._unsure or _may_be_taken(outcome)
        doublings = min(self._count - 1, MOST_DOUBLINGS)
        return asked + random() * min(LONGEST_WAIT, FIRST_WAIT * 2.0**doublings)  # noqa: S311 - no secret

    def _is_passing(self, outcome: HttpReply | NoReply) -> bool:
        passing = isinstance(outcome, NoReply) or outcome.status in PASSING
        return passing and (self._request.again or not _may_be_taken(outcome))

    def result(self) -> T:
        """Return what the last reply says, or raise what it refuses."""
        if isinstance(self._last, NoReply):
            raise NoConnection(f"no reply from {self._url}: {self._last.reason}{self._advice(NOT_THERE)}")
        if self._last.status >= 300:
            raise self._refusal(self._last)
        try:
            return self._request.read(self._last.content, self._unsure)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._unexpected(self._last) from None

    def _refusal(self, reply: HttpReply) -> DelaytronError:
        try:
            told = error_of(_decode_problem(reply.content), self._request.conflict)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            kind = BY_STATUS.get(reply.status)
            step = NEXT.get(reply.status, "")
            told = self._unexpected(reply) if kind is None else kind(f"{self._url} answered {reply.status}{step}")
        return told if reply.status in CERTAIN else type(told)(f"{told}{self._advice()}")

    def _advice(self, otherwise: str = "") -> str:
        """Return what to do if one of the tries may have been taken."""
        unsure = self._unsure or _may_be_taken(self._last)
        return f"; tries: {self._count}; {self._request.unsure}" if unsure else otherwise

    def _unexpected(self, reply: HttpReply) -> UnexpectedReply:
        shown = " ".join(reply.content[:60].decode("utf-8", "replace").split())
        what = f"{self._request.method} {self._url}{self._request.path} answered {reply.status} {shown!r}"
        return UnexpectedReply(f"{what}, which is no reply of this service; check the url")


def _may_be_taken(outcome: HttpReply | NoReply) -> bool:
    return (
        outcome.sent if isinstance(outcome, NoReply) else outcome.status in PASSING and outcome.status not in NOT_TAKEN
    )


def seconds_asked(header: str | None) -> float:
    """Return how long `Retry-After` asks to wait: seconds, or a date; 0 if it says nothing that can be read.

    Examples
    --------
    >>> seconds_asked("2"), seconds_asked(None), seconds_asked("Wed, 21 Oct 2015 07:28:00 GMT")
    (2.0, 0.0, 0.0)
    """
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    return max(0.0, (date - datetime.now(UTC)).total_seconds()) if date.tzinfo else 0.0
