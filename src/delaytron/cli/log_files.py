"""The files that `delaytron evaluate` reads: logs, saved learners, probabilities; and how policies are written."""

from pathlib import Path
from typing import Any

import numpy as np

from delaytron.cli.options import read_pair
from delaytron.errors import InvalidInput
from delaytron.evaluation.policy_names import read_name
from delaytron.learners import LEARNERS

COMPRESSED = (".gz", ".bz2", ".xz")
DSJSON = (".dsjson", ".json", ".jsonl", ".log")
ENDINGS = f".parquet, .csv, or dsjson: {', '.join(DSJSON)}"


def read_log(path: Path, reward_scale: str = "0,1") -> Any:
    """Read a log in the format that its ending tells."""
    from delaytron import logs  # noqa: PLC0415 - `--help` needs none of it

    if not path.is_file():
        what = "is a folder; name a file in it" if path.is_dir() else "is not there; check the name"
        raise InvalidInput(f"cannot read {str(path)!r}: it {what}")
    ending = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
    if ending == ".parquet":
        return logs.read_parquet(path)
    if ending == ".csv":
        return logs.read_open_bandit(path)
    if ending in DSJSON:
        return logs.read_dsjson(path, reward_scale=read_scale(reward_scale))
    raise InvalidInput(f"a log must end in {ENDINGS}; got {str(path)!r}")


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
