"""Encoders: numbers, strings, texts, lists and dicts of features become rows."""

import json
import math
import os
import re
import subprocess
import sys
from collections import OrderedDict, UserDict
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

import delaytron as dt
from delaytron.model import encoders
from delaytron.model import words as name_table
from delaytron.model.encoders import make_encoder
from streams import same_bits

LOWEST_HASH = "aaaiTBFZ"  # its hash is -2**31, which has no positive counterpart among 32-bit integers


class Colour(str, Enum):  # noqa: UP042 - its str() is not its value, unlike that of a StrEnum
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Plain(Enum):
    ONE = 1


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
sizes = st.floats(1e-9, 1e9) | st.floats(-1e9, -1e-9)
numbers = sizes | st.integers(-(10**12), 10**12) | st.booleans() | st.sampled_from([0, 0.0, -0.0, 0.1])
words = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=5)
texts = st.lists(words, max_size=6).map(" ".join) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
missing = st.sampled_from([None, math.nan, "", "  \n", np.float32("nan"), pd.NA, pd.NaT])
lists = st.lists(texts | st.none(), max_size=3) | st.frozensets(words, max_size=3) | st.tuples(words)
values = st.recursive(numbers | texts | missing | lists, lambda inner: st.dictionaries(names, inner, max_size=3))
rows = st.dictionaries(names, values, max_size=8)
any_text = st.text(st.characters(categories=["Cs", "L", "Cc", "Z"]), max_size=3)
wrong = st.complex_numbers() | st.binary() | st.datetimes() | st.timedeltas() | st.uuids() | st.integers(10**400)
anything = st.recursive(
    st.floats() | st.decimals() | st.fractions() | st.integers() | wrong | any_text | missing,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(any_text | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=6,
)


def is_nothing(value):
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def plain_phrases(text, ngrams):
    if text and not re.search(r"\s", text):
        yield text
        return
    found = re.findall(r"\w+", text.lower())
    for n in range(1, ngrams + 1):
        for start in range(len(found) - n + 1):
            yield " ".join(found[start : start + n])


def plain_tokens(x, ngrams, outer=""):
    """Reference implementation of the rules: yields pairs of a token and an exact number."""
    for key, value in x.items():
        name = outer + key
        if isinstance(value, dict):
            yield from plain_tokens(value, ngrams, name + ".")
        elif isinstance(value, str):
            for phrase in plain_phrases(value, ngrams):
                yield name + "=" + phrase, Fraction(1)
        elif isinstance(value, list | tuple | frozenset):
            for item in value:
                if item:
                    yield name + "=" + item, Fraction(1)
        elif not is_nothing(value) and not np.isnan(value):
            yield name, Fraction(value)


def plain_row(x, bits, ngrams=1):
    """The row of x as a dict, of exact sums that are rounded once."""
    sums = {}
    for token, number in plain_tokens(x, ngrams):
        hash_ = murmurhash3_32(token.encode())
        index = abs(hash_) % 2**bits
        sums[index] = sums.get(index, 0) + (number if hash_ >= 0 else -number)
    return {index: float(total) for index, total in sums.items() if total}


def as_dict(row):
    assert row.indices.dtype == np.uint32
    assert row.values.dtype == np.float64
    assert (np.diff(row.indices.astype(int)) > 0).all()
    assert row.values.all()
    return dict(zip(row.indices.tolist(), row.values.tolist(), strict=True))


def tokens_of(x, **settings):
    """Return the row by the names of its tokens, without the signs of the hashes."""
    encoder = make_encoder("hashed", **settings)
    row = encoder.encode(x)
    found = dict(zip(encoder.names_of(row), row.values.tolist(), strict=True))
    return {name: value if murmurhash3_32(name.encode()) >= 0 else -value for name, value in found.items()}


class TestHashing:
    @given(rows, st.sampled_from([1, 2, 4, 10, 18, 24]), st.integers(1, 3))
    def test_rows_are_those_of_the_rules(self, x, bits, ngrams):
        assert as_dict(make_encoder("hashed", bits, ngrams).encode(x)) == plain_row(x, bits, ngrams)

    @given(st.dictionaries(names, numbers | words.filter(lambda w: len(w.split()) == 1)), st.integers(1, 24))
    @example({LOWEST_HASH: 3}, 1)
    @example({LOWEST_HASH: 3}, 18)
    @example({LOWEST_HASH: 3}, 24)
    def test_rows_are_those_of_scikit_learn(self, x, bits):
        row = make_encoder("hashed", bits).encode(x)
        theirs = FeatureHasher(2**bits, input_type="dict", alternate_sign=True).transform([x])
        theirs.sum_duplicates()
        ours = csr_array((row.values, row.indices.astype(np.int32), [0, row.values.size]), shape=(1, 2**bits))
        largest = max([abs(value) for value in x.values() if not isinstance(value, str)], default=1)
        np.testing.assert_allclose((ours - theirs).data, 0, atol=1e-15 * len(x) * max(largest, 1))
        kept = theirs.indices[np.abs(theirs.data) > 1e-12 * largest]
        assert set(kept.tolist()) <= set(row.indices.tolist()) <= set(theirs.indices.tolist())

    def test_there_is_a_name_of_the_lowest_hash(self):
        assert murmurhash3_32(LOWEST_HASH.encode()) == -(2**31)

    @given(rows, st.randoms())
    def test_the_order_of_a_dict_means_nothing(self, x, random):
        shuffled = list(x.items())
        random.shuffle(shuffled)
        assert same_bits(*[make_encoder("hashed", 2).encode(given) for given in (x, dict(shuffled))])

    @given(st.lists(rows, max_size=6))
    def test_what_is_remembered_changes_no_row(self, many):
        used = make_encoder("hashed", 3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoders, "MOST_PLACES", 5)
            for x in [*many, *many]:
                assert same_bits(used.encode(x), make_encoder("hashed", 3).encode(x))
                assert len(used._places) <= 5

    def test_a_phrase_that_was_an_n_gram_is_still_text(self):
        encoder = make_encoder("hashed", ngrams=2)
        encoder.encode({"q": "new york city"})
        row = encoder.encode({"q": "new york"})
        assert sorted(encoder.names_of(row)) == ["q=new", "q=new york", "q=york"]

    def test_a_row_of_nothing_is_empty(self):
        row = make_encoder("hashed").encode({})
        assert as_dict(row) == {}

    def test_what_cancels_out_is_left_out(self):
        places = {name: (abs(murmurhash3_32(name)) % 4, murmurhash3_32(name) >= 0) for name in map(str, range(99))}
        other = next(name for name, (index, sign) in places.items() if (index, not sign) == places["0"])
        assert as_dict(make_encoder("hashed", 2).encode({"0": 2.5, other: 2.5})) == {}
        assert as_dict(make_encoder("hashed", 2).encode({"0": 2.5, other: 2.5, "1": 1})) == plain_row({"1": 1}, 2)

    def test_rows_and_names_are_the_same_in_every_process(self):
        code = (
            "import sys\n"
            "from delaytron.model.encoders import make_encoder\n"
            "e = make_encoder('hashed', bits=3)\n"
            "x = {'s': set('abcdefgh'), 't': frozenset('ijk'), 'n': 0.1, 'm': 0.3, 'w': 'one two three'}\n"
            "print([part.tobytes().hex() for part in e.encode(x)], e.names())\n"
            "print([name for name in ('pandas', 'polars', 'sklearn') if name in sys.modules])\n"
        )
        outputs = [
            subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, text=True)
            for seed in ("1", "2")
        ]
        assert outputs[0] == outputs[1]
        assert outputs[0].endswith("\n[]\n")


