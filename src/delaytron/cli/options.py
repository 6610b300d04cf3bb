"""Options that several commands have, and errors in one line, with settings spelled as options."""

from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, signature
from shlex import quote
from typing import Annotated, Any, get_type_hints

import typer

from delaytron import datasets, delays
from delaytron.checks import check_choice, check_number
from delaytron.datasets.files import FORMATS
from delaytron.delays.dependent import traces
from delaytron.delays.models import ALLOWED, OWN
from delaytron.errors import InvalidInput, Setting, Spelling, python_spelling
from delaytron.experiments.compare import load_for_tuning
from delaytron.files.atomic import with_advice
from delaytron.formats import plain_value
from delaytron.simulation.simulate import check_threads

DATA_HELP = f"A name from `delaytron datasets`, or a file: {', '.join(FORMATS)}."
DELAY_HELP = f"{ALLOWED}. Repeatable; 1,100,1000 tries all three."
WHERE_RECORDED = "; recorded, where rows have their own"  # the default delay
ROUNDS_WORDS = ("delay", "round")  # headers of columns that are rounds, and not seconds

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Runs = Annotated[int, typer.Option(help="Runs of every setting.")]
Rounds = Annotated[
    int | None, typer.Option(help="Rounds of every run.", show_default="100000; all rows, where they have own delays")
]
Workers = Annotated[int | None, typer.Option(help="Runs played at the same time.", show_default="all cores")]
Noise = Annotated[
    str | None, typer.Option(metavar="RHO0,RHO1", help="Rates at which wrong is reported as right, and right as wrong.")
]
OnExpiry = Annotated[
    str,
    typer.Option(help="How a decision without an answer in time counts: drop (not at all) or wrong (until corrected)."),
]
Action = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Of dsjson: what identifies actions: a feature such as i.id, or number.",
        show_default="_tag, id, tag or name, if every action has one; else number",
    ),
]
WITHIN_HELP = "How long after an expiry as wrong an answer still corrects it."
WITHIN_DEFAULT = "ten times --expire-after"
CorrectWithin = Annotated[int | None, typer.Option(metavar="ROUNDS", help=WITHIN_HELP, show_default=WITHIN_DEFAULT)]


def check_workers(workers: int | None) -> int | None:
    """Return a number of workers; raise InvalidInput if it is not one."""
    return None if workers is None else check_threads("workers", workers)


def rows_note(
    given: str, data: datasets.Dataset | datasets.FileStream, n_rounds: int, sampling: str = "replacement"
) -> list[str]:
    """Return a note on which rows of a file are played, in which order; none where they are drawn or shuffled."""
    shuffled = any(note.startswith("rows: ") for note in data.notes)
    if given in datasets.DATASETS or shuffled or n_rounds > data.n_rows or sampling == "drawn":
        return []
    some = "all" if n_rounds == data.n_rows else f"{n_rounds:,} of"
    if isinstance(data, datasets.Dataset) and data.delays is not None:
        return [f"rows: {some} {data.n_rows:,}, in the order of their decisions"]
    return [f"rows: {some} {data.n_rows:,}, in file order; --shuffle mixes them"]


def drawn_note(
    given: str, data: datasets.Dataset | datasets.FileStream, n_rounds: int, sampling: str = "replacement"
) -> str:
    """Return how often each row of a file is played, if rows are fewer than rounds; else an empty text."""
    if given in datasets.DATASETS or n_rounds <= data.n_rows:
        return ""
    times = f"each {n_rounds / data.n_rows:.3g} times on average"
    how = "in epochs" if sampling == "epochs" else "drawn with replacement"
    return f"more rounds than rows: {data.n_rows:,} rows {how}, {times}"


def print_notes(notes: Iterable[str], kind: str = "note") -> None:
    """Print notes or warnings on stderr, a line each."""
    for note in notes:
        typer.echo(f"delaytron: {kind}: {' '.join(note.split())}", err=True)


def read_delays(texts: Sequence[str]) -> list[str]:
    """Return the delays of texts, each once: 1,100,1000 is three, lognormal:100,1.5 one. Print notes on recorded ones.

    Raises InvalidInput if one is not a delay.

    Examples
    --------
    >>> read_delays(["1,100", "lognormal:100,1.5", "1"])
    ['1', '100', 'lognormal:100,1.5']
    """
    plain = {text: all(piece.strip().isdecimal() for piece in text.split(",")) for text in texts}
    found = list(dict.fromkeys(piece.strip() for t in texts for piece in (t.split(",") if plain[t] else [t])))
    for text in found:
        for trace in traces(delays.parse(text)):
            print_notes(trace_notes(trace, f"{trace},wait={{}},rate=R", f"--delay {trace},rate=R"))
    return found


