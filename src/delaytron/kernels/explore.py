"""How labels are chosen: policies that fill the K probabilities, the draw from them, and sets of m of K labels.

`allowed` has the labels among which to choose, in ascending order; None means all of them, and costs nothing.
"""

from typing import Any

from delaytron.compiler.kernel import kernel, slot
from delaytron.kernels.linear import score
from delaytron.records import Array, Row

policy: Any = slot()  # (state, params, x, allowed, scores, p) -> greedy label; fills the K probabilities p
shares_ties: Any = slot()  # True if labels of equal scores share the probability of the greedy one, else False
note: Any = slot()  # (state, params, x, scores, p, greedy, label, extra): write what the update will need to `extra`


@kernel
def pick_one(
    state: Any, params: Any, x: Row, allowed: Any, u: float, scratch: tuple[Array, Array], extra: Array
) -> tuple[int, int, float]:
    """Play one label; return the greedy label, the played one and its probability."""
    scores, p = scratch
    greedy = policy(state, params, x, allowed, scores, p)
    if shares_ties:
        share_ties(scores, greedy, allowed, p)
    label = draw(p, allowed, u)
    if shares_ties and scores[label] == scores[greedy]:
        greedy = label
    note(state, params, x, scores, p, greedy, label, extra)
    return greedy, label, p[label]


@kernel
def share_ties(scores: Array, greedy: int, allowed: Any, p: Array) -> None:
    """Give all labels with the score of the greedy one the mean of their probabilities."""
    total = 0.0
    count = 0
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        if scores[r] == scores[greedy]:
            total += p[r]
            count += 1
    for i in range(n_allowed(allowed, p.size)):
        r = allowed_label(allowed, i)
        if scores[r] == scores[greedy]:
            p[r] = total / count


@kernel
def note_nothing(
    state: Any, params: Any, x: Row, scores: Array, p: Array, greedy: int, label: int, extra: Array
) -> None:
    """Write nothing: the row, the labels and the probability are all that most updates need."""


@kernel
def n_allowed(allowed: Any, n_classes: int) -> int:
    """Return the number of labels to choose from."""
    if allowed is None:
        return n_classes
    return int(allowed.size)


@kernel
def allowed_label(allowed: Any, i: int) -> int:
    """Return the i-th label to choose from."""
    if allowed is None:
        return i
    return int(allowed[i])


@kernel
def exclude_others(allowed: Any, p: Array) -> None:
    """Give probability 0 to the labels that are not allowed."""
    if allowed is not None:
        p[:] = 0.0


@kernel
def argmax(scores: Array, allowed: Any, n_classes: int) -> int:
    """Return the class with the highest score, the lowest number among equals."""
    best = allowed_label(allowed, 0)
    top = scores[best]
    for i in range(1, n_allowed(allowed, n_classes)):
        r = allowed_label(allowed, i)
        if scores[r] > top:
            best = r
            top = scores[r]
    return best


@kernel
def rival_of(scores: Array, allowed: Any, n_classes: int, label: int) -> int:
    """Return the class with the highest score apart from `label`, the lowest number among equals.

    There must be at least two classes.
    """
    start = 1 if label == allowed_label(allowed, 0) else 0
    best = allowed_label(allowed, start)
    for i in range(start + 1, n_allowed(allowed, n_classes)):
        r = allowed_label(allowed, i)
        if r != label and scores[r] > scores[best]:
            best = r
    return best


@kernel
def explore_greedily(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K (Algorithm 1, lines 3 and 4); return the greedy label."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    mix_greedily(greedy, params.gamma, allowed, p)
    return greedy


@kernel
def mix_greedily(greedy: int, gamma: float, allowed: Any, p: Array) -> None:
    """P(r) = (1 - gamma) 1[r = greedy] + gamma / K."""
    K = n_allowed(allowed, p.size)
    uniform = gamma / K
    exclude_others(allowed, p)
    for i in range(K):
        p[allowed_label(allowed, i)] = uniform
    p[greedy] = (1.0 - gamma) + uniform


@kernel
def follow_greedily(state: Any, params: Any, x: Row, allowed: Any, scores: Array, p: Array) -> int:  # noqa: ARG001
    """Always play the greedy label: learners that get the true label need not explore."""
    score(state.W, x.indices, x.values, scores)
    greedy = argmax(scores, allowed, p.size)
    p[:] = 0.0
    p[greedy] = 1.0
    return greedy


@kernel
def draw(p: Array, allowed: Any, u: float) -> int:
    """Return the first class whose cumulative probability exceeds u (the last one if rounding leaves none)."""
    cumulative = 0.0
    K = n_allowed(allowed, p.size)
    for i in range(K):
        r = allowed_label(allowed, i)
        cumulative += p[r]
        if u < cumulative:
            return r
    return allowed_label(allowed, K - 1)


# Sets of m of K labels: as bits, from the best scores, by rank among all sets, and the estimate that an answer gives.
#
# Bit r % 32 of number r // 32 says whether label r is in the set. `sets` holds two sets, one in each half: the one that
# was played, and the one of the best labels.
BITS = 32  # a float holds 53, but 32 are addressed by a shift
# The smaller of m and K - m is at most this if there are fewer than 2^53 sets, because C(58, 29) > 2^53.
MAX_SMALLER_SIDE = 28


def n_numbers(n_classes: int) -> int:
    """Return how many numbers a set of labels takes.

    Examples
    --------
    >>> [n_numbers(k) for k in (2, 32, 33)]
    [1, 1, 2]
    """
    return -(-n_classes // BITS)


@kernel
def holds(sets: Array, first: int, label: int) -> bool:
    """Return whether the set that begins at number `first` contains a label."""
    return bool(int(sets[first + (label >> 5)]) >> (label & 31) & 1)


@kernel
def put(sets: Array, first: int, label: int) -> None:
    """Add a label, which it must not contain yet, to the set that begins at number `first`."""
    sets[first + (label >> 5)] += 1 << (label & 31)


@kernel
def put_best(scores: Array, m: int, marks: Array, sets: Array, first: int) -> None:
    """Put the m labels with the highest scores, the lowest numbers among equals, into an empty set.

    The labels are found one by one; if fewer are left out than taken, those that are left out. `marks` is a buffer of K
    numbers.
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
    The smaller of j and n - j is at most MAX_SMALLER_SIDE, so no product overflows 64 bits.
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
    1 and 1_Shat, with coefficients from two equations for 1'v and 1_Shat'v, solved by hand; `shared` labels are in both
    sets. The factors of 1 - gamma are integers, so no digits are lost where they cancel.
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
