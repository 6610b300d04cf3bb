"""`delaytron serve`: the decision service, on a folder of journals or on PostgreSQL."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from delaytron.cli.outputs import make_folder
from delaytron.errors import InvalidInput
from delaytron.extras import needs

if TYPE_CHECKING:
    from delaytron.service.backend import Backend
    from delaytron.service.limits import Limits

EXAMPLES = """
Examples

delaytron serve shop/
delaytron serve shop/ --host 0.0.0.0 --port 8100 --keys keys.txt
delaytron serve --postgres postgresql://shop@db.example/shop
"""
NEEDED = {"serve": ("starlette", "uvicorn", "httptools"), "postgres": ("psycopg",)}
KEY_FILE = "token-keys"  # in the folder, unless another file is named

Folder = Annotated[
    Path | None, typer.Argument(help="The folder of the journals, one for each model; it is made if need be.")
]
Postgres = Annotated[
    str | None, typer.Option(metavar="DSN", help="Instead of a folder: a PostgreSQL database, for many machines.")
]
Host = Annotated[str, typer.Option(help="The address to listen on; others than this machine's own need --keys.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.", min=0, max=65535)]
Keys = Annotated[
    Path | None,
    typer.Option(help="A file of lines `admin KEY` or `client KEY`; else DELAYTRON_ADMIN_KEY, DELAYTRON_CLIENT_KEY."),
]
Tokens = Annotated[Path | None, typer.Option(help="The file of the keys that sign tokens.", show_default="in FOLDER")]
Rate = Annotated[float | None, typer.Option(help="Requests per second that one client may send.", min=0.001)]
Body = Annotated[int, typer.Option(help="Bytes that a request may have.", min=1)]
Open = Annotated[int, typer.Option(help="Decisions of a model that may wait for an answer.", min=1)]


def serve(
    folder: Folder = None,
    postgres: Postgres = None,
    host: Host = "127.0.0.1",
    port: Port = 8100,
    keys: Keys = None,
    token_keys: Tokens = None,
    rate: Rate = None,
    max_body: Body = 1_000_000,
    max_open: Open = 1_000_000,
) -> None:
    """Decide over HTTP now, and take feedback whenever it comes; what is acknowledged is on disk.

    The API is described at /openapi.json, and a live page is at /.
    SIGTERM or Ctrl-C finishes what has begun.
    """
    check_installed("serve")
    from delaytron.service.keys import read_api_keys  # noqa: PLC0415 - an extra
    from delaytron.service.limits import Limits  # noqa: PLC0415
    from delaytron.service.server import run_server  # noqa: PLC0415

    if (folder is None) == (postgres is None):
        came = "neither" if folder is None else "both"
        raise InvalidInput(f"models are kept in a folder or in PostgreSQL, got {came}; give FOLDER or --postgres DSN")
    api_keys = read_api_keys(keys)
    limits = Limits(body_bytes=max_body, open_decisions=max_open, rate=rate)
    backend = on_postgres(postgres, token_keys, limits) if folder is None else on_folder(folder, token_keys, limits)
    run_server(backend, api_keys, limits, host, port)


def on_folder(folder: Path, token_keys: Path | None, limits: "Limits") -> "Backend":
    """Return what keeps models in journals."""
    from delaytron.service.embedded import Embedded  # noqa: PLC0415
    from delaytron.service.token_files import make_token_keys  # noqa: PLC0415

    make_folder(folder)
    return Embedded(folder, make_token_keys(token_keys or folder / KEY_FILE), limits)


def on_postgres(dsn: str | None, token_keys: Path | None, limits: "Limits") -> "Backend":
    """Return what keeps models in PostgreSQL; all machines need the same keys of tokens."""
    check_installed("postgres")
    from delaytron.service.postgres.backend import PostgresBackend  # noqa: PLC0415
    from delaytron.service.token_files import read_token_keys  # noqa: PLC0415

    tokens = None if token_keys is None else read_token_keys(token_keys)
    return PostgresBackend(dsn or "", tokens=tokens, limits=limits)


def check_installed(extra: str) -> None:
    """Raise if an extra is missing."""
    for name in NEEDED[extra]:
        needs(name)
