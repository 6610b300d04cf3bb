"""Errors of the paper, each shown by a number; `docs/explanation/theory.md` lists them with these names."""

import re
from pathlib import Path

import numpy as np
import pytest

import delaytron as dt
from delaytron import theory
from delaytron.records import NEVER
from theory_streams import hinge_loss, perceptron_estimate

ROOT = Path(__file__).parents[2]
X = np.array([[1, 0], [0, 1], [1, 1], [0.5, -1], [-1, 0.5], [1, 0.25], [-0.5, 1], [0.75, -0.5]])
Y = np.array([0, 1, 1, 2, 2, 0, 1, 0])
DELAYS = np.array([1, 3, 1, 2, 2, 1, 4, 1])
DRAWS = np.array([0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30])
GRID = [(2, 0.49), (3, 0.3), (9, 0.014)]


def play(learner, n_rounds, delays=DELAYS):
    return dt.replay(learner, X[:n_rounds], Y[:n_rounds], delays[:n_rounds], DRAWS[:n_rounds])


def test_the_update_takes_the_row_of_its_own_round():
    """Algorithm 1, line 9, prints x_t; the answer to round 4 comes in round 6, with P = 0.1 and eta = 0.5."""
    run = play(dt.Delaytron(n_classes=3, n_features=2, gamma=0.3, eta=0.5), 6)
    assert run.weights[2] == pytest.approx(0.5 / 0.1 * X[3])
    assert run.weights[2] != pytest.approx(0.5 / 0.1 * X[5])


def test_applied_after_the_prediction_a_delay_of_one_is_not_banditron():
    """As typeset, every answer is used one round later than the text says, as if all delays were larger by 1."""
    learner = dt.Delaytron(n_classes=3, n_features=2, gamma=0.3)
    prompt, typeset = (play(learner, 8, np.full(8, d)).greedy for d in (1, 2))
    assert (
        prompt.tolist() == play(dt.Banditron(n_classes=3, n_features=2, gamma=0.3), 8, np.ones(8, int)).greedy.tolist()
    )
    assert prompt.tolist() != typeset.tolist()


def test_without_delay_the_last_round_is_still_missing():
    """Case 1 has M empty and the sum T, against the definition of M."""
    run = theory.measure(np.ones(50, int))
    assert (run.missing, run.delay_received) == (1, 49)


def test_where_the_greedy_label_is_right_the_update_is_no_gradient():
    """The text has U as minus the gradient of the hinge loss; U is 0 where that loss can still fall."""
    W, x = np.array([[0.2], [0.0]]), np.ones(1)
    assert (W @ x).argmax() == 0
    _, U = perceptron_estimate((W @ x)[None], x, 0, np.zeros(1, int), np.ones(1))
    assert not U.any()
    step = 1e-3 * np.array([[1.0], [-1.0]])
    assert hinge_loss(W + step, x, 0) == pytest.approx(hinge_loss(W, x, 0) - 2e-3)


@pytest.mark.parametrize(("K", "gamma"), GRID)
def test_the_second_moment_is_above_that_of_the_proof_and_below_that_of_lemma_5(K, gamma):
    wrong = theory.second_moment(n_classes=K, gamma=gamma, greedy_right=False)
    assert K / gamma < wrong == pytest.approx(K / gamma * (1 + gamma / K))
    assert wrong < 2 * K / gamma
    assert theory.second_moment(n_classes=K, gamma=gamma, greedy_right=True) < 2 * gamma


def test_lemma_5_fails_for_a_rate_near_one():
    """Algorithm 2 takes gamma in (0, 1)."""
    assert theory.second_moment(n_classes=9, gamma=0.99, greedy_right=True) > 2 * 0.99
    rates = np.linspace(0.01, 0.5, 50)
    assert (theory.second_moment(n_classes=9, gamma=rates, greedy_right=True) <= 2 * rates).all()


def test_an_update_in_the_mean_is_longer_than_its_row_by_the_root_of_two():
    """The proofs of Theorems 1 and 3 have ||U|| <= R."""
    x = np.array([3.0, 4.0])
    _, U = perceptron_estimate(np.array([[1.0, 0.0]]), x, 1, np.zeros(1, int), np.ones(1))
    assert np.linalg.norm(U) == pytest.approx(2**0.5 * 5)


def test_the_distance_between_weights_grows_with_the_step():
    """The display has no eta: with one update in between and eta = 10, the mean distance is above sqrt(K / gamma)."""
    distance = 10 * theory.first_moment(n_classes=3, gamma=0.3, greedy_right=False)
    assert distance > np.sqrt(3 / 0.3)


def test_no_number_is_above_the_hinge_losses_of_all_weights():
    """Theorem 2 assumes one."""
    W, x = np.array([[1.0], [-1.0]]), np.ones(1)
    assert [float(hinge_loss(c * W, x, 1)) for c in (1, 10, 1000)] == [3, 21, 2001]


