"""The exponential of several numbers at once: a few vector instructions, and the same bits wherever it is computed.

With n the integer nearest to x / ln 2 and r = x - n ln 2, exp(x) = 2^n exp(r). Since |r| < .35, thirteen terms of the
series leave out less than 4e-18 of exp(r); n is added to the exponent of the result. The error is below two units in
the last place.
"""

from delaytron.compiler.kernel import kernel
from delaytron.kernels.lanes import add_to_exponent, where_below
from delaytron.records import Array

LOWEST = -700.0  # below, the exponential counts as that of this: 1e-304
PER_LN2 = 1.4426950408889634
LN2 = 6.93147180369123816490e-01  # ln 2 in two parts, so that n times the first is exact
REST_OF_LN2 = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 x 2^52: a number added to it is rounded to an integer, which is in its last bits then


@kernel
def exponential(x: Array) -> Array:
    """Return exp(x) in every lane; all must be at most 0."""
    x = where_below(x, LOWEST, LOWEST, x)
    integers = x * PER_LN2 + ROUND
    n = integers - ROUND
    r = (x - n * LN2) - n * REST_OF_LN2
    return add_to_exponent(series(r, r * r), integers)


@kernel
def series(r: Array, s: Array) -> Array:
    """Return 1 + r + r^2/2! + ... + r^13/13!, the terms by fours side by side; s is r^2."""
    q = s * s
    low = (1 / 2 + r * (1 / 6)) + s * (1 / 24 + r * (1 / 120))
    middle = (1 / 720 + r * (1 / 5040)) + s * (1 / 40320 + r * (1 / 362880))
    high = (1 / 3628800 + r * (1 / 39916800)) + s * (1 / 479001600 + r * (1 / 6227020800))
    return 1.0 + (r + s * (low + q * (middle + q * high)))
