"""How a data set is described: its size, its classes, its files, where they come from and on what terms."""

from typing import Any, Literal, NamedTuple


class File(NamedTuple):
    """A file below a data folder: where to get it, its published checksum if it has one, or else how to make it."""

    path: str
    address: str = ""
    checksum: str | None = None
    recipe: str = ""


class Card(NamedTuple):
    """The facts of a data set; what is loaded must agree with them."""

    title: str
    class_names: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]  # rows of every class, in every part
    n_features: int
    nonzeros: float  # their share of X
    origin: Literal["made", "download", "build"]
    source: str
    licence: str  # empty: the publisher states none
    citation: str
    files: dict[str, tuple[File, ...]] = {}  # of every part
    feature_names: tuple[str, ...] = ()
    image: tuple[int, int] | None = None  # height and width, where the features are pixels
    sparse: bool = False
    library: str = ""  # that it comes with, as `delaytron.extras` calls it

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Rows of every class."""
        return tuple(map(sum, zip(*self.counts.values(), strict=True)))

    @property
    def n_rows(self) -> int:
        """Rows of all classes."""
        return sum(self.class_counts)

    @property
    def provenance(self) -> dict[str, Any]:
        """What a `Dataset` says of where it comes from."""
        return {"source": self.source, "licence": self.licence, "citation": self.citation}


def pixel_names(height: int, width: int) -> tuple[str, ...]:
    """Name the pixels of an image, row by row.

    Examples
    --------
    >>> pixel_names(2, 2)
    ('pixel 0,0', 'pixel 0,1', 'pixel 1,0', 'pixel 1,1')
    """
    return tuple(f"pixel {row},{column}" for row in range(height) for column in range(width))
