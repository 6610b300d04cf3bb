"""What is not exactly a token that was signed here: refused as forged, and never by another error."""

import hmac
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from signing import KEYS, NEW, OLD, SECRET, TICKET, bytes_of, flips, sealed, signed, text_of, tickets

from delaytron.service import tokens
from delaytron.service.problems import ForeignToken, ForgedToken
from delaytron.service.tokens import LARGEST_PAYLOAD, LONGEST_TOKEN, TokenKey, TokenKeys

every_padding = pytest.mark.parametrize("id", ["req-17", "req-178", "req-1789"])  # no, two and one = left out


@every_padding
@pytest.mark.parametrize("keys", [KEYS, TokenKeys([NEW, OLD])], ids=["one key", "two keys"])
def test_every_flip_of_one_bit_is_forged(keys, id):
    token = keys.sign(msgspec.structs.replace(TICKET, id=id))
    changed = [text_of(flipped) for flipped in flips(bytes_of(token))]
    changed += [flipped.decode("latin-1") for flipped in flips(token.encode())]
    for forged in changed:
        with pytest.raises(ForgedToken):
            keys.read(forged, "uid", 0)


@every_padding
def test_every_truncation_and_every_addition_is_forged(id):
    token = KEYS.sign(msgspec.structs.replace(TICKET, id=id))
    whole = bytes_of(token)
    changed = [token[:size] for size in range(len(token))] + [token[size:] for size in range(1, len(token))]
    changed += [text_of(whole[:size]) for size in range(len(whole))]
    changed += [token + more for more in ("A", "AA", "AAAA", "=", "==", "\n", " ", "\0", "é")] + [" " + token]
    for forged in changed:
        with pytest.raises(ForgedToken):
            KEYS.read(forged, "uid", 0)


@settings(max_examples=300)
@given(tickets, st.data())
def test_a_changed_token_is_forged(ticket, data):
    token = KEYS.sign(ticket)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters().filter(lambda letter: letter != token[place]))
    for forged in (token[:place] + letter + token[place + 1 :], token[:place], token[:place] + letter + token[place:]):
        with pytest.raises(ForgedToken):
            KEYS.read(forged, ticket.model, 0)


def test_who_repairs_the_checksum_gains_nothing(monkeypatch):
    monkeypatch.setattr(tokens, "_unpack", lambda *_: pytest.fail("parsed before its signature held"))
    content = bytes_of(KEYS.sign(TICKET))[:-4]
    for place, changed in enumerate(flips(content)):
        of_the_id = 16 <= place < 48  # the length of the key's id, and the id
        with pytest.raises((ForgedToken, ForeignToken) if of_the_id else ForgedToken):
            KEYS.read(sealed(changed), "uid", 0)


def test_a_signature_of_another_key_under_a_known_id_is_forged():
    payload = msgspec.msgpack.encode(TICKET)
    assert KEYS.read(signed(payload), "uid", 0) == TICKET
    with pytest.raises(ForgedToken):
        KEYS.read(signed(payload, key=TokenKey("old", b"x" * 32)), "uid", 0)


@settings(max_examples=300)
@given(st.text() | st.from_regex("[A-Za-z0-9_-]*", fullmatch=True))
@example("\ud800")
@example("")
def test_random_text_is_forged(text):
    with pytest.raises(ForgedToken):
        KEYS.read(text, "uid", 0)


@given(st.binary(max_size=100), st.integers(0, 255), st.booleans())
def test_random_bytes_with_a_right_checksum_are_refused(content, size, known):
    start = bytes([1, 0, 3]) + b"old" if known else bytes([1, 0, size])
    with pytest.raises((ForgedToken, ForeignToken)):
        KEYS.read(sealed(start + content), "uid", 0)


@given(st.binary(max_size=100), st.integers(0, 255))
def test_what_is_signed_but_no_ticket_is_forged(payload, form):
    for body in (payload, msgspec.msgpack.encode(["uid", "id", payload, 1, 2, None]), zlib.compress(payload)):
        with pytest.raises(ForgedToken):
            KEYS.read(signed(body, form), "uid", 0)


def test_what_is_signed_but_no_text_is_forged():
    with pytest.raises(ForgedToken):
        KEYS.read(signed(b"\x96\xa1\x80", 0), "uid", 0)


def test_a_token_that_is_shorter_than_the_id_of_its_key_is_forged():
    with pytest.raises(ForgedToken):
        KEYS.read(sealed(bytes([1, 0, 4]) + b"odd" + bytes(32)), "uid", 0)


def test_a_token_of_a_later_version_is_forged():
    whole = bytearray(bytes_of(KEYS.sign(TICKET))[:-36])
    whole[0] = 2
    with pytest.raises(ForgedToken):
        KEYS.read(sealed(bytes(whole) + hmac.digest(SECRET, bytes(whole), "sha256")), "uid", 0)


def test_a_bomb_is_not_unpacked():
    bomb = zlib.compress(bytes(100_000_000), 9)
    token = signed(bomb, form=1)
    assert len(token) < LONGEST_TOKEN
    tracemalloc.start()
    try:
        with pytest.raises(ForgedToken):
            KEYS.read(token, "uid", 0)
        assert tracemalloc.get_traced_memory()[1] < 5 * LARGEST_PAYLOAD
    finally:
        tracemalloc.stop()


def test_after_the_stream_nothing_may_follow():
    payload = zlib.compress(msgspec.msgpack.encode(TICKET))
    assert KEYS.read(signed(payload, form=1), "uid", 0) == TICKET
    for changed in (payload + b"\0", payload[:-1]):
        with pytest.raises(ForgedToken):
            KEYS.read(signed(changed, form=1), "uid", 0)
