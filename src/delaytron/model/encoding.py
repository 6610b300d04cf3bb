"""Features as people have them, as rows that learners take."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any, Protocol

from delaytron.checks import check_integer, shown
from delaytron.errors import InvalidInput
from delaytron.model.fixed import NamedEncoder, VectorEncoder
from delaytron.model.hashed import HashedEncoder
from delaytron.model.tokens import MOST_WORDS
from delaytron.model.values import check_name
from delaytron.records import Row

MOST_BITS = 24
FORMS = '"hashed", a number of features, or a list of their names'


class FeatureEncoder(Protocol):
    """Turns what describes a decision into a row."""

    n_features: int
    sparse: bool

    def encode(self, x: Any) -> Row:
        """Return x as a row; raise `InvalidInput`, and change nothing, if it cannot be one."""

    def names_of(self, row: Row) -> list[str]:
        """Return a readable name for each index of a row, of a dense one for each feature."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `make_encoder` makes the same encoder; fit for JSON."""

    def names(self) -> dict[str, list[str]]:
        """Return the table of the names that were seen, to be stored with a model; fit for JSON."""

    def take_names(self, names: Any) -> None:
        """Take the table of names that was stored in place of one's own; raise if it is damaged."""

    def new_names(self) -> list[tuple[int, str]]:
        """Return names that were seen and not returned before, with their indices: as many as fit into a fact."""

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Add names that a fact told to the table."""


def make_encoder(features: Any, bits: int = 18, ngrams: int = 1) -> FeatureEncoder:
    r"""Return what turns features into rows.

    Parameters
    ----------
    features
        `"hashed"`: dicts of any names, see Notes. A number n: plain vectors of n numbers. A list of names: dicts of
        numbers, with no other names; what is missing is 0.
    bits
        Hashed rows have 2**bits features, from 1 to 24 bits.
    ngrams
        Of free text, phrases of up to so many words count, from 1 to 8.

    Notes
    -----
    Of a dict, numbers stand under their names, True and False as 1 and 0. A string without white space is the token
    `name=value`, with 1; any other string is free text, whose lower-cased words (`\w+`) are counted as `name=word`.
    Each string of a list is a token `name=item`, whatever is in it. Dicts within dicts are joined as `outer.inner`.
    None, NaN and empty strings are missing. Instead of a dict, any mapping, a pandas Series and a pandas or polars
    DataFrame of one row will do. Tokens are placed as by scikit-learn's `FeatureHasher`: by MurmurHash3 with a sign.

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
    delaytron.errors.InvalidInput: features must be "hashed", a number of features, or a list of their names; got 'hash'
    """
    bits = _check_within("bits", bits, MOST_BITS)
    ngrams = _check_within("ngrams", ngrams, MOST_WORDS)
    if isinstance(features, str) and features == "hashed":
        return HashedEncoder(bits, ngrams)
    if isinstance(features, Integral):
        return VectorEncoder(check_integer("features", features, 1, 2**MOST_BITS))
    return NamedEncoder(_check_names(features))


def _check_within(name: str, value: Any, most: int) -> int:
    if check_integer(name, value, 1) > most:
        raise InvalidInput(f"{name} must be an integer from 1 to {most}, got {shown(value)}")
    return int(value)


def _check_names(features: Any) -> list[str]:
    ordered = isinstance(features, Iterable) and not isinstance(features, str | bytes | Mapping | Set)
    names = list(features) if ordered else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"features must be {FORMS}; got {shown(features)}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(f"features must have every name once, got {shown(twice[0])} twice; rename one of them")
    return [check_name(name) for name in names]
