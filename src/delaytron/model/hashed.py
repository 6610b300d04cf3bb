"""Named features of any kind to sparse rows, by signed hashing: a name never seen before is as good as any other."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

import numpy as np

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.kernels.hashing import hash_all
from delaytron.model.mappings import as_mapping
from delaytron.model.name_table import LONGEST_NAME, NameTable
from delaytron.model.tokens import Token, list_tokens
from delaytron.model.values import check_numbers, check_size, check_unicode
from delaytron.records import Row

MOST_PLACES = 100_000  # tokens whose place is remembered
MOST_NEW = 256  # names that are returned as new at once

Place = tuple[int, float]  # the index of a token and its sign, 1.0 or -1.0
Places = dict[str, Place]


class HashedEncoder:
    """The rows that scikit-learn's `FeatureHasher(2**bits)` makes of the same tokens.

    Parameters
    ----------
    bits
        Rows have 2**bits features, from 1 to 24 bits.
    ngrams
        Of free text, phrases of up to so many words count, too.

    Examples
    --------
    >>> encoder = HashedEncoder(bits=10)
    >>> row = encoder.encode({"tokens": 512, "tenant": "a"})
    >>> row
    Row(indices=array([ 34, 596], dtype=uint32), values=array([  1., 512.]))
    >>> encoder.names_of(row)
    ['tenant=a', 'tokens']
    """

    sparse = True

    def __init__(self, bits: int = 18, ngrams: int = 1) -> None:
        self.bits = bits
        self.ngrams = ngrams
        self.n_features = 2**bits
        self._places: Places = {}  # a memory of hashes: without it, rows are the same
        self._table = NameTable()
        self._new: list[tuple[int, str]] = []

    def encode(self, x: Any) -> Row:
        """Return the row of a dict or of what is like one; collisions add up, and zeros are left out."""
        tokens = list_tokens(x if type(x) is dict else as_mapping(x), self.ngrams)
        fresh: Places = {}
        try:
            sums = add_up(tokens, self._places)
        except KeyError:
            known = {token: self._places.get(token) for token, _ in tokens}
            fresh = self._hash([token for token, place in known.items() if place is None])
            sums = add_up(tokens, {**known, **fresh})
        row = _sorted_row(sums)
        check_size(row.values, tokens)
        if fresh:
            self._remember(fresh)
        return row

    def names_of(self, row: Row) -> list[str]:
        """Return a name for each number of a row: what was seen at its index."""
        return [self._table.at(index) for index in row.indices.tolist()]

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": "hashed", "bits": self.bits, "ngrams": self.ngrams}

    def names(self) -> dict[str, list[str]]:
        """Return the names that were seen, by index, to be stored."""
        return self._table.as_json()

    def take_names(self, names: Any) -> None:
        """Replace the names that were seen by those of `names`; raise if they do not belong to their indices."""
        table = NameTable.from_json(names, self.n_features)
        listed = list(table.whole_names())
        places = self._hash([name for name, _ in listed])
        for name, index in listed:
            if places[name][0] != index:
                belongs = f"has {shown(name)} at {index}, which belongs at {places[name][0]}"
                raise InvalidInput(f"the table of names {belongs}; take the one that was stored with these bits")
        self._table = table
        self._new.clear()
        self._places.clear()  # what is remembered is not entered again

    def new_names(self) -> list[tuple[int, str]]:
        """Return up to 256 names that were seen and not returned before, with their indices."""
        names = self._new[:MOST_NEW]
        del self._new[:MOST_NEW]
        return names

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Add names that a fact told to the table."""
        for index, name in names:
            self._table.add(name, index)

    def _hash(self, tokens: Sequence[str]) -> Places:
        hashes = hash_all([_encoded(token) for token in tokens]).tolist()
        return {token: place_of(hashed, self.n_features) for token, hashed in zip(tokens, hashes, strict=True)}

    def _remember(self, fresh: Places) -> None:
        for token, place in fresh.items():
            if self._table.add(token, place[0]):
                self._new.append((place[0], token[:LONGEST_NAME]))
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            if len(token) <= LONGEST_NAME:
                self._places[token] = place


def place_of(hashed: int, n_features: int) -> Place:
    """Return the index and the sign of a token: the size and the sign of its hash, read as a signed integer.

    Examples
    --------
    >>> place_of(5, 4), place_of(2**32 - 5, 4), place_of(2**31, 4)
    ((1, 1.0), (1, -1.0), (0, -1.0))
    """
    if hashed < 2**31:
        return hashed % n_features, 1.0
    return (2**32 - hashed) % n_features, -1.0


def add_up(tokens: Sequence[Token], places: Mapping[str, Any]) -> dict[int, float]:
    """Return the sums at each index; they are exact before they are rounded, so that no order of tokens matters.

    Examples
    --------
    >>> add_up([("a", 0.1), ("b", 3), ("c", 0.5)], {"a": (4, 1.0), "b": (2, -1.0), "c": (4, -1.0)})
    {4: -0.4, 2: -3.0}
    """
    sums: dict[int, float] = {}
    clashes: list[tuple[int, float]] = []
    try:
        for token, value in tokens:
            index, sign = places[token]
            if index in sums:
                clashes.append((index, sign * value))
            else:
                sums[index] = sign * value
    except OverflowError:  # an integer that no float can hold
        check_numbers(tokens)
        raise
    if clashes:
        check_numbers(tokens)  # infinities of both signs have no sum
        _add_clashes(sums, clashes)
    return sums


def _add_clashes(sums: dict[int, float], clashes: Iterable[tuple[int, float]]) -> None:
    """Add what came to an index that was taken already; what cancels out is left out."""
    parts: dict[int, list[float]] = {}
    for index, value in clashes:
        parts.setdefault(index, [sums[index]]).append(value)
    for index, values in parts.items():
        sums[index] = fsum(values)
        if not sums[index]:
            del sums[index]


def _sorted_row(sums: dict[int, float]) -> Row:
    indices = np.fromiter(sums, np.uint32, len(sums))
    values = np.fromiter(sums.values(), np.float64, len(sums))
    order = indices.argsort()
    return Row(indices[order], values[order])


def _encoded(token: str) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError:
        check_unicode(token)
        raise
