"""The contract of imports: the line of stages in CONTRIBUTING.md, without exceptions."""

import ast

import pytest

from import_graph import imports, modules, part_of, parts_used, stages

COMPILER = {"compiler.cache", "compiler.inline", "compiler.kernel", "kernels.lanes_llvm"}

DOORS = {  # the modules that import an extra
    "gymnasium": {"gymnasium"},
    "mlflow": {"mlflow"},
    "onnx": {"learners.onnx"},
    "river": {"river"},
}
STAGE = {part: place for place, parts in enumerate(stages()) for part in parts}


def test_the_contract_names_every_package_once():
    parts = [part for stage in stages() for part in stage]
    there = {part_of(f"delaytron.{name}") for name, _ in modules()} - {"__main__"}
    assert sorted(parts) == sorted(there)


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_package_imports_only_earlier_stages(name, tree):
    own = part_of(f"delaytron.{name}")
    if own == "__main__":
        assert parts_used(tree) == {"cli"}
        return
    for used in parts_used(tree) - {own}:
        assert STAGE[used] < STAGE[own], f"{name or 'the root'} must not import {used}"


def imported_modules(name, tree):
    """Return the modules of the package that a module imports as it is loaded."""
    known = {other for other, _ in modules()}
    for module, member, at_top in imports(tree):
        if at_top and module.split(".")[0] == "delaytron":
            inner = f"{module}.{member}".removeprefix("delaytron.")
            yield inner if inner in known else module.removeprefix("delaytron").removeprefix(".")


def test_there_is_no_circle_of_imports():
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
    uses = {
        (name, top) for name, tree in modules() for module, _, top in imports(tree) if module.split(".")[0] == extra
    }
    assert {name for name, _ in uses} == doors
    loading = {name for name, top in uses if top}  # to import one of these imports the extra
    assert not [name for name, tree in modules() if name not in doors and loading & set(imported_modules(name, tree))]


def test_no_class_name_is_used_twice():
    trees = [tree for _, tree in modules()]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"Params", "State", "Store", "Diagonal", "Full", "DelayedClassifier"}
