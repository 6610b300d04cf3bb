"""Kernels: plain Python functions that are compiled on first use, and templates with slots to fill.

The learning path is written once, as Python. Interpreted it is the readable reference; compiled by Numba it is
the fast loop. A template leaves some of the functions it calls open (a `slot`); a learner fills them, and the
filled kernel is a function of its own for the compiler's disk cache. (Numba never finds a kernel again that
closes over another compiled function or takes one as an argument; it does find one that calls by global names.)
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dis import get_instructions
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast


class CompilerWarning(UserWarning):
    """Compiling takes longer, or happens more often, than necessary; results do not change."""


@cache
def warn_once(text: str) -> None:
    """Warn once per process: the same problem affects many kernels."""
    warnings.warn(text, CompilerWarning, stacklevel=2)


F = TypeVar("F", bound=Callable[..., Any])
Compiled = Callable[..., Any]
Options = Mapping[str, Any]

# Options of Numba. KERNEL and PART are private ones, which versions that are not tested may lack, like other private
# parts that are used here. Kernels are then compiled in Numba's own way, with one warning: it takes longer and computes
# the same bits.
PUBLIC: Options = {"nogil": True, "error_model": "numpy"}
# No reference counts (`_nrt`): kernels allocate nothing, and counting was a third of their time.
KERNEL: Options = {"_nrt": False, "no_cfunc_wrapper": True}
PART: Options = {**KERNEL, "no_cpython_wrapper": True, "forceinline": True}

NO_FOLDER = (
    "compiled code is not kept, since no folder for it can be written: every process compiles again; "
    "set NUMBA_CACHE_DIR to a folder that can be written"
)


def _jit(function: FunctionType, options: Options, pipeline: Any = None) -> Compiled:
    """Return a function that Numba compiles when it is first called."""
    from numba import njit  # noqa: PLC0415 - the import takes half a second, `import delaytron` must not

    known = _known_options()
    supported = {name: value for name, value in options.items() if name in known}
    own = {} if pipeline is None else {"pipeline_class": pipeline}
    return cast(Compiled, njit(**PUBLIC, **supported, **own)(function))


@cache
def _known_options() -> frozenset[str]:
    """Return the names of the options that this Numba has; warn if one of ours is missing."""
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
def _part_compiler() -> Any:
    """Return the compiler class for parts; None, with a warning, if only Numba's own can be used."""
    try:
        from delaytron.compiler.inline import InlineCompiler  # noqa: PLC0415
    except Exception as error:  # a private part is missing or means something else
        _warn_of_missing(error)
        return None
    return InlineCompiler


def _cache_on_disk(compiled: Any) -> None:
    """Let Numba look for machine code on disk, and store it there; warn if that cannot be done."""
    try:
        from delaytron.compiler.cache import KernelCache  # noqa: PLC0415

        own = KernelCache(compiled.py_func)
        vars(compiled)["_cache"]  # where Numba looks for it; raises KeyError if it has moved
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
    """Return the folder of a function's disk cache, None if it has none."""
    folder = getattr(getattr(compiled, "_cache", None), "cache_path", None)
    return Path(folder) if folder else None


class Slot:
    """A name inside a template that a learner fills."""


