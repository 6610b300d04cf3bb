"""What is installed with what: the version, the extras, and the line that a missing library ends in."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from platformdirs import user_cache_path
from typer.main import get_command

import delaytron as dt
from delaytron.cli import app
from delaytron.errors import MissingLibrary
from delaytron.extras import LIBRARIES, missing_library, needs
from delaytron.files.atomic import cache_home
from import_graph import imports, modules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
APART = {"features", "dask", "ray", "all"}  # too large to come with `all`, and itself
GIVEN = {  # they get what pyarrow made
    "datasets.columns",
}
OPTIONAL = {"matplotlib", "pyarrow", "sklearn", "pooch"}


def packages_of(extra):
    """Return the packages that an extra brings, also by other extras."""
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "delaytron":
            yield from (package for inner in requirement.extras for package in packages_of(inner))
        else:
            yield requirement.name


def test_the_version_comes_from_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert version("delaytron") == dt.__version__
    assert f"\nversion: {dt.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_is_one_that_tools_can_read():
    """Keep a Changelog: what is not released, then versions with their dates; under each the six kinds of changes."""
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *others = re.findall(r"^## (.*)$", text, re.MULTILINE)
    released = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d", title) for title in others]
    assert first == "[Unreleased]"
    assert all(released), f"[1.2.3] - 2026-01-31 is the form of a title; got {others}"
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert dt.__version__ in [title[1] for title in released] or f"This will be {dt.__version__}," in text


def test_all_brings_every_extra_but_the_large_ones():
    everything = {package for extra in EXTRAS.keys() - APART for package in packages_of(extra)}
    assert everything - set(packages_of("all")) == set(), "add the new extra to `all` in pyproject.toml"


@pytest.mark.parametrize("module", LIBRARIES)
def test_the_line_about_a_library_names_an_extra_that_brings_it(module):
    package = {"PyTorch": "torch"}.get(LIBRARIES[module].package, LIBRARIES[module].package)
    assert package in packages_of(LIBRARIES[module].extra)


INTERRUPTED = """
import sys
class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "delaytron.cli.doctor":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Impatient())
from {module} import {function}
{function}()
"""


def test_an_interrupt_while_the_command_is_loaded_is_one_line():
    module, function = PROJECT["scripts"]["delaytron"].split(":")
    code = INTERRUPTED.format(module=module, function=function)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "delaytron: interrupted\n")


def test_a_core_install_has_none_of_the_optional_libraries():
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not core & {LIBRARIES[module].package for module in OPTIONAL}


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_the_line_comes_before_the_import_of_an_optional_library(name, tree):
    used = {module.split(".")[0] for module, _, _ in imports(tree)} & OPTIONAL
    asked = {call.args[0].value for call in ast.walk(tree) if is_need(call)}
    assert name in GIVEN or used <= asked, f"call delaytron.extras.needs({sorted(used - asked)}) before the import"


def is_need(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "needs" and isinstance(node.args[0], ast.Constant)


@pytest.mark.parametrize("module", sorted(OPTIONAL))
def test_a_missing_library_ends_in_one_line(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingLibrary) as caught:
        needs(module)
    assert str(caught.value) == str(missing_library(module))
    assert isinstance(caught.value, dt.InvalidInput)
    assert isinstance(caught.value, ImportError)


def test_a_library_that_is_broken_says_so_itself(monkeypatch, tmp_path):
    (tmp_path / "pooch.py").write_text("import no_such_part")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pooch", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_part") as caught:
        needs("pooch")
    assert not isinstance(caught.value, MissingLibrary)


WITHOUT = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import delaytron as dt
learner = dt.Delaytron(2, 2, seed=0)
learner.feedback(learner.decide([1.0, 0.0]).id, correct=True)
result = dt.simulate("delaytron", ([[1.0, 0.0], [0.0, 1.0]], [0, 1]), rounds=9, runs=2)
for call in (
    lambda: result.plot("a.png"), result.to_table, lambda: dt.datasets.load("digits"),
    lambda: dt.datasets.load("a.csv"), lambda: dt.datasets.load("usps"), lambda: dt.datasets.load("news20"),
    lambda: __import__("delaytron.sklearn"),
):
    try:
        call()
    except dt.InvalidInput as problem:
        print(problem)
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.named import availability
print(availability(CARDS["digits"]))
"""


def test_learning_works_without_the_optional_libraries(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    code = WITHOUT.format(blocked=sorted(OPTIONAL))
    words, env = [sys.executable, "-c", code], os.environ | {"DELAYTRON_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    asked = ("matplotlib", "pyarrow", "sklearn", "pyarrow", "pooch", "sklearn", "delaytron.sklearn")
    assert done.stdout.splitlines() == [*(str(missing_library(name)) for name in asked), "install"]


@pytest.mark.parametrize("given", [None, "elsewhere"])
def test_downloads_stay_where_they_were(given, monkeypatch, tmp_path):
    if given:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / given))
    else:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_home() == user_cache_path("delaytron")


@pytest.mark.parametrize(
    ("system", "place"), [("darwin", "Library/Caches/delaytron"), ("win32", "AppData/Local/delaytron/delaytron/Cache")]
)
def test_every_system_has_its_folder(system, place, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    assert cache_home() == Path.home() / place


def commands(command, name="delaytron"):
    yield name, command
    for inner, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {inner}")


@pytest.mark.parametrize(("name", "command"), list(commands(get_command(app))), ids=lambda value: str(value)[:30])
def test_every_command_has_help_with_an_example(name, command):
    """An example is a line that begins with the command; those of a group may be of the commands in it."""
    assert command.help
    assert re.search(rf"Examples?\s+(.*\n)*?{name}\b", command.epilog or ""), f"{name} --help shows no example"
    for option in command.params:
        if "--help" not in option.opts:
            assert getattr(option, "help", None), f"{name} {option.opts} says nothing"


def test_the_tests_that_nox_runs_exist():
    paths = re.findall(r'"(tests/[\w/.]+)"', (ROOT / "noxfile.py").read_text())
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
