"""How requests go over the wire, by httpx; it is imported when the first client is made."""

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from delaytron._version import __version__
from delaytron.checks import check_integer, check_positive
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.service.client.requests import ClientRequest
from delaytron.service.client.tries import HttpReply, NoReply

if TYPE_CHECKING:
    import httpx

MOST_CONNECTIONS = 100
SLOW_SECONDS = 120.0  # at least, for what may compile a learner
DEFAULT_URL = "http://127.0.0.1:8100"  # where `delaytron serve` listens


class Settings(NamedTuple):
    """Where a service is, and how long to try."""

    url: str
    key: str | None
    timeout: float
    retries: int


def check_settings(url: str, key: str | None, timeout: float, retries: int) -> Settings:
    """Return the settings of a client, or raise.

    Examples
    --------
    >>> check_settings("http://127.0.0.1:8100/", None, 10, 4)
    Settings(url='http://127.0.0.1:8100', key=None, timeout=10.0, retries=4)
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        known = False
    if not known or parts.query or parts.fragment:
        raise InvalidInput(f"url must be as in {DEFAULT_URL}, got {str(url)[:100]!r}")
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise InvalidInput("key must be a text of printable ASCII, as the service has it")
    seconds = check_positive("timeout", timeout)
    return Settings(url.rstrip("/"), key, seconds, check_integer("retries", retries, 0))


def import_httpx() -> Any:
    """Return httpx, or raise if it is missing."""
    needs("httpx")
    import httpx  # noqa: PLC0415 - an extra

    return httpx


def http_options(settings: Settings) -> dict[str, Any]:
    """Return what `httpx.Client` and `httpx.AsyncClient` are made with."""
    httpx = import_httpx()
    headers = {"User-Agent": f"delaytron/{__version__}"}
    if settings.key is not None:
        headers["Authorization"] = f"Bearer {settings.key}"
    return {
        "headers": headers,
        "timeout": httpx.Timeout(settings.timeout, pool=None),
        "limits": httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS),
    }


def http_arguments(settings: Settings, request: ClientRequest[Any]) -> dict[str, Any]:
    """Return what their method `request` is called with."""
    arguments: dict[str, Any] = {"method": request.method, "url": settings.url + request.path}
    if request.body is not None:
        arguments |= {"content": request.body, "headers": {"Content-Type": "application/json"}}
    if request.key is not None:
        arguments["headers"]["Idempotency-Key"] = request.key
    if request.slow:
        arguments["timeout"] = max(settings.timeout, SLOW_SECONDS)
    return arguments


def as_reply(reply: "httpx.Response") -> HttpReply:
    """Return what came back."""
    return HttpReply(reply.status_code, reply.headers, reply.content)


def as_no_reply(problem: Exception) -> NoReply:
    """Return why nothing came back; where there was no connection, nothing was sent.

    Examples
    --------
    >>> as_no_reply(import_httpx().ConnectError("Connection refused"))
    NoReply(reason='Connection refused', sent=False)
    >>> as_no_reply(import_httpx().ReadTimeout(""))
    NoReply(reason='ReadTimeout', sent=True)
    """
    httpx = import_httpx()
    reason = " ".join(str(problem).split()) or type(problem).__name__
    return NoReply(reason, not isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout))
