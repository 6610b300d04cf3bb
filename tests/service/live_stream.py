"""A stream of decisions behind a live page, whose answers come late, out of order, or never."""

import heapq
from random import Random
from threading import Event, Thread
from time import monotonic

WORDS = {"small": ("hello", "thanks"), "medium": ("letter", "plan"), "large": ("prove", "novel")}


class Stream:
    """Decides at a rate in the background, and answers later; an error is raised by `stop`."""

    def __init__(self, service, name="router", per_second=40.0, delay=0.5, seed=1):
        self.service, self.name, self.per_second, self.delay = service, name, per_second, delay
        self.random = Random(seed)
        self.waiting = []
        self.problem = None
        self.stopping = Event()
        self.thread = Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if self.problem is not None:
            raise self.problem

    def run(self):
        try:
            while not self.stopping.wait(self.random.expovariate(self.per_second)):
                self.decide()
                self.answer(monotonic())
        except Exception as problem:
            self.problem = problem

    def decide(self):
        right = self.random.choice(list(WORDS))
        features = {"prompt": " ".join(self.random.choices(WORDS[right], k=3)), "tokens": self.random.randrange(500)}
        reply = self.service.decide(features, self.name)
        assert reply.status_code == 200, reply.text
        if self.random.random() < 0.9:
            due = monotonic() + self.random.expovariate(1 / self.delay)
            heapq.heappush(self.waiting, (due, reply.json()["id"], reply.json()["label"] == right))

    def answer(self, now):
        while self.waiting and self.waiting[0][0] <= now:
            _, decided, correct = heapq.heappop(self.waiting)
            reply = self.service.feedback(decided, self.name, correct=correct)
            assert reply.status_code == 200, reply.text
