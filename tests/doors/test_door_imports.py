"""`import delaytron` loads none of the libraries that it works with, and is quick."""

import os
import subprocess
import sys

import pytest

OTHERS = ("onnx", "onnxruntime", "mlflow", "gymnasium", "river", "sklearn", "pandas", "polars", "scipy", "pyarrow")
IMPORT = "import time; begin = time.process_time(); import {}; print(time.process_time() - begin)"
TRIES = 4


def python(code, **more):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def test_import_loads_no_other_tool():
    code = (
        "import delaytron as dt, sys; dt.Model, dt.load; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    assert not set(OTHERS) & set(python(code))


def quickest(module, folder):
    """Return the least processor time of several imports, the first of which compiles the sources."""
    return min(float(python(IMPORT.format(module), PYTHONPYCACHEPREFIX=str(folder))[0]) for _ in range(TRIES))


def test_import_takes_less_than_a_fifth_of_a_second(tmp_path):
    """Where NumPy alone takes half of that, the machine is slow or busy."""
    assert quickest("delaytron", tmp_path) < max(0.2, 2.5 * quickest("numpy", tmp_path))


@pytest.mark.parametrize("code", ["dt.Banditron(2, 1)", "dt.Decision(1, 1, 0, 0, 0.5)"])
def test_showing_in_a_notebook_loads_no_other_tool(code):
    listed = python(f"import delaytron as dt, sys; ({code})._repr_html_(); print(*sys.modules)")
    assert not set(OTHERS) & {name.split(".")[0] for name in listed}
