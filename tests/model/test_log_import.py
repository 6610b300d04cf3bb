"""Models that begin with a log: they have its decisions, probabilities and answers, in whatever order its lines are."""

import json
import sqlite3
import struct
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import WAYS, hashes_of, lines_of
from models import FakeClock
from sklearn.feature_extraction import FeatureHasher
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.answers import Status
from delaytron.cli.import_log import import_dsjson
from delaytron.errors import InvalidInput
from delaytron.logs import context_features, events
from delaytron.logs.events import EventTerms
from delaytron.model import engine, facts, log_import
from delaytron.model.engine import Elsewhere
from delaytron.model.verify import verify_journal
from dsjson_lines import DRINKS, MULTI, event, outcome, write

pytestmark = pytest.mark.xdist_group("bandit_logit")

OPTIONS = {
    "learner": "bandit_logit",
    "parameters": {},
    "bits": 10,
    "ngrams": 1,
    "expire_after": None,
    "on_expiry": "drop",
    "correct_within": None,
    "seed": 7,
}
SEASONS = ["spring", "summer", "autumn"]


def import_lines(folder, *logs, journal="shop.db", options=None, strict=False, **terms):
    """Write logs and import them; return what was found and the journal."""
    paths = [write(folder / f"log{number}.dsjson", lines) for number, lines in enumerate(logs)]
    terms = EventTerms(**{"action_features": "none"} | terms)
    found = import_dsjson(paths, folder / journal, terms, OPTIONS | (options or {}), strict)
    return found, folder / journal


def table_of(path):
    """Return what a journal has of every decision, in order: what was decided, its status and its answer."""
    connection = sqlite3.connect(path)
    query = "SELECT facts.id, body, status, value FROM facts JOIN ids USING (id) WHERE kind = ? ORDER BY facts.seq"
    rows = connection.execute(query, (facts.RECORDED,)).fetchall()
    connection.close()
    return {issued: (facts.decode_decided(body), status, value) for issued, body, status, value in rows}


def answers_of(path):
    return {issued: value for issued, (_, _, value) in table_of(path).items()}


def agrees(path):
    """Assert that a journal agrees with itself and opens as the model of its facts; return its hash."""
    found = verify_journal(path)
    assert found.mismatch is None
    with dt.Model.open(path) as model:
        assert model.digest() == found.hash
    return found.hash


def context(number):
    return {"FromUrl": [{"season": SEASONS[number % 3], "n": number % 5}], "User": {"member": number % 2 == 0}}


def test_a_log_of_personalizer(tmp_path):
    lines = [event(f"e{i}", i % 3, 0.25, i % 2, context=context(i)) for i in range(12)]
    found, path = import_lines(tmp_path, lines)
    names = found.reading.names
    assert (found.classes, names.way, names.lost, found.varying, found.open) == (DRINKS, "_tag", {}, [], 0)
    learned = found.learned
    assert (found.reading.events, learned.recorded, learned.recorded_before, learned.answered) == (12, 12, 0, 12)
    assert not found.omitted
    assert not found.unused_answers
    for i, (issued, (decided, status, value)) in enumerate(table_of(path).items()):
        assert (issued, decided.round, decided.label, decided.prob, status, value) == (
            f"e{i}",
            i + 1,
            i % 3,
            0.25,
            Status.ANSWERED,
            i % 2,
        )
        assert decided.allowed is None
    agrees(path)


def test_its_features_are_hashed_as_a_dict_is(tmp_path):
    """The rows of the journal are those that a model, and scikit-learn, make of the same context."""
    _, path = import_lines(tmp_path, [event("e0", context=context(4)), event("e1", context={"User": {"age": 31}})])
    table = table_of(path)
    hashed = FeatureHasher(2**10).transform(
        [{"FromUrl.season=summer": 1, "FromUrl.n": 4, "User.member": 1}, {"User.age": 31}]
    )
    for (decided, _, _), expected in zip(table.values(), hashed, strict=True):
        dense = np.zeros(2**10)
        dense[decided.row.indices] = decided.row.values
        np.testing.assert_array_equal(dense, expected.toarray()[0])
    with dt.Model.open(path) as model:
        model.decide({"FromUrl": {"season": "summer", "n": 4}, "User": {"member": True}}, id="live")
        again = model._engine.state.learner.book.play(3)
        first = table["e0"][0].row
        assert again.x.indices.tolist() == first.indices.tolist()
        assert again.x.values.tolist() == first.values.tolist()
        assert set(model.explain(context_features(context(4))).features) == {
            "FromUrl.season=summer",
            "FromUrl.n",
            "User.member",
        }


