"""A comparison: fair to every learner, tuned on other seeds than those reported, independent of the other learners."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

import delaytron as dt
from delaytron.experiments.compare import (
    MOST_WRITTEN_OUT,
    TUNING_SEED_OFFSET,
    Terms,
    compare,
    load_for_tuning,
    prepare,
    spread,
    tuned,
)
from delaytron.learners.arguments import own_parameters
from streams import same_bits

DATA = dt.datasets.load("synsep", n_samples=400)
OTHER = load_for_tuning("synsep", 0, n_samples=400)
SMALL = {"delays": [1, 60], "rounds": 700, "runs": 3, "budget": 3, "tuning_data": OTHER}
NAMES = ["delaytron", "pab", "perceptron"]
COMPARED = compare(DATA, NAMES, **SMALL)


def settings_of(learner, data=DATA, **terms):
    prepared = prepare(data, [learner], [1], Terms(**terms), None, {})
    return next(iter(prepared.candidates.values()))


def made_of(cls, setting):
    """Return what distinguishes two learners."""
    learner = cls(9, 400, seed=0, **setting)
    return id(learner.rule), learner.params


class Picky(dt.Delaytron):
    """Plays with some of its settings only."""

    name = "picky"
    grid = {"gamma": (0.1, 7.0, 0.2, -1.0, 0.3)}


class Refusing(dt.Delaytron):
    """Plays with none."""

    name = "refusing"
    grid = {"gamma": (7.0, 8.0)}


class Huge(dt.Delaytron):
    """Raises a MemoryError without a message."""

    name = "huge"

    def __init__(self, *args, **options):
        raise MemoryError


class TestTuning:
    def test_reported_runs_are_those_of_simulate_with_the_chosen_setting_and_the_seed(self):
        compared = compare(DATA, NAMES, seed=4, **SMALL)
        assert [(entry.learner, entry.delay) for entry in compared.entries] == [
            (n, d) for n in NAMES for d in ["1", "60"]
        ]
        for entry in compared.entries:
            expected = dt.simulate(
                entry.learner, DATA, delay=int(entry.delay), rounds=700, runs=3, seed=4, **entry.setting
            )
            assert same_bits(entry.result.mistakes, expected.mistakes)
            assert entry.result.parameters == expected.parameters

    def test_the_setting_is_the_best_on_the_other_seed_and_the_other_data(self):
        for entry in COMPARED.entries[:4]:
            tried = settings_of(entry.learner, budget=3)
            errors = [
                dt.simulate(
                    entry.learner, OTHER, delay=entry.delay, rounds=700, runs=2, seed=TUNING_SEED_OFFSET, **setting
                )
                for setting in tried
            ]
            assert entry.setting == tried[int(np.argmin([result.final_error.mean() for result in errors]))]

    def test_synthetic_data_are_drawn_again_for_the_tuning(self):
        assert (OTHER.n_rows, OTHER.n_classes, OTHER.n_features) == (DATA.n_rows, DATA.n_classes, DATA.n_features)
        assert not np.array_equal(OTHER.y, DATA.y)
        assert not np.array_equal(OTHER.y, load_for_tuning("synsep", 1, n_samples=400).y)
        assert load_for_tuning("digits", 0) is None

    def test_without_tuning_data_the_rounds_still_differ(self):
        alone = compare(DATA, ["delaytron"], **SMALL | {"tuning_data": None, "budget": 1})
        assert alone.terms.tuning_seed != alone.terms.seed
        assert alone.entries[0].tried == 1

    def test_every_learner_has_the_same_budget(self):
        for name in dt.LEARNERS:
            cls = dt.LEARNERS[name]
            names = tuned(cls, DATA)
            settings = [dict(zip(names, values, strict=True)) for values in product(*names.values())]
            n_settings = len({made_of(cls, setting) for setting in settings})
            for budget in (1, 4, 1000):
                tried = settings_of(name, budget=budget)
                assert len(tried) == min(budget, n_settings)
                assert all(tried.count(setting) == 1 for setting in tried)
                assert all(set(setting) == set(names) for setting in tried)

    @pytest.mark.parametrize("name", dt.LEARNERS)
    def test_every_grid_names_parameters_of_its_learner(self, name):
        assert set(dt.LEARNERS[name].grid) <= set(own_parameters(dt.LEARNERS[name]))

    @pytest.mark.parametrize("name", ["perceptron", "gap", "ova_logistic"])
    def test_rows_are_tried_as_they_are_and_standardised(self, name):
        tried = settings_of(name, budget=16)
        assert {setting["standardize"] for setting in tried} == {False, True}
        assert len(settings_of(name, budget=1000)) % 2 == 0

    def test_standardised_rows_are_not_tried_where_they_change_nothing_or_take_too_long(self):
        wide = (csr_array(np.eye(4, MOST_WRITTEN_OUT + 1)), [0, 1, 2, 3])
        for name, data in (("exp3", DATA), ("gap", wide)):
            assert not any("standardize" in setting for setting in settings_of(name, data))
        assert any("standardize" in setting for setting in settings_of("gap", (wide[0].toarray(), wide[1])))

    def test_standardised_rows_win_where_features_have_different_sizes(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 2000)
        X = (np.eye(3)[y] + 0.2 * rng.normal(size=(2000, 3))) * [1e-3, 1.0, 1e3] + [0.0, 50.0, 0.0]
        (entry,) = compare((X, y), ["ova_logistic"], delays=[1], rounds=2000, runs=2, budget=8).entries
        assert entry.setting["standardize"] is True
        assert entry.result.parameters[0]["standardize"] is True

    def test_the_default_learner_is_there_and_has_nothing_to_tune(self):
        prepared = prepare(DATA, None, [1], Terms(rounds=50, runs=2, budget=3), OTHER, {})
        assert list(prepared.candidates) == list(dt.LEARNERS.values())
        assert prepared.candidates[dt.LEARNERS[dt.DEFAULT_LEARNER]] == [{}]
        (entry,) = compare(DATA, [dt.DEFAULT_LEARNER], **SMALL | {"delays": [60]}).entries
        expected = dt.simulate(dt.DEFAULT_LEARNER, DATA, delay=60, rounds=700, runs=3)
        assert (entry.setting, entry.tried, entry.tuning_seconds) == ({}, 1, 0.0)
        assert same_bits(entry.result.mistakes, expected.mistakes)

    def test_the_draw_of_settings_follows_the_seed(self):
        draws = [settings_of("gap", budget=5, seed=seed) for seed in (0, 0, 1)]
        assert draws[0] == draws[1]
        assert draws[0] != draws[2]


def test_nothing_depends_on_the_other_learners_or_delays_or_threads():
    alone = compare(DATA, ["pab"], **SMALL | {"delays": ["60"]}, n_jobs=1)
    (entry,) = alone.entries
    beside = COMPARED.entries[3]
    assert (beside.learner, beside.delay) == ("pab", "60")
    assert (entry.setting, entry.tried) == (beside.setting, beside.tried)
    assert same_bits(entry.result.mistakes, beside.result.mistakes)


def test_progress_counts_every_round():
    seen = []
    prepared = prepare(DATA, NAMES, [1, 60], Terms(700, 3, 2, 3), OTHER, {})
    prepared.play(progress=seen.append)
    assert sum(seen) == prepared.n_rounds == 700 * 2 * (2 * (3 + 3 + 2) + 3 * 3)


def test_seconds_of_runs_and_of_tuning_are_separate():
    (untuned,) = compare(DATA, ["perceptron"], **SMALL | {"delays": [1], "budget": 1}).entries
    assert all(entry.seconds > 0 for entry in (*COMPARED.entries, untuned))
    assert all(entry.tuning_seconds > 0 for entry in COMPARED.entries)
    assert untuned.tuning_seconds == 0


class TestWhoCannotPlay:
    def test_impossible_settings_are_left_out(self):
        possible = [{"gamma": gamma, "standardize": choice} for gamma in (0.1, 0.2, 0.3) for choice in (False, True)]
        assert settings_of(Picky) == possible
        assert len(settings_of(Picky, budget=2)) == 2

    def test_a_learner_without_any_is_listed_with_the_reason(self):
        compared = compare(DATA, ["perceptron", Refusing, Huge], **SMALL)
        assert list(compared.learners) == ["perceptron"]
        assert compared.left_out == {"refusing": "gamma must be in (0, 1], got 7.0", "huge": "not enough memory"}

    def test_two_labels_are_too_few_for_sets_of_two(self):
        prepared = prepare((np.eye(4), [0, 1, 0, 1]), ["dilute", "perceptron"], [1], Terms(), None, {})
        assert prepared.left_out == {"dilute": "m must be below n_classes = 2, got 2; play fewer labels"}

    def test_learners_that_get_the_label_cannot_play_with_noise(self):
        prepared = prepare(DATA, ["perceptron", "delaytron"], [1], Terms(), None, {"noise": (0.1, 0.1)})
        assert prepared.left_out == {"perceptron": "perceptron learns from the true label; leave out noise"}

    def test_no_learner_left_is_an_error(self):
        with pytest.raises(dt.InvalidInput, match="no learner can play: refusing: gamma must be in"):
            compare(DATA, [Refusing], **SMALL)


def test_feedback_reaches_every_run():
    feedback_model = {"noise": (0.1, 0.2), "expire_after": 30, "on_expiry": "wrong"}
    (entry,) = compare(DATA, ["delaytron"], **SMALL | {"delays": 60}, **feedback_model).entries
    expected = dt.simulate("delaytron", DATA, delay=60, rounds=700, runs=3, **entry.setting, **feedback_model)
    assert same_bits(entry.result.mistakes, expected.mistakes)
    assert set(entry.setting) == {"gamma", "standardize"}


def test_remarks_mark_errors_that_mean_something_else():
    remarks = {entry.learner: entry.remark for entry in COMPARED.entries}
    assert remarks == {"delaytron": "", "pab": "", "perceptron": "gets the true label, not only right or wrong"}
    assert COMPARED.marked("perceptron") == "perceptron¹"
    assert COMPARED.marked("pab") == "pab"
    (entry,) = compare(DATA, ["dilute"], **SMALL | {"delays": [1], "budget": 1}).entries
    assert "sets" in entry.remark
    assert dt.Exp3.remark == "does not look at the example"


def test_delays_ascend_in_the_mean_wait():
    terms = Terms(rounds=500)
    delays = [1000, "fixed:3", dt.delays.Uniform(1), "1+missing:0.5", [5, 5]]
    prepared = prepare(DATA, ["perceptron"], delays, terms, None, {})
    assert list(prepared.delays) == ["uniform:1", "fixed:3", str(dt.delays.Trace([5, 5])), "1+missing:0.5", "1000"]


def test_learners_ascend_in_the_error_at_the_largest_delay():
    errors = [entries[-1].result.final_error.mean() for entries in COMPARED.learners.values()]
    assert errors == sorted(errors)
    assert {entries[-1].delay for entries in COMPARED.learners.values()} == {"60"}


def test_the_table_has_a_row_per_learner_and_delay():
    table = COMPARED.to_table()
    assert table.num_rows == 6
    assert table["error"].to_pylist() == [entry.result.final_error.mean() for entry in COMPARED.entries]
    assert all(re.fullmatch("standardize=(True|False)", text) for text in table["setting"].to_pylist()[4:])
    assert all(text.startswith("gamma=") for text in table["setting"].to_pylist()[:4])
    assert set(table["settings_tried"].to_pylist()) == {2, 3}
    assert set(table["majority_error"].to_pylist()) == {DATA.majority_error} == {COMPARED.majority_error}
    assert compare(DATA, ["perceptron"], **SMALL | {"runs": 1}).to_table()["error_margin"].null_count == 2


class TestPicture:
    def test_it_shows_every_learner_delay_and_remark(self, tmp_path):
        COMPARED.plot(tmp_path / "comparison.svg")
        text = (tmp_path / "comparison.svg").read_text()
        words = ("delaytron", "pab", "perceptron¹", "1", "60", "always the most frequent class")
        assert all(f"<!-- {word} -->" in text for word in words)
        assert "gets the true label" in text

    def test_it_marks_untuned_learners(self, tmp_path):
        compare(DATA, [dt.DEFAULT_LEARNER], **SMALL | {"delays": [1]}).plot(tmp_path / "default.svg")
        assert "<!-- bandit_logit (untuned) -->" in (tmp_path / "default.svg").read_text()

    def test_no_errors_and_single_runs_are_drawn_too(self, tmp_path):
        faultless = replace(COMPARED.entries[0].result, mistakes=0 * COMPARED.entries[0].result.mistakes)
        entries = (replace(COMPARED.entries[0], result=faultless), *COMPARED.entries[1:])
        replace(COMPARED, entries=entries).plot(tmp_path / "some.png")
        replace(COMPARED, entries=entries[:1]).plot(tmp_path / "none.png")
        compare(DATA, ["perceptron"], **SMALL | {"runs": 1, "delays": [1]}).plot(tmp_path / "single.png")
        assert all((tmp_path / f"{name}.png").stat().st_size > 5000 for name in ("some", "none", "single"))

    def test_names_stay_apart_and_inside(self):
        heights = np.sort(np.random.default_rng(0).random(16) ** 4)
        placed = spread(heights, 0.05)
        assert np.diff(placed).min() >= 0.05 - 1e-12
        assert 0 <= min(placed) <= max(placed) <= 1


BAD = [
    ({"learners": ["pap"]}, "learner must be one of .*, got 'pap'; did you mean pab?"),
    ({"learners": []}, r"learners must be at least one, and no two of the same name, got \[\]"),
    ({"learners": ["pab", "pab"]}, "no two of the same name"),
    ({"delays": []}, "delays must be at least one"),
    ({"delays": [5, "5"]}, r"delays must be .* no two of the same name, got \['5', '5'\]"),
    ({"delays": [0]}, "delay must be an integer of at least 1, got 0"),
    ({"budget": 0}, "budget must be an integer of at least 1, got 0"),
    ({"tuning_runs": 0}, "tuning_runs must be an integer of at least 1, got 0"),
    ({"runs": 0}, "runs must be an integer of at least 1, got 0"),
    ({"rounds": 0.5}, "rounds must be an integer of at least 1, got 0.5"),
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"n_jobs": 0}, "n_jobs must be an integer of at least 1, got 0"),
    ({"tuning_data": (np.eye(3), [0, 1, 2])}, "tuning_data must have the classes and features of Dataset"),
    ({"on_expiry": "wrong"}, "on_expiry='wrong' needs expire_after=n"),
    ({"noise": 3}, r"noise must be \(rho0, rho1\)"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(next(iter(options))) for options, _ in BAD])
def test_bad_input_gets_one_clear_line(options, message):
    with pytest.raises(dt.InvalidInput, match=message) as caught:
        compare(DATA, **{"learners": ["pab"]} | SMALL | options)
    assert "\n" not in str(caught.value)


def test_no_budget_is_spent_on_the_same_learner_twice():
    terms = Terms(rounds=100, runs=1, tuning_runs=1, budget=99)
    prepared = prepare(DATA, ["ova_logistic", "passive_aggressive"], [1], terms, None, {})
    for cls, settings in prepared.candidates.items():
        made = [made_of(cls, setting) for setting in settings]
        assert len(set(made)) == len(made)
