"""Who may import whom: arrows point down only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "delaytron"
LAYERS = [
    {"errors", "_version", "records", "files.atomic", "files", "compiler.inline", "compiler"},
    {"compiler.kernel", "files.compressed"},
    {"checks", "files.lines"},
    {"theory.arguments"},
    {"theory.moments", "theory.quantities", "theory.mistakes"},
    {"theory.growth"},
    {"theory.bounds", "theory.repaired", "theory.steps"},
    {"theory.statements"},
    {
        "rng",
        "plotting",
        "formats",
        "matrices",
        "delays.times",
        "delays.trace_files",
        "kernels.lanes",
        "kernels.lanes_llvm",
    },
    {"delays.traces", "kernels", "kernels.linear"},
    {"kernels.explore", "kernels.updates", "kernels.arrivals", "kernels.logistic", "kernels.quantiles"},
    {"kernels.second_order", "kernels.diagonal", "kernels.subsets"},
    {"kernels.loop"},
    {"learners.ledger", "learners.rule", "learners.average", "learners.feedback"},
    {"learners.options", "learners.file_checks"},
    {"learners.base", "learners.files", "learners.aggression", "learners.pool"},
    {
        "learners.delaytron",
        "learners.banditron",
        "learners.adaptive_delaytron",
        "learners.perceptron",
        "learners.pab",
        "learners.passive_aggressive",
        "learners.hinge_delaytron",
        "learners.gap",
        "learners.ova_logistic",
        "learners.soba",
        "learners.newtron",
        "learners.confidit",
        "learners.rcnbf",
        "learners.dilute",
        "learners.exp3",
    },
    {"learners.exact_pa", "learners.bold"},  # of parts of others
    {"datasets.cards", "delays.models"},
    {"learners", "delays", "datasets.base", "datasets.catalogue"},
    {"datasets.synthetic", "datasets.bundled", "datasets.downloads", "datasets.scaling"},
    {"datasets.cells", "datasets.headers"},
    {"datasets.named", "delays.fits"},
    {"datasets.images", "datasets.uci", "datasets.text", "datasets.columns", "datasets.libsvm"},
    {"datasets.delimited", "datasets.arrow", "datasets.npz"},
    {"datasets.files"},
    {"datasets.streams", "datasets.convert"},
    {"datasets", "simulation.scenarios", "simulation.results", "simulation", "delays.summary", "images.network"},
    {"simulation.windows", "images.vgg16", "images.cnn", "images.cifar", "theory.comparators"},
    {"theory.regrets", "theory.trials"},
    {"theory"},
    {"simulation.batches"},
    {
        "simulation.plots",
        "comparison",
        "comparison.plots",
        "comparison.tuning",
        "simulation.replay",
        "simulation.simulate",
        "images.build",
    },
    {"images", "delays.plots", "datasets.plots", "theory.plots"},
    {"comparison.results", "theory.study"},
    {"comparison.compare"},
    {"planning.simulation"},
    {"planning.bounds", "planning.plots"},
    {"planning"},
    {"", "cli.tables"},
    {"planning.answers"},
    {"experiments", "experiments.runs", "experiments.clusters"},
    {"experiments.spec", "experiments.store", "experiments.workers"},
    {"experiments.selection"},
    {"experiments.execute", "experiments.report.charts"},
    {"experiments.report.figures", "experiments.report.model", "experiments.report.curves"},
    {
        "experiments.report.claims",
        "experiments.report.best",
        "experiments.report.tables",
        "experiments.report.html",
        "experiments.report.markdown",
        "experiments.report.theory",
    },
    {"experiments.report"},
    {"cli.options", "cli.bound_tables", "cli.outputs", "cli.dataset_tables"},
    {
        "cli.run",
        "cli.bounds",
        "cli.plan",
        "cli.compare",
        "cli.learners",
        "cli.datasets",
        "cli.delays",
        "cli.experiment",
    },
    {"cli"},
    {"__main__"},
]
FLOOR = {name: i for i, layer in enumerate(LAYERS) for name in layer}
UPWARD = {  # inside functions
    *{("learners.base", "learners.files"), ("learners.files", "learners"), ("simulation.results", "simulation.plots")},
    *{("datasets.base", "datasets.files"), ("datasets.base", "datasets.arrow"), ("delays.summary", "delays.plots")},
}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        yield name, ast.parse(path.read_text())


def imports(tree):
    """Yield (module, at the top level of the file) of everything imported."""
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


@pytest.mark.parametrize(("name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_arrows_point_down(name, tree):
    assert name in FLOOR, f"give {name or 'the package'} a place in LAYERS"
    for module, member, at_top in imports(tree):
        if not module.startswith("delaytron"):
            continue
        inner = f"{module}.{member}".removeprefix("delaytron").removeprefix(".")
        target = inner if inner in FLOOR else module.removeprefix("delaytron").removeprefix(".")
        if at_top or (name, target) not in UPWARD:
            assert FLOOR[target] < FLOOR[name], f"{name} must not import {target}"


def test_only_the_compiler_files_import_numba():
    users = {
        name
        for name, tree in modules()
        for module, _, _ in imports(tree)
        if module.split(".")[0] in ("numba", "llvmlite")
    }
    assert users == {"compiler.inline", "compiler.kernel", "kernels.lanes_llvm"}


@pytest.mark.parametrize(
    "heavy",
    ["scipy", "pyarrow", "matplotlib", "joblib", "sklearn", "safetensors", "pooch", "torch", "rich", "typer"],
)
def test_heavy_packages_are_imported_only_where_used(heavy):
    at_top = {
        name for name, tree in modules() for module, _, top in imports(tree) if top and module.split(".")[0] == heavy
    }
    shown = {name for name in at_top if name.split(".")[0] in ("cli", "cli.tables")}
    assert at_top <= (shown if heavy in ("rich", "typer") else set())
