"""A Gymnasium environment with delayed feedback; needs the extra `gymnasium`.

`gymnasium.make("delaytron/DelayedBandit-v0", data=..., delay=...)` works, too, once this module is imported.
"""

from typing import Any, ClassVar

import numpy as np

from delaytron.extras import needs

needs("gymnasium")
import gymnasium

from delaytron.checks import check_choice, check_integer
from delaytron.datasets import load
from delaytron.datasets.tables import as_dataset
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.records import Array
from delaytron.simulation.scenarios import SAMPLINGS, SimulationConfig, draw_outcomes, draw_rows
from delaytron.simulation.simulate import check_rounds, labels_for

__all__ = ["DelayedBanditEnv"]

ID = "delaytron/DelayedBandit-v0"
MOST_SEED = 2**63  # of episodes without a given seed
Info = dict[str, Any]


class DelayedBanditEnv(gymnasium.Env):  # type: ignore[misc]
    """Rows of a data set, one per round: an action is a label, and whether it was right is known after a delay.

    The observation is the row of a round. `step` ends the round and begins the next one: its
    ``info["feedback"]`` lists ``(round, reward)`` of the rounds whose feedback arrives now, ascending, where the reward
    is 1 for the true label and else 0; the reward of the step is their sum. With a delay of 1 every step returns its
    own reward, as usual; with longer delays that of earlier ones. Rounds count from 1, and ``info["round"]`` is that
    of the observation. After the last round the episode is truncated: pending feedback never arrives.

    ``reset(seed=s)`` gives the rows and delays of ``simulate(..., seed=s)``. Without a seed every episode is different.

    Parameters
    ----------
    data : str, Dataset, or pair (X, y)
        The name of a data set, or data as for `simulate`. Observations are dense, also of sparse rows.
    delay : int or delay model
        As for `simulate`; 1 means that the feedback comes before the next round.
    rounds : int, optional
        By default one for each row.
    sampling : {"replacement", "epochs", "drawn"}
        How rows are drawn if there are more rounds than rows, see `simulate`.

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
        check_choice("sampling", sampling, SAMPLINGS)
        model = as_delay(delay)
        labelled = labels_for(model, self.data, n_rounds)
        self.config = SimulationConfig(self.data.n_rows, n_rounds, model, 0, sampling, labelled=labelled)
        # The bounding box of all rows; a constant feature needs some width, too.
        X: Any = self.data.X
        low, high = X.min(axis=0), X.max(axis=0)
        if self.data.sparse:
            low, high = low.toarray().ravel(), high.toarray().ravel()
        self.observation_space = gymnasium.spaces.Box(low, np.where(high > low, high, low + 1.0), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(self.data.n_classes)
        self._now = n_rounds + 1  # no round can be played before a reset
        self._coming: dict[int, list[tuple[int, float]]] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begin an episode; return its first row and info."""
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(MOST_SEED)) if seed is None else seed
        config = self.config._replace(seed=drawn)
        self._rows = draw_rows(config, 0)
        self._if_right, self._if_wrong = draw_outcomes(config, 0)
        self._coming = {}  # round -> the rounds and rewards that arrive with it, ascending
        self._now = 1
        return self._row(), {"round": 1, "feedback": []}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Play a label in this round; return the next row, the reward that arrives with it, two flags and info.

        Raises InvalidInput if the action is no label, or no episode has begun.
        """
        if self._now > self.config.n_rounds:
            raise InvalidInput("the episode has ended, or none has begun", "call reset() first")
        if isinstance(action, np.ndarray) and action.ndim == 0:  # as agents of other libraries give it
            action = action.item()
        label = check_integer("action", action, at_least=0)
        if label >= self.data.n_classes:
            raise InvalidInput.of("action", f"a label from 0 to {self.data.n_classes - 1}", action)
        t = self._now - 1
        right = bool(label == self.data.y[self._rows[t]])
        due = self._now + int((self._if_right if right else self._if_wrong)[t])
        if due <= self.config.n_rounds + 1:
            self._coming.setdefault(due, []).append((self._now, float(right)))
        self._now += 1
        feedback = self._coming.pop(self._now, [])
        info = {"round": self._now, "feedback": feedback}
        reward = float(sum(part for _, part in feedback))
        return self._row(), reward, False, self._now > self.config.n_rounds, info

    def _row(self) -> Array:
        """Return the row of this round; after the last round, its row again."""
        place = self._rows[min(self._now, self.config.n_rounds) - 1]
        row: Any = self.data.X[[place]] if self.data.sparse else self.data.X[place]
        return np.array(row.toarray()[0] if self.data.sparse else row)


gymnasium.register(id=ID, entry_point="delaytron.gymnasium:DelayedBanditEnv")
