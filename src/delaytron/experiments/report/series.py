"""The lines of charts: results turned into means with what is around them, and lines that would hide each other."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from delaytron.experiments.report.model import DAGGER, FEW_RUNS, Numbers, Panel, Series, estimate, span
from delaytron.simulation.results import Result

LONGEST_NAME = 60


def means(label: str, x: Numbers, results: Sequence[Result], style: int) -> Series:
    """Return final errors with their 95 % intervals; a single run has none."""
    estimates = [estimate(result.final_error) for result in results]
    margins = [one.margin if one.runs > 1 else 0.0 for one in estimates]
    values = [one.value for one in estimates]
    return Series(
        label,
        x,
        values,
        [value - margin for value, margin in zip(values, margins, strict=True)],
        [value + margin for value, margin in zip(values, margins, strict=True)],
        style,
        runs=[one.runs for one in estimates],
    )


def curve(label: str, result: Result, style: int, dashed: bool = False) -> Series:
    """Return errors so far, as far as no run is at 0: a log axis has no place for it."""
    shown = (result.error_rate > 0).all(axis=0)
    errors = result.error_rate[:, shown]
    return Series(
        label,
        result.rounds[shown].astype(float).tolist(),
        errors.mean(axis=0).tolist(),
        errors.min(axis=0).tolist(),
        errors.max(axis=0).tolist(),
        style,
        dashed,
        runs=[len(errors)] * errors.shape[1],
    )


def with_dashes(series: Sequence[Series]) -> tuple[Series, ...]:
    """Return the same series; one that lies on an earlier one is dashed, so that both are seen."""
    hiding = {later.label for earlier, later in combinations(series, 2) if _equal(earlier, later)}
    return tuple(one._replace(dashed=one.dashed or one.label in hiding) for one in series)


def equal_series(panels: Iterable[Panel]) -> Mapping[str, str]:
    """Return which series are the same as an earlier one in all panels where both are, by their labels."""
    verdicts: dict[tuple[str, str], bool] = {}
    for panel in panels:
        for earlier, later in combinations(panel.series, 2):
            pair = (later.label, earlier.label)
            verdicts[pair] = verdicts.get(pair, True) and _equal(earlier, later)
    same: dict[str, str] = {}
    for (later_label, earlier_label), equal in verdicts.items():
        if equal:
            same.setdefault(later_label, earlier_label)
    return same


def _equal(earlier: Series, later: Series) -> bool:
    """Whether the later series has no value that the earlier one has not, at the same place."""
    values = dict(zip(earlier.x, earlier.y, strict=True))
    return bool(later.x) and all(values.get(x) == y for x, y in zip(later.x, later.y, strict=True))


def of_runs(counts: Iterable[int], few_marked: bool = True) -> str:
    """Return of how many runs something is, with a dagger where these are few.

    Examples
    --------
    >>> of_runs([20, 20]), of_runs([4, 20]), of_runs([1])
    ('of 20 runs', 'of 4 to 20 runs†', 'of 1 run')
    """
    words = runs_in_words(counts)
    return f"of {words if few_marked else words.removesuffix(DAGGER)}"


def runs_in_words(counts: Iterable[int]) -> str:
    """Return some numbers of runs, with a dagger where these are few."""
    kept = set(counts)
    if kept == {1}:
        return "1 run"
    return f"{span(kept)} runs" + (DAGGER if min(kept) < FEW_RUNS else "")


def distinct(names: Iterable[str]) -> list[str]:
    """Return every name once, in the order in which they come first.

    Examples
    --------
    >>> distinct(["b", "a", "b"])
    ['b', 'a']
    """
    return list(dict.fromkeys(names))


def file_names(titles: Sequence[str]) -> dict[str, str]:
    """Return a name for the files of each title, no two the same.

    Examples
    --------
    >>> file_names(["a/b", "a b", "soba"])
    {'a/b': 'a-b', 'a b': 'a-b-2', 'soba': 'soba'}
    """
    names: dict[str, str] = {}
    for title in titles:
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-")[:LONGEST_NAME] or "learner"
        taken = [name for name in names.values() if name == plain or name.startswith(f"{plain}-")]
        names[title] = f"{plain}-{len(taken) + 1}" if taken else plain
    return names
