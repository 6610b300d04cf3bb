"""Who may import whom: the line of stages in CONTRIBUTING.md, without exceptions."""

import ast

import pytest

from import_graph import DRAWING, PAGE, drawing, graph, imports, modules, redrawn, room_of, rooms_used, stages

COMPILER = {"compiler.build", "compiler.cache", "compiler.inline", "kernels.lanes_llvm", "kernels.tiles_llvm"}

DOORS = {  # modules that nobody imports who does not use these libraries
    "gymnasium": {"gymnasium"},
    "mlflow": {"mlflow"},
    "onnx": {"learners.onnx_graph", "learners.onnx_sums"},
    "river": {"river"},
}
STAGE = {room: place for place, rooms in enumerate(stages()) for room in rooms}


def test_the_contract_names_every_room_once():
    rooms = [room for stage in stages() for room in stage]
    there = {room_of(f"delaytron.{name}") for name, _ in modules()} - {"__main__"}
    assert sorted(rooms) == sorted(there)


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_room_imports_only_earlier_stages(name, tree):
    own = room_of(f"delaytron.{name}")
    if own == "__main__":
        assert rooms_used(tree) == {"cli"}
        return
    for used in rooms_used(tree) - {own}:
        assert STAGE[used] < STAGE[own], f"{name or 'the root'} must not import {used}"


def test_the_drawing_in_contributing_is_current():
    text = PAGE.read_text()
    assert DRAWING.search(text), "CONTRIBUTING.md has no import graph"
    assert redrawn(text) == text, "run python tests/import_graph.py"


def test_only_the_drawing_is_redrawn():
    page = "before\n<!-- import graph -->\n```text\n{}```\nafter ```python\n```\n"
    assert redrawn(page.format("")) == page.format(drawing())
    assert redrawn(page.format("old\n")) == page.format(drawing())


def test_the_drawing_shows_every_import_and_no_other():
    used = graph()
    rooms = list(used)
    rows = [line.split()[2:] for line in drawing().splitlines()[1:]]
    shown = {
        room: {rooms[i] for i, mark in enumerate(row) if mark == "x"} for room, row in zip(rooms, rows, strict=True)
    }
    assert shown == used


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
    [
        *["scipy", "pyarrow", "matplotlib", "joblib", "sklearn", "safetensors", "pooch", "torch", "httpx", "rich"],
        "typer",
    ],
)
def test_heavy_packages_are_imported_only_where_used(heavy):
    at_top = {
        name for name, tree in modules() for module, _, top in imports(tree) if top and module.split(".")[0] == heavy
    }
    shown = {name for name in at_top if name.split(".")[0] == "cli"}
    assert at_top <= (shown if heavy in ("rich", "typer") else {"sklearn"} & {heavy})


@pytest.mark.parametrize(("extra", "doors"), DOORS.items())
def test_extras_are_imported_at_the_top_of_their_doors_only(extra, doors):
    users = {name for name, tree in modules() for module, _, _ in imports(tree) if module.split(".")[0] == extra}
    assert users == doors
    assert not [name for name, tree in modules() if name not in doors and doors & set(imported_modules(name, tree))]


def test_no_class_name_is_used_twice():
    names = [node.name for _, tree in modules() for node in tree.body if isinstance(node, ast.ClassDef)]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"Params", "State", "Diagonal", "Full", "DelayedClassifier"}
