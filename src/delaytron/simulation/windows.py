"""Windows: the part of the data that a run needs at a time, all of it or, of a file in blocks, what is still open."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from delaytron.datasets import Dataset, FileStream
from delaytron.matrices import as_stream, stack_rows
from delaytron.records import Ints, Scenarios, Stream


class Window(NamedTuple):
    """The rounds begin..end-1, with the rows that they show and those of earlier rounds whose answers they hear."""

    stream: Stream
    begin: int
    end: int


def windows(data: Dataset | FileStream, scenarios: Scenarios, longest: int) -> Iterator[Window]:
    """Iterate over the rounds; `scenarios.rows` says where the rows of a round stand in the window that is current."""
    if isinstance(data, Dataset):
        yield Window(as_stream(data.X, data.y), 0, scenarios.rows.shape[1])
    else:
        yield from _sliding(data, scenarios, longest)


def _sliding(data: FileStream, scenarios: Scenarios, longest: int) -> Iterator[Window]:
    """Put the rows of open rounds in front of every block that is read."""
    begin, n_rounds = 0, scenarios.rows.shape[1]
    before: tuple[Any, Ints] | None = None
    for block in data.blocks():
        X, y = block
        if before is not None:
            still_open = _open_rounds(scenarios, begin, longest)
            kept = scenarios.rows[0, still_open]  # all worlds of a stream show the same rows
            X, y = stack_rows([before[0][kept], X]), np.concatenate([before[1][kept], y])
            scenarios.rows[:, still_open] = np.arange(kept.size)
        end = min(begin + len(block[1]), n_rounds)
        scenarios.rows[:, begin:end] = np.arange(len(y) - len(block[1]), len(y))[: end - begin]
        yield Window(as_stream(X, y), begin, end)
        begin, before = end, (X, y)
        if end == n_rounds:
            return


def _open_rounds(scenarios: Scenarios, begin: int, longest: int) -> Ints:
    """Return the rounds before `begin` of which any world hears in that round or later."""
    last = min(begin + longest, scenarios.starts.shape[1] - 1)
    heard = [
        arrivals[starts[begin] : starts[last]]
        for arrivals, starts in zip(scenarios.arrivals, scenarios.starts, strict=True)
    ]
    rounds = np.unique(np.concatenate(heard))
    return rounds[: np.searchsorted(rounds, begin)].astype(np.int64)
