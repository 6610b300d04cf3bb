"""Coverage of the intervals, on logs whose true value is known."""

import warnings

import numpy as np
import pytest

import delaytron as dt
from delaytron.evaluation.estimators import Z
from delaytron.evaluation.evaluate import EvaluationWarning
from known_logs import TRUTH, make_log

WAITING = {"mean_wait": 0.2}
METHODS = ("ips", "snips", "dr")


KINDS = {"complete": {}, "late": WAITING, "never": {"mean_wait": 0.1, "never": 0.3}}


def estimates(methods, repetitions, n_rows, first=0, **kind):
    """Return, for each method, value, low and high of many logs."""
    found = {method: [] for method in methods}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvaluationWarning)
        for seed in range(first, first + repetitions):
            made = make_log(seed, n_rows, **kind)
            for method, values in found.items():
                one = dt.evaluate(made.log, made.policy, method, seed=seed)
                values.append((one.value, one.low, one.high))
    return {method: np.array(values).T for method, values in found.items()}


def coverage(low, high):
    return np.mean((low <= TRUTH) & (high >= TRUTH))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover(kind):
    for value, low, high in estimates(METHODS, 200, 600, **KINDS[kind]).values():
        assert 0.89 < coverage(low, high) < 0.99  # four deviations
        assert abs(value.mean() - TRUTH) < 4 * value.std() / np.sqrt(value.size)
        assert (high - low).mean() / (2 * Z) == pytest.approx(value.std(), rel=0.2)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_in_93_to_97_percent(kind):
    found = estimates(METHODS, 1000, 1500, first=10_000, **KINDS[kind])
    shares = {method: coverage(low, high) for method, (_, low, high) in found.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares
    for value, _, _ in found.values():
        assert abs(value.mean() - TRUTH) < 3.5 * value.std() / np.sqrt(value.size)


def test_replay_covers():
    _, low, high = estimates(["replay"], 200, 1500)["replay"]
    assert 0.89 < coverage(low, high) < 0.99


def test_dr_varies_less_than_ips():
    found = estimates(["ips", "dr"], 100, 600)
    assert found["dr"][0].std() < 0.7 * found["ips"][0].std()


def naive(log, policy, late):
    """Return the interval of IPS if missing outcomes count as wrong, or are left out."""
    arrived = ~np.isnan(log.outcomes)
    w = policy[np.arange(len(log)), log.labels] / log.probs
    terms = (w * np.where(arrived, log.outcomes, 0.0))[slice(None) if late == "wrong" else arrived]
    margin = Z * terms.std(ddof=1) / np.sqrt(terms.size)
    return terms.mean() - margin, terms.mean() + margin


def test_late_outcomes_counted_as_wrong_do_not_cover():
    logs = [make_log(seed, 600, **WAITING) for seed in range(100)]
    low, high = np.array([naive(made.log, made.policy, "wrong") for made in logs]).T
    assert coverage(low, high) < 0.5
    _, low, high = estimates(["ips"], 100, 600, **WAITING)["ips"]
    assert coverage(low, high) > 0.85
