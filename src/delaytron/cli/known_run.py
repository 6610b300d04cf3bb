"""Eight rounds whose every bit is known: the worked example of AdaptiveDelaytron in tests/reference."""

from pathlib import Path

import numpy as np

from delaytron.compiler.build import folder_of
from delaytron.learners import AdaptiveDelaytron
from delaytron.simulation.replay import replay

X = np.array([(1, 0), (0, 1), (1, 1), (0.5, -1), (-1, 0.5), (1, 0.25), (-0.5, 1), (0.75, -0.5)])
Y = np.array([0, 1, 1, 2, 2, 0, 1, 0])
DELAYS = np.array([1, 3, 1, 2, 2, 1, 4, 1])
DRAWS = np.array([0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30])
LABELS = (0, 2, 0, 2, 1, 2, 2, 2)
WEIGHTS = (
    "-0x1.6a09e667f3bcdp-2",
    "-0x1.6a09e667f3bccp-2",
    "0x1.0000000000000p-2",
    "-0x1.0000000000000p-3",
    "0x1.0000000000000p+0",
    "-0x1.4800000000000p+1",
)


def check_bits() -> str:
    """Return in what the run differs from what is known; nothing if it does not."""
    run = replay(_learner(), X, Y, DELAYS, DRAWS)
    if tuple(run.labels.tolist()) != LABELS:
        return f"labels {run.labels.tolist()} were played instead of {list(LABELS)}"
    weights = [value.hex() for value in run.weights.ravel().tolist()]
    wrong = sum(ours != known for ours, known in zip(weights, WEIGHTS, strict=True))
    return f"{wrong} of {len(WEIGHTS)} weights differ in some bits" if wrong else ""


def kept_in() -> Path | None:
    """Return the folder in which the machine code of the run is kept, None if it is not."""
    return folder_of(_learner().rule.play.compiled)


def _learner() -> AdaptiveDelaytron:
    return AdaptiveDelaytron(n_classes=3, n_features=2, gamma=0.3)
