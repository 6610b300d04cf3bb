"""`delaytron doctor`: what is right, what is wrong, and what it says to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from delaytron import cli
from delaytron.cli import checkup, known_run, packages
from delaytron.cli.packages import Requirement, allows
from streams import interpreter

TRACE = json.loads((Path(__file__).parents[1] / "reference" / "delaytron_traces.json").read_text())["adaptive/before"]


def examine(*args):
    return CliRunner().invoke(cli.app, ["doctor", *args])


def check_of(name):
    return next(row for row in json.loads(examine("--json").stdout)["checks"] if row["check"] == name)


def test_an_interrupt_before_the_command_begins_is_one_line(monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.TyperGroup, "make_context", interrupted)
    result = examine()
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "delaytron: interrupted\n")


def test_the_known_labels_and_weights_are_those_of_the_reference():
    assert list(known_run.LABELS) == [step["ytilde"] for step in TRACE[: len(known_run.LABELS)]]
    known = np.reshape([float.fromhex(text) for text in known_run.WEIGHTS], (3, 2))
    np.testing.assert_allclose(known, TRACE[-1]["W"], rtol=0, atol=1e-12)


def test_the_interpreter_plays_the_known_run_to_the_bit():
    with interpreter():
        assert known_run.check_bits() == ""


def test_a_sound_installation_has_exit_code_0():
    done = examine()
    assert done.exit_code == 0, done.output
    assert "every bit is right" in done.output
    assert "All is well." in done.output


def test_every_extra_of_pyproject_is_listed():
    extras = {row["extra"]: row["packages"] for row in json.loads(examine("--json").stdout)["extras"]}
    assert extras["client"].keys() == {"httpx"}
    assert {"starlette", "uvicorn", "httptools", "uvloop"} == extras["serve"].keys()


@pytest.mark.parametrize("name", ["LABELS", "WEIGHTS"])
def test_a_wrong_bit_is_noticed(monkeypatch, name):
    known = list(getattr(known_run, name))
    known[0] = 2 if name == "LABELS" else np.nextafter(float.fromhex(known[0]), 9).hex()
    monkeypatch.setattr(known_run, name, tuple(known))
    assert examine().exit_code == 1
    row = check_of("exact run")
    assert row["status"] == "wrong"
    assert "report it" in row["advice"]
    assert ("labels" if name == "LABELS" else "1 of 6 weights") in row["found"]


def test_a_compiler_that_fails_is_noticed(monkeypatch):
    def fail():
        raise OSError("cannot load libllvmlite.so")

    monkeypatch.setattr(checkup, "check_bits", fail)
    assert examine().exit_code == 1
    assert check_of("exact run")["found"] == "OSError: cannot load libllvmlite.so"


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (["numpy>=99"], "pip install --upgrade 'delaytron'"),
        (["no-such-package"], "pip install --upgrade 'delaytron'"),
        (["numba<0.1; extra == 'fast'"], "pip install --upgrade 'delaytron[fast]'"),
    ],
)
def test_a_package_that_is_missing_or_of_another_version_is_noticed(monkeypatch, lines, advice):
    monkeypatch.setattr(packages, "requires", lambda _: lines)
    assert examine().exit_code == 1
    assert check_of("packages")["advice"] == advice


def test_an_extra_that_is_missing_is_no_fault(monkeypatch):
    monkeypatch.setattr(packages, "requires", lambda _: ["no-such-package>=1; extra == 'rare'"])
    done = examine("--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["extras"] == [{"extra": "rare", "packages": {"no-such-package": None}}]
    assert "pip install 'delaytron[rare]'" in examine().output


def test_a_data_folder_that_is_not_there_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path / "absent"))
    assert examine().exit_code == 1
    assert "unset DELAYTRON_DATA" in check_of("data folder")["advice"]


def in_a_process(**environment):
    command = [sys.executable, "-m", "delaytron", "doctor", "--json"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    return done.returncode, {row["check"]: row for row in json.loads(done.stdout)["checks"]}


def test_a_compiler_that_is_switched_off_is_said():
    code, checks = in_a_process(NUMBA_DISABLE_JIT="1")
    assert code == 0
    assert checks["exact run"]["status"] == "ok"
    assert "unset NUMBA_DISABLE_JIT" in checks["compiled code"]["advice"]


def test_machine_code_that_cannot_be_kept_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(checkup, "kept_in", lambda: None)
    assert "set NUMBA_CACHE_DIR" in checkup.check_compiled_code()["advice"]
    monkeypatch.setattr(checkup, "kept_in", lambda: tmp_path)
    assert checkup.check_compiled_code()["found"] == f"0 kernels, 0.0 MB in {tmp_path}"
    monkeypatch.setattr(checkup, "access", lambda *_: False)
    assert "set NUMBA_CACHE_DIR" in checkup.check_compiled_code()["advice"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    row = checkup.check_folder("downloads", tmp_path / "file" / "inside", "do this")
    assert (row["status"], row["advice"]) == ("note", "do this")
    assert checkup.check_folder("downloads", tmp_path / "new" / "inside", "do this")["status"] == "ok"


def test_a_journal_that_cannot_be_written_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(checkup, "TemporaryDirectory", lambda: (_ for _ in ()).throw(OSError("Read-only file system")))
    row = checkup.check_journal()
    assert row["status"] == "wrong"
    assert "Read-only file system" in row["found"]


@pytest.mark.parametrize(
    ("bounds", "version", "allowed"),
    [
        (">=1.4", "1.4", True),
        (">=1.4", "1.4.0", True),
        (">=1.4.0", "1.4", True),
        (">=1.4", "1.10", True),
        (">=1.4", "1.3.9", False),
        ("<0.69,>=0.62.1", "0.69.0", False),
        ("<0.69,>=0.62.1", "0.68.9", True),
        (">=2.0", "2.1.0rc1+local.9", True),
        ("==1.2", "1.2.0", True),
    ],
)
def test_versions_are_compared_by_their_numbers(bounds, version, allowed):
    assert allows(bounds, version) is allowed


def test_metadata_are_read(monkeypatch):
    lines = [
        "numba<0.69,>=0.62.1",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "uvloop>=0.21; (sys_platform != 'win32') and extra == 'serve'",
        "delaytron[plot]; extra == 'all'",
    ]
    monkeypatch.setattr(packages, "requires", lambda _: lines)
    assert list(packages.requirements()) == [
        Requirement("numba", "<0.69,>=0.62.1", None),
        Requirement("psycopg", ">=3.2", "postgres"),
        Requirement("uvloop", ">=0.21", "serve"),
    ]
