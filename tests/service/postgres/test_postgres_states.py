"""What is published to front ends: the state of the learner, with draws of their own."""

import copy

import numpy as np
import pytest

import delaytron as dt
from changing import CALM, CLASSES, permuted, rows_of
from delaytron.journal.store import Fact, Snapshot
from delaytron.learners.predictions import look
from delaytron.model import facts
from delaytron.model.recipe import read_recipe
from delaytron.model.snapshots import digest
from delaytron.model.state import State
from delaytron.records import Moment
from delaytron.service.postgres.backend import staleness
from delaytron.service.postgres.frontend import read_published, unpublished
from delaytron.service.postgres.learner import Arrived, FoldedModel, pack_published
from delaytron.theory import theorem_r1

LEARNERS = [name for name, learner in dt.LEARNERS.items() if learner.rule.restricts]
WAITING = {"expire_after": None, "on_expiry": "drop", "correct_within": None}


def recipe_for(learner, features=3, **more):
    shape = {"features": features, "bits": 6, "ngrams": 1}
    return read_recipe(["a", "b", "c"], learner, shape, WAITING, 5, more)


def arrivals(front, count, answered, feedback_type):
    """Let a front end decide, and give some answers, late and in another order."""
    rng = np.random.default_rng(count)
    for number in range(count):
        x = {"n": float(number), "t": "xyz"[number % 3]} if front.encoder.sparse else rng.normal(size=3)
        play = front.learner.play_round(front.encoder.encode(x), front.classes.allowed(None))
        yield Arrived(
            0, facts.RECORDED, f"r{number}", number, facts.encode_decided(play, None, front.encoder.new_names())
        )
        if number % 3 == 2:
            value = float(number % 2) if feedback_type == "correct" else float(number % 3)
            yield Arrived(0, facts.ANSWERED, f"r{number - 2}", number, facts.encode(value))
    for number in answered:
        yield Arrived(0, facts.ANSWERED, f"r{number}", 1000, facts.encode(1.0))


def folded(recipe, count=20, answered=(16, 4)):
    model = FoldedModel(1, recipe)
    feedback_type = type(model.state.learner).feedback_type
    model.fold(arrivals(unpublished(recipe).state, count, answered, feedback_type))
    return model


