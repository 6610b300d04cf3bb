"""dsjson: lines as records, contexts as features."""

import bz2
import gzip
import json
import lzma
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from delaytron.errors import InvalidInput
from delaytron.logs import context_features, dsjson
from delaytron.logs.dsjson import Event, Observation, Unusable, read_records
from delaytron.model.encoders import make_encoder
from dsjson_lines import DRINKS, MULTI, event, outcome, write


def read(tmp_path, *lines):
    return list(read_records(write(tmp_path / "log.dsjson", lines)))


def test_an_event_has_the_values_of_its_fields(tmp_path):
    line = event("e1", label=1, prob=0.05000000074505806, reward=0.25)
    (found,) = read(tmp_path, line)
    assert found == Event(
        line=1,
        id="e1",
        has_id=True,
        context={"FromUrl": [{"timeofday": "Morning", "weather": "Sunny", "age": 31}]},
        actions=tuple(MULTI),
        label=1,
        prob=0.05000000074505806,
        probs=[found.probs[0], 0.05000000074505806, found.probs[0]],
        reward=0.25,
        observed=True,
        deferred=False,
        skipped=False,
        weight=1.0,
        apprenticed=False,
        multi=json.dumps(MULTI).encode(),
        time="2021-02-04T16:31:29.2460000Z",
    )
    assert sum(found.probs) == pytest.approx(1)


def test_a_cost_of_zero_is_a_reward_of_zero_without_a_sign(tmp_path):
    for cost in (0, 0.0, -0.0):
        (found,) = read(tmp_path, event("e", reward=0.0) | {"_label_cost": cost})
        assert str(found.reward) == "0.0"


def test_an_event_as_it_was_ranked_has_the_first_action_and_its_probability(tmp_path):
    """The client's own log: no label, the action taken is the first of `a`, and `p` is in the order of `a`."""
    line = event("e1", label=2, prob=0.625)
    ranked = {key: value for key, value in line.items() if not key.startswith("_label")}
    (found,) = read(tmp_path, ranked)
    assert (found.label, found.prob, found.probs[2], found.reward, found.observed) == (2, 0.625, 0.625, None, False)


def test_probabilities_are_those_of_the_actions_they_belong_to(tmp_path):
    line = event("e1") | {"a": [3, 1, 2], "p": [0.5, 0.125, 0.375], "_label_Action": 3, "_labelIndex": 2}
    (found,) = read(tmp_path, line | {"_label_probability": 0.5})
    assert found.probs == [0.125, 0.375, 0.5]


def test_a_label_that_is_not_ranked_first_has_the_probability_of_its_place(tmp_path):
    line = event("e1", label=1) | {"a": [3, 1, 2], "p": [0.5, 0.125, 0.375]}
    del line["_label_probability"]
    (found,) = read(tmp_path, line)
    assert (found.label, found.prob) == (1, 0.375)


def test_rankings_that_count_from_zero_are_understood(tmp_path):
    line = {"_label_cost": -1, "_label_Action": 2, "a": [2, 0, 1], "p": [0.5, 0.375, 0.125], "c": {"_multi": MULTI}}
    (found,) = read(tmp_path, line)
    assert (found.label, found.prob, found.probs) == (1, 0.125, [0.375, 0.125, 0.5])


def test_capitals_of_the_label_do_not_matter(tmp_path):
    line = {"_label_Cost": -1, "_label_Probability": 0.5, "_label_action": 2, "c": {"_multi": MULTI}}
    (found,) = read(tmp_path, line)
    assert (found.reward, found.prob, found.label) == (1.0, 0.5, 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (outcome("e1", 0.5), Observation(1, "e1", 0.5, False, "2021-02-05T01:48:38.423Z")),
        ({"EventId": "e1", "v": 0.5}, Observation(1, "e1", 0.5, False)),
        ({"EventId": "e1", "v": 1}, Observation(1, "e1", 1.0, False)),
        ({"EventId": "e1", "ActionTaken": True}, Observation(1, "e1", None, True)),
        ({"EventId": "e1", "v": "clicked"}, Observation(1, "e1", None, False)),
        ({"EventId": "e1", "v": {"reward": 0.5}}, Observation(1, "e1", None, False)),
        ({"EventId": "e1", "v": True}, Observation(1, "e1", None, False)),
        ({"EventId": "e1", "v": 10**400}, Observation(1, "e1", None, False)),
        ({"EventId": "e1", "Observations": [{"v": "x"}, {"v": 3}, {"v": 4}]}, Observation(1, "e1", 3.0, False)),
        ({"EventId": "e1", "Observations": [{"ActionTaken": True}]}, Observation(1, "e1", None, True)),
    ],
)
def test_a_line_without_a_context_is_an_observation(tmp_path, line, expected):
    assert read(tmp_path, line) == [expected]


