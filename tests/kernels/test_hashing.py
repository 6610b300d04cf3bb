"""MurmurHash3, beside published values and the one of scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from delaytron.compiler.kernel import interpreted
from delaytron.kernels.hashing import hash_all, hash_chunks

PUBLISHED = [  # as in the tests of many implementations, Bitcoin Core's and scikit-learn's among them
    (b"", 0, 0),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"", 0xFBA4C795, 0x6A396F08),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"!Ce\x87", 0, 0xF55B516B),
    (b"!Ce\x87", 0x5082EDEE, 0x2362F9DE),
    (b"!Ce", 0, 0x7E4A8634),
    (b"!C", 0, 0xA0F7B07A),
    (b"!", 0, 0x72661CF4),
    (b"\0\0\0\0", 0, 0x2362F9DE),
    (b"\0\0\0", 0, 0x85F0B427),
    (b"\0\0", 0, 0x30F4C306),
    (b"\0", 0, 0x514E28B7),
    (b"a", 0x9747B28C, 0x7FA09EA6),
    (b"aa", 0x9747B28C, 0x5D211726),
    (b"aaa", 0x9747B28C, 0x283E0130),
    (b"aaaa", 0x9747B28C, 0x5A97808A),
    (b"a" * 256, 0x9747B28C, 0x37405BDC),
    (b"abc", 0, 0xB3DD93FA),
    (b"foo", 0, 4138058784),
    (b"foo", 42, 2972666014),
    (b"test", 0x9747B28C, 0x704B81DC),
    (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ("ππππππππ".encode(), 0x9747B28C, 0xD58063C1),
    (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 0, 0xEE925B90),
    (b"The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
    (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
]


def hashes_of(chunks, seed=0):
    """Return the hashes of all chunks, the same compiled and interpreted."""
    found = hash_all(chunks, seed).tolist()
    again = np.empty(len(chunks), np.int64)
    ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
    interpreted(hash_chunks)(np.frombuffer(b"".join(chunks), np.uint8), ends, seed, again)
    assert found == again.tolist()
    return found


@pytest.mark.parametrize(("data", "seed", "expected"), PUBLISHED)
def test_published_values(data, seed, expected):
    assert hashes_of([data], seed) == [expected]


def test_the_verification_value_of_its_author():
    key = bytes(range(256))
    hashes = [hashes_of([key[:length]], 256 - length)[0] for length in range(256)]
    assert hashes_of([np.array(hashes, "<u4").tobytes()]) == [0xB0F57EE3]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 2**32 - 1))
def test_many_chunks_are_hashed_as_each_alone(chunks, seed):
    assert hashes_of(chunks, seed) == [murmurhash3_32(chunk, seed, positive=True) for chunk in chunks]


def test_a_megabyte_is_hashed_as_by_scikit_learn():
    data = np.random.default_rng(0).bytes(1_000_003)
    assert hash_all([data]).tolist() == [murmurhash3_32(data, 0, positive=True)]
