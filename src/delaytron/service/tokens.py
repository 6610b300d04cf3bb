"""Signed decision tokens: what the answer will need travels with the client, and cannot be changed on the way.

A token is text: URL-safe base64 without padding of

====================  =====================================================================
1 byte                the version, 1
1 byte                how the payload stands there: 0 as it is, 1 compressed with zlib
1 byte, then so many  the id of the key
the rest but 36       the payload: a `Ticket` as MessagePack
32 bytes              HMAC-SHA-256 of everything before it
4 bytes               CRC-32 of everything before it, high byte first
====================  =====================================================================

The checksum protects nothing. It tells a damaged token from one of another service, whose key is not known here.
A token is signed, not encrypted: who holds it can read the features in it.
"""

import hmac
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from delaytron.checks import check_distinct
from delaytron.errors import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.model.facts import Decided
from delaytron.service.problems import ExpiredToken, ForeignToken, ForgedToken

VERSION = 1
AS_IT_IS, COMPRESSED = range(2)
LEVEL = 1  # of compression: a tenth larger than by the default, in a quarter of the time
SIGNATURE = 32  # bytes
CHECKSUM = 4  # bytes
LONGEST_TOKEN = 200_000  # letters: 10,000 pairs of an index and a number that do not compress fit in
LARGEST_PAYLOAD = 1_000_000  # bytes, unpacked
SHORTEST_SECRET = 32  # bytes
LONGEST_SECRET = 1_024  # bytes
KEY_ID = re.compile("[A-Za-z0-9_-]{1,32}")
LETTERS = re.compile("[A-Za-z0-9_-]*")  # of URL-safe base64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FORGED = "this is not a token of this service, or it was changed; send it exactly as the decision's reply had it"


class Ticket(msgspec.Struct, array_like=True, frozen=True):
    """A decision of a model, when it was made, and until when its answer is taken: wall-clock ns, or None for ever.

    The wall clock is the right one here. A token outlives processes and machines, whose steady clocks agree on nothing.
    """

    model: str
    id: str
    decided: Decided
    wall: int
    clock: int
    expires: int | None = None

    @property
    def moment(self) -> Moment:
        """When the decision was made."""
        return Moment(self.wall, self.clock)


@dataclass(frozen=True)
class TokenKey:
    """A key with its id: the id stands in every token, the secret is never shown."""

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not KEY_ID.fullmatch(self.id):
            raise InvalidInput("the id of a key must be 1 to 32 letters, digits, _ or -; choose another one")
        if not SHORTEST_SECRET <= len(self.secret) <= LONGEST_SECRET:
            raise InvalidInput(
                f"a key must have {SHORTEST_SECRET} to {LONGEST_SECRET:,} random bytes, got {len(self.secret)}; "
                "make one with `openssl rand -hex 32`"
            )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ticket).decode


