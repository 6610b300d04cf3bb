"""The tree in CONTRIBUTING.md: every package is in it, and every file that it names is there."""

import re

import pytest

from import_graph import PACKAGE, PAGE

TREE = re.search(r"## Where things are\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
INDENT = 4  # of a level


def entries():
    """Yield (folder, name) of every file and folder that a line begins with or names."""
    path = []
    for line in TREE.partition("src/delaytron/\n")[2].partition("tests/")[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // INDENT - 1
        if depth < 3:  # else it goes on with the line before
            path = path[:depth]
        folder = re.match(r" *(\w+)/", line)
        if folder:
            path = [*path[:depth], folder[1]]
        yield from (("/".join(path), name) for name in re.findall(r"\b\w+\.py\b", line))


def test_the_tree_is_read():
    assert ("", "errors.py") in entries()
    assert ("kernels", "loop.py") in entries()
    assert ("experiments/report", "html.py") in entries()


@pytest.mark.parametrize(("folder", "name"), sorted(set(entries())))
def test_a_file_in_the_tree_is_there(folder, name):
    assert (PACKAGE / folder / name).is_file()


def test_every_package_is_in_the_tree():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(re.findall(r"^ +(\w+)/", TREE, re.MULTILINE))
