"""`delaytron datasets`: list the data sets, show one, build the features of image data sets."""

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from delaytron.cli import options
from delaytron.cli.documents import DatasetDocument, DatasetRow
from delaytron.cli.options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import new_table, progress_bar, targets, write_figure
from delaytron.cli.outputs import show as show_document
from delaytron.datasets import DATASETS, Dataset
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS
from delaytron.datasets.named import availability
from delaytron.datasets.plots import largest_classes, plot_dataset
from delaytron.files.atomic import cache_home

BAR = 30  # characters of the longest bar
EIGHTHS = " ▏▎▍▌▋▊▉"
HALVES = " ▄▀█"  # two pixels of a column: none black, the lower, the upper, both
NAMES_AT_EACH_END = 4  # feature names shown at the beginning and at the end of a long list
CAPTION = """here: yes, cached; or what it takes: download, build, install, prepare
part: all, train, test; features: cnn, pixels; words, numbers (--input)"""


def percent(share: float) -> str:
    """Return a share in per cent, with at least two digits; what is below 100 is not rounded to it.

    Examples
    --------
    >>> percent(0.004), percent(0.145), percent(0.9998), percent(1)
    ('0.40 %', '14.5 %', '99.98 %', '100 %')
    """
    value = 100 * share
    digits = 0 if share in (0, 1) else 1 if 1 <= value < 99.9 else 2
    return f"{value:.{digits}f} %"


def bar(share: float) -> str:
    """Return a bar of block characters.

    Examples
    --------
    >>> bar(0.25), bar(0.001), bar(0)
    ('███████▌', '▏', '')
    """
    eighths = round(8 * BAR * share) or int(share > 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def sketch(pixels: NDArray[Any]) -> list[str]:
    """Return an image in black and white as lines of characters, each two pixels high.

    Examples
    --------
    >>> sketch(np.array([[0, 9, 9], [0, 0, 9]]))
    [' ▀█']
    """
    black = pixels > (pixels.min() + pixels.max()) / 2
    even = np.pad(black, ((0, len(black) % 2), (0, 0))).astype(np.int64)
    return ["".join(HALVES[code] for code in line) for line in 2 * even[::2] + even[1::2]]


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
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw the classes, and rows as points or images: .png, .pdf or .svg."),
]
Built = Annotated[str, typer.Argument(metavar="NAME", help="cifar10 or fashion_mnist.")]
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The data folder to write to.", show_default="the cache")
]
Seed = Annotated[int, typer.Option(help="Random seed of the training of the network for fashion_mnist.")]

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog=EXAMPLES)
def list_all(context: typer.Context, json: options.Json = False) -> None:
    """List the data sets, or show or build one."""
    if context.invoked_subcommand is not None:
        return
    rows = [
        DatasetRow(
            dataset=name,
            description=card.title,
            rows=card.n_rows,
            features=card.n_features,
            classes=len(card.class_names),
            nonzeros=card.nonzeros,
            sparse=card.sparse,
            availability=availability(card),
            source=card.source,
            licence=card.licence,
            options={option.name: option.default for option in signature(DATASETS[name]).parameters.values()},
        )
        for name, card in CARDS.items()
    ]
    sizes = new_table("name", numbers=("rows", "features", "classes", "non-zero"), caption=CAPTION)
    sizes.add_column("here")
    sizes.add_column("options", overflow="fold")
    about = new_table("name", "what, from where, licence")
    for table in (sizes, about):
        table.columns[0].no_wrap = True
    for row in rows:
        numbers = [f"{row.rows:,}", f"{row.features:,}", f"{row.classes:,}"]
        defaults = ", ".join(f"{name}={value}" for name, value in row.options.items()) or "-"
        sizes.add_row(row.dataset, *numbers, percent(row.nonzeros), row.availability, escape(defaults))
        source = row.source.removeprefix("https://").removeprefix("http://")
        origin = ", ".join(filter(None, [source, row.licence or "no licence stated"]))
        about.add_row(row.dataset, escape(f"{row.description}\n{origin}"))
    show_document(rows, Group(sizes, "", about), json)


