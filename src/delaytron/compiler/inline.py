"""How the compiler treats a kernel that only ever becomes a part of a larger one.

Numba optimises every function that it compiles, and makes machine code of it, before a caller takes its code over
and optimises it once more. A part inside a part inside a part of a loop is so compiled many times. Here a part is
only lowered; the kernel around it all is optimised and becomes machine code, once. Where that fails, since Numba has
changed, the part is compiled in Numba's way.
"""

from typing import Any

import numba
from numba._dynfunc import make_function
from numba.core.compiler import Compiler, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from delaytron.compiler.warn import warn_once


def finish(library: Any) -> None:
    """Make a library ready to be linked into another one, and for nothing else."""
    library._finalize_dynamic_globals()
    library._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerOnly(NativeLowering):
    """Lower a function, and let callers find it."""

    _name = "lower_only"

    def run_pass(self, state: Any) -> bool:
        """Lower without optimising; compile as Numba does where that cannot be done."""
        try:
            self._lower(state)
        except Exception as error:  # either Numba changed, or the next lines raise it again
            state.library = None
            state.flags.no_compile = False
            super().run_pass(state)
            warn_of_change(error)
        return True

    def _lower(self, state: Any) -> None:
        """Lower, and register a name in place of a callable."""
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library._optimize_final_module = lambda: None
        state.library._finalize_final_module = lambda: finish(state.library)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()  # the caller would; here a private part that is missing is noticed in time
        lowered = state["cr"]
        module = lowered.fndesc.lookup_module()
        name = make_function(module, state.func_id.func_name, "only inlined", 0, lowered.env, (state.library,))
        result = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=name, env=lowered.env)
        state.targetctx.insert_user_function(name, lowered.fndesc, [state.library])
        state["cr"] = result


class InlineCompiler(Compiler):
    """The usual compiler, but for its last step."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline; Numba's own where its last step is not found."""
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
    """Say that parts are compiled in Numba's own way."""
    warn_once(
        f"compiling takes longer, since Numba {numba.__version__} changed a private part "
        f"({type(error).__name__}: {error}); update delaytron"
    )
