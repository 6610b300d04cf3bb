"""The options that commands share, and how their texts are read."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from delaytron import delays
from delaytron.checks import check_integer
from delaytron.datasets.files import FORMATS
from delaytron.errors import InvalidInput

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
Format = Annotated[
    str | None, typer.Option(help="Of a file: " + ", ".join(FORMATS) + ".", show_default="by its ending")
]
Scale = Annotated[str | None, typer.Option(help="unit (rows to norm 1) or standard (columns to mean 0, deviation 1).")]
Bias = Annotated[bool, typer.Option("--bias", help="Append a column of ones.")]
Features = Annotated[str | None, typer.Option(help="Of fashion_mnist: cnn or pixels.", show_default="cnn")]
Part = Annotated[
    str | None, typer.Option(help="Of a data set with a published split: all, train or test.", show_default="all")
]
Samples = Annotated[int | None, typer.Option(help="Rows of a synthetic data set.", show_default="100000")]
Threads = Annotated[int | None, typer.Option(help="Runs played at the same time.", show_default="all cores")]
Noise = Annotated[
    str | None, typer.Option(metavar="RHO0,RHO1", help="Rates at which a wrong is told as right, a right as wrong.")
]
OnExpiry = Annotated[str, typer.Option(help="What no answer in time means: drop (nothing) or wrong (until corrected).")]


def check_threads(threads: int | None) -> int | None:
    """Raise if there cannot be so many threads."""
    return None if threads is None else check_integer("threads", threads, at_least=1)


def load_options(samples: int | None, categorical: Sequence[str], **others: Any) -> dict[str, Any]:
    """Return the options with which a data set is loaded, without those that were not given.

    Examples
    --------
    >>> load_options(None, ["city,zip"], label="species", scale=None, bias=False)
    {'label': 'species', 'categorical': ['city', 'zip']}
    """
    given = {**others, "n_samples": samples, "categorical": split_names(categorical)}
    return {name: value for name, value in given.items() if value is not None and value is not False and value != []}


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
        known.extend(v for v in map(_value, values.split(",")) if v not in known)
    return found


def read_noise(text: str | None) -> tuple[Any, ...] | None:
    """Read RHO0,RHO1; whether these are rates is checked where they are used."""
    return None if text is None else tuple(map(_value, text.split(",")))


def _value(text: str) -> Any:
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()