@pytest.mark.parametrize("features", [3, "hashed"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_front_end_decides_as_the_learner_would(learner, features):
    recipe = recipe_for(learner, features)
    model = folded(recipe)
    before = digest(model.state, recipe)
    stats = model.stats(2000)
    body = pack_published(model.state, recipe, stats, model.seconds(2000))
    assert digest(model.state, recipe) == before
    published = read_published(body, "it")
    assert published.stats == stats
    front = published.state.learner
    assert (front.book.rounds, front.book.pending) == (20, model.state.learner.book.pending)
    applied = copy.deepcopy(model.state.learner)
    applied.flush()
    np.testing.assert_array_equal(front.weights, applied.weights)
    row = published.state.encoder.encode({"n": 3.0, "t": "x"} if features == "hashed" else [1.0, 2.0, 3.0])
    labels = np.arange(3)
    for one, other in zip(look(front, row, labels), look(applied, row, labels), strict=True):
        np.testing.assert_array_equal(one, other)
    for number in range(30):
        assert front.play_round(row, labels).round == 21 + number
    assert len(front.book.kept) == 0


@pytest.mark.parametrize("options", [{"standardize": True}, {"ties": "random"}])
def test_the_options_of_learners_are_kept(options):
    recipe = recipe_for("delaytron", **options)
    model = folded(recipe)
    before = digest(model.state, recipe)
    published = read_published(pack_published(model.state, recipe, model.stats(0), {}), "it")
    assert digest(model.state, recipe) == before
    applied = copy.deepcopy(model.state.learner)
    applied.flush()
    np.testing.assert_array_equal(
        published.state.learner.weights_of(published.state.learner.state), applied.weights_of(applied.state)
    )
    replayed = State.new(recipe)
    for number, arrived in enumerate(model.new, start=1):
        replayed.replay(arrived._replace(seq=number))
    assert digest(replayed, recipe) == before


def test_the_size_of_a_published_state_does_not_grow_with_open_decisions():
    recipe = recipe_for("bandit_logit")
    sizes = [
        len(pack_published(folded(recipe, count).state, recipe, unpublished(recipe).stats, {})) for count in (20, 900)
    ]
    assert sizes[1] < sizes[0] + 500


def test_every_front_end_has_random_numbers_of_its_own():
    recipe = recipe_for("bandit_logit")
    body = pack_published(FoldedModel(1, recipe).state, recipe, unpublished(recipe).stats, {})
    draws = [read_published(body, "it").state.learner._draws.random(4).tolist() for _ in range(5)]
    draws += [unpublished(recipe).state.learner._draws.random(4).tolist() for _ in range(5)]
    assert len({tuple(drawn) for drawn in draws}) == 10


def test_a_fact_has_the_round_of_its_place_and_the_probability_of_its_front_end():
    recipe = recipe_for("bandit_logit")
    front = unpublished(recipe).state
    plays = [front.learner.play_round(front.encoder.encode([1.0, 2.0, 3.0]), np.array([k])) for k in (2, 0)]
    model = FoldedModel(1, recipe)
    wanted = [plays[1], plays[0], plays[1]]
    model.fold(
        [Arrived(0, facts.RECORDED, str(i), 50 - i, facts.encode_decided(play, None)) for i, play in enumerate(wanted)]
    )
    decided = [facts.decode_decided(fact.body) for fact in model.new]
    assert [one.round for one in decided] == [1, 2, 3]
    assert [one.label for one in decided] == [0, 2, 0]
    assert [fact.seq for fact in model.new] == [1, 2, 3]
    assert [fact.now for fact in model.new] == [Moment(50, 50), Moment(49, 50), Moment(48, 50)]


def test_the_learner_says_what_front_ends_cannot_know_of_challengers(caplog):
    recipe = read_recipe(CLASSES, "gated_logit", {"features": 3, "bits": 6, "ngrams": 1}, WAITING, 5, {})
    front = unpublished(recipe).state
    rows, kinds = rows_of(900)
    model = FoldedModel(7, recipe)
    for t in range(900):
        play = front.learner.play_round(front.encoder.encode(rows[t]), np.arange(3))
        answer = facts.encode(float(permuted(t, play.label, kinds[t])))
        made = Arrived(0, facts.RECORDED, f"r{t}", t, facts.encode_decided(play, None))
        model.fold([made, Arrived(0, facts.ANSWERED, f"r{t}", t, answer)])
        if t % 20 == 0:
            front = read_published(pack_published(model.state, recipe, model.stats(t), {}), "it").state
    decided = [facts.decode_decided(fact.body) for fact in model.new if fact.kind == facts.RECORDED]
    changes = {one.round: one.changed for one in decided if one.changed}
    assert changes[min(changes)] == ("born",)
    assert CALM < min(changes) < CALM + 200
    happened = [(number, what) for number, changed in changes.items() for what in changed]
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if not line.startswith("model number 7: ")] == []
    assert all(f"{what} in round {number}:" in line for (number, what), line in zip(happened, lines, strict=True))
    drift = read_published(pack_published(model.state, recipe, model.stats(900), {}), "it").stats.drift
    assert (drift.born, drift.won, drift.dropped) == model.state.tally.changes
    assert drift.born + drift.won + drift.dropped == len(happened) > 0
    again = FoldedModel(7, recipe)
    again.replay(model.new)
    assert digest(again.state, recipe) == digest(model.state, recipe)
    assert len(caplog.records) == len(lines)


def test_the_clock_goes_on_over_a_snapshot():
    recipe = recipe_for("bandit_logit")
    model = folded(recipe)
    again = FoldedModel(1, recipe, Snapshot(model.seq, model.pack()))
    assert (again.seq, again.clock) == (model.seq, 1000)
    assert digest(again.state, recipe) == digest(model.state, recipe)
    again.replay([Fact(model.seq + 1, facts.ANSWERED, "r10", Moment(7, 1000), facts.encode(0.5))])
    assert again.clock == 1000


def test_the_cost_of_staleness_is_that_of_theorem_r1():
    """n rounds more for each answer are n more outstanding ones for each decision."""
    problem = {"norm": 2, "n_classes": 10, "gamma": 0.1, "radius": 1, "n_rounds": 1000}
    late = theorem_r1(**problem, outstanding=5000 + 133 * 1000)
    root = (1 + 10 / 0.1 + 4 * 133) * 1000 + 4 * 5000
    assert late == pytest.approx(2 * root**0.5)
    found = staleness(0.41, 133)
    assert (found.seconds, found.decisions) == (0.41, 133)
    assert "133 decisions" in found.bound
    assert "4 * 133 more beside 1 + K / gamma" in found.bound
