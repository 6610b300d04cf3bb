"""The pieces of the loop, and how they are compiled."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delaytron.compiler.kernel import fill, interpreted, kernel, slot
from delaytron.kernels import lanes
from delaytron.kernels.explore import argmax, draw
from delaytron.kernels.linear import add_row, padded, score_dense, score_sparse, zero_weights
from delaytron.kernels.loop import schedule, sort_arrivals
from delaytron.records import Size
from streams import same_bits

score_dense_, score_sparse_ = fill(score_dense, "test.dense"), fill(score_sparse, "test.sparse")
add_, draw_, argmax_ = fill(add_row, "test.add"), fill(draw, "test.draw"), fill(argmax, "test.argmax")

shapes = st.tuples(st.integers(1, 60), st.integers(1, 70), st.integers(0, 2**32))


@given(shapes)
def test_dense_scores_are_the_same_to_the_bit_compiled_and_interpreted(shape):
    K, d, seed = shape
    rng = np.random.default_rng(seed)
    W, x, ours, theirs = rng.normal(size=(K, d)), rng.normal(size=d), np.empty(K), np.empty(K)
    score_dense_(W, x, ours)
    interpreted(score_dense)(W, x, theirs)
    assert same_bits(ours, theirs)
    np.testing.assert_allclose(ours, W @ x, atol=1e-12)


@given(shapes)
def test_sparse_scores_are_the_same_to_the_bit_compiled_and_interpreted(shape):
    K, d, seed = shape
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, padded(K)))
    indices = np.flatnonzero(rng.random(d) < 0.5).astype(np.uint32)
    values, ours, theirs = rng.normal(size=indices.size), np.empty(padded(K)), np.empty(padded(K))
    score_sparse_(W, indices, values, ours)
    interpreted(score_sparse)(W, indices, values, theirs)
    assert same_bits(ours, theirs)
    np.testing.assert_allclose(ours, values @ W[indices], atol=1e-12)


@given(st.integers(1, 200))
def test_padding_is_enough_and_not_too_much(K):
    assert K <= padded(K) < K + 8
    assert padded(K) % 16 in (0, 8, 12)


def test_weights_begin_on_a_cache_line():
    for shape in ((9, 400), (3, 7), (10, 1)):
        W = zero_weights(3, Size(*shape, sparse=False))
        assert W.shape == (3, *shape)
        assert W.ctypes.data % 64 == 0
        assert not W.any()


@given(st.lists(st.integers(1, 40) | st.just(2**62), min_size=1, max_size=50))
def test_arrivals_are_the_definition(delays):
    """S_t = {s : s + d_s = t}, ascending; nothing beyond the horizon."""
    T = len(delays)
    starts, arrivals = np.empty(T + 1, np.uint32), np.zeros(T, np.uint32)
    longest = schedule(np.array(delays), starts, arrivals)
    for t in range(T):
        assert arrivals[starts[t] : starts[t + 1]].tolist() == [s for s in range(T) if s + delays[s] == t]
    assert longest == max([d for s, d in enumerate(delays) if s + d < T], default=0)
    again = np.zeros(T + 1, np.uint32), np.zeros(T, np.uint32)
    assert interpreted(sort_arrivals)(np.array(delays), *again) == longest
    assert same_bits(again[0], starts)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_inverse_of_the_cumulative_distribution(weights, u):
    p = np.array(weights) / sum(weights)
    inside = np.flatnonzero(u < np.add.accumulate(p))
    expected = inside[0] if inside.size else len(p) - 1
    assert draw_(p, None, u) == interpreted(draw)(p, None, u) == expected


@given(st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12))
def test_argmax_takes_the_lowest_of_equals(scores):
    padded_scores = np.array([*scores, 99.0])
    assert (
        argmax_(padded_scores, None, len(scores))
        == interpreted(argmax)(padded_scores, None, len(scores))
        == np.argmax(scores)
    )


def test_an_update_touches_one_class():
    W = np.zeros((3, 4))
    add_(W, 1, 2.0, None, np.array([1.0, 0.0, -1.0, 0.5]))
    assert W.tolist() == [[0] * 4, [2.0, 0.0, -2.0, 1.0], [0] * 4]
    W = np.zeros((4, 8))
    add_(W, 1, 2.0, np.array([0, 3], np.uint32), np.array([1.0, 0.5]))
    assert W[:, 1].tolist() == [2.0, 0.0, 0.0, 1.0]
    assert np.count_nonzero(W) == 2


def test_lanes_sum_in_their_own_order():
    """(l0 + l2) + (l1 + l3), which differs from left to right where rounding bites."""
    tile = np.array([[1e16, 1.0, -1e16, 1.0]])
    out = np.empty(1)
    interpreted(lanes.store_totals)(tile, out, 0)
    assert out[0] == 2.0
    assert sum(tile[0]) != 2.0


hole = slot()


@kernel
def twice_hole(x):
    return 2 * hole(x)


@kernel
def plus_one(x):
    return x + 1


def test_a_template_becomes_a_kernel_when_its_slots_are_filled():
    filled = fill(twice_hole, hole=plus_one)
    assert filled(3) == interpreted(filled)(3) == 8
    with pytest.raises(TypeError):
        interpreted(twice_hole)(3)


OWN = """
import numpy as np, delaytron as dt
from delaytron.compiler.kernel import kernel
from delaytron.kernels.explore import follow_greedily
from delaytron.kernels.linear import add_row
from delaytron.learners.passive_aggressive import PerceptronParams as Params
from delaytron.learners.rule import Rule

@kernel
def step(state, params, past, correct):
    add_row(state.W, past.label, SCALE, past.x.indices, past.x.values)

class Own(dt.Learner):
    name = "own"
    rule = Rule("own", Params, follow_greedily, step)
    def __init__(self):
        super().__init__(2, 1, Params(), {"seed": 0})

print(dt.replay(Own(), [[1.0], [1.0]], [0, 1], [1, 1], [.1, .2]).weights[0, 0])
"""


@pytest.mark.cold
def test_an_edited_learner_of_the_user_is_compiled_again(tmp_path):
    environment, script, seen = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, tmp_path / "own.py", []
    for scale in ("1.0", "5.0"):
        script.write_text(OWN.replace("SCALE", scale))
        seen.append(
            subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        )
    assert [float(done.stdout) for done in seen] == [1.0, 5.0]


TINY = """
import sys, numpy as np, delaytron as dt
assert 'numba' not in sys.modules, 'import compiled something'
dt.replay(dt.Delaytron(3, 2), np.eye(2), [0, 1], [1, 1], [.1, .2])
play = dt.Delaytron.rule.play.compiled
print(sum(play.stats.cache_hits.values()), sum(play.stats.cache_misses.values()))
"""


@pytest.mark.cold
def test_a_second_process_finds_the_compiled_loop_on_disk(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    counts = [
        subprocess.run([sys.executable, "-c", TINY], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [line.split() for line in counts] == [["0", "1"], ["1", "0"]]
