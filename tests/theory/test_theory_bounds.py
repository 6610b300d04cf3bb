"""The bounds as functions: reference values, least values, order among each other, arrays, wrong input."""

import inspect
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.errors import InvalidInput
from delaytron.theory.bounds import ALLOWED, Arguments

WORKED = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 2**0.5, "n_rounds": 8}
RECEIVED, TOTAL, MISSING = {"delay_received": 10}, {"total_delay": 15}, {"missing": 2}
WAITED, LATER, LOSS = {"outstanding": 5}, {"outstanding": 11}, {"loss_bound": 5}
CASE_1_STEP = 0.158113883008419
BOUNDS = {
    name: function
    for name in theory.__all__
    if name.startswith(("theorem", "case", "corollary")) or name.endswith(("mistakes", "moment"))
    for function in [getattr(theory, name)]
}
REFERENCE = [  # of our notes, computed by another program
    ("theorem_1", RECEIVED | {"eta": 0.5}, 244),
    ("case_1", {"eta": 0.5}, 204),
    ("case_1_eta", {}, CASE_1_STEP),
    ("case_1", {}, 151.789327688082),
    ("case_1", {"eta": CASE_1_STEP}, 75.8946638440411),
    ("case_1", {"tight": True}, 56.5685424949238),
    ("theorem_2_eta", RECEIVED, 0.0645497224367903),
    ("theorem_2", RECEIVED | MISSING | LOSS, 71.9677335393187),
    ("corollary_1", TOTAL | LOSS, 113.754120804479),
    ("theorem_3_eta", RECEIVED | MISSING, 0.05),
    ("theorem_3", RECEIVED | MISSING, 85.6568542494924),
    ("corollary_2", TOTAL | MISSING, 89.4427190999916),
    ("corollary_2", TOTAL | MISSING | {"repaired": True}, 109.442719099992),
    ("theorem_4", TOTAL | LOSS, 1294.87451129443),
    ("theorem_r1", WAITED | {"eta": 0.5}, 58),
    ("theorem_r1_eta", WAITED, 0.136082763487954),
    ("theorem_r1", WAITED, 29.3938769133981),
    ("theorem_r4", WAITED | {"eta": 0.5}, 94),
    ("theorem_r4", WAITED, 37.9473319220206),
    ("theorem_r5", WAITED | {"budget": 2}, 53.665631459995),
    ("theorem_r5", WAITED, 53.665631459995),
]


@pytest.mark.parametrize(("name", "terms", "value"), REFERENCE)
def test_reference_values_are_met_to_all_their_digits(name, terms, value):
    assert BOUNDS[name](**WORKED, **terms) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("K", "gamma", "right", "wrong"),
    [(2, 0.49, 0.324503, 5.081633), (3, 0.3, 0.25, 11), (9, 0.014, 0.012601, 643.857143)],
)
def test_second_moments_are_those_of_the_notes(K, gamma, right, wrong):
    assert theory.second_moment(n_classes=K, gamma=gamma, greedy_right=True) == pytest.approx(right, abs=5e-7)
    assert theory.second_moment(n_classes=K, gamma=gamma, greedy_right=False) == pytest.approx(wrong, abs=5e-7)


problems = st.fixed_dictionaries(
    {
        "norm": st.floats(0.01, 100),
        "n_classes": st.integers(2, 50),
        "gamma": st.floats(1e-4, 1),
        "radius": st.floats(0.01, 100),
        "n_rounds": st.integers(1, 10**6),
    }
)
STEPS = [
    ("theorem_1", "theorem_2_eta", ["delay_received"]),
    ("theorem_2", "theorem_2_eta", ["delay_received", "missing", "loss_bound"]),
    ("theorem_3", "theorem_3_eta", ["delay_received", "missing"]),
    ("theorem_r1", "theorem_r1_eta", ["outstanding"]),
    ("theorem_r4", "theorem_r4_eta", ["outstanding"]),
]


def accepted(function, terms):
    return {name: value for name, value in terms.items() if name in inspect.signature(function).parameters}


@pytest.mark.parametrize(("name", "step", "words"), STEPS)
@given(problem=problems, delay=st.floats(0, 1e9))
def test_a_tuned_step_is_where_its_bound_is_least(name, step, words, problem, delay):
    bound, tune = BOUNDS[name], BOUNDS[step]
    terms = problem | {word: min(delay, problem["n_rounds"]) for word in words}
    eta = tune(**accepted(tune, terms))
    least = bound(**terms)
    assert bound(**terms, eta=eta) == pytest.approx(least, rel=1e-12)
    for factor in (0.1, 0.9, 0.999, 1.001, 1.1, 10):
        assert bound(**terms, eta=factor * eta) > least * (1 - 1e-12)
    around = bound(**terms, eta=eta * np.array([0.5, 2.0]))
    assert (around > least).all()