def test_the_imported_model_can_be_used(tmp_path):
    """A late answer comes after the import, to an open decision of the log; new decisions are the model's own."""
    _, path = import_lines(tmp_path, [event("e0"), event("e1", reward=1.0)])
    with dt.Model.open(path) as model:
        assert [waiting.id for waiting in model.open_decisions()] == ["e0"]
        assert model.feedback("e0", reward=0.5) == "accepted"
        assert model.feedback("e1", reward=1.0) == "duplicate"
        assert model.decide({"hour": 7}, id="live").label in DRINKS
        with pytest.raises(dt.ConflictingDecision, match="'e1' was issued before"):
            model.decide({"hour": 7}, id="e1")
    agrees(path)


def test_an_import_equals_recording_one_by_one(tmp_path):
    lines = [event(f"e{i}", i % 3, 0.2 + i / 100, i % 2, context=context(i)) for i in range(40)]
    _, path = import_lines(tmp_path, lines)
    with dt.Model(DRINKS, bits=10, seed=7, journal=tmp_path / "b.db") as other:
        made_by_hand = other._engine
        for i, line in enumerate(lines):
            features = {"FromUrl": line["c"]["FromUrl"][0], "User": line["c"]["User"]}
            row = made_by_hand.state.encoder.encode(features)
            chosen = Elsewhere(row, i % 3, line["_label_probability"])
            made_by_hand.run(lambda now, i=i, chosen=chosen: made_by_hand.record(now, f"e{i}", chosen))
            other.feedback(f"e{i}", reward=i % 2)
        other._engine.state.learner.flush()
        expected = other._engine.state.learner.weights
    with dt.Model.open(path) as model:
        model._engine.state.learner.flush()
        np.testing.assert_array_equal(model._engine.state.learner.weights, expected)
    rows = [(decided.greedy, decided.extra) for decided, _, _ in table_of(path).values()]
    assert rows == [(decided.greedy, decided.extra) for decided, _, _ in table_of(tmp_path / "b.db").values()]


