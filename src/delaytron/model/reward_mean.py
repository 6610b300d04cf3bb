"""The mean reward of a policy on its own log, with its interval."""

from math import sqrt

Z_95 = 1.959963984540054  # 95 % of a normal distribution are within so many deviations


class RewardMean:
    """The mean of rewards from 0 to 1, each of which stands for `weight` events, and half of its 95 % interval.

    Examples
    --------
    >>> mean = RewardMean()
    >>> for reward in (0.0, 1.0, 1.0, 1.0):
    ...     mean.add(reward, 1.0)
    >>> mean.value, round(mean.margin, 3)
    (0.75, 0.49)
    """

    def __init__(self) -> None:
        self.count = 0
        self._weights = 0.0
        self._rewards = 0.0
        self._squares = (0.0, 0.0, 0.0)  # of the weights, times 1, the reward, and its square

    def add(self, reward: float, weight: float) -> None:
        """Take a reward in."""
        self.count += 1
        self._weights += weight
        self._rewards += weight * reward
        square = weight * weight
        one, times, twice = self._squares
        self._squares = one + square, times + square * reward, twice + square * reward * reward

    @property
    def value(self) -> float | None:
        """The mean; None if there is no reward."""
        return self._rewards / self._weights if self.count else None

    @property
    def margin(self) -> float | None:
        """Half of the interval; None for less than two rewards."""
        mean = self.value
        if mean is None or self.count < 2:
            return None
        one, times, twice = self._squares
        spread = max(0.0, twice - 2.0 * mean * times + mean * mean * one) * self.count / (self.count - 1)
        return Z_95 * sqrt(spread) / self._weights