def test_the_first_outcome_counts_where_there_is_no_label_cost(tmp_path):
    line = event("e1") | {"o": [{"EventId": "e1", "ActionTaken": True}, {"v": 0.25}, {"v": 0.75}]}
    (found,) = read(tmp_path, line)
    assert (found.reward, found.observed) == (0.25, True)


def test_the_label_cost_counts_where_the_service_made_one_of_several_outcomes(tmp_path):
    line = event("e1", reward=7 / 3) | {"o": [{"v": 3.0}, {"v": 2.0}, {"v": 2.0}]}
    (found,) = read(tmp_path, line)
    assert (found.reward, found.observed) == (7 / 3, True)


def test_a_reward_without_an_outcome_is_not_observed(tmp_path):
    for o in ([], [{"EventId": "e1", "ActionTaken": True}], None):
        (found,) = read(tmp_path, event("e1", reward=0.0) | {"o": o})
        assert (found.reward, found.observed) == (0.0, False)


@pytest.mark.parametrize(
    ("more", "deferred", "skipped"),
    [
        ({}, False, False),
        ({"DeferredAction": True}, True, False),
        ({"DeferredAction": False}, False, False),
        ({"DeferredAction": True, "o": [{"EventId": "e1", "ActionTaken": True}]}, False, False),
        ({"_skipLearn": True}, False, True),
    ],
)
def test_actions_that_were_not_taken(tmp_path, more, deferred, skipped):
    (found,) = read(tmp_path, event("e1", **more))
    assert (found.deferred, found.skipped) == (deferred, skipped)


def test_an_event_has_the_weight_of_those_that_were_dropped(tmp_path):
    (found,) = read(tmp_path, event("e1", pdrop=0.75))
    assert found.weight == 4.0


def test_an_apprentice_is_recognized(tmp_path):
    (found,) = read(tmp_path, event("e1", reward=0.0) | {"_original_label_cost": -2.0})
    assert found.apprenticed
    assert not read(tmp_path, event("e1", reward=1.0))[0].apprenticed


def test_names_that_begin_with_an_underscore_are_no_context(tmp_path):
    (found,) = read(tmp_path, event("e1", context={"_synthetic": False, "User": {"_age": 0}, "_text": "a b"}))
    assert found.context == {"User": {"_age": 0}, "_text": "a b"}


def test_events_without_an_id_are_named_by_file_line_and_content(tmp_path):
    plain = {key: value for key, value in event("e1").items() if key != "EventId"}
    one, two, three = read(tmp_path, plain, plain, plain | {"Version": "2"})
    assert [record.has_id for record in (one, two, three)] == [False] * 3
    assert one.id.startswith("log.dsjson:1:")
    assert two.id.startswith("log.dsjson:2:")
    assert one.id.split(":")[2] == two.id.split(":")[2] != three.id.split(":")[2]
    again = list(read_records(tmp_path / "log.dsjson"))
    assert [record.id for record in again] == [one.id, two.id, three.id]


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        ("[CHECKPOINT INFO LINE]", "other", "no JSON object"),
        ('{"Version": "1"}', "other", "no EventId"),
        ('{"EventId": "e1", ', "damaged", "not valid JSON"),
        ('{"EventId": "e1"} and more', "damaged", "not valid JSON"),
        ('{"EventId": "e1", "_label_cost": NaN}', "damaged", "not valid JSON"),
        ('{"EventId": 7}', "wrong_type", "$.EventId"),
        ('{"EventId": "e", "_label_cost": "much"}', "wrong_type", "$._label_cost"),
        (event("e", reward=1) | {"_label_Action": "two"}, "wrong_type", "$._label_Action"),
        (event("e", reward=1) | {"p": [0.5, "half"]}, "wrong_type", "$.p[1]"),
        (event("e", reward=1) | {"c": [1, 2]}, "wrong_type", "$.c"),
        (event("e", reward=1) | {"o": {"v": 1}}, "wrong_type", "$.o"),
        (event("e") | {"c": {"hour": 7}}, "no_actions", "no _multi"),
        (event("e") | {"c": {"_multi": []}}, "no_actions", "empty"),
        (event("e") | {"c": {"_multi": [1, 2]}}, "no_actions", "no list of objects"),
        (event("e") | {"c": {"_multi": {"a": 1}}}, "no_actions", "no list of objects"),
        (event("e") | {"_label_Action": 4, "_labelIndex": 3}, "no_label", "_label_Action must be from 1 to 3, got 4"),
        (event("e") | {"_label_Action": 0, "_labelIndex": None}, "no_label", "from 1 to 3, got 0"),
        (
            event("e") | {"_label_Action": 2, "_labelIndex": 2},
            "no_label",
            "_label_Action must be _labelIndex + 1, got 2 and 2",
        ),
        (event("e") | {"_label_Action": None, "_labelIndex": None, "a": None}, "no_label", "got None and None"),
        (event("e") | {"_label_Action": None, "_labelIndex": None, "a": [7, 8]}, "no_label", "got None and None"),
        (event("e") | {"_label_probability": 0}, "no_probability", "above 0 and at most 1, got 0"),
        (event("e") | {"_label_probability": 1.5}, "no_probability", "got 1.5"),
        (event("e") | {"_label_probability": None, "p": None}, "no_probability", "no _label_probability"),
        (event("e") | {"_label_probability": None, "p": [1.0]}, "no_probability", "no _label_probability"),
        (event("e", pdrop=1), "no_probability", "pdrop"),
    ],
)
def test_unusable_lines_have_a_reason(tmp_path, line, reason, words):
    before, found, after = read(tmp_path, event("a"), line, event("b"))
    assert (before.id, after.id, after.line) == ("a", "b", 3)
    assert (found.line, found.reason) == (2, reason)
    assert words in found.detail


