"""`delaytron doctor`: versions, folders and extras, and the advice where something is wrong."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from delaytron import cli
from delaytron.cli import doctor


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


def test_a_sound_installation_has_exit_code_0():
    done = examine()
    assert done.exit_code == 0, done.output
    assert "All is well." in done.output


def test_the_versions_are_those_installed():
    versions = json.loads(examine("--json").stdout)["versions"]
    assert versions["python"] == sys.version.split()[0]
    assert {name: version(name) for name in ("delaytron", "numpy", "numba", "llvmlite")}.items() <= versions.items()


def test_every_extra_of_pyproject_is_listed():
    extras = {row["extra"]: row["packages"] for row in json.loads(examine("--json").stdout)["extras"]}
    assert extras["client"].keys() == {"httpx"}
    assert {"starlette", "uvicorn", "httptools", "uvloop"} == extras["serve"].keys()


def test_an_extra_that_is_missing_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "requires", lambda _: ["no-such-package>=1; extra == 'rare'"])
    done = examine("--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["extras"] == [{"extra": "rare", "packages": {"no-such-package": None}}]
    assert "pip install 'delaytron[rare]'" in examine().output


def test_metadata_are_read(monkeypatch):
    lines = [
        "numba<0.69,>=0.62.1",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "uvloop>=0.21; (sys_platform != 'win32') and extra == 'serve'",
        "delaytron[plot]; extra == 'all'",
    ]
    monkeypatch.setattr(doctor, "requires", lambda _: lines)
    assert [(row.extra, list(row.packages)) for row in doctor.list_extras()] == [
        ("postgres", ["psycopg"]),
        ("serve", ["uvloop"]),
    ]


def test_a_data_folder_that_is_not_there_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path / "absent"))
    assert examine().exit_code == 1
    assert "unset DELAYTRON_DATA" in check_of("data folder")["advice"]
    monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
    assert check_of("data folder")["found"] == str(tmp_path)


def test_a_compiler_that_is_switched_off_is_reported():
    command = [sys.executable, "-m", "delaytron", "doctor", "--json"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    checks = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0
    assert "unset NUMBA_DISABLE_JIT" in checks["compiled code"]["advice"]


def test_machine_code_that_cannot_be_kept_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_folder_of_kernels", lambda: None)
    assert "set NUMBA_CACHE_DIR" in doctor.check_compiled_code().advice
    monkeypatch.setattr(doctor, "_folder_of_kernels", lambda: tmp_path)
    assert doctor.check_compiled_code().found == f"0 kernels, 0.0 MB in {tmp_path}"
    monkeypatch.setattr(doctor, "access", lambda *_: False)
    assert "set NUMBA_CACHE_DIR" in doctor.check_compiled_code().advice


def test_the_folder_of_compiled_code_is_that_of_the_compiler(monkeypatch, tmp_path):
    command = [sys.executable, "-m", "delaytron", "doctor", "--json"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    checks = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    assert f" in {tmp_path}" in checks["compiled code"]["found"]


@pytest.mark.skipif(sys.platform == "win32", reason="the folder does not depend on XDG_CACHE_HOME there")
def test_a_folder_of_downloads_that_cannot_be_written_is_reported(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "inside"))
    row = doctor.check_downloads()
    assert (row.status, row.advice) == ("note", "set XDG_CACHE_HOME to a folder that can be written")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new" / "inside"))
    assert doctor.check_downloads().status == "ok"