@given(problem=problems)
def test_case_1_is_theorem_1_without_delay_and_its_constants_are_six_three_and_root_five(problem):
    unit = problem["radius"] * problem["norm"] * (problem["n_classes"] * problem["n_rounds"] / problem["gamma"]) ** 0.5
    assert theory.case_1(**problem) == pytest.approx(6 * unit)
    assert theory.case_1(**problem, eta=theory.case_1_eta(**problem)) == pytest.approx(3 * unit)
    assert theory.case_1(**problem, tight=True) == pytest.approx(5**0.5 * unit)
    best = theory.case_1_eta(**problem, tight=True)
    assert theory.case_1(**problem, eta=best) == pytest.approx(theory.case_1(**problem, tight=True))
    assert theory.theorem_1(**problem, delay_received=problem["n_rounds"]) == pytest.approx(5**0.5 * unit)


@given(problem=problems, delay=st.floats(0, 1e9), budget=st.floats(0.01, 100))
def test_a_budget_of_the_norm_is_best_and_costs_the_root_of_two(problem, delay, budget):
    tuned = theory.theorem_r5(**problem, outstanding=delay)
    assert theory.theorem_r5(**problem, outstanding=delay, budget=problem["norm"]) == pytest.approx(tuned)
    assert theory.theorem_r5(**problem, outstanding=delay, budget=budget) >= tuned * (1 - 1e-12)
    assert tuned == pytest.approx(2**0.5 * theory.theorem_r4(**problem, outstanding=delay))
    gated = theory.theorem_r5(**problem, outstanding=delay, hinge=False)
    assert gated == pytest.approx(2**0.5 * theory.theorem_r1(**problem, outstanding=delay))


delays = st.lists(st.integers(1, 5) | st.integers(1, 60), min_size=1, max_size=40)


@given(problem=problems, delays=delays, loss_bound=st.floats(0, 1e4))
def test_the_bounds_are_in_the_order_that_the_proofs_need(problem, delays, loss_bound):
    run = theory.measure(delays)
    terms = problem | run._asdict() | {"loss_bound": loss_bound}

    def at(name, **more):
        return BOUNDS[name](**accepted(BOUNDS[name], terms), **more)

    slack = 1 - 1e-12
    assert at("corollary_1") >= at("theorem_2") * slack
    assert at("corollary_2", repaired=True) >= at("theorem_3") * slack
    assert at("theorem_3") >= at("theorem_r1") * slack
    assert at("theorem_4") / 2 >= at("theorem_r6") * slack


def test_a_mistake_bound_of_the_literature_is_met():
    problem = {"norm": 3, "n_classes": 4, "gamma": 0.04, "radius": 0.5, "n_rounds": 2500}
    assert theory.perceptron_mistakes(norm=3, radius=0.5, comparator_loss=2) == pytest.approx(2 + 4.5 + 3)
    bound = theory.banditron_mistakes(**problem, comparator_loss=2)
    assert bound == pytest.approx(2 + 100 + 3 * 450 + 900**0.5)
    rare = theory.banditron_mistakes(norm=0.01, n_classes=2, gamma=0.5, radius=1, n_rounds=10**8, comparator_loss=0)
    assert rare == pytest.approx(5e7 + 3 * 100)  # where the root is the larger term
    sharper = theory.corollary_r3(**problem, max_outstanding=6, comparator_loss=2)
    assert sharper == pytest.approx(2 + 125 * 2.25 + 1.5 * (250 + 200) ** 0.5)
    assert theory.corollary_r2(**problem, outstanding=7, comparator_loss=2) == pytest.approx(
        2 + 1.5 * (101 * 2500 + 28) ** 0.5
    )


@pytest.mark.parametrize(("gamma", "per_round"), [(1, 2), (0.5, 2.5)])
def test_theorem_r6_is_as_written_on_both_sides_of_its_maximum(gamma, per_round):
    terms = {"norm": 2, "n_classes": 2, "gamma": gamma, "radius": 3, "n_rounds": 60, "outstanding": 40}
    assert theory.theorem_r6(**terms) == pytest.approx((2 + 8**0.5) * (2 + 0.75 * 9 * per_round) * 10)


