"""A café has a log of Vowpal Wabbit. What would other policies have sold? Then a model starts from it, and plays on."""

import json
import random
import tempfile
from pathlib import Path

import delaytron as dt

DRINKS = ["tea", "coffee", "cocoa"]
SALES = {"morning": (0.2, 0.7, 0.1), "noon": (0.5, 0.3, 0.2), "evening": (0.3, 0.05, 0.6)}
EXPLORE = 0.4


def sold(rng: random.Random, hour: str, drink: int) -> int:
    """Return 1 if the guest takes the drink that is offered."""
    return int(rng.random() < SALES[hour][drink])


def event(rng: random.Random, number: int) -> str:
    """Return a line of Vowpal Wabbit: the café offers coffee, and at times anything; a cost is minus a reward."""
    hour = rng.choice(list(SALES))
    drink = rng.randrange(3) if rng.random() < EXPLORE else 1
    chances = [EXPLORE / 3 + (1 - EXPLORE) * (k == 1) for k in range(3)]
    order = sorted(range(3), key=lambda k: k != drink)  # the action that was taken comes first
    line = {
        "_label_cost": -sold(rng, hour, drink),
        "_label_probability": chances[drink],
        "_label_Action": drink + 1,
        "_labelIndex": drink,
        "EventId": f"guest-{number}",
        "Timestamp": f"2026-03-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        "a": [k + 1 for k in order],
        "p": [chances[k] for k in order],
        "c": {"hour": hour, "_multi": [{"_tag": name} for name in DRINKS]},
    }
    return json.dumps(line)


rng = random.Random(0)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "cafe.dsjson")
    path.write_text("\n".join(event(rng, number) for number in range(4000)), encoding="utf-8")
    log = dt.logs.read_dsjson(path)
    for policy in ("logged", "uniform", "always:tea", "bandit_logit"):
        found = dt.evaluate(log, policy, "dr")
        print(f"{policy}: {found.value:.3f} sold, {found.low:.3f} to {found.high:.3f}")
    with dt.Model(DRINKS, bits=12, journal=Path(folder, "cafe.db"), seed=1) as model:
        model.learn_from(log)
        rewards = []
        for hour in rng.choices(list(SALES), k=1000):
            decision = model.decide({"hour": hour})
            rewards.append(sold(rng, hour, DRINKS.index(decision.label)))
            model.feedback(decision.id, reward=rewards[-1])
        print(f"played on for 1,000 guests: {sum(rewards) / 1000:.3f} sold")
