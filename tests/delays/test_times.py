"""Traces of times: rounds are events in order; missing outcomes never come; errors name their place."""

import gzip
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.delays import NEVER, Trace, example, parse
from delaytron.errors import InvalidInput
from optional import REAL_DATA, needs_data

DAY = datetime(2024, 5, 31, 12, 0, 0)


def naive_delays(pairs):
    """Walk through the rounds: whose answer is there when a later round begins?"""
    rounds = sorted(pairs, key=lambda pair: pair[0])
    delays = []
    for t, (_, outcome) in enumerate(rounds):
        if outcome is None:
            delays.append(NEVER)
            continue
        u = t + 1
        while u < len(rounds) and rounds[u][0] < outcome:
            u += 1
        delays.append(u - t)
    return delays


@st.composite
def logs(draw):
    """Events in any order, many at the same time, in bursts far apart; outcomes early, late or missing."""
    pairs = []
    for start in draw(st.lists(st.sampled_from([0, 5, 1000, 10**6]), min_size=1, max_size=4)):
        for step in draw(st.lists(st.integers(0, 9), min_size=1, max_size=8)):
            wait = draw(st.none() | st.integers(0, 12) | st.sampled_from([990, 1000, 10**6]))
            pairs.append((start + step, None if wait is None else start + step + wait))
    return pairs


@given(logs())
def test_delays_are_those_of_a_walk_through_the_rounds(pairs):
    events, outcomes = zip(*pairs, strict=True)
    expected = naive_delays(pairs)
    assert Trace.from_times(events, outcomes).delays.tolist() == expected
    marked = np.array([-1 if outcome is None else outcome for outcome in outcomes])
    assert Trace.from_times(np.array(events), marked).delays.tolist() == expected
    as_floats = np.array([np.nan if outcome is None else outcome for outcome in outcomes])
    assert Trace.from_times(np.array(events) / 8, as_floats / 8).delays.tolist() == expected


@given(logs())
def test_feedback_comes_at_the_first_round_that_is_not_before_the_outcome(pairs):
    trace = Trace.from_times(*zip(*pairs, strict=True))
    events = sorted(event for event, _ in pairs)
    assert len(trace.delays) == len(pairs)
    assert (trace.delays == NEVER).sum() == sum(outcome is None for _, outcome in pairs)
    for t, delay in enumerate(trace.delays):
        if delay < NEVER and t + delay < len(pairs):
            assert events[t] + trace.waits[t] <= events[t + delay]
        if 1 < delay < NEVER:
            assert events[t + delay - 1] < events[t] + trace.waits[t]


def test_a_burst_of_traffic_is_many_rounds():
    quiet = Trace.from_times([0, 100, 200], [60, 160, 260])
    busy = Trace.from_times([0, *range(1, 50), 100], [60, *range(1, 50), 160])
    assert quiet.delays.tolist() == [1, 1, 1]
    assert busy.delays[0] == 50


def test_an_outcome_after_the_last_event_comes_with_the_first_round_after_the_trace():
    assert Trace.from_times([1, 2, 3], [99, 3, 99]).delays.tolist() == [3, 1, 1]


def test_the_same_instant_counts_as_delivered():
    assert Trace.from_times([5, 5, 5, 9], [5, 9, 9, 9]).delays.tolist() == [1, 2, 1, 1]


def minutes(*steps):
    return [None if step is None else DAY + timedelta(minutes=step) for step in steps]