def test_bytes_that_are_no_text_are_damage(tmp_path):
    path = tmp_path / "log.dsjson"
    whole = json.dumps(event("e1")).encode()
    path.write_bytes(whole.replace(b"Sunny", b"\xff\xfe") + b"\n" + whole.replace(b'"e1"', b'"\xff"') + b"\n" + whole)
    found = list(read_records(path))
    assert [getattr(record, "reason", "") for record in found] == ["damaged", "damaged", ""]


def test_depth_without_end_is_damage(tmp_path):
    deep = "[" * 100_000
    nested = '{"EventId": "e", "_label_Action": 1, "_label_probability": 1, "c": {"x": ' + deep + ', "_multi": [{}]}}'
    assert [record.reason for record in read(tmp_path, nested)] == ["damaged"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"c": {"_multi": [{}], "_slots": [{}]}, "_outcomes": [{"_label_cost": 1}]}, "several slots"),
        ({"c": {"_multi": [{"_slot_id": 0}], "_slots": [{}]}}, "several slots"),
        ({"_label_ca": {"action": 1.5, "cost": 1, "pdf_value": 0.2}, "c": {"hour": 7}}, "continuous actions"),
    ],
)
def test_logs_of_other_problems_are_refused(tmp_path, line, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        read(tmp_path, event("e1"), line)
    assert "log.dsjson, line 2: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_logs_may_be_compressed(tmp_path, ending, pack):
    plain = write(tmp_path / "plain", [event("e1"), "", outcome("e1", 1.0)])
    packed = tmp_path / f"log.dsjson{ending}"
    packed.write_bytes(b"\xef\xbb\xbf" * (ending == "") + pack(plain.read_bytes()))
    first, second = read_records(packed)
    assert (first.id, second.line, second.reward) == ("e1", 3, 1.0)


def test_a_truncated_log_is_an_error(tmp_path):
    path = tmp_path / "log.dsjson.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(event(str(i))) + "\n" for i in range(50)).encode())[:-30])
    with pytest.raises(InvalidInput, match="cannot be read any further"):
        list(read_records(path))


@pytest.mark.parametrize("name", ["absent.dsjson", ""])
def test_a_missing_file_is_an_error(tmp_path, name):
    with pytest.raises(InvalidInput, match="cannot read"):
        list(read_records(tmp_path / name))


def test_a_line_without_an_end_takes_no_memory(tmp_path, monkeypatch):
    path = tmp_path / "log.dsjson"
    with path.open("wb") as file:
        file.write(json.dumps(event("e1")).encode() + b"\n")
        for _ in range(64):
            file.write(b"x" * 2**20)
        file.write(b"\n" + json.dumps(event("e2")).encode())
    monkeypatch.setattr(dsjson, "LONGEST", 2**16)
    tracemalloc.start()
    try:
        first, long, last = read_records(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (first.id, last.id, last.line) == ("e1", "e2", 3)
    assert (long.line, long.reason, long.detail) == (2, "too_long", "it has more than 65,536 bytes")
    assert peak < 4 * 2**20


def test_a_line_may_be_as_long_as_is_allowed_and_no_longer(tmp_path, monkeypatch):
    path = write(tmp_path / "log", [outcome("e1", 1.0), outcome("e2", 1.0)])
    size = len(path.read_bytes().splitlines()[0]) + 1
    for longest, kind in ((size, Observation), (size - 1, Unusable)):
        monkeypatch.setattr(dsjson, "LONGEST", longest)
        assert [type(record) for record in read_records(path)] == [kind] * 2


def test_the_same_actions_are_parsed_once(tmp_path):
    one, two, other = read(tmp_path, event("1"), event("2"), event("3", multi=MULTI[:2]))
    assert one.actions is two.actions
    assert other.actions == tuple(MULTI[:2])


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.integers(0, 700), st.integers(0, 40))
def test_mutated_lines_are_read_or_unusable(tmp_path, bytes_, place, cut):
    """Whatever a line contains, the lines around it are read, and only `InvalidInput` is raised."""
    whole = json.dumps(event("e1", reward=1.0)).encode()
    changed = (whole[:place] + bytes_ + whole[place + cut :]).replace(b"\n", b" ").replace(b"\r", b" ")
    path = tmp_path / "log.dsjson"
    path.write_bytes(whole + b"\n" + changed + b"\n" + whole.replace(b"e1", b"e2"))
    try:
        found = list(read_records(path))
    except InvalidInput:  # of another kind of log
        return
    assert isinstance(found[0], Event)
    assert (found[-1].id, found[-1].line) == ("e2", 3)
    assert len(found) in (2, 3)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.sampled_from(sorted(event("e", reward=1.0))), json_values), min_size=1, max_size=3))