class TestValues:
    @pytest.mark.parametrize(
        "three",
        [3, 3.0, Decimal("3.0"), Fraction(3), Size.LARGE, np.int8(3), np.uint64(3), np.float16(3), np.longdouble(3)],
    )
    def test_numbers_of_every_kind(self, three):
        assert tokens_of({"n": three}) == {"n": 3.0}

    @pytest.mark.parametrize("yes", [True, np.True_, 1])
    def test_booleans_are_one_or_zero(self, yes):
        assert tokens_of({"yes": yes, "no": not yes}) == {"yes": 1.0}

    @pytest.mark.parametrize(
        "nothing",
        [
            *(None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), np.float16("nan")),
            *(Decimal("NaN"), Decimal("sNaN"), np.longdouble("nan"), "", " ", "\t\n", [], (), set(), {}, {"a": None}),
            *([""], [None, math.nan, pd.NA], np.array([], dtype=str), np.array(np.nan)),
        ],
    )
    def test_what_is_missing_leaves_no_trace(self, nothing):
        assert tokens_of({"gone": nothing, "n": 2}) == {"n": 2.0}

    def test_strings_are_categories_as_they_are(self):
        given = {"a": "de-AT", "b": Colour.RED, "c": np.str_("x"), "d": "Élan", "e=f": "=", Colour.RED: 1}
        found = {"a=de-AT": 1.0, "b=red": 1.0, "c=x": 1.0, "d=Élan": 1.0, "e=f==": 1.0, "red": 1.0}
        assert tokens_of(given) == found

    def test_text_is_counted_by_words(self):
        assert tokens_of({"t": "To be, or NOT to\nbe!"}) == {"t=to": 2.0, "t=be": 2.0, "t=or": 1.0, "t=not": 1.0}
        assert tokens_of({"t": "Ελλάδα  ΕΛΛΆΔΑ 42"}) == {"t=ελλάδα": 2.0, "t=42": 1.0}
        assert tokens_of({"t": "... !"}) == {}

    def test_phrases_are_counted_up_to_ngrams(self):
        single = {"t=a": 3.0, "t=b": 1.0}
        double = {"t=a a": 1.0, "t=a b": 1.0, "t=b a": 1.0}
        triple = {"t=a a b": 1.0, "t=a b a": 1.0}
        assert tokens_of({"t": "a a b a"}) == single
        assert tokens_of({"t": "a a b a"}, ngrams=2) == single | double
        assert tokens_of({"t": "a a b a"}, ngrams=3) == single | double | triple
        assert tokens_of({"t": "a b"}, ngrams=8) == {"t=a": 1.0, "t=b": 1.0, "t=a b": 1.0}

    @pytest.mark.parametrize("kind", [list, tuple, set, frozenset, np.array])
    def test_items_of_lists_are_whole(self, kind):
        assert tokens_of({"tag": kind(["new york", "Rome"])}) == {"tag=new york": 1.0, "tag=Rome": 1.0}

    def test_an_item_twice_counts_twice(self):
        assert tokens_of({"tag": ["a", "a", None, ""]}) == {"tag=a": 2.0}

    def test_dicts_within_dicts_have_joined_names(self):
        given = {"user": {"age": 31, "home": {"city": "Rome"}, "tags": ["a"]}, "user.age": 1}
        assert tokens_of(given) == {"user.age": 32.0, "user.home.city=Rome": 1.0, "user.tags=a": 1.0}

    def test_sixteen_dicts_within_one_another_are_the_most(self):
        x = {"n": 1}
        for _ in range(15):
            x = {"a": x}
        assert tokens_of(x) == {"a." * 15 + "n": 1.0}
        with pytest.raises(dt.InvalidInput, match="at most 16 dicts within one another"):
            tokens_of({"a": x})

    def test_a_dict_that_contains_itself_is_refused(self):
        x = {"n": 1}
        x["a"] = x["b"] = x
        with pytest.raises(dt.InvalidInput, match="flatten it"):
            tokens_of(x)


