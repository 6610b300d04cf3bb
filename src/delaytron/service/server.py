"""Runs the service: one process, one event loop, and a thread for each model for what takes longer."""

import gc
import signal
import sys
from asyncio import TimerHandle
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from delaytron.service.app import make_app
from delaytron.service.backend import Backend
from delaytron.service.keys import ApiKeys, check_binding
from delaytron.service.limits import Limits
from delaytron.service.listening import check_free

HEADER_SECONDS = 10.0  # that a client may take until its request has begun
READ_SECONDS = 10.0  # that a client may read nothing of what is sent
STOP_SECONDS = 30  # that requests may take when the service stops
MOST_CONNECTIONS = 2_000
COLLECT = (2_000, 10, 1_000)  # generations of garbage: a look at all that there is stops everything for long
SWITCH_SECONDS = 0.0001  # after which a thread lets another one run: one may pack a snapshot meanwhile


class PatientProtocol(HttpToolsProtocol):
    """Closes connections on which no request begins, or no reply is read: the server itself waits for ever."""

    def connection_made(self, transport: Any) -> None:
        """Give the client some seconds to begin."""
        super().connection_made(transport)
        self._unread: TimerHandle | None = None
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_idle)

    def on_headers_complete(self) -> None:
        """Let a request that has begun be."""
        self._timer.cancel()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        """Give the next request on this connection its seconds, too."""
        super().on_message_begin()
        self._timer.cancel()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """There is nothing to close any more."""
        self._timer.cancel()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client some seconds to read: more has been sent than the system takes."""
        super().pause_writing()
        self._abort_if_unread(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def _abort_if_unread(self, before: int) -> None:
        size = self.transport.get_write_buffer_size()
        if size < before:
            self._unread = self.loop.call_later(READ_SECONDS, self._abort_if_unread, size)
        else:
            self.transport.abort()

    def _close_if_idle(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def run_server(backend: Backend, keys: ApiKeys, limits: Limits, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; then finish what has begun and close everything."""
    check_binding(host, keys)
    check_free(host, port)
    sys.setswitchinterval(SWITCH_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):  # the server raises them again when it has stopped
        signal.signal(number, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        make_app(backend, keys, limits),
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=75,
    )
    _Server(config).run()


def _collect_seldom() -> None:
    """Let the search for garbage pass over the program itself, and seldom look at what has long been there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


class _Server(uvicorn.Server):
    """Says where it listens, as soon as it does, and lets watchers go when it stops."""

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        _collect_seldom()
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                sys.stderr.write(f"delaytron: serving on http://{shown}:{port}\n")
        sys.stderr.flush()

    async def shutdown(self, sockets: Any = None) -> None:
        """Let those go who watch, and then finish what has begun."""
        self.config.app.state.watchers.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)
