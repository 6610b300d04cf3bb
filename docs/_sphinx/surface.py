"""Warns of public names that the API reference leaves out (`make docs` then fails); describes what has no docstring."""

from importlib import import_module
from typing import Any

PARTS = {f"delaytron.{name}" for name in ("datasets", "delays", "logs", "theory")}
DOORS = {f"delaytron.{name}" for name in ("gymnasium", "mlflow", "river", "sklearn")}
MODULES = {"delaytron"} | PARTS | DOORS
WITHOUT_PAGE = {"delaytron.__version__"} | PARTS

CONSTANTS = {
    "delaytron.LEARNERS": "The classes of all learners, by name.",
    "delaytron.DEFAULT_LEARNER": "The name of the learner that needs no tuning.",
    "delaytron.datasets.DATASETS": "What loads each of the named data sets, by name.",
    "delaytron.delays.NEVER": "The delay of feedback that never comes.",
    "delaytron.theory.STATEMENTS": "All bounds: their names, who states them, and for which learner, loss and delays.",
}


def setup(app: Any) -> dict[str, bool]:
    """Check the public names when all pages are read; complete every docstring."""
    app.connect("env-check-consistency", _warn)
    app.connect("autodoc-process-docstring", lambda _app, _what, name, _found, _options, lines: describe(name, lines))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _warn(_: Any, env: Any) -> None:
    from sphinx.util import logging  # noqa: PLC0415 - `missing` needs none of it

    for name in missing(set(env.domains["py"].objects)):
        logging.getLogger(__name__).warning("%s is public: list it in docs/reference/api.md", name)


def missing(documented: set[str]) -> list[str]:
    """Return the public names that are not among the documented ones."""
    public = {f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
    return sorted(public - documented - WITHOUT_PAGE)


def describe(name: str, lines: list[str]) -> None:
    """Describe constants and parameters of learners, whose docstrings are those of their types and getters."""
    if name in CONSTANTS:
        lines[:] = [CONSTANTS[name], ""]
    elif any("attrgetter(attr" in line for line in lines):  # not always the first one: numpydoc was here
        lines[:] = [f"The parameter ``{name.rpartition('.')[2]}`` that the learner was made with.", ""]