EVENTS, OUTCOMES, DELAYS = (3, 1, 2, 60), (5, 50, None, 61), [3, NEVER, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda times: [time and time.isoformat() for time in times],
        lambda times: ["" if time is None else f"  {time} " for time in times],
        lambda times: [-1 if time is None else time for time in times],
        lambda times: ["-1" if time is None else str(time) for time in times],
        lambda times: [float("nan") if time is None else time.timestamp() for time in times],
        lambda times: [time and time.replace(tzinfo=UTC) for time in times],
        lambda times: [time and f"{time}Z" for time in times],
        lambda times: np.array(times, "datetime64[s]"),
        lambda times: np.array(times, "datetime64[m]"),
        lambda times: np.array(times, "datetime64[ns]"),
        lambda times: list(np.array(times, "datetime64[m]")),
        lambda times: np.array(times, dtype=object),
        pd.Series,
        lambda times: pd.Series(times).dt.tz_localize("Europe/Berlin"),
        lambda times: pd.Series([None if time is None else int(time.timestamp()) for time in times], dtype="Int64"),
        lambda times: [pd.NaT if time is None else pd.Timestamp(time) for time in times],
        pl.Series,
    ],
)
def test_times_may_be_given_in_many_ways(make):
    trace = Trace.from_times(make(minutes(*EVENTS)), make(minutes(*OUTCOMES)))
    assert trace.delays.tolist() == DELAYS
    np.testing.assert_array_equal(trace.waits, [49 * 60, np.nan, 2 * 60, 60])


def test_event_and_outcome_may_be_given_in_different_ways():
    assert Trace.from_times(np.array(minutes(*EVENTS), "datetime64[s]"), minutes(*OUTCOMES)).delays.tolist() == DELAYS


def test_zones_are_distinguished():
    east = timezone(timedelta(hours=2))
    events = [DAY.replace(tzinfo=UTC), DAY.replace(tzinfo=east)]  # the second is two hours earlier
    assert Trace.from_times(events, [DAY.replace(tzinfo=UTC), None]).waits.tolist()[1:] == [0.0]


def test_a_date_far_away_is_a_time_like_others():
    assert Trace.from_times(["2024-05-31", "2024-06-01"], ["9999-12-31", "2024-06-01"]).delays.tolist() == [2, 1]


def test_numbers_beyond_the_floats_are_distinguished():
    start = 1_700_000_000_000_000_001
    assert Trace.from_times([start, start + 1, start + 2], [start + 1, None, None]).delays[0] == 1


def test_never_may_be_another_number():
    assert Trace.from_times([1, 2], [0, 5], never=0).delays.tolist() == [NEVER, 1]
    assert Trace.from_waits([7, 99], never=99).delays.tolist() == [7, NEVER]
    assert Trace.from_waits([7, 99], never=10**30).delays.tolist() == [7, 99]


@pytest.mark.parametrize(
    ("event", "outcome", "message"),
    [
        ([1, 5], [2, 3], "index 1: the outcome 3 lies before its event 5"),
        (minutes(0, 5), minutes(1, 4), "index 1: the outcome 2024-05-31T12:04:00 lies before its event .*12:05:00"),
        ([1, None], [2, 3], "index 1: the event time is missing; fill it in; only an outcome may be"),
        ([1, 2], [3], "events and an outcome for each, got 2 events and 1 outcomes"),
        ([], [], "got 0 events and 0 outcomes"),
        ([1, 2], [None, "2024-05-31"], r"index 1: event and outcome must be of one kind, got '2' \(numbers\) and"),
        (["2024-05-31", "soon"], ["2024-06-01", ""], "index 1: event must be numbers or ISO times .* got 'soon'"),
        (["2024-05-31", "5"], ["", ""], "index 1: event must be numbers or ISO times .* got '5'"),
        (["2024-05-31T10:00", "2024-05-31T10:00Z"], ["", ""], "index 1: event .* got '2024-05-31T10:00Z'"),
        (["2024-05-31T10:00"], ["2024-05-31T10:00Z"], r"index 0: .* of one kind, got .*\(times\) and .*with a zone\)"),
        ([DAY, DAY.replace(tzinfo=UTC)], [None, None], r"index 1: event .* got '2024-05-31T12:00:00\+00:00'"),
        ([1, None, 3, "4"], [None] * 4, "index 3: event must be numbers or ISO times .* got '4'"),
        ([1, 2**70], [None] * 2, f"index 1: event must be .* got {2**70}"),
        (np.ones(2, np.float16), [1, 2], "event must be numbers or ISO times .* got halffloat"),
        ([1.0, np.inf], [None, None], "index 1: event must be finite, got inf"),
        ([1, 2], [np.inf, 2], "index 0: outcome must be finite, got inf"),
        ([True], [None], "event must be numbers or ISO times .* got bool"),
        (np.ones((2, 2)), [1, 2], "event must be 1-D, numbers or ISO times .* got ndarray"),
        (5, [1, 2], "event must be 1-D, .* got int"),
        (np.array([1], "datetime64[ns]"), [None], "to the microsecond"),
        ([{}], [None], "event must be numbers or ISO times"),
    ],
)
def test_times_with_something_wrong_are_refused_with_where_and_what(event, outcome, message):
    with pytest.raises(InvalidInput, match=message):
        Trace.from_times(event, outcome)


