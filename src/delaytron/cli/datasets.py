"""`delaytron datasets`: a list of them, the details of one, and features that have to be built."""

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from delaytron import datasets
from delaytron.cli import options
from delaytron.cli.data_options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.dataset_tables import dataset_view, list_view
from delaytron.cli.documents import DatasetDocument, DatasetRow
from delaytron.cli.outputs import progress_bar, targets, write_figure
from delaytron.cli.outputs import show as show_document
from delaytron.datasets.cards import Card
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS
from delaytron.datasets.downloads import availability, cache_folder
from delaytron.datasets.plots import plot_dataset

EXAMPLES = """
Examples

delaytron datasets
delaytron datasets --json
delaytron datasets show digits --plot digits.png
delaytron datasets build --help
"""
SHOW_EXAMPLES = """
Examples

delaytron datasets show abalone
delaytron datasets show fashion_mnist --input pixels --part test
delaytron datasets show iris.csv --label species
"""
BUILD_EXAMPLES = """
Examples

delaytron datasets build fashion_mnist --seed 1
delaytron datasets build cifar10 --output data
"""

Name = Annotated[str, typer.Argument(metavar="NAME_OR_FILE", help=options.DATA_HELP)]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw classes and rows: .png, .pdf or .svg.")]
Built = Annotated[str, typer.Argument(metavar="NAME", help="cifar10 or fashion_mnist.")]
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="A data folder to write to.", show_default="the cache")
]
Seed = Annotated[int, typer.Option(help="Fixes the training of the network for fashion_mnist.")]

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog=EXAMPLES)
def list_all(context: typer.Context, json: options.Json = False) -> None:
    """List the data sets, or show or build one."""
    if context.invoked_subcommand is None:
        rows = [_row(name, card) for name, card in CARDS.items()]
        show_document(rows, list_view(rows), json)


def _row(name: str, card: Card) -> DatasetRow:
    parameters = signature(datasets.DATASETS[name]).parameters.values()
    return {
        "dataset": name,
        "description": card.title,
        "rows": card.n_rows,
        "features": card.n_features,
        "classes": len(card.class_names),
        "nonzeros": card.nonzeros,
        "sparse": card.sparse,
        "availability": availability(card),
        "source": card.source,
        "licence": card.licence,
        "options": {parameter.name: parameter.default for parameter in parameters},
    }


@app.command(epilog=SHOW_EXAMPLES)
@with_data_options("scale", "bias", "shuffle", "samples")
def show(
    name: Name,
    how_to_load: DataOptions = AS_IT_IS,
    plot: Plot = None,
    json: options.Json = False,
) -> None:
    """Show a data set or a file: its size, its classes, where it comes from, some rows."""
    files = targets(plot)
    data = how_to_load.load(name, 0)
    card = FASHION_PIXELS if how_to_load.input == "pixels" else CARDS.get(name)
    image = card and card.image
    document = _document(data, card)
    show_document(document, dataset_view(document, data, image), json)
    for file in files:
        write_figure(file.path, lambda path: plot_dataset(data, path, image), json)


def _document(data: datasets.Dataset, card: Card | None) -> DatasetDocument:
    counts = np.bincount(data.y, minlength=data.n_classes)
    X: Any = data.X
    return {
        "dataset": data.name,
        "description": card.title if card else "",
        "rows": data.n_rows,
        "features": data.n_features,
        "classes": data.n_classes,
        "nonzeros": int(np.count_nonzero(X.data if data.sparse else X)) / (data.n_rows * data.n_features),
        "sparse": data.sparse,
        "availability": availability(card) if card else "yes",
        "majority_error": data.majority_error,
        "class_counts": dict(zip(data.class_names, counts.tolist(), strict=True)),
        "feature_names": list(data.feature_names),
        "source": data.source,
        "licence": data.licence,
        "citation": data.citation,
    }


@app.command(epilog=BUILD_EXAMPLES)
def build(name: Built, output: Output = None, seed: Seed = 0) -> None:
    """Make the features of cifar10 or fashion_mnist from their images, by a network.

    Needs PyTorch, which the extra `features` brings. CIFAR-10 downloads 160 MB
    of images and 530 MB of weights; Fashion-MNIST 30 MB, and trains for minutes.
    """
    from delaytron import images  # noqa: PLC0415 - few need it

    images.inputs(name)  # downloads have a bar of their own
    with progress_bar(images.N_IMAGES[name], "images", "loading") as advance:
        target = images.build(name, output or cache_folder(), seed, advance)
    typer.echo(f"wrote {target}")
