"""Encoders: dicts of features, vectors and named numbers, to the rows that learners take."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from math import fsum
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from delaytron.checks import check_integer
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.kernels.hashing import hash_all
from delaytron.learners.arguments import as_row
from delaytron.model.words import (
    LONGEST_NAME,
    MOST_WORDS,
    PLAIN_NUMBERS,
    NameTable,
    Token,
    as_mapping,
    as_number,
    check_name,
    check_numbers,
    check_size,
    check_unicode,
    is_missing,
    list_tokens,
)
from delaytron.records import Row

MOST_BITS = 24
MOST_PLACES = 100_000  # tokens whose place is cached
MOST_NEW = 256  # names that are returned as new at once
CONTAINERS = (str, list, tuple, set, frozenset, dict, np.ndarray)

Place = tuple[int, float]  # the index of a token and its sign, 1.0 or -1.0
Places = dict[str, Place]


class FeatureEncoder(Protocol):
    """Encodes the features of a decision as a row."""

    n_features: int
    sparse: bool

    def encode(self, x: Any) -> Row:
        """Return x as a row; raise InvalidInput, and change nothing, if it cannot be one."""

    def names_of(self, row: Row) -> list[str]:
        """Return a readable name for each index of a row, of a dense one for each feature."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder, for JSON."""

    def names(self) -> dict[str, list[str]]:
        """Return the table of the names seen so far, to be stored with a model; for JSON."""

    def take_names(self, names: Any) -> None:
        """Replace the table of names by a stored one; raise InvalidInput if it is damaged."""

    def new_names(self) -> list[tuple[int, str]]:
        """Return names that were seen and not returned before, with their indices: as many as fit into a fact."""

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Add the names of a fact to the table."""


def make_encoder(features: Any, bits: int = 18, ngrams: int = 1) -> FeatureEncoder:
    r"""Return the encoder for a kind of features; raise InvalidInput if there is none.

    Parameters
    ----------
    features
        `"hashed"`: dicts of any names, see Notes. A number n: plain vectors of n numbers. A list of names: dicts of
        numbers with these names and no others; what is missing is 0.
    bits
        Hashed rows have 2**bits features, from 1 to 24 bits.
    ngrams
        The longest phrases of free text that count, in words: from 1 to 8.

    Notes
    -----
    Of a dict, numbers keep their names, True and False are 1 and 0. A string without white space is the token
    `name=value`, with 1; any other string is free text, whose lower-cased words (`\w+`) are counted as `name=word`.
    Each string of a list is a token `name=item`, whatever is in it. Dicts within dicts are joined as `outer.inner`.
    None, NaN and empty strings are missing. Instead of a dict, any mapping, a pandas Series, and a pandas or polars
    DataFrame of one row can be given. Tokens are placed as by scikit-learn's `FeatureHasher`: by MurmurHash3 with a
    sign.

    Examples
    --------
    >>> encoder = make_encoder("hashed")
    >>> row = encoder.encode({"prompt": "Please translate this", "tenant": "a", "tokens": 512})
    >>> dict(zip(encoder.names_of(row), row.values.tolist()))["tokens"]
    512.0
    >>> make_encoder(["age", "income"]).encode({"age": 31})
    Row(indices=None, values=array([31.,  0.]))
    >>> make_encoder("hash")
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: features must be "hashed", a number of features, or a list of names, got 'hash'
    """
    bits = check_integer("bits", bits, 1, MOST_BITS)
    ngrams = check_integer("ngrams", ngrams, 1, MOST_WORDS)
    if isinstance(features, str) and features == "hashed":
        return HashedEncoder(bits, ngrams)
    if isinstance(features, Integral):
        return VectorEncoder(check_integer("features", features, 1, 2**MOST_BITS))
    ordered = isinstance(features, Iterable) and not isinstance(features, str | bytes | Mapping | Set)
    names = list(features) if ordered else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInput.of("features", '"hashed", a number of features, or a list of names', features)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput.of(
            "features", "every name once", got=f"{shown(twice[0])} twice", hint="rename one of them", verb="have"
        )
    return NamedEncoder([check_name(name) for name in names])


class HashedEncoder:
    """The rows that scikit-learn's `FeatureHasher(2**bits)` makes of the same tokens.

    Parameters
    ----------
    bits
        Rows have 2**bits features, from 1 to 24 bits.
    ngrams
        The longest phrases of free text that count, in words.

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
        self._places: Places = {}  # a cache of hashes: without it, rows are the same
        self._table = NameTable()
        self._new: list[tuple[int, str]] = []

    def encode(self, x: Any) -> Row:
        """Return the row of a dict or of what is like one; collisions add up, and zeros are left out."""
        tokens = list_tokens(x if type(x) is dict else as_mapping(x), self.ngrams)
        fresh: Places = {}
        try:
            sums = add_up(tokens, self._places)
        except KeyError:  # at least one token is not in the cache
            known = {token: self._places.get(token) for token, _ in tokens}
            fresh = self._hash([token for token, place in known.items() if place is None])
            sums = add_up(tokens, {**known, **fresh})
        indices = np.fromiter(sums, np.uint32, len(sums))
        values = np.fromiter(sums.values(), np.float64, len(sums))
        order = indices.argsort()
        row = Row(indices[order], values[order])
        check_size(row.values, tokens)
        if fresh:
            self._remember(fresh)  # only now: a row that is refused changes nothing
        return row

    def names_of(self, row: Row) -> list[str]:
        """Return a name for each number of a row: what was seen at its index."""
        return [self._table.at(index) for index in row.indices.tolist()]

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": "hashed", "bits": self.bits, "ngrams": self.ngrams}

    def names(self) -> dict[str, list[str]]:
        """Return the names seen so far, by index."""
        return self._table.as_json()

    def take_names(self, names: Any) -> None:
        """Replace the table of names by a stored one; raise InvalidInput if a name does not hash to its index."""
        table = NameTable.from_json(names, self.n_features)
        listed = list(table.whole_names())
        places = self._hash([name for name, _ in listed])
        for name, index in listed:
            if places[name][0] != index:
                raise InvalidInput(
                    f"the table of names has {shown(name)} at {index}, which belongs at {places[name][0]}",
                    "use the table that was stored with these bits",
                )
        self._table = table
        self._new.clear()
        self._places.clear()  # a token in the cache would not be added to the table again

    def new_names(self) -> list[tuple[int, str]]:
        """Return up to 256 names that were seen and not returned before, with their indices."""
        names = self._new[:MOST_NEW]
        del self._new[:MOST_NEW]
        return names

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Add the names of a fact to the table."""
        for index, name in names:
            self._table.add(name, index)

    def _hash(self, tokens: Sequence[str]) -> Places:
        try:
            encoded = [token.encode() for token in tokens]
        except UnicodeEncodeError:
            for token in tokens:
                check_unicode(token)
            raise
        hashes = hash_all(encoded).tolist()
        return {token: place_of(hashed, self.n_features) for token, hashed in zip(tokens, hashes, strict=True)}

    def _remember(self, fresh: Places) -> None:
        """Add tokens to the table of names and to the cache."""
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
    """Return the sums at each index, without those that cancel out; raise KeyError for a token without a place.

    Examples
    --------
    >>> add_up([("a", 0.1), ("b", 3), ("c", 0.5)], {"a": (4, 1.0), "b": (2, -1.0), "c": (4, -1.0)})
    {4: -0.4, 2: -3.0}
    """
    sums: dict[int, float] = {}
    collisions: dict[int, list[float]] = {}
    try:
        for token, value in tokens:
            index, sign = places[token]
            if index in sums:
                collisions.setdefault(index, [sums[index]]).append(sign * value)
            else:
                sums[index] = sign * value
    except OverflowError:  # an integer that no float can hold
        check_numbers(tokens)
        raise
    if collisions:
        check_numbers(tokens)  # infinities of both signs have no sum
        for index, values in collisions.items():
            sums[index] = fsum(values)  # exact before it is rounded, so that the order of tokens does not matter
            if not sums[index]:
                del sums[index]
    return sums


class DenseEncoder:
    """Base of encoders whose rows have every feature: no names need to be collected."""

    sparse = False

    def __init__(self, names: Sequence[str]) -> None:
        self.feature_names = list(names)
        self.n_features = len(self.feature_names)

    def names_of(self, row: Row) -> list[str]:  # noqa: ARG002 - all rows have the same
        """Return the names of all features, in their order."""
        return list(self.feature_names)

    def names(self) -> dict[str, list[str]]:
        """Return an empty table: the settings have all names."""
        return {}

    def take_names(self, names: Any) -> None:
        """Raise InvalidInput if the table is not empty."""
        if names != {}:
            raise InvalidInput(
                f"the table of names must be empty for these features, got {shown(names)}", "restore it from a backup"
            )

    def new_names(self) -> list[tuple[int, str]]:
        """Return nothing."""
        return []

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Do nothing."""


