"""Which language model should answer a prompt? Rewards come late, some never, and a new model comes on the way."""

import heapq
import random
from statistics import mean

import delaytron as dt

WORDS = {
    "chat": "hello thanks weather today movie dinner friend holiday",
    "code": "function python loop compile error class index bug",
    "proof": "prove lemma integer induction theorem bounded prime converge",
}
GOOD = {  # how often the answer to a prompt of each kind is good
    "small": {"chat": 0.95, "code": 0.30, "proof": 0.05},
    "medium": {"chat": 0.97, "code": 0.75, "proof": 0.20},
    "large": {"chat": 0.98, "code": 0.90, "proof": 0.60},
    "huge": {"chat": 0.99, "code": 0.95, "proof": 0.95},
}
PRICE = {"small": 0.01, "medium": 0.10, "large": 0.25, "huge": 0.35}
REQUESTS = 6_000


def value(name: str, kind: str) -> float:
    """Return the mean reward: what a good answer is worth, less its price."""
    return GOOD[name][kind] * (1 - PRICE[name])


def main() -> None:
    rng = random.Random(1)
    router = dt.Model(classes=["small", "medium", "large"], expire_after=1_000, seed=1)
    on_the_way = []  # (when it comes, id, reward)
    values = []
    for now in range(REQUESTS):
        if now == REQUESTS // 2:
            router.add_class("huge")
        while on_the_way and on_the_way[0][0] <= now:
            _, name, reward = heapq.heappop(on_the_way)
            router.feedback(name, reward=reward)
        kind = rng.choice(list(WORDS))
        prompt = " ".join(rng.choices([*WORDS[kind].split(), "please", "the", "and", "what"], k=8))
        allowed = ["small", "medium"] if rng.random() < 0.1 else None  # some tenants pay for these only
        decision = router.decide({"prompt": prompt, "tokens": len(prompt)}, id=f"req-{now}", allowed=allowed)
        values.append(value(decision.label, kind))
        if rng.random() < 0.8:  # one user in five never says anything
            reward = (rng.random() < GOOD[decision.label][kind]) * (1 - PRICE[decision.label])
            heapq.heappush(on_the_way, (now + rng.expovariate(1 / 200), decision.id, reward))
    for first in range(0, REQUESTS, 1_000):
        print(f"requests {first + 1:5,} to {first + 1_000:5,}: mean reward {mean(values[first : first + 1_000]):.3f}")
    for name in GOOD:
        print(f"always {name}: {mean(value(name, kind) for kind in WORDS):.3f}")
    for kind, words in WORDS.items():
        print(f"{kind} goes to {router.predict({'prompt': words, 'tokens': 50})}")
    stats = router.stats()
    print(f"{stats.decisions:,} decisions: {stats.answered:,} answered, {stats.expired:,} expired, {stats.open:,} open")


if __name__ == "__main__":
    main()
