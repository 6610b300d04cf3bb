"""What went wrong, in one line that names options as they are typed."""

import re
from collections.abc import Iterable
from typing import Any

from delaytron.cli.data_options import LOADED_AS
from delaytron.files.advice import with_advice

OTHER_NAMES = {**LOADED_AS, "classes": "n_classes"}  # of options in Python, where these are not those of the flags
EITHER = {"plan": ("classes", "data")}  # commands that need one of several options
NUMBERS = {"a valid integer": "an integer", "a valid number": "a number", "int": "an integer", "float": "a number"}
OLDER = re.compile(r"Invalid value for '(--[\w-]+)': ('.{,40}).* is not a valid (int|float)")  # of typer 0.28


def usage_line(problem: Any) -> str:
    """Return what is wrong with the words of a command, and which help tells more."""
    said = _bad_value(problem) or _missing(problem) or _elsewhere(problem) or problem.format_message().rstrip(".")
    words = problem.ctx.command_path.split()[1:] if problem.ctx else []
    help_ = " ".join(["delaytron", *words, "--help"])
    return f"{said} See {help_}" if said.endswith("?") else f"{said}; see {help_}"


def _bad_value(problem: Any) -> str | None:
    """Return what a value must be and what came, where the parser tells it."""
    errors = getattr(problem.__cause__, "errors", None)
    if errors is None:
        found = OLDER.match(problem.format_message())
        return f"{found[1]} must be {NUMBERS[found[3]]}, got {found[2]}" if found else None
    error = errors()[0]
    wanted = error["msg"].partition(",")[0].removeprefix("Input should be ")
    return f"{problem.param.opts[0]} must be {NUMBERS.get(wanted, wanted)}, got {str(error['input'])[:40]!r}"


def _missing(problem: Any) -> str | None:
    """Return all that a command still needs, where that is more than the one thing of which the parser tells."""
    if not hasattr(problem, "param_type") or problem.ctx is None:
        return None
    command, given = problem.ctx.command, problem.ctx.params
    names = [_typed(param) for param in command.params if param.required and param.name not in given]
    either = EITHER.get(command.name, ())
    if either and not any(given.get(name) for name in either):
        names.append(" or ".join(f"--{name}" for name in either))
    return f"Missing {', '.join(names)}" if len(names) > 1 else None


def _typed(param: Any) -> str:
    """Return what a user types for a parameter: the flag, or what help calls the argument."""
    return str(param.opts[0] if param.opts[0].startswith("-") else param.metavar or param.name.upper())


def _elsewhere(problem: Any) -> str | None:
    """Return where a command wants what was given as an option that it does not have."""
    name = getattr(problem, "option_name", None)
    names = {param.metavar for param in problem.ctx.command.params} if problem.ctx else set()
    if name == "--data" and "DATASET" in names:
        return "No such option: --data; the data set is an argument, as in delaytron compare digits"
    return None


def system_line(problem: OSError) -> str:
    """Return an error of the system with the file that it is about, without its number.

    Examples
    --------
    >>> system_line(OSError(13, "Permission denied", "out.csv"))
    "cannot use 'out.csv': Permission denied; check the rights of the file and of its folder"
    """
    said = with_advice(problem)
    return said if problem.filename is None else f"cannot use {str(problem.filename)!r}: {said}"


def with_flags(message: str, flags: Iterable[str]) -> str:
    """Return a message in which arguments of Python are the options that they are on the command line.

    Examples
    --------
    >>> with_flags("n_samples must be an integer of at least 1, got 0", ["--samples"])
    '--samples must be an integer of at least 1, got 0'
    >>> with_flags("on_expiry='wrong' needs expire_after=n", ["--on-expiry", "--expire-after"])
    "--on-expiry 'wrong' needs --expire-after n"
    """
    if "(--" in message:  # it names the options itself
        return message
    known = {flag.lstrip("-").replace("-", "_"): flag for flag in flags}
    known |= {other: known[name] for name, other in OTHER_NAMES.items() if name in known and other not in known}
    names = "|".join(known)
    message = re.sub(
        rf"^({names})(?= must | needs )|(?<=: )({names})(?= must be one of )", lambda found: known[found[0]], message
    )
    message = re.sub(rf"(?<![\w.-])({names})=True\b", lambda found: known[found[1]], message)
    message = re.sub(rf"(?<![\w.-])({names})=(?=[^\s=])", lambda found: f"{known[found[1]]} ", message)
    message = re.sub(rf"(?<= takes no )({names})(?=,)", lambda found: known[found[1]], message)
    return re.sub(
        rf"( takes no options|an option of .*)(; got )'({names})'",
        lambda found: found[1] + found[2] + known[found[3]],
        message,
    )
