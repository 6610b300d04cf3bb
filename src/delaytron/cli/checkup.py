"""What `delaytron doctor` looks at, each part of the installation by itself."""

import sqlite3
import sys
import warnings
from collections.abc import Iterator
from os import W_OK, access, environ
from pathlib import Path
from platform import machine, platform, python_implementation
from tempfile import TemporaryDirectory
from time import perf_counter

from delaytron.cli.doctor_documents import CheckRow, DoctorDocument
from delaytron.cli.known_run import check_bits, kept_in
from delaytron.cli.packages import Requirement, allows, extras_of, installed, requirements, versions_of
from delaytron.datasets.downloads import VARIABLE, local_folder
from delaytron.errors import DelaytronError
from delaytron.files.folders import cache_home


def check_up() -> DoctorDocument:
    """Look at everything."""
    known = list(requirements())
    checks = [
        *check_packages(known),
        check_run(),
        check_compiled_code(),
        check_journal(),
        check_data_folder(),
        check_folder("downloads", cache_home(), "set XDG_CACHE_HOME to a folder that can be written"),
        check_folder("this folder", Path.cwd(), "go to a folder that can be written: results are written there"),
    ]
    return {
        "healthy": all(check["status"] != "wrong" for check in checks),
        "versions": versions_of(known),
        "system": f"{platform()} {machine()}, {python_implementation()} at {sys.executable}",
        "checks": checks,
        "extras": extras_of(known),
    }


def row(check: str, found: str, advice: str = "", *, wrong: bool = True) -> CheckRow:
    """Return a line: what was looked at, what was found, and what to do about it; without advice all is well."""
    status = "ok" if not advice else "wrong" if wrong else "note"
    return {"check": check, "status": status, "found": found, "advice": advice}


def check_packages(known: list[Requirement]) -> Iterator[CheckRow]:
    """Yield a line for the packages: those that are missing, or of a version that is not tested, one each."""
    problems = [line for one in known if (line := check_package(one))]
    yield from problems or [row("packages", "all that is needed is here, in versions that are allowed")]


def check_package(one: Requirement) -> CheckRow | None:
    """Return what is wrong with a package, None if nothing is; an extra need not be there."""
    found = installed(one.package)
    if found is None and one.extra is not None:
        return None
    if found is not None and allows(one.bounds, found):
        return None
    name = "delaytron" if one.extra is None else f"delaytron[{one.extra}]"
    text = f"{one.package} {found or 'is missing'}; allowed is {one.bounds or 'any version'}"
    return row("packages", text, f"pip install --upgrade '{name}'")


def check_run() -> CheckRow:
    """Play eight rounds whose every bit is known."""
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is a line of its own
        try:
            problem = check_bits()
        except Exception as error:  # whatever a broken compiler raises
            return row("exact run", f"{type(error).__name__}: {error}", "pip install --force-reinstall numba llvmlite")
    if problem:
        return row("exact run", problem, "report it with the output of `delaytron doctor --json`")
    return row("exact run", f"every bit is right, after {perf_counter() - begin:.1f} s")


def check_compiled_code() -> CheckRow:
    """Look for the folder of machine code."""
    if environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        advice = "unset NUMBA_DISABLE_JIT, which makes everything a hundred times slower"
        return row("compiled code", "the compiler is switched off", advice, wrong=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = kept_in()
    if folder is None or (folder.exists() and not access(folder, W_OK)):
        advice = "set NUMBA_CACHE_DIR to a folder that can be written"
        return row("compiled code", "is not kept: every process compiles anew", advice, wrong=False)
    files = list(folder.glob("*.nbc"))
    size = sum(file.stat().st_size for file in files)
    return row("compiled code", f"{len(files)} kernels, {size / 1e6:.1f} MB in {folder}")


def check_journal() -> CheckRow:
    """Write a journal, and read it."""
    from delaytron.journal import FactStore  # noqa: PLC0415 - only where used

    found = f"SQLite {sqlite3.sqlite_version}"
    try:
        with TemporaryDirectory() as folder:
            FactStore(Path(folder) / "journal.db", config=b"{}").close()
            FactStore(Path(folder) / "journal.db").close()
    except (OSError, DelaytronError, sqlite3.Error) as problem:
        return row("journals", f"{found}: {problem}", "set TMPDIR to a folder on a local disk that can be written")
    return row("journals", found)


def check_data_folder() -> CheckRow:
    """Look for the folder of the user's data."""
    try:
        folder = local_folder()
    except DelaytronError as problem:
        return row("data folder", str(problem), f"make that folder, or unset {VARIABLE}")
    if folder is None:
        return row("data folder", f"{VARIABLE} is not set: data come from downloads")
    return row("data folder", str(folder))


def check_folder(check: str, folder: Path, advice: str) -> CheckRow:
    """Find out whether a folder can be written, or made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and access(there, W_OK):
        return row(check, str(folder) if there == folder else f"{folder}, made when it is needed")
    return row(check, f"{folder} cannot be written", advice, wrong=False)