@pytest.mark.parametrize("name", BOUNDS)
def test_arrays_give_what_their_entries_give(name):
    function = BOUNDS[name]
    values = WORKED | RECEIVED | TOTAL | MISSING | WAITED | LOSS
    values |= {"max_outstanding": 1, "comparator_loss": 3, "greedy_mistakes": 4, "greedy_right": True}
    terms = accepted(function, values)
    rates = [("gamma", np.array([0.1, 0.3, 0.5]))] if "gamma" in terms else [("norm", np.array([1, 2, 3]))]
    for word, several in rates:
        found = function(**terms | {word: several[:, None]})
        assert found.shape == (3, 1)
        assert found.dtype == np.float64
        one_by_one = [function(**terms | {word: value}) for value in several.tolist()]
        assert all(type(value) is float for value in one_by_one)
        assert found[:, 0].tolist() == one_by_one


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_takes_keywords_only_and_says_its_equation_and_where_it_holds(name):
    function = BOUNDS[name]
    assert {p.kind for p in inspect.signature(function).parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert ".. math::" in function.__doc__
    assert ">>> " in function.__doc__
    if name.startswith(("case", "corollary", "theorem")) and not name.endswith("_eta"):
        assert "old" in function.__doc__.partition("math::")[2]  # Holds, hold
    with pytest.raises(TypeError, match=f"{name}\\(\\) takes 0 positional arguments"):
        function(2)


def test_a_bound_beyond_all_floats_is_infinite():
    assert theory.theorem_r1(**WORKED | {"norm": 1e200}, outstanding=0, eta=1e-3) == np.inf
    assert theory.theorem_r1(**WORKED | {"norm": 0}, outstanding=5) == 0


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"gamma": 0}, "gamma must be in (0, 1], got 0"),
        ({"gamma": 1.5}, "gamma must be in (0, 1], got 1.5"),
        ({"gamma": np.array([0.1, -0.2])}, "gamma must be in (0, 1], got -0.20000000000000001"),
        ({"gamma": float("nan")}, "gamma must be a finite number or an array of them, got nan"),
        ({"n_classes": 1}, "n_classes must be integers of at least 2, got 1"),
        ({"n_classes": 2.5}, "n_classes must be integers of at least 2, got 2.5"),
        ({"n_rounds": 0}, "n_rounds must be integers of at least 1, got 0"),
        ({"norm": -1}, "norm must be at least 0, got -1"),
        ({"norm": float("inf")}, "norm must be a finite number or an array of them, got inf"),
        ({"norm": "2"}, "norm must be a finite number or an array of them, got '2'"),
        ({"norm": None}, "norm must be a finite number or an array of them, got None"),
        ({"norm": ["1", 2**70, None]}, "norm must be a finite number or an array of them, got ['1', "),
        ({"norm": True}, "norm must be a finite number or an array of them, got True"),
        ({"norm": [[1], [1, 2]]}, "norm must be a finite number or an array of them, got [[1], [1, 2]]"),
        ({"norm": 10**400}, "norm must be a finite number or an array of them, got 1000"),
        ({"radius": 0}, "radius must be above 0, got 0"),
        ({"eta": 0}, "eta must be above 0, got 0"),
        ({"delay_received": -1}, "delay_received must be at least 0, got -1"),
        ({"missing": 9}, "missing must be at most n_rounds, got 9"),
        (
            {"norm": [1, 2], "gamma": [0.1, 0.2, 0.3]},
            "arrays must have shapes that broadcast, got norm (2,), gamma (3,)",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_line(terms, message):
    with pytest.raises(InvalidInput) as error:
        theory.theorem_3(**WORKED | RECEIVED | MISSING | terms)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 120


def test_corollary_r3_needs_a_rate_up_to_one_half():
    with pytest.raises(InvalidInput, match=r"^gamma must be in \(0, 0.5\] for Corollary R3, got 0.75$"):
        theory.corollary_r3(**WORKED | {"gamma": [0.5, 0.75]}, max_outstanding=1, comparator_loss=0)


def test_words_that_a_bound_does_not_know_are_refused():
    for arguments in ({}, {"gamma": 0.1}):
        with pytest.raises(InvalidInput, match="the bound also needs n_rounds, comparator_loss; got "):
            theory.table(arguments)
    with pytest.raises(InvalidInput, match=r"arguments must be a dict, as in \{'gamma': 0\.1\}, got 5"):
        theory.table(5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gama'"):
        theory.theorem_r1(**WORKED, outstanding=5, gama=0.1)
    with pytest.raises(InvalidInput, match="tight must be True or False, got 'yes'"):
        theory.case_1(**WORKED, tight="yes")


PROBLEM = {"norm": 2, "n_classes": 3, "gamma": 0.3, "radius": 1, "comparator_loss": 1, "eta": None}


class TestTable:
    def arguments(self, **changes):
        return theory.measure([1, 3, 1, 2])._asdict() | PROBLEM | changes

    def test_arguments_that_a_bound_does_not_have_are_left_to_others(self):
        rows = {row.statement.name: row.bound for row in theory.table(self.arguments())}
        assert rows["Perceptron"] == theory.perceptron_mistakes(norm=2, radius=1, comparator_loss=1)

    @pytest.mark.parametrize(
        ("name", "meant"),
        [("loss_bond", "loss_bound"), ("outstandin", "outstanding"), ("Eta", "eta"), ("budgets", "budget")],
    )
    def test_a_misspelt_argument_raises(self, name, meant):
        arguments = self.arguments(**{name: 1.0})
        message = f"an argument of the bounds must be one of .*, got '{name}'; did you mean {meant}?"
        with pytest.raises(InvalidInput, match=re.escape(message).replace(r"\.\*", ".*")):
            theory.table(arguments)
        for statement in theory.STATEMENTS:
            for use in (statement.value, statement.total, statement.applies):
                with pytest.raises(InvalidInput, match=name):
                    use(arguments)

    def test_a_missing_argument_is_named(self):
        arguments = self.arguments()
        del arguments["outstanding"]
        with pytest.raises(InvalidInput, match="the bound also needs outstanding; got n_rounds, "):
            theory.table(arguments)

    def test_the_types_name_the_arguments_that_are_checked(self):
        assert list(Arguments.__annotations__.keys()) == list(ALLOWED)
