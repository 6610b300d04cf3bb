"""The errors of this package. Each carries data: the parameter, the value that came, what is allowed, a hint.

Python, the command line and the service render the same error in their own spelling: `expire_after=500` in Python is
`--expire-after 500` on the command line. No code reads a rendered message to find out what it is about.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

LONGEST_SHOWN = 60  # characters of a value in a message


class Setting(NamedTuple):
    """A parameter that a message mentions, with a value for it if one is meant: `Setting("expire_after", "n")`."""

    name: str
    value: str = ""


Text: TypeAlias = str | tuple[str | Setting, ...]
Spelling: TypeAlias = Callable[[Setting], str]


def python_spelling(setting: Setting) -> str:
    """Return a setting as a keyword argument of Python.

    Examples
    --------
    >>> python_spelling(Setting("expire_after", "n")), python_spelling(Setting("seed"))
    ('expire_after=n', 'seed')
    """
    return f"{setting.name}={setting.value}" if setting.value else setting.name


def spelled(text: Text, spelling: Spelling = python_spelling) -> str:
    """Return a message with its settings in a spelling.

    Examples
    --------
    >>> spelled(("leave out ", Setting("noise")))
    'leave out noise'
    """
    parts = (text,) if isinstance(text, str) else text
    return "".join(part if isinstance(part, str) else spelling(part) for part in parts)


def shown(value: Any) -> str:
    r"""Return a value as it looks in a message: one line, cut where it is long.

    Examples
    --------
    >>> print(shown("one\ntwo"))
    'one\ntwo'
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, lists too deep to print: a message must not fail
        return f"a value of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


class DelaytronError(Exception):
    """Base of every error that this package raises on purpose.

    Parameters
    ----------
    problem : str, or a tuple of str and Setting
        What is wrong.
    hint : str, or a tuple of str and Setting
        What to do next. It may be empty only where `allowed` is given.
    parameter, value, allowed
        Which parameter is wrong, the value that came, and in words what is allowed; see `of`.

    Examples
    --------
    >>> error = InvalidInput("there is no learner 'delaytorn'", "did you mean 'delaytron'?", parameter="learner")
    >>> print(error)
    there is no learner 'delaytorn'; did you mean 'delaytron'?
    >>> error.parameter, error.hint
    ('learner', "did you mean 'delaytron'?")
    """

    def __init__(
        self,
        problem: Text,
        hint: Text,
        *,
        parameter: str | None = None,
        value: Any = None,
        allowed: str | None = None,
    ) -> None:
        if not hint and not allowed:
            raise TypeError(f"an error needs a hint that says what to do next: {spelled(problem)}")
        super().__init__(problem, hint)
        self.parameter = parameter
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> Any:  # for process pools; without the value, which may not be picklable
        return partial(type(self), parameter=self.parameter, allowed=self.allowed), self.args

    @classmethod
    def of(
        cls, parameter: str, allowed: str, value: Any = None, hint: Text = "", *, verb: str = "be", got: str = ""
    ) -> Self:
        """Return the error about a parameter that must be something else; `got` describes a value that is long.

        Examples
        --------
        >>> print(InvalidInput.of("gamma", "in (0, 1]", 2))
        gamma must be in (0, 1], got 2
        >>> print(InvalidInput.of("X", "at least one row", verb="have", got="none"))
        X must have at least one row, got none
        """
        problem = (Setting(parameter), f" must {verb} {allowed}, got {got or shown(value)}")
        return cls(problem, hint, parameter=parameter, value=value, allowed=allowed)

    def at(self, place: str) -> Self:
        """Return the same error with the place that it is about in front.

        Examples
        --------
        >>> print(InvalidInput.of("gamma", "in (0, 1]", 2).at("spec.toml"))
        spec.toml: gamma must be in (0, 1], got 2
        """
        problem, hint = self.args
        parts = (problem,) if isinstance(problem, str) else problem
        data = {"parameter": self.parameter, "value": self.value, "allowed": self.allowed}
        return type(self)((f"{place}: ", *parts), hint, **data)

    @property
    def problem(self) -> str:
        """What is wrong, as Python spells it."""
        return spelled(self.args[0])

    @property
    def hint(self) -> str:
        """What to do next, as Python spells it; where a value is wrong, what is allowed."""
        return spelled(self.args[1]) or (self.allowed or "")

    def spelled(self, spelling: Spelling) -> str:
        """Return the whole message with its settings in another spelling."""
        return "; ".join(filter(None, (spelled(text, spelling) for text in self.args)))

    def __str__(self) -> str:
        return self.spelled(python_spelling)


class InvalidInput(DelaytronError, ValueError):  # noqa: N818 - the public surface fixes the name
    """A value that no learner, delay model or data set can use; nothing was changed."""


class MissingLibrary(InvalidInput, ImportError):  # noqa: N818
    """A library that an extra of this package brings, and that is not installed."""


class UnknownDecision(DelaytronError, KeyError):  # noqa: N818
    """An id that this learner or model never issued."""


class ConflictingFeedback(DelaytronError):  # noqa: N818
    """A second answer that contradicts the first one."""


class ConflictingDecision(DelaytronError):  # noqa: N818
    """An id that was issued before, for other features or other allowed classes; nothing was changed."""


class JournalError(DelaytronError):
    """The journal could not be written or read; what it did not acknowledge is not in it."""
