"""dsjson as a `dt.logs.Log`: what is kept, what is left out, and what is an error."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from dsjson_lines import DRINKS, MULTI, event, outcome, write


def read(tmp_path, *lines, **options):
    return dt.logs.read_dsjson(write(tmp_path / "log.dsjson", lines), **options)


def test_an_event_is_a_row(tmp_path):
    log = read(tmp_path, event("e1", 1, 0.5, 1.0), event("e2", 2, 0.25, 0.5))
    assert log.classes == tuple(DRINKS)
    assert log.table["id"].to_pylist() == ["e1", "e2"]
    assert log.labels.tolist() == [1, 2]
    assert log.probs.tolist() == [0.5, 0.25]
    assert log.outcomes.tolist() == [1.0, 0.5]
    assert log.probabilities.tolist() == [[0.25, 0.5, 0.25], [0.375, 0.375, 0.25]]
    assert log.features[0] == {"FromUrl": {"timeofday": "Morning", "weather": "Sunny", "age": 31}}
    assert log.decided_at.tolist() == [1612456289246000000] * 2
    assert log.actions == tuple(MULTI)
    assert (log.allowed, log.weights, log.received_at) == (None, None, None)


def test_actions_that_come_and_go_are_allowed_in_their_order(tmp_path):
    log = read(tmp_path, event("e1", 0, reward=1), event("e2", 1, reward=0, multi=[MULTI[2], MULTI[0]]))
    assert log.table["allowed"].to_pylist() == [None, [2, 0]]
    assert log.allowed.tolist() == [[True, True, True], [True, False, True]]
    assert log.labels.tolist() == [0, 0]
    assert log.probabilities.tolist()[1] == [0.5, 0.0, 0.5]


def test_classes_are_those_that_are_asked_for(tmp_path):
    lines = [event(f"e{k}", k, reward=1) for k in range(3)]
    log = read(tmp_path, *lines, classes=["Latte", "tea", "Cappucino"])
    assert log.classes == ("Latte", "tea", "Cappucino")
    assert log.labels.tolist() == [2, 0]
    assert log.allowed.tolist() == [[True, False, True]] * 2


def test_an_outcome_is_as_late_as_its_line(tmp_path):
    lines = [
        *[
            outcome("e1", 1.0),
            event("e0"),
            event("bad", reward=7.0, observed=False),
            event("e1"),
            event("e2", reward=0.0),
        ],
        *[outcome("bad", 9.0), outcome("e0", 0.5), event("e3"), outcome("e0", 1.0), outcome("e1", 0.0), event("e4")],
        *[outcome("e3", 0.0), outcome("e2", 0.0)],
    ]
    log = read(tmp_path, *lines, skip_bad=True)
    assert log.table["id"].to_pylist() == ["e0", "e1", "e2", "e3", "e4"]
    assert log.delays.tolist() == [2, 0, 0, 1, -1]
    assert log.outcomes[:4].tolist() == [0.5, 1.0, 0.0, 0.0]


def test_own_features_of_actions_are_chosen(tmp_path):
    prices = [[{"id": "a", "price": price}, {"id": "b", "size": 1}] for price in (1, 2)]
    lines = [event(f"e{k}", multi=multi, context={"hour": 7}) for k, multi in enumerate(prices)]
    varying = {"a": {"id": "a", "price": 1}}
    for chosen, expected in (("varying", varying), ("all", varying | {"b": {"id": "b", "size": 1}}), ("none", None)):
        features = read(tmp_path, *lines, action_features=chosen).features[0]
        assert features == ({"hour": 7} if expected is None else {"hour": 7, "_action": expected})
    with pytest.raises(dt.InvalidInput, match="action_features must be"):
        read(tmp_path, *lines, action_features="some")


def test_several_files_are_one_log(tmp_path):
    files = [write(tmp_path / f"{k}.dsjson", [event(f"e{k}", k)]) for k in range(2)]
    write(tmp_path / "late.dsjson", [outcome("e0", 1.0)])
    log = dt.logs.read_dsjson([*files, tmp_path / "late.dsjson"])
    assert (log.labels.tolist(), log.delays.tolist()) == ([0, 1], [1, -1])


def test_numbers_that_do_not_identify_actions_are_warned_of(tmp_path):
    there, back = ([{"topic": topic} for topic in order] for order in (("art", "news"), ("news", "art")))
    lines = event("e1", reward=1, multi=there), event("e2", reward=0, multi=back)
    with pytest.warns(UserWarning, match=r"the n-th action differs .*: action='topic' identifies them") as caught:
        read(tmp_path, *lines)
    assert caught[0].filename == __file__
    assert read(tmp_path, *lines, action="topic").classes == ("art", "news")
    assert read(tmp_path, *lines, action="number").classes == (1, 2)
    assert read(tmp_path, lines[0], event("e3", reward=0, multi=there)).classes == (1, 2)


def test_numbers_stay_numbers_if_they_are_asked_for(tmp_path):
    log = dt.logs.from_arrays(features=np.eye(3), labels=[0, 1, 2], probs=[0.5] * 3, rewards=[1, 0, 1], n_classes=3)
    dt.logs.write_dsjson(log, tmp_path / "log.dsjson")
    again = dt.logs.read_dsjson(tmp_path / "log.dsjson", classes=range(3))
    assert again.classes == (0, 1, 2)
    assert again.labels.tolist() == [0, 1, 2]
    assert again.features[1] == {"x": {"1": 1.0}}


def test_rewards_are_scaled_and_missing_ones_can_have_a_default(tmp_path):
    lines = [event("e1", reward=-1.0), event("e2", reward=1.0), event("e3")]
    assert read(tmp_path, *lines, reward_scale=(-1, 1)).outcomes[:2].tolist() == [0.0, 1.0]
    assert read(tmp_path, *lines, reward_scale=(-1, 1), default_reward=0).outcomes.tolist() == [0.0, 1.0, 0.5]
    with pytest.raises(dt.InvalidInput, match=r"line 1: rewards must be from 0 to 1, got -1\.0"):
        read(tmp_path, *lines)
    with pytest.raises(dt.InvalidInput, match="the lower one first"):
        read(tmp_path, *lines, reward_scale=(1, 1))


def test_actions_not_taken_and_repeated_events_are_left_out(tmp_path):
    lines = [
        event("e1", reward=1.0),
        event("e1", 1, reward=0.0),
        event("e2", reward=1.0, _skipLearn=True),
        event("e3", reward=1.0, DeferredAction=True),
        event("e4", reward=1.0, DeferredAction=True),
        {"EventId": "e4", "ActionTaken": True},
        "[CHECKPOINT INFO LINE]",
        "",
    ]
    assert read(tmp_path, *lines).table["id"].to_pylist() == ["e1", "e4"]


def test_an_outcome_of_a_line_of_its_own_counts_unless_one_was_observed(tmp_path):
    lines = [event("e1", reward=0.0, observed=False), event("e2", reward=0.0), outcome("e1", 1.0), outcome("e2", 1.0)]
    assert read(tmp_path, *lines).outcomes.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "line",
    [
        '{"EventId": ',
        event("bad", reward=1.0) | {"_label_probability": 0},
        event("bad", reward=1.0) | {"_label_Action": 7, "_labelIndex": None},
        event("bad", reward=1.0) | {"c": {}},
        event("bad", reward=1.0) | {"pdrop": 1.5},
    ],
)
def test_a_bad_line_ends_the_reading_or_is_left_out(tmp_path, line):
    with pytest.raises(dt.InvalidInput, match=r"log\.dsjson, line 2: .*skip_bad=True") as caught:
        read(tmp_path, event("e1", reward=1.0), line)
    assert "\n" not in str(caught.value)
    assert len(read(tmp_path, event("e1", reward=1.0), line, skip_bad=True)) == 1


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{}", b"\xff\xfe", b"[1, 2]", b'{"c": {}}'])
def test_a_file_without_events_is_one_line(tmp_path, content):
    (tmp_path / "log.dsjson").write_bytes(content)
    with pytest.raises(dt.InvalidInput, match=r"log\.dsjson") as caught:
        dt.logs.read_dsjson(tmp_path / "log.dsjson")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(dt.InvalidInput, match="nowhere"):
        dt.logs.read_dsjson(tmp_path / "nowhere.dsjson")
    with pytest.raises(dt.InvalidInput, match="it must be a file"):
        dt.logs.read_dsjson(tmp_path)


CONTENT = "".join(json.dumps(event(f"e{i}", i % 3, 0.5, i / 4)) + "\n" for i in range(3)).encode()


def outcome_of(path, **options):
    try:
        return dt.logs.read_dsjson(path, **options), ""
    except dt.InvalidInput as problem:
        return None, str(problem)


@given(place=st.integers(0, len(CONTENT) - 1), byte=st.integers(0, 255), skip_bad=st.booleans())
def test_a_changed_byte_is_a_clear_line_or_a_log(tmp_path_factory, place, byte, skip_bad):
    path = tmp_path_factory.mktemp("mutated") / "log.dsjson"
    path.write_bytes(CONTENT[:place] + bytes([byte]) + CONTENT[place + 1 :])
    log, said = outcome_of(path, skip_bad=skip_bad)
    assert (log is None and said and "\n" not in said) or 1 <= len(log) <= 3
    if log is not None:
        dt.logs.write_dsjson(log, path)
        assert dt.logs.read_dsjson(path).labels.tolist() == log.labels.tolist()