def test_fields_of_any_type_are_read_or_unusable(tmp_path, changes):
    path = write(tmp_path / "log.dsjson", [event("e1", reward=1.0) | dict(changes), event("e2")])
    found = list(read_records(path))
    assert found[-1].id == "e2"
    for record in found[:-1]:
        if isinstance(record, Event):
            assert 0 <= record.label < len(record.actions)
            assert 0 < record.prob <= 1


def test_records_have_the_kinds_of_their_lines(tmp_path):
    lines = [event(str(i), i % 3, reward=i % 2) for i in range(30)] + [outcome(str(i), 1) for i in range(10)] + ["{"]
    kinds = Counter(type(record).__name__ for record in read(tmp_path, *lines))
    assert kinds == {"Event": 30, "Observation": 10, "Unusable": 1}
    assert {record.actions[record.label]["_tag"] for record in read(tmp_path, *lines[:30])} == set(DRINKS)


# Contexts of Vowpal Wabbit's JSON as features: the rows that a model makes of them


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
def test_plain_features_are_unchanged(context):
    assert context_features(context) == context


@given(plain, st.data())
def test_a_list_of_dicts_is_merged(context, data):
    """However the names of a namespace are spread over a list of dicts, the features are the same."""
    parts = [{}, {}, {}]
    for name, value in context.items():
        parts[data.draw(st.integers(0, 2))][name] = value
    assert context_features({"ns": [*parts, None]}) == {"ns": context | {"3": None}}


def test_values_of_one_name_come_together():
    both = context_features({"ns": [{"n": 1, "s": "a", "d": {"x": 1}}, {"n": 2.5, "s": "b c", "d": {"x": 2, "y": 3}}]})
    assert both == {"ns": {"n": 3.5, "s": ["a", "b c"], "d": {"x": 3, "y": 3}}}
    assert context_features({"ns": [{"n": None, "l": ["a"]}, {"n": 2, "l": "b"}]}) == {"ns": {"n": 2, "l": ["a", "b"]}}


def test_a_name_for_two_kinds_of_things_is_refused():
    with pytest.raises(InvalidInput, match="feature 'n' is there twice in a list, as int and as str; rename"):
        context_features({"ns": [{"n": 1}, {"n": "a"}]})


def test_other_lists_have_places_for_names():
    assert context_features({"x": [1, "a", [2, 3]]}) == {"x": {"0": 1, "1": "a", "2": {"0": 2, "1": 3}}}


def test_the_context_is_not_changed():
    context = {"ns": [{"d": {"x": 1}}, {"d": {"x": 2}}]}
    context_features(context)
    assert context == {"ns": [{"d": {"x": 1}}, {"d": {"x": 2}}]}


def test_own_features_of_actions_have_a_name_that_no_context_has():
    found = context_features({"hour": 7, "_action": 5}, actions={"tea": {"price": 2, "_tag": "tea"}, 3: {"price": 4}})
    assert found == {"hour": 7, "_action": {"tea": {"price": 2}, "3": {"price": 4}}}


def test_features_of_actions_must_be_a_dict():
    with pytest.raises(InvalidInput, match="actions must be a dict of the features of each action, got 3"):
        context_features({}, actions=3)


def test_a_context_that_is_too_deep_is_refused():
    context = {"x": 1}
    for _ in range(600):
        context = {"x": [context]}
    with pytest.raises(InvalidInput, match="at most 64"):
        context_features(context)
