"""The user's own files and frames as data sets; what a file holds is told by its ending, or by the user."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os import sep
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from delaytron.checks import check_choice, check_path, not_there, shown
from delaytron.datasets.arrow import open_parquet, read_feather, read_frame, read_parquet
from delaytron.datasets.base import Block, Dataset, encode_present
from delaytron.datasets.delimited import open_delimited, read_delimited
from delaytron.datasets.headers import Column, Columns
from delaytron.datasets.json_lines import open_json_lines, read_json_lines
from delaytron.datasets.libsvm import open_libsvm, read_libsvm
from delaytron.datasets.notes import row_notes
from delaytron.datasets.npz import read_npz
from delaytron.errors import InvalidInput
from delaytron.files.advice import with_advice
from delaytron.files.compressed import OPENERS, plain_suffix

Classes = TypeVar("Classes", bound=Any)
TABLE = ("label", "categorical", "drop", "keep", "missing")  # what can be asked of any table
DEFAULTS = {"header": "auto", "missing": "error", "zero_based": "auto"}
WORDS = {True: "yes", False: "no"}


class Format(NamedTuple):
    """All there is to know of a format of files: whoever adds one adds a line to `FORMATS`.

    Parameters
    ----------
    read : callable
        Reads a whole file: of its path and the options that it takes.
    endings : tuple of str
        By which files are known.
    blocks : callable, optional
        Opens a file for reading in blocks, of the same arguments; what it returns iterates over them, each time anew.
    takes : tuple of str
        The options of `load_file` that it has a use for.
    compressible : bool
        Whether it may be read from .gz, .bz2 or .xz.
    """

    read: Callable[..., Block]
    endings: tuple[str, ...]
    blocks: Callable[..., Callable[[], Iterator[Block]]] | None = None
    takes: tuple[str, ...] = TABLE
    compressible: bool = False


TEXT = (*TABLE, "header")
FORMATS = {
    "csv": Format(read_delimited, (".csv",), open_delimited, TEXT, compressible=True),
    "tsv": Format(
        partial(read_delimited, delimiters="\t"),
        (".tsv",),
        partial(open_delimited, delimiters="\t"),
        TEXT,
        compressible=True,
    ),
    "jsonl": Format(read_json_lines, (".jsonl", ".ndjson"), open_json_lines, compressible=True),
    "parquet": Format(read_parquet, (".parquet", ".pq"), open_parquet),
    "feather": Format(read_feather, (".feather", ".arrow")),
    "npz": Format(read_npz, (".npz",), takes=("label",)),
    "libsvm": Format(
        read_libsvm, (".svm", ".libsvm", ".svmlight"), open_libsvm, takes=("zero_based",), compressible=True
    ),
}
ENDINGS = {ending: name for name, known in FORMATS.items() for ending in known.endings}


def load_file(
    path: str | Path,
    label: Column | None = None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
    header: str | bool = "auto",
    zero_based: str | bool = "auto",
    format: str | None = None,
) -> Dataset:
    r"""Read a file in one of the `FORMATS`; those of text also as .gz, .bz2 or .xz.

    Parameters
    ----------
    label : str or int, optional
        The column with the labels: its name or position, negative from the end; in NPZ the name of an array.
        By default the only one that is called label, class, target or y.
    categorical : sequence of str or int
        Columns of numbers that are categories all the same. Columns of text always are.
    drop : sequence of str or int
        Columns to leave out.
    keep : sequence of str or int
        Columns to keep although they look like ids, which are refused otherwise.
    missing : {"error", "drop", "impute"}
        What becomes of cells without a value: they are refused, their rows are left out, or they become the mean of
        their column, with another column that tells which they are; of categories, a category of their own.
    header : {"auto", "yes", "no"}
        Of CSV and TSV: whether the first row names the columns; see `layout`.
    zero_based : {"auto", "yes", "no"}
        Of LIBSVM: whether indices begin with 0; "auto": if there is one.
    format : str, optional
        What the file holds, a name in `FORMATS`, where its ending does not say so.

    Notes
    -----
    Without a header, columns are called "0", "1", .... A category `value` of a column becomes a column "column=value"
    of 0 and 1; a date its seconds since 1970 and its parts, see `dates`. Where few of the numbers can differ from 0, X
    is CSR from the start, see `form`. Columns that mix numbers and text are refused with the place where they do.
    What was done is in `Dataset.notes`.

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
    place = as_path(path)
    kind = file_format(place, format)
    asked = {"label": label, "categorical": categorical, "drop": drop, "keep": keep, "missing": missing}
    asked |= {"header": header, "zero_based": zero_based}
    block = FORMATS[kind].read(place, **_chosen(place, kind, asked))
    return _with_classes(block, file_name(place), str(path))


