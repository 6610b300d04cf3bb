"""Tokens made by the standard library, tickets to sign, and what differs from a token in one bit."""

import hashlib
import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

from hypothesis import strategies as st

from delaytron.model.facts import Decided
from delaytron.service.tokens import Ticket, TokenKey, TokenKeys

SECRET = bytes(range(32))
OLD, NEW = TokenKey("old", SECRET), TokenKey("new-2", b"n" * 64)
KEYS = TokenKeys([OLD])
DECIDED = Decided(3, b"\x01\0\0\0", bytes(8), None, 1, 2, 0.25, b"")
TICKET = Ticket("uid", "req-17", DECIDED, 1_000, 2_000, 5_000)

numbers = st.integers(-(2**63), 2**64 - 1)
names = st.lists(st.tuples(st.integers(0, 2**32), st.text(max_size=5)), max_size=2).map(tuple)
decisions = st.builds(
    Decided,
    numbers,
    st.none() | st.binary(),
    st.binary(max_size=200) | st.integers(0, 2_000).map(bytes),  # the latter compress
    st.none() | st.binary(),
    numbers,
    numbers,
    st.floats(allow_nan=False),
    st.binary(),
    names,
)
tickets = st.builds(Ticket, st.text(), st.text(max_size=200), decisions, numbers, numbers, st.none() | numbers)


def bytes_of(token):
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


def text_of(whole):
    return urlsafe_b64encode(whole).rstrip(b"=").decode()


def sealed(whole):
    """Return a token of these bytes, with a checksum that is right."""
    return text_of(whole + zlib.crc32(whole).to_bytes(4, "big"))


def signed(payload, form=0, key=OLD):
    """Return a token, made as the page says and by the standard library only."""
    whole = bytes([1, form, len(key.id)]) + key.id.encode() + payload
    return sealed(whole + hmac.new(key.secret, whole, hashlib.sha256).digest())


def flips(content):
    """Yield what differs in one bit."""
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)