def test_the_imported_model_predicts_the_best_actions(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for i in range(600):
        label = int(rng.integers(3))
        lines.append(event(f"e{i}", label, 1 / 3, float(label == i % 3), context=context(i)))
    found, path = import_lines(tmp_path, lines)
    with dt.Model.open(path) as model:
        for season in range(3):
            assert model.predict(context_features(context(season))) == DRINKS[season]
    rewards = [-line["_label_cost"] for line in lines]
    assert found.mean_reward == pytest.approx(np.mean(rewards))
    margin = 1.959964 * np.std(rewards, ddof=1) / np.sqrt(len(rewards))
    assert found.mean_reward_margin == pytest.approx(margin, rel=1e-6)


# Joins: whatever the order of the lines


@st.composite
def logs(draw):
    """Draw events and outcomes: rewards beside their event, before it, after it, twice, without an event, or none."""
    n_events = draw(st.integers(1, 12))
    rewards = st.sampled_from([0.0, 0.1, 0.25, 1.0])
    lines = []
    for i in range(n_events):
        label = draw(st.integers(0, 2))
        prob = draw(st.floats(2**-20, 1.0))
        kind = draw(st.sampled_from(["observed", "labelled", "ranked"]))
        reward = None if kind == "ranked" else draw(rewards)
        lines.append(event(f"e{i}", label, prob, reward, kind == "observed", context=context(draw(st.integers(0, 9)))))
    late = st.builds(lambda i, reward: outcome(f"e{i}", reward), st.integers(0, n_events + 1), rewards)
    late = draw(st.lists(late, max_size=10))
    return draw(st.permutations([*lines, *late]))


def joined(lines, default=None):
    """Return the answers to the events of a log, by the rule that docs/howto/from_personalizer.md states."""
    answers = {}
    for line in lines:
        if "c" in line:
            first = next(
                (one["RewardValue"] for one in lines if one["EventId"] == line["EventId"] and "c" not in one), None
            )
            own = -line["_label_cost"] if "_label_cost" in line else None
            found = [own if "o" in line else None, first, own, default]
            answers[line["EventId"]] = next((reward for reward in found if reward is not None), None)
    return answers


def bits_of(number):
    return struct.pack("<d", number)


folders = count()


@settings(max_examples=15)
@given(logs(), st.sampled_from([None, 0.0, 0.25]))
def test_every_event_has_the_answer_that_belongs_to_it(tmp_path, lines, default):
    folder = tmp_path / str(next(folders))
    folder.mkdir()
    found, path = import_lines(folder, lines, default=default)
    expected = joined(lines, default)
    assert answers_of(path) == expected
    events = [line for line in lines if "c" in line]
    for line, (decided, status, value) in zip(events, table_of(path).values(), strict=True):
        assert bits_of(decided.prob) == bits_of(line["_label_probability"])
        assert decided.label == line["_labelIndex"]
        assert status == (Status.OPEN if value is None else Status.ANSWERED)
    known = [reward for reward in expected.values() if reward is not None]
    assert (found.learned.answered, found.open) == (len(known), len(expected) - len(known))
    assert found.mean_reward == (pytest.approx(np.mean(known)) if known else None)
    used = found.learned.answered - sum(_own_answer(line, lines, default) for line in events)
    assert sum(found.unused_answers.values()) == len(lines) - len(events) - used
    agrees(path)


def _own_answer(line, lines, default):
    """Whether an event has its answer without a line of its own for that."""
    others = [one for one in lines if one["EventId"] == line["EventId"] and "c" not in one]
    return "o" in line or (not others and ("_label_cost" in line or default is not None))


@given(logs(), st.randoms())
def test_answers_are_joined_wherever_their_lines_are(tmp_path, lines, random):
    """Moved to other places, and to other files, the first outcome of each event is the same answer."""
    folder = tmp_path / str(next(folders))
    folder.mkdir()
    events = [line for line in lines if "c" in line]
    first = {line["EventId"]: line for line in reversed(lines) if "c" not in line}
    outcomes = list(first.values())
    moved = list(events)
    for line in outcomes:
        moved.insert(random.randint(0, len(moved)), line)
    cut = random.randint(0, len(moved))
    found = []
    for logs in ([[*events, *outcomes]], [moved[:cut], moved[cut:]]):
        paths = [write(folder / f"log{number}.dsjson", part) for number, part in enumerate(logs)]
        table = dt.logs.read_dsjson(paths).table
        found.append(table.select(["id", "outcome"]).to_pylist())
    assert found[0] == found[1]
    answers = joined([*events, *outcomes])
    assert found[0] == [{"id": line["EventId"], "outcome": answers[line["EventId"]]} for line in events]


@settings(max_examples=10)
@given(logs())
def test_answers_before_their_events_have_the_effect_of_those_beside_them(tmp_path, lines):
    """Then nothing is late, and the whole state is the same: every bit of what was learned."""
    folder = tmp_path / str(next(folders))
    folder.mkdir()
    answers = joined(lines)
    events = [line for line in lines if "c" in line]
    bare = [{k: v for k, v in line.items() if k not in ("o", "_label_cost")} for line in events]
    early = [outcome(issued, reward) for issued, reward in answers.items() if reward is not None]
    beside = [
        line if answers[line["EventId"]] is None else line | {"o": [{"v": answers[line["EventId"]]}]} for line in bare
    ]
    with FakeClock().used():
        _, one = import_lines(folder, early, bare, journal="one.db")
        _, other = import_lines(folder, beside, journal="other.db")
        assert agrees(one) == agrees(other)


def test_an_outcome_replaces_the_default_of_the_service(tmp_path):
    """The service counted 0 when the time was over; the outcome came later, and is the answer."""
    lines = [event("e0", reward=0.0, observed=False), event("e1", reward=0.0, observed=False), outcome("e0", 1.0)]
    _, path = import_lines(tmp_path, lines)
    assert answers_of(path) == {"e0": 1.0, "e1": 0.0}


def test_answers_are_late_as_they_were(tmp_path):
    """The answer is learned at the place of its line, so that the order of facts is that of the log."""
    _, path = import_lines(tmp_path, [event("e0"), event("e1", reward=1.0), outcome("e0", 0.5), event("e2")])
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT kind, id FROM facts WHERE id IS NOT NULL ORDER BY seq").fetchall()
    connection.close()
    made, answered = facts.RECORDED, facts.ANSWERED
    assert rows == [(made, "e0"), (made, "e1"), (answered, "e1"), (answered, "e0"), (made, "e2")]


def test_answers_that_are_not_used_are_counted(tmp_path):
    late = [outcome("e0", 1.0), outcome("e0", 0.0), outcome("e9", 1.0), {"EventId": "e1", "v": "clicked"}]
    found, path = import_lines(
        tmp_path, [event("e0", reward=1.0), event("e1"), *late, {"EventId": "e1", "ActionTaken": True}]
    )
    assert dict(found.unused_answers) == {"again": 1, "conflicting": 1, "no_event": 1, "no_number": 1}
    assert answers_of(path) == {"e0": 1.0, "e1": None}


# What is left out


def test_deferred_actions_count_if_they_were_taken(tmp_path):
    lines = [
        event("never", reward=1.0, DeferredAction=True),
        event("here", reward=1.0, DeferredAction=True) | {"o": [{"v": 1.0}, {"ActionTaken": True}]},
        event("later", reward=0.0, DeferredAction=True),
        {"EventId": "later", "ActionTaken": True},
        {"EventId": "before", "ActionTaken": True},
        event("before", reward=1.0, DeferredAction=True),
        event("skipped", reward=1.0, _skipLearn=True),
    ]
    found, path = import_lines(tmp_path, lines)
    assert answers_of(path) == {"here": 1.0, "later": 0.0, "before": 1.0}
    assert dict(found.omitted) == {"not_activated": 2}


def test_every_reason_is_counted(tmp_path):
    lines = [
        event("e0", reward=1.0),
        event("e0", reward=1.0),
        event("e" * 201, reward=1.0),
        event("nul\0", reward=1.0),
        event("e1", context={"FromUrl": {"x": 1e300}}),
        event("e2", context={"FromUrl": [{"x": 1}, {"x": "a"}]}),
        event("e3") | {"_label_probability": 2},
        "[CHECKPOINT]",
        "{",
        '{"EventId": 7}',
        event("e4", reward=0.0),
    ]
    found, path = import_lines(tmp_path, lines)
    assert list(answers_of(path)) == ["e0", "e4"]
    expected = {
        "duplicate": 1,
        "bad_id": 2,
        "features": 2,
        "no_probability": 1,
        "other": 1,
        "damaged": 1,
        "wrong_type": 1,
    }
    assert dict(found.omitted) == expected
    assert (found.reading.events, found.learned.recorded) == (7, 2)
    agrees(path)


STRICT = [
    (event("e0"), "log0.dsjson, line 2: an earlier line has the id 'e0'"),
    (event("e" * 201), "line 2: id must be of 1 to 200 bytes"),
    (event("e1", context={"x": 1e300}), "line 2: x must have"),
    (event("e1") | {"_label_probability": 0}, "line 2: the probability must be above 0"),
    ("{", "line 2: it is not valid JSON"),
    ('{"EventId": 7}', "line 2: it has a value of a wrong type"),
]


@pytest.mark.parametrize(("line", "words"), STRICT)
def test_a_strict_import_stops_before_anything_is_written(tmp_path, line, words):
    with pytest.raises(InvalidInput) as caught:
        import_lines(tmp_path, [event("e0"), line], strict=True)
    assert words in str(caught.value)
    assert "without --strict" in str(caught.value)
    assert not (tmp_path / "shop.db").exists()
    found, _ = import_lines(tmp_path, [event("e0"), line])
    assert sum(found.omitted.values()) == 1


def test_a_strict_import_takes_what_is_right(tmp_path):
    lines = ["[CHECKPOINT]", event("e0"), event("e1", DeferredAction=True), outcome("e9", 1.0), event("e2", reward=1.0)]
    found, path = import_lines(tmp_path, lines, strict=True)
    assert list(answers_of(path)) == ["e0", "e2"]
    assert found.learned.recorded == 2


# Rewards


def test_rewards_outside_are_refused_with_the_range_of_the_log(tmp_path):
    lines = [event("e0", reward=0.5), event("e1", reward=-2.3333333), event("e2", reward=5.0)]
    with pytest.raises(InvalidInput) as caught:
        import_lines(tmp_path, lines)
    message = str(caught.value)
    assert "log0.dsjson, line 2: rewards must be from 0 to 1, got -2.3333333" in message
    assert "the log has -2.3333333 to 5" in message
    assert message.endswith("for instance reward_scale=-2.3333333,5")
    for rewards, scale in (((-5.0, 0.0), "-5,0"), ((-5.0, -5.0), "-5,1")):
        with pytest.raises(InvalidInput, match=f"for instance reward_scale={scale}$"):
            import_lines(tmp_path, [event(f"e{k}", reward=reward) for k, reward in enumerate(rewards)])
    assert not (tmp_path / "shop.db").exists()
    found, path = import_lines(tmp_path, lines, low=-2.3333333, high=5.0)
    assert answers_of(path) == {"e0": (0.5 + 2.3333333) / 7.3333333, "e1": 0.0, "e2": 1.0}
    assert found.mean_reward == pytest.approx((0.5 - 2.3333333 + 5.0) / 3)


def test_rewards_of_late_outcomes_must_be_within_as_well(tmp_path):
    with pytest.raises(InvalidInput, match="line 2: rewards must be from 0 to 1, got 7"):
        import_lines(tmp_path, [event("e0"), outcome("e0", 7)])


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"low": 1.0, "high": 1.0}, "reward_scale must be two numbers, the lower one first, got 1,1"),
        ({"default": 2.0}, "default_reward must be from 0 to 1, got 2"),
    ],
)
def test_invalid_scales_are_refused(tmp_path, terms, words):
    with pytest.raises(InvalidInput, match=words):
        import_lines(tmp_path, [event("e0")], **terms)


