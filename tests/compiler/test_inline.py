"""Where Numba lacks a private part, kernels are compiled by Numba's own way: with one warning, to the same bits."""

import json
import sys

import bits
import pytest
from cases import run, worked_cases, write

pytestmark = pytest.mark.cold

PROGRAM = """
import json, sys, types, warnings
from pathlib import Path
import numba
{damage}
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    {task}
warned = [w.category.__name__ + ": " + str(w.message) for w in seen]
print(json.dumps([result, warned]))
"""
HASH = """
    from delaytron.kernels.hashing import hash_all  # a kernel with five others in it, compiled in a second
    result = hash_all([b"hello", b""]).tolist()
"""
PLAY = """
    import bits
    result = [bits.play(case) for case in json.loads(Path(sys.argv[1]).read_text())]
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


def result_and_warnings(damage, task, folder, *arguments):
    program = PROGRAM.format(damage=damage, task=task.strip())
    done = run(sys.executable, ["-c", program, *arguments], folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_missing_part_costs_one_warning_and_no_bit(name, tmp_path):
    damage, reason = DAMAGES[name]
    hashes, warned = result_and_warnings(damage, HASH, tmp_path)
    assert hashes == [613153351, 0]
    assert len(warned) == 1
    assert warned[0].startswith("CompilerWarning: compiling takes longer, since Numba")
    assert reason in warned[0]


@pytest.mark.parametrize(
    "kinds",
    [
        ["adaptive_delaytron", "soba", "ova_logistic"],  # with a clock, with extras, with powers and logarithms
        pytest.param(["newtron", "rcnbf"], marks=pytest.mark.torture),  # with a matrix and draws of its own; with rates
    ],
)
def test_learners_of_every_kind_compute_the_same_bits_without_it(kinds, tmp_path):
    cases = list({case["learner"]: case for case in worked_cases() if case["learner"] in kinds}.values())
    assert len(cases) == len(kinds)
    played, warned = result_and_warnings(MISSING_AT_IMPORT, PLAY, tmp_path, write(cases, tmp_path / "cases.json"))
    assert played == [bits.play(case) for case in cases]
    assert len(warned) == 1


def test_a_numba_with_all_its_parts_gives_no_warning(tmp_path):
    assert result_and_warnings(INTACT, HASH, tmp_path) == [[613153351, 0], []]


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
