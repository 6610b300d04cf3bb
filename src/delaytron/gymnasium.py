"""A Gymnasium environment in which the answers come late; it needs the extra `gymnasium`.

`gymnasium.make("delaytron/DelayedBandit-v0", data=..., delay=...)` makes one as well, once this module is imported.
"""

from typing import Any, ClassVar

import numpy as np

from delaytron.extras import needs

needs("gymnasium")
import gymnasium

from delaytron.checks import check_choice, check_integer
from delaytron.datasets import load
from delaytron.datasets.base import Dataset
from delaytron.datasets.convert import as_dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.kernels.arrivals import schedule
from delaytron.records import Array, Ints, Rounds
from delaytron.simulation.scenarios import SimulationConfig, draw_delays, draw_rows
from delaytron.simulation.simulate import check_rounds

__all__ = ["DelayedBanditEnv"]

ID = "delaytron/DelayedBandit-v0"
MOST_SEED = 2**63  # of episodes whose seed nobody gave
Info = dict[str, Any]


class DelayedBanditEnv(gymnasium.Env):  # type: ignore[misc]
    """Rows of a data set, one after another: an action is a label, and whether it was right is told later.

    The observation is the row of a round. `step` ends the round and begins the next one: its
    ``info["feedback"]`` lists ``(round, reward)`` of the rounds whose answers arrive now, ascending, where the reward
    is 1 for the true label and else 0; the reward of the step is their sum. So with a delay of 1 every step tells its
    own reward, as usual; with longer delays that of an earlier one. Rounds count from 1, and ``info["round"]`` is that
    of the observation. After the last round the episode is truncated: what has not arrived by then never does.

    ``reset(seed=s)`` shows the rows, with the delays, of ``simulate(..., seed=s)``. Without a seed every episode
    is another one.

    Parameters
    ----------
    data : str, Dataset, or pair (X, y)
        The name of a data set, or what `simulate` takes; the rows must be dense, or few enough to be written out.
    delay : int or delay model
        As `simulate` takes it; 1 means that the answer comes before the next round.
    rounds : int, optional
        By default one for each row.
    sampling : {"replacement", "epochs"}
        How rows are drawn if there are more rounds than rows.

    Examples
    --------
    >>> env = DelayedBanditEnv(([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1]), delay=2)
    >>> row, info = env.reset(seed=0)
    >>> for action in (0, 0, 1):
    ...     row, reward, terminated, truncated, info = env.step(action)
    ...     print(info["feedback"], reward, truncated)
    [] 0.0 False
    [(1, 1.0)] 1.0 False
    [(2, 0.0)] 0.0 True
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self, data: Any = "digits", delay: Any = 1, rounds: int | None = None, sampling: str = "replacement"
    ) -> None:
        self.data = load(data) if isinstance(data, str) else as_dataset(data)
        n_rounds = self.data.n_rows if rounds is None else check_rounds(rounds)
        check_choice("sampling", sampling, ("replacement", "epochs"))
        self.config = SimulationConfig(self.data.n_rows, n_rounds, as_delay(delay), 0, sampling)
        self.observation_space = _space_of(self.data)
        self.action_space = gymnasium.spaces.Discrete(self.data.n_classes)
        self._now = n_rounds + 1  # no round can be played before a reset
        self._rewards = np.zeros(n_rounds)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begin an episode; return its first row."""
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(MOST_SEED)) if seed is None else seed
        config = self.config._replace(seed=drawn)
        self._rows = draw_rows(config, 0)
        self._starts, self._arrivals = _arrivals(draw_delays(config.delay, config.n_rounds, drawn))
        self._rewards[:] = 0.0
        self._now = 1
        return self._row(), {"round": 1, "feedback": []}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Play a label in this round; return the next row, what arrives with it, and whether this was the last one."""
        if self._now > self.config.n_rounds:
            raise InvalidInput("the episode has ended, or none has begun; call reset() first")
        label = check_integer("action", _plain(action), at_least=0)
        if label >= self.data.n_classes:
            raise InvalidInput(f"action must be a label from 0 to {self.data.n_classes - 1}, got {action!r}")
        self._rewards[self._now - 1] = label == self.data.y[self._rows[self._now - 1]]
        self._now += 1
        feedback = self._arriving()
        info = {"round": self._now, "feedback": feedback}
        reward = float(sum(part for _, part in feedback))
        return self._row(), reward, False, self._now > self.config.n_rounds, info

    def _arriving(self) -> list[tuple[int, float]]:
        """Return the rounds whose answers arrive with the present one, ascending, with their rewards."""
        begin, end = self._starts[self._now - 1], self._starts[self._now]
        return [(int(t) + 1, float(self._rewards[t])) for t in self._arrivals[begin:end]]

    def _row(self) -> Array:
        """Return the row of this round; after the last one, that of the last one again."""
        place = self._rows[min(self._now, self.config.n_rounds) - 1]
        row: Any = self.data.X[[place]] if self.data.sparse else self.data.X[place]
        return np.array(row.toarray()[0] if self.data.sparse else row)


def _plain(action: Any) -> Any:
    """Return a number for an array that holds one, as agents of other libraries give it."""
    return action.item() if isinstance(action, np.ndarray) and action.ndim == 0 else action


def _space_of(data: Dataset) -> Any:
    """Return the box that all rows lie in."""
    X: Any = data.X
    low, high = (X.min(axis=0), X.max(axis=0))
    if data.sparse:
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return gymnasium.spaces.Box(low, np.where(high > low, high, low + 1.0), dtype=np.float64)


def _arrivals(delays: Ints) -> tuple[Rounds, Rounds]:
    """Return which rounds (from 0) arrive with each, and with the one after the last, as `records.Scenarios` has it."""
    T = delays.size + 1
    starts, arrivals = np.empty(T + 1, np.uint32), np.zeros(T, np.uint32)
    schedule(np.append(delays, np.int64(1)), starts, arrivals)
    return starts, arrivals


gymnasium.register(id=ID, entry_point="delaytron.gymnasium:DelayedBanditEnv")
