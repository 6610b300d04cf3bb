"""The files that `delaytron evaluate` reads: logs, saved learners, probabilities; and how policies are written."""

import re
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import typer

from delaytron.checks import not_there
from delaytron.cli.options import read_pair
from delaytron.cli.problems import with_flags
from delaytron.errors import InvalidInput
from delaytron.evaluation.policy_names import read_name
from delaytron.learners import LEARNERS

COMPRESSED = (".gz", ".bz2", ".xz")
DSJSON = (".dsjson", ".json", ".jsonl", ".log")
SQLITE = b"SQLite format 3\0"  # how a journal begins
ENDINGS = f".parquet, .csv, or dsjson: {', '.join(DSJSON)}"


Action = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Of dsjson: what tells actions apart, a feature such as i.id, or number.",
        show_default="_tag, id, tag or name, if every action has one; else number",
    ),
]


def read_log(
    path: Path, reward_scale: str = "0,1", action: str | None = None, skip_bad: bool = False
) -> tuple[Any, list[str]]:
    """Read a log in the format that its ending tells; return it with what makes it doubtful."""
    with catch_warnings(record=True) as caught:
        simplefilter("always", UserWarning)
        log = _read(path, reward_scale, action, skip_bad)
    return log, in_flags(str(each.message) for each in caught if each.category is UserWarning)


def in_flags(warnings: Iterable[str]) -> list[str]:
    """Return warnings about a log with the options of the command line."""
    return [re.sub(r"(?<=--action )'([\w.]+)'", r"\1", with_flags(warning, ["--action"])) for warning in warnings]


def _read(path: Path, reward_scale: str, action: str | None, skip_bad: bool) -> Any:
    from delaytron import logs  # noqa: PLC0415 - `--help` needs none of it

    if not path.is_file():
        what = "is a folder; name a file in it" if path.is_dir() else f"is not there{not_there(path)}"
        raise InvalidInput(f"cannot read {str(path)!r}: it {what}")
    ending = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
    if ending == ".parquet":
        return logs.read_parquet(path)
    if ending == ".csv":
        return logs.read_open_bandit(path)
    if ending in DSJSON:
        return logs.read_dsjson(path, action=action, reward_scale=read_scale(reward_scale), skip_bad=skip_bad)
    _raise_if_journal(path)
    raise InvalidInput(f"a log must end in {ENDINGS}; got {str(path)!r}")


def _raise_if_journal(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(SQLITE)) == SQLITE:
            log = quote(str(path.with_suffix(".parquet")))
            raise InvalidInput(f"{path} is a journal; write its log first: delaytron export {quote(str(path))} {log}")


def read_scale(text: str) -> tuple[float, float]:
    """Read the numbers of a log that mean the rewards 0 and 1."""
    return read_pair("--reward-scale", text, "0,5")


def read_policy_text(text: str) -> Any:
    """Return a policy as `dt.evaluate` takes it.

    Examples
    --------
    >>> read_policy_text("gap:gamma=0.1,eta=2"), read_policy_text("uniform")
    ('gap:gamma=0.1,eta=2', 'uniform')
    """
    if text.endswith(".npy"):
        return _array(Path(text))
    if text.partition(":")[0] in LEARNERS:
        read_name(text, {})  # says at once what is wrong with it
        return text
    if Path(text).is_file():
        from delaytron.model.files import load  # noqa: PLC0415 - only where needed

        return load(text)
    return text


def _array(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path} cannot be read as an array of probabilities: {problem}") from None
