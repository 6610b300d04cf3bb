"""The exponential of many numbers at once: a few vector instructions, and the same bits wherever it is computed.

With n the integer nearest to x / ln 2 and r = x - n ln 2, exp(x) = 2^n exp(r). Since |r| < .35, thirteen terms of the
series leave out less than 4e-18 of exp(r); n is added to the exponent of the result. The error is below two units in
the last place.
"""

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.records import Array

LOWEST = -700.0  # below, the exponential counts as that of this: 1e-304
PER_LN2 = 1.4426950408889634
LN2 = 6.93147180369123816490e-01  # ln 2 in two parts, so that n times the first is exact
REST_OF_LN2 = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 x 2^52: a number added to it is rounded to an integer, which is in its last bits then
EXPONENT = 52  # where the exponent of a double begins


@kernel
def exponentials(x: Array, room: Array) -> None:
    """Replace every x, all at most 0, by exp(x); `room` is as long."""
    for k in range(x.size):
        value = x[k] if x[k] > LOWEST else LOWEST
        room[k] = value * PER_LN2 + ROUND
        n = room[k] - ROUND
        r = (value - n * LN2) - n * REST_OF_LN2
        x[k] = series(r, r * r)
    bits = x.view(np.int64)
    integers = room.view(np.int64)
    for k in range(x.size):
        bits[k] += integers[k] << EXPONENT


@kernel
def series(r: float, s: float) -> float:
    """Return 1 + r + r^2/2! + ... + r^13/13!, the even terms and the odd ones side by side; s is r^2."""
    even = s * (1 / 24 + s * (1 / 720 + s * (1 / 40320 + s * (1 / 3628800 + s * (1 / 479001600)))))
    odd = s * (1 / 120 + s * (1 / 5040 + s * (1 / 362880 + s * (1 / 39916800 + s * (1 / 6227020800)))))
    return (1.0 + s * (1 / 2 + even)) + r * (1.0 + s * (1 / 6 + odd))
