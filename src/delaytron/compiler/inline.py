"""How the compiler treats a kernel that only ever becomes a part of a larger one.

Numba optimises every function that it compiles, and makes machine code of it, before a caller takes its code over
and optimises it once more. A part inside a part inside a part of a loop is so compiled many times. Here a part is
only lowered; the kernel around it all is optimised and becomes machine code, once.
"""

from typing import Any

from numba._dynfunc import make_function
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


def finish(library: Any) -> None:
    """Make a library ready to be linked into another one, and for nothing else."""
    library._finalize_dynamic_globals()
    library._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerOnly(NativeLowering):
    """Lower a function, and let callers find it."""

    _name = "lower_only"

    def run_pass(self, state: Any) -> bool:
        """Lower without optimising, and register a name in place of a callable."""
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library._optimize_final_module = lambda: None
        state.library._finalize_final_module = lambda: finish(state.library)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, module = state["cr"], state["cr"].fndesc.lookup_module()
        name = make_function(module, state.func_id.func_name, "only inlined", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(name, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=name, env=lowered.env)
        return True


class InlineCompiler(CompilerBase):
    """The usual compiler, but for its last step."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [(LowerOnly if step is NativeLowering else step, told) for step, told in manager.passes]
        manager.finalize()
        return [manager]
