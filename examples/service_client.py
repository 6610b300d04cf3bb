"""Sixteen users ask a service which language model should answer; whether the answer was good is known much later."""

import asyncio
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from delaytron.client import AsyncClient, AsyncRemoteModel

GOOD = {  # how often the answer to a prompt of each kind is good
    "small": {"chat": 0.9, "code": 0.2, "proof": 0.1},
    "large": {"chat": 0.5, "code": 0.9, "proof": 0.3},
    "huge": {"chat": 0.4, "code": 0.5, "proof": 0.9},
}
USERS, REQUESTS, LATE = 16, 60, 5


@contextmanager
def running_service(folder: str) -> Iterator[str]:
    command = [sys.executable, "-m", "delaytron", "serve", folder, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield re.search(r"http://\S+", process.stderr.readline())[0]
        finally:
            process.terminate()


async def ask(router: AsyncRemoteModel, user: int) -> list[bool]:
    """Send requests in order; report of each, some requests later, whether its answer was good."""
    rng = random.Random(user)
    good = []
    for number in range(REQUESTS):
        kind = rng.choice(["chat", "code", "proof"])
        decision = await router.decide({"kind": kind, "length": rng.random()}, id=f"user-{user}-{number}")
        good.append(rng.random() < GOOD[decision.label][kind])
        if number >= LATE and number % 10:  # one in ten is never answered
            await router.feedback(f"user-{user}-{number - LATE}", correct=good[number - LATE])
    return good


async def main(url: str) -> None:
    async with AsyncClient(url) as client:
        router = await client.create_model("router", list(GOOD), seed=1)
        good = await asyncio.gather(*(ask(router, user) for user in range(USERS)))
        stats = await router.stats()
        for first in range(0, REQUESTS, 20):
            part = sum(sum(answers[first : first + 20]) for answers in good) / (20 * USERS)
            print(f"requests {first + 1} to {first + 20} of each user: {part:.0%} good answers")
        print(f"{stats.decisions} decisions, {stats.answered} answered, {stats.open} open")
        print(*(f"{known.played} for {known.name}" for known in stats.classes), sep=", ")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running_service(folder) as url:
        asyncio.run(main(url))
