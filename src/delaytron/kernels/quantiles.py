"""Predictions and the answers to them: a histogram from which the most confident part is cut."""

from delaytron.compiler.kernel import kernel
from delaytron.records import Ints

BINS = 100
PART = 0.2  # of the predictions, the most confident ones

LOOKS_WRONG, LOOKS_RIGHT = 0, 1  # the first axis of a tally; then the bin of the prediction, then the answer


@kernel
def count_answer(tally: Ints, side: int, predicted: float, answer: int) -> None:
    """Count an answer under the probability of a "right" that was predicted for it."""
    place = int(predicted * BINS) if predicted > 0.0 else 0
    tally[side, min(place, BINS - 1), answer] += 1


@kernel
def confident_errors(tally: Ints, side: int, otherwise: float) -> float:
    """Return the share of answers that contradict the most confident predictions of one side.

    Whole bins are taken from the confident end on, until they hold the wanted part of the predictions.
    """
    total, taken, contrary = 0, 0, 0
    for b in range(BINS):
        total += tally[side, b, 0] + tally[side, b, 1]
    for i in range(BINS):
        b = BINS - 1 - i if side == LOOKS_RIGHT else i
        if taken < PART * total:
            taken += tally[side, b, 0] + tally[side, b, 1]
            contrary += tally[side, b, 1 - side]
    return contrary / taken if taken > 0 else otherwise
