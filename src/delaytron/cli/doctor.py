"""`delaytron doctor`: versions, folders and extras of this installation."""

import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, requires, version
from os import W_OK, access, environ
from pathlib import Path
from platform import machine, platform, python_implementation, python_version

import typer
from rich.console import Group
from rich.markup import escape

from delaytron.cli.documents import Check, Extra, Installation
from delaytron.cli.options import Json
from delaytron.cli.outputs import busy, new_table, show
from delaytron.datasets.named import VARIABLE, local_folder
from delaytron.errors import DelaytronError
from delaytron.files.atomic import cache_home

EXAMPLES = """
Examples

delaytron doctor
delaytron doctor --json
"""
CORE = ("delaytron", "numpy", "numba", "llvmlite")


def doctor(json: Json = False) -> None:
    """Check this installation: versions, extras, and the folders of compiled code, downloads and data.

    The exit code is 1 if something is wrong; its line says what to do.
    """
    with busy("checking"):
        found = examine()
    versions = " ".join(f"{name} {text}" for name, text in found.versions.items())
    checks = new_table("check", "", "found")
    for row in found.checks:
        said = f"{row.found}\n-> {row.advice}" if row.advice else row.found
        checks.add_row(*map(escape, (row.check, row.status, said)))
    extras = new_table("extra", "packages", "if you need it")
    for one in found.extras:
        packages = ", ".join(f"{name} {text or 'missing'}" for name, text in one.packages.items())
        advice = f"pip install 'delaytron[{one.extra}]'" if None in one.packages.values() else ""
        extras.add_row(*map(escape, (one.extra, packages, advice)))
    verdict = "All is well." if found.healthy else "Something is wrong: see the advice above."
    show(found, Group(escape(versions), escape(found.system), checks, extras, verdict), json)
    if not found.healthy:
        raise typer.Exit(1)


def examine() -> Installation:
    """Return the versions, folders and extras of this installation."""
    checks = [check_compiled_code(), check_downloads(), check_data_folder()]
    known = {name: text for name in CORE if (text := _installed(name)) is not None}
    return Installation(
        healthy=all(row.status != "wrong" for row in checks),
        versions={"python": python_version(), **known},
        system=f"{platform()} {machine()}, {python_implementation()} at {sys.executable}",
        checks=checks,
        extras=list_extras(),
    )


def check_compiled_code() -> Check:
    """Return whether machine code is kept on disk, and where."""
    if environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        advice = "unset NUMBA_DISABLE_JIT, which makes everything a hundred times slower"
        return Check("compiled code", "note", "the compiler is switched off", advice)
    folder = _folder_of_kernels()
    if folder is None or (folder.exists() and not access(folder, W_OK)):
        advice = "set NUMBA_CACHE_DIR to a folder that can be written"
        return Check("compiled code", "note", "is not kept: every process compiles again", advice)
    files = list(folder.glob("*.nbc"))
    size = sum(file.stat().st_size for file in files)
    return Check("compiled code", "ok", f"{len(files)} kernels, {size / 1e6:.1f} MB in {folder}")


def check_downloads() -> Check:
    """Return where downloads are kept, and whether that folder can be written or created."""
    folder = cache_home()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and access(there, W_OK):
        return Check("downloads", "ok", str(folder) if there == folder else f"{folder}, created when needed")
    advice = "set XDG_CACHE_HOME to a folder that can be written"
    return Check("downloads", "note", f"{folder} cannot be written", advice)


def check_data_folder() -> Check:
    """Return the folder of the user's copies of data sets."""
    try:
        folder = local_folder()
    except DelaytronError as problem:
        return Check("data folder", "wrong", problem.problem, f"create that folder, or unset {VARIABLE}")
    return Check("data folder", "ok", f"{VARIABLE} is not set: data are downloaded" if folder is None else str(folder))


def list_extras() -> list[Extra]:
    """Return the extras that the installed metadata name, each with its packages."""
    found: dict[str, dict[str, str | None]] = {}
    for line in requires("delaytron") or ():
        package, extra = re.match(r"[\w.-]+", line), re.search(r"extra\s*==\s*['\"]([\w-]+)", line)
        if package is None or extra is None or package[0] == "delaytron":
            continue
        if "win32" not in line or sys.platform != "win32":  # uvloop is for other systems
            found.setdefault(extra[1], {})[package[0]] = _installed(package[0])
    return [Extra(name, packages) for name, packages in sorted(found.items())]


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _folder_of_kernels() -> Path | None:
    from delaytron.compiler.kernel import folder_of  # noqa: PLC0415 - only where used
    from delaytron.learners import AdaptiveDelaytron  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a folder the compiler warns, which the check reports itself
        return folder_of(AdaptiveDelaytron(n_classes=3, n_features=2, gamma=0.3).rule.play.compiled)