class Kernel:
    """A function of the learning path: `interpreted` as it is written, `compiled` on first use."""

    def __init__(
        self,
        function: FunctionType,
        slots: Mapping[str, Any] | None = None,
        cache_name: str | None = None,
        machine: str | None = None,
    ) -> None:
        self.function = function
        self.slots = dict(slots or {})
        self.cache_name = cache_name
        self.machine = machine
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __call__(self, *args: Any) -> Any:
        """Run the compiled function."""
        return self.compiled(*args)

    @cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The function as plain Python; the kernels that it calls are interpreted, too."""
        return self._linked(lambda kernel: kernel.interpreted)

    @cached_property
    def compiled(self) -> Compiled:
        """The compiled function, for Python to call; the interpreted one if `NUMBA_DISABLE_JIT=1` is set."""
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return self.interpreted
        compiled = _jit(self._linked(attrgetter("inlined")), KERNEL)
        if self.cache_name is not None:
            _cache_on_disk(compiled)
        return compiled

    @cached_property
    def inlined(self) -> Compiled:
        """The function for other compiled functions to call, and to be inlined there; Python cannot call it."""
        if self.machine is not None:
            return cast(Compiled, getattr(import_module(self.machine), self.function.__name__))
        return _jit(self._linked(attrgetter("inlined")), PART, _part_compiler())

    def ready(self, *args: Any) -> Compiled:
        """Compile for arguments of these types, or load the machine code, without running it; return its entry.

        The entry checks no types: with arguments of other types it would misread their memory. In return a call takes a
        tenth of the time that Numba's dispatch on a state of twenty arrays takes.
        """
        compiled = self.compiled
        if isinstance(compiled, FunctionType):  # interpreted
            return compiled
        from numba import typeof  # noqa: PLC0415 - slow to import

        entry = cast(Any, compiled).compile(tuple(typeof(value) for value in args))
        return cast(Compiled, entry) if callable(entry) else compiled

    def fill(self, cache_name: str | None = None, **slots: Any) -> "Kernel":
        """Return this template with its slots filled, here and in every kernel that it calls.

        Slots that are filled already stay as they are. A `cache_name` lets the disk cache store the compiled function.
        """
        return Kernel(self.function, {**slots, **self.slots}, cache_name, self.machine)

    def _linked(self, resolve: Callable[["Kernel"], Callable[..., Any]]) -> FunctionType:
        """Return the same code, with each kernel that it names replaced by `resolve(kernel)`."""
        names = {**self.function.__globals__, **self.slots}
        names |= {name: resolve(value) for name, value in self._references().items() if isinstance(value, Kernel)}
        linked = FunctionType(self.function.__code__, names, self.function.__name__)
        linked.__module__ = self.function.__module__
        if self.cache_name is not None:
            linked.__qualname__ = f"{self.cache_name}-{self.digest[:16]}"
        return linked

    @cached_property
    def digest(self) -> str:
        """A digest of the code of this kernel and of all that it calls.

        It is part of a cached kernel's name: Numba does not notice an edited callee in another file and would
        silently run yesterday's machine code.
        """
        parts = [_code_digest(self.function.__code__)]
        if self.machine is not None:
            parts.append(Path(str(find_spec(self.machine).origin)).read_text())  # type: ignore[union-attr]
        for name, given in sorted(self._references().items()):
            value: Any = given.digest if isinstance(given, Kernel) else given
            if hasattr(value, "_fields"):  # a named tuple: the compiler's cache holds it by its place and name
                value = (value.__module__, value.__qualname__, value._fields)
            parts.append(f"{name}={value!r}")
        return sha256("\n".join(parts).encode()).hexdigest()

    def _references(self) -> dict[str, Any]:
        """Return the globals that the code reads, with the slots filled in them and in the kernels among them."""
        names = {**self.function.__globals__, **self.slots}
        found = {name: names[name] for name in self._globals_read & names.keys()}
        return {
            name: value.fill(**self.slots) if isinstance(value, Kernel) and value.has_slots else value
            for name, value in found.items()
        }

    @cached_property
    def has_slots(self) -> bool:
        """Whether a slot is left open, here or in a kernel that is called from here."""
        names = self.function.__globals__
        used = [names.get(name) for name in self._globals_read if name not in self.slots]
        return any(isinstance(v, Slot) or (isinstance(v, Kernel) and v.has_slots) for v in used)

    @cached_property
    def _globals_read(self) -> set[str]:
        """The global names that the code reads (co_names would mix in attributes)."""
        return {i.argval for i in get_instructions(self.function) if i.opname == "LOAD_GLOBAL"}


def _code_digest(code: CodeType) -> str:
    constants = [_code_digest(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def slot() -> Any:
    """Return a placeholder for a function that a template calls; a learner fills it."""
    return Slot()


def kernel(function: F) -> F:
    """Return a function as a kernel; to the type checker it stays that function."""
    return cast(F, Kernel(cast(FunctionType, function)))


def machine(module: str) -> Callable[[F], F]:
    """Return a decorator for kernels whose compiled form is the function of the same name in `module`."""

    def decorate(function: F) -> F:
        return cast(F, Kernel(cast(FunctionType, function), machine=module))

    return decorate


def fill(template: F, cache_name: str | None = None, **slots: Any) -> F:
    """Return a template with its slots filled; see `Kernel.fill`."""
    return cast(F, cast(Kernel, template).fill(cache_name, **slots))


def interpreted(function: Any) -> Callable[..., Any]:
    """Return a kernel as plain Python."""
    return cast(Kernel, function).interpreted


def taker(cls: Any) -> Any:
    """Return a kernel that takes entry `r` out of a named tuple of stacked arrays.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     a: list
    ...     b: list
    >>> interpreted(taker(Pair))(Pair([1, 2], [3, 4]), 1)
    Pair(a=2, b=4)
    """
    entries = ", ".join(f"batch.{field}[r]" for field in cls._fields)
    return Kernel(eval(f"lambda batch, r: cls({entries})", {"cls": cls}))  # noqa: S307 - fields are identifiers
