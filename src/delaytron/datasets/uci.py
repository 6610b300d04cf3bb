"""Small tables of the UCI repository: numbers beside words."""

from pathlib import Path

import numpy as np

from delaytron.datasets.base import Block, Dataset
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.named import assemble, class_numbers

SEXES = ("F", "I", "M")  # female, infant, male


def abalone() -> Dataset:
    """Shells, their rings to be guessed: a column for each of three sexes, and seven sizes and weights."""
    return assemble("abalone", CARDS["abalone"], _read_abalone)


def ecoli() -> Dataset:
    """Proteins of E. coli, their place in the cell to be guessed: seven measures of the sequence."""
    return assemble("ecoli", CARDS["ecoli"], _read_ecoli)


def _read_abalone(_: str, path: Path) -> Block:
    table = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
    sex = table[:, :1] == np.array(SEXES)
    if not sex.any(axis=1).all():
        raise ValueError(f"got a sex {str(table[~sex.any(axis=1), 0][0])!r}, expected {', '.join(SEXES)}")
    return Block(np.hstack([sex, table[:, 1:-1].astype(np.float64)]), class_numbers(CARDS["abalone"], table[:, -1]))


def _read_ecoli(_: str, path: Path) -> Block:
    table = np.loadtxt(path, dtype=str, ndmin=2)[:, 1:]  # the first column is the name of the protein
    return Block(table[:, :-1].astype(np.float64), class_numbers(CARDS["ecoli"], table[:, -1]))