def test_learners_that_take_right_or_wrong_only(tmp_path):
    whole = [event("e0", reward=1.0), event("e1", reward=0.0), event("e2"), outcome("e2", 1.0)]
    _, path = import_lines(tmp_path, whole, options={"learner": "pab"})
    assert answers_of(path) == {"e0": 1.0, "e1": 0.0, "e2": 1.0}
    agrees(path)
    with pytest.raises(InvalidInput, match="line 1: this learner takes right or wrong only, got the reward"):
        import_lines(tmp_path, [event("e0", reward=0.5)], journal="b.db", options={"learner": "pab"})
    with pytest.raises(InvalidInput, match="this learner learns from the right class, and a log has rewards"):
        import_lines(tmp_path, whole, journal="b.db", options={"learner": "perceptron"})
    assert not (tmp_path / "b.db").exists()


def test_dropped_events_are_weighted_in_the_mean(tmp_path):
    lines = [event("e0", reward=1.0, pdrop=0.75), event("e1", reward=0.0), event("e2", pdrop=0.5), outcome("e2", 0.0)]
    found, _ = import_lines(tmp_path, lines)
    assert found.mean_reward == pytest.approx(4 / 7)
    assert found.dropped == 2


# Actions and classes


def test_actions_are_named_by_what_every_one_has(tmp_path):
    untagged = [{"i": {"id": name}, "Name": name.upper()} for name in DRINKS]
    found, _ = import_lines(tmp_path, [event("e0"), event("e1", multi=untagged)], journal="a.db")
    assert (found.reading.names.way, found.classes) == ("i.id", DRINKS)
    assert list(found.reading.names.lost) == ["_tag"]
    assert found.reading.names.lost["_tag"].endswith("log0.dsjson, line 2")
    twice = [{"id": "same", "j": [{"name": name}]} for name in DRINKS]
    found, _ = import_lines(tmp_path, [event("e0", multi=twice)], journal="b.db")
    assert found.reading.names.way == "j.name"
    nameless = [{"price": price} for price in (1, 2, 3)]
    found, _ = import_lines(tmp_path, [event("e0", multi=nameless)], journal="c.db")
    assert (found.reading.names.way, found.classes, found.reading.names.lost) == ("number", [1, 2, 3], {})


