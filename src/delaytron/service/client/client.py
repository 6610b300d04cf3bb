"""`dt.Client`, for any thread, and `dt.AsyncClient`, for an event loop: settings, HTTP by httpx, and retries."""

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random
from time import sleep
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from delaytron._version import __version__
from delaytron.checks import check_integer, check_positive
from delaytron.errors import DelaytronError, InvalidInput
from delaytron.extras import needs
from delaytron.model.classes import Name
from delaytron.service.client import protocol
from delaytron.service.client.protocol import (
    BY_STATUS,
    ClientRequest,
    FeedbackResult,
    GivenAnswer,
    NoConnection,
    RemoteDecision,
    UnexpectedReply,
    error_of,
)
from delaytron.service.messages import DecisionState, ExplanationReply, ModelReply, StatsReply, WeightsReply
from delaytron.service.problems import ProblemReply, advised

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8100"  # where `delaytron serve` listens
LONGEST_TIMEOUT = 1_000_000_000  # seconds; operating systems cannot wait much longer
SLOW_SECONDS = 120.0  # at least, for requests that may compile a learner
MOST_CONNECTIONS = 100
KEY = re.compile("[!-~]+")

FIRST_WAIT = 0.25  # seconds at most before the first retry; doubled for each further one
LONGEST_WAIT = 10.0
MOST_DOUBLINGS = 30  # FIRST_WAIT is far above LONGEST_WAIT by then
LONGEST_RETRY_AFTER = 60.0  # seconds; the client gives up if it is longer
NOT_PROCESSED = (408, 429)  # refused before the request was processed
TRANSIENT = (*NOT_PROCESSED, 502, 503, 504)  # a retry may succeed
REJECTED = (400, 404, 409, 422)  # refused for what is in the request, so no earlier try of it was accepted

_decode_problem = msgspec.json.Decoder(ProblemReply).decode


# Settings


class Settings(NamedTuple):
    """The address of a service, the API key, and how long to try."""

    url: str
    key: str | None
    timeout: float
    retries: int

    @property
    def shown(self) -> str:
        """The url, without a password."""
        return without_password(self.url)


def check_settings(url: str, key: str | None, timeout: float, retries: int) -> Settings:
    """Return the settings of a client; raise InvalidInput if one of them is wrong.

    Examples
    --------
    >>> check_settings("http://127.0.0.1:8100/", None, 10, 4)
    Settings(url='http://127.0.0.1:8100', key=None, timeout=10.0, retries=4)
    """
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # raises if it cannot be a host name
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        # Also an empty query or fragment would swallow the paths that are appended.
        is_url = bool(known and url.isprintable() and not any(mark in url for mark in " ?#"))
    except (ValueError, AttributeError, TypeError):
        is_url = False
    if not is_url:
        raise InvalidInput.of("url", f"as in {DEFAULT_URL}", without_password(str(url)[:100]))
    if key is not None and not (isinstance(key, str) and KEY.fullmatch(key)):  # it is never shown
        raise InvalidInput(
            "key must be ASCII without spaces, as the service has it", "None if it has no keys", parameter="key"
        )
    seconds = check_positive("timeout", timeout)
    if seconds > LONGEST_TIMEOUT:
        raise InvalidInput.of("timeout", f"{LONGEST_TIMEOUT:,} seconds at most", timeout)
    return Settings(url.rstrip("/"), key, seconds, check_integer("retries", retries, 0))


def without_password(url: str) -> str:
    """Return a url with user and password replaced by dots.

    Examples
    --------
    >>> without_password("http://shop:secret@127.0.0.1:8100")
    'http://...@127.0.0.1:8100'
    """
    return re.sub("//.*@", "//...@", url)


# HTTP


