"""Lines of dsjson, as Personalizer and Vowpal Wabbit write them."""

import json

DRINKS = ["Cappucino", "Cold brew", "Latte"]
MULTI = [
    {"_tag": name, "i": {"constant": 1, "id": name}, "j": [{"type": "cold" if "old" in name else "hot"}]}
    for name in DRINKS
]
CONTEXT = {"FromUrl": [{"timeofday": "Morning", "weather": "Sunny", "age": 31}]}


def event(id, label=0, prob=0.5, reward=None, observed=True, context=None, multi=None, **more):
    """Return an event as the joined log has it; without a reward as it was when it was ranked."""
    actions = MULTI if multi is None else multi
    ranking = [label, *(k for k in range(len(actions)) if k != label)]
    rest = (1 - prob) / max(1, len(actions) - 1)
    line = {
        "_label_probability": prob,
        "_label_Action": label + 1,
        "_labelIndex": label,
        "Timestamp": "2021-02-04T16:31:29.2460000Z",
        "Version": "1",
        "EventId": id,
        "a": [k + 1 for k in ranking],
        "c": {**(CONTEXT if context is None else context), "_multi": actions},
        "p": [prob, *[rest] * (len(actions) - 1)],
        "VWState": {"m": "ff0744c1aa494e1ab39ba0c78d048146/550c12cbd3aa47f09fbed3387fb9c6ec"},
    }
    if reward is not None:
        line = {"_label_cost": -reward, **line, "_original_label_cost": -reward}
        if observed:
            line["o"] = [{"v": reward, "EventId": id, "ActionTaken": False}]
    return line | more


def outcome(id, reward):
    """Return an outcome that came too late to be joined, as the log has it in a line of its own."""
    seen = [{"v": reward, "EventId": id, "ActionId": None}]
    return {"RewardValue": reward, "EnqueuedTimeUtc": "2021-02-05T01:48:38.423Z", "EventId": id, "Observations": seen}


def write(path, lines):
    """Write lines to a file: objects as JSON, texts as they are; return it."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path
