"""Claims, headlines and who is best: verdicts on synthetic results whose truth is known."""

import numpy as np
import pytest

from delaytron.experiments.report.claims import claims
from delaytron.experiments.report.headline import (
    CLEARLY,
    best_against_paper,
    headline,
    rank,
    ranking_section,
    small_print,
)
from delaytron.experiments.report.model import FEW_RUNS_NOTE, Estimate, shown
from delaytron.experiments.spec import Condition, RunSpec
from delaytron.experiments.store import DataFacts, Outcome
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import checkpoints

T = 10**6
ROUNDS = checkpoints(T)
DELAYS = ("1", "100", "1000", "5000")


FACTS = {
    "digits": DataFacts(name="digits", rows=9, features=2, classes=3, majority_error=0.875, storage="dense"),
}


def outcome(data, learner, delay, error, title=None, chosen_by=None, spread=0.0, runs=2):
    """Return runs whose error so far is a function of the rounds; every other one is above, by `spread`."""
    run = RunSpec(
        data={"name": data},
        learner=learner,
        parameters={"gamma": 0.1},
        delay=delay,
        rounds=T,
        runs=runs,
        seed=0,
        sampling="replacement",
    )
    rates = np.array([error(ROUNDS) * (1 + (-1) ** (number + 1) * spread) for number in range(runs)])
    mistakes = np.repeat((rates * ROUNDS)[:, :, None], 2, axis=2)
    result = Result(learner, data, delay, ROUNDS, [run.parameters] * runs, np.arange(runs), mistakes)
    line = Condition(data, title or learner, delay, (run,), ())
    return Outcome(line, run, result, float(error(T)) if chosen_by is None else chosen_by)


def fall(late, power=0.5, floor=0.0):
    """Return an error that stays at 1 for `late` rounds and falls then."""
    return lambda rounds: np.minimum(1.0, np.maximum((late / np.asarray(rounds, dtype=float)) ** power, floor))


def experiment(late, power=0.5, reference=0.5, data=("digits", "usps")):
    """Return an experiment in which learners begin to fall after `late(delay)` rounds."""
    references = [outcome(d, name, "1", fall(10, reference)) for d in data for name in ("banditron", "soba")]
    learners = ("delaytron", "adaptive_delaytron")
    own = [
        outcome(d, name, delay, fall(late(int(delay)), power)) for d in data for name in learners for delay in DELAYS
    ]
    return references + own


def verdicts(found):
    return {claim.key: claim.verdict for claim in claims(found)}


def test_everything_holds_where_delay_costs_a_few_rounds():
    found = experiment(lambda delay: 10 * (1 + delay / 100_000))
    assert verdicts(found) == dict.fromkeys("abcde", "holds")


def test_late_learners_fall_alike_but_end_higher():
    found = experiment(lambda delay: 10 + 10 * delay)
    assert verdicts(found) == {"a": "holds", "b": "does not hold", "c": "holds", "d": "holds", "e": "does not hold"}


def test_delay_that_costs_nothing_does_not_speak_for_more_rounds():
    assert verdicts(experiment(lambda _: 10))["d"] == "does not hold"


def test_the_order_in_which_delays_are_listed_does_not_matter():
    found = experiment(lambda delay: 10 + 10 * delay)
    assert claims(found) == claims([*found[:4], *reversed(found[4:8]), *found[8:]])


def test_only_references_that_were_played_are_counted():
    found = [o for o in experiment(lambda _: 10) if o.condition.title != "banditron"]
    reason = next(claim.reason for claim in claims(found) if claim.key == "b")
    assert "(12 beside soba): so in 12 of 12 cases." in reason


def test_a_rising_curve_is_not_as_steep_as_a_flat_one():
    found = [outcome("digits", name, "1", fall(10, 0.01)) for name in ("banditron", "soba")]
    assert verdicts([*found, outcome("digits", "delaytron", "100", fall(10, 0.01))])["a"] == "holds"
    rising = outcome("digits", "delaytron", "100", lambda rounds: np.asarray(rounds, dtype=float) ** 0.01 / 2)
    assert verdicts([*found, rising])["a"] == "does not hold"


def test_a_flat_curve_fails_the_claim_on_slopes():
    flat = next(claim for claim in claims(experiment(lambda _: 10, power=0.1)) if claim.key == "a")
    assert flat.verdict == "does not hold"
    assert flat.table.rows[0][2] == pytest.approx(-0.1)
    assert flat.table.rows[0][-1] == pytest.approx(-0.5)
    assert "so in 0 of 12 cases" in flat.reason
    assert "delaytron on digits (100, 1000, 5000), usps (100, 1000, 5000)" in flat.reason


