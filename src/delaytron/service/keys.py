"""API keys: who may do what. Without any key everybody may do everything, and the service is bound to loopback."""

import hmac
import os
import re
import socket
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal, get_args

from delaytron.errors import InvalidInput
from delaytron.service.problems import Forbidden, Unauthorized
from delaytron.service.secret_files import read_secret_text, secret_lines

Scope = Literal["admin", "client"]  # an admin may do everything; a client may decide, give feedback and read
SCOPES: tuple[Scope, ...] = get_args(Scope)
VARIABLES: dict[str, Scope] = {"DELAYTRON_ADMIN_KEY": "admin", "DELAYTRON_CLIENT_KEY": "client"}
SHORTEST_KEY, LONGEST_KEY = 16, 1_000  # characters
KEY = re.compile("[!-~]*")  # what a header can carry
FORM = "SCOPE KEY"


class ApiKeys:
    """Tells the scope of a request by its key.

    A key is compared with all keys that there are, and both are hashed with a secret of this process before that: the
    time tells neither which key it was nor how much of it was right.

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
                raise InvalidInput("a key must have one scope, got one that is admin and client; make another one")

    def __len__(self) -> int:
        return len(self._scopes)

    def scope_of(self, authorization: str | None) -> Scope | None:
        """Return what the header `Authorization: Bearer KEY` allows; None if it has no key that is known.

        Without any key set everybody is an admin.
        """
        if not self._scopes:
            return "admin"
        given = self._digest(_bearer(authorization))
        found: Scope | None = None
        for digest, scope in self._scopes.items():  # all of them, also after the right one
            same = hmac.compare_digest(given, digest)
            found = scope if same else found
        return found

    def require(self, authorization: str | None, scope: Scope) -> None:
        """Raise if a request with this header may not do what needs a scope."""
        has = self.scope_of(authorization)
        if has is None:
            given = "no API key" if authorization is None else "no API key that is known here"
            raise Unauthorized(f"this request has {given}; send one as Authorization: Bearer KEY, in Python by key=KEY")
        if scope == "admin" and has != "admin":
            raise Forbidden("this needs an admin key, and the request has a client key; ask who runs the service")

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode(errors="surrogatepass"), "sha256")

    def __repr__(self) -> str:
        scopes = list(self._scopes.values())
        return f"ApiKeys({', '.join(f'{scopes.count(scope)} {scope}' for scope in SCOPES)})"


def _bearer(authorization: str | None) -> str:
    """Return the key in a header; nothing if there is none."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip(" ")[: LONGEST_KEY + 1] if scheme.lower() == "bearer" else ""


def check_key(key: str) -> None:
    """Raise if a key is too short to be secret, or cannot stand in a header. It is never shown."""
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise InvalidInput(
            f"an API key must have {SHORTEST_KEY} to {LONGEST_KEY:,} characters, got {len(key)}; "
            "make one with `openssl rand -hex 24`"
        )
    if not KEY.fullmatch(key):
        raise InvalidInput("an API key must be ASCII without white space; make one with `openssl rand -hex 24`")


def read_api_keys(path: Path | None = None, environment: Mapping[str, str] | None = None) -> ApiKeys:
    """Return the keys of a file, lines of a scope and a key, and of DELAYTRON_ADMIN_KEY and DELAYTRON_CLIENT_KEY.

    Examples
    --------
    >>> read_api_keys(environment={"DELAYTRON_CLIENT_KEY": "0123456789abcdef"})
    ApiKeys(0 admin, 1 client)
    """
    keys = _of_environment(os.environ if environment is None else environment)
    if path is not None:
        keys += _of_file(path)
    return ApiKeys(keys)


def _of_environment(environment: Mapping[str, str]) -> list[tuple[Scope, str]]:
    return [
        (scope, _named(variable, environment[variable]))
        for variable, scope in VARIABLES.items()
        if variable in environment
    ]


def _of_file(path: Path) -> list[tuple[Scope, str]]:
    lines = secret_lines(path, read_secret_text(path), FORM)
    keys = [(_scope(path, number, scope), _named(f"{path}, line {number}", key)) for number, scope, key in lines]
    if not keys:
        raise InvalidInput(f"{path} has no key; write lines {FORM}, where SCOPE is admin or client")
    return keys


def _scope(path: Path, number: int, word: str) -> Scope:
    for scope in SCOPES:
        if scope == word:
            return scope
    raise InvalidInput(f"{path}, line {number}: must begin with admin or client, got another word; write {FORM}")


def _named(source: str, key: str) -> str:
    """Check a key; an error says where it stands."""
    try:
        check_key(key)
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem}") from None
    return key


def check_binding(host: str, keys: ApiKeys) -> None:
    """Raise if others than this machine could reach a service without keys.

    Examples
    --------
    >>> check_binding("127.0.0.1", ApiKeys())
    >>> check_binding("0.0.0.0", ApiKeys([("admin", "0123456789abcdef")]))
    """
    if len(keys):
        return
    open_to = next((address for address in _addresses(host) if not _is_loopback(address)), None)
    if open_to is not None:
        raise InvalidInput(
            f"host {host!r} ({open_to}) can be reached from other machines, and no API key is set; use 127.0.0.1, "
            f"or set {' or '.join(VARIABLES)}, or give --keys FILE"
        )


def _addresses(host: str) -> list[IPv4Address | IPv6Address]:
    """Return the addresses that a host stands for; no host is all that the machine has."""
    if not host:
        return [IPv6Address("::")]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    except (OSError, ValueError):  # names that are none at all are ValueErrors
        raise InvalidInput(
            f"host {host!r} is not known on this machine; use 127.0.0.1, or another address of it"
        ) from None


def _is_loopback(address: IPv4Address | IPv6Address) -> bool:
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (inner or address).is_loopback
