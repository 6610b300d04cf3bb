"""From named values to tokens: numbers by their names, strings as `name=value`, texts word by word."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from delaytron.checks import shown
from delaytron.errors import InvalidInput
from delaytron.model.values import PLAIN_NUMBERS, as_number, check_name, is_missing

DEEPEST = 16  # dicts within dicts; a dict that contains itself ends here, too
MOST_WORDS = 8  # in one n-gram
WORD = re.compile(r"\w+")

Token = tuple[str, Any]  # and its number, not checked for its size; several may have the same text


def list_tokens(given: Mapping[Any, Any], ngrams: int = 1, outer: str = "", depth: int = 1) -> list[Token]:
    """Return the tokens of a row of named values, with the numbers that belong to them; those of 0 are left out.

    Examples
    --------
    >>> list_tokens({"tokens": 512, "tenant": "a", "prompt": "Hello, hello world", "user": {"new": True, "age": None}})
    [('tokens', 512), ('tenant=a', 1), ('prompt=hello', 2), ('prompt=world', 1), ('user.new', True)]
    """
    if depth > DEEPEST:
        raise InvalidInput(f"x must have at most {DEEPEST} dicts within one another, got more; flatten it")
    found: list[Token] = []
    for key, value in given.items():
        name = key if type(key) is str else check_name(key)
        if outer:
            name = f"{outer}{name}"
        kind = type(value)
        if kind in PLAIN_NUMBERS:
            if value and value == value:  # noqa: PLR0124 - NaN, which is missing, differs from itself
                found.append((name, value))
        elif kind is str and value.split() == [value]:
            found.append((f"{name}={value}", 1))
        elif isinstance(value, Mapping):
            found += list_tokens(value, ngrams, f"{name}.", depth + 1)
        else:
            found += _other_tokens(name, value, ngrams)
    return found


def _text_tokens(name: str, text: str, ngrams: int) -> Iterable[Token]:
    """Return the words of a text and their n-grams, counted."""
    words = WORD.findall(text.lower())
    counts = Counter(words)
    for n in range(2, ngrams + 1):
        counts.update(map(" ".join, zip(*(words[start:] for start in range(n)), strict=False)))
    return [(f"{name}={phrase}", count) for phrase, count in counts.items()]


def _other_tokens(name: str, value: Any, ngrams: int) -> Iterable[Token]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str):
        text = str.__str__(value)  # of a class derived from it
        return [(f"{name}={text}", 1)] if text.split() == [text] else _text_tokens(name, text, ngrams)
    if isinstance(value, list | tuple | set | frozenset):
        return _item_tokens(name, value)
    number = 0.0 if is_missing(value) else as_number(name, value)
    return [(name, number)] if number else []


def _item_tokens(name: str, items: Collection[Any]) -> list[Token]:
    checked = [_check_item(name, item) for item in items]
    if isinstance(items, set | frozenset):
        checked.sort()  # they have no order of their own, and one that changes from run to run
    return [(f"{name}={item}", 1) for item in checked if item]


def _check_item(name: str, item: Any) -> str:
    """Return an item of a list, which is a string; a missing one is empty."""
    if isinstance(item, str):
        return str.__str__(item)
    if isinstance(item, list | tuple | set | frozenset | Mapping | np.ndarray) or not is_missing(item):
        named = f"give each a name of its own, such as {shown(name[:20] + '_1')}"
        raise InvalidInput(f"feature {shown(name)} must be a list of strings only, got {shown(item)} in it; {named}")
    return ""
