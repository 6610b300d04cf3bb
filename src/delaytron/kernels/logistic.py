"""Logistic regression, one weight row per class, with AdaGrad."""

from math import exp, sqrt
from typing import Any

from delaytron.compiler.kernel import kernel
from delaytron.kernels.linear import score_of
from delaytron.records import Array


@kernel
def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    return exp(z) / (1.0 + exp(z))


@kernel
def adagrad_step(W: Array, G: Array, k: int, error: float, lr: float, indices: Any, values: Array) -> None:
    """G_k += g^2 and W_k -= lr g / sqrt(G_k), for the gradient g = error x."""
    if indices is None:
        for j in range(values.size):
            g = error * values[j]
            G[k, j] += g * g
            W[k, j] -= lr * g / sqrt(G[k, j])
    else:
        for i in range(values.size):
            g = error * values[i]
            G[indices[i], k] += g * g
            W[indices[i], k] -= lr * g / sqrt(G[indices[i], k])


@kernel
def logistic_step(W: Array, G: Array, k: int, answer: Any, lr: float, indices: Any, values: Array) -> None:
    """Teach row k whether it was right about x, or how much of it."""
    f = sigmoid(score_of(W, k, indices, values))
    adagrad_step(W, G, k, f - 1.0 * answer, lr, indices, values)
