"""Server-sent events of a model: what is sent, when, to how many, and how they end."""

import asyncio
import json
from time import monotonic

import pytest
from watching import SOON, Figures, Watch, streaming, until

from delaytron.service.live import pages
from delaytron.service.live.pages import MOST_WATCHERS
from delaytron.service.problems import Unavailable

KEY = "a-client-key-of-some-length"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(pages, "SECONDS", 0.01)


def test_events_are_sent_at_once_and_after_each_change():
    async def run():
        figures = Figures(decisions=30)
        stream, _ = streaming(figures)
        watch = Watch(stream)
        status, headers = await watch.start()
        assert (status, headers[b"content-type"]) == (200, b"text/event-stream")
        first = await watch.figures()
        assert first["stats"]["decisions"] == 30
        assert [one["id"] for one in first["decisions"]["decisions"]] == [str(i) for i in range(30, 10, -1)]
        figures.decisions = 31
        async with asyncio.timeout(SOON):
            while (newer := await watch.figures())["stats"]["decisions"] != 31:
                pass
        assert newer["decisions"]["decisions"][0]["id"] == "31"
        await watch.leave()

    asyncio.run(run())


def test_without_a_change_only_heartbeats_are_sent(monkeypatch):
    monkeypatch.setattr(pages, "HEARTBEAT_SECONDS", 0.2)

    async def run():
        figures = Figures(decisions=3)
        stream, _ = streaming(figures)
        watch = Watch(stream)
        await watch.start()
        bodies = [await watch.body() for _ in range(6)]
        assert figures.reads > 20  # and each time the oldest was older
        assert set(bodies[2:]) == {b": still here\n\n"}
        await watch.leave()

    asyncio.run(run())


def test_a_model_is_read_once_for_all_watchers_and_not_without_any(monkeypatch):
    monkeypatch.setattr(pages, "SECONDS", 0.1)

    async def run():
        figures = Figures()
        stream, _ = streaming(figures)
        watching = [Watch(stream) for _ in range(50)]
        for watch in watching:
            await watch.start()
        before, began = figures.reads, monotonic()
        await asyncio.sleep(1.0)
        assert figures.reads - before <= (monotonic() - began) / 0.1 + 2
        for watch in watching:
            await watch.leave()
        await asyncio.sleep(0.3)
        gone = figures.reads
        await asyncio.sleep(0.5)
        assert figures.reads == gone
        again = Watch(stream)
        assert (await again.start())[0] == 200
        await again.leave()

    asyncio.run(run())


def test_a_watcher_above_the_limit_is_refused_until_another_leaves():
    async def run():
        stream, _ = streaming(Figures())
        watching = [Watch(stream) for _ in range(MOST_WATCHERS)]
        assert {(await watch.start())[0] for watch in watching} == {200}
        refused = Watch(stream)
        status, headers = await refused.start()
        assert (status, headers[b"retry-after"]) == (429, b"1")
        assert json.loads(await refused.body())["result"] == "too_many"
        unknown = Watch(stream, name="other")
        assert (await unknown.start())[0] == 429
        await watching.pop().leave()
        assert [(await Watch(stream, name="other").start())[0] for _ in range(3)] == [404] * 3  # they take no place
        watching.append(Watch(stream))
        assert (await watching[-1].start())[0] == 200
        for watch in watching:
            await watch.leave()

    asyncio.run(run())


def test_all_streams_end_when_the_service_stops_and_new_ones_are_refused():
    async def run():
        stream, watchers = streaming(Figures())
        watching = [Watch(stream) for _ in range(10)]
        for watch in watching:
            await watch.start()
        watchers.stop()
        await asyncio.wait_for(asyncio.gather(*(watch.task for watch in watching)), SOON)
        for watch in watching:
            while not watch.sent.empty():
                last = watch.sent.get_nowait()
            assert not last.get("more_body")  # a whole reply
        assert (await Watch(stream).start())[0] == 503

    asyncio.run(run())


@pytest.mark.parametrize("error", [Unavailable("the disk is full", "make room"), ZeroDivisionError("secret")])
def test_events_end_if_the_model_cannot_be_read_and_a_reconnect_gets_the_error(error, caplog):
    async def run():
        figures = Figures()
        stream, _ = streaming(figures)
        watch = Watch(stream)
        await watch.start()
        figures.error = error
        await asyncio.wait_for(watch.task, SOON)
        refused = Watch(stream)
        assert (await refused.start())[0] == 503
        detail = json.loads(await refused.body())["detail"]
        assert detail == ("the disk is full" if isinstance(error, Unavailable) else detail)
        assert "secret" not in detail
        figures.error = None
        again = Watch(stream)
        assert (await again.start())[0] == 200
        await again.leave()

    asyncio.run(run())
    assert bool(caplog.records) == isinstance(error, ZeroDivisionError)


def test_a_slow_watcher_gets_the_newest_events_and_no_backlog():
    async def run():
        figures = Figures()
        stream, _ = streaming(figures)
        watch = Watch(stream)
        await watch.start()
        await watch.figures()
        watch.blocked.clear()
        for number in range(1, 21):
            figures.decisions = number
            reads = figures.reads
            await until(lambda reads=reads: figures.reads > reads + 2)
        watch.blocked.set()
        numbers = []
        async with asyncio.timeout(SOON):
            while 20 not in numbers:
                numbers.append((await watch.figures())["stats"]["decisions"])
        assert len(numbers) <= 3
        await watch.leave()

    asyncio.run(run())


def test_a_change_before_the_first_event_is_sent_is_sent_afterwards():
    async def run():
        figures = Figures(decisions=1)
        stream, _ = streaming(figures)
        watch = Watch(stream)
        watch.blocked.clear()
        for decisions in (1, 2):
            figures.decisions = decisions
            reads = figures.reads
            await until(lambda reads=reads: figures.reads > reads + 2)
        watch.blocked.set()
        await watch.start()
        assert [(await watch.figures())["stats"]["decisions"] for _ in range(2)] == [1, 2]
        await watch.leave()

    asyncio.run(run())


def test_a_head_has_no_events():
    async def run():
        stream, _ = streaming(Figures())
        watch = Watch(stream, method="HEAD")
        assert (await watch.start())[0] == 200
        await asyncio.wait_for(watch.task, SOON)
        assert not (await watch.take()).get("more_body")

    asyncio.run(run())


@pytest.mark.parametrize(("given", "status"), [(None, 401), ("no-key-that-is-known", 401), (KEY, 200)])
def test_a_key_is_needed_as_for_stats(given, status):
    async def run():
        stream, _ = streaming(Figures(), keys=[KEY])
        headers = [] if given is None else [(b"authorization", f"Bearer {given}".encode())]
        watch = Watch(stream, headers=headers)
        assert (await watch.start())[0] == status
        if status == 200:
            await watch.leave()

    asyncio.run(run())


def test_another_site_cannot_watch_a_service_without_keys():
    async def run():
        stream, _ = streaming(Figures())
        watch = Watch(stream, headers=[(b"host", b"127.0.0.1:8100"), (b"origin", b"https://elsewhere.example")])
        assert (await watch.start())[0] == 403

    asyncio.run(run())
