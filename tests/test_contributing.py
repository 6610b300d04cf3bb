"""CONTRIBUTING.md: short, every package is in it, and every file and function that it names exists."""

import re
from importlib import import_module

import pytest

from import_graph import PACKAGE, PAGE, ROOT

TEXT = PAGE.read_text()
PACKAGES = re.search(r"### Packages\n.*?```text\n(.*?)```", TEXT, re.DOTALL)[1]
PATHS = sorted({*re.findall(r"[\w./*]*\w\.(?:py|toml|json|md)\b", TEXT)} - {"docs/learners/calm.md"})
CLASSES = {
    "Book": "learners.book",
    "Engine": "model.engine",
    "Learner": "learners.learner",
    "Passes": "service.postgres.learner",
    "State": "model.state",
    "Store": "journal.store",
    "Writer": "journal.writer",
}
METHODS = sorted(set(re.findall(rf"\b({'|'.join(CLASSES)})\.(\w+)\b", TEXT)))


def test_files_and_methods_are_found_in_the_page():
    assert {"CHANGELOG.md", "journal/writer.py", "learners/learner.py", "pyproject.toml"} <= set(PATHS)
    assert ("Writer", "run") in METHODS


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 250


def exists(path):
    """Whether a path is one of the repository, of the package, or the name of a file in one of its folders."""
    found = [folder for folder in (ROOT, PACKAGE, ROOT / "tests") if list(folder.glob(path))]
    return bool(found) or ("/" not in path and any(PACKAGE.rglob(path)))


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_is_named_exists(path):
    assert exists(path)


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_that_is_named_exists(owner, name):
    assert hasattr(getattr(import_module(f"delaytron.{CLASSES[owner]}"), owner), name)


def test_every_package_is_listed():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    listed = {name for line in PACKAGES.splitlines() for name in line[:37].split()}
    assert packages <= listed
    assert all((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() for name in listed)
