"""Drift without forgetting: an alarm when answers get worse, a contest between the model and one that begins again."""

from math import frexp, log
from typing import Any

import numpy as np

from delaytron.compiler.kernel import kernel
from delaytron.kernels.logit import N_BETS
from delaytron.records import Array, Ints, Size

# An alarm alone cannot tell a changed world from a burst of bad news: false answers, a batch in which the failures come
# first, delays that depend on the outcome. So it does not reset the model. It lets a challenger be born: a copy that
# has forgotten all answers, and learns beside the model from the answers to decisions since. Both forecast every such
# answer before they learn it, and the one that forecasts better plays. The old model is never lost to bad news only: it
# plays on, keeps learning, and stays as the challenger of the one that replaced it.
#
# The fields of a state that these functions use, besides its two models:
#
# =========  ==================================================================================================
# `roles`    which of the two models plays, whether the other one lives, how many challengers were born, won, and
#            were dropped
# `watch`    the alarm: the present round, its first round, when its block of rounds began, the largest log-wealth;
#            the contest: its first round, when its block began, the sum of the block, the sum of those before
# `wealth`   for each class of delays the log-wealth of a bet, and what it was when the block began
# `records`  for each label and class of delays the number of answers, and the sum of their rewards
# =========  ==================================================================================================
DRIFT = ("roles", "watch", "wealth", "records")
PLAYER, LIVES, BIRTHS, WINS, DROPS = range(5)
NOW, START, BLOCK, RICHEST, CONTEST, ROUND, OF_BLOCK, LEAD = range(8)
WEALTH, AT_BLOCK = range(2)
COUNT, REWARDS = range(2)


def no_drift(n_runs: int, size: Size) -> tuple[Ints, Array, Array, Array]:
    """Return the fields before any answer, in the order of `DRIFT`."""
    return (
        np.zeros((n_runs, 5), np.int64),
        np.zeros((n_runs, 8)),
        np.zeros((n_runs, N_BETS, 2)),
        np.zeros((n_runs, size.n_classes, N_BETS, 2)),
    )


# The alarm: a bet that rewards are half as high as they were (see `kernels.logit`), by label and delay.
#
# Labels differ in their rewards, and what is played shifts while a model learns: so an answer is compared with earlier
# answers about the same label after about the same delay. The wealth of a class of delays cannot grow by more than a
# factor of 10^4 in a block of rounds, a thousandth of the rounds so far: an outage is one block, however many answers
# it spoils, and the proof takes four.
LEAST_ANSWERS = 100.0  # before a bet begins
MOST_RIGHT = 0.9  # upper bound of the mean: beyond it, a few "wrong" in a row would prove a change
BLOCKS = 1024
GROWTH = log(1e4)
PROOF = log(1e16)


@kernel
def bet(state: Any, played: int, label: int, reward: float) -> None:
    """Bet with an answer to a round; those played before the last alarm do not count."""
    watch = state.watch
    if played < watch[START]:
        return
    if watch[NOW] - watch[BLOCK] >= max(1.0, (watch[NOW] - watch[START]) // BLOCKS):
        watch[BLOCK] = watch[NOW]
        for i in range(N_BETS):
            state.wealth[i, AT_BLOCK] = state.wealth[i, WEALTH]
    _, delay_class = frexp(watch[NOW] - played)
    delay_class = min(delay_class, N_BETS - 1)
    record = state.records[label, delay_class]
    if record[COUNT] >= LEAST_ANSWERS:
        q = min(MOST_RIGHT, record[REWARDS] / record[COUNT])
        gain = log(0.5 * reward + (1.0 - reward) * (1.0 - 0.5 * q) / (1.0 - q))
        wealth = state.wealth[delay_class]
        wealth[WEALTH] = min(max(0.0, wealth[WEALTH]) + gain, wealth[AT_BLOCK] + GROWTH)
        watch[RICHEST] = max(watch[RICHEST], wealth[WEALTH])
    record[COUNT] += 1.0
    record[REWARDS] += reward


@kernel
def is_alarmed(state: Any, now: int) -> bool:
    """Begin round `now`; return whether the answers so far prove a change, and if so bet from the beginning again."""
    watch = state.watch
    watch[NOW] = now
    if watch[RICHEST] <= PROOF:
        return False
    state.wealth[:] = 0.0
    state.records[:] = 0.0
    watch[START] = now
    watch[BLOCK] = now
    watch[RICHEST] = 0.0
    return True


# The contest: the log-likelihoods of the answers by the two forecasts, clipped so that no single block can decide it.
#
# Blocks are a sixteenth of the rounds since the contest began, so they grow as it lasts: what happens in one night
# counts once, and a challenger that is slightly worse for long is dropped in the end. And they are at least 1/512 of
# all rounds: else every answer would be a block at first, and five false ones would exchange the roles.
CONTEST_BLOCKS = 16
LIFE_BLOCKS = 512
MOST_OF_BLOCK = 2.5
WINNING = 10.0
LOSING = -40.0
LEAST_CHANCE = 0.02  # forecasts are clipped: a single answer cannot decide, either


@kernel
def begin_contest(state: Any) -> None:
    """Let both models start level now."""
    watch = state.watch
    watch[CONTEST] = watch[NOW]
    watch[ROUND] = watch[NOW]
    watch[OF_BLOCK] = 0.0
    watch[LEAD] = 0.0


@kernel
def lead(watch: Array) -> float:
    """Return by how much the challenger leads."""
    return float(watch[LEAD] + max(-MOST_OF_BLOCK, min(MOST_OF_BLOCK, watch[OF_BLOCK])))


@kernel
def judge(state: Any, reward: float, of_player: float, of_challenger: float) -> None:
    """Count one answer, given both forecasts; exchange the roles if the challenger has won, or drop it."""
    watch = state.watch
    age, life = watch[NOW] - watch[CONTEST], watch[NOW]
    if watch[NOW] - watch[ROUND] >= max(1.0, life // LIFE_BLOCKS, age // CONTEST_BLOCKS):
        watch[LEAD] = lead(watch)
        watch[OF_BLOCK] = 0.0
        watch[ROUND] = watch[NOW]
    p = max(LEAST_CHANCE, min(1.0 - LEAST_CHANCE, of_player))
    q = max(LEAST_CHANCE, min(1.0 - LEAST_CHANCE, of_challenger))
    watch[OF_BLOCK] += reward * log(q / p) + (1.0 - reward) * log((1.0 - q) / (1.0 - p))
    if lead(watch) > WINNING:
        state.roles[PLAYER] = 1 - state.roles[PLAYER]
        state.roles[WINS] += 1
        begin_contest(state)
    elif lead(watch) < LOSING:
        state.roles[LIVES] = 0
        state.roles[DROPS] += 1


def check_roles(roles: Ints) -> None:
    """Raise ValueError if compiled code could not trust the roles of a state that was read."""
    if roles.max(initial=0, where=[True, True, False, False, False]) > 1:
        raise ValueError("roles name a model that is neither the first nor the second")