def test_the_user_says_what_names_actions(tmp_path):
    multi = [{"id": k, "Item": {"sku": f"s{k}"}} for k in (5, 6, 7)]
    found, path = import_lines(tmp_path, [event("e0", 1, multi=multi), event("e1", multi=MULTI)], action="Item.sku")
    assert (found.reading.names.way, found.classes) == ("Item.sku", ["s5", "s6", "s7"])
    assert dict(found.omitted) == {"unnamed_action": 1}
    found, path = import_lines(tmp_path, [event("e0", 1, multi=multi)], journal="b.db", action="number")
    assert (found.classes, table_of(path)["e0"][0].label) == ([1, 2, 3], 1)
    with pytest.raises(
        InvalidInput, match=r"got none \(.*line 1: each of its actions must have a name of its own at Item\.name"
    ):
        import_lines(tmp_path, [event("e0", multi=multi)], journal="c.db", action="Item.name")
    with pytest.raises(InvalidInput, match="line 1: each of its actions must have a name of its own at Item"):
        import_lines(tmp_path, [event("e0", multi=multi)], journal="c.db", action="Item.name", strict=True)


def test_actions_that_cannot_be_chosen_are_not_allowed(tmp_path):
    lines = [event("e0", 1, multi=MULTI), event("e1", 0, multi=MULTI[::2]), event("e2", 1, multi=[MULTI[2], MULTI[0]])]
    _, path = import_lines(tmp_path, lines)
    decisions = [decided for decided, _, _ in table_of(path).values()]
    assert [one.label for one in decisions] == [1, 0, 0]
    allowed = [None if one.allowed is None else np.frombuffer(one.allowed, "<u4").tolist() for one in decisions]
    assert allowed == [None, [0, 2], [0, 2]]
    agrees(path)


