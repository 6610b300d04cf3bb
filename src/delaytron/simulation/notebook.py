"""How the result of a simulation looks in a notebook."""

from typing import Any

import numpy as np

from delaytron.formats import assignments, with_margin
from delaytron.notebooks import Curve, curve_figure, facts, page, table
from delaytron.records import Array
from delaytron.simulation.results import Result

COLUMNS = ("setting", "error", "greedy error")


def show(result: Result) -> str:
    """Return the errors of the best setting, its curve with a 95 % interval, and what all settings came to."""
    parts = sorted((part for _, part in result.groups()), key=lambda part: part.final_error.mean())
    best = parts[0]
    errors = best.errors()
    told: dict[str, Any] = {
        "delay": result.delay,
        "runs": f"{len(best.run)} of {result.rounds[-1]} rounds",
        "error": with_margin(errors["error"], errors["error_margin"]),
        "greedy error": with_margin(errors["greedy_error"], errors["greedy_error_margin"]),
        "most frequent class (dashed)": result.majority_error,
    }
    if best.parameters[0]:
        told = {"best setting" if len(parts) > 1 else "setting": assignments(best.parameters[0])} | told
    figure = curve_figure(_curve(best), result.majority_error)
    title = f"{result.learner} on {result.dataset}"
    return page(title, facts(told), figure, _settings(parts) if len(parts) > 1 else "")


def _curve(result: Result) -> Curve:
    rates = result.error_rate
    margins = half_widths(rates)
    return Curve("error so far", result.rounds.tolist(), rates.mean(axis=0).tolist(), margins.tolist())


def half_widths(values: Array) -> Array:
    """Return the half widths of the 95 % intervals of the means over runs, one for each column; NaN for a single run.

    Examples
    --------
    >>> half_widths(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])).round(3).tolist()
    [2.484, 0.0]
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.nan)
    return np.asarray(stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n))


def _settings(parts: list[Result]) -> str:
    return table(COLUMNS, (_row(part) for part in parts), len(parts))


def _row(part: Result) -> tuple[str, str, str]:
    errors = part.errors()
    played = with_margin(errors["error"], errors["error_margin"])
    return assignments(part.parameters[0]), played, with_margin(errors["greedy_error"], errors["greedy_error_margin"])
