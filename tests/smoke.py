"""Try what is installed, without the repository: `python smoke.py [EXTRA ...]`.

What belongs to the extras that are named must work. What belongs to the others must end in the one line that says
how to install it, unless it is installed all the same. Prints a line for each thing that was tried; the exit code is
1 if one failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import delaytron as dt
from delaytron.extras import LIBRARIES, missing_library

CSV = "width,height,kind\n1,2,a\n2,1,b\n1,3,a\n3,1,b\n"
KNOWN_LABELS = [0, 2, 0, 2, 1, 2, 2, 2]
KNOWN_WEIGHTS = [
    *("-0x1.6a09e667f3bcdp-2", "-0x1.6a09e667f3bccp-2", "0x1.0000000000000p-2"),
    *("-0x1.0000000000000p-3", "0x1.0000000000000p+0", "-0x1.4800000000000p+1"),
]
SPEC = """
name = "small"
data = [{name = "synsep", n_samples = 200}]
rounds = 100
runs = 2
delays = [3]
[[learners]]
name = "delaytron"
gamma = [0.1, 0.2]
"""


def learn_and_save():
    """Decide, learn from late feedback, save and go on."""
    learner = dt.BanditLogit(n_classes=2, n_features=2, seed=1)
    ids = [learner.decide([1.0, t % 2]).id for t in range(20)]
    for t, number in enumerate(ids):
        learner.feedback(number, correct=bool(t % 2))
    learner.save("learner.safetensors")
    again = dt.load("learner.safetensors")
    assert again.decide([1.0, 0.0]) == learner.decide([1.0, 0.0])


def journal():
    """Let a model go on from its journal."""
    with dt.Model(["small", "large"], journal="router.db", seed=1) as model:
        decision = model.decide({"prompt": "Translate this", "tokens": 12}, id="req-1")
    with dt.Model.open("router.db") as model:
        assert model.feedback("req-1", reward=0.7) == "accepted"
        assert model.stats().decisions == 1
    assert command("verify", "router.db").returncode == 0
    assert decision.label in ("small", "large")


def simulate():
    """Play several runs, dense and sparse."""
    rows = np.random.default_rng(0).normal(size=(300, 4))
    result = dt.simulate("delaytron", (rows, rows[:, 0] > 0), runs=3, delay=5, seed=1)
    assert result.final_error.shape[-1] == 3


def exact_bits():
    """Play eight rounds whose every bit is known: the worked example of AdaptiveDelaytron in tests/reference."""
    rows = np.array([(1, 0), (0, 1), (1, 1), (0.5, -1), (-1, 0.5), (1, 0.25), (-0.5, 1), (0.75, -0.5)])
    draws = np.array([0.05, 0.95, 0.55, 0.99, 0.10, 0.45, 0.92, 0.30])
    learner = dt.AdaptiveDelaytron(n_classes=3, n_features=2, gamma=0.3)
    run = dt.replay(learner, rows, np.array([0, 1, 1, 2, 2, 0, 1, 0]), np.array([1, 3, 1, 2, 2, 1, 4, 1]), draws)
    assert run.labels.tolist() == KNOWN_LABELS
    assert [value.hex() for value in run.weights.ravel().tolist()] == KNOWN_WEIGHTS


def commands():
    """Check the installation, and play from the command line."""
    done = command("doctor", "--json")
    assert json.loads(done.stdout)["healthy"], done.stdout
    assert command("--version").stdout.strip() == f"delaytron {dt.__version__}"
    played = command("run", "delaytron", "--rounds", "200", "--runs", "2", "--samples", "300", "--json")
    assert json.loads(played.stdout)[0]["rounds"] == 200


def figure():
    """Draw."""
    done = command("run", "delaytron", "--rounds", "200", "--samples", "300", "--plot", "curve.png")
    check(done, "curve.png", b"\x89PNG", "matplotlib")


def table():
    """Read a CSV file, and write one."""
    Path("shapes.csv").write_text(CSV)
    done = command("run", "delaytron", "--data", "shapes.csv", "--label", "kind", "--rounds", "20", "--csv", "out.csv")
    check(done, "out.csv", b"", "pyarrow")


def parquet():
    """Export a journal."""
    with dt.Model(["a", "b"], features=1, journal="export.db", seed=1) as model:
        model.decide([1.0])
    check(command("export", "export.db", "decisions.parquet"), "decisions.parquet", b"PAR1", "pyarrow")


def digits():
    """Load a data set by its name."""
    done = command("run", "delaytron", "--data", "digits", "--rounds", "50", "--json")
    check(done, None, b"", "sklearn")
    listed = {row["dataset"]: row["availability"] for row in json.loads(command("datasets", "--json").stdout)}
    assert listed["digits"] == ("yes" if find_spec("sklearn") else "install")


def download():
    """Ask for a data set that is downloaded, where that is not possible."""
    if find_spec("pooch") is None:
        check(command("datasets", "show", "usps", DELAYTRON_DATA="", XDG_CACHE_HOME=os.getcwd()), None, b"", "pooch")


def experiment():
    """Play an experiment with its report."""
    Path("spec.toml").write_text(SPEC)
    done = command("experiment", "spec.toml", "--output", "small")
    assert done.returncode == 0, done.stderr
    assert "<html" in Path("small/report.html").read_text().lower()


def service():
    """Make the application that `delaytron serve` runs."""
    if find_spec("starlette") is None:
        done = command("serve", "shop")
        assert done.returncode == 2
        assert str(missing_library("starlette")) in done.stderr
        return
    from delaytron.service import app  # noqa: F401


def client():
    """Make a client."""
    said = ""
    try:
        dt.Client().close()
    except dt.InvalidInput as problem:
        said = str(problem)
    assert said == ("" if find_spec("httpx") else str(missing_library("httpx")))


def doors():
    """Open the doors to other libraries, or be told what is missing."""
    for name in ("gymnasium", "mlflow", "river", "sklearn"):
        said = ""
        try:
            import_module(f"delaytron.{name}")
        except dt.InvalidInput as problem:
            said = str(problem)
        own = f"delaytron.{name}"
        assert said == ("" if find_spec(name) else str(missing_library(own if own in LIBRARIES else name)))


def log():
    """Evaluate a policy on a log."""
    said = ""
    try:
        made = dt.logs.from_arrays(features=np.eye(2), labels=[0, 1], probs=[0.5, 0.5], rewards=[1, 0], n_classes=2)
        assert dt.evaluate(made, "logged").value == 0.5
    except dt.InvalidInput as problem:
        said = str(problem)
    assert said == ("" if find_spec("pyarrow") else str(missing_library("pyarrow")))


def command(*args, **variables):
    """Run a command in a process of its own."""
    words, env = [sys.executable, "-m", "delaytron", *args], os.environ | variables
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


def check(done, file, magic, library):
    """Check a file that a command wrote, or the one line that says why it cannot."""
    if find_spec(library) is None:
        assert done.returncode == 2, done.stderr
        assert done.stderr.strip() == f"delaytron: {missing_library(library)}", done.stderr
        assert LIBRARIES[library].extra not in sys.argv[1:]
        return
    assert done.returncode == 0, done.stderr
    assert file is None or Path(file).read_bytes().startswith(magic)


CORE = [
    learn_and_save,
    journal,
    simulate,
    exact_bits,
    commands,
    figure,
    table,
    parquet,
    digits,
    download,
    service,
    client,
    doors,
    log,
]
OF_EXTRAS = {"experiments": [experiment]}


def main(extras):
    """Try everything in an empty folder; return whether all went well."""
    print(f"delaytron {dt.__version__} in {Path(dt.__file__).parent}")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        attempts = CORE + [attempt for extra in extras for attempt in OF_EXTRAS.get(extra, [])]
        done = [_try(attempt) for attempt in attempts]
        os.chdir("/")
    return all(done)


def _try(attempt):
    try:
        attempt()
    except Exception:
        print(f"FAILED  {attempt.__doc__}\n{traceback.format_exc()}")  # noqa: T201
        return False
    print(f"ok      {attempt.__doc__}")  # noqa: T201
    return True


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
