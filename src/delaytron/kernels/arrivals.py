"""When feedback arrives: the rounds sorted by the round in which their answer is delivered."""

import numpy as np

from delaytron._jit import fill, kernel
from delaytron.records import Ints, Rounds


@kernel
def sort_arrivals(delays: Ints, starts: Rounds, arrivals: Rounds) -> int:
    """Fill `starts` and `arrivals` (see `Worlds`) by counting; return the longest delay that is delivered.

    Round s is delivered at the start of round s + delays[s], and never if that lies beyond the horizon. Within a
    round the answers come in ascending order of s, because they are filed in that order.
    """
    T, longest = delays.size, 0
    starts[:] = 0
    for s in range(T):
        if s + delays[s] < T:
            starts[s + delays[s] + 1] += 1
            longest = max(longest, delays[s])
    for t in range(T):
        starts[t + 1] += starts[t]
    for s in range(T):
        if s + delays[s] < T:
            arrivals[starts[s + delays[s]]] = s
            starts[s + delays[s]] += 1
    for t in range(T, 0, -1):  # filing moved every start to where the next one begins
        starts[t] = starts[t - 1]
    starts[0] = 0
    return longest


_sort_arrivals = fill(sort_arrivals, "sort_arrivals")


def schedule(delays: Ints) -> tuple[Rounds, Rounds, int]:
    """Return when each answer arrives as `(starts, arrivals, longest delay delivered)`.

    Examples
    --------
    >>> starts, arrivals, longest = schedule(np.array([1, 3, 1, 2, 2, 1, 4, 1]))
    >>> [(t + 1, (arrivals[starts[t] : starts[t + 1]] + 1).tolist()) for t in range(8) if starts[t] < starts[t + 1]]
    [(2, [1]), (4, [3]), (5, [2]), (6, [4]), (7, [5, 6])]
    """
    starts = np.zeros(delays.size + 1, np.uint32)
    arrivals = np.zeros(delays.size, np.uint32)
    return starts, arrivals, int(_sort_arrivals(delays, starts, arrivals))
