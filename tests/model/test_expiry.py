"""Expiry by rounds and by time, also after jumps of the clock and restarts; late answers and corrections."""

from datetime import timedelta

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import (
    FakeClock,
    abandon,
    learner_of,
    replayed_digest,
    small_model,
)

import delaytron as dt
from delaytron.learners.files import parts_of
from delaytron.model.export import export_journal
from delaytron.model.recipe import Wait, read_wait
from delaytron.model.verify import verify_journal

YEAR = 365 * 86400


def is_open(model, id):
    """Return whether a decision is open, after the model has expired what is due."""
    model.digest()
    return id in [decision.id for decision in model.open_decisions()]


TIMES = {"30s": 30, "15m": 900, "6h": 21600, "7d": 604800, "2w": 1209600, " 1.5 h ": 5400, "0.25s": 0.25}


@pytest.mark.parametrize(("given", "seconds"), [*TIMES.items(), (timedelta(days=1), 86400), (timedelta(0, 0, 1), 1e-6)])
def test_times_are_read(given, seconds):
    assert read_wait("expire_after", given) == Wait(clock=round(seconds * 1e9))


def test_rounds_are_read():
    assert read_wait("expire_after", 7) == read_wait("expire_after", np.int32(7)) == Wait(rounds=7)
    assert read_wait("expire_after", None) is None


@settings(max_examples=20)
@given(limit=st.integers(1, 5), gaps=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_expiry_by_rounds_comes_as_the_round_begins(limit, gaps):
    model = small_model(expire_after=limit)
    for t, gap in enumerate(gaps, start=1):
        model.decide([1, 0], id=str(t))
        for _ in range(gap):  # time passes, rounds do not
            assert is_open(model, str(t))
        assert [decision.id for decision in model.open_decisions()] == [
            str(n) for n in range(max(1, t - limit + 1), t + 1)
        ]
    assert model.stats().expired == max(0, len(gaps) - limit)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("dad "), st.integers(0, 40)), min_size=1, max_size=40))
def test_expiry_by_time_is_exact(steps):
    with FakeClock().used() as clock:
        model = small_model(expire_after="60s")
        made = {}
        for t, (step, seconds) in enumerate(steps):
            clock.pass_time(seconds)
            now = clock.uptime / 1e9
            waiting = [issued for issued, at in made.items() if now - at < 60]
            model.digest()
            assert [decision.id for decision in model.open_decisions()] == waiting
            if step == "d":
                model.decide([1, 0], id=str(t))
                made[str(t)] = now
            elif step == "a" and made:
                issued = next(iter(made))
                assert model.feedback(issued, correct=True) == ("accepted" if issued in waiting else "late")
                del made[issued]


def test_an_answer_at_the_last_moment_is_in_time(clock):
    model = small_model(expire_after="6h")
    model.decide([1, 0], id="a")
    model.decide([1, 0], id="b")
    clock.pass_time(6 * 3600 - 1e-9)
    assert model.feedback("a", correct=True) == "accepted"
    clock.pass_time(1e-9)
    assert model.feedback("b", correct=True) == "late"


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600, -3600])
def test_a_jump_of_the_wall_clock_expires_nothing(clock, jump, tmp_path):
    options = {"expire_after": "1h", "journal": tmp_path / "a.db"}
    model = small_model(**options)
    model.decide([1, 0], id="a")
    clock.set_wall_clock(jump)
    assert is_open(model, "a")
    model.close()
    with small_model(**options) as again:
        assert is_open(again, "a")
        clock.pass_time(3599)
        assert is_open(again, "a")
        clock.pass_time(1)
        assert not is_open(again, "a")
        assert again.feedback("a", correct=True) == "late"


@pytest.mark.parametrize("crash", [False, True])
def test_time_passes_while_the_process_is_down(clock, tmp_path, crash):
    options = {"expire_after": "1h", "journal": tmp_path / "a.db"}
    model = small_model(**options)
    model.decide([1, 0], id="a")
    clock.pass_time(1800)
    model.decide([1, 0], id="b")
    abandon(model) if crash else model.close()
    clock.pass_time(1800)
    with small_model(**options) as again:
        assert not is_open(again, "a")
        assert is_open(again, "b")


@pytest.mark.parametrize(("off", "waits"), [(1200, True), (1799, True), (1800, False), (-YEAR, True)])
def test_after_a_reboot_the_wall_clock_counts_the_time_that_the_machine_was_off(clock, tmp_path, off, waits):
    options = {"expire_after": "1h", "journal": tmp_path / "a.db"}
    model = small_model(**options)
    model.decide([1, 0], id="a")
    clock.pass_time(1800)
    model.decide([1, 0], id="b")
    abandon(model)
    clock.restart_machine(off)
    with small_model(**options) as again:
        assert is_open(again, "a") is waits
        assert is_open(again, "b")
        clock.pass_time(3600)
        assert not is_open(again, "b")


