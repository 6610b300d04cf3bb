"""What the terminal shows of data sets: a list of them, or one with its classes and some of its images."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from delaytron.cli.documents import DatasetDocument, DatasetRow
from delaytron.cli.tables import new_table
from delaytron.datasets import Dataset
from delaytron.datasets.plots import largest_classes

BAR = 30  # characters of the longest bar
EIGHTHS = " ▏▎▍▌▋▊▉"
HALVES = " ▄▀█"  # of a letter: neither, the lower, the upper, both
NAMES_AT_EACH_END = 4  # names at either end of many
CAPTION = """here: yes, cached; or what it takes to have it: download, build, install
part: all, train, test; features: cnn, pixels (--input)"""


def list_view(rows: Sequence[DatasetRow]) -> RenderableType:
    """Return the data sets as two tables: their sizes, and what they are."""
    sizes = new_table("name", caption=CAPTION)
    for title in ("rows", "features", "classes", "non-zero"):
        sizes.add_column(title, justify="right", no_wrap=True)
    sizes.add_column("here")
    sizes.add_column("options", overflow="fold")
    about = new_table("name", "what, from where, licence")
    for row in rows:
        numbers = [f"{row['rows']:,}", f"{row['features']:,}", f"{row['classes']:,}"]
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items()) or "-"
        sizes.add_row(row["dataset"], *numbers, percent(row["nonzeros"]), row["availability"], escape(options))
        about.add_row(row["dataset"], f"{escape(row['description'])}\n{_origin(row)}")
    for table in (sizes, about):
        table.columns[0].no_wrap = True
    return Group(sizes, "", about)


def _origin(row: DatasetRow) -> str:
    source = row["source"].removeprefix("https://").removeprefix("http://")
    return escape(", ".join(filter(None, [source, row["licence"] or "no licence stated"])))


def percent(share: float) -> str:
    """Return a share in per cent, with two digits at least and no false 100.

    Examples
    --------
    >>> percent(0.004), percent(0.145), percent(0.9998), percent(1)
    ('0.40 %', '14.5 %', '99.98 %', '100 %')
    """
    value = 100 * share
    digits = 0 if share in (0, 1) else 1 if 1 <= value < 99.9 else 2
    return f"{value:.{digits}f} %"


def dataset_view(document: DatasetDocument, data: Dataset, image: tuple[int, int] | None) -> RenderableType:
    """Return what is known of a data set, its classes as bars, and of images one of every class."""
    facts = Table.grid(padding=(0, 2))
    for name, text in _facts(document, data.majority_error):
        facts.add_row(name, escape(text))
    title = f"[bold]{escape(document['dataset'])}[/]  {escape(document['description'])}".rstrip()
    views: list[RenderableType] = [title, "", facts, "", _classes(data)]
    if image is not None:
        views += ["", *_sheet(data, image)]
    return Group(*views)


def _facts(document: DatasetDocument, majority_error: float) -> Iterator[tuple[str, str]]:
    form = "sparse" if document["sparse"] else "dense"
    yield "rows", f"{document['rows']:,}"
    yield "features", f"{document['features']:,}, {form}, {percent(document['nonzeros'])} non-zero"
    if document["feature_names"]:
        yield "", _gist(document["feature_names"])
    yield "classes", f"{document['classes']}; always to guess the largest errs in {percent(majority_error)}"
    origin = {"source": document["source"], "licence": document["licence"], "citation": document["citation"]}
    yield from ((name, text) for name, text in origin.items() if text)


def _gist(names: Sequence[str]) -> str:
    if len(names) > 3 * NAMES_AT_EACH_END:
        names = [*names[:NAMES_AT_EACH_END], "...", *names[-NAMES_AT_EACH_END:]]
    return " | ".join(names)


def _classes(data: Dataset) -> Table:
    classes = largest_classes(data)
    counts = np.bincount(data.y, minlength=data.n_classes)
    left_out = data.n_classes - len(classes)
    table = new_table("class", caption=f"and {left_out:,} smaller classes" if left_out else "")
    for title in ("rows", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column()
    for k in classes:
        share = percent(counts[k] / data.n_rows)
        table.add_row(escape(data.class_names[k]), f"{counts[k]:,}", share, bar(counts[k] / counts.max()))
    return table


def bar(share: float) -> str:
    """Return a bar of block characters.

    Examples
    --------
    >>> bar(0.25), bar(0.001), bar(0)
    ('███████▌', '▏', '')
    """
    eighths = round(8 * BAR * share) or int(share > 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _sheet(data: Dataset, image: tuple[int, int]) -> Iterator[str]:
    """Iterate over lines that show the first image of every class, as many beside each other as fit."""
    firsts = [data.X[int(np.argmax(data.y == k))] for k in range(data.n_classes) if (data.y == k).any()]
    sketches = [sketch(np.asarray(row).reshape(image)) for row in firsts]
    fit = max(1, (Console().width + 2) // (image[1] + 2))
    for start in range(0, len(sketches), fit):
        for line in zip(*sketches[start : start + fit], strict=True):
            yield "  ".join(line).rstrip()
        yield ""


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
