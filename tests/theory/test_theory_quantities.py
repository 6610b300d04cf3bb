"""What delays contribute to the bounds, against plain counting; the identities and lemmas about them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron import theory
from delaytron.errors import InvalidInput
from delaytron.records import NEVER
from paper import adaptive_delaytron

EXAMPLE = [1, 3, 1, 2, 2, 1, 4, 1]
SMALL = [list(d) for T in range(1, 6) for d in product(range(1, T + 2), repeat=T)]
random_delays = st.lists(st.integers(1, 6) | st.integers(1, 100) | st.just(NEVER), min_size=1, max_size=60)


def received(delays):
    """S_t for all t, rounds counted from 1; S_0 is empty."""
    S = [[] for _ in range(len(delays) + 1)]
    for s, d in enumerate(delays, 1):
        if s + d <= len(delays):
            S[s + d].append(s)
    return S


def double_sum(S, timing):
    """The left side of Lemma 1 as it is printed, or with S_s applied before round s predicts."""
    total = 0
    for t, together in enumerate(S):
        for s in together:
            total += sum(q < s for q in together)
            total += sum(len(S[r]) for r in range(s + (timing == "before"), t))
    return total


def pairs(delays, timing):
    """Pairs of answered rounds of which the later one predicts before the earlier one is applied."""
    answered = [t for t, d in enumerate(delays, 1) if t + d <= len(delays)]
    late = int(timing == "after")
    return sum(q < s < q + delays[q - 1] + late for q in answered for s in answered)


def check_identities(delays):
    """Assert all that Lemma 1 and the proof of Theorem 4 say, or should say, of some delays."""
    T, run = len(delays), theory.measure(delays)
    never = theory.missing(delays)
    m, o = theory.waiting(delays), theory.outstanding(delays)
    late = theory.outstanding(delays, timing="after")
    rounds, S = range(1, T + 1), received(delays)
    assert never.tolist() == [t + d > T for t, d in enumerate(delays, 1)]
    assert m.tolist() == [t - sum(map(len, S[: t + 1])) for t in rounds]
    assert o.tolist() == [sum(q + delays[q - 1] > t for q in range(1, t)) for t in rounds]
    assert late.tolist() == [sum(q + delays[q - 1] >= t for q in range(1, t)) for t in rounds]
    assert m.sum() == sum(min(d, T - t + 1) for t, d in enumerate(delays, 1))
    assert o.sum() == sum(min(d - 1, T - t) for t, d in enumerate(delays, 1)) == run.outstanding
    assert late.sum() == sum(min(d, T - t) for t, d in enumerate(delays, 1))
    assert run.delay_received == sum(d for d, lost in zip(delays, never, strict=True) if not lost)
    assert run.total_delay == sum(delays)
    assert run.total_delay - run.delay_received >= run.missing * (run.missing + 1) / 2
    before, after = (theory.counting_sum(delays, timing=timing) for timing in ("before", "after"))
    assert before == double_sum(S, "before") == pairs(delays, "before")
    assert after == double_sum(S, "after") == pairs(delays, "after")
    assert before <= run.delay_received - (T - run.missing)
    assert after <= run.delay_received


def check_epochs(delays):
    """Assert that an epoch is that of its definition, that they come one by one, and what waits in one of them."""
    m, e = theory.waiting(delays), theory.epochs(delays)
    assert all(2 ** (epoch - 1) <= reached < 2**epoch for epoch, reached in zip(e.tolist(), np.cumsum(m), strict=True))
    assert np.diff(e, prepend=0).max() == 1
    assert all(m[e == epoch].sum() < 0.75 * 2**epoch for epoch in set(e.tolist()))


def test_identities_and_lemmas_hold_for_all_short_delays():
    assert len(SMALL) == 2 + 9 + 64 + 625 + 7776
    for delays in SMALL:
        check_identities(delays)


@given(random_delays)
def test_identities_and_lemmas_hold_for_random_delays(delays):
    check_identities(delays)


def test_epochs_come_one_by_one_for_all_short_delays():
    for delays in SMALL:
        check_epochs(delays)


@given(random_delays)
def test_epochs_come_one_by_one_for_random_delays(delays):
    check_epochs(delays)


@given(random_delays, st.sampled_from(["cumulative", "instant"]), st.booleans())
def test_epochs_are_those_of_the_learner(delays, tracker, count_self):
    T = len(delays)
    run = adaptive_delaytron(np.ones((T, 1)), [0] * T, delays, [0.5] * T, 2, 0.5, tracker, count_self)
    assert theory.epochs(delays, tracker=tracker, count_self=count_self).tolist() == run.epochs


def test_the_worked_example_is_counted():
    assert theory.measure(EXAMPLE) == (8, 2, 10, 15, 5, 1)
    assert theory.measure(EXAMPLE, timing="after")._asdict() == {
        "n_rounds": 8,
        "missing": 2,
        "delay_received": 10,
        "total_delay": 15,
        "outstanding": 11,
        "max_outstanding": 2,
    }
    assert np.flatnonzero(theory.missing(EXAMPLE)).tolist() == [6, 7]
    assert theory.waiting(EXAMPLE).sum() == 13
    assert theory.epochs(EXAMPLE).tolist() == [1, 2, 3, 3, 4, 4, 4, 4]
    assert theory.max_outstanding(EXAMPLE, timing="after") == 2


def test_delays_that_overflow_a_sum_are_added_exactly():
    assert theory.total_delay([NEVER] * 5 + [7]) == 5 * NEVER + 7
    assert theory.measure([NEVER] * 5).outstanding == 10
    problem = {"norm": 1, "n_classes": 2, "gamma": 0.1, "radius": 1, "n_rounds": 5, "loss_bound": 1}
    assert theory.corollary_1(**problem, total_delay=5 * NEVER) == pytest.approx((120 * 5 * NEVER) ** 0.5)


def test_a_million_equal_delays_are_counted_as_the_formulas_say():
    T, d = 10**6, 1000
    delays = np.full(T, d)
    assert theory.measure(delays) == (T, d, d * (T - d), d * T, (d - 1) * T - d * (d - 1) // 2, d - 1)
    assert theory.epochs(delays)[-1] == int(theory.waiting(delays).sum()).bit_length()
    answered = T - d
    assert theory.counting_sum(delays) == (d - 1) * answered - d * (d - 1) // 2


@pytest.mark.parametrize(
    "function", [theory.missing, theory.waiting, theory.measure, theory.epochs, theory.counting_sum]
)
@pytest.mark.parametrize(
    ("delays", "message"),
    [
        ([1, 0, 2], "delays must be at least 1, got 0 in round 2"),
        ([1, -1], "delays must be at least 1, got -1 in round 2"),
        ([1.5], "delays must be integers, got float64"),
        ([[1, 2], [3, 4]], "delays must be 2 numbers, one per round, got shape (2, 2) of int64"),
        ([[1, 2], [3]], "delays must be 2 numbers, one per round, got rows of different lengths"),
        (np.array([], int), "delays must be those of at least one round, got none"),
        (5, "delays must be one integer per round, got 5"),
        (np.array(5), "delays must be one integer per round, got array(5)"),
        ("12", "delays must be 2 numbers, one per round, got shape () of <U2"),
    ],
)
def test_wrong_delays_are_refused_in_one_line(function, delays, message):
    with pytest.raises(InvalidInput) as error:
        function(delays)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.outstanding([1], timing="late"), "timing must be one of before, after, got 'late'"),
        (lambda: theory.counting_sum([1], timing=None), "timing must be one of before, after, got None"),
        (lambda: theory.epochs([1], tracker="cum"), "tracker must be one of cumulative, instant, got 'cum'"),
        (lambda: theory.epochs([1], count_self="yes"), "count_self must be True or False, got 'yes'"),
    ],
)
def test_options_that_do_not_exist_are_refused_in_one_line(call, message):
    with pytest.raises(InvalidInput) as error:
        call()
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
