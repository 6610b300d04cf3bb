"""Say once that the compiler works in a slower way than it could; the results are the same to the bit."""

import warnings
from functools import cache


class CompilerWarning(UserWarning):
    """Compiling takes longer, or happens more often, than it need; what is computed does not change."""


@cache
def warn_once(text: str) -> None:
    """Warn, in this process once: many kernels meet the same obstacle."""
    warnings.warn(text, CompilerWarning, stacklevel=2)