def test_half_of_the_cases_are_partly():
    late = experiment(lambda delay: 10 if delay <= 1000 else 10_000)
    assert verdicts(late)["b"] == "partly"


def test_fewer_rounds_with_more_delay_speak_against_the_claim():
    claim = next(claim for claim in claims(experiment(lambda delay: 6000 - delay)) if claim.key == "d")
    assert claim.verdict == "does not hold"
    needed = claim.table.rows[0][2:]
    target = 1.1 * (5999 / T) ** 0.5
    for delay, rounds in zip(DELAYS, needed, strict=True):
        assert rounds == pytest.approx((6000 - int(delay)) / target**2, rel=0.01)


def test_what_was_not_played_is_not_judged():
    only = [outcome("digits", "delaytron", delay, fall(10 + int(delay))) for delay in DELAYS]
    assert verdicts(only) == {"a": "not tested", "b": "not tested", "c": "not tested", "d": "holds", "e": "not tested"}
    assert set(verdicts([outcome("digits", "pab", "1", fall(10))]).values()) == {"not tested"}


def test_an_adaptive_learner_that_is_worse_is_named():
    found = experiment(lambda _: 10)
    worse = [
        outcome("digits", "adaptive_delaytron", d, fall(1000), title="adaptive_delaytron, instant") for d in DELAYS
    ]
    claim = next(claim for claim in claims(found + worse) if claim.key == "c")
    assert claim.verdict == "partly"
    assert "Not so: adaptive_delaytron, instant on digits (1, 100, 1000, 5000)." in claim.reason
    ratio = next(row for row in claim.table.rows if row[1] == "adaptive_delaytron, instant")[2]
    assert ratio == pytest.approx(10)


class TestBestAgainstPaper:
    def test_the_tuning_chooses_the_learners_and_the_reports_decide(self):
        found = [
            outcome("digits", "delaytron", "1", fall(0, floor=0.2), chosen_by=0.3),
            outcome("digits", "soba", "1", fall(0, floor=0.3), chosen_by=0.2),
            outcome("digits", "pab", "5000", fall(0, floor=0.1), chosen_by=0.1),
            outcome("digits", "ova_logistic", "5000", fall(0, floor=0.05), chosen_by=0.2),
            outcome("digits", "perceptron", "5000", fall(0, floor=0.01), chosen_by=0.0),  # gets the true label
            outcome("digits", "pab", "100", fall(0, floor=0.02), chosen_by=0.0),  # another delay
        ]
        section = best_against_paper(found)
        data, theirs, error, ours, other, ratio, lower = section.table.rows[0]
        assert (data, theirs, ours, lower) == ("digits", "soba gamma=0.1", "pab gamma=0.1", "with delay")
        assert error == Estimate(pytest.approx(0.3), pytest.approx(0), 2)
        assert other == Estimate(pytest.approx(0.1), 0, 2)
        assert ratio == pytest.approx(1 / 3)
        assert "lower error on 1 of 1 data sets, the best of the paper's, without delay, on 0; on 0 " in section.text
        assert "chosen on the reported runs" in section.text  # there are no others here

    def test_where_the_papers_best_is_better_the_section_says_so(self):
        found = [outcome("usps", "soba", "1", fall(0, floor=0.1)), outcome("usps", "pab", "5000", fall(0, floor=0.2))]
        assert best_against_paper(found).table.rows[0][-1] == "without"
        assert (
            "on 0 of 1 data sets, the best of the paper's, without delay, on 1; on 0 " in best_against_paper(found).text
        )

    def test_within_the_interval_neither_is_better(self):
        found = [
            outcome("usps", "soba", "1", fall(0, floor=0.1), spread=0.2),
            outcome("usps", "pab", "5000", fall(0, floor=0.11)),
        ]
        assert best_against_paper(found).table.rows[0][-1] == "neither"

    def test_without_delays_there_is_none(self):
        assert best_against_paper([outcome("usps", "soba", "1", fall(10))]) is None
        assert best_against_paper([outcome("usps", "pab", "5000", fall(10))]) is None


