"""The options that commands share, and how their texts are read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from delaytron import datasets, delays
from delaytron.checks import check_choice
from delaytron.comparison.tuning import load_for_tuning
from delaytron.datasets.files import FORMATS
from delaytron.errors import InvalidInput
from delaytron.formats import plain_value
from delaytron.simulation.batches import check_threads

DATA_HELP = f"A name from `delaytron datasets`, or a file: {', '.join(FORMATS)}."
DELAY_HELP = f"{delays.ALLOWED}. Repeatable; 1,100,1000 tries all three."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Delays = Annotated[list[str], typer.Option(metavar="DELAY", help=DELAY_HELP)]
Runs = Annotated[int, typer.Option(help="Runs of every setting.")]
Rounds = Annotated[int, typer.Option(help="Rounds of every run.")]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Of a file: the column of labels, by name or position (-1: the last).",
        show_default="label, class, target or y",
    ),
]
Categorical = Annotated[
    list[str],
    typer.Option(metavar="COLUMN", help="Of a file: columns of numbers to take as categories, A,B. Repeatable."),
]
Drop = Annotated[list[str], typer.Option(metavar="COLUMN", help="Of a file: columns to leave out, A,B. Repeatable.")]
Keep = Annotated[
    list[str], typer.Option(metavar="COLUMN", help="Of a file: columns to keep though they look like ids. Repeatable.")
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Of a file: cells without a value: error; drop (their rows); impute (mean, and a column that tells).",
        show_default="error",
    ),
]
Header = Annotated[
    str | None,
    typer.Option(help="Of CSV and TSV: whether the first row names the columns: auto, yes, no.", show_default="auto"),
]
ZeroBased = Annotated[
    str | None,
    typer.Option(help="Of LIBSVM: whether indices begin with 0: auto, yes, no.", show_default="auto: if there is one"),
]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Put the rows in a random order, by the seed.")]
Format = Annotated[
    str | None, typer.Option(help="Of a file: " + ", ".join(FORMATS) + ".", show_default="by its ending")
]
Scale = Annotated[str | None, typer.Option(help="unit (rows to norm 1) or standard (columns to mean 0, deviation 1).")]
Bias = Annotated[bool, typer.Option("--bias", help="Append a column of ones.")]
Input = Annotated[str | None, typer.Option(help="Of fashion_mnist: cnn or pixels.", show_default="cnn")]
Part = Annotated[
    str | None, typer.Option(help="Of a data set with a published split: all, train or test.", show_default="all")
]
Samples = Annotated[int | None, typer.Option(help="Rows of a synthetic data set.", show_default="100000")]
Workers = Annotated[int | None, typer.Option(help="Runs played at the same time.", show_default="all cores")]
Noise = Annotated[
    str | None, typer.Option(metavar="RHO0,RHO1", help="Rates at which wrong is reported as right, and right as wrong.")
]
OnExpiry = Annotated[str, typer.Option(help="What no answer in time means: drop (nothing) or wrong (until corrected).")]


def check_workers(workers: int | None) -> int | None:
    """Raise if there cannot be so many workers."""
    return None if workers is None else check_threads("workers", workers)


@dataclass(frozen=True)
class DataOptions:
    """The options with which a data set is loaded, as they were given.

    Examples
    --------
    >>> DataOptions(label="species", categorical=["city,zip"]).given
    {'label': 'species', 'categorical': ['city', 'zip']}
    """

    label: str | None = None
    categorical: Sequence[str] = ()
    format: str | None = None
    scale: str | None = None
    bias: bool = False
    samples: int | None = None
    input: str | None = None
    part: str | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: str | None = None
    header: str | None = None
    zero_based: str | None = None
    shuffle: int | None = None  # the seed, if the rows are to be shuffled

    @property
    def given(self) -> dict[str, str | int | list[str]]:
        """What was given, by the names that `datasets.load` has for it."""
        if self.input is not None:
            check_choice("input", self.input, ("cnn", "pixels"))
        every = {
            "label": self.label,
            "categorical": split_names(self.categorical) or None,
            "format": self.format,
            "scale": self.scale,
            "bias": self.bias or None,
            "n_samples": self.samples,
            "features": self.input,
            "part": self.part,
            "drop": split_names(self.drop) or None,
            "keep": split_names(self.keep) or None,
            "missing": self.missing,
            "header": self.header,
            "zero_based": self.zero_based,
            "shuffle": self.shuffle,
        }
        return {name: value for name, value in every.items() if value is not None}

    @property
    def flags(self) -> list[str]:
        """The flags that were given."""
        own = {"n_samples": "samples", "features": "input"}
        return [f"--{own.get(name, name).replace('_', '-')}" for name in self.given]

    def load(self, name: str) -> datasets.Dataset:
        """Load a data set with these options, and say what was done with a file."""
        options: Any = self.given
        data = datasets.load(name, **options)
        tell(data.notes)
        return data

    def load_for_tuning(self, name: str, seed: int) -> datasets.Dataset | None:
        """Draw a data set with another seed for the tuning, see `comparison.tuning.load_for_tuning`."""
        options: Any = {name: value for name, value in self.given.items() if name != "shuffle"}
        return load_for_tuning(name, seed, **options)


def rows_note(given: str, data: datasets.Dataset | datasets.FileStream, n_rounds: int) -> list[str]:
    """Return what is to be said of the rows of a file that are played, unless they are drawn or shuffled."""
    shuffled = any(note.startswith("rows: ") for note in data.notes)
    if given in datasets.DATASETS or shuffled or n_rounds > data.n_rows:
        return []
    some = "all" if n_rounds == data.n_rows else f"{n_rounds:,} of"
    return [f"rows: {some} {data.n_rows:,}, in file order; --shuffle mixes them"]


def tell(notes: Iterable[str]) -> None:
    """Say on stderr what was done with a file, a line each."""
    for note in notes:
        typer.echo(f"delaytron: note: {' '.join(note.split())}", err=True)


def split_delays(texts: Sequence[str]) -> list[str]:
    """Split 1,100,1000 but not lognormal:100,1.5 and drop what comes twice.

    Examples
    --------
    >>> split_delays(["1,100", "lognormal:100,1.5", "1"])
    ['1', '100', 'lognormal:100,1.5']
    """
    plain = {text: all(piece.strip().isdecimal() for piece in text.split(",")) for text in texts}
    return list(dict.fromkeys(piece.strip() for t in texts for piece in (t.split(",") if plain[t] else [t])))


def split_names(texts: Sequence[str]) -> list[str]:
    """Split A,B and drop what comes twice."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


def read_assignments(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Read NAME=VALUE,VALUE; a name given twice collects all its values.

    Examples
    --------
    >>> read_assignments(["eta=1,0.5", "restart=true", "eta=2"])
    {'eta': [1, 0.5, 2], 'restart': [True]}
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set wants NAME=VALUE, as in --set eta=0.5; got {text!r}")
        known = found.setdefault(name.strip(), [])
        known.extend(v for v in map(plain_value, values.split(",")) if v not in known)
    return found


def read_noise(text: str | None) -> tuple[Any, ...] | None:
    """Read RHO0,RHO1; whether these are rates is checked where they are used."""
    return None if text is None else tuple(map(plain_value, text.split(",")))
