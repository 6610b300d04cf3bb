"""The page at /, and the few files that it needs: they hold no data, so that no key is needed for them."""

from pathlib import Path

from starlette.routing import BaseRoute, Route

from delaytron.service.backend import Backend
from delaytron.service.endpoint import Call, Endpoint, Gate, Reply
from delaytron.service.live.events import PATH, EventStream
from delaytron.service.live.feed import Watchers

FOLDER = Path(__file__).parent / "page"
PAGE = "page.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def live_routes(gate: Gate, backend: Backend) -> tuple[list[BaseRoute], Watchers]:
    """Return the routes of the page and of its events, and those who watch, to be let go when the service stops."""
    watchers = Watchers(backend)
    files = {f"/live/{path.name}": path for path in sorted(FOLDER.iterdir()) if path.name != PAGE}
    files["/"] = FOLDER / PAGE
    routes: list[BaseRoute] = [Route(PATH, EventStream(gate, watchers), methods=["GET"])]
    routes += [Route(address, _served(gate, address, path), methods=["GET"]) for address, path in files.items()]
    return routes, watchers


def _served(gate: Gate, address: str, path: Path) -> Endpoint:
    """Return the endpoint of a file."""
    reply = Reply(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix], headers=HEADERS)

    async def handler(call: Call) -> Reply:  # noqa: ARG001
        return reply

    return Endpoint(gate, address, handler, None)
