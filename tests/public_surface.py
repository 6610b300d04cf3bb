"""List the public interface: `python tests/public_surface.py` rewrites tests/public_surface.txt.

Names in the `__all__` of public modules with their parameters, public methods, commands with their arguments and
options, routes, numbers of file formats. What a base class lists is not repeated for its subclasses, and fields of
records are the parameters in the line of their class. A test compares. A line that goes or changes needs an entry in
CHANGELOG.md, see docs/reference/stability.md.
"""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path

import delaytron as dt

HERE = Path(__file__).parent
STORED = HERE / "public_surface.txt"
MODULES = ("client", "datasets", "delays", "gymnasium", "logs", "mlflow", "river", "sklearn", "theory")  # and the root
FOR_AUTHORS = {  # of learners: how one is written is internal, see CONTRIBUTING.md
    *(
        "answer",
        "book",
        "check_growth",
        "compile",
        "count_changes",
        "end",
        "play_chosen",
        "play_round",
        "play_rounds",
        "remark",
        "restore",
        "rule",
    ),
    *("scratch", "settings", "size", "sparse", "state", "take", "takes_rewards", "weights_of"),
}
DUNDERS = ("__call__", "__enter__", "__exit__", "__iter__", "__len__")
FORMATS = {
    "journal": ("delaytron.journal.database", "FORMAT"),
    "learner file": ("delaytron.learners.files", "FORMAT"),
    "model file": ("delaytron.model.snapshots", "FORMAT"),
    "stored run": ("delaytron.experiments.spec", "FORMAT"),
    "stored theory": ("delaytron.experiments.theory", "FORMAT"),
}


def surface():
    """Return everything, a line each, in the same order always."""
    return "\n".join([*python_lines(), *command_lines(), *route_lines(), *format_lines()]) + "\n"


def python_lines():
    """Yield what can be imported: from the root, then what the other public modules add to it."""
    seen = {id(getattr(dt, name)) for name in dt.__all__}
    for name in sorted(dt.__all__):
        yield from lines_of(f"delaytron.{name}", getattr(dt, name))
    for name in MODULES:
        yield from lines_of_module(f"delaytron.{name}", seen)


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
    caught = inspect.isclass(thing) and issubclass(thing, Exception)  # users catch errors; they do not construct them
    yield f"python {name}{'(...)' if caught else parameters_of(thing)}"
    if inspect.isclass(thing):
        for member in sorted(members_of(thing)):
            if is_public(thing, member):
                yield member_line(name, thing, member)


def is_public(cls, member):
    """Whether a member of a class is for users, written in this package, and not listed already."""
    if issubclass(cls, Exception) or (member.startswith("_") and member not in DUNDERS):
        return False
    if issubclass(cls, dt.Learner) and member in FOR_AUTHORS:
        return False
    owner = next(base for base in cls.__mro__ if member in vars(base) or member in inspect.get_annotations(base))
    return owner.__module__.startswith("delaytron") and member not in fields_of(cls) and not is_listed(cls, member)


def fields_of(cls):
    """Return the fields of a record, which are parameters of its constructor."""
    named = getattr(cls, "_fields", ()) if issubclass(cls, tuple) else ()
    return {*named, *getattr(cls, "__dataclass_fields__", ())}


def is_listed(cls, member):
    """Whether a public base class, or the protocol of delays, has the same line."""
    bases = [base for base in cls.__mro__[1:] if getattr(dt, base.__name__, None) is base]
    if cls.__module__.startswith("delaytron.delays") and cls is not dt.delays.Delay:
        bases.append(dt.delays.Delay)
    return any(
        member in members_of(base) and member_line("", base, member) == member_line("", cls, member) for base in bases
    )


def members_of(cls):
    """Return the names of all members, also of those that a class of this package only declares."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("delaytron")]
    return {*dir(cls), *(name for base in ours for name in inspect.get_annotations(base))}


def member_line(name, cls, member):
    """Return a method with its parameters, or an attribute."""
    value = inspect.getattr_static(cls, member, None)
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
    """Yield a command with its arguments and options, and those below it."""
    taken = [option for option in command.params if "--help" not in option.opts]
    shown = ["/".join([*option.opts, *option.secondary_opts]) for option in taken]
    words = [text if text.startswith("-") else option.name.upper() for text, option in zip(shown, taken, strict=True)]
    yield " ".join(["command", name, *words])
    for inner in sorted(getattr(command, "commands", {})):
        yield from lines_of_command(f"{name} {inner}", command.commands[inner])


def route_lines():
    """Yield the routes of the service."""
    from delaytron.service.routes import document

    for path, methods in sorted(json.loads(document())["paths"].items()):
        yield from (f"http {method.upper()} {path}" for method in sorted(methods) if method != "parameters")


def format_lines():
    """Yield the numbers of file formats."""
    for name, (module, constant) in FORMATS.items():
        yield f"format {name}: {getattr(import_module(module), constant)}"


if __name__ == "__main__":
    STORED.write_text(surface())
