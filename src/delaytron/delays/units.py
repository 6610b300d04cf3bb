"""Units of time that a file may have its times in."""

from delaytron.checks import check_choice

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # in seconds


def seconds_in(unit: str | None) -> float:
    """Return how many seconds a unit of time has; without one, numbers are seconds.

    Examples
    --------
    >>> seconds_in("min"), seconds_in(None)
    (60.0, 1.0)
    """
    return 1.0 if unit is None else UNITS[check_choice("unit", unit, UNITS)]
