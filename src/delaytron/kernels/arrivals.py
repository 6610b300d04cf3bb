"""When feedback arrives: the rounds sorted by the round in which their answer is delivered."""

from delaytron.compiler.kernel import fill, kernel
from delaytron.records import Ints, Rounds


@kernel
def sort_arrivals(delays: Ints, starts: Rounds, arrivals: Rounds) -> int:
    """Fill `starts` and `arrivals` (see `Scenarios`) by counting; return the longest delay that is delivered.

    Round s is delivered at the start of round s + delays[s], and never if that lies beyond the horizon. Within a
    round the answers come in ascending order of s, because they are filed in that order.
    """
    T = delays.size
    longest = 0
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


def schedule(delays: Ints, starts: Rounds, arrivals: Rounds) -> int:
    """Write when each answer arrives to `starts` and `arrivals`; return the longest delay that is delivered.

    Examples
    --------
    >>> import numpy as np
    >>> starts, arrivals = np.empty(9, np.uint32), np.zeros(8, np.uint32)
    >>> schedule(np.array([1, 3, 1, 2, 2, 1, 4, 1]), starts, arrivals)
    3
    >>> [(arrivals[starts[t] : starts[t + 1]] + 1).tolist() for t in range(8)]
    [[], [1], [], [3], [2], [4], [5, 6], []]
    """
    return int(_sort_arrivals(delays, starts, arrivals))