def test_the_user_says_which_classes_count(tmp_path):
    found, path = import_lines(
        tmp_path, [event("e0", 0), event("e1", 1), event("e2", 2)], classes=("Tea", "Latte", "Cappucino")
    )
    assert found.classes == ["Tea", "Latte", "Cappucino"]
    assert dict(found.omitted) == {"other_class": 1}
    decisions = [decided for decided, _, _ in table_of(path).values()]
    assert [one.label for one in decisions] == [2, 1]
    assert [np.frombuffer(one.allowed, "<u4").tolist() for one in decisions] == [[1, 2], [1, 2]]
    agrees(path)
    found, path = import_lines(tmp_path, [event("e0", 1, multi=[{}, {}])], journal="b.db", classes=("2", "1", "3"))
    assert (found.classes, table_of(path)["e0"][0].label) == ([2, 1, 3], 0)


def test_names_that_are_numbers_stay_numbers(tmp_path):
    found, _ = import_lines(tmp_path, [event("e0", multi=[{"id": 17}, {"id": 18}, {"id": -1}])])
    assert found.classes == [17, 18, -1]


def test_names_are_texts_if_one_is(tmp_path):
    """The classes of a log are all texts or all integers; in one event, 17 and "17" are the same name."""
    lines = [event("e0", multi=[{"id": 17}, {"id": "b"}, {"id": -1}]), event("e1", multi=[{"id": 17}, {"id": "17"}])]
    found, path = import_lines(tmp_path, lines)
    assert (found.classes, dict(found.omitted)) == (["17", "b", "-1"], {"unnamed_action": 1})
    later = [event("e2", 1, multi=[{"id": 17}, {"id": -1}], reward=1.0)]
    found, path = import_lines(tmp_path, later)
    assert (found.classes, answers_of(path)) == (["17", "b", "-1"], {"e0": None, "e2": 1.0})
    assert table_of(path)["e2"][0].label == 2
    agrees(path)


def test_too_many_actions_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "MOST_CLASSES", 3)
    lines = [event(f"e{i}", multi=[{"id": i}, {"id": i + 1}]) for i in range(6)]
    with pytest.raises(InvalidInput, match="more than 3 actions by id, and a model has weights for each; give classes"):
        import_lines(tmp_path, lines)
    found, _ = import_lines(tmp_path, lines, classes=("3", "4"))
    assert (found.learned.recorded, dict(found.omitted)) == (2, {"other_class": 4})


def test_one_action_is_no_choice(tmp_path):
    with pytest.raises(InvalidInput, match="one action only, 'Cappucino', and a model needs two; give more by classes"):
        import_lines(tmp_path, [event("e0", multi=MULTI[:1], prob=1.0)])
    found, _ = import_lines(tmp_path, [event("e0", multi=MULTI[:1], prob=1.0)], classes=("Cappucino", "Tea"))
    assert found.learned.recorded == 1


def priced(*prices):
    return [{"id": name, "price": price, "_seen": price} for name, price in zip("abc", prices, strict=True)]


def test_own_features_of_actions_are_left_out_or_added(tmp_path):
    lines = [
        event("e0", multi=priced(1, 2, 3), context={"hour": 7}),
        event("e1", multi=priced(1, 5, 3), context={"hour": 8}),
    ]
    found, path = import_lines(tmp_path, lines, journal="a.db")
    assert found.varying == ["b"]
    assert table_of(path)["e0"][0].row.indices.size == 1
    found, path = import_lines(tmp_path, lines, journal="b.db", action_features="all")
    tokens = {"hour": 8, "_action.a.id=a": 1, "_action.b.id=b": 1, "_action.c.id=c": 1}
    tokens |= {"_action.a.price": 1, "_action.b.price": 5, "_action.c.price": 3}
    dense = np.zeros(2**10)
    row = table_of(path)["e1"][0].row
    dense[row.indices] = row.values
    np.testing.assert_array_equal(dense, FeatureHasher(2**10).transform([tokens]).toarray()[0])
    agrees(path)


