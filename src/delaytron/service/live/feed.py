"""The figures of models for all who watch them: read about once a second, and told when they have changed."""

import asyncio
from logging import getLogger

import msgspec

from delaytron.errors import DelaytronError
from delaytron.service.backend import Backend
from delaytron.service.messages import RECENT, RecentDecisions, StatsReply
from delaytron.service.problems import TooMany, Unavailable

SECONDS = 1.0  # between two looks at a model
MOST_WATCHERS = 100

log = getLogger("delaytron.service")
_encode = msgspec.json.Encoder().encode


class Feed:
    """One model: while somebody watches, its figures are read, once for all who do."""

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._known: StatsReply | None = None
        self.watchers = 0
        self.version = 0  # of the newest figures
        self.newest = b""
        self.ended = False
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        """Return the figures of now, as events."""
        return await self._events(await self._backend.stats(self._name))

    async def follow(self) -> None:
        """Read again and again, until nobody watches or the model cannot be read."""
        try:
            while self.watchers and not self.ended:
                await self._look()
                await asyncio.sleep(SECONDS)
        except DelaytronError:
            pass  # whoever watches asks again, and is told why
        except Exception:
            log.exception("the figures of model %r cannot be read", self._name)
        finally:
            self.end()

    async def _look(self) -> None:
        stats = await self._backend.stats(self._name)
        lasting = msgspec.structs.replace(stats, oldest_seconds=None)
        if lasting != self._known:
            self.newest = await self._events(stats)
            self._known = lasting
            self.version += 1
            self._tell()

    async def _events(self, stats: StatsReply) -> bytes:
        decisions = await self._backend.recent(self._name, RECENT)
        return as_event("stats", stats) + as_event("decisions", RecentDecisions(decisions))

    def end(self) -> None:
        """Let all go who watch."""
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        told, self.changed = self.changed, asyncio.get_running_loop().create_future()
        told.set_result(None)


class Watchers:
    """All who watch; `stop` lets them go."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._feeds: dict[str, Feed] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._count = 0
        self._stopping = False

    def stop(self) -> None:
        """Let all go who watch, and take nobody any more: the service stops."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.end()

    async def join(self, name: str) -> tuple[Feed, bytes]:
        """Watch a model, until `leave`: return its feed, and the figures of now."""
        if self._count >= MOST_WATCHERS:
            raise TooMany(f"{MOST_WATCHERS} pages watch already, which is the limit; close one")
        self._count += 1
        try:
            figures = await Feed(self._backend, name).read()  # raises if there is no such model
            feed = self._feed(name)
        except BaseException:
            self._count -= 1
            raise
        feed.watchers += 1
        return feed, figures

    def leave(self, feed: Feed) -> None:
        """Watch no longer."""
        feed.watchers -= 1
        self._count -= 1

    def _feed(self, name: str) -> Feed:
        if self._stopping:
            raise Unavailable("the service is stopping; try again")
        feed = self._feeds.get(name)
        if feed is None or feed.ended:
            feed = self._feeds[name] = Feed(self._backend, name)
            following = asyncio.create_task(feed.follow())
            self._following.add(following)  # else nothing would hold it
            following.add_done_callback(self._following.discard)
        return feed


def as_event(kind: str, message: msgspec.Struct) -> bytes:
    r"""Return a message as a server-sent event.

    Examples
    --------
    >>> as_event("decisions", RecentDecisions([]))
    b'event: decisions\ndata: {"decisions":[]}\n\n'
    """
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), _encode(message))
