"""Libraries that not everybody needs: they come with an extra, and where one is missing, one line says which."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from delaytron.errors import MissingLibrary


class Library(NamedTuple):
    """How a library is installed, and what for."""

    package: str
    extra: str
    user: str  # what needs it


LIBRARIES = {
    "delaytron.sklearn": Library("scikit-learn", "sklearn", "delaytron.sklearn needs"),
    "distributed": Library("distributed", "dask", "backend 'dask' needs"),
    "gymnasium": Library("gymnasium", "gymnasium", "delaytron.gymnasium needs"),
    "httptools": Library("httptools", "serve", "the service needs"),
    "httpx": Library("httpx", "client", "a client needs"),
    "matplotlib": Library("matplotlib", "plot", "a figure needs"),
    "mlflow": Library("mlflow-skinny", "mlflow", "delaytron.mlflow needs"),
    "onnx": Library("onnx", "onnx", "export_onnx needs"),
    "pooch": Library("pooch", "datasets", "downloading data needs"),
    "psycopg": Library("psycopg", "postgres", "a service on PostgreSQL needs"),
    "pyarrow": Library("pyarrow", "tables", "logs and tables (CSV, Parquet) need"),
    "ray": Library("ray", "ray", "backend 'ray' needs"),
    "river": Library("river", "river", "delaytron.river needs"),
    "sklearn": Library("scikit-learn", "datasets", "this data set or bound needs"),
    "starlette": Library("starlette", "serve", "the service needs"),
    "torch": Library("PyTorch", "features", "building features needs"),
    "uvicorn": Library("uvicorn", "serve", "the service needs"),
}


def needs(module: str, user: str | None = None) -> None:
    """Raise if a library is not installed: stands before the import of every library that an extra brings.

    Where several extras bring a library, `user` is the module for which one of them is meant.

    Examples
    --------
    >>> needs("matplotlib")  # here it is installed
    """
    try:
        import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:  # the library is there and broken
            raise
        raise MissingLibrary(missing_text(user or module)) from None


def is_installed(module: str) -> bool:
    """Whether a library is there; it is not loaded.

    Examples
    --------
    >>> is_installed("numpy"), is_installed("no_such_library")
    (True, False)
    """
    return find_spec(module) is not None


def missing_text(module: str) -> str:
    """Return the line that says how to get a library.

    Examples
    --------
    >>> missing_text("matplotlib")
    "a figure needs matplotlib: pip install 'delaytron[plot]'"
    """
    library = LIBRARIES[module]
    return f"{library.user} {library.package}: pip install 'delaytron[{library.extra}]'"
