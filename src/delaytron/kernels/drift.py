r"""Whether what was learned still holds: a test by betting on whether answers are right half as often as they were.

Let q be the share of the answers so far that were right. Who bets that it has halved multiplies their wealth by 1/2
with every "right" and by (1 - q/2) / (1 - q) with every "wrong"; a reward counts in proportion. As long as answers are
right as often as they were, that is a fair game: the chance that a wealth of 1 ever becomes n is at most 1/n. As in
Page's test a wealth below 1 is filled up to 1, so that a change is noticed as soon, however late it comes.

"Right" may come sooner than "wrong", or later. So answers are compared with those that were about as late: there is a
bet for delays of 1, one for 2 to 3, one for 4 to 7 and so on.

The fields of a state that these functions use: `clock` has the present round, the first round that counts, and the
largest wealth since then; `bets` has a row for each class of delays: how many answers, how many right, and the wealth.
"""

from math import frexp
from typing import Any

from delaytron.compiler.kernel import kernel

NOW, START, RICHEST = range(3)
COUNT, RIGHT, WEALTH = range(3)
N_BETS = 48
PROOF = 1e16
LEAST_ANSWERS = 100.0  # before there is a bet
MOST_RIGHT = 0.9  # of answers, as far as bets are concerned: else a few "wrong" in a row would prove a change


@kernel
def has_changed(state: Any, now: int) -> bool:
    """Begin round `now`; return whether the answers so far prove that what was learned holds no more."""
    state.clock[NOW] = now
    return bool(state.clock[RICHEST] > PROOF)


@kernel
def count_answer(state: Any, played: int, reward: float) -> bool:
    """Count the answer to a round, and bet; return False if the round was played before the first one that counts."""
    if played < state.clock[START]:
        return False
    _, delay_class = frexp(state.clock[NOW] - played)
    bet = state.bets[min(delay_class, N_BETS - 1)]
    if bet[COUNT] >= LEAST_ANSWERS:
        bet[WEALTH] = max(1.0, bet[WEALTH]) * gain(bet[RIGHT], bet[COUNT], reward)
        state.clock[RICHEST] = max(state.clock[RICHEST], bet[WEALTH])
    bet[COUNT] += 1.0
    bet[RIGHT] += reward
    return True


@kernel
def gain(right: float, count: float, reward: float) -> float:
    """Return by what an answer multiplies the wealth, if so many of those before were right."""
    if reward == 1.0:
        return 0.5
    q = min(MOST_RIGHT, right / count)
    return 0.5 * reward + (1.0 - reward) * (1.0 - 0.5 * q) / (1.0 - q)


@kernel
def count_from(state: Any, now: int) -> None:
    """Forget all answers, and count from this round on."""
    state.bets[:] = 0.0
    state.clock[START] = now
    state.clock[RICHEST] = 0.0
