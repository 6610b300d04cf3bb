"""API keys and their scopes, the address to listen on, limits of sizes and counts, and the rate limit."""

import hmac
import os
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple, get_args

from delaytron.errors import InvalidInput
from delaytron.service.messages import NewModel
from delaytron.service.problems import Forbidden, TooLarge, TooMany, Unauthorized

Scope = Literal["admin", "client"]  # an admin may do everything; a client may decide, give feedback and read
SCOPES: tuple[Scope, ...] = get_args(Scope)
VARIABLES: dict[str, Scope] = {"DELAYTRON_ADMIN_KEY": "admin", "DELAYTRON_CLIENT_KEY": "client"}
SHORTEST_KEY, LONGEST_KEY = 16, 1_000  # characters
KEY = re.compile("[!-~]*")  # what a header can carry
NEW_KEY = "make one with `openssl rand -hex 24`"
LINE = "write lines SCOPE KEY, where SCOPE is admin or client"
LARGEST_FILE = 65_536  # bytes of a file of keys
OTHERS = stat.S_IRWXG | stat.S_IRWXO  # permissions of others than the owner


class ApiKeys:
    """The API keys of a service, and the scope of each.

    Keys are compared as hashes with a secret of this process, and a given key with all of them: the time of a request
    reveals neither which key it matched nor how much of a key was right.

    Examples
    --------
    >>> keys = ApiKeys([("admin", "correct-horse-battery"), ("client", "0123456789abcdef")])
    >>> keys.scope_of("Bearer 0123456789abcdef")
    'client'
    >>> keys.scope_of("Bearer 0123456789abcdee") is None
    True
    >>> keys
    ApiKeys(1 admin, 1 client)
    """

    def __init__(self, keys: Iterable[tuple[Scope, str]] = ()) -> None:
        self._secret = os.urandom(32)
        self._scopes: dict[bytes, Scope] = {}
        for scope, key in keys:
            check_key(key)
            if self._scopes.setdefault(self._digest(key), scope) != scope:
                raise InvalidInput("a key must have one scope, got one that is admin and client", NEW_KEY)

    def __len__(self) -> int:
        return len(self._scopes)

    def find(self, authorization: str | None) -> bytes | None:
        """Return the hash of the key in the header `Authorization: Bearer KEY`; None if it has no known key."""
        scheme, _, key = (authorization or "").partition(" ")
        given = self._digest(key.strip(" ")[: LONGEST_KEY + 1] if scheme.lower() == "bearer" else "")
        found = None
        for known in self._scopes:  # all of them, also after the right one
            same = hmac.compare_digest(given, known)
            found = known if same else found
        return found

    def scope_of(self, authorization: str | None) -> Scope | None:
        """Return the scope of a header's key; None if it has no known key. Without keys every request is an admin's."""
        if not self._scopes:
            return "admin"
        found = self.find(authorization)
        return None if found is None else self._scopes[found]

    def require(self, authorization: str | None, scope: Scope) -> None:
        """Raise Unauthorized if a request has no known key, and Forbidden if that of an admin is needed."""
        has = self.scope_of(authorization)
        if has is None:
            given = "no API key" if authorization is None else "no API key that is known here"
            raise Unauthorized(
                f"this request has {given}", "send one as Authorization: Bearer KEY, in Python by key=KEY"
            )
        if scope == "admin" and has != "admin":
            raise Forbidden(
                "this needs an admin key, and the request has a client key", "ask the operator of the service for one"
            )

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode(errors="surrogatepass"), "sha256")

    def __repr__(self) -> str:
        scopes = list(self._scopes.values())
        return f"ApiKeys({', '.join(f'{scopes.count(scope)} {scope}' for scope in SCOPES)})"


def check_key(key: str) -> None:
    """Raise InvalidInput if a key is too short to be secret, or cannot be sent in a header; the key is never shown."""
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        allowed = f"{SHORTEST_KEY} to {LONGEST_KEY:,} characters"
        raise InvalidInput(f"an API key must have {allowed}, got {len(key)}", NEW_KEY, allowed=allowed)
    if not KEY.fullmatch(key):
        raise InvalidInput("an API key must be ASCII without white space", NEW_KEY)


def read_api_keys(path: Path | None = None, environment: Mapping[str, str] | None = None) -> ApiKeys:
    """Return the keys of a file, lines of a scope and a key, and of DELAYTRON_ADMIN_KEY and DELAYTRON_CLIENT_KEY.

    Raises InvalidInput, without what is in the file, if others may read it or a key of it cannot be used.

    Examples
    --------
    >>> read_api_keys(environment={"DELAYTRON_CLIENT_KEY": "0123456789abcdef"})
    ApiKeys(0 admin, 1 client)
    """
    variables = os.environ if environment is None else environment
    found = [(name, scope, variables[name]) for name, scope in VARIABLES.items() if name in variables]
    if path is not None:
        found += _keys_in_file(path)
    keys = []
    for source, scope, key in found:
        try:
            check_key(key)
        except InvalidInput as problem:
            raise problem.at(source) from None
        keys.append((scope, key))
    return ApiKeys(keys)


