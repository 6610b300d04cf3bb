"""Challengers of a model: its facts say when one was born, won or was dropped, and so do `stats` and the log."""

import json
import logging
import sqlite3
from datetime import UTC, datetime
from itertools import cycle, islice, pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import replayed_digest

import delaytron as dt
from changing import CALM, CLASSES, OPTIONS, WORLDS, answered, rows_of
from delaytron.journal.sqlite import SqliteStore
from delaytron.model import facts
from delaytron.model.drift import log_changes
from delaytron.model.facts import Answer, Decide
from delaytron.model.recipe import Recipe, read_recipe
from delaytron.model.snapshots import digest
from delaytron.model.state import State, Tally
from delaytron.model.verify import verify_journal
from delaytron.records import Moment, Row

HAPPENED = {"permuted": {"born", "won"}, "disturbed": {"born"}}
N_ROUNDS = 1000
WAITING = {"expire_after": None, "on_expiry": "drop", "correct_within": None}
NOW = Moment(1_700_000_000 * 10**9, 10**9)


def facts_of(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT kind, body FROM facts ORDER BY seq").fetchall()
    connection.close()
    return [facts.decode_decided(body) for kind, body in rows if kind in facts.DECISIONS]


def changes_in(path):
    """Return the rounds in which something happened, and what."""
    return {made.round: made.changed for made in facts_of(path) if made.changed}


def counts_in(changes):
    every = [what for changed in changes.values() for what in changed]
    return tuple(every.count(what) for what in ("born", "won", "dropped"))


@pytest.fixture(scope="module", params=HAPPENED)
def played(request, tmp_path_factory):
    """A journal of each stream, what was logged, and the counts at the end."""
    path = tmp_path_factory.mktemp("drift") / "router.db"
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("delaytron.model").addHandler(handler)
    try:
        with dt.Model(CLASSES, journal=path, durability="batched", **OPTIONS) as model:
            answered(model, request.param, N_ROUNDS)
            stats, learned = model.stats(), model._engine.state.learner.changes
    finally:
        logging.getLogger("delaytron.model").removeHandler(handler)
    return request.param, path, [record.getMessage() for record in records], stats, learned


def test_facts_and_stats_say_what_happened(played):
    world, path, _, stats, learned = played
    changes = changes_in(path)
    assert {what for changed in changes.values() for what in changed} >= HAPPENED[world]
    first = min(changes)
    assert (changes[first], CALM < first < CALM + 100) == (("born",), True)
    assert stats.drift[1:4] == counts_in(changes)
    assert stats.drift[:4] == tuple(learned.values())
    assert stats.drift.challenger == learned["challenger"]
    assert abs((datetime.now(UTC) - stats.drift.changed_at).total_seconds()) < 600


def test_the_log_has_a_line_for_each_change(played):
    _, path, lines, _, _ = played
    changes = changes_in(path)
    assert len(lines) == sum(counts_in(changes))
    expected = [(number, what) for number, changed in sorted(changes.items()) for what in changed]
    for line, (number, what) in zip(lines, expected, strict=True):
        assert line.startswith("router.db: ")
        assert f"{what} in round {number}: " in line


def test_a_replay_finds_the_same_and_logs_nothing(played, caplog):
    _, path, _, stats, _ = played
    found = verify_journal(path)
    assert (found.mismatch, found.drift, found.accuracy) == (None, stats.drift, stats.accuracy)
    with dt.Model.open(path) as model:  # from the snapshot
        assert model.stats().drift == stats.drift
        opened = model.digest()
    assert opened == replayed_digest(path)
    assert caplog.records == []


def test_a_fact_that_says_something_else_is_a_mismatch(played):
    _, path, *_ = played
    born = min(changes_in(path))
    with SqliteStore(path) as store:
        stored = list(store.facts())
        recipe = Recipe.of_config(store.config)
    for wanted, said in (((), "nothing"), (("won",), "won")):
        state = State.new(recipe)
        for fact in stored:
            decided = facts.decode_decided(fact.body) if fact.kind == facts.DECIDED else None
            if decided is not None and decided.round == born:
                break
            state.replay(fact)
        other = fact._replace(body=facts.encode(msgspec.structs.replace(decided, changed=wanted)))
        words = f"fact {fact.seq} says of challengers {said} in round {born}, replayed it is born"
        with pytest.raises(dt.JournalError, match=words):
            state.replay(other)


def test_without_a_journal_and_after_loading_counts_are_the_same(played, tmp_path, caplog):
    world, _, _, stats, _ = played
    model = dt.Model(CLASSES, **OPTIONS)
    answered(model, world, 850)
    half = model.stats().drift
    assert len(caplog.records) == sum(half[1:4])
    assert all("a store in memory: " in record.getMessage() for record in caplog.records)
    model.save(tmp_path / "model")
    again = dt.load(tmp_path / "model")
    assert again.stats().drift == half
    answered(again, world, N_ROUNDS, start=850)
    assert again.stats().drift[:4] == stats.drift[:4]


@pytest.mark.parametrize("options", [{"drift": False}, {"learner": "bandit_logit"}])
def test_a_learner_without_challengers_has_no_counts(options):
    model = dt.Model(CLASSES, **OPTIONS | options)
    answered(model, "permuted", 900)
    assert model.stats().drift is None
    assert model._engine.state.learner.count_changes() == ()


def test_learners_count_only_challengers_of_their_own():
    assert dt.Banditron(3, 2).changes == {}
    assert dt.Banditron(3, 2).count_changes() == ()
    learner = dt.GatedLogit(3, 2)
    assert learner.count_changes() == (0, 0, 0)
    assert dt.Bold(learner).count_changes() == ()  # each instance has some


def test_the_counts_begin_with_zeros():
    model = dt.Model(CLASSES, **OPTIONS)
    assert model.stats().drift == (False, 0, 0, 0, None)


def test_recorded_decisions_say_it_too(tmp_path):
    rows, kinds = rows_of(1000)
    rng = np.random.default_rng(5)
    labels = np.where(rng.random(1000) < 0.9, kinds, rng.integers(3, size=1000))
    log = dt.logs.from_arrays(
        features=rows.tolist(),
        labels=labels,
        probs=np.full(1000, 0.9),
        rewards=[float(WORLDS["permuted"](t, labels[t], kinds[t])) for t in range(1000)],
        classes=CLASSES,
    )
    with dt.Model(CLASSES, journal=tmp_path / "a.db", durability="batched", **OPTIONS) as model:
        model.learn_from(log)
        drift = model.stats().drift
    assert drift.born > 0
    assert counts_in(changes_in(tmp_path / "a.db")) == drift[1:4]
    assert verify_journal(tmp_path / "a.db").mismatch is None


def blocks_of(pattern, false_ones, seed=0):
    """Return rows and which class is right for each, whether its answer is false, and where blocks begin.

    Answers come when a block ends. Blocks have the sizes of the pattern, over and over: delays are what they were.
    """
    calm = list(islice(cycle(pattern), 2 * CALM * len(pattern) // sum(pattern)))
    sizes = [*calm, *islice(cycle(pattern), len(false_ones))]
    starts = np.cumsum([0, *sizes]).tolist()
    rows, kinds = rows_of(starts[-1], seed)
    return rows, kinds, np.repeat([*[False] * len(calm), *false_ones], sizes), starts


def play_state(rows, kinds, false, starts, in_blocks):
    """Play them by operations on a state; return the changes by rounds, and the digest at the end."""
    shape = {"features": 3, "bits": 6, "ngrams": 1}
    recipe = read_recipe(CLASSES, "gated_logit", shape, WAITING, 1, {})
    state, found = State.new(recipe), {}
    for begin, end in pairwise(starts):
        ids = [f"r{t}" for t in range(begin, end)]
        if in_blocks:
            _, columns, changed = state.apply_many(ids, rows[begin:end], None, NOW)
            labels = columns.label
            found |= changed
        else:
            labels = []
            for issued, row in zip(ids, rows[begin:end], strict=True):
                play = state.apply(Decide(issued, Row(None, row)), NOW)
                labels.append(play.label)
                found |= {play.round: state.changed} if state.changed else {}
        for issued, label, t in zip(ids, labels, range(begin, end), strict=True):
            state.apply(Answer(issued, float((label == kinds[t]) != false[t])), NOW)
    return found, digest(state, recipe)


@settings(max_examples=20)
@given(
    pattern=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    false_ones=st.lists(st.booleans(), min_size=8, max_size=40),
    seed=st.integers(0, 5),
)
def test_blocks_say_what_single_decisions_say(pattern, false_ones, seed):
    stream = blocks_of(pattern, false_ones, seed)
    assert play_state(*stream, in_blocks=True) == play_state(*stream, in_blocks=False)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_a_challenger_is_born_in_the_second_round_after_the_answers(size):
    """The first one applies them, and the clock of the next one hears the alarm: of a block it is the second round."""
    stream = blocks_of([size], [True] * 40)
    found, _ = play_state(*stream, in_blocks=True)
    first = min(found)
    assert found[first] == ("born",)
    assert stream[3][-41] < first <= stream[3][-1]
    assert (first - 1) % size == min(1, size - 1)
    assert found == play_state(*stream, in_blocks=False)[0]


def test_facts_of_a_block_say_it(tmp_path):
    rows, kinds, false, starts = blocks_of([10], [True] * 40)
    with dt.Model(CLASSES, journal=tmp_path / "a.db", durability="batched", **OPTIONS) as model:
        for begin, end in pairwise(starts):
            for t, decision in enumerate(model.decide_many(rows[begin:end]), start=begin):
                right = CLASSES.index(decision.label) == kinds[t]
                model.feedback(decision.id, correct=bool(right != false[t]))
        drift = model.stats().drift
    assert drift.born > 0
    assert counts_in(changes_in(tmp_path / "a.db")) == drift[1:4]
    assert verify_journal(tmp_path / "a.db").mismatch is None


def test_every_kind_of_change_is_counted_named_and_logged(caplog):
    tally = Tally(3)
    assert tally.change((0, 0, 0), Moment(1, 1)) == ()
    assert tally.changed_at is None
    assert tally.change((1, 0, 0), Moment(2, 1)) == ("born",)
    assert tally.change((2, 1, 0), Moment(3, 1)) == ("born", "won")
    assert tally.change((2, 1, 1), Moment(4, 1)) == ("dropped",)
    assert (tally.changes, tally.changed_at) == ((2, 1, 1), 4)
    again = Tally.from_json(json.loads(json.dumps(tally.as_json())))
    assert vars(again) == vars(tally)
    log_changes("it", 7, ("born", "won", "dropped"))
    assert [record.getMessage().split(":")[:2] for record in caplog.records] == [
        ["it", " a challenger was born in round 7"],
        ["it", " the challenger won in round 7"],
        ["it", " the challenger was dropped in round 7"],
    ]
