"""Figures of data sets: the rows of each class, with example images or a projection of rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import as_kind, is_sparse
from delaytron.datasets.dataset import Dataset, Scaling
from delaytron.extras import needs
from delaytron.plotting import COLOURS, save_figure
from delaytron.records import Array, Ints

if TYPE_CHECKING:
    from delaytron.checks import Matrix

MOST_CLASSES = 40  # that are shown
N_EXAMPLES = 8  # images of each class
N_POINTS = 1000  # rows in a projection


def plot_dataset(data: Dataset, path: str | Path, image: tuple[int, int] | None = None) -> None:
    """Save a figure: the number of rows of every class, beside example images or a projection of rows.

    Parameters
    ----------
    image : (int, int), optional
        Height and width, where the features are pixels.
    """
    needs("matplotlib")
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    classes = largest_classes(data)
    height = max(3.6, (0.45 if image else 0.26) * len(classes) + 1.0)
    figure = Figure(figsize=(10.5, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    if data.n_classes <= len(COLOURS):  # which also the colour-blind can distinguish
        colours = list(COLOURS[: data.n_classes])
    else:
        colours = list(colormaps["turbo"](np.linspace(0.04, 0.96, data.n_classes)))
    if image is None:
        _draw_projection(right, data, colours)
    else:
        _draw_examples(right, data, classes, image)
    _draw_counts(left, data, classes, COLOURS[0] if image else [colours[k] for k in classes])
    figure.suptitle(f"{data.name}: {data.n_rows:,} rows, {data.n_features:,} features, {data.n_classes} classes")
    save_figure(figure, path)


def largest_classes(data: Dataset) -> Ints:
    """Return the classes to show, in their order: all, or those with the most rows."""
    by_size = np.argsort(-np.bincount(data.y, minlength=data.n_classes), kind="stable")
    return np.sort(by_size[:MOST_CLASSES])


def _draw_counts(panel: Any, data: Dataset, classes: Ints, colours: Any) -> None:
    counts = np.bincount(data.y, minlength=data.n_classes)[classes]
    bars = panel.barh(range(len(classes)), counts, color=colours, height=0.75)
    panel.bar_label(bars, [f"{count:,}" for count in counts], padding=3, fontsize=8)
    panel.set_yticks(range(len(classes)), [data.class_names[k] for k in classes], fontsize=8)
    panel.set(ylim=(len(classes) - 0.5, -0.5), xlim=(0, counts.max() * 1.15), xticks=[])
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    which = "each class" if len(classes) == data.n_classes else f"the {len(classes)} largest of all classes"
    panel.set_title(f"rows of {which}", fontsize=10)


def _draw_examples(panel: Any, data: Dataset, classes: Ints, image: tuple[int, int]) -> None:
    blank = np.full((image[0] + 1, (image[1] + 1) * N_EXAMPLES), np.nan)
    sheet = np.vstack([blank] * len(classes))
    for place, k in enumerate(classes):
        for column, row in enumerate(np.flatnonzero(data.y == k)[:N_EXAMPLES]):
            top, left = place * (image[0] + 1), column * (image[1] + 1)
            sheet[top : top + image[0], left : left + image[1]] = data.X[row].reshape(image)
    panel.imshow(sheet, cmap="gray_r", interpolation="nearest", aspect="equal")
    panel.set_axis_off()
    panel.set_title(f"the first {N_EXAMPLES} rows of each", fontsize=10)


def _draw_projection(panel: Any, data: Dataset, colours: list[Any]) -> None:
    rows = np.unique(np.linspace(0, data.n_rows - 1, N_POINTS).astype(np.int64))
    points, shares = _project(data.X[rows])
    panel.scatter(*points.T, c=[colours[k] for k in data.y[rows]], s=7, alpha=0.7, linewidths=0)
    panel.set(xticks=[], yticks=[])
    panel.set_xlabel(f"first principal component, {shares[0]:.0%} of the variance", fontsize=9)
    panel.set_ylabel(f"second, {shares[1]:.0%}", fontsize=9)
    panel.set_title(f"{len(rows):,} rows, in the colours of their classes", fontsize=10)


def _project(X: "Matrix") -> tuple[Array, Array]:
    """Return two principal coordinates of every scaled row, and their shares of the variance.

    They are computed from the inner products of the rows: here sparse rows have more columns than there are rows.
    """
    from scipy.linalg import eigh  # noqa: PLC0415 - slow to import

    scaling = Scaling("unit" if is_sparse(X) else "standard")
    scaling.partial_fit(X)
    scaled: Any = scaling.apply(X)
    products: NDArray[np.float64] = np.asarray(as_kind(scaled @ scaled.T, sparse=False))
    products = products - products.mean(axis=0)
    products -= products.mean(axis=1, keepdims=True)
    n = len(products)
    values, vectors = eigh(products, subset_by_index=(n - 2, n - 1))
    values = np.maximum(values[::-1], 0.0)
    return vectors[:, ::-1] * np.sqrt(values), values / max(np.trace(products), np.finfo(float).tiny)
