"""The server: uvicorn in one process with one event loop; each journal has its writer's thread."""

import gc
import os
import signal
import socket
import sys
from asyncio import TimerHandle
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from delaytron.errors import InvalidInput
from delaytron.service.app import make_app
from delaytron.service.backend import Backend
from delaytron.service.security import ApiKeys, Limits, check_binding, resolve

HINTS = {  # what to do, by what is wrong
    EADDRINUSE: "stop what listens there, or give another --port; 0 takes any that is free",
    EADDRNOTAVAIL: "give --host 127.0.0.1, or another address of this machine",
}
ABSENT = (EADDRNOTAVAIL, EAFNOSUPPORT)  # for an address that this machine does not have
HEADER_SECONDS = 10.0  # until the headers of a request must have arrived
READ_SECONDS = 10.0  # after which a client that reads nothing of a reply is disconnected
STOP_SECONDS = 30  # for running requests when the service stops
MOST_CONNECTIONS = 2_000
COLLECT = (2_000, 10, 1_000)  # thresholds of the garbage collector: a full collection stops everything for long
SWITCH_SECONDS = 0.0001  # between switches of threads: requests must not wait for one that packs a snapshot


def check_free(host: str, port: int) -> None:
    """Raise InvalidInput if a server cannot listen there: unknown, taken, not of this machine, or not permitted."""
    refused: list[OSError] = []
    found = resolve(host, port)
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:  # with the options of the server
                if os.name == "posix":
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
                probe.bind(address)
        except OSError as problem:
            refused.append(problem)
    worst = next((problem for problem in refused if problem.errno not in ABSENT), None)
    if worst is not None or len(refused) == len(found):  # where IPv6 is missing, the server listens on the others
        number = (worst or refused[0]).errno or 0
        raise InvalidInput(
            f"cannot listen on {host or 'all addresses'}, port {port}: {os.strerror(number)}",
            HINTS.get(number, "give another --host or --port"),
        )


class TimeoutProtocol(HttpToolsProtocol):
    """Closes connections on which no request begins, or no reply is read; uvicorn has no such timeouts."""

    def connection_made(self, transport: Any) -> None:
        """Start the timeout of the first request."""
        super().connection_made(transport)
        self._unread: TimerHandle | None = None
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_idle)

    def on_headers_complete(self) -> None:
        """Stop the timeout: the body has its own, see `read_body`."""
        self._timer.cancel()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        """Start the timeout of the next request on this connection."""
        super().on_message_begin()
        self._timer.cancel()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
        self._timer.cancel()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read: the buffers of the system are full."""
        super().pause_writing()
        self._abort_if_unread(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        """Stop that timeout: the client reads."""
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
    """Serve until SIGTERM or Ctrl-C; then finish the running requests and close the backend.

    Raises InvalidInput if other machines could reach it without keys, or it cannot listen there.
    """
    check_binding(host, keys)
    check_free(host, port)
    sys.setswitchinterval(SWITCH_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has stopped
        signal.signal(number, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        make_app(backend, keys, limits),
        host=host,
        port=port,
        http=TimeoutProtocol,
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


class _Server(uvicorn.Server):
    """Prints its address when it listens, and disconnects live pages when it stops."""

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        # What is there now, mostly code, stays: collections need not traverse it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                sys.stderr.write(f"delaytron: serving on http://{shown}:{port}\n")
        sys.stderr.flush()

    async def shutdown(self, sockets: Any = None) -> None:
        """End the event streams, which would never end, and finish the other requests."""
        self.config.app.state.watchers.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)
