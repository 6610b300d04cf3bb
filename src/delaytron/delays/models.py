"""Delay models: how many rounds later the feedback of each round comes.

A delay is an integer of at least 1. The feedback of round t (t = 1, 2, ...) is delivered at the start of round t + d_t,
before that round's prediction, so d = 1 means "no delay". `NEVER` marks feedback that is lost.

Examples
--------
>>> rng = np.random.default_rng(0)
>>> Fixed(3).sample(4, rng).tolist(), LogNormal(median=2.5, sigma=0).sample(2, rng).tolist()
([3, 3, 3, 3], [3, 3])
>>> sorted(set(Uniform(3).sample(100, rng).tolist())), bool(Pareto(10, alpha=1.2).sample(99, rng).min() >= 10)
([1, 2, 3], True)
>>> Geometric(mean=1).sample(3, rng).tolist(), bool(WithMissing(Fixed(3), rate=1).sample(1, rng)[0] == NEVER)
([1, 1, 1], True)
"""

import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from delaytron.checks import check_bool, check_choice, check_integer, check_integers, check_number, check_positive
from delaytron.delays.traces import MISSING, TRACE, Trace, open_trace, read_trace, written
from delaytron.errors import InvalidInput
from delaytron.records import NEVER


@runtime_checkable
class Delay(Protocol):
    """Anything that draws one delay per round, as a pure function of the generator."""

    def sample(self, n_rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return `n_rounds` delays, each at least 1."""


def _delay(name: str, value: Any) -> int:
    """Return a checked delay in rounds."""
    if check_integer(name, value, at_least=1) > NEVER:
        raise InvalidInput.of(name, f"at most {NEVER}", value, "use WithMissing for feedback that never comes")
    return int(value)


def _within(low: float, high: float, name: str, value: Any) -> float:
    """Return a checked parameter of a model."""
    if not low <= check_number(name, value) <= high:
        allowed = f"at least {low}" if high == np.inf else f"in [{low}, {high}]"
        raise InvalidInput.of(name, allowed, value, f"choose a number {allowed}")
    return float(value)


@dataclass(frozen=True, eq=False)
class _Model(ABC):
    """Base of the models: checks parameters and the number of rounds, rounds up and clips to [1, NEVER]."""

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, item.metadata["check"](item.name, getattr(self, item.name)))

    def sample(self, n_rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return `n_rounds` delays, each at least 1; the same generator state gives the same delays."""
        with np.errstate(over="ignore"):  # an infinite waiting time is valid: it becomes NEVER
            drawn = self._draw(check_integer("n_rounds", n_rounds, at_least=0), rng)
        if drawn.dtype.kind == "f":
            rounded = np.clip(np.ceil(drawn), 1.0, float(NEVER)).astype(np.int64)
            drawn = np.minimum(rounded, NEVER)  # the float nearest to NEVER is above it
        return cast(NDArray[np.int64], drawn)

    @abstractmethod
    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]: ...

    def __str__(self) -> str:
        """Return the text that `parse` reads; the representation if it does not know the class."""
        name = NAMES.get(type(self))
        return repr(self) if name is None else f"{name}:{','.join(map(written, astuple(self)))}"


@dataclass(frozen=True)
class Fixed(_Model):
    """The same delay in every round."""

    d: int = field(metadata={"check": _delay})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        return np.full(n_rounds, self.d, dtype=np.int64)


@dataclass(frozen=True)
class Uniform(_Model):
    """Uniform on {1, ..., D}: the delays of the paper's experiments."""

    D: int = field(metadata={"check": _delay})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.integers(1, self.D, size=n_rounds, endpoint=True)


@dataclass(frozen=True)
class Geometric(_Model):
    """Each round the feedback comes with probability 1 / mean: a geometric delay, which has no memory."""

    mean: float = field(metadata={"check": partial(_within, 1, np.inf)})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.minimum(rng.geometric(1.0 / self.mean, size=n_rounds), NEVER)


@dataclass(frozen=True)
class LogNormal(_Model):
    """A lognormal waiting time, rounded up: half of the delays are at most the median, sigma spreads them."""

    median: float = field(metadata={"check": check_positive})
    sigma: float = field(metadata={"check": partial(_within, 0, np.inf)})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.multiply(self.median, np.exp(self.sigma * rng.standard_normal(n_rounds)))


@dataclass(frozen=True)
class Pareto(_Model):
    """A heavy tail, rounded up: P(delay > d) = (minimum / d)^alpha for d >= minimum; no mean when alpha <= 1."""

    minimum: float = field(metadata={"check": check_positive})
    alpha: float = field(metadata={"check": check_positive})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.multiply(self.minimum, (1.0 - rng.random(n_rounds)) ** (-1.0 / self.alpha))


