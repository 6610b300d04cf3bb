"""Data sets found, or fetched, before anything is played."""

from collections.abc import Iterable

from delaytron.datasets import DATASETS, load
from delaytron.datasets.catalogue import CARDS, FASHION_PIXELS
from delaytron.datasets.downloads import find
from delaytron.experiments.runs import Options, RunSpec


def obtain_data(runs: Iterable[RunSpec]) -> None:
    """Raise if a data set is neither on this machine nor can be brought there; what is there is not read.

    Files were found when their digests were taken.
    """
    described = {str(run.data): run.data for run in runs if run.data["name"] in DATASETS}
    for data in described.values():
        if not _is_here(data):
            options = dict(data)
            load(options.pop("name"), **options)  # fetches it, or says in one line how to get it


def _is_here(data: Options) -> bool:
    card = FASHION_PIXELS if data.get("features") == "pixels" else CARDS[data["name"]]
    needed = [file for files in card.files.values() for file in files]
    return all(find(file) is not None for file in needed)
