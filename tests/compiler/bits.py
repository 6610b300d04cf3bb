"""Play cases and print what came out, to the bit. It needs NumPy, SciPy and Numba only: `python bits.py CASES`."""

import json
import sys
from pathlib import Path

import numpy as np

import delaytron as dt


def play(case):
    """Return the errors and the bits of a replay, and those of the online object."""
    return {"replay": _replay(case), "online": _decide(case)}


def _learner(case):
    return dt.LEARNERS[case["learner"]](**case["settings"])


def _replay(case):
    y, delays, draws = (np.array(case[name]) for name in ("y", "delays", "draws"))
    run = dt.replay(_learner(case), _rows(case), y, delays, draws)
    return {
        "errors": int(np.count_nonzero(~run.correct)),
        "labels": run.labels.tolist(),
        "probs": run.probs.tobytes().hex(),
        "weights": run.weights.tobytes().hex(),
    }


def _decide(case):
    learner = _learner(case)
    decisions = []
    for t, x in enumerate(_rows(case)):
        for s in range(t):
            if s + case["delays"][s] == t:
                learner.feedback(s + 1, correct=decisions[s].label == case["y"][s])
        decisions.append(learner.decide(x))
    return {"labels": [int(d.label) for d in decisions], "weights": learner.weights.tobytes().hex()}


def _rows(case):
    X = np.array(case["X"])
    if not case["sparse"]:
        return X
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


if __name__ == "__main__":
    import numba

    cases = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps({"numba": numba.__version__, "played": [play(case) for case in cases]}))