class HttpReply(NamedTuple):
    """A reply; `headers` are looked up by names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class NoReply(NamedTuple):
    """A try without a reply: the reason, and whether the request may have been sent nevertheless."""

    reason: str
    sent: bool


def import_httpx() -> Any:
    """Return the module httpx; raise MissingLibrary if it is not installed."""
    needs("httpx")
    import httpx  # noqa: PLC0415 - an extra

    return httpx


def http_options(settings: Settings) -> dict[str, Any]:
    """Return the arguments of `httpx.Client` and `httpx.AsyncClient`."""
    httpx = import_httpx()
    headers = {"User-Agent": f"delaytron/{__version__}"}
    if settings.key is not None:
        headers["Authorization"] = f"Bearer {settings.key}"
    return {
        "headers": headers,
        "timeout": httpx.Timeout(settings.timeout, pool=None),
        "limits": httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS),
    }


def http_arguments(client: Any, settings: Settings, request: ClientRequest[Any]) -> dict[str, Any]:
    """Return the arguments of the method `request` of an httpx client; raise InvalidInput if it is closed."""
    if client.is_closed:
        raise InvalidInput("this client is closed", "make another one, or use it within its with block")
    arguments: dict[str, Any] = {"method": request.method, "url": settings.url + request.path}
    if request.body is not None:
        arguments |= {"content": request.body, "headers": {"Content-Type": "application/json"}}
    if request.idempotency_key is not None:
        arguments["headers"]["Idempotency-Key"] = request.idempotency_key
    if request.slow:
        arguments["timeout"] = max(settings.timeout, SLOW_SECONDS)
    return arguments


def as_reply(reply: "httpx.Response") -> HttpReply:
    """Return a reply of httpx as an `HttpReply`."""
    return HttpReply(reply.status_code, reply.headers, reply.content)


def as_no_reply(problem: Exception) -> NoReply:
    """Return an error of httpx as a `NoReply`; without a connection nothing was sent.

    Examples
    --------
    >>> as_no_reply(import_httpx().ConnectError("Connection refused"))
    NoReply(reason='Connection refused', sent=False)
    >>> as_no_reply(import_httpx().ReadTimeout(""))
    NoReply(reason='ReadTimeout', sent=True)
    """
    httpx = import_httpx()
    reason = " ".join(str(problem).split()).rstrip(".") or type(problem).__name__
    cause: BaseException | None = problem
    while cause is not None:  # httpx and httpcore wrap the error of OpenSSL
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            reason = "it does not speak TLS, use http:// instead of https://"
        cause = cause.__cause__ or cause.__context__
    return NoReply(reason, not isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout))


# Retries


class Tries(Generic[T]):
    """The tries of one request: whether to retry it, after how long, and its result.

    Examples
    --------
    >>> from delaytron.service.client.protocol import feedback
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
        self._unsure = False  # the service may have accepted an earlier try
        self._last: HttpReply | NoReply

    def take(self, outcome: HttpReply | NoReply) -> float | None:
        """Record the outcome of a try; return the seconds to wait before the next one, None if it was the last."""
        self._last = outcome
        self._count += 1
        transient = isinstance(outcome, NoReply) or outcome.status in TRANSIENT
        may_retry = transient and (self._request.idempotent or not _may_be_accepted(outcome))
        if self._count > self._retries or not may_retry:
            return None
        retry_after = 0.0 if isinstance(outcome, NoReply) else parse_retry_after(outcome.headers.get("retry-after"))
        if retry_after > LONGEST_RETRY_AFTER:
            return None
        self._unsure = self._unsure or _may_be_accepted(outcome)
        doublings = min(self._count - 1, MOST_DOUBLINGS)
        return retry_after + random() * min(LONGEST_WAIT, FIRST_WAIT * 2.0**doublings)  # noqa: S311 - no secret

    def result(self) -> T:
        """Return the result of the last reply; raise its error, NoConnection, or UnexpectedReply."""
        last = self._last
        unsure = self._unsure or _may_be_accepted(last)
        advice = f"tries: {self._count}; {self._request.unsure}" if unsure else ""
        if isinstance(last, NoReply):
            hint = advice or "start the service, or check the url"
            raise NoConnection(f"no reply from {self._url}: {last.reason}", hint)
        try:
            if last.status < 300:
                return self._request.read(last.content, self._unsure)
            error = error_of(_decode_problem(last.content), self._request.conflict)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # not a reply of the service
            if last.status not in BY_STATUS:
                start = " ".join(last.content[:60].decode("utf-8", "replace").split())
                what = f"{self._request.method} {self._url}{self._request.path} answered {last.status} {start!r}"
                raise UnexpectedReply(f"{what}, which is no reply of this service", "check the url") from None
            kind, hint = BY_STATUS[last.status]
            error = kind(f"{self._url} answered {last.status}", advice or hint)
            raise error from None
        raise advised(error, advice) if advice and last.status not in REJECTED else error


