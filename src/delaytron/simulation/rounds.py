"""Playing round by round through `decide` and `feedback`: any learner, on rows with a reward for every label."""

from collections import defaultdict
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple, Protocol

import numpy as np

from delaytron.checks import is_sparse, reason_of
from delaytron.errors import DelaytronError, InvalidInput
from delaytron.records import Array, Ints


class Entrant(Protocol):
    """What can be played: every `Learner` of feedback type "correct", and any class with these two methods."""

    def decide(self, x: Array) -> Any:
        """Return a label, a number from 0 on, or something that has a `label`."""

    def feedback(self, round: int, /, correct: bool) -> Any:
        """Learn whether the label of that decision, the first one is 1, was right."""


class Course(NamedTuple):
    """What happens to a run apart from its learner: for each round the row, the delay and the draw of the answer.

    Parameters
    ----------
    if_wrong : array, optional
        The delays of answers that say "wrong", if they are not the same.
    """

    rows: Any
    delays: Ints
    draws: Array
    if_wrong: Ints | None = None


class Missed(NamedTuple):
    """Sums up to each stop: mistakes of the played and the greedy labels, and the expected reward that was lost.

    Parameters
    ----------
    mistakes : (stops, 2) array
        Rounds in which another label had a larger expected reward.
    lost : (stops,) array
        The largest expected reward of the row less that of the played label.
    """

    mistakes: Ints
    lost: Array


def play_rewards(learner: Entrant, X: Any, rewards: Array, course: Course, stops: Sequence[int]) -> Missed:
    """Play a learner round by round; return what it missed up to each of the rounds `stops`.

    In each round the answers that arrive are given in the order of their rounds, then a row is shown, and the answer to
    the label is drawn: right with the probability that `rewards` has for this row and label. With a delay of d the
    answer arrives before the d-th round after its own. Raises InvalidInput if the learner fails.

    Parameters
    ----------
    X : matrix
        Checked; each row is shown as a 1-D array that cannot be written to.
    rewards : (rows, labels) array
        From 0 to 1.

    Examples
    --------
    >>> class First:
    ...     def decide(self, x):
    ...         return 0
    ...     def feedback(self, round, correct):
    ...         print(f"round {round}: {correct}")
    >>> course = Course(rows=[0, 1, 0], delays=[2, 1, 1], draws=[0.5, 0.5, 0.5])
    >>> tally = play_rewards(First(), np.eye(2), np.array([[1.0, 0.0], [0.2, 0.6]]), course, stops=[1, 3])
    round 1: True
    round 2: False
    >>> tally.mistakes.tolist(), tally.lost.round(6).tolist()
    ([[0, 0], [1, 1]], [0.0, 0.4])
    """
    best = rewards.max(axis=1)
    n_labels = rewards.shape[1]
    due: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
    mistakes = np.zeros((len(stops), 2), np.int64)
    lost = np.zeros(len(stops))
    wrong, greedily_wrong, missed, place = 0, 0, 0.0, 0
    n_rounds = stops[-1]
    late = course.delays if course.if_wrong is None else course.if_wrong
    rounds = zip(course.rows, course.delays, late, course.draws, strict=True)
    now = 0
    try:
        for now, (row, if_right, if_wrong, draw) in enumerate(rounds, 1):
            for past, said in due.pop(now, ()):
                learner.feedback(past, correct=said)
            played = learner.decide(dense_row(X, row))
            label = check_label(getattr(played, "label", played), n_labels)
            greedy = check_label(getattr(played, "greedy", label), n_labels)
            reward = float(rewards[row, label])
            wrong += reward < best[row]
            greedily_wrong += bool(rewards[row, greedy] < best[row])
            missed += float(best[row]) - reward
            correct = bool(draw < reward)
            arrival = now + int(if_right if correct else if_wrong)
            if arrival <= n_rounds:
                due[arrival].append((now, correct))
            if now == stops[place]:
                mistakes[place], lost[place] = (wrong, greedily_wrong), missed
                place += 1
    except DelaytronError:
        raise
    except Exception as problem:
        reason = f"{type(problem).__name__}: {reason_of(problem)}"
        hint = "its `decide` takes a row, its `feedback` the number of a round and `correct`"
        raise InvalidInput(f"{type(learner).__name__} failed in round {now}: {reason}", hint) from problem
    return Missed(mistakes, lost)


def dense_row(X: Any, row: int) -> Array:
    """Return a row of a checked matrix as a 1-D array that cannot be written to.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> dense_row(csr_array([[0.0, 2.5], [1.0, 0.0]]), 0)
    array([0. , 2.5])
    """
    if is_sparse(X):
        x = np.zeros(X.shape[1])
        entries = slice(X.indptr[row], X.indptr[row + 1])
        x[X.indices[entries]] = X.data[entries]
    else:
        x = X[row]
    x.flags.writeable = False  # of the view, not of the matrix
    return np.asarray(x)


def check_label(label: Any, n_labels: int) -> int:
    """Return a label as an int; raise InvalidInput unless it is one of 0, ..., n_labels - 1."""
    try:
        number = index(label)
    except TypeError:
        number = -1
    if not 0 <= number < n_labels:
        raise InvalidInput.of("decide", f"a label in 0..{n_labels - 1}", label, verb="return")
    return number
