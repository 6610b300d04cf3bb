"""The decision service: decisions and feedback over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette


def make_app(folder: str | Path) -> "Starlette":
    """Return the ASGI application that `delaytron serve FOLDER` runs, without API keys and with the default limits.

    The journals of the folder are opened when the application starts, and closed when it stops. Any ASGI server can run
    it, but on a loopback address only, because there are no keys. Raises `MissingLibrary` if the extra `serve` is
    missing.
    """
    from delaytron.extras import needs  # noqa: PLC0415 - importing the package must not load an extra

    needs("starlette")
    from delaytron.service import app  # noqa: PLC0415
    from delaytron.service.models import Models  # noqa: PLC0415
    from delaytron.service.security import ApiKeys  # noqa: PLC0415

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    return app.make_app(Models(place), ApiKeys())