ROW = {"age": 31, "share": 0.5, "city": "Rome", "note": "good  day", "old": True, "gone": None}


class TestRows:
    @pytest.mark.parametrize("kind", [OrderedDict, UserDict, MappingProxyType, pd.Series])
    def test_whatever_maps_names_to_values(self, kind):
        assert tokens_of(kind(ROW)) == tokens_of(ROW)

    def test_rows_of_pandas(self):
        frame = pd.DataFrame([ROW, {**ROW, "age": 99, "gone": 1.0}]).astype({"age": "Int64", "city": "category"})
        assert tokens_of(frame.iloc[:1]) == tokens_of(frame.iloc[0]) == tokens_of(ROW)
        assert tokens_of(frame.to_dict("records")[0]) == tokens_of(ROW)
        assert tokens_of(frame.convert_dtypes().iloc[0]) == tokens_of(ROW)

    def test_rows_of_polars(self):
        frame = pl.DataFrame([{**ROW, "tags": ["a", "b"], "user": {"age": 3}}])
        expected = tokens_of(ROW) | {"tags=a": 1.0, "tags=b": 1.0, "user.age": 3.0}
        assert tokens_of(frame) == tokens_of(frame.row(0, named=True)) == expected
        assert tokens_of(frame.to_dicts()[0]) == tokens_of(next(frame.iter_rows(named=True))) == expected

    def test_rows_of_pandas_that_hold_lists(self):
        frame = pd.DataFrame({"tags": [np.array(["a", "b"], dtype=object)], "n": [2]})
        assert tokens_of(frame) == {"tags=a": 1.0, "tags=b": 1.0, "n": 2.0}

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            ([("a", 1)], r"got a list, \[\('a', 1\)\]; for vectors use features=n"),
            ((("a", 1) for _ in "b"), "got a generator"),
            (None, "got a NoneType"),
            ("a b", "got a str, 'a b'"),
            (np.zeros(3), "got a ndarray"),
            (pl.Series([1.0]), "got a Series"),
            (pd.DataFrame({"a": [1, 2]}), "one row, got a DataFrame of 2; send its rows one by one"),
            (pl.DataFrame({"a": []}), "one row, got a DataFrame of 0"),
            (pd.Series([1, 2], index=["a", "a"]), "'a' twice"),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' twice"),
            (pd.Series([1, 2]), r"names of features must be strings, got 0 \(int\)"),
        ],
    )
    def test_other_things_are_refused(self, x, message):
        refused(make_encoder("hashed"), x, message)
        refused(make_encoder(["a", "b"]), x, message)