@dataclass(frozen=True)
class WithMissing(_Model):
    """Another model, each feedback of which gets lost, independently, with probability `rate`."""

    model: Delay = field(metadata={"check": lambda name, model: _part(name, model, (ByOutcome, ByClass))})
    rate: float = field(metadata={"check": partial(_within, 0, 1)})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:
        return self._lose(self.model.sample(n_rounds, rng), n_rounds, rng)

    def _lose(self, drawn: Any, n_rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return delays of the model, some of them lost."""
        delays = check_integers(f"the delays of {self.model!r}", drawn, n_rounds, low=1)
        return np.where(rng.random(n_rounds) < self.rate, NEVER, delays)

    def __str__(self) -> str:
        return f"{self.model}{MISSING}{written(self.rate)}"


# Delays that depend on more than chance; `delaytron.delays.dependent` draws them.


@dataclass(frozen=True)
class OfRows(_Model):
    """The delays with which the rows of a data set were recorded, each that of its row; or shuffled over the rows.

    A data set has them if it was loaded with `decided` and `answered`, see `delaytron.datasets.load`. With `shuffled`
    every run gives them to the rows in another random order: as many rounds, but nothing to do with the row any more.
    """

    shuffled: bool = field(default=False, metadata={"check": check_bool})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        _refuse_alone(self, "belongs to the rows of a data set")

    def __str__(self) -> str:
        return SHUFFLED if self.shuffled else OWN


@dataclass(frozen=True)
class ByClass(_Model):
    """A model for each true class, by its name, and one for all others; without it every class needs its own.

    All draw from the same stream of random numbers, so with twice the same model nothing depends on the class.
    """

    models: Mapping[str, Delay] = field(metadata={"check": lambda _, models: _by_name(models)})
    default: Delay | None = field(
        default=None,
        metadata={"check": lambda _, model: None if model is None else _part("default", model, (ByOutcome, ByClass))},
    )

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        _refuse_alone(self, "depends on the true class of a round")

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.models)), self.default))

    def __str__(self) -> str:
        pieces = [f"{CLASS}{name}={model}" for name, model in self.models.items()]
        pieces += [] if self.default is None else [f"{ELSE}{self.default}"]
        text = "/".join(pieces)
        return (
            text
            if BETWEEN_CLASSES.split(text) == pieces and not any("=" in name for name in self.models)
            else repr(self)
        )


@dataclass(frozen=True)
class ByOutcome(_Model):
    """A model for answers that say "right", and one for those that say "wrong", after noise has flipped some.

    Both draw from the same stream of random numbers, so with twice the same model nothing depends on the outcome.

    Examples
    --------
    >>> str(ByOutcome(right=10, wrong=LogNormal(500, 1)))
    'right=uniform:10/wrong=lognormal:500,1'
    """

    right: Delay = field(metadata={"check": lambda name, model: _part(name, model, (ByOutcome,))})
    wrong: Delay = field(metadata={"check": lambda name, model: _part(name, model, (ByOutcome,))})

    def _draw(self, n_rounds: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        _refuse_alone(self, "depends on the outcome of a round")

    def __str__(self) -> str:
        pieces = [f"right={self.right}", f"wrong={self.wrong}"]
        text = "/".join(pieces)
        return text if BETWEEN_OUTCOMES.split(text) == pieces else repr(self)


def _part(name: str, value: Any, refused: tuple[type, ...]) -> Delay:
    """Return a model within another one; raise InvalidInput if it cannot be in there."""
    model = as_delay(value)
    if isinstance(model, refused):
        of_each = "of each of its models" if isinstance(model, ByOutcome | ByClass) else "of it"
        raise InvalidInput.of(name, "a model of its own", model, f"make it a part {of_each} instead")
    return model


def _by_name(models: Any) -> dict[str, Delay]:
    if not isinstance(models, Mapping) or not models:
        raise InvalidInput.of("models", "a dict of models by the names of classes", models, 'as in {"spam": 100}')
    return {str(name): _part("models", model, (ByOutcome, ByClass)) for name, model in models.items()}


def one_line(delay: Delay) -> str:
    """Return the text of a model for a message: names of classes may have line breaks."""
    return " ".join(str(delay).split())


def _refuse_alone(model: Delay, why: str) -> NoReturn:
    """Raise InvalidInput where a delay is drawn without what it depends on."""
    raise InvalidInput(
        f"the delay {one_line(model)} {why}, which is not known here",
        "play it by simulate, compare or an experiment",
        parameter="delay",
        value=str(model),
    )


MODELS: dict[str, type[Any]] = {
    "uniform": Uniform,
    "fixed": Fixed,
    "geometric": Geometric,
    "lognormal": LogNormal,
    "pareto": Pareto,
}
NAMES = {model: name for name, model in MODELS.items()}
WRITTEN = [f"{name}:{','.join(item.name.upper() for item in fields(model))}" for name, model in MODELS.items()]
RECORDED = "trace:FILE, trace:FILE,event=A,outcome=B, trace:FILE,wait=A,rate=R"
OWN, SHUFFLED = "recorded", "shuffled"
CLASS, ELSE = "class:", "else="
BETWEEN_OUTCOMES = re.compile(r"/(?=(?:right|wrong)=)")  # a slash needs no quotes in a shell, and is in paths, too
BETWEEN_CLASSES = re.compile(r"/(?=class:|else=)")
DEPENDENT = "right=MODEL/wrong=MODEL, class:A=MODEL/class:B=MODEL/else=MODEL"
ALLOWED = (
    f"1000 or {', '.join(WRITTEN)}, {RECORDED}, {OWN}, {SHUFFLED}, each optionally followed by {MISSING}RATE; "
    f"or {DEPENDENT}"
)


def parse(text: str) -> Delay:
    """Return the delay model of a short form, as the command line takes it; `str` of a model writes it.

    Raises InvalidInput if the text is not the short form of a model, or a trace that cannot be read.

    Examples
    --------
    >>> parse("1000"), parse("lognormal:100,1.5+missing:0.2")
    (Uniform(D=1000), WithMissing(model=LogNormal(median=100.0, sigma=1.5), rate=0.2))
    >>> str(parse("1000")), str(LogNormal(100, 1.5))
    ('uniform:1000', 'lognormal:100,1.5')
    """
    if not isinstance(text, str):
        raise InvalidInput.of("delay", f"text, {ALLOWED}", text, "as_delay takes other values")
    if text.strip().startswith(("right=", "wrong=", CLASS, ELSE)):
        return _parse_parts(text.strip())

    def number(word: str) -> float:
        return int(word) if word.strip().isdigit() else float(word)

    main, *rates = text.strip().split(MISSING)
    name, colon, words = main.partition(":")
    try:
        delay: Delay
        if main in (OWN, SHUFFLED):
            delay = OfRows(main == SHUFFLED)
        elif not colon:
            delay = Uniform(_delay("delay", number(main)))
        elif name == "trace" and words:
            source, columns = read_trace(words)
            delay = open_trace(source, **columns)
        else:
            if name.isidentifier():
                check_choice("the model", name, (*MODELS, "trace"))
            delay = MODELS[name](*map(number, words.split(",")))
        for rate in rates:
            delay = WithMissing(delay, float(rate))
    except InvalidInput as problem:
        if main.startswith(TRACE) or problem.parameter == "delay":  # the message names the file, or the delay
            raise
        # The parameters of a model are not options of the command line, so they are spelled here once and for all.
        said, hint = f"delay {text[:60]!r}: {problem.problem}", problem.args[1]
        raise InvalidInput(said, hint, parameter="delay", value=text, allowed=problem.allowed) from None
    except (KeyError, TypeError, ValueError):  # an unknown name, a wrong number of parameters, not a number
        hint = f"did you mean {TRACE}{main}?" if Path(main).suffix else "for example, write lognormal:100,1.5"
        raise InvalidInput.of("delay", ALLOWED, text, hint) from None
    return delay


def _parse_parts(text: str) -> Delay:
    """Return the model of a short form that has others as its parts; raise InvalidInput if one is missing or double."""
    by_outcome = not text.startswith((CLASS, ELSE))
    pieces = (BETWEEN_OUTCOMES if by_outcome else BETWEEN_CLASSES).split(text)
    pairs = [piece.partition("=")[::2] for piece in pieces]
    models = {name: parse(words) for name, words in pairs}
    if by_outcome and sorted(name for name, _ in pairs) == ["right", "wrong"]:
        return ByOutcome(models["right"], models["wrong"])
    others = models.pop(ELSE[:-1], None)
    if not by_outcome and models and len(models) + (others is not None) == len(pairs):
        return ByClass({name.removeprefix(CLASS): model for name, model in models.items()}, others)
    raise InvalidInput.of("delay", DEPENDENT, text, "for example, write right=10/wrong=lognormal:500,1")


def as_delay(value: Any) -> Delay:
    """Return a delay model: an integer D means Uniform(D), text goes to `parse`, a sequence becomes a `Trace`.

    Raises InvalidInput if the value is none of these, nor a model.

    Examples
    --------
    >>> as_delay(1000), as_delay("fixed:3"), as_delay([5, 2, -1, 1])
    (Uniform(D=1000), Fixed(d=3), Trace(4 delays, 25.0% never))
    """
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return Uniform(_delay("delay", value))
    if isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0:  # a pandas Series has a `sample`, too
        return Trace(value)
    if isinstance(value, Delay) and not isinstance(value, type):
        return value
    raise InvalidInput.of("delay", f"a model, an integer, a 1-D array or {ALLOWED}", value, "see dt.delays")
