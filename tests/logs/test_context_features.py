"""Contexts of Vowpal Wabbit's JSON as features: the rows that a model makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from delaytron.errors import InvalidInput
from delaytron.logs import context_features
from delaytron.model.encoding import make_encoder

CONTEXT = {
    "User": {"age": 31, "major": "eng", "member": True, "_id": "u-17"},
    "Geo": [{"country": "Italy", "dma": 533}, None, {"tags": ["a b", "c"]}],
    "FromUrl": [{"weather": "Sunny"}],
    "vector": [0.5, -2, 0],
    "note": "One fine, fine day",
    "Keywords": {"_text": "Air_Jordan News"},
    "_synthetic": False,
    "hour": 7,
    "none": None,
}
TOKENS = {  # by hand, after the rules of docs/howto/model.md
    "User.age": 31,
    "User.major=eng": 1,
    "User.member": 1,
    "Geo.country=Italy": 1,
    "Geo.dma": 533,
    "Geo.tags=a b": 1,
    "Geo.tags=c": 1,
    "FromUrl.weather=Sunny": 1,
    "vector.0": 0.5,
    "vector.1": -2,
    "note=one": 1,
    "note=fine": 2,
    "note=day": 1,
    "Keywords._text=air_jordan": 1,
    "Keywords._text=news": 1,
    "hour": 7,
}


def as_dense(row, size):
    dense = np.zeros(size)
    dense[row.indices] = row.values
    return dense


def test_rows_are_those_of_the_feature_hasher_of_the_same_tokens():
    row = make_encoder("hashed", bits=14).encode(context_features(CONTEXT))
    hashed = FeatureHasher(2**14).transform([TOKENS])
    np.testing.assert_array_equal(as_dense(row, 2**14), hashed.toarray()[0])


def test_a_model_that_gets_the_features_as_a_dict_encodes_them_alike():
    by_hand = {
        "User": {"age": 31, "major": "eng", "member": True},
        "Geo": {"country": "Italy", "dma": 533, "tags": ["a b", "c"]},
        "FromUrl": {"weather": "Sunny"},
        "vector": {"0": 0.5, "1": -2},
        "note": "One fine, fine day",
        "Keywords": {"_text": "Air_Jordan News"},
        "hour": 7,
    }
    one, other = (make_encoder("hashed").encode(x) for x in (context_features(CONTEXT), by_hand))
    assert one.indices.tolist() == other.indices.tolist()
    assert one.values.tolist() == other.values.tolist()


values = st.integers(-9, 9) | st.floats(-5, 5) | st.booleans() | st.text("ab _", max_size=4) | st.none()
plain = st.recursive(
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), values | st.lists(st.text("ab ", max_size=3)), max_size=4),
    lambda inner: st.dictionaries(st.text("xyz", min_size=1, max_size=3), inner | values, max_size=3),
    max_leaves=5,
)


@given(plain)
def test_what_is_plain_stays_as_it_is(context):
    assert context_features(context) == context


@given(plain, st.data())
def test_a_list_of_dicts_is_all_of_them(context, data):
    """However the names of a namespace are spread over a list of dicts, the features are the same."""
    parts = [{}, {}, {}]
    for name, value in context.items():
        parts[data.draw(st.integers(0, 2))][name] = value
    assert context_features({"ns": [*parts, None]}) in ({"ns": context | {"3": None}}, {"ns": [*parts, None]})


def test_values_of_one_name_come_together():
    both = context_features({"ns": [{"n": 1, "s": "a", "d": {"x": 1}}, {"n": 2.5, "s": "b c", "d": {"x": 2, "y": 3}}]})
    assert both == {"ns": {"n": 3.5, "s": ["a", "b c"], "d": {"x": 3, "y": 3}}}
    assert context_features({"ns": [{"n": None, "l": ["a"]}, {"n": 2, "l": "b"}]}) == {"ns": {"n": 2, "l": ["a", "b"]}}


def test_a_name_for_two_kinds_of_things_is_refused():
    with pytest.raises(InvalidInput, match="feature 'n' stands twice in a list, as int and as str; rename"):
        context_features({"ns": [{"n": 1}, {"n": "a"}]})


def test_other_lists_have_places_for_names():
    assert context_features({"x": [1, "a", [2, 3]]}) == {"x": {"0": 1, "1": "a", "2": {"0": 2, "1": 3}}}


def test_the_context_is_not_changed():
    context = {"ns": [{"d": {"x": 1}}, {"d": {"x": 2}}]}
    context_features(context)
    assert context == {"ns": [{"d": {"x": 1}}, {"d": {"x": 2}}]}


def test_own_features_of_actions_stand_under_a_name_that_no_context_has():
    found = context_features({"hour": 7, "_action": 5}, actions={"tea": {"price": 2, "_tag": "tea"}, 3: {"price": 4}})
    assert found == {"hour": 7, "_action": {"tea": {"price": 2}, "3": {"price": 4}}}


def test_what_is_too_deep_is_refused():
    context = {"x": 1}
    for _ in range(600):
        context = {"x": [context]}
    with pytest.raises(InvalidInput, match="at most 64"):
        context_features(context)
