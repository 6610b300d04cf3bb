"""The compiler of parts: kernels that are only inlined into larger ones.

Numba optimises every function and generates machine code for it, and then optimises its code again in each caller. So
a part inside a part inside a part of a loop is compiled many times. Here a part is only lowered to LLVM's code; the
outermost kernel is optimised and becomes machine code, once. Where that fails, since Numba has changed, the part is
compiled in Numba's own way.
"""

from typing import Any

import numba
from numba._dynfunc import make_function
from numba.core.compiler import Compiler, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from delaytron.compiler.kernel import warn_once


def finish(library: Any) -> None:
    """Mark a library as complete, so that it can be linked into another one, without generating machine code."""
    library._finalize_dynamic_globals()
    library._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerOnly(NativeLowering):
    """The compiler pass that lowers a function without optimising it."""

    _name = "lower_only"

    def run_pass(self, state: Any) -> bool:
        """Lower the function, or compile it as Numba does if that fails; return True, since the state changed."""
        try:
            self._lower(state)
        except Exception as error:  # either Numba changed, or the next lines raise it again
            state.library = None
            state.flags.no_compile = False
            super().run_pass(state)
            warn_of_change(error)
        return True

    def _lower(self, state: Any) -> None:
        """Lower the function, and register a placeholder, which cannot be called, under which callers find it."""
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library._optimize_final_module = lambda: None
        state.library._finalize_final_module = lambda: finish(state.library)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()  # the caller would; here `run_pass` notices if a private part of Numba is missing
        lowered = state["cr"]
        module = lowered.fndesc.lookup_module()
        placeholder = make_function(module, state.func_id.func_name, "only inlined", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(placeholder, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=placeholder, env=lowered.env)


class InlineCompiler(Compiler):
    """Numba's compiler with `LowerOnly` as its last pass."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline; Numba's own, with a warning, if its last pass is not found."""
        try:
            return [self._pipeline()]
        except Exception as error:  # Numba changed
            warn_of_change(error)
            return list(super().define_pipelines())

    def _pipeline(self) -> Any:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        place = [step for step, _ in manager.passes].index(NativeLowering)
        manager.passes[place] = (LowerOnly, manager.passes[place][1])
        manager.finalize()
        return manager


def warn_of_change(error: Exception) -> None:
    """Warn that parts are compiled in Numba's own way."""
    warn_once(
        f"compiling takes longer, since Numba {numba.__version__} changed a private part "
        f"({type(error).__name__}: {error}); update delaytron"
    )
