"""How requests go over the wire, by httpx; it is imported when the first client is made."""

import re
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
LONGEST_TIMEOUT = 1_000_000_000  # seconds: what systems can wait for
KEY = re.compile("[!-~]+")
NO_TLS = "WRONG_VERSION_NUMBER"  # what OpenSSL says to a reply that is not TLS
SLOW_SECONDS = 120.0  # at least, for what may compile a learner
DEFAULT_URL = "http://127.0.0.1:8100"  # where `delaytron serve` listens


class Settings(NamedTuple):
    """Where a service is, and how long to try."""

    url: str
    key: str | None
    timeout: float
    retries: int

    @property
    def shown(self) -> str:
        """The url, without a password."""
        return without_password(self.url)


def check_settings(url: str, key: str | None, timeout: float, retries: int) -> Settings:
    """Return the settings of a client, or raise.

    Examples
    --------
    >>> check_settings("http://127.0.0.1:8100/", None, 10, 4)
    Settings(url='http://127.0.0.1:8100', key=None, timeout=10.0, retries=4)
    """
    if not _is_url(url):
        raise InvalidInput(f"url must be as in {DEFAULT_URL}, got {without_password(str(url)[:100])!r}")
    if key is not None and not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidInput("key must be ASCII without spaces, as the service has it; None if it has no keys")
    seconds = check_positive("timeout", timeout)
    if seconds > LONGEST_TIMEOUT:
        raise InvalidInput(f"timeout must be {LONGEST_TIMEOUT:,} seconds at most, got {timeout!r}")
    return Settings(url.rstrip("/"), key, seconds, check_integer("retries", retries, 0))


def _is_url(url: Any) -> bool:
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # raises for a name that none can be
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        return bool(known and url.isprintable() and " " not in url and not (parts.query or parts.fragment))
    except (ValueError, AttributeError, TypeError):
        return False


def without_password(url: str) -> str:
    """Return a url as it may be shown.

    Examples
    --------
    >>> without_password("http://shop:secret@127.0.0.1:8100")
    'http://...@127.0.0.1:8100'
    """
    return re.sub("//.*@", "//...@", url)


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


def check_open(client: Any) -> None:
    """Raise if a client of httpx was closed."""
    if client.is_closed:
        raise InvalidInput("this client is closed; make another one, or use it within its with block")


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
    reason = " ".join(str(problem).split()).rstrip(".") or type(problem).__name__
    if NO_TLS in reason:
        reason = "it does not speak TLS, use http:// instead of https://"
    return NoReply(reason, not isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout))
