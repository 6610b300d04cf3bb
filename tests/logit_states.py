"""States of `BanditLogit` for the tests of its kernels, and rows to show them."""

import numpy as np

from delaytron.kernels.logit import NOW
from delaytron.learners.bandit_logit import BanditLogit, init
from delaytron.learners.rule import stack
from delaytron.records import Row, Size

PARAMS = BanditLogit(3, 1, seed=0).params


def new_state(d, sparse, K=3):
    """Return the state of one run that has seen nothing, long after its start: refreshes come as rows grow."""
    stacked = init(stack(PARAMS), Size(K, d, sparse))
    stacked.clock[0, NOW] = 1e9
    return type(stacked)(*(field[0] for field in stacked))


def as_row(x, sparse):
    """Return a dense row, or its non-zeros."""
    indices = np.flatnonzero(x).astype(np.uint32)
    return Row(indices, x[indices]) if sparse else Row(None, x)


def table_of(state, sparse):
    """Return the table with a row for each feature."""
    return state.features if sparse else state.features.T


def random_rows(shape):
    """Counts, most of them 0, and columns of very different sizes."""
    n, d, seed = shape
    rng = np.random.default_rng(seed)
    return rng.poisson(0.5, size=(n, d)) * 10.0 ** rng.integers(-6, 7, size=d)
