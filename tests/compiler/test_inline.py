"""Where Numba lacks a private part, kernels are compiled the plain way: with a line of warning, to the same bits."""

import json
import sys

import bits
import pytest
from cases import run, worked_cases, write

PLAY = """
import json, sys, types, warnings
from pathlib import Path
import numba
{damage}
import bits
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    played = [bits.play(case) for case in json.loads(Path(sys.argv[1]).read_text())]
warned = [w.category.__name__ + ": " + str(w.message) for w in seen]
print(json.dumps([played, warned]))
"""
INTACT = ""
MISSING_AT_IMPORT = """
sys.modules["numba._dynfunc"] = types.ModuleType("numba._dynfunc")
"""
OTHER_SIGNATURE = """
other = types.ModuleType("numba._dynfunc")
other.make_function = lambda module, name: None
sys.modules["numba._dynfunc"] = other
"""
MISSING_AT_FIRST_COMPILATION = """
from numba.core.codegen import CPUCodeLibrary
scan = CPUCodeLibrary._finalize_dynamic_globals
finalize = CPUCodeLibrary._finalize_final_module
def finalize_by_another_name(self):
    self._finalize_dynamic_globals = lambda: scan(self)
    finalize(self)
CPUCodeLibrary._finalize_final_module = finalize_by_another_name
del CPUCodeLibrary._finalize_dynamic_globals
"""
OTHER_STEP = """
from numba.core import typed_passes
class Lowering(typed_passes.NativeLowering):
    pass
typed_passes.NativeLowering = Lowering
"""
NO_OPTION = """
from numba.core.cpu import CPUTargetOptions
del CPUTargetOptions.__mro__[1]._nrt
"""
NO_CACHE = """
import numba.core.caching
del numba.core.caching.CompileResultCacheImpl
"""
DAMAGES = {
    "missing at import": (MISSING_AT_IMPORT, "cannot import name 'make_function'"),
    "other signature": (OTHER_SIGNATURE, "TypeError"),
    "missing at first compilation": (MISSING_AT_FIRST_COMPILATION, "'_finalize_dynamic_globals'"),
    "other step": (OTHER_STEP, "ValueError"),
    "no option": (NO_OPTION, "no option _nrt"),
    "no cache": (NO_CACHE, "cannot import name 'CompileResultCacheImpl'"),
}


def played_and_warned(damage, cases, folder):
    program = PLAY.format(damage=damage)
    done = run(sys.executable, ["-c", program, write(cases, folder / "cases.json")], folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", DAMAGES)
def test_the_plain_way_gives_the_same_bits_and_says_so_once(name, tmp_path):
    damage, said = DAMAGES[name]
    cases = worked_cases()[:1]
    played, warned = played_and_warned(damage, cases, tmp_path)
    assert played == [bits.play(case) for case in cases]
    assert len(warned) == 1
    assert warned[0].startswith("CompilerWarning: compiling takes longer, since Numba")
    assert said in warned[0]


def test_learners_of_every_kind_meet_their_worked_example_the_plain_way(tmp_path):
    kinds = ["adaptive_delaytron", "rcnbf", "soba", "newtron", "ova_logistic"]
    cases = list({case["learner"]: case for case in worked_cases() if case["learner"] in kinds}.values())
    assert len(cases) == len(kinds)
    played, warned = played_and_warned(MISSING_AT_IMPORT, cases, tmp_path)
    assert played == [bits.play(case) for case in cases]
    assert len(warned) == 1


def test_a_numba_with_all_its_parts_says_nothing(tmp_path):
    assert played_and_warned(INTACT, worked_cases()[:1], tmp_path)[1] == []


def test_an_error_in_a_kernel_is_not_taken_for_a_change_of_numba(tmp_path):
    program = """
from delaytron.compiler.kernel import kernel
@kernel
def part(x):
    return x.nothing
@kernel
def whole(x):
    return part(x)
whole(1)
"""
    done = run(sys.executable, ["-W", "error", "-c", program], tmp_path)
    assert "TypingError" in done.stderr
    assert "CompilerWarning" not in done.stderr
