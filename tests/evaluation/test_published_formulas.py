"""The estimators of Open Bandit Pipeline, written down from their publications, give the same numbers."""

import numpy as np
import pytest

import delaytron as dt
from delaytron.evaluation.estimators import Z
from known_logs import make_log

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not contain the error:delaytron.evaluation.evaluate.EvaluationWarning"
)


@pytest.fixture(scope="module")
def made():
    return make_log(3, n_rows=700)


def parts(made, m=None):
    """Return reward, weight and, for each round, expected rewards of the label and of the policy."""
    log = made.log
    reward, action, pscore = (np.asarray(a) for a in (log.outcomes, log.labels, log.probs))
    n = reward.size
    iw = np.array([made.policy[t, action[t]] / pscore[t] for t in range(n)])
    if m is None:
        return reward, iw
    q = np.array([m[t, action[t]] for t in range(n)])
    pi_q = np.array([np.average(m[t], weights=made.policy[t]) for t in range(n)])
    return reward, iw, q, pi_q


def close(found, value, terms):
    """Check a value, and the interval of the mean of independent terms."""
    margin = Z * np.std(terms, ddof=1) / np.sqrt(len(terms))
    np.testing.assert_allclose(
        [found.value, found.low, found.high], [value, value - margin, value + margin], rtol=1e-12
    )


def test_ipw(made):
    reward, iw = parts(made)
    close(dt.evaluate(made.log, made.policy, "ips"), (iw * reward).mean(), iw * reward)


def test_snipw(made):
    reward, iw = parts(made)
    value = (iw * reward).mean() / iw.mean()
    found = dt.evaluate(made.log, made.policy, "snips")
    assert found.value == pytest.approx(value, rel=1e-12)
    n = reward.size
    cov = np.cov(iw * reward, iw)  # the delta method for a ratio of means
    variance = (cov[0, 0] - 2 * value * cov[0, 1] + value**2 * cov[1, 1]) / iw.mean() ** 2 / n
    np.testing.assert_allclose(found.high - found.value, Z * np.sqrt(variance), rtol=1e-10)


def test_dm(made):
    m = np.random.default_rng(0).random(made.policy.shape)
    _, _, _, pi_q = parts(made, m)
    close(dt.evaluate(made.log, made.policy, "dm", predictions=m), pi_q.mean(), pi_q)


def test_dr(made):
    m = np.random.default_rng(0).random(made.policy.shape)
    reward, iw, q, pi_q = parts(made, m)
    terms = iw * (reward - q) + pi_q
    close(dt.evaluate(made.log, made.policy, "dr", predictions=m), terms.mean(), terms)


@pytest.mark.parametrize("method", ["ips", "snips", "dm", "dr"])
def test_the_error_is_estimated_from_errors(made, method):
    m = np.random.default_rng(0).random(made.policy.shape)
    more = {"predictions": m} if method in ("dm", "dr") else {}
    mirrored = dt.logs.from_arrays(
        features=made.log.features,
        labels=made.log.labels,
        probs=made.log.probs,
        rewards=1 - made.log.outcomes,
        n_classes=3,
    )
    error = dt.evaluate(made.log, made.policy, method, quantity="error", **more)
    more = {"predictions": 1 - m} if more else {}
    as_reward = dt.evaluate(mirrored, made.policy, method, **more)
    assert (error.value, error.low, error.high) == (as_reward.value, as_reward.low, as_reward.high)


def test_the_effective_size_is_that_of_kish(made):
    _, iw = parts(made)
    for method in ("ips", "snips", "dr"):
        found = dt.evaluate(made.log, made.policy, method)
        assert found.effective_size == pytest.approx(iw.sum() ** 2 / (iw**2).sum(), rel=1e-12)
    assert (found.n_rounds, found.n_outcomes) == (700, 700)


def test_clipping_is_off_unless_asked_for(made):
    reward, iw = parts(made)
    assert iw.max() > 3
    close(
        dt.evaluate(made.log, made.policy, "ips", clip=3),
        np.minimum(iw, 3).dot(reward) / 700,
        np.minimum(iw, 3) * reward,
    )


def test_the_logged_policy_has_the_mean_outcome(made):
    for method in ("ips", "snips", "dr"):
        found = dt.evaluate(made.log, "logged", method)
        assert found.value == pytest.approx(made.log.outcomes.mean(), rel=1e-12)
        assert found.effective_size == pytest.approx(700, rel=1e-12)
