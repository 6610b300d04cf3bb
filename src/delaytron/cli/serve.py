"""`delaytron serve`: the decision service, on a folder of journals or on PostgreSQL."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from delaytron.cli.outputs import make_folder
from delaytron.errors import InvalidInput
from delaytron.extras import needs

if TYPE_CHECKING:
    from delaytron.service.backend import Backend

EXAMPLES = """
Examples

delaytron serve shop/
delaytron serve shop/ --host 0.0.0.0 --port 8100 --keys keys.txt
delaytron serve --postgres postgresql://shop@db.example/shop
"""

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="The folder of the journals, one for each model; created if missing."),
]
Postgres = Annotated[
    str | None, typer.Option(metavar="DSN", help="Instead of a folder: a PostgreSQL database, for many machines.")
]
Host = Annotated[str, typer.Option(help="The address to listen on; any but the loopback address needs API keys.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)]
Keys = Annotated[
    Path | None,
    typer.Option(help="A file of lines `admin KEY` or `client KEY`; else DELAYTRON_ADMIN_KEY, DELAYTRON_CLIENT_KEY."),
]
Rate = Annotated[float | None, typer.Option(help="Requests per second and client.", min=0.001, show_default="no limit")]
Body = Annotated[int, typer.Option(help="Largest body of a request, in bytes.", min=1)]
Open = Annotated[int, typer.Option(help="Most open decisions of a model.", min=1)]


def serve(
    folder: Folder = None,
    postgres: Postgres = None,
    host: Host = "127.0.0.1",
    port: Port = 8100,
    keys: Keys = None,
    rate: Rate = None,
    max_body: Body = 1_000_000,
    max_open: Open = 1_000_000,
) -> None:
    """Serve models over HTTP: decide now, take feedback whenever it comes; what is acknowledged is on disk.

    The API is described at /openapi.json, and a live page is at /. SIGTERM or
    Ctrl-C ends the service when the requests that have begun are finished.
    """
    for name in ("starlette", "uvicorn", "httptools"):
        needs(name)
    from delaytron.service.security import Limits, read_api_keys  # noqa: PLC0415 - needs an extra
    from delaytron.service.server import run_server  # noqa: PLC0415

    if (folder is None) == (postgres is None):
        came = "neither" if folder is None else "both"
        raise InvalidInput(f"models are kept in a folder or in PostgreSQL, got {came}", "give FOLDER or --postgres DSN")
    api_keys = read_api_keys(keys)
    limits = Limits(body_bytes=max_body, open_decisions=max_open, rate=rate)
    backend: Backend
    if folder is not None:
        from delaytron.service.models import Models  # noqa: PLC0415

        make_folder(folder)
        backend = Models(folder, limits)
    else:
        needs("psycopg")
        from delaytron.service.postgres.backend import PostgresBackend  # noqa: PLC0415

        backend = PostgresBackend(postgres or "", limits=limits)
    run_server(backend, api_keys, limits, host, port)
