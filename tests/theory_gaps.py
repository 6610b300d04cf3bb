"""What the tests of inverse gaps share: random rounds, the error in a triangle, the relative entropy of coins."""

import numpy as np
from hypothesis import strategies as st

CHANCES = st.floats(0, 1) | st.floats(0, 1e-3) | st.sampled_from([0.0, 0.25, 1.0])
GAMMAS = st.floats(1, 100) | st.floats(1, 1e6)  # times 2 K


@st.composite
def rounds(draw):
    """Draw predicted and true losses of 2 to 30 labels, many of them close to each other, and a gamma from 2 K."""
    K = draw(st.integers(2, 30))
    predicted = np.array(draw(st.lists(CHANCES, min_size=K, max_size=K)))
    true = np.array(draw(st.lists(CHANCES, min_size=K, max_size=K)))
    share = draw(st.sampled_from([0.0, 0.5, 0.99]))
    return predicted, share * predicted + (1 - share) * true, 2 * K * draw(GAMMAS)


def triangular(predicted, true):
    total = predicted + true
    return np.where(total > 0, (predicted - true) ** 2 / np.where(total > 0, total, 1), 0)


def entropy(true, predicted):
    """Return the relative entropy of two coins."""
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(true > 0, true * (np.log(true) - np.log(predicted)), 0)
        tails = np.where(true < 1, (1 - true) * (np.log(1 - true) - np.log(1 - predicted)), 0)
    return heads + tails
