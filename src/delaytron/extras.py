"""Optional libraries: the extra that installs each, and the error where one is missing."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from delaytron.errors import MissingLibrary


class Library(NamedTuple):
    """The package and the extra that install a library, and what needs it."""

    package: str
    extra: str
    user: str  # subject and verb of the message


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
    """Raise MissingLibrary if a library is not installed; call it before importing any library of an extra.

    Where several extras install a library, `user` is the module that is to be used.

    Examples
    --------
    >>> needs("matplotlib")  # here it is installed
    """
    try:
        import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:  # the library is installed, but broken
            raise
        raise missing_library(user or module) from None


def is_installed(module: str) -> bool:
    """Whether a library is installed; it is not imported.

    Examples
    --------
    >>> is_installed("numpy"), is_installed("no_such_library")
    (True, False)
    """
    return find_spec(module) is not None


def missing_library(module: str) -> MissingLibrary:
    """Return the error about a library that is not installed.

    Examples
    --------
    >>> print(missing_library("matplotlib"))
    a figure needs matplotlib; pip install 'delaytron[plot]'
    """
    library = LIBRARIES[module]
    return MissingLibrary(f"{library.user} {library.package}", f"pip install 'delaytron[{library.extra}]'")
