"""Streams on which challengers are born: labels that change their meaning, and answers that are false for a while."""

import numpy as np

CLASSES = ["a", "b", "c"]
OPTIONS = {"learner": "gated_logit", "features": 3, "seed": 1}  # of a model for them
CALM = 800  # rounds before anything happens
FALSE = 40  # false answers


def rows_of(n_rounds, seed=0):
    """Return rows of three numbers, and which class is right for each at first; more of them begin with the same."""
    kinds = np.random.default_rng([seed, 0]).integers(3, size=n_rounds)
    return np.eye(3)[kinds] + 0.05 * np.random.default_rng([seed, 1]).normal(size=(n_rounds, 3)), kinds


def permuted(t, label, kind):
    """Return whether a label is right in a round; from `CALM` on it is the next one."""
    return label == (kind if t < CALM else (kind + 1) % 3)


def disturbed(t, label, kind):
    """Return what is said of a label: after `CALM` rounds everything is called wrong for a while."""
    return label == kind and not CALM <= t < CALM + FALSE


def broken(t, label, kind):
    """Return what is said of a label: from `CALM` on everything is called wrong."""
    return label == kind and t < CALM


WORLDS = {"permuted": permuted, "disturbed": disturbed, "broken": broken}


def answered(model, world, n_rounds, start=0):
    """Let a model decide and answer it at once."""
    rows, kinds = rows_of(n_rounds)
    for t in range(start, n_rounds):
        decision = model.decide(rows[t], id=f"r{t}")
        model.feedback(decision.id, correct=bool(WORLDS[world](t, CLASSES.index(decision.label), kinds[t])))


def served(service, name, world, begin, end, block=8):
    """Let a model of a service decide and answer it block by block."""
    rows, kinds = rows_of(end)
    for first in range(begin, end, block):
        asked = [{"features": row.tolist()} for row in rows[first : min(first + block, end)]]
        made = service.post(f"/v1/models/{name}/decisions", {"decisions": asked}).json()["decisions"]
        answers = [
            {"id": one["id"], "correct": bool(WORLDS[world](t, CLASSES.index(one["label"]), kinds[t]))}
            for t, one in enumerate(made, start=first)
        ]
        assert service.post(f"/v1/models/{name}/feedback", {"feedback": answers}).status_code == 200
