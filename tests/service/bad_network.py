"""A bad network in front of a service: replies are lost, connections cut, and a proxy says that there is no service."""

import asyncio
import re
from collections import Counter
from contextlib import suppress
from threading import Thread

HALF = 2
LOST = (
    "drop reply",
    "cut reply",
    "late reply",
    "503 for it",
    "504 for it",
)  # the service replies, and the client does not get it
UNSEEN = ("cut at once", "cut request", "503", "429")  # the service gets nothing, or half of the request
FAULTS = LOST + UNSEEN
CANNED = {
    "503": b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy",
    "503 for it": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "504 for it": b"HTTP/1.1 504 Gateway Timeout\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
}


class BadNetwork:
    """A proxy in a thread. `next_fault()` says what happens to each request: one of FAULTS, or None."""

    def __init__(self, target, next_fault=lambda: None, late=0.35):
        self.target = target
        self.next_fault = next_fault
        self.late = late  # seconds that a late reply takes
        self._serving = set()
        self.seen = Counter()  # what happened, by its name; "taken": requests that the service got whole

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def __exit__(self, *_):
        self._run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self):
        """End all connections, also new ones."""
        self._server.close()
        while asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._serving:  # one that has not begun yet could not close its connection
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        upstream = None
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await read_message(reader)
                if upstream is None:
                    host, port = self.target.removeprefix("http://").split(":")
                    upstream = await asyncio.open_connection(host, int(port))
                reply = await self._exchange(request, upstream)
                if reply is None:
                    break
                writer.write(reply[0])
                await writer.drain()
                if not reply[1]:
                    break
        for end in (writer, *(upstream or ())[1:]):
            end.transport.abort()

    async def _exchange(self, request, upstream):
        """Return what the client gets, and whether it is all; None if it gets nothing."""
        fault = self.next_fault()
        self.seen[fault] += 1
        if fault in ("503", "429"):
            return CANNED[fault], True
        if fault == "cut at once":
            return None
        reader, writer = upstream
        writer.write(request[: len(request) // HALF] if fault == "cut request" else request)
        await writer.drain()
        if fault == "cut request":
            return None
        reply = await read_message(reader)
        self.seen["taken"] += 1
        return await self._spoil(fault, reply)

    async def _spoil(self, fault, reply):
        if fault == "drop reply":
            return None
        if fault == "cut reply":
            return reply[: len(reply) // HALF], False
        if fault == "late reply":
            await asyncio.sleep(self.late)
        return CANNED.get(fault, reply), True


async def read_message(reader):
    """Return one request or reply, whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return head + await reader.readexactly(int(length[1]) if length else 0)
