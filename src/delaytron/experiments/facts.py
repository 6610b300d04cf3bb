"""Facts about the data sets of an experiment, kept as small files beside its results: the report loads no data."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from delaytron.datasets import Dataset, load
from delaytron.datasets.cards import Card
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.form import SPARSE_BELOW
from delaytron.errors import InvalidInput
from delaytron.experiments.runs import Condition
from delaytron.experiments.sealed import check_seal, seal
from delaytron.files.atomic import replace_file

FOLDER = "data"  # below the results
LONGEST_NAME = 40

Storage = Literal["dense", "sparse"]
Description = Mapping[str, Any]  # of a data set, as in `RunSpec.data`: its name and the options of `datasets.load`


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader wants to know of a data set.

    Parameters
    ----------
    majority_error : float
        The error of always playing the most frequent class.
    storage : {"dense", "sparse"}
        The form in which its rows are played.
    """

    name: str
    rows: int
    features: int
    classes: int
    majority_error: float
    storage: Storage


def write_facts(conditions: Iterable[Condition], folder: Path) -> None:
    """Write the facts of every data set that has none in the results folder yet.

    What a card of the catalogue says is not loaded. Where the data of runs that were played earlier are gone, there
    are no facts; the report does without.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for description in _descriptions(conditions).values():
        path = _path(description, folder)
        facts = None if _read(path) else _facts_of(description)
        if facts is not None:
            replace_file(path, seal(msgspec.json.encode(facts)))


def read_facts(conditions: Iterable[Condition], folder: Path) -> dict[str, DataFacts]:
    """Return the facts by the names of the data sets, as far as they were written."""
    kept = {name: _read(_path(description, folder)) for name, description in _descriptions(conditions).items()}
    return {name: facts for name, facts in kept.items() if facts is not None}


def facts_of_card(name: str, card: Card) -> DataFacts:
    """Return the facts of a named data set without loading it.

    Examples
    --------
    >>> facts_of_card("ecoli", CARDS["ecoli"]).majority_error.__round__(4)
    0.5744
    """
    sparse = card.sparse or card.nonzeros <= SPARSE_BELOW
    return DataFacts(
        name=name,
        rows=card.n_rows,
        features=card.n_features,
        classes=len(card.class_names),
        majority_error=1 - max(card.class_counts) / card.n_rows,
        storage="sparse" if sparse else "dense",
    )


def facts_of_data(name: str, data: Dataset) -> DataFacts:
    """Return the facts of a data set in the form in which it is played.

    Examples
    --------
    >>> import numpy as np
    >>> facts_of_data("tiny", Dataset(np.eye(4), np.array([0, 1, 1, 1]), "tiny", ("a", "b"))).majority_error
    0.25
    """
    return DataFacts(
        name=name,
        rows=data.n_rows,
        features=data.n_features,
        classes=data.n_classes,
        majority_error=data.majority_error,
        storage="sparse" if data.sparse else "dense",
    )


def _facts_of(description: Description) -> DataFacts | None:
    name = str(description["name"])
    if description.keys() == {"name"} and name in CARDS:
        return facts_of_card(name, CARDS[name])
    try:
        return facts_of_data(name, load(name, **_options(description)))
    except InvalidInput:  # nothing was left to play, else the playing would have said so
        return None


def _options(description: Description) -> Description:
    return {name: value for name, value in description.items() if name not in ("name", "sha256")}


def _descriptions(conditions: Iterable[Condition]) -> dict[str, Description]:
    return {condition.data: condition.reported[0].data for condition in conditions}


def _path(description: Description, folder: Path) -> Path:
    """Return the file of a data set: other options or another content of a file are another data set."""
    digest = sha256(msgspec.json.encode(description, order="sorted")).hexdigest()
    plain = re.sub(r"\W+", "-", Path(str(description["name"])).stem)[:LONGEST_NAME]
    return folder / FOLDER / f"{plain}-{digest[:12]}.json"


def _read(path: Path) -> DataFacts | None:
    """Return what a file says; a damaged one counts as missing, and is written again."""
    try:
        content = path.read_bytes()
        check_seal(content)
        return msgspec.json.decode(content, type=DataFacts)
    except (OSError, InvalidInput, msgspec.DecodeError):
        return None