def _keys_in_file(path: Path) -> list[tuple[str, Scope, str]]:
    """Return the keys of a file with their places.

    Raises InvalidInput, which shows nothing of a line, if others than the owner have any permission for the file.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode  # of the open file: the path may be another one by now
            content = file.read(LARGEST_FILE + 1)
    except OSError as problem:
        raise InvalidInput(f"cannot read {path}: {problem.strerror}", "give a file of keys") from None
    if sys.platform != "win32" and mode & OTHERS:
        raise InvalidInput(
            f"{path} holds keys, and others than its owner have permissions for it (mode {stat.S_IMODE(mode):o})",
            f"run chmod 600 {path}",
        )
    if len(content) > LARGEST_FILE:
        raise InvalidInput(f"{path} must have {LARGEST_FILE:,} bytes at most", "give a file of keys")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} must be text in UTF-8", "save the file as such") from None
    keys: list[tuple[str, Scope, str]] = []
    for number, line in enumerate(lines, start=1):
        place, words = f"{path}, line {number}", line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise InvalidInput(f"{place}: must be SCOPE KEY, two words; got {len(words)}", LINE)
        scope = next((known for known in SCOPES if known == words[0]), None)
        if scope is None:
            raise InvalidInput(f"{place}: must begin with admin or client, got another word", LINE)
        keys.append((place, scope, words[1]))
    if not keys:
        raise InvalidInput(f"{path} has no key", LINE)
    return keys


def resolve(host: str, port: int = 0) -> list[Any]:
    """Return the addresses that a host name stands for, as `socket.getaddrinfo` does; an empty one is all addresses.

    Raises InvalidInput if the host is unknown.
    """
    try:
        return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, ValueError):  # a ValueError for what cannot be a name
        raise InvalidInput(
            f"host {host!r} is not known on this machine", "use 127.0.0.1, or another address of it", parameter="host"
        ) from None


def check_binding(host: str, keys: ApiKeys) -> None:
    """Raise InvalidInput if no key is set, and other machines could reach the service or the host is unknown.

    Examples
    --------
    >>> check_binding("127.0.0.1", ApiKeys())
    >>> check_binding("0.0.0.0", ApiKeys([("admin", "0123456789abcdef")]))
    """
    if len(keys):
        return
    for entry in resolve(host):
        address = ip_address(str(entry[4][0]).partition("%")[0])
        inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        if not (inner or address).is_loopback:
            raise InvalidInput(
                f"host {host!r} ({address}) can be reached from other machines, and no API key is set",
                f"use 127.0.0.1, or set {' or '.join(VARIABLES)}, or give --keys FILE",
                parameter="host",
            )


class Limits(NamedTuple):
    """Limits of a service: sizes, counts, seconds, and the requests per second of one client.

    The methods raise InvalidInput, TooLarge or TooMany for what is above a limit.
    """

    body_bytes: int = 1_000_000
    body_seconds: float = 10.0
    batch: int = 1_000
    features: int = 10_000
    classes: int = 1_000
    weights: int = 50_000_000
    models: int = 100
    open_decisions: int = 1_000_000
    rate: float | None = None

    def check_model(self, wanted: NewModel) -> None:
        """Raise InvalidInput if a model would be too large."""
        n_classes = len(wanted.classes)
        self.check_classes(n_classes)
        if isinstance(wanted.features, int):
            n_features = wanted.features
        else:
            n_features = 2**wanted.bits if isinstance(wanted.features, str) else len(wanted.features)
        if n_features * n_classes > self.weights:
            raise InvalidInput(
                f"a model must have {self.weights:,} weights at most, "
                f"got {n_features:,} features times {n_classes:,} classes",
                "give fewer bits or features",
            )

    def check_classes(self, count: int) -> None:
        """Raise InvalidInput if a model would have too many classes."""
        if count > self.classes:
            raise InvalidInput(
                f"a model must have {self.classes:,} classes at most, got {count:,}",
                "give fewer, or divide them among several models",
                parameter="classes",
            )

    def check_room(self, n_models: int) -> None:
        """Raise TooMany if there are as many models as are allowed."""
        if n_models >= self.models:
            raise TooMany(
                f"there are {self.models:,} models already, which is the limit", "use one of them, or another service"
            )

    def check_open(self, n_open: int, more: int) -> None:
        """Raise TooMany if too many decisions would be open with `more`; retries open none and are not refused."""
        if more and n_open + more > self.open_decisions:
            raise TooMany(
                f"{self.open_decisions:,} decisions wait for an answer already, the limit",
                "answer or cancel some, or start the service with a larger --max-open",
            )

    def check_batch(self, count: int) -> None:
        """Raise TooLarge if there are too many entries in a batch."""
        if count > self.batch:
            raise TooLarge(f"a batch must have {self.batch:,} entries at most, got {count:,}", "send several batches")

    def check_features(self, features: Any) -> None:
        """Raise InvalidInput if a decision has too many features, at any depth."""
        left = self.features
        waiting = [features]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict | list):
                left -= len(value)
                waiting.extend(value.values() if isinstance(value, dict) else value)
            if left < 0:
                raise InvalidInput(
                    f"a decision must have {self.features:,} features at most, got more",
                    "leave some out",
                    parameter="features",
                )


MOST_CLIENTS = 10_000  # whose rates are kept


class RateLimit:
    """A token bucket for each client: it gets `rate` tokens per second, and holds those of two seconds.

    Examples
    --------
    >>> limit = RateLimit(1.0, clock=lambda: 0.0)
    >>> limit.take("a"), limit.take("a")
    (None, None)
    >>> limit.take("a")
    Traceback (most recent call last):
    ...
    delaytron.service.problems.TooMany: more than 1 requests per second; try again in 1 s
    """

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str | bytes, tuple[float, float]] = {}  # client -> tokens, time of the count

    def take(self, client: str | bytes) -> None:
        """Take a token of a client; raise TooMany if there is none."""
        now = self._clock()
        size = 2 * max(1.0, self._rate)
        tokens, since = self._buckets.pop(client, (size, now))
        tokens = min(size, tokens + (now - since) * self._rate)
        self._buckets[client] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]  # the one that was used longest ago
        if tokens < 1:
            seconds = (1 - tokens) / self._rate
            raise TooMany(
                f"more than {self._rate:g} requests per second", f"try again in {ceil(seconds)} s", seconds=seconds
            )
