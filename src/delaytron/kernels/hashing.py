"""MurmurHash3 (x86, 32 bits): the hash by which scikit-learn and Vowpal Wabbit place named features."""

from collections.abc import Sequence

import numpy as np

from delaytron.compiler.kernel import fill, kernel
from delaytron.records import Bytes, Ints

LOW_32 = 0xFFFFFFFF  # products are taken modulo 2^32: a 64-bit product that wraps around has the same low bits
FACTORS = (0xCC9E2D51, 0x1B873593)  # these and all other numbers are part of the published algorithm


@kernel
def scramble(block: int) -> int:
    """Return what a block of up to four bytes adds to the hash."""
    block = (block * FACTORS[0]) & LOW_32
    block = ((block << 15) | (block >> 17)) & LOW_32
    return (block * FACTORS[1]) & LOW_32


@kernel
def read_block(data: Bytes, start: int, stop: int) -> int:
    """Return bytes start..stop-1 as one integer, the first byte lowest."""
    block = 0
    for i in range(stop - 1, start - 1, -1):
        block = (block << 8) | int(np.int64(data[i]))  # signed for the compiler, and of any size for the interpreter
    return block


@kernel
def finish(hashed: int) -> int:
    """Return the hash after its last mixing, in which every bit moves every other."""
    hashed = ((hashed ^ (hashed >> 16)) * 0x85EBCA6B) & LOW_32
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & LOW_32
    return hashed ^ (hashed >> 16)


@kernel
def hash_chunk(data: Bytes, start: int, stop: int, seed: int) -> int:
    """Return the hash of bytes start..stop-1, from 0 to 2^32 - 1."""
    hashed = seed
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        hashed = hashed ^ scramble(read_block(data, i, i + 4))
        hashed = ((hashed << 13) | (hashed >> 19)) & LOW_32
        hashed = (hashed * 5 + 0xE6546B64) & LOW_32
    hashed = hashed ^ scramble(read_block(data, whole, stop))  # of nothing it is 0
    return finish(hashed ^ ((stop - start) & LOW_32))


@kernel
def hash_chunks(data: Bytes, ends: Ints, seed: int, hashes: Ints) -> None:
    """Write the hashes of all chunks to `hashes`; chunk i ends before byte ends[i], where the next one starts."""
    start = 0
    for i in range(ends.size):
        stop = int(ends[i])
        hashes[i] = hash_chunk(data, start, stop, seed)
        start = stop


_hash_chunks = fill(hash_chunks, "hash_chunks")


def hash_all(chunks: Sequence[bytes], seed: int = 0) -> Ints:
    """Return the MurmurHash3 of each chunk of bytes, from 0 to 2^32 - 1, by one compiled call.

    Examples
    --------
    >>> hash_all([b"hello", b""]).tolist()
    [613153351, 0]
    """
    ends = np.fromiter(map(len, chunks), np.int64, len(chunks)).cumsum()
    hashes = np.empty(len(chunks), np.int64)
    _hash_chunks(np.frombuffer(b"".join(chunks), np.uint8), ends, seed, hashes)
    return hashes
