"""Signed decision tokens: what was signed comes back, from any known key, for its model, until it expires."""

import hashlib
import hmac
import zlib
from traceback import format_exception

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from signing import DECIDED, KEYS, NEW, OLD, SECRET, TICKET, bytes_of, tickets

from delaytron import InvalidInput
from delaytron.journal.clock import Moment
from delaytron.service import tokens
from delaytron.service.problems import ExpiredToken, ForeignToken, ForgedToken
from delaytron.service.tokens import LARGEST_PAYLOAD, TokenKey, TokenKeys

PINNED = (  # its signature by `openssl dgst`
    "AQADb2xklqN1aWSmcmVxLTE3mQPEBAEAAADECAAAAAAAAAAAwAECyz_QAAAAAAAAxACQzQPozQfQzROI5LHrYpWuBA7r53nOss7i"
    "X4hcROegF42n0AmPyzgukokcpyze"
)


@settings(max_examples=300)
@given(tickets)
@example(TICKET)
def test_what_was_signed_comes_back(ticket):
    before = 0 if ticket.expires is None else ticket.expires - 1
    assert KEYS.read(KEYS.sign(ticket), ticket.model, before) == ticket


def test_the_moment_of_a_decision_is_told():
    assert TICKET.moment == Moment(wall=1_000, clock=2_000)


@given(tickets)
@example(TICKET)
def test_a_token_is_made_as_its_description_says(ticket):
    whole = bytes_of(KEYS.sign(ticket))
    content, signature, checksum = whole[:-36], whole[-36:-4], whole[-4:]
    assert zlib.crc32(content + signature) == int.from_bytes(checksum, "big")
    assert hmac.new(SECRET, content, hashlib.sha256).digest() == signature
    assert content[:6] in (b"\1\0\3old", b"\1\1\3old")
    payload = zlib.decompress(content[6:]) if content[1] else content[6:]
    assert len(content) - 6 <= len(payload)
    told = [*msgspec.structs.astuple(ticket.decided)[:-1], [list(pair) for pair in ticket.decided.names]]
    assert msgspec.msgpack.decode(payload) == [
        ticket.model,
        ticket.id,
        told,
        ticket.wall,
        ticket.clock,
        ticket.expires,
    ]


def test_tokens_of_this_version_stay_readable():
    assert KEYS.read(PINNED, "uid", 4_999) == TICKET
    assert KEYS.sign(TICKET) == PINNED


def test_what_compresses_is_compressed_and_what_does_not_is_not():
    long = msgspec.structs.replace(TICKET, decided=msgspec.structs.replace(DECIDED, values=bytes(80_000)))
    assert len(KEYS.sign(long)) < 1_000
    assert bytes_of(KEYS.sign(long))[1] == 1
    assert bytes_of(KEYS.sign(TICKET))[1] == 0


def of_size(size):
    """Return a ticket whose payload has so many bytes."""
    ticket = msgspec.structs.replace(TICKET, decided=msgspec.structs.replace(DECIDED, values=bytes(100_000)))
    more = size - len(msgspec.msgpack.encode(ticket))
    return msgspec.structs.replace(TICKET, decided=msgspec.structs.replace(DECIDED, values=bytes(100_000 + more)))


def test_the_largest_payload_is_read_and_a_larger_one_not_signed():
    largest = of_size(LARGEST_PAYLOAD)
    assert KEYS.read(KEYS.sign(largest), "uid", 0) == largest
    with pytest.raises(InvalidInput, match="does not fit into a token"):
        KEYS.sign(of_size(LARGEST_PAYLOAD + 1))


def test_a_token_that_would_be_too_long_is_not_signed(monkeypatch):
    size = len(KEYS.sign(TICKET))
    monkeypatch.setattr(tokens, "LONGEST_TOKEN", size)
    assert KEYS.read(KEYS.sign(TICKET), "uid", 0) == TICKET
    monkeypatch.setattr(tokens, "LONGEST_TOKEN", size - 1)
    with pytest.raises(InvalidInput, match="does not fit into a token"):
        KEYS.sign(TICKET)
    with pytest.raises(ForgedToken):
        KEYS.read(PINNED, "uid", 0)


def test_ten_thousand_pairs_that_do_not_compress_fit():
    noise = hashlib.shake_256(b"").digest(120_000)
    decided = msgspec.structs.replace(DECIDED, indices=noise[:40_000], values=noise[40_000:])
    ticket = msgspec.structs.replace(TICKET, decided=decided)
    assert KEYS.read(KEYS.sign(ticket), "uid", 0) == ticket


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-3, 3))
def test_a_token_expires_at_its_nanosecond(expires, after):
    token = KEYS.sign(msgspec.structs.replace(TICKET, expires=expires))
    if after < 0:
        assert KEYS.read(token, "uid", expires + after).expires == expires
    else:
        with pytest.raises(ExpiredToken, match=r"expired at .*Z; drop the answer, it is too late"):
            KEYS.read(token, "uid", expires + after)


def test_a_token_without_an_end_is_always_honoured():
    ticket = msgspec.structs.replace(TICKET, expires=None)
    assert KEYS.read(KEYS.sign(ticket), "uid", 2**70) == ticket


def test_the_token_of_another_model_is_foreign_also_after_its_time():
    for now in (0, 10_000):
        with pytest.raises(ForeignToken, match="of another model"):
            KEYS.read(KEYS.sign(TICKET), "other", now)


def test_a_new_key_signs_and_the_old_one_is_honoured_until_it_is_dropped():
    before = KEYS.sign(TICKET)
    both = TokenKeys([NEW, OLD])
    after = both.sign(TICKET)
    assert both.read(before, "uid", 0) == both.read(after, "uid", 0) == TICKET
    only_new = TokenKeys([NEW])
    assert only_new.read(after, "uid", 0) == TICKET
    for keys, token in ((only_new, before), (KEYS, after)):
        with pytest.raises(ForeignToken, match="a key that is not known here"):
            keys.read(token, "uid", 0)


@pytest.mark.parametrize(
    ("id", "secret", "message"),
    [
        ("", SECRET, "1 to 32 letters"),
        ("a b", SECRET, "1 to 32 letters"),
        ("é", SECRET, "1 to 32 letters"),
        ("a\n", SECRET, "1 to 32 letters"),
        ("a" * 33, SECRET, "1 to 32 letters"),
        ("a", SECRET[:31], "32 to 1,024 random bytes, got 31"),
        ("a", bytes(1025), "32 to 1,024 random bytes, got 1025"),
    ],
)
def test_keys_that_cannot_be_used_are_refused(id, secret, message):
    with pytest.raises(InvalidInput, match=message):
        TokenKey(id, secret)


def test_no_two_keys_have_the_same_id_and_one_is_needed():
    for keys in ([], [OLD, TokenKey("old", NEW.secret)]):
        with pytest.raises(InvalidInput, match="at least one, and no two of the same id"):
            TokenKeys(keys)


def test_no_secret_is_ever_shown():
    shown = [repr(KEYS), str(KEYS), repr(OLD), str(OLD), repr(TokenKeys([NEW, OLD]))]
    for call in (lambda: TokenKey("b", SECRET[:31]), lambda: TokenKeys([OLD, OLD]), lambda: KEYS.read("x", "uid", 0)):
        with pytest.raises((InvalidInput, ForgedToken)) as caught:
            call()
        shown += format_exception(caught.value)
    for text in shown:
        assert SECRET[:8].hex() not in text
        assert repr(SECRET[:8])[2:-1] not in text
        assert "nnnn" not in text