class TokenKeys:
    """Signs tokens with the first key, and reads those signed with any of them.

    Rotation: put a new key first; drop the old one when the last token that it signed has expired.

    Examples
    --------
    >>> keys = TokenKeys([TokenKey("a", bytes(32))])
    >>> token = keys.sign(Ticket("uid", "req-17", Decided(1, None, b"", None, 0, 0, 1.0, b""), 5, 5, expires=9))
    >>> keys.read(token, "uid", now=8).id
    'req-17'
    >>> keys.read(token, "uid", now=9)
    Traceback (most recent call last):
    ...
    delaytron.service.problems.ExpiredToken: this token expired at 1970-01-01T00:00:00Z; drop the answer, it is too late
    """

    def __init__(self, keys: Sequence[TokenKey]) -> None:
        check_distinct("keys", [key.id for key in keys], same="id")
        self._signing = keys[0]
        self._secrets = {key.id.encode(): key.secret for key in keys}

    @property
    def ids(self) -> list[str]:
        """The ids of the keys, that of the signing one first."""
        return [known.decode() for known in self._secrets]

    def sign(self, ticket: Ticket) -> str:
        """Return a ticket as a token; raise if it would be too long."""
        key = self._signing
        form, payload = _pack(_encode(ticket))
        signed = bytes((VERSION, form, len(key.id))) + key.id.encode() + payload
        whole = signed + hmac.digest(key.secret, signed, "sha256")
        token = urlsafe_b64encode(whole + _checksum(whole)).rstrip(b"=").decode()
        if len(token) > LONGEST_TOKEN:
            raise _too_large()
        return token

    def read(self, token: str, model_uid: str, now: int) -> Ticket:
        """Return the ticket of a token that is honoured now, by the wall clock in ns; raise if it is not.

        Whether it was answered before is not known here. The payload is not looked at before its signature holds.
        """
        ticket = self._verified(token)
        if ticket.model != model_uid:
            raise ForeignToken("this token is of another model; send it to the model that decided")
        if ticket.expires is not None and now >= ticket.expires:
            raise ExpiredToken(f"this token expired at {_date(ticket.expires)}; drop the answer, it is too late")
        return ticket

    def _verified(self, token: str) -> Ticket:
        signed, signature = _split(token)
        form, size = signed[1], signed[2]
        secret = self._secrets.get(signed[3 : 3 + size])
        if secret is None:
            raise ForeignToken(
                "this token was signed with a key that is not known here; send it to the service that decided"
            )
        if not hmac.compare_digest(hmac.digest(secret, signed, "sha256"), signature):
            raise ForgedToken(FORGED)
        return _unpack(form, signed[3 + size :])

    def __repr__(self) -> str:
        return f"TokenKeys({', '.join(self.ids)})"


def _pack(payload: bytes) -> tuple[int, bytes]:
    """Return how a payload stands in a token, and its bytes: compressed if that makes it smaller."""
    if len(payload) > LARGEST_PAYLOAD:
        raise _too_large()
    compressed = zlib.compress(payload, LEVEL)
    return (COMPRESSED, compressed) if len(compressed) < len(payload) else (AS_IT_IS, payload)


def _too_large() -> InvalidInput:
    return InvalidInput(
        f"this decision does not fit into a token, which has {LONGEST_TOKEN:,} letters at most; "
        "send fewer features, or decide with stateless=false"
    )


def _split(token: str) -> tuple[bytes, bytes]:
    """Return what was signed, and the signature; raise if this is not a whole token of this version."""
    whole = _bytes_of(token)
    signed = whole[: -SIGNATURE - CHECKSUM]
    signature = whole[-SIGNATURE - CHECKSUM : -CHECKSUM]
    if len(signed) < 3 or len(signed) < 3 + signed[2] or signed[0] != VERSION:
        raise ForgedToken(FORGED)
    if whole[-CHECKSUM:] != _checksum(signed + signature):
        raise ForgedToken(FORGED)
    return signed, signature


def _bytes_of(token: str) -> bytes:
    """Return the bytes that a token stands for; raise if it is not the only way to write them."""
    if len(token) <= LONGEST_TOKEN and len(token) % 4 != 1 and LETTERS.fullmatch(token):
        whole = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        if urlsafe_b64encode(whole).rstrip(b"=") == token.encode():
            return whole
    raise ForgedToken(FORGED)


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(CHECKSUM, "big")


def _unpack(form: int, payload: bytes) -> Ticket:
    """Return the ticket of a payload whose signature holds."""
    try:
        return _decode(payload if form == AS_IT_IS else _decompress(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, zlib.error):  # signed with our key, but by something else
        raise ForgedToken(FORGED) from None


def _decompress(payload: bytes) -> bytes:
    """Return the bytes of one zlib stream, if they are not too many."""
    stream = zlib.decompressobj()
    content = stream.decompress(payload, LARGEST_PAYLOAD + 1)
    if len(content) > LARGEST_PAYLOAD or not stream.eof or stream.unused_data:
        raise zlib.error("not one whole stream of the size that is allowed")
    return content


def _date(wall: int) -> str:
    return (EPOCH + timedelta(seconds=wall // 10**9)).strftime("%Y-%m-%dT%H:%M:%SZ")