def _may_be_accepted(outcome: HttpReply | NoReply) -> bool:
    """Return whether the service may have accepted a try that failed."""
    if isinstance(outcome, NoReply):
        return outcome.sent
    return outcome.status in TRANSIENT and outcome.status not in NOT_PROCESSED


def parse_retry_after(header: str | None) -> float:
    """Return the seconds of a `Retry-After` header, which may be a date; 0 if it is missing or cannot be parsed.

    Examples
    --------
    >>> parse_retry_after("2"), parse_retry_after(None), parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (2.0, 0.0, 0.0)
    """
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):  # OverflowError for a year of many digits
        return 0.0
    return max(0.0, (date - datetime.now(UTC)).total_seconds()) if date.tzinfo else 0.0


# Clients


class Client:
    """A client of a decision service, as `delaytron serve` runs it. Any thread may use it.

    Parameters
    ----------
    url : str
        Where the service listens.
    key : str, optional
        The API key, if the service has keys; creating models and classes needs an admin key.
    timeout : float
        Seconds to wait for a reply; for a new model or class at least 120, since a learner may be compiled.
    retries : int
        How often a request is retried at most, after a transient failure.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8100") as client:
    ...     client.model("router")
    RemoteModel('router' at http://127.0.0.1:8100)
    """

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, timeout: float = 10, retries: int = 4) -> None:
        self._settings = check_settings(url, key, timeout, retries)
        self._http = import_httpx().Client(**http_options(self._settings))
        self._failures = import_httpx().RequestError

    def create_model(self, name: str, classes: Iterable[Name], **options: Any) -> "RemoteModel":
        """Create a model and return it; if it exists with the same options, only return it.

        `options` are those of `dt.Model`, with parameters of the learner. Raises `Conflict` if the name is taken by
        another model.
        """
        self._send(protocol.create_model(name, classes, options))
        return self.model(name)

    def models(self) -> list[ModelReply]:
        """Return all models."""
        return self._send(protocol.list_models())

    def model(self, name: str) -> "RemoteModel":
        """Return a model by its name; nothing is sent yet. Raises InvalidInput if it cannot be a name."""
        return RemoteModel(self, name)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, request: ClientRequest[T]) -> T:
        tries = Tries(request, self._settings.shown, self._settings.retries)
        while (wait := tries.take(self._try(request))) is not None:
            sleep(wait)
        return tries.result()

    def _try(self, request: ClientRequest[Any]) -> HttpReply | NoReply:
        arguments = http_arguments(self._http, self._settings, request)
        try:
            return as_reply(self._http.request(**arguments))
        except self._failures as problem:
            return as_no_reply(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._settings.shown!r})"


