"""The cases that other Numbas, and damaged ones, must play to the same bits."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np

import delaytron as dt
from learners import test_reference_traces as worked

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
LONGER = [  # of the conformance suite: CSR rows, powers and logarithms, other feedback than right or wrong
    ("delaytron", {"gamma": 0.3, "eta": 0.7}, True),
    ("soba", {"gamma": 0.3}, True),
    ("exp3", {}, False),
    ("newtron", {"gamma": 0.3, "alpha": 1.0, "diameter": 0.05}, False),
    ("ova_logistic", {"gamma": 0.3, "explore": "squarecb"}, False),
]


def worked_cases():
    """Return every learner of the worked example."""
    learners = [maker() for _, maker in (case.values for case in worked.PAPER)]
    learners += [dt.LEARNERS[name](3, 2, **settings) for _, name, settings in worked.OTHERS]
    return [_case(learner, worked.X, worked.Y, worked.DELAYS, worked.DRAWS) for learner in learners]


def longer_cases():
    """Return a few learners on 200 random rounds."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 12)) * (rng.random((200, 12)) < 0.5)
    y = rng.integers(0, 5, 200)
    delays = rng.integers(1, 30, 200)
    draws = rng.random(200)
    return [
        _case(dt.LEARNERS[name](5, 12, **settings), X, y, delays, draws, sparse=sparse)
        for name, settings, sparse in LONGER
    ]


def _case(learner, X, y, delays, draws, *, sparse=False):
    return {
        "learner": learner.name,
        "settings": learner.settings() | {"seed": 3},
        "X": X.tolist(),
        "y": y.tolist(),
        "delays": delays.tolist(),
        "draws": draws.tolist(),
        "sparse": sparse,
    }


def run(python, arguments, folder=None, **environment):
    """Run a program in a process of its own, with its compiled code in `folder`."""
    kept = {} if folder is None else {"NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run(
        [python, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, HERE)))} | kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def write(cases, path):
    path.write_text(json.dumps(cases))
    return path