def test_a_loaded_model_expires_decisions_at_the_same_time(clock, tmp_path):
    model = small_model(expire_after="1h")
    model.decide([1, 0], id="a")
    clock.pass_time(1800)
    model.save(tmp_path / "m")
    clock.pass_time(1799)
    again = dt.load(tmp_path / "m")
    assert is_open(again, "a")
    clock.pass_time(1)
    assert not is_open(again, "a")


@pytest.mark.parametrize(("learner", "own"), [("delaytron", {"gamma": 0.5}), ("bandit_logit", {})])
def test_an_expired_decision_counts_as_wrong_until_it_is_corrected(clock, learner, own):
    by_time = dt.Model(["x", "y"], learner=learner, features=2, seed=3, expire_after="1h", on_expiry="wrong", **own)
    by_rounds = dt.LEARNERS[learner](2, 2, seed=3, expire_after=2, on_expiry="wrong", **own)
    for t in range(1, 21):
        by_time.decide([1, t % 3], id=str(t))
        by_rounds.decide([1, t % 3])
        clock.pass_time(1800)
        if t % 5 == 0:  # of two rounds ago, which count as wrong by the next
            assert by_time.feedback(str(t - 3), correct=True) == by_rounds.feedback(t - 3, correct=True) == "corrected"
            assert by_time.feedback(str(t - 3), correct=True) == "duplicate"
        if t % 5 == 1 and t > 1:
            assert by_time.feedback(str(t), correct=False) == by_rounds.feedback(t, correct=False) == "accepted"
    assert learner_of(by_time).weights.tobytes() == by_rounds.weights.tobytes()
    stats = by_time.stats()
    assert (stats.corrected, stats.late) == (4, 0)
    assert stats.answered == 7


def test_answers_of_every_kind_correct_an_expiry_once(clock, tmp_path):
    model = small_model(expire_after="1h", on_expiry="wrong", journal=tmp_path / "a.db")
    for name in "abcd":
        model.decide([1, 0], id=name)
    clock.pass_time(3600)
    model.decide([1, 0], id="e")
    assert model.stats().expired == 4
    assert model.feedback("a", reward=0.5) == "corrected"
    assert model.feedback("b", correct=False) == "corrected"
    with dt.Journal(tmp_path / "a.db") as other:
        assert other.feedback("c", correct=True) == "corrected"
        assert other.feedback("c", correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback):
        model.feedback("c", correct=False)
    with pytest.raises(dt.ConflictingFeedback):
        model.feedback("b", correct=True)
    model.decide([1, 0])
    assert (model.stats().corrected, model.stats().late, model.stats().answered) == (3, 0, 3)
    digest = model.digest()
    abandon(model)
    with dt.Model.open(tmp_path / "a.db") as again:
        assert again.digest() == digest
        assert again.feedback("d", correct=True) == "corrected"


# Answers after the expiry: late, corrected, and released decisions


@pytest.fixture
def late(tmp_path):
    """Return a model with a journal in which decision "a" has expired."""
    with small_model(journal=tmp_path / "a.db", expire_after=1) as model:
        model.decide([1, 0], id="a")
        model.decide([1, 0], id="b")
        yield model


