"""Sets of m of K labels: held 32 labels to a number, ranked by score, drawn by number, and what an answer tells.

Bit r % 32 of number r // 32 says whether label r is in. Two sets stand side by side, each in half of `sets`: the
one that was played, and the one that looked best.
"""

from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.records import Array

BITS = 32  # a float would hold 53, but 32 are found by a shift
MAX_SMALLER_SIDE = (
    28  # the smaller of m and K - m is at most this where there are fewer than 2^53 sets, as C(58, 29) > 2^53
)


def n_numbers(n_classes: int) -> int:
    """Return how many numbers a set takes.

    Examples
    --------
    >>> [n_numbers(k) for k in (2, 32, 33)]
    [1, 1, 2]
    """
    return -(-n_classes // BITS)


@kernel
def holds(sets: Array, first: int, label: int) -> bool:
    """Whether the set that begins at number `first` holds a label."""
    return bool(int(sets[first + (label >> 5)]) >> (label & 31) & 1)


@kernel
def put(sets: Array, first: int, label: int) -> None:
    """Put a label, which is not in yet, into the set that begins at number `first`."""
    sets[first + (label >> 5)] += 1 << (label & 31)


@kernel
def put_best(scores: Array, m: int, marks: Array, sets: Array, first: int) -> None:
    """Put the m labels with the highest scores, the lowest numbers among equals, into an empty set.

    They are found one by one; where those to be left out are fewer, these are. `marks` is room for K numbers.
    """
    K = marks.size
    few = 2 * m <= K
    sign = 1.0 if few else -1.0
    marks[:] = 0.0
    for _ in range(min(m, K - m)):
        best = -1
        for i in range(K):
            r = i if few else K - 1 - i
            if marks[r] == 0.0 and (best < 0 or sign * scores[r] > sign * scores[best]):
                best = r
        marks[best] = 1.0
    for r in range(K):
        if (marks[r] == 1.0) == few:
            put(sets, first, r)


@kernel
def put_ranked(rank: int, n_sets: int, m: int, n_classes: int, sets: Array) -> None:
    """Put the labels of one of the `n_sets` = C(K, m) sets, in the order of their ascending lists, into an empty set.

    Of the C(n, j) ways to take j of the last n labels, C(n, j) j / n take the first of them, and these come first.
    The smaller of j and n - j is at most FEW, so no product leaves 64 bits.
    """
    ways, j = n_sets, m
    for r in range(n_classes):
        n = n_classes - r
        taking = ways * j // n if 2 * j <= n else ways - ways * (n - j) // n
        if rank < taking:
            put(sets, 0, r)
            ways, j = taking, j - 1
        else:
            rank, ways = rank - taking, ways - taking


@kernel
def add_per_set(sets: Array, m: int, n_sets: int, prob: float, change: Array) -> None:
    """Add 1_S / (P(S) C(K - 2, m - 1)) to `change`, which has K numbers."""
    K = float(change.size)
    ways = n_sets * (m * (K - m) / (K * (K - 1.0)))
    for r in range(change.size):
        if holds(sets, 0, r):
            change[r] += 1.0 / (prob * ways)


@kernel
def add_per_label(sets: Array, m: int, gamma: float, change: Array) -> None:
    """Add v = Pi^-1 1_S to `change`, where Pi_rq is the probability that r and q are both in the set that is played.

    Pi is a multiple of I, plus one of 11', plus 1 - gamma times the best set's 1_Shat 1_Shat', so v is a sum of 1_S,
    1 and 1_Shat, and two equations for 1'v and 1_Shat'v say of how much. Solved by hand; `shared` labels are in both
    sets. What multiplies 1 - gamma are integers, so nothing is lost where they cancel.
    """
    K = float(change.size)
    half = sets.size // 2
    shared = 0.0
    for r in range(change.size):
        if holds(sets, 0, r) and holds(sets, half, r):
            shared += 1.0
    out = K - m
    exploit = 1.0 - gamma
    uniform = gamma / K
    scale = (K - 1.0) / (uniform * (exploit + uniform) * (m * m * out * out))
    inside = uniform * m * out * out / (K - 1.0)
    outside = -uniform * m * out * (m - 1.0) / (K - 1.0)
    for r in range(change.size):
        if holds(sets, 0, r):
            times = (m - shared) * out if holds(sets, half, r) else m * out - (m - 1.0) * (m - shared)
            change[r] += scale * (exploit * times + inside)
        else:
            times = -shared * out if holds(sets, half, r) else -(m - 1.0) * (m - shared)
            change[r] += scale * (exploit * times + outside)


@kernel
def add_to_all(W: Array, change: Array, indices: Any, values: Array) -> None:
    """W_k += change_k x, for every k."""
    if indices is None:
        for k in range(change.size):
            for j in range(values.size):
                W[k, j] += change[k] * values[j]
    else:
        for i in range(values.size):
            w = W[indices[i]]
            for k in range(change.size):
                w[k] += change[k] * values[i]
