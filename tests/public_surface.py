"""Write down what users may rely on: `python tests/public_surface.py` rewrites tests/public_surface.txt.

Names in `__all__` with their parameters, public methods, commands with their options, routes, numbers of file formats.
A test compares. A line that goes or changes needs an entry in CHANGELOG.md, see docs/reference/stability.md.
"""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path

import delaytron as dt

HERE = Path(__file__).parent
STORED = HERE / "public_surface.txt"
ALL = re.compile(r"^__all__ = ", re.MULTILINE)
DUNDERS = ("__call__", "__enter__", "__exit__", "__iter__", "__len__")
FORMATS = {
    "journal": ("delaytron.journal.tables", "FORMAT"),
    "learner file": ("delaytron.learners.files", "FORMAT"),
    "model file": ("delaytron.model.snapshots", "FORMAT"),
    "stored run": ("delaytron.experiments.runs", "FORMAT"),
    "stored theory": ("delaytron.experiments.theory", "FORMAT"),
}


def surface():
    """Return everything, a line each, in the same order always."""
    return "\n".join([*python_lines(), *command_lines(), *route_lines(), *format_lines()]) + "\n"


def python_lines():
    """Yield what can be imported: the root, then what other modules with an `__all__` add to it."""
    seen = {id(getattr(dt, name)) for name in dt.__all__}
    for name in sorted(dt.__all__):
        yield from lines_of(f"delaytron.{name}", getattr(dt, name))
    for path in sorted(Path(dt.__file__).parent.glob("*")):
        init = path / "__init__.py" if path.is_dir() else path
        if path.stem != "__init__" and init.suffix == ".py" and init.exists() and ALL.search(init.read_text()):
            yield from lines_of_module(f"delaytron.{path.stem}", seen)


def lines_of_module(module, seen):
    """Yield the names of a module but those that the root has."""
    for name in sorted(import_module(module).__all__):
        thing = getattr(import_module(module), name)
        if id(thing) not in seen:
            yield from lines_of(f"{module}.{name}", thing)


def lines_of(name, thing):
    """Yield a name with its parameters, and those of its public methods."""
    if inspect.ismodule(thing) or not callable(thing):
        yield f"python {name}: {type(thing).__name__}"
        return
    yield f"python {name}{parameters_of(thing)}"
    if inspect.isclass(thing):
        for member in sorted(dir(thing)):
            if is_public(thing, member):
                yield member_line(name, thing, member)


def is_public(cls, member):
    """Whether a member of a class is for users, written in this package, and not listed with a base class."""
    if member.startswith("_") and member not in DUNDERS:
        return False
    owner = next((base for base in cls.__mro__ if member in vars(base)), object)
    listed = owner is not cls and getattr(dt, owner.__name__, None) is owner
    return owner.__module__.startswith("delaytron") and not listed


def member_line(name, cls, member):
    """Return a method with its parameters, or an attribute."""
    value = inspect.getattr_static(cls, member)
    if isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
        return f"python {name}.{member}{parameters_of(getattr(cls, member))}"
    return f"python {name}.{member}"


def parameters_of(thing):
    """Return the names of parameters and their defaults, without types."""
    try:
        known = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    plain = [one.replace(annotation=one.empty, default=default_of(one)) for one in known]
    return re.sub(r" at 0x\w+", "", str(inspect.Signature(plain)))


def default_of(parameter):
    """Return a default that prints in the same way everywhere."""
    value = parameter.default
    if value is parameter.empty or isinstance(value, int | float | str | bytes | tuple | None.__class__):
        return value
    return Named(getattr(value, "__name__", type(value).__name__))


class Named:
    """Prints as a name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def command_lines():
    """Yield the commands, each with its arguments and options."""
    from typer.main import get_command

    from delaytron.cli import app

    yield from lines_of_command("delaytron", get_command(app))


def lines_of_command(name, command):
    """Yield a command, and those below it."""
    for option in command.params:
        if "--help" not in option.opts:
            shown = "/".join([*option.opts, *option.secondary_opts])
            yield f"command {name} {shown if shown.startswith('-') else option.name.upper()}"
    yield f"command {name}"
    for inner in sorted(getattr(command, "commands", {})):
        yield from lines_of_command(f"{name} {inner}", command.commands[inner])


def route_lines():
    """Yield the routes of the service."""
    from delaytron.service.openapi import document

    for path, methods in sorted(json.loads(document())["paths"].items()):
        yield from (f"http {method.upper()} {path}" for method in sorted(methods) if method != "parameters")


def format_lines():
    """Yield the numbers of file formats."""
    for name, (module, constant) in FORMATS.items():
        yield f"format {name}: {getattr(import_module(module), constant)}"


if __name__ == "__main__":
    STORED.write_text(surface())