def load_frame(
    frame: Any,
    label: Column | None = None,
    categorical: Columns = (),
    drop: Columns = (),
    keep: Columns = (),
    missing: str = "error",
) -> Dataset:
    """Read a frame of pandas, polars or anything else with `__arrow_c_stream__`; see `load_file`."""
    block = read_frame(frame, label=label, categorical=categorical, drop=drop, keep=keep, missing=missing)
    return _with_classes(block, "data", "the frame")


def open_blocks(path: Path, format: str | None, asked: Mapping[str, Any]) -> Callable[[], Iterator[Block]]:
    """Return what goes through a file in blocks, each time anew; `asked` are options of `load_file`."""
    kind = file_format(path, format)
    open_file = FORMATS[kind].blocks
    if open_file is None:
        able = ", ".join(name for name, known in FORMATS.items() if known.blocks is not None)
        raise InvalidInput(f"{path}: only {able} files can be read in blocks, got {kind}; load it whole")
    return open_file(path, **_chosen(path, kind, asked))


def file_format(path: Path, asked: str | None = None) -> str:
    """Return what a file holds; refuse one that is not there.

    Examples
    --------
    >>> file_format(Path(__file__), "csv")
    'csv'
    """
    if not path.is_file():
        fault = "is a folder" if path.is_dir() else "can be read only once"
        raise InvalidInput(
            f"{path} {fault}; give a file" if path.exists() else f"there is no file {path}{not_there(path)}"
        )
    kind = ENDINGS.get(plain_suffix(path)) if asked is None else check_choice("format", asked, FORMATS)
    if kind is None:
        raise InvalidInput(
            f"{path}: the ending must be one of {', '.join(ENDINGS)}; else pass format= (--format) {', '.join(FORMATS)}"
        )
    if path.suffix.lower() in OPENERS and not FORMATS[kind].compressible:
        able = ", ".join(name for name, known in FORMATS.items() if known.compressible)
        raise InvalidInput(f"{path}: of compressed files only {able} can be read; unpack it")
    return kind


def as_path(path: Any) -> Path:
    """Return the path of a file; raise if it is none."""
    place = check_path("path", path).expanduser()
    try:
        place.exists()
    except OSError as problem:
        raise InvalidInput(f"cannot read {shown(str(path))}: {with_advice(problem)}") from None
    return place


def looks_like_file(text: str) -> bool:
    """Whether a text names a file that is there, or one that is not by its ending or its folder.

    Examples
    --------
    >>> looks_like_file("digits"), looks_like_file("clicks.csv"), looks_like_file("data/clicks")
    (False, True, True)
    """
    path = Path(text)
    try:
        return bool(plain_suffix(path)) or "/" in text or sep in text or path.expanduser().exists()
    except OSError:  # a name that no file can have
        return False


def file_name(path: Path) -> str:
    """Return the name of a file without the endings that say what is in it.

    Examples
    --------
    >>> file_name(Path("data/clicks.v2.csv.gz"))
    'clicks.v2'
    """
    return (path.with_suffix("") if path.suffix.lower() in OPENERS else path).stem


def _chosen(path: Path, kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given; refuse those for which a format has no use."""
    chosen = {}
    for option, value in asked.items():
        meant = WORDS.get(value, value) if isinstance(value, bool) and option in DEFAULTS else value
        if meant is None or (isinstance(meant, list | tuple) and not meant) or meant == DEFAULTS.get(option):
            continue
        if option not in FORMATS[kind].takes:
            raise InvalidInput(f"{path}: a {kind} file takes no {option}, got {value!r}")
        chosen[option] = meant
    return chosen


def _with_classes(block: Block, name: str, source: str) -> Dataset:
    y, class_names = encode_present(block.labels)
    check_several(source, class_names)
    try:
        notes = row_notes(block, len(y) + block.dropped)
        return Dataset(block.X, y, name, class_names, feature_names=block.feature_names, source=source, notes=notes)
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem}") from None


def check_several(source: str, classes: Classes) -> Classes:
    """Raise if there is nothing to choose in a file."""
    if len(classes) < 2:
        raise InvalidInput(f"{source}: there must be at least two classes, got only {str(classes[0])!r}")
    return classes
