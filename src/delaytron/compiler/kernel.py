"""Kernels: plain Python functions that are compiled on first use, and templates with slots to fill.

The learning path is written once, as Python. Interpreted it is the readable reference; compiled by Numba it is
the fast loop. A template leaves some of the functions it calls open (a `slot`); a learner fills them, and the
filled kernel is a function of its own for the compiler's disk cache. (Numba never finds a kernel again that
closes over another compiled function or takes one as an argument; names in the module's globals it does.)
"""

import os
from collections.abc import Callable, Mapping
from dis import get_instructions
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Protocol, TypeVar, cast

from delaytron.compiler.build import build_kernel, build_part, make_ready

F = TypeVar("F", bound=Callable[..., Any])
Resolve = Callable[["Kernel"], Callable[..., Any]]


class Decorator(Protocol):
    """Takes a function of any type and gives back one of the same type."""

    def __call__(self, function: F, /) -> F:
        """Decorate."""


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
        """Run the machine code."""
        return self.compiled(*args)

    @cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The function as Python runs it, and everything that it calls likewise."""
        return self._linked(lambda kernel: kernel.interpreted)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The machine code (the interpreted function where `NUMBA_DISABLE_JIT=1` switches the compiler off)."""
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return self.interpreted
        return build_kernel(self._linked(_as_part), kept=self.cache_name is not None)

    @cached_property
    def inlined(self) -> Callable[..., Any]:
        """The part of a larger kernel that this one becomes; Python cannot call it."""
        if self.machine is not None:
            return cast(Callable[..., Any], getattr(import_module(self.machine), self.function.__name__))
        return build_part(self._linked(_as_part))

    def ready(self, *args: Any) -> Callable[..., Any]:
        """Have the machine code for arguments like these, without running it: compiling can fail, and takes long.

        Return what runs it, to be called with arguments of exactly these types and no others.
        """
        compiled = self.compiled
        return compiled if isinstance(compiled, FunctionType) else make_ready(compiled, args)

    def fill(self, cache_name: str | None = None, **slots: Any) -> "Kernel":
        """Fill the slots of this template, here and in every kernel that it calls; what is filled stays."""
        return Kernel(self.function, {**slots, **self.slots}, cache_name, self.machine)

    def _linked(self, resolve: Resolve) -> FunctionType:
        """Return the same code, with the kernels it names replaced by what `resolve` makes of them."""
        names = {**self.function.__globals__, **self.slots}
        for name in self._globals_read:
            if isinstance(value := names.get(name), Kernel):
                names[name] = resolve(value.fill(**self.slots) if value.has_slots else value)
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
        names = {**self.function.__globals__, **self.slots}
        parts = [_code_digest(self.function.__code__)]
        if self.machine is not None:
            parts.append(Path(str(find_spec(self.machine).origin)).read_text())  # type: ignore[union-attr]
        for name in sorted(self._globals_read & names.keys()):
            value = names[name]
            if isinstance(value, Kernel):
                value = (value.fill(**self.slots) if value.has_slots else value).digest
            if hasattr(value, "_fields"):  # a named tuple: the compiler's cache holds it by its place and name
                value = (value.__module__, value.__qualname__, value._fields)
            parts.append(f"{name}={value!r}")
        return sha256("\n".join(parts).encode()).hexdigest()

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


def _as_part(kernel: Kernel) -> Callable[..., Any]:
    return kernel.inlined


def _code_digest(code: CodeType) -> str:
    constants = [_code_digest(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def slot() -> Any:
    """Leave a function of a template open, for a learner to fill."""
    return Slot()


def kernel(function: F) -> F:
    """Make a kernel of a function; to the type checker it stays that function."""
    return cast(F, Kernel(cast(FunctionType, function)))


def machine(module: str) -> "Decorator":
    """Make a kernel whose compiled form is the function of the same name in `module`."""

    def decorate(function: F) -> F:
        return cast(F, Kernel(cast(FunctionType, function), machine=module))

    return decorate


def fill(template: F, cache_name: str | None = None, **slots: Any) -> F:
    """Fill the slots of a template; `cache_name` also gives it a place in the compiler's disk cache."""
    return cast(F, cast(Kernel, template).fill(cache_name, **slots))


def interpreted(function: Any) -> Callable[..., Any]:
    """Return the interpreted twin of a kernel."""
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