def test_names_that_are_no_features_do_not_vary(tmp_path):
    lines = [event("e0", multi=[{"id": "a", "_expires": i}, {"id": "b"}]) for i in range(3)]
    found, _ = import_lines(tmp_path, lines)
    assert found.varying == []


# The journal


def test_a_log_without_events_makes_no_journal(tmp_path):
    for number, lines in enumerate(([], ["no JSON"], [outcome("e0", 1.0)], [event("e0") | {"_label_probability": 0}])):
        with pytest.raises(InvalidInput, match="there must be at least one event that can be read, got none"):
            import_lines(tmp_path, lines, journal=f"{number}.db")
        assert not (tmp_path / f"{number}.db").exists()


def test_wrong_settings_are_refused_before_a_log_is_read(tmp_path):
    with pytest.raises(InvalidInput, match="learner must be"):
        import_dsjson(
            [tmp_path / "absent"],
            tmp_path / "a.db",
            EventTerms(),
            OPTIONS | {"learner": "bandit_logic"},
        )
    with pytest.raises(InvalidInput, match="cannot read"):
        import_dsjson([tmp_path / "absent"], tmp_path / "a.db", EventTerms(), OPTIONS)
    with pytest.raises(InvalidInput, match="must be a file"):
        import_dsjson([tmp_path], tmp_path / "a.db", EventTerms(), OPTIONS)


def test_a_journal_that_no_import_created_is_refused(tmp_path):
    with dt.Model(DRINKS, bits=10, journal=tmp_path / "shop.db") as model:
        model.decide({"hour": 7})
    before = (tmp_path / "shop.db").read_bytes()
    with pytest.raises(InvalidInput, match="was not created by an import; give another --journal"):
        import_lines(tmp_path, [event("e0")])
    assert (tmp_path / "shop.db").read_bytes() == before
    (tmp_path / "text.db").write_text("no journal, but a text that is long enough to be one" * 100)
    with pytest.raises(dt.DelaytronError, match=r"text\.db"):
        import_lines(tmp_path, [event("e0")], journal="text.db")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"high": 2.0}, "created with --reward-scale 0,1, not with --reward-scale 0,2"),
        ({"default": 0.5}, "created without --default-reward, not with --default-reward 0.5"),
        ({"action": "number"}, "created with --action _tag, not with --action number"),
        ({"action_features": "all"}, "created without --action-features"),
        ({"options": {"bits": 12}}, "made with bits=10, not 12"),
        ({"options": {"learner": "delaytron"}}, "made with learner='bandit_logit', not 'delaytron'"),
        ({"options": {"seed": 8}}, "made with seed=7, not 8"),
    ],
)
def test_an_import_is_continued_with_the_same_settings(tmp_path, change, words):
    import_lines(tmp_path, [event("e0")])
    with pytest.raises(InvalidInput) as caught:
        import_lines(tmp_path, [event("e0"), event("e1")], **change)
    assert words in str(caught.value)
    assert list(answers_of(tmp_path / "shop.db")) == ["e0"]


def test_a_journal_that_is_in_use_is_refused(tmp_path):
    _, path = import_lines(tmp_path, [event("e0")])
    with dt.Model.open(path), pytest.raises(dt.DelaytronError, match="is open in this process already"):
        import_lines(tmp_path, [event("e0"), event("e1")])


def test_a_second_log_is_added(tmp_path):
    """Later months go into the same model, with classes that are new; what is there already is passed over."""
    import_lines(tmp_path, [event("e0", reward=1.0), event("e1")])
    more = [*MULTI, {"_tag": "Tea"}]
    later = [event("e0", reward=1.0), event("e1"), event("e2", 3, multi=more, reward=0.0), outcome("e1", 0.25)]
    found, path = import_lines(tmp_path, later)
    assert (found.learned.recorded, found.learned.recorded_before, found.learned.answered) == (1, 2, 3)
    assert found.classes == [*DRINKS, "Tea"]
    assert found.mean_reward == pytest.approx(1.25 / 3)
    assert answers_of(path) == {"e0": 1.0, "e1": 0.25, "e2": 0.0}
    agrees(path)