def usual_delays(data: str, how_to_load: "DataOptions", usual: Sequence[str]) -> list[str]:
    """Return the delays to play where none was asked for: those that the rows were recorded with, or the usual ones.

    Examples
    --------
    >>> usual_delays("digits", AS_IT_IS, ["1000"]), usual_delays("incidents", AS_IT_IS, ["1000"])
    (['1000'], ['recorded'])
    """
    return [OWN] if datasets.has_delays(data, vars(how_to_load)) else list(usual)


def trace_notes(trace: delays.Trace, waits: str, rate: str) -> Iterator[str]:
    """Iterate over notes on recorded delays; `waits` and `rate` are how the user chooses another reading."""
    if trace.header and not any(word in trace.header.lower() for word in ROUNDS_WORDS):
        means = f"{waits.format(trace.header)} takes them as waiting times, R rounds in a unit of them"
        yield f"header {trace.header!r} skipped, numbers taken as rounds; {means}"
    if ",wait=" in trace.text and ",rate=" not in trace.text:
        yield f"waiting times: 1 round in a unit of them; {rate} says otherwise"


def split_names(texts: Sequence[str]) -> list[str]:
    """Return the names in texts such as A,B, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


def read_assignments(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each NAME=VALUE,VALUE; a name given twice collects them. Raises InvalidInput without "=".

    Examples
    --------
    >>> read_assignments(["eta=1,0.5", "restart=true", "eta=2"])
    {'eta': [1, 0.5, 2], 'restart': [True]}
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput.of("--set", "NAME=VALUE", text, "give it as in --set eta=0.5")
        known = found.setdefault(name.strip(), [])
        known.extend(v for v in map(plain_value, values.split(",")) if v not in known)
    return found


def read_noise(text: str | None) -> tuple[Any, ...] | None:
    """Return RHO0,RHO1 as numbers; the simulation checks that they are rates."""
    if text is None:
        return None
    read_pair("--noise", text, "0.1,0.2")  # raises if these are not two numbers
    return tuple(map(plain_value, text.split(",")))


def read_scale(text: str) -> tuple[float, float]:
    """Return the numbers of a log that become the rewards 0 and 1."""
    return read_pair("--reward-scale", text, "0,5")


def read_pair(flag: str, text: str, example: str) -> tuple[float, float]:
    """Return two numbers; raise InvalidInput if the text is something else.

    Examples
    --------
    >>> read_pair("--noise", "0.1,0.2", example="0,0.1")
    (0.1, 0.2)
    """
    try:
        first, second = (check_number(flag, float(part)) for part in text.split(","))
    except ValueError:  # an InvalidInput, too
        raise InvalidInput.of(flag, "two numbers", text, f"give them as in {flag} {example}") from None
    return first, second


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
    list[str],
    typer.Option(
        metavar="COLUMN", help="Of a file: text columns to keep despite more than 10,000 values, A,B. Repeatable."
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Of a file: cells without a value: error; drop (their rows); impute (mean, and a column that marks them).",
        show_default="error",
    ),
]
Header = Annotated[
    bool, typer.Option("--header/--no-header", help="Of CSV and TSV: whether the first row names the columns.")
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based", help="Of LIBSVM: the first index.", show_default="zero-based if there is a 0"
    ),
]
Decided = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Of a table: times of the decisions; its rows are played in that order, as recorded."
    ),
]
Answered = Annotated[str | None, typer.Option(metavar="COLUMN", help="Of a table: times of the answers; empty: never.")]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Put the rows in a random order, by the seed.")]
Format = Annotated[
    str | None, typer.Option(help="Of a file: " + ", ".join(FORMATS) + ".", show_default="by its ending")
]
Scale = Annotated[str | None, typer.Option(help="unit (rows to norm 1) or standard (columns to mean 0, deviation 1).")]
Bias = Annotated[bool, typer.Option("--bias", help="Append a column of ones.")]
Input = Annotated[
    str | None,
    typer.Option(help="Of fashion_mnist: cnn or pixels; of hotel_resort: words or numbers.", show_default="cnn, words"),
]
Groups = Annotated[
    int | None, typer.Option(help="Of incidents: only those of the N largest groups.", show_default="all 63")
]
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
    decided: Decided = None
    answered: Answered = None
    header: Header = True
    zero_based: ZeroBased = None
    format: Format = None
    scale: Scale = None
    bias: Bias = False
    shuffle: Shuffle = False
    samples: Samples = None
    input: Input = None
    groups: Groups = None
    part: Part = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by their names in `datasets.load`."""
        if self.input is not None:
            check_choice("input", self.input, ("cnn", "pixels", "words", "numbers"))
        return {LOADED_AS.get(name, name): value for name, value in self._asked.items()}

    @property
    def flags(self) -> list[str]:
        """The options that were given, as flags."""
        flags = {"header": "--no-header"} | ({} if self.zero_based else {"zero_based": "--one-based"})
        return [flags.get(name, f"--{name.replace('_', '-')}") for name in self._asked]

    @property
    def _asked(self) -> dict[str, Any]:
        lists = {name: split_names(getattr(self, name)) for name in ("categorical", "drop", "keep")}
        given = vars(self) | lists
        return {name: value for name, value in given.items() if value != getattr(AS_IT_IS, name)}

    def load(self, name: str, seed: int) -> datasets.Dataset:
        """Return a data set loaded with these options, and print its notes; the seed is for shuffling."""
        options = self.given
        if self.shuffle:
            options["shuffle"] = seed
        data = datasets.load(name, **options)
        print_notes(data.notes)
        return data

    def load_for_tuning(self, name: str, seed: int) -> datasets.Dataset | None:
        """Return a data set for the tuning, see `experiments.compare.load_for_tuning`."""
        options = {name: value for name, value in self.given.items() if name != "shuffle"}
        return load_for_tuning(name, seed, **options)


