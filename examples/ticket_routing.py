"""Which of twenty teams should get a message? The team says "ours" or "not ours", a hundred messages later.

The messages are those of 20 Newsgroups, as counts of their words. Run it with a number to read fewer of them.
"""

import sys
from collections import Counter

import numpy as np

import delaytron as dt

LATE = 100
HELD_BACK = 500  # messages that are never learned from


def read_messages(count: int | None) -> list[tuple[dict[str, float], str]]:
    """Return messages as words with their counts, each with the team that it belongs to."""
    data = dt.datasets.load("news20")
    words = np.array(data.feature_names)
    messages = []
    for i in np.random.default_rng(0).permutation(data.n_rows)[:count].tolist():
        row = slice(data.X.indptr[i], data.X.indptr[i + 1])
        counts = zip(words[data.X.indices[row]].tolist(), data.X.data[row].tolist(), strict=True)
        messages.append((dict(counts), data.class_names[data.y[i]]))
    return messages


def error_of(model: dt.Model, messages: list[tuple[dict[str, float], str]]) -> float:
    """Return the share of messages for which the team with the highest score is wrong."""
    return float(np.mean([model.predict(words) != team for words, team in messages]))


def main() -> None:
    messages = read_messages(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    test, stream = messages[:HELD_BACK], messages[HELD_BACK:]
    teams = Counter(team for _, team in messages)
    router = dt.Model(classes=sorted(teams), seed=0)
    print(f"always the most frequent team: error {1 - max(teams.values()) / len(messages):.3f}")
    print(f"before learning:               error {error_of(router, test):.3f}")
    waiting = []
    for number, (words, team) in enumerate(stream, start=1):
        decision = router.decide(words)
        waiting.append((decision.id, decision.label == team))
        if len(waiting) > LATE:
            router.feedback(*waiting.pop(0))
        if number % (len(stream) // 4) == 0:
            print(f"after {number:6,} messages:         error {error_of(router, test):.3f}")
    words, team = test[0]
    why = router.explain(words)
    telling = sorted(why.features, key=lambda word: -why.features[word][why.label])[:5]
    print(f"a message of {team} goes to {why.label}, for its words {', '.join(telling)}")


if __name__ == "__main__":
    main()