def test_a_date_and_a_time_of_that_day_are_distinguished():
    assert Trace.from_times([date(2024, 5, 31), DAY], [DAY, DAY]).waits.tolist() == [12 * 3600, 0]


@given(st.lists(st.none() | st.floats(0, 1e30), min_size=1), st.floats(1e-9, 1e9))
def test_waits_are_multiplied_by_the_rate_and_rounded_up(waits, rate):
    expected = [NEVER if w is None else min(NEVER, max(1, int(np.ceil(w * rate)))) for w in waits]
    assert Trace.from_waits(waits, rate).delays.tolist() == expected


@pytest.mark.parametrize(
    ("waits", "rate", "message"),
    [
        ([1, -2], 1, "index 1: a waiting time must be at least 0, or -1 for never; got -2"),
        ([], 1, "at least one waiting time, got none"),
        ([1], 0, "rate must be above 0, got 0"),
        ([DAY], 1, "index 0: a waiting time must be a number, got 2024-05-31T12:00:00"),
        (["soon"], 1, "index 0: wait must be numbers"),
    ],
)
def test_waits_with_something_wrong_are_refused(waits, rate, message):
    with pytest.raises(InvalidInput, match=message):
        Trace.from_waits(waits, rate)


def write(folder, text, name="log.csv"):
    content = text.encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


TABLE = "user,event_time,Outcome at\na,30,31\nb,10,-1\n\nc,20,30\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", TABLE),
        ("log.csv.gz", TABLE),
        ("log.tsv", TABLE.replace(",", "\t")),
        ("log.txt", TABLE.replace(",", ";").replace("\n", "\r\n")),
        ("log.csv", "\ufeff" + TABLE.replace("-1", "")),
        ("log.csv", TABLE.replace(",", ", ").replace("c, ", '"c,\n""d""",')),
        ("log.csv", "event,outcome\n2024-06-01,2024-06-02\n2024-05-30,\n2024-05-31 10:00,2024-05-31 12:30:00.5\n"),
    ],
)
def test_a_table_of_times_is_read_from_a_file(tmp_path, name, text):
    path = write(tmp_path, text, name)
    for trace in (Trace(path), Trace(str(path)), Trace.from_file(path), parse(f"trace:{path}")):
        assert trace.delays.tolist() == [NEVER, 1, 1]