def test_the_first_late_answer_is_kept_and_not_learned_from(late, tmp_path):
    before = parts_of(learner_of(late))
    assert late.feedback("a", correct=True) == "late"
    after_it = late.digest()
    assert late.feedback("a", correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match="was answered 'correct', now 'wrong' came"):
        late.feedback("a", correct=False)
    assert late.digest() == after_it
    learner_of(late).flush()
    header, tensors = parts_of(learner_of(late))
    assert header == before[0]
    assert {name: t.tobytes() for name, t in tensors.items()} == {name: t.tobytes() for name, t in before[1].items()}
    assert (late.stats().late, late.stats().corrected, late.stats().answered) == (1, 0, 0)
    found = verify_journal(tmp_path / "a.db")
    assert (found.mismatch, found.facts["answered late"], found.hash) == (None, 1, late.digest())
    export_journal(tmp_path / "a.db", tmp_path / "a.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [(row["id"], row["status"], row["outcome"]) for row in rows] == [("a", "expired", 1.0), ("b", "open", None)]


def test_a_late_answer_is_kept_over_a_restart(late, tmp_path):
    assert late.feedback("a", correct=False) == "late"
    late.close()
    with dt.Model.open(tmp_path / "a.db") as again:
        assert again.feedback("a", correct=False) == "duplicate"


def test_where_expiry_means_wrong_a_late_answer_corrects(tmp_path):
    with small_model(journal=tmp_path / "a.db", expire_after=1, on_expiry="wrong") as model:
        model.decide([1, 0], id="a")
        model.decide([1, 0], id="b")
        assert model.feedback("a", correct=True) == "corrected"
        assert model.feedback("a", correct=True) == "duplicate"


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("expire_after", "within"), [(1, 0), ("1h", 0), ("1h", "0s"), ("1h", timedelta(0))])
def test_within_0_nothing_is_corrected(tmp_path, clock, expire_after, within, stored):
    """The expiry counts as wrong, as in a learner with `correct_within=0`, and every first answer after it is late."""
    options = {"expire_after": expire_after, "on_expiry": "wrong", "correct_within": within}
    twin = dt.Delaytron(3, 2, gamma=0.5, seed=3, expire_after=1, on_expiry="wrong", correct_within=0)
    with small_model(journal=tmp_path / "a.db" if stored else None, **options) as model:
        for number in range(3):
            model.decide([1, number], id=str(number))
            twin.decide([1, number])
            clock.pass_time(3600)
            if number:
                assert model.feedback(str(number - 1), correct=True) == twin.feedback(number, correct=True) == "late"
        assert model.feedback("2", correct=True) == ("accepted" if expire_after == 1 else "late")
        model.decide([1, 3])
        model.decide([1, 4])
        stats = model.stats()
        assert (stats.expired, stats.corrected, stats.late) == (3, 0, 2 if expire_after == 1 else 3)
        model.digest()  # releases what was applied
        assert len(model._engine.state.book.kept) == stats.open
        if stored:
            assert verify_journal(tmp_path / "a.db").mismatch is None
            digest = model.digest()
            model.close()
            assert replayed_digest(tmp_path / "a.db") == digest


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("hours", [(12,), (2, 10)])
def test_an_answer_after_correct_within_is_late_also_before_the_next_round(tmp_path, clock, hours, stored):
    """The next round learns the "wrong", as if no answer had come, also after a crash in between."""
    options = {"expire_after": "1h", "on_expiry": "wrong"}
    twin = small_model(**options)
    model = small_model(journal=tmp_path / "a.db" if stored else None, **options)
    for one in (model, twin):
        one.decide([1, 2], id="a")
    for some in hours:
        clock.pass_time(some * 3600)
        model.digest()  # expires and releases what is due
    for reply in ("late", "duplicate"):
        assert model.feedback("a", correct=True) == reply
    with pytest.raises(dt.ConflictingFeedback):
        model.feedback("a", correct=False)
    if stored:
        abandon(model)
        model = dt.Model.open(tmp_path / "a.db")
    else:
        model.save(tmp_path / "a.model")
        model = dt.load(tmp_path / "a.model")
    assert model.feedback("a", correct=True) == "duplicate"
    for one in (model, twin):
        one.decide([1, 0], id="b")
    assert np.array_equal(learner_of(model).weights, learner_of(twin).weights)
    assert np.any(learner_of(model).weights)
    assert (model.stats().corrected, model.stats().late, len(model._engine.state.book.kept)) == (0, 1, 1)
    if stored:
        assert verify_journal(tmp_path / "a.db").mismatch is None
    model.close()


@pytest.mark.parametrize("within", [None, 3])
def test_what_counted_as_wrong_is_released_after_a_while(tmp_path, within):
    """By default ten times the limit after the expiry; then its row is gone, and answers are late."""
    last = 2 + (20 if within is None else within)
    with small_model(journal=tmp_path / "a.db", expire_after=2, on_expiry="wrong", correct_within=within) as model:
        for number in range(last + 1):
            model.decide([1, number], id=str(number))
        assert len(model._engine.state.book.kept) == last  # the first one was released as the last one was decided
        assert model.feedback("0", correct=True) == "late"
        assert model.feedback("1", correct=True) == "corrected"
        assert verify_journal(tmp_path / "a.db").facts["released"] == 1
        digest = model.digest()
    with dt.Model.open(tmp_path / "a.db") as again:
        assert again.digest() == digest
        assert again.feedback("0", correct=True) == "duplicate"


@pytest.mark.parametrize("on_expiry", ["drop", "wrong"])
def test_a_call_that_fails_after_an_expiry_changes_nothing_of_what_is_learned(clock, tmp_path, on_expiry):
    """The expiry is complete; only a call that was interrupted in the middle makes ids and learner agree again."""

    def weights(journal, failing):
        model = dt.Model(["a", "b", "c"], features=2, seed=3, expire_after="1h", on_expiry=on_expiry, journal=journal)
        for t in range(8):
            model.decide([1.0, t % 3], id=str(t))
            if t:
                model.feedback(str(t), correct=t % 2 == 0)
        clock.pass_time(3601)
        if failing:
            with pytest.raises(dt.UnknownDecision):
                model.feedback("nothing", correct=True)
        for t in range(8, 12):
            model.decide([1.0, t % 3], id=str(t))
        found = learner_of(model).weights
        model.close()
        return found.tobytes()

    in_memory = weights(None, failing=False)
    assert weights(None, failing=True) == in_memory
    assert weights(tmp_path / "a.db", failing=True) == in_memory