@app.command(epilog=SHOW_EXAMPLES)
@with_data_options("scale", "bias", "shuffle", "samples")
def show(
    name: Name,
    how_to_load: DataOptions = AS_IT_IS,
    plot: Plot = None,
    json: options.Json = False,
) -> None:
    """Show a data set or a file: its size, features and classes, its source, and of images one of each class."""
    files = targets(plot)
    data = how_to_load.load(name, 0)
    card = FASHION_PIXELS if how_to_load.input == "pixels" else CARDS.get(name)
    image = card and card.image
    counts = np.bincount(data.y, minlength=data.n_classes)
    X: Any = data.X
    document = DatasetDocument(
        dataset=data.name,
        description=card.title if card else "",
        rows=data.n_rows,
        features=data.n_features,
        classes=data.n_classes,
        nonzeros=int(np.count_nonzero(X.data if data.sparse else X)) / (data.n_rows * data.n_features),
        sparse=data.sparse,
        availability=availability(card) if card else "yes",
        majority_error=data.majority_error,
        class_counts=dict(zip(data.class_names, counts.tolist(), strict=True)),
        feature_names=list(data.feature_names),
        source=data.source,
        licence=data.licence,
        citation=data.citation,
    )
    show_document(document, Group(*dataset_parts(document, data, image)), json)
    for file in files:
        write_figure(file.path, lambda path: plot_dataset(data, path, image), json)


def dataset_parts(document: DatasetDocument, data: Dataset, image: tuple[int, int] | None) -> Iterator[RenderableType]:
    """Iterate over the facts about a data set, its classes as bars, and of images one of each class."""
    yield f"[bold]{escape(document.dataset)}[/]  {escape(document.description)}".rstrip()
    yield ""
    facts = Table.grid(padding=(0, 2))
    facts.add_row("rows", f"{document.rows:,}")
    form = "sparse" if document.sparse else "dense"
    facts.add_row("features", f"{document.features:,}, {form}, {percent(document.nonzeros)} non-zero")
    names = document.feature_names
    if len(names) > 3 * NAMES_AT_EACH_END:
        names = [*names[:NAMES_AT_EACH_END], "...", *names[-NAMES_AT_EACH_END:]]
    if names:
        facts.add_row("", escape(" | ".join(names)))
    guess = f"the error of always guessing the largest is {percent(data.majority_error)}"
    facts.add_row("classes", f"{document.classes}; {guess}")
    for key in ("source", "licence", "citation"):
        if text := getattr(document, key):
            facts.add_row(key, escape(text))
    yield facts
    yield ""

    classes = largest_classes(data)
    counts = np.bincount(data.y, minlength=data.n_classes)
    left_out = data.n_classes - len(classes)
    caption = f"and {left_out:,} smaller classes" if left_out else ""
    table = new_table("class", numbers=("rows", "share"), caption=caption)
    table.add_column()
    for k in classes:
        share = percent(counts[k] / data.n_rows)
        table.add_row(escape(data.class_names[k]), f"{counts[k]:,}", share, bar(counts[k] / counts.max()))
    yield table

    if image is not None:
        yield ""
        firsts = [data.X[int(np.argmax(data.y == k))] for k in range(data.n_classes) if counts[k]]
        sketches = [sketch(np.asarray(row).reshape(image)) for row in firsts]
        fit = max(1, (Console().width + 2) // (image[1] + 2))  # images beside each other
        for start in range(0, len(sketches), fit):
            yield from ("  ".join(line).rstrip() for line in zip(*sketches[start : start + fit], strict=True))
            yield ""


@app.command(epilog=BUILD_EXAMPLES)
def build(name: Built, output: Output = None, seed: Seed = 0) -> None:
    """Compute the features of cifar10 or fashion_mnist from their images, by a network.

    Needs PyTorch, which the extra `features` installs. CIFAR-10 downloads 160 MB
    of images and 530 MB of weights; Fashion-MNIST 30 MB, and trains for minutes.
    """
    from delaytron.datasets import images  # noqa: PLC0415 - few need it

    images.inputs(name)  # downloads have a bar of their own
    with progress_bar(images.N_IMAGES[name], "images", "loading") as advance:
        target = images.build(name, output or cache_home(), seed, advance)
    typer.echo(f"wrote {target}")