def test_columns_may_be_named(tmp_path):
    path = write(tmp_path, "shown,clicked,seconds\n1,5,4\n2,,\n3,3,0.5\n")
    assert Trace.from_file(path, event="shown", outcome="clicked").delays.tolist() == [3, NEVER, 1]
    assert Trace.from_file(path, wait="seconds", rate=10).delays.tolist() == [40, NEVER, 5]
    single = write(tmp_path, "seconds\n4\n0.5\n", "waits.csv")
    assert Trace.from_file(single, wait="seconds").delays.tolist() == [4, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event,outcome\n1,2\n\n5,4\n", "log.csv, line 4: the outcome 4 lies before its event 5"),
        ("event,outcome\n1,2\n,4\n", "log.csv, line 3: the event time is missing"),
        ("event,outcome\n1,2\n3,soon\n", "log.csv, line 3: outcome must be numbers .* got 'soon'"),
        ("event,outcome\n1,2\n3,2024-05-31\n", "log.csv, line 3: outcome must be .* got '2024-05-31'"),
        ("event,outcome\n1,2024-05-31\n", "log.csv, line 2: event and outcome must be of one kind"),
        ("event,outcome\n1,2\n3\n", "log.csv, line 3: must have 2 cells like the first row, got 1"),
        ("event,outcome\n1,2\n3,4,5\n", "log.csv, line 3: must have 2 cells like the first row, got 3"),
        ("event,outcome\n", "log.csv: there is no row below the header"),
        ("a,b\n1,2\n", "log.csv, line 1: one column must start with event and one with outcome, got a, b; name the"),
        ("event_a,event_b,outcome\n1,2,3\n", "log.csv, line 1: one column must start with event"),
        ("", "log.csv: there is no delay in this file"),
    ],
)
def test_a_table_with_something_wrong_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        Trace(write(tmp_path, text))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"event": "event", "outcome": "clicked"},
            "log.csv: there must be one column 'clicked'; the columns are event, o",
        ),
        (
            {"event": "event"},
            r"columns must be named as trace:.*log.csv,event=COLUMN,outcome=COLUMN or trace:.*, got event; name",
        ),
        ({"event": "event", "outcome": "outcome", "wait": "w"}, "columns must be named as"),
        ({"rate": 2}, "columns must be named as .*, got rate"),
        ({"wait": "outcome", "rate": -2}, "rate must be above 0, got -2"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns, message):
    with pytest.raises(InvalidInput, match=message):
        Trace.from_file(write(tmp_path, "event,outcome\n1,2\n"), **columns)


def test_a_trace_needs_a_path():
    with pytest.raises(InvalidInput, match="path must be a str or a Path that is not empty, got None"):
        Trace.from_file(None, wait="wait")


def test_a_file_without_a_header_has_no_columns_to_name(tmp_path):
    with pytest.raises(InvalidInput, match=r"log\.csv, line 1: there must be a header with the columns wait"):
        Trace.from_file(write(tmp_path, "1\n2\n"), wait="wait")


@needs_data
@pytest.mark.parametrize(
    ("name", "n_rounds", "never"), [("college", 59_835, 21_600), ("dengue", 52_987, 0), ("retweets", 15_563, 0)]
)
def test_the_real_traces_have_the_rounds_and_losses_that_are_known(name, n_rounds, never):
    trace = example(name)
    assert len(trace.delays) == n_rounds
    assert (trace.delays == NEVER).sum() == never
    assert trace.delays.min() == 1
    assert (parse(f"trace:{name}").delays == trace.delays).all()


@needs_data
def test_the_time_between_message_and_reply_is_what_the_file_says():
    with gzip.open(REAL_DATA / "delays" / "college_reply_delays.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    np.testing.assert_array_equal(np.nan_to_num(example("college").waits, nan=-1), rows[:, 2])
    first = naive_delays([(event, None if outcome == -1 else outcome) for event, outcome, _ in rows[:2000]])
    inside = np.array(first) + np.arange(2000) < 2000  # known before the cut
    assert (example("college").delays[:2000][inside] == np.array(first)[inside]).all()


@needs_data
def test_a_simulation_plays_a_real_trace():
    data = dt.datasets.load("synsep", n_samples=2000)
    result = dt.simulate("delaytron", data, delay="trace:college", rounds=3000, runs=2)
    same = dt.simulate("delaytron", data, delay=example("college").delays[:3000], rounds=3000, runs=2)
    assert result.delay == "trace:college"
    assert (result.mistakes == same.mistakes).all()


def test_a_missing_example_is_refused_with_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
    asked = f"put college_reply_delays.csv.gz, from https://snap.stanford.edu/.*, into {tmp_path}/delays"
    with pytest.raises(InvalidInput, match=asked):
        example("college")
    monkeypatch.delenv("DELAYTRON_DATA")
    with pytest.raises(InvalidInput, match="into the folder delays of a folder that the variable DELAYTRON_DATA names"):
        parse("trace:dengue")


def test_an_unknown_example_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="one of college, dengue, retweets, got 'colege'; did you mean college"):
        example("colege")
    with pytest.raises(InvalidInput, match=r"'colege': no such file; published are .*; did you mean college"):
        parse("trace:colege")


def test_a_file_comes_before_an_example_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "3\n1\n", "college")
    assert parse("trace:college").delays.tolist() == [3, 1]
