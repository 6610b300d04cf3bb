"""The service fed by a simulated stream ends with exactly the weights that `replay` gives on the same arrays."""

import numpy as np
import pytest
from services import serving

import delaytron as dt
from delaytron.rng import stream

K, D, T = 3, 4, 300


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("replayed")) as running:
        yield running


def arrays(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, T)
    X = rng.normal(size=(T, D)) + np.eye(K, D)[y] * 3
    return X, y, rng.integers(1, 60, T)


@pytest.mark.parametrize(
    ("name", "options"),
    [("bandit_logit", {}), ("delaytron", {"gamma": 0.2}), ("adaptive_delaytron", {}), ("soba", {"gamma": 0.1})],
)
def test_the_service_learns_what_replay_learns(service, name, options):
    X, y, delays = arrays(5)
    model = name.replace("_", "-")
    service.make(model, learner=name, parameters=options, features=D, seed=11)
    made = []
    for t in range(T):
        for s in np.flatnonzero(np.arange(t) + delays[:t] == t):
            service.feedback(made[s]["id"], model, correct="abc"[y[s]] == made[s]["label"])
        made.append(service.decide(X[t].tolist(), model).json())
    learner = dt.LEARNERS[name](K, D, seed=11, **options)
    run = dt.replay(learner, X, y, delays, stream(11, "exploration").random(T))
    assert [one["label"] for one in made] == ["abc"[label] for label in run.labels]
    assert [one["probability"] for one in made] == run.probs.tolist()
    weights = service.client.get(f"/v1/models/{model}/weights").json()["weights"]
    assert np.array(weights).tobytes() == run.weights.tobytes()
