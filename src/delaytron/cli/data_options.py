"""The options with which data are loaded: one parameter of a command, and a flag for each on the command line."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

from delaytron import datasets
from delaytron.checks import check_choice
from delaytron.cli.options import split_names, tell
from delaytron.comparison.tuning import load_for_tuning
from delaytron.datasets.files import FORMATS

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
LOADED_AS = {"samples": "n_samples", "input": "features"}  # what `datasets.load` calls them


@dataclass(frozen=True)
class DataOptions:
    """The options with which a data set is loaded, as they were given.

    Examples
    --------
    >>> DataOptions(label="species", categorical=["city,zip"]).given
    {'label': 'species', 'categorical': ['city', 'zip']}
    """

    label: Label = None
    categorical: Categorical = field(default_factory=list)
    drop: Drop = field(default_factory=list)
    keep: Keep = field(default_factory=list)
    missing: Missing = None
    header: Header = None
    zero_based: ZeroBased = None
    format: Format = None
    scale: Scale = None
    bias: Bias = False
    shuffle: Shuffle = False
    samples: Samples = None
    input: Input = None
    part: Part = None

    @property
    def given(self) -> dict[str, Any]:
        """What was given, by the names that `datasets.load` has for it."""
        if self.input is not None:
            check_choice("input", self.input, ("cnn", "pixels"))
        return {LOADED_AS.get(name, name): value for name, value in self._asked.items()}

    @property
    def flags(self) -> list[str]:
        """The flags that were given."""
        return [f"--{name.replace('_', '-')}" for name in self._asked]

    @property
    def _asked(self) -> dict[str, Any]:
        lists = {name: split_names(getattr(self, name)) for name in ("categorical", "drop", "keep")}
        return {name: value for name, value in (vars(self) | lists).items() if _is_given(value)}

    def load(self, name: str, seed: int) -> datasets.Dataset:
        """Load a data set with these options, and say what was done with a file; the seed is for shuffling."""
        options = self.given
        if self.shuffle:
            options["shuffle"] = seed
        data = datasets.load(name, **options)
        tell(data.notes)
        return data

    def load_for_tuning(self, name: str, seed: int) -> datasets.Dataset | None:
        """Draw a data set with another seed for the tuning, see `comparison.tuning.load_for_tuning`."""
        options = {name: value for name, value in self.given.items() if name != "shuffle"}
        return load_for_tuning(name, seed, **options)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != []


AS_IT_IS = DataOptions()
Command = Callable[..., None]


def with_data_options(*without: str) -> Callable[[Command], Command]:
    """Let flags, one for each field of `DataOptions` but some, become the parameter `how_to_load` of a command."""
    types = get_type_hints(DataOptions, include_extras=True)
    names = [option.name for option in fields(DataOptions) if option.name not in without]
    flags = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=getattr(AS_IT_IS, name), annotation=types[name])
        for name in names
    ]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_flags(**given: Any) -> None:
            command(how_to_load=DataOptions(**{name: given.pop(name) for name in names}), **given)

        parameters = _replaced(list(signature(command, eval_str=True).parameters.values()), flags)
        with_flags.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_flags

    return decorate


def _replaced(parameters: list[Parameter], flags: list[Parameter]) -> list[Parameter]:
    """Return the parameters of a command with the flags in the place of `how_to_load`."""
    place = [parameter.name for parameter in parameters].index("how_to_load")
    return [*parameters[:place], *flags, *parameters[place + 1 :]]