@settings(max_examples=15)
@given(logs(), st.integers(0, 25), st.integers(1, 5))
def test_an_interrupted_import_continues_to_the_bit(tmp_path, lines, stop, batch):
    """Interrupted after any transaction and started again, it ends with the same state."""
    folder = tmp_path / str(next(folders))
    folder.mkdir()

    class StopError(Exception):
        pass

    def started(_):
        done = count()

        def advance(_):
            if next(done) == stop:
                raise StopError

        return advance

    with pytest.MonkeyPatch.context() as patch, FakeClock().used():
        patch.setattr(log_import, "BATCH", batch)
        patch.setattr(engine, "FACTS_A_SNAPSHOT", 7)
        _, whole = import_lines(folder, lines, journal="whole.db")
        path = folder / "broken.db"
        try:
            import_dsjson([folder / "log0.dsjson"], path, EventTerms(), OPTIONS, started=started)
        except StopError:
            import_dsjson([folder / "log0.dsjson"], path, EventTerms(), OPTIONS)
        assert agrees(path) == agrees(whole)
        assert answers_of(path) == answers_of(whole)


def test_decisions_expire_as_the_model_says(tmp_path):
    lines = [event(f"e{i}") for i in range(6)]
    found, path = import_lines(tmp_path, [*lines, outcome("e0", 1.0)], options={"expire_after": 3})
    assert (found.open, found.learned.answered, found.learned.answered_after_expiry) == (3, 1, 1)
    assert [status for _, status, _ in table_of(path).values()] == [Status.EXPIRED] * 3 + [Status.OPEN] * 3
    agrees(path)
    wrong = {"expire_after": 3, "on_expiry": "wrong"}
    found, path = import_lines(tmp_path, [*lines, outcome("e0", 1.0)], journal="b.db", options=wrong)
    assert table_of(path)["e0"][1:] == (Status.ANSWERED, 1.0)
    agrees(path)


def test_the_journal_has_the_settings_of_its_import(tmp_path):
    _, path = import_lines(tmp_path, [event("e0")], high=5.0, default=1.0)
    connection = sqlite3.connect(path)
    ((config,),) = connection.execute("SELECT value FROM meta WHERE name = 'config'").fetchall()
    connection.close()
    assert json.loads(config)["import"] == {
        "format": "dsjson",
        "action": "_tag",
        "reward-scale": "0,5",
        "default-reward": "1",
        "action-features": None,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
places = st.sampled_from(["c", "FromUrl", "_multi", "_tag", "i", *event("e", reward=1.0)])


def changed(line, place, value):
    """Return a line with another value somewhere in it."""
    copy = json.loads(json.dumps(line))
    if place in ("_tag", "i"):
        copy["c"]["_multi"][1][place] = value
    elif place in ("FromUrl", "_multi"):
        copy["c"][place] = value
    else:
        copy[place] = value
    return copy


@given(st.lists(st.tuples(places, json_values), min_size=1, max_size=4), st.binary(max_size=30), st.booleans())
def test_any_log_is_imported_or_refused_in_one_line(tmp_path, changes, noise, own):
    """Whatever is in a line: the journal agrees with itself, or there is none and one line says why."""
    folder = tmp_path / str(next(folders))
    folder.mkdir()
    lines = [event("good", reward=1.0), *(changed(event(f"e{i}", reward=1.0), *c) for i, c in enumerate(changes))]
    path = write(folder / "log.dsjson", lines)
    path.write_bytes(path.read_bytes() + noise + b"\n")
    try:
        import_dsjson([path], folder / "shop.db", EventTerms(action_features="all" if own else "none"), OPTIONS)
    except dt.DelaytronError as problem:
        message = str(problem)
        assert len(message.splitlines()) == 1, message
        assert not (folder / "shop.db").exists()
        return
    assert answers_of(folder / "shop.db")["good"] == 1.0
    agrees(folder / "shop.db")


# The bits of every way to import, in a fixture

EXPECTED = json.loads(Path(__file__).with_name("fixtures").joinpath("imported.json").read_text())


@pytest.mark.parametrize("way", WAYS)
def test_an_import_learns_the_same_bits_as_when_they_were_recorded(tmp_path, way):
    log, journal = write(tmp_path / "log.dsjson", lines_of(way)), tmp_path / "shop.db"
    args = ["import", log, "--journal", journal, "--bits", 10, "--seed", 7, *WAYS[way]]
    result = CliRunner().invoke(cli.app, list(map(str, args)), prog_name="delaytron")
    assert result.exit_code == 0, result.output
    assert hashes_of(journal) == EXPECTED[way]
