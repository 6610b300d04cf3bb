"""Who may import whom: the line of stages in CONTRIBUTING.md, without exceptions."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "delaytron"
COMPILER = {"compiler.build", "compiler.cache", "compiler.inline", "kernels.lanes_llvm"}


def stages():
    """Return the stages as CONTRIBUTING.md writes them: arrows between stages, bars and blanks between siblings."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    line = re.search(r"<!-- contract -->\n`(.*?)`", text, re.DOTALL).group(1)
    return [re.findall(r"\w+", stage) for stage in line.split("->")]


STAGE = {room: place for place, rooms in enumerate(stages()) for room in rooms}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        yield name, ast.parse(path.read_text())


def imports(tree):
    """Yield (module, member, at the top level of the file) of everything imported but for the type checker."""
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = {child for block in guarded for child in ast.walk(block)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.module, alias.name, node in tree.body
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node in tree.body


def room_of(module, member=None):
    """Return the package or loose module below `delaytron` that a name belongs to; the root is a room, too."""
    parts = [part for part in (*module.split("."), member) if part][1:]
    known = parts and ((PACKAGE / parts[0]).is_dir() or (PACKAGE / f"{parts[0]}.py").is_file())
    return parts[0] if known else "root"


def rooms_used(name, tree):
    return {room_of(module, member) for module, member, _ in imports(tree) if module.split(".")[0] == "delaytron"}


def test_the_contract_names_every_room_once():
    rooms = [room for stage in stages() for room in stage]
    there = {room_of(f"delaytron.{name}") for name, _ in modules()} - {"__main__"}
    assert sorted(rooms) == sorted(there)


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_room_imports_only_earlier_stages(name, tree):
    own = room_of(f"delaytron.{name}")
    if own == "__main__":
        assert rooms_used(name, tree) == {"cli"}
        return
    for used in rooms_used(name, tree) - {own}:
        assert STAGE[used] < STAGE[own], f"{name or 'the root'} must not import {used}"


def imported_modules(name, tree):
    """Return the modules of the package that a module imports as it is loaded."""
    known = {other for other, _ in modules()}
    for module, member, at_top in imports(tree):
        if at_top and module.split(".")[0] == "delaytron":
            inner = f"{module}.{member}".removeprefix("delaytron.")
            yield inner if inner in known else module.removeprefix("delaytron").removeprefix(".")


def test_no_module_imports_itself_by_a_detour():
    graph = {name: set(imported_modules(name, tree)) for name, tree in modules()}
    while ends := {name for name, used in graph.items() if not used & graph.keys()}:
        graph = {name: used for name, used in graph.items() if name not in ends}
    assert not graph, f"a circle of imports among {sorted(graph)}"


def test_only_the_compiler_files_import_numba():
    users = {
        name
        for name, tree in modules()
        for module, _, _ in imports(tree)
        if module.split(".")[0] in ("numba", "llvmlite")
    }
    assert users == COMPILER


@pytest.mark.parametrize(
    "heavy",
    ["scipy", "pyarrow", "matplotlib", "joblib", "sklearn", "safetensors", "pooch", "torch", "rich", "typer"],
)
def test_heavy_packages_are_imported_only_where_used(heavy):
    at_top = {
        name for name, tree in modules() for module, _, top in imports(tree) if top and module.split(".")[0] == heavy
    }
    shown = {name for name in at_top if name.split(".")[0] == "cli"}
    assert at_top <= (shown if heavy in ("rich", "typer") else set())


def test_no_class_name_is_used_twice():
    names = [node.name for _, tree in modules() for node in tree.body if isinstance(node, ast.ClassDef)]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"Params", "State", "Diagonal", "Full"}
