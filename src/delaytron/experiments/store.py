"""The results folder: one file for each run, written whole or not at all; what is there is not played again."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from warnings import warn as warn_in_python

import msgspec

from delaytron.experiments.folder import Folder
from delaytron.experiments.run_files import decode_run, encode_run
from delaytron.experiments.runs import RunSpec
from delaytron.experiments.theory import TheoryRow, TheorySpec, decode_theory
from delaytron.records import Ints
from delaytron.simulation.results import Result


class Timing(msgspec.Struct, frozen=True):
    """What it took to play runs together: seconds by the clock, of which others on the machine had their share.

    Parameters
    ----------
    side_by_side : int
        How many such jobs were played at a time.
    memory : int
        The peak of the process so far, in bytes; 0 where it is not known.
    """

    runs: tuple[str, ...]
    seconds: float
    side_by_side: int
    memory: int


class Store:
    """A folder of results; two processes may write to it at the same time.

    Parameters
    ----------
    warn : callable, optional
        Called with one line about each damaged file; by default that is a warning of Python.
    """

    def __init__(self, folder: Path, warn: Callable[[str], object] = warn_in_python) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.runs: Folder[RunSpec, Result] = Folder(folder / "runs", ".parquet", decode_run, warn)
        self.theory: Folder[TheorySpec, tuple[TheoryRow, ...]] = Folder(folder / "theory", ".json", decode_theory, warn)
        self.log = folder / "spent.jsonl"
        self._errors: dict[str, float] = {}

    def has(self, run: RunSpec) -> bool:
        """Whether the run was played, and its file is not damaged."""
        return self.runs.has(run)

    def write(self, run: RunSpec, mistakes: Ints) -> None:
        """Keep the (runs, checkpoints, 2) mistakes of a run."""
        self.runs.write(run, encode_run(run, mistakes))

    def read(self, run: RunSpec) -> Result:
        """Return what came out of a run."""
        return self.runs.read(run)

    def mean_error(self, run: RunSpec) -> float:
        """Return the mean final error of a run; a file is read for it only once."""
        if run.key not in self._errors:
            self._errors[run.key] = float(self.read(run).final_error.mean())
        return self._errors[run.key]

    def note(self, timing: Timing) -> None:
        """Append how long something took, as a line of its own also after one that a crash has cut short."""
        line = msgspec.json.encode(timing) + b"\n"
        with self.log.open("a+b") as file:
            file.write(line if _at_line_start(file) else b"\n" + line)

    def timings(self) -> list[Timing]:
        """Return how long everything took that was played so far; what is no whole line is left out."""
        lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        return [timing for line in lines if (timing := _read_timing(line)) is not None]


def _at_line_start(file: BinaryIO) -> bool:
    """Whether a file is empty or ends with a line break."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _read_timing(line: bytes) -> Timing | None:
    try:
        return msgspec.json.decode(line, type=Timing)
    except msgspec.DecodeError:
        return None