class RemoteModel:
    """A model of a service, by its name."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = protocol.check_model_name(name)
        self._client = client
        self._send = client._send

    def decide(
        self,
        features: Any,
        *,
        id: str | None = None,
        allowed: Iterable[Name] | None = None,
    ) -> RemoteDecision:
        """Choose a class for features: a dict, numbers, or one sparse row, as `dt.Model.decide` takes them.

        The decision is made once, even if a reply is lost and the request is retried. The same `id` with the same
        features and `allowed` later returns the stored decision; with others it raises `ConflictingDecision`.
        """
        return self._send(protocol.decide(self.name, features, id, allowed))

    def decide_many(
        self,
        xs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        allowed: Iterable[Name] | None = None,
    ) -> list[RemoteDecision]:
        """Choose a class for each of at most 1,000 rows; all decisions are made or, after an error, none."""
        return self._send(protocol.decide_many(self.name, xs, ids, allowed))

    def feedback(
        self,
        id: str | None = None,
        correct: bool | None = None,
        *,
        label: Name | None = None,
        reward: float | None = None,
    ) -> FeedbackResult:
        """Give the answer to a decision, named by its id.

        Returns "accepted"; "duplicate" if the same answer was given before; "corrected" if the decision had expired as
        wrong; "late" if its expiry was dropped, or is too long ago to be corrected: the answer is kept, but not learned
        from; "cancelled" if the decision was cancelled; and "known" if the service has this answer, but a reply was
        lost: an earlier try of this call may have been accepted, or an earlier call.

        Raises `ConflictingFeedback` if another answer was given before, `UnknownDecision` if the id was never issued,
        and `Gone` if the decision was purged.
        """
        answer = GivenAnswer(id=id, correct=correct, label=label, reward=reward)
        return self._send(protocol.feedback(self.name, answer))

    def feedback_many(self, answers: Iterable[GivenAnswer]) -> list[FeedbackResult | DelaytronError]:
        """Give answers such as `{"id": "req-17", "correct": True}`; return the result or the error of each."""
        return self._send(protocol.feedback_many(self.name, answers))

    def cancel(self, id: str) -> FeedbackResult:
        """Cancel an open decision; later feedback for it is ignored.

        Returns "cancelled"; "duplicate" if it was cancelled before; or "known", as `feedback` does. Raises
        `ConflictingFeedback` if it was answered or has expired.
        """
        return self._send(protocol.cancel(self.name, id))

    def decision(self, id: str) -> DecisionState:
        """Return a decision and its status; raise UnknownDecision if the id was never issued."""
        return self._send(protocol.decision(self.name, id))

    def recent(self) -> list[DecisionState]:
        """Return the last decisions, the newest first."""
        return self._send(protocol.recent(self.name))

    def explain(self, id: str) -> ExplanationReply:
        """Return why a class looks best now for the features of a decision; raise Gone if it was purged."""
        return self._send(protocol.explain(self.name, id))

    def add_class(self, name: Name) -> None:
        """Add a class, or one that was retired."""
        self._send(protocol.add_class(self.name, name))

    def retire_class(self, name: Name) -> None:
        """Retire a class: it is not chosen any more."""
        self._send(protocol.retire_class(self.name, name))

    def describe(self) -> ModelReply:
        """Return the parameters of the model, its classes, and the number of its decisions."""
        return self._send(protocol.show_model(self.name))

    def stats(self) -> StatsReply:
        """Return counts and rates."""
        return self._send(protocol.stats(self.name))

    def digest(self) -> str:
        """Return a SHA-256 of the state: what was learned, and the open decisions; as `delaytron verify` prints it."""
        return self._send(protocol.digest(self.name))

    def weights(self) -> WeightsReply:
        """Return the weights; of hashed features those that are not 0."""
        return self._send(protocol.weights(self.name))

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r} at {self._client._settings.shown})"


class AsyncClient:
    """`dt.Client` for an event loop: the same parameters and the same methods, which are awaited.

    Examples
    --------
    >>> async def route(prompt):
    ...     async with AsyncClient("http://127.0.0.1:8100") as client:
    ...         return await client.model("router").decide({"prompt": prompt})
    """

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, timeout: float = 10, retries: int = 4) -> None:
        self._settings = check_settings(url, key, timeout, retries)
        self._http = import_httpx().AsyncClient(**http_options(self._settings))
        self._failures = import_httpx().RequestError

    async def create_model(self, name: str, classes: Iterable[Name], **options: Any) -> "AsyncRemoteModel":
        """Create a model and return it; see `Client.create_model`."""
        await self._send(protocol.create_model(name, classes, options))
        return self.model(name)

    async def models(self) -> list[ModelReply]:
        """Return all models."""
        return await self._send(protocol.list_models())

    def model(self, name: str) -> "AsyncRemoteModel":
        """Return a model by its name; nothing is sent yet. Raises InvalidInput if it cannot be a name."""
        return AsyncRemoteModel(self, name)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, request: ClientRequest[T]) -> T:
        tries = Tries(request, self._settings.shown, self._settings.retries)
        while (wait := tries.take(await self._try(request))) is not None:
            await asyncio.sleep(wait)
        return tries.result()

    async def _try(self, request: ClientRequest[Any]) -> HttpReply | NoReply:
        arguments = http_arguments(self._http, self._settings, request)
        try:
            return as_reply(await self._http.request(**arguments))
        except self._failures as problem:
            return as_no_reply(problem)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._settings.shown!r})"


class AsyncRemoteModel:
    """A model of a service, by its name: `RemoteModel` with methods that are awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.name = protocol.check_model_name(name)
        self._client = client
        self._send = client._send

    async def decide(
        self,
        features: Any,
        *,
        id: str | None = None,
        allowed: Iterable[Name] | None = None,
    ) -> RemoteDecision:
        """Choose a class; see `RemoteModel.decide`."""
        return await self._send(protocol.decide(self.name, features, id, allowed))

    async def decide_many(
        self,
        xs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        allowed: Iterable[Name] | None = None,
    ) -> list[RemoteDecision]:
        """Choose a class for each of at most 1,000 rows; all decisions are made or, after an error, none."""
        return await self._send(protocol.decide_many(self.name, xs, ids, allowed))

    async def feedback(
        self,
        id: str | None = None,
        correct: bool | None = None,
        *,
        label: Name | None = None,
        reward: float | None = None,
    ) -> FeedbackResult:
        """Give the answer to a decision; see `RemoteModel.feedback` for what is returned."""
        answer = GivenAnswer(id=id, correct=correct, label=label, reward=reward)
        return await self._send(protocol.feedback(self.name, answer))

    async def feedback_many(self, answers: Iterable[GivenAnswer]) -> list[FeedbackResult | DelaytronError]:
        """Give answers such as `{"id": "req-17", "correct": True}`; return the result or the error of each."""
        return await self._send(protocol.feedback_many(self.name, answers))

    async def cancel(self, id: str) -> FeedbackResult:
        """Cancel an open decision; see `RemoteModel.cancel` for what is returned."""
        return await self._send(protocol.cancel(self.name, id))

    async def decision(self, id: str) -> DecisionState:
        """Return a decision and its status."""
        return await self._send(protocol.decision(self.name, id))

    async def recent(self) -> list[DecisionState]:
        """Return the last decisions, the newest first."""
        return await self._send(protocol.recent(self.name))

    async def explain(self, id: str) -> ExplanationReply:
        """Return why a class looks best now for the features of a decision."""
        return await self._send(protocol.explain(self.name, id))

    async def add_class(self, name: Name) -> None:
        """Add a class, or one that was retired."""
        await self._send(protocol.add_class(self.name, name))

    async def retire_class(self, name: Name) -> None:
        """Retire a class: it is not chosen any more."""
        await self._send(protocol.retire_class(self.name, name))

    async def describe(self) -> ModelReply:
        """Return the parameters of the model, its classes, and the number of its decisions."""
        return await self._send(protocol.show_model(self.name))

    async def stats(self) -> StatsReply:
        """Return counts and rates."""
        return await self._send(protocol.stats(self.name))

    async def digest(self) -> str:
        """Return a SHA-256 of the state: what was learned, and the open decisions."""
        return await self._send(protocol.digest(self.name))

    async def weights(self) -> WeightsReply:
        """Return the weights; of hashed features those that are not 0."""
        return await self._send(protocol.weights(self.name))

    def __repr__(self) -> str:
        return f"AsyncRemoteModel({self.name!r} at {self._client._settings.shown})"