class VectorEncoder(DenseEncoder):
    """A plain vector of n numbers, or one CSR row.

    Examples
    --------
    >>> VectorEncoder(2).encode([3, 4])
    Row(indices=None, values=array([3., 4.]))
    """

    def __init__(self, n_features: int) -> None:
        super().__init__([str(i) for i in range(n_features)])

    def encode(self, x: Any) -> Row:
        """Return a copy of x as a row."""
        return as_row(x, self.n_features, sparse=False)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": self.n_features}


class NamedEncoder(DenseEncoder):
    """Numbers by their names, in a fixed order; what is missing is 0.

    Examples
    --------
    >>> encoder = NamedEncoder(["age", "income"])
    >>> encoder.encode({"income": 1200, "age": None})
    Row(indices=None, values=array([   0., 1200.]))
    >>> encoder.encode({"incom": 1200})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    delaytron.errors.InvalidInput: x must have no features but those listed, got 'incom'; did you mean 'income'? ...
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(self.feature_names)}

    def encode(self, x: Any) -> Row:
        """Return the row of a dict or of what is like one."""
        given = x if type(x) is dict else as_mapping(x)
        numbers = [0.0] * self.n_features
        for name, value in given.items():
            if name not in self._places:
                close = get_close_matches(check_name(name)[:100], self.feature_names, n=3)
                meant = f"did you mean {' or '.join(map(shown, close))}? " if close else ""
                hint = (meant, Setting("features", '"hashed"'), " takes any name")
                raise InvalidInput.of("x", "no features but those listed", name, hint, verb="have")
            number = value
            if type(value) not in PLAIN_NUMBERS:
                if isinstance(value, CONTAINERS):
                    raise InvalidInput(
                        f"feature {shown(name)} must be a number, got a {type(value).__name__}, {shown(value)}",
                        (Setting("features", '"hashed"'), " takes strings and lists"),
                    )
                number = 0.0 if is_missing(value) else as_number(name, value, "a number, True, False or None")
            if number == number:  # noqa: PLR0124 - NaN, which is missing, differs from itself
                numbers[self._places[name]] = number
        try:
            values = np.array(numbers, dtype=np.float64)
        except OverflowError:  # an integer that no float can hold
            check_numbers(zip(self.feature_names, numbers, strict=True))
            raise
        check_size(values, zip(self.feature_names, numbers, strict=True))
        return Row(None, values)

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder."""
        return {"features": list(self.feature_names)}