def test_the_first_line_of_corollary_1_has_a_square_too_many():
    terms = {"n_classes": 3, "gamma": 0.3, "radius": 1, "n_rounds": 8, "delay_received": 7, "missing": 1}
    norm = 0.5
    printed = theory.theorem_2(norm=norm**2, loss_bound=1, **terms)
    assert printed < theory.theorem_2(norm=norm, loss_bound=1, **terms)


def test_the_halves_in_the_proofs_of_both_corollaries_appear_from_nowhere():
    """With L = 0 the second line of the proof of Corollary 1 says a <= a / 2; that of Corollary 2 is much the same."""
    c, m, T, received = 2 * 2 / 0.49, 1, 10_000, 9_999
    root = np.sqrt(c * (T / 2 + 2 * received + m * T))
    assert root + m > root / 2 + np.sqrt(c / 2 * m * (m + 1)) / 2
    loss = 0
    root = np.sqrt(c * (T / 2 + 2 * received))
    assert root + loss * m > root / 2 + np.sqrt(c / 2 * loss**2 * m * (m + 1)) / 2


def test_corollary_2_as_proved_is_below_theorem_3_and_repaired_above():
    terms = {"norm": 1, "n_classes": 2, "gamma": 0.49, "radius": 1, "n_rounds": 10_000, "missing": 1}
    exact = theory.theorem_3(**terms, delay_received=9_999)
    assert exact == pytest.approx(535.51, abs=0.005)
    assert theory.corollary_2(**terms, total_delay=10_000) == pytest.approx(534.52, abs=0.005)
    assert theory.corollary_2(**terms, total_delay=10_000, repaired=True) > exact


def test_the_sum_of_waiting_rounds_is_not_the_one_printed():
    T = len(DELAYS)
    printed = sum(min(d, T - t - 1) for t, d in enumerate(DELAYS, 1))
    assert (printed, theory.waiting(DELAYS).sum()) == (9, 13)


def test_the_doubling_test_of_algorithm_2_sums_the_wrong_index():
    """The sum over s of m_t is t m_t, which falls again in round 7 and counts another epoch in rounds 4 and 8."""
    m = theory.waiting(DELAYS)
    printed = np.arange(1, 9) * m
    assert printed.tolist() == [1, 2, 6, 8, 10, 12, 7, 16]
    assert np.maximum.accumulate(np.floor(np.log2(printed)) + 1).tolist() == [1, 2, 3, 4, 4, 4, 4, 5]
    assert theory.epochs(DELAYS).tolist() == [1, 2, 3, 3, 4, 4, 4, 4]


def test_as_printed_algorithm_2_enters_an_epoch_with_the_weights_of_the_last():
    """The proof of Theorem 4 starts every epoch at 0; epoch 4 of the example begins in round 5."""
    learners = [
        dt.AdaptiveDelaytron(n_classes=3, n_features=2, gamma=0.3, restart=restart) for restart in (False, True)
    ]
    printed, proved = (play(learner, 5).weights for learner in learners)
    assert printed[0] == pytest.approx([-0.22855339059327379, -0.60355339059327373])
    assert not proved.any()


def test_more_can_wait_in_an_epoch_than_the_proof_of_theorem_4_has():
    delays = [NEVER] * 5
    m, e = theory.waiting(delays), theory.epochs(delays)
    assert m[e == 4].tolist() == [4, 5]
    assert 2**3 < m[e == 4].sum() < 0.75 * 2**4


def test_the_geometric_sum_of_theorem_4_lacks_the_root_of_two():
    E, root = 7, 2**0.5
    right = sum(2 ** (e / 2) for e in range(1, E + 1))
    assert right == pytest.approx(root * (2 ** (E / 2) - 1) / (root - 1))
    assert right > (2 ** (E / 2) - 1) / (root - 1)


def test_the_paper_counts_the_last_epoch_too_early():
    """The proof has a sum of at least 2^E - 1; two rounds without delay have E = 2 and the sum 2."""
    assert theory.epochs([1, 1])[-1] == 2
    assert 2**1 <= theory.waiting([1, 1]).sum() < 2**2 - 1


def test_two_roots_are_more_than_the_root_of_the_sum():
    """The last line of the proof of Theorem 4, with a = T and b = the sum of the delays."""
    a = b = 100
    assert 10 * a**0.5 + 10 * b**0.5 > 10 * (a + b) ** 0.5


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "explanation" / "theory.md").read_text()))
    written = "\n".join(path.read_text() for path in ROOT.glob("tests/theory/test_*.py"))
    defined = set(re.findall(r"^ *def (test_\w+)", written, re.MULTILINE))
    assert named <= defined
    assert named >= set(re.findall(r"^def (test_\w+)", Path(__file__).read_text(), re.MULTILINE)) - {
        "test_every_test_that_the_page_names_exists"
    }