AS_IT_IS = DataOptions()
Command = Callable[..., None]


def with_data_options(*without: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of `DataOptions`, except those in `without`.

    The command gets them as one parameter, `how_to_load`.
    """
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

        own = list(signature(command, eval_str=True).parameters.values())
        place = [parameter.name for parameter in own].index("how_to_load")
        parameters = [*own[:place], *flags, *own[place + 1 :]]
        with_flags.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_flags

    return decorate


PYTHON_NAMES = {**LOADED_AS, "classes": "n_classes"}  # of options that have another name in Python
NUMBERS = {"int_parsing": "an integer", "int_from_float": "an integer", "float_parsing": "a number"}


def option_spelling(params: Iterable[Any]) -> Spelling:
    """Return how messages spell settings for a command with these parameters; what is no option stays as in Python.

    Examples
    --------
    >>> import typer
    >>> def play(expire_after: int = 0, samples: int = 0, on_expiry: str = "drop", shuffle: bool = False): ...
    >>> app = typer.Typer()
    >>> spelling = option_spelling(typer.main.get_command(app.command()(play) and app).params)
    >>> spelling(Setting("expire_after", "n")), spelling(Setting("n_samples")), spelling(Setting("eta", "0.5"))
    ('--expire-after n', '--samples', 'eta=0.5')
    >>> spelling(Setting("on_expiry", "'wrong'")), spelling(Setting("shuffle", "True"))
    ('--on-expiry wrong', '--shuffle')
    """
    options = {param.name: param for param in params if param.opts[0].startswith("--")}
    options = {PYTHON_NAMES[name]: param for name, param in options.items() if name in PYTHON_NAMES} | options

    def spelling(setting: Setting) -> str:
        param = options.get(setting.name)
        if param is None:
            return python_spelling(setting)
        flag = str(param.opts[0])
        if not setting.value or setting.value == "True":
            return flag
        if setting.value == "False":
            return str(param.secondary_opts[0]) if param.secondary_opts else f"no {flag}"
        try:
            value = literal_eval(setting.value)
        except (SyntaxError, ValueError):  # a placeholder, such as n or COLUMN
            return f"{flag} {setting.value}"
        if isinstance(value, list | tuple):
            return f"{flag} {','.join('...' if part is ... else str(part) for part in value)}"
        return f"{flag} {quote(value)}" if isinstance(value, str) else f"{flag} {setting.value}"

    return spelling


def usage_line(problem: Any) -> str:
    """Return in one line what is wrong with the words of a command, and where its help is."""
    params = problem.ctx.command.params if problem.ctx else []
    errors: list[Any] = getattr(problem.__cause__, "errors", list)()  # about values that the parser cannot convert
    said = problem.format_message().rstrip(".")
    if errors and errors[0]["type"] in NUMBERS:
        flag, value = problem.param.opts[0], str(errors[0]["input"])
        said = f"{flag} must be {NUMBERS[errors[0]['type']]}, got {value[:40]!r}"
    elif params and hasattr(problem, "param_type"):  # something is missing, of which the parser names the first only
        missing = [param for param in params if param.required and param.name not in problem.ctx.params]
        names = [p.opts[0] if p.opts[0].startswith("-") else p.metavar or p.name.upper() for p in missing]
        said = f"Missing {', '.join(names)}" if len(names) > 1 else said
    elif getattr(problem, "option_name", "") == "--data" and "DATASET" in {p.metavar for p in params}:
        said = "No such option: --data; the data set is an argument, as in delaytron compare digits"
    words = problem.ctx.command_path.split()[1:] if problem.ctx else []
    help_ = " ".join(["delaytron", *words, "--help"])
    return f"{said} See {help_}" if said.endswith("?") else f"{said}; see {help_}"


def system_line(problem: OSError) -> str:
    """Return an error of the system with the file that it is about, without its number.

    Examples
    --------
    >>> system_line(OSError(13, "Permission denied", "out.csv"))
    "cannot use 'out.csv': Permission denied; check the rights of the file and of its folder"
    """
    said = with_advice(problem)
    return said if problem.filename is None else f"cannot use {str(problem.filename)!r}: {said}"