class TestErrorsOfClaims:
    def final_errors(self, outcomes, facts=None):
        return next(claim for claim in claims(outcomes, facts) if claim.key == "b")

    def test_final_errors_have_intervals_and_the_most_frequent_class_beside_them(self):
        table = self.final_errors(experiment(lambda _: 10), FACTS).table
        assert table.columns[-2:] == ("soba, delay 1", "most frequent class")
        assert [row[-1] for row in table.rows] == [0.875, None] * 2
        assert all(isinstance(cell, Estimate) for row in table.rows for cell in row[2:-1])

    def test_the_number_of_runs_is_shown_where_it_differs(self):
        outcomes = experiment(lambda _: 10, data=("digits",))
        same = [shown(cell) for cell in self.final_errors(outcomes).table.rows[0]]
        assert not any("runs" in cell for cell in same)
        other = outcome("digits", "adaptive_delaytron", "1", fall(10), title="adaptive_delaytron, instant", runs=20)
        rows = self.final_errors([*outcomes, other]).table.rows
        assert shown(rows[0][2]).endswith("† (2 runs)")
        assert shown(rows[-1][2]) == "0.0032 ± 0.0000 (20 runs)"

    def test_few_runs_are_footnoted(self):
        assert FEW_RUNS_NOTE in self.final_errors(experiment(lambda _: 10)).reason
        many = [outcome("digits", name, d, fall(10), runs=10) for name in ("banditron", "delaytron") for d in "12"]
        assert FEW_RUNS_NOTE not in self.final_errors(many).reason


class TestHeadline:
    def late(self, data, learner, error, **options):
        return outcome(data, learner, "5000", fall(0, floor=error), **options)

    def test_others_are_held_against_the_papers_best_at_the_largest_delay(self):
        outcomes = [
            outcome("digits", "soba", "1", fall(0, floor=0.01)),  # another delay
            self.late("digits", "soba", 0.3, runs=20),
            self.late("digits", "delaytron", 0.4, runs=20),
            self.late("digits", "pab", 0.1, runs=4),
        ]
        ranking = rank(outcomes, paper=True)
        assert headline(ranking, FACTS) == (
            "With delays of up to 5,000 rounds, pab makes clearly fewer errors than soba, the best of the paper's "
            "learners, on digits: on digits the error of pab is 0.1000 ± 0.0000† (4 runs), that of soba 0.3000 ± "
            "0.0000 (20 runs), and that of always playing the most frequent class 0.875."
        )
        assert ranking_section(ranking, FACTS).table.rows[0][-2:] == ("pab", 0.875)
        assert small_print(ranking, outcomes)[0] == CLEARLY

    def test_nothing_is_claimed_within_the_intervals(self):
        outcomes = [self.late(d, "soba", 0.1, spread=0.5) for d in ("digits", "usps")]
        outcomes += [self.late(d, "pab", 0.08) for d in ("digits", "usps")]
        ranking = rank(outcomes, paper=True)
        sentence = headline(ranking, {})
        assert "pab and soba, the best of the paper's learners, are too close to call on all 2 data sets" in sentence
        assert "clearly" not in sentence
        assert {row[-1] for row in ranking_section(ranking, {}).table.rows} == {"neither"}
        assert CLEARLY not in small_print(ranking, outcomes)

    def test_a_single_run_proves_nothing(self):
        outcomes = [self.late("digits", "soba", 0.9, runs=1), self.late("digits", "pab", 0.1, runs=1)]
        assert "too close to call" in headline(rank(outcomes), {})

    def test_where_the_papers_learners_are_better_the_headline_says_so(self):
        outcomes = [self.late("digits", "soba", 0.1), self.late("digits", "pab", 0.3)]
        outcomes += [self.late("usps", "delaytron", 0.1), self.late("usps", "pab", 0.3)]
        outcomes += [self.late("ecoli", "delaytron", 0.3), self.late("ecoli", "pab", 0.1)]
        sentence = headline(rank(outcomes, paper=True), {})
        assert "the best of the paper's learners makes clearly fewer errors than pab on 2 of 3 data sets" in sentence
        assert "(more on 1)" in sentence

    def test_in_an_experiment_of_ones_own_the_best_is_held_against_the_next(self):
        outcomes = [self.late("digits", "pab", 0.1), self.late("digits", "gap", 0.2), self.late("digits", "soba", 0.9)]
        assert "pab makes clearly fewer errors than gap, the next best learner, on digits" in headline(
            rank(outcomes), {}
        )

    def test_learners_with_other_feedback_take_no_part_and_are_named(self):
        outcomes = [self.late("digits", name, 0.01) for name in ("perceptron", "passive_aggressive")]
        outcomes.append(self.late("digits", "pab", 0.1, runs=20))
        ranking = rank(outcomes)
        assert headline(ranking, {}) == (
            "With delays of up to 5,000 rounds, on digits the error of pab is 0.1000 ± 0.0000 (20 runs)."
        )
        notes = small_print(ranking, outcomes)
        assert notes[0].startswith("Not compared: perceptron and passive_aggressive (gets the true label")
        assert notes[1] == FEW_RUNS_NOTE

    def test_no_outcome_has_no_headline(self):
        assert headline(rank([]), {}) == ""
