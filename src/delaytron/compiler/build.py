"""From a Python function to a compiled one.

Some of what makes this fast are private parts of Numba, which may be missing in another version than those that are
tested. Then the plain way is taken, with one line of warning: it takes longer and computes the same bits.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from delaytron.compiler.warn import warn_once

Compiled = Callable[..., Any]
Options = Mapping[str, Any]

PUBLIC: Options = {"nogil": True, "error_model": "numpy"}
# No reference counts (`_nrt`): kernels allocate nothing, and counting was a third of their time.
KERNEL: Options = {"_nrt": False, "no_cfunc_wrapper": True}
PART: Options = {**KERNEL, "no_cpython_wrapper": True, "forceinline": True}

NO_FOLDER = (
    "compiled code is not kept, since no folder for it can be written: every process compiles anew; "
    "set NUMBA_CACHE_DIR to a folder that can be written"
)


def build_kernel(function: FunctionType, *, kept: bool) -> Compiled:
    """Return a function that is compiled when it is first called; `kept` looks for the machine code on disk first."""
    compiled = _build(function, KERNEL)
    if kept:
        _keep(compiled)
    return compiled


def build_part(function: FunctionType) -> Compiled:
    """Return a function that compiled functions can call, and that becomes a part of them."""
    return _build(function, PART, _pipeline())


def make_ready(compiled: Compiled, args: tuple[Any, ...]) -> Compiled:
    """Compile for arguments like these, or load the machine code, without running it; return its entry.

    The entry looks at no type: with arguments of other types it would read their memory as something else. In return
    it is ten times as fast to call as a function that finds out what to do with a state of twenty arrays.
    """
    from numba import typeof  # noqa: PLC0415 - the import takes half a second, `import delaytron` must not

    entry = cast(Any, compiled).compile(tuple(typeof(value) for value in args))
    return cast(Compiled, entry) if callable(entry) else compiled


def _build(function: FunctionType, options: Options, pipeline: Any = None) -> Compiled:
    from numba import njit  # noqa: PLC0415 - see above

    own = {} if pipeline is None else {"pipeline_class": pipeline}
    return cast(Compiled, njit(**PUBLIC, **_supported(options), **own)(function))


def _supported(options: Options) -> Options:
    """Return those of the options that this Numba knows."""
    known = _known_options()
    return {name: value for name, value in options.items() if name in known}


@cache
def _known_options() -> frozenset[str]:
    try:
        from numba.core.cpu import CPUTargetOptions  # noqa: PLC0415
    except ImportError as error:
        _warn_of_missing(error)
        return frozenset()
    known = frozenset(dir(CPUTargetOptions))
    if unknown := sorted(PART.keys() - known):
        _warn_of_missing(f"no option {', '.join(unknown)}")
    return known


@cache
def _pipeline() -> Any:
    """Return the compiler of parts, None for Numba's own."""
    try:
        from delaytron.compiler.inline import InlineCompiler  # noqa: PLC0415
    except Exception as error:  # a private part is missing or means something else
        _warn_of_missing(error)
        return None
    return InlineCompiler


def _keep(compiled: Any) -> None:
    """Let later processes find the machine code on disk."""
    try:
        from delaytron.compiler.cache import KernelCache  # noqa: PLC0415

        own = KernelCache(compiled.py_func)
        vars(compiled)["_cache"]  # where Numba looks for it
    except (OSError, RuntimeError):
        warn_once(NO_FOLDER)
    except (ImportError, LookupError, AttributeError, TypeError) as error:
        _warn_of_missing(error)
    else:
        compiled._cache = own


def _warn_of_missing(problem: object) -> None:
    from numba import __version__  # noqa: PLC0415

    warn_once(f"compiling takes longer, since Numba {__version__} lacks a private part ({problem}); update delaytron")


def folder_of(compiled: Any) -> Path | None:
    """Return the folder in which the machine code of a function is kept, None if it is not."""
    place = getattr(getattr(compiled, "_cache", None), "cache_path", None)
    return Path(place) if place else None
