"""The user's own files and frames as data sets; what a file holds is told by its ending, or by the user."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from delaytron.checks import check_choice
from delaytron.datasets.arrow import open_parquet, read_feather, read_frame, read_parquet
from delaytron.datasets.base import Block, Dataset, encode_present
from delaytron.datasets.delimited import read_delimited
from delaytron.datasets.headers import Column, Columns
from delaytron.datasets.libsvm import libsvm_blocks, read_libsvm
from delaytron.datasets.npz import read_npz
from delaytron.errors import InvalidInput
from delaytron.files.compressed import OPENERS, plain_suffix

Classes = TypeVar("Classes", bound=Any)
READERS: dict[str, Callable[..., Block]] = {
    "csv": read_delimited,
    "tsv": partial(read_delimited, delimiters="\t"),
    "parquet": read_parquet,
    "feather": read_feather,
    "npz": read_npz,
    "libsvm": read_libsvm,
}
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".npz": "npz",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
}
COMPRESSIBLE = ("csv", "tsv", "libsvm")
TAKES: dict[str, tuple[str, ...]] = {"npz": ("label",), "libsvm": ()}  # of label and categorical; others take both


def load_file(
    path: str | Path,
    label: Column | None = None,
    categorical: Columns = (),
    format: str | None = None,
) -> Dataset:
    r"""Read a file of CSV, TSV, Parquet, Feather, NPZ or LIBSVM; the text formats also as .gz, .bz2 or .xz.

    Parameters
    ----------
    label : str or int, optional
        The column with the labels: its name or position, negative from the end; in NPZ the name of an array.
        By default the only one that is called label, class, target or y.
    categorical : sequence of str or int
        Columns of numbers that are categories all the same. Columns of text always are.
    format : {"csv", "tsv", "parquet", "feather", "npz", "libsvm"}, optional
        What the file holds, where its ending does not say so.

    Notes
    -----
    A CSV file has a header if no cell of its first row is a number; without one, columns are called "0", "1", ....
    A category `value` of a column becomes a column "column=value" of 0 and 1. Where at most a tenth of the numbers
    can differ from 0 (with more than 10,000 columns a half), X is CSR. Missing cells, dates and columns that mix
    numbers and text are refused with the place where they stand.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("legs,home,species\n4,barn,cat\n2,cage,bird\n4,house,cat\n")
    ...     data = load_file(file, label="species")
    >>> data.feature_names, data.class_names
    (('legs', 'home=barn', 'home=cage', 'home=house'), ('bird', 'cat'))
    """
    place = Path(path).expanduser()
    kind = file_format(place, format)
    block = READERS[kind](place, **_options(place, kind, label, categorical))
    return _with_classes(block, file_name(place), str(path))


def load_frame(frame: Any, label: Column | None = None, categorical: Columns = ()) -> Dataset:
    """Read a frame of pandas, polars or anything else with `__arrow_c_stream__`; see `load_file`."""
    return _with_classes(read_frame(frame, label, categorical), "data", "the frame")


def open_blocks(
    path: Path,
    label: Column | None = None,
    categorical: Columns = (),
    format: str | None = None,
) -> Callable[[], Iterator[Block]]:
    """Return what goes through a file in blocks, each time anew."""
    kind = file_format(path, format)
    if kind not in ("parquet", "libsvm"):
        raise InvalidInput(f"{path}: only Parquet and LIBSVM files can be read in blocks, got {kind}; load it whole")
    options = _options(path, kind, label, categorical)
    return open_parquet(path, **options) if kind == "parquet" else partial(libsvm_blocks, path)


def file_format(path: Path, asked: str | None = None) -> str:
    """Return what a file holds; refuse one that is not there.

    Examples
    --------
    >>> file_format(Path(__file__), "csv")
    'csv'
    """
    if not path.is_file():
        fault = "is a folder" if path.is_dir() else "can be read only once"
        raise InvalidInput(f"{path} {fault}; give a file" if path.exists() else f"there is no file {path}")
    kind = ENDINGS.get(plain_suffix(path)) if asked is None else check_choice("format", asked, READERS)
    if kind is None:
        raise InvalidInput(
            f"{path}: the ending must tell what is in the file, one of {', '.join(ENDINGS)}; "
            f"else pass format= (--format) {', '.join(READERS)}"
        )
    if path.suffix.lower() in OPENERS and kind not in COMPRESSIBLE:
        raise InvalidInput(f"{path}: of compressed files only {', '.join(COMPRESSIBLE)} can be read; unpack it")
    return kind


def file_name(path: Path) -> str:
    """Return the name of a file without the endings that say what is in it.

    Examples
    --------
    >>> file_name(Path("data/clicks.v2.csv.gz"))
    'clicks.v2'
    """
    return (path.with_suffix("") if path.suffix.lower() in OPENERS else path).stem


def _options(path: Path, kind: str, label: Column | None, categorical: Columns) -> dict[str, Any]:
    """Return the options that are given; refuse those for which a format has no use."""
    given = {"label": label, "categorical": categorical}
    chosen = {name: value for name, value in given.items() if value is not None and value != ()}
    for option, value in chosen.items():
        if option not in TAKES.get(kind, given):
            raise InvalidInput(f"{path}: a {kind} file takes no {option}, got {value!r}")
    return chosen


def _with_classes(block: Block, name: str, source: str) -> Dataset:
    y, class_names = encode_present(block.labels)
    check_several(source, class_names)
    try:
        return Dataset(block.X, y, name, class_names, feature_names=block.feature_names, source=source)
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem}") from None


def check_several(source: str, classes: Classes) -> Classes:
    """Raise if there is nothing to choose in a file."""
    if len(classes) < 2:
        raise InvalidInput(f"{source}: there must be at least two classes, got only {str(classes[0])!r}")
    return classes