def outcome(encoder, x):
    """Return the row, or None, and the message of a refusal."""
    try:
        return encoder.encode(x), ""
    except dt.InvalidInput as problem:
        return None, str(problem)


def refused(encoder, x, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        encoder.encode(x)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


BAD = [
    ({"a": math.inf}, "feature 'a' must be finite, got inf"),
    ({"a": {"b": -math.inf}}, r"feature 'a\.b' must be finite, got -inf"),
    ({"a": Decimal("inf")}, "feature 'a' must be finite"),
    ({"a": np.float32("inf")}, "feature 'a' must be finite"),
    ({"a": Decimal("1e400")}, "feature 'a' must be finite"),
    ({"a": 10**400}, "feature 'a' must fit into a 64-bit float"),
    ({"a": 10**5000}, "feature 'a' must fit into a 64-bit float"),
    ({"a": Fraction(10**400)}, "feature 'a' must fit into a 64-bit float"),
    ({"a": 1e51}, r"0 or from 1e-50 to 1e\+50, got 1e\+51 for feature 'a'; scale it"),
    ({"a": -(10**60)}, r"got -1e\+60 for feature 'a'"),
    (
        {"a": datetime(2024, 5, 1)},
        "feature 'a' must be a number.*got a datetime; send numbers, such as its hour or week",
    ),
    ({"a": date(2024, 5, 1)}, "got a date; send numbers"),
    ({"a": pd.Timestamp(0)}, "got a Timestamp; send numbers"),
    ({"a": np.datetime64(0, "s")}, "got a datetime64; send numbers"),
    ({"a": timedelta(1)}, "got a timedelta; send a number, such as its seconds"),
    ({"a": np.timedelta64(1, "s")}, "got a timedelta64; send a number, such as its seconds"),
    ({"a": 1j}, "got a complex"),
    ({"a": object()}, "got a object; send its parts as numbers or strings"),
    ({"a": Plain.ONE}, "got a Plain; send its name or its value"),
    ({3: 1.0}, r"names of features must be strings, got 3 \(int\)"),
    ({None: "x"}, "names of features must be strings, got None"),
    ({("a", "b"): 1.0}, "names of features must be strings"),
    ({"\ud800": 1.0}, "valid Unicode"),
]
BAD_WHEN_HASHED = [
    ({"a": b"x"}, "got a bytes; decode it to a string"),
    ({"a": [1, 2]}, "list of strings only, got 1 in it; give each a name of its own, such as 'a_1'"),
    ({"a": np.zeros(2)}, "list of strings only, got 0.0"),
    ({"a": [True]}, "list of strings only, got True"),
    ({"a": [["x"]]}, r"list of strings only, got \['x'\]"),
    ({"a": [{"b": 1}]}, "list of strings only"),
    ({"a": ["x", np.array(["y", "z"])]}, "list of strings only"),
    ({"a": {"b": {4: 1}}}, r"names of features must be strings, got 4 \(int\)"),
    ({"a": "\udfff"}, "valid Unicode"),
    ({"a": {"x": 1}.items()}, "got a dict_items"),
    ({"a" * 10**6: math.inf}, "must be finite"),
    ({"a": [10**5000]}, "list of strings only, got a value of type int that cannot be printed in it"),
    ({"a": [0, "b" * 10**6]}, "list of strings only"),
]


class TestRefusals:
    @pytest.mark.parametrize(("x", "message"), [*BAD, *BAD_WHEN_HASHED])
    def test_the_error_says_what_is_wrong_and_nothing_changes(self, x, message):
        encoder = make_encoder("hashed", bits=3)
        encoder.encode({"old": 1})
        names, places = encoder.names(), dict(encoder._places)
        refused(encoder, {"new": 1, "text": "a b", "old": 2, **x}, message)
        assert encoder.names() == names
        assert encoder._places == places
        encoder.encode({"new": 1})
        assert encoder.names() != names

    @given(st.dictionaries(any_text | st.sampled_from(["a", "b"]), anything, max_size=4), st.sampled_from([1, 18]))
    def test_any_input_becomes_a_row_or_an_error(self, x, bits):
        for encoder in (make_encoder("hashed", bits), make_encoder(["a", "b"])):
            row, problem = outcome(encoder, x)
            if row is None:
                assert "\n" not in problem
                assert len(problem.encode()) < 400
                assert encoder.names() == {}
            else:
                assert np.isfinite(row.values).all()

    @pytest.mark.parametrize("bits", [1, 18])
    def test_infinities_that_collide_are_refused(self, bits):
        refused(make_encoder("hashed", bits), {str(i): (-1) ** i * math.inf for i in range(8)}, "'0' must be finite")
        refused(make_encoder("hashed", bits), {str(i): 1.7e308 for i in range(8)}, "for feature '0'")

    @pytest.mark.parametrize("small", [1e-51, -5e-324])
    def test_rows_that_are_too_small_are_refused(self, small):
        for encoder in (make_encoder("hashed"), make_encoder(["a", "b"])):
            names = encoder.names()
            refused(encoder, {"a": small, "b": 0}, rf"0 or from 1e-50 to 1e\+50, got {abs(small):g}; scale it")
            assert encoder.names() == names
            assert set(np.abs(encoder.encode({"a": small, "b": 1e-50}).values)) == {abs(small), 1e-50}

    def test_sums_that_are_too_large_are_refused(self):
        x = {str(i): 9e49 * (1 if murmurhash3_32(str(i)) >= 0 else -1) for i in range(8)}
        assert make_encoder("hashed", 24).encode(x).values.max() == 9e49
        refused(make_encoder("hashed", 1), x, r"0 or from 1e-50 to 1e\+50, got .*e\+50; scale it")


class TestNames:
    def test_every_index_has_the_names_that_were_seen_there(self):
        encoder = make_encoder("hashed", bits=1)
        row = encoder.encode({str(i): 1.5**i for i in range(9)})
        seen = {index: [str(i) for i in range(9) if abs(murmurhash3_32(str(i))) % 2 == index][:4] for index in (0, 1)}
        assert encoder.names() == {str(index): names for index, names in sorted(seen.items(), key=lambda s: s[1])}
        assert encoder.names_of(row) == [" or ".join(seen[0]), " or ".join(seen[1])]

    def test_an_index_without_a_name_has_its_number(self):
        row = make_encoder("hashed").encode({"a": 1})
        assert make_encoder("hashed").names_of(row) == [f"#{row.indices[0]}"]

    def test_the_table_is_bounded(self, monkeypatch):
        monkeypatch.setattr(name_table, "MOST_NAMES", 3)
        encoder = make_encoder("hashed")
        for i in range(9):
            encoder.encode({str(i): 1})
        assert sorted(name for names in encoder.names().values() for name in names) == ["0", "1", "2"]
        assert make_encoder("hashed").take_names(encoder.names()) is None

    def test_long_names_are_cut_in_the_table_only(self):
        encoder = make_encoder("hashed")
        rows = [encoder.encode({"a" * 200 + end: 1}) for end in ("b", "c", "c")]
        assert [as_dict(row) for row in rows] == [plain_row({"a" * 200 + end: 1}, 18) for end in ("b", "c", "c")]
        assert encoder.names_of(rows[0]) == encoder.names_of(rows[1]) == ["a" * 200]
        assert not encoder._places
        restored = make_encoder("hashed")
        restored.take_names(encoder.names())
        assert restored.names() == encoder.names()

    @given(st.lists(rows, min_size=1, max_size=5), st.integers(1, 18))
    def test_the_table_can_be_stored_and_restored(self, many, bits):
        encoder = make_encoder("hashed", bits)
        encoded = [encoder.encode(x) for x in many]
        restored = make_encoder(**json.loads(json.dumps(encoder.settings())))
        restored.encode({"other": 1, "things": "x"})
        restored.take_names(json.loads(json.dumps(encoder.names())))
        assert restored.names() == encoder.names()
        assert [restored.names_of(row) for row in encoded] == [encoder.names_of(row) for row in encoded]
        restored.encode({"other": 2})
        encoder.encode({"other": 2})
        assert restored.names() == encoder.names()

    def test_the_table_that_is_given_away_is_a_copy(self):
        encoder = make_encoder("hashed", bits=1)
        encoder.encode({"a": 1})
        given_away = encoder.names()
        taken = json.loads(json.dumps(given_away))
        other = make_encoder("hashed", bits=1)
        other.take_names(taken)
        for names in (*given_away.values(), *taken.values()):
            names.append("b")
        assert [*encoder.names().values()] == [*other.names().values()] == [["a"]]

    @pytest.mark.parametrize(
        "damaged",
        [
            *(None, [], "a", {"5": "a"}, {"5": []}, {"5": [1]}, {5: ["a"]}, {"05": ["a"]}, {"-1": ["a"]}, {"x": ["a"]}),
            *({"": ["a"]}, {"²": ["a"]}, {"٣": ["a"]}, {"9" * 5000: ["a"]}, {"1024": ["a"]}, {"5": ["a"]}),
            *({"0PLACE": ["a"]}, {"1024": ["a" * 200]}),
            *(
                {"PLACE": ["a", "a"]},
                {"PLACE": ["a", "b", "c", "d", "e"]},
                {"PLACE": ["a", "b"]},
                {"PLACE": ["a", None]},
            ),
            *({"5": ["a" * 201]}, {"5": ["\ud800" * 200]}, {"5": ["\ud800"]}, {"PLACE": ["a", ["a"]]}),
        ],
        ids=lambda damaged: repr(damaged)[:40],
    )
    def test_a_damaged_table_is_refused(self, damaged):
        encoder = make_encoder("hashed", bits=10)
        row = encoder.encode({"a": 1})
        place = str(row.indices[0])
        if isinstance(damaged, dict):
            damaged = {
                key.replace("PLACE", place) if isinstance(key, str) else key: names for key, names in damaged.items()
            }
        with pytest.raises(dt.InvalidInput, match="names") as caught:
            encoder.take_names(damaged)
        assert "\n" not in str(caught.value)
        assert encoder.names() == {place: ["a"]}

    def test_a_table_that_is_too_large_is_refused(self, monkeypatch):
        encoder = make_encoder("hashed")
        encoder.encode({str(i): 1 for i in range(9)})
        monkeypatch.setattr(name_table, "MOST_NAMES", 8)
        with pytest.raises(dt.InvalidInput, match="more than 8 names"):
            make_encoder("hashed").take_names(encoder.names())

    def test_a_table_of_other_bits_is_refused(self):
        encoder = make_encoder("hashed", bits=18)
        encoder.encode({"a": 1})
        with pytest.raises(dt.InvalidInput, match=r"has 'a' at .*, which belongs at"):
            make_encoder("hashed", bits=24).take_names(encoder.names())


class TestFixedNames:
    def test_numbers_are_in_the_order_of_the_names(self):
        encoder = make_encoder(["age", "income", "old", "share", "x"])
        row = encoder.encode({"income": Decimal(7), "age": np.float32(0.5), "old": True, "x": None})
        assert row.indices is None
        assert row.values.dtype == np.float64
        assert row.values.tolist() == [0.5, 7.0, 1.0, 0.0, 0.0]
        assert encoder.names_of(row) == ["age", "income", "old", "share", "x"]
        assert (encoder.n_features, encoder.sparse) == (5, False)

    @pytest.mark.parametrize("nothing", [None, math.nan, pd.NA, np.float32("nan"), Decimal("nan"), pd.NaT])
    def test_what_is_missing_is_zero(self, nothing):
        assert make_encoder(["a", "b"]).encode({"a": nothing}).values.tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("kind", [pd.Series, UserDict, lambda x: pd.DataFrame([x]), lambda x: pl.DataFrame([x])])
    def test_rows_of_every_kind(self, kind):
        assert make_encoder(["b", "a"]).encode(kind({"a": 1, "b": 2.5})).values.tolist() == [2.5, 1.0]

    @pytest.mark.parametrize(("x", "message"), BAD)
    def test_the_error_says_what_is_wrong(self, x, message):
        refused(make_encoder(["a", "b"]), x, "must be a number" if isinstance(x.get("a"), dict) else message)

    @pytest.mark.parametrize("value", ["x", "", ["x"], {"x": 1}, ("x",), {"x"}, np.zeros(2), np.str_("x"), Colour.RED])
    def test_what_is_no_number_is_sent_to_hashing(self, value):
        refused(
            make_encoder(["a"]), {"a": value}, "feature 'a' must be a number, got a .*features=\"hashed\" takes str"
        )

    def test_other_names_are_refused_with_those_that_are_close(self):
        encoder = make_encoder(["age", "ages", "income"])
        refused(encoder, {"agee": 1}, "got 'agee'; did you mean 'age' or 'ages'?")
        refused(encoder, {"zzz": None}, "got 'zzz'; features=\"hashed\" takes any name")

    def test_it_has_no_table_of_names(self):
        for encoder in (make_encoder(["a", "b"]), make_encoder(2)):
            assert encoder.names() == {}
            encoder.take_names({})
            with pytest.raises(dt.InvalidInput, match="must be empty"):
                encoder.take_names({"1": ["a"]})


class TestVectors:
    def test_a_vector_of_numbers(self):
        encoder = make_encoder(3)
        x = np.array([1.0, 0.0, 2.0])
        for form in (x, [1, 0, 2], csr_array([x]), pd.Series(x)):
            row = encoder.encode(form)
            assert row.indices is None
            assert row.values.tolist() == [1.0, 0.0, 2.0]
            assert not np.shares_memory(row.values, x)
        assert encoder.names_of(row) == ["0", "1", "2"]
        assert (encoder.n_features, encoder.sparse) == (3, False)

    @pytest.mark.parametrize(
        "x", [[1, 2], [1, 2, math.nan], [1, 2, math.inf], ["a", "b", "c"], {"a": 1}, None, [1e60] * 3]
    )
    def test_anything_else_is_refused(self, x):
        refused(make_encoder(3), x, "x must")


class TestMaking:
    @pytest.mark.parametrize(
        ("features", "more"),
        [
            ("hashed", {"bits": 5, "ngrams": 2}),
            ("hashed", {}),
            (4, {}),
            (np.int64(4), {}),
            (["b", "a"], {}),
            (("b",), {}),
        ],
    )
    def test_the_settings_make_the_same_encoder(self, features, more):
        encoder = make_encoder(features, **more)
        settings = json.loads(json.dumps(encoder.settings()))
        again = make_encoder(**settings)
        assert again.settings() == encoder.settings() == settings
        assert type(again) is type(encoder)
        assert (again.n_features, again.sparse) == (encoder.n_features, encoder.sparse)

    def test_names_may_be_columns_of_a_frame(self):
        assert make_encoder(pd.DataFrame(columns=["b", "a"]).columns).settings() == {"features": ["b", "a"]}

    @pytest.mark.parametrize(
        "features", ["hash", "", 0, -1, True, None, 2.5, [], ["a", "a"], ["a", 1], {"a": 1}, {"a"}, b"ab"]
    )
    def test_features_of_no_known_form_are_refused(self, features):
        with pytest.raises(dt.InvalidInput, match="features must"):
            make_encoder(features)

    @pytest.mark.parametrize("value", [0, -1, 25, 1.5, True, "18", None, 10**30])
    def test_bits_and_n_grams_are_limited(self, value):
        with pytest.raises(dt.InvalidInput, match=r"bits must be (an integer|at most 24)"):
            make_encoder("hashed", bits=value)
        with pytest.raises(dt.InvalidInput, match=r"ngrams must be (an integer|at most 8)"):
            make_encoder("hashed", ngrams=value)

    def test_names_that_no_file_can_hold_are_refused(self):
        with pytest.raises(dt.InvalidInput, match="valid Unicode"):
            make_encoder(["a", "\ud800"])
