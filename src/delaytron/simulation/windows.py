"""Windows: the part of the data that a run needs at a time, all of it or, of a file in blocks, what is still open."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from delaytron.datasets import Dataset, FileStream
from delaytron.matrices import as_stream, stack_rows
from delaytron.records import Ints, Rounds, Scenarios, Stream


class Rows(NamedTuple):
    """Features, dense or CSR, and labels."""

    X: Any
    y: Ints


class Window(NamedTuple):
    """The rounds begin..end-1, with the rows that they show and those of earlier rounds whose answers arrive in them.

    Parameters
    ----------
    scenarios : Scenarios
        Those of the simulation; `rows` says where the rows of a round are in this window, until the next one comes.
    """

    stream: Stream
    begin: int
    end: int
    scenarios: Scenarios


def windows(data: Dataset | FileStream, scenarios: Scenarios, longest: int) -> Iterator[Window]:
    """Iterate over the rounds; the scenarios that are given may be shared, and are left as they are."""
    if isinstance(data, Dataset):
        yield Window(as_stream(data.X, data.y), 0, scenarios.rows.shape[1], scenarios)
    else:
        yield from _sliding(data, scenarios._replace(rows=scenarios.rows.copy()), longest)


def _sliding(data: FileStream, scenarios: Scenarios, longest: int) -> Iterator[Window]:
    """Put the rows of open rounds in front of every block that is read."""
    begin = 0
    n_rounds = scenarios.rows.shape[1]
    before: Rows | None = None
    for block in data.blocks():
        shown = Rows(*block)
        if before is not None:
            still_open = _open_rounds(scenarios, begin, longest)
            kept = scenarios.rows[0, still_open]  # all scenarios of a stream show the same rows
            shown = _stacked(before, kept, shown)
            scenarios.rows[:, still_open] = np.arange(kept.size)
        end = min(begin + len(block[1]), n_rounds)
        first = len(shown.y) - len(block[1])
        scenarios.rows[:, begin:end] = np.arange(first, first + end - begin)
        yield Window(as_stream(shown.X, shown.y), begin, end, scenarios)
        begin = end
        before = shown
        if end == n_rounds:
            return


def _stacked(before: Rows, kept: Rounds, block: Rows) -> Rows:
    """Return some of the rows that were shown before, and below them those of a block."""
    return Rows(stack_rows([before.X[kept], block.X]), np.concatenate([before.y[kept], block.y]))


def _open_rounds(scenarios: Scenarios, begin: int, longest: int) -> Ints:
    """Return the rounds before `begin` whose answers arrive in that round or later in any scenario."""
    last = min(begin + longest, scenarios.starts.shape[1] - 1)
    arriving = [
        arrivals[starts[begin] : starts[last]]
        for arrivals, starts in zip(scenarios.arrivals, scenarios.starts, strict=True)
    ]
    rounds = np.unique(np.concatenate(arriving))
    return rounds[: np.searchsorted(rounds, begin)].astype(np.int64)
