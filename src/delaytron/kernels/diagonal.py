"""Second-order steps with a diagonal A, kept as `inverse`: its entries 1/A stand as those of W do."""

from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import as_matrix, zero_weights
from delaytron.records import Array, Size

SMALLEST_SHRINKAGE = 2.0**-40  # where a step is taken back A shrinks, at most so far: rounding must not make it vanish


def inverse_diagonal(entries: Array, size: Size) -> Array:
    """Return 1/A for every run, all entries of a run the same; 0 in the padding, where nothing then moves."""
    inverse = zero_weights(entries.size, size)
    for r, entry in enumerate(entries):
        as_matrix(inverse[r], size.n_classes, size.sparse)[:] = entry
    return inverse


@kernel
def follow(w: float, inverse: float, h: float, omega: float, tau: float) -> tuple[float, float]:
    """Return theta/A and 1/A after A += omega h^2 and theta += tau h, with one division."""
    v = inverse * h
    shrink = 1.0 / max(1.0 + omega * h * v, SMALLEST_SHRINKAGE)
    return (w + tau * v) * shrink, inverse * shrink


@kernel
def grow_class(W: Array, inverse: Array, k: int, omega: float, tau: float, indices: Any, values: Array) -> None:
    """A step along e_k (x) x with a diagonal A."""
    if indices is None:
        for j in range(values.size):
            W[k, j], inverse[k, j] = follow(W[k, j], inverse[k, j], values[j], omega, tau)
    else:
        for i in range(values.size):
            j = indices[i]
            W[j, k], inverse[j, k] = follow(W[j, k], inverse[j, k], values[i], omega, tau)


@kernel
def grow_classes(W: Array, inverse: Array, h: Array, omega: float, tau: float, indices: Any, values: Array) -> None:
    """A step along h (x) x with a diagonal A; h is as long as a feature's weights are, 0 in the padding."""
    if indices is None:
        for k in range(h.size):
            grow_class(W, inverse, k, omega * h[k] * h[k], tau * h[k], indices, values)
    else:
        for i in range(values.size):
            w = W[indices[i]]
            a = inverse[indices[i]]
            for k in range(h.size):
                w[k], a[k] = follow(w[k], a[k], h[k] * values[i], omega, tau)


@kernel
def compare(W: Array, inverse: Array, rival: int, label: int, indices: Any, values: Array) -> tuple[float, float]:
    """Return <h, W> and h'A^-1 h for h = (e_rival - e_label) (x) x and a diagonal A."""
    delta, hv = 0.0, 0.0
    for i in range(values.size):
        value = values[i]
        if indices is None:
            delta += value * (W[rival, i] - W[label, i])
            hv += value * value * (inverse[rival, i] + inverse[label, i])
        else:
            j = indices[i]
            delta += value * (W[j, rival] - W[j, label])
            hv += value * value * (inverse[j, rival] + inverse[j, label])
    return delta, hv
