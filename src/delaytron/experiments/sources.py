"""The data of an experiment: names, files, files by a pattern, clicks and worlds, as tables of the TOML file."""

from collections.abc import Iterable
from functools import lru_cache
from glob import glob
from hashlib import file_digest as digest_of
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from delaytron.checks import check_choice
from delaytron.datasets import Dataset, is_drawn, load, names_file
from delaytron.datasets.catalogue import CARDS
from delaytron.datasets.files import file_name
from delaytron.datasets.named import VARIABLE, local_folder
from delaytron.errors import InvalidInput
from delaytron.formats import assignments
from delaytron.records import Array
from delaytron.simulation.worlds import WORLDS, check_rates

Options = dict[str, Any]  # a table of the TOML file: numbers, text and lists of them
KINDS = ("labels", "clicks", "rewards")
OWN = ("name", "rounds")  # keys that are no options of a world
NOT_LOADED = ("name", "sha256", "clicks")  # keys of a table that are no options of `datasets.load`


class PlayedData(NamedTuple):
    """A data set as it is played, and of a world the expected reward of every label on every row."""

    data: Dataset
    rewards: Array | None = None


def kind_of(data: Options) -> str:
    """Return the kind of feedback: one right label, clicks at a rate for it and one for all others, or rewards.

    Examples
    --------
    >>> kind_of({"name": "digits"}), kind_of({"name": "digits", "clicks": [0.3, 0.1]}), kind_of({"name": "ads"})
    ('labels', 'clicks', 'rewards')
    """
    if data["name"] in WORLDS:
        return "rewards"
    return "clicks" if "clicks" in data else "labels"


def titled(entries: Iterable[str | Options]) -> list[tuple[str, Options]]:
    """Return the title and the table of every data set; a `glob` stands for all files that match it.

    Raises InvalidInput if an entry is none, or if no file matches.

    Examples
    --------
    >>> entries = ["digits", {"name": "ads", "factor": 0.1}, {"name": "a.csv", "clicks": [0.3, 0.1]}]
    >>> [title for title, _ in titled(entries)]
    ['digits', 'ads factor=0.1', 'a.csv clicks 0.3/0.1']
    """
    found = []
    for entry in entries:
        table: Options = {"name": entry} if isinstance(entry, str) else dict(entry)
        given = table.pop("title", None)
        if given is not None and not isinstance(given, str):
            raise InvalidInput("title of a data set must be text", "put it in quotes")
        pattern = table.pop("glob", None)
        if pattern is None:
            if not isinstance(table.get("name"), str):
                raise InvalidInput(
                    "a data set must be a name or a table with a name that is text",
                    'write data = ["digits"], for example',
                )
            found.append((given or _title(table, table["name"]), table))
            continue
        if not isinstance(pattern, str) or given is not None or "name" in table:
            raise InvalidInput(
                "a table with a glob must have text there, and neither name nor title",
                'write data = [{glob = "sets/*.npz"}]',
            )
        found += [(_title(table, file_name(Path(name))), {"name": name, **table}) for name in matching(pattern)]
    return found


def _title(table: Options, name: str) -> str:
    if name in WORLDS:
        own = {key: value for key, value in table.items() if key not in OWN}
        return f"{name} {assignments(own)}".strip()
    rates = table.get("clicks")
    shown = "/".join(map(str, rates)) if isinstance(rates, list) else rates
    return name if rates is None else f"{name} clicks {shown}"


def matching(pattern: str) -> list[str]:
    """Return the files that match a pattern, sorted: here or, where none does, in the folder of DELAYTRON_DATA."""
    for folder in (Path(), local_folder()):
        if folder is not None:
            names = sorted(name for name in glob(pattern, root_dir=folder) if (folder / name).is_file())
            if names:
                return names
    raise InvalidInput(f"no file matches {pattern!r}", f"check it; it is looked for here, and in what {VARIABLE} names")


def locate(name: str) -> Path:
    """Return the path of a file: as named or, if it is not there, in the folder of local copies."""
    path = Path(name).expanduser()
    local = local_folder()
    return local / name if local is not None and not path.is_file() and (local / name).is_file() else path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; raise InvalidInput if it cannot be read."""
    try:
        with path.expanduser().open("rb") as file:
            return digest_of(file, "sha256").hexdigest()
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidInput(f"cannot read {str(path)!r}: {reason}", "check the name") from None


def complete(title: str, table: Options) -> Options:
    """Return the table of a data set, without its rounds, with the digest of its file, a part of the specification.

    Raises InvalidInput if there is no such file, world or data set, or if clicks are no rates.
    """
    table = {key: value for key, value in table.items() if key != "rounds"}
    name = table["name"]
    if "clicks" in table:
        check_clicks(title, table)
    if name in WORLDS:
        for option in table.keys() - {"name"}:
            check_choice(f"an option of {name}", option, list(signature(WORLDS[name]).parameters))
        extent_of(table)  # raises if it refuses an option
        return table
    return table | {"sha256": file_digest(locate(name))} if names_file(name) else table


def check_clicks(title: str, table: Options) -> None:
    """Raise InvalidInput unless the clicks of a data set are two rates, and the first is the larger one."""
    rates = table["clicks"]
    if not isinstance(rates, list) or len(rates) != 2:
        raise InvalidInput.of(f"clicks of {title}", "[right, wrong], two rates", rates, "write clicks = [0.3, 0.1]")
    if table["name"] in WORLDS:
        raise InvalidInput(f"{title} has rates of its own", "leave out clicks")
    right, wrong = rates
    check_rates(right, wrong, f"the first of clicks of {title}", "the second")


def noise_of(data: Options) -> Options:
    """Return the noise that makes clicks of right and wrong, as a parameter of `simulate`; none for other data.

    Examples
    --------
    >>> noise_of({"name": "digits", "clicks": [0.75, 0.25]}), noise_of({"name": "digits"})
    ({'noise': (0.25, 0.25)}, {})
    """
    if "clicks" not in data:
        return {}
    right, wrong = data["clicks"]
    return {"noise": (wrong, 1 - right)}


def load_source(data: Options) -> PlayedData:
    """Return the data of a table; raise InvalidInput if its file has changed since the digest was taken."""
    name, digest = data["name"], data.get("sha256")
    if name in WORLDS:
        world = WORLDS[name](**{key: value for key, value in data.items() if key != "name"})
        return PlayedData(world.data, world.rewards)
    options = {key: value for key, value in data.items() if key not in NOT_LOADED}
    if digest is None:
        return PlayedData(load(name, **options))
    path = locate(name)
    if file_digest(path) != digest:
        raise InvalidInput(
            f"{name} has changed since the experiment began, or is not the same on a worker",
            "restore it, or begin in another folder",
        )
    return PlayedData(load(str(path), **options))


def is_redrawn(data: Options) -> bool:
    """Whether the tuning plays other rows: those of synthetic data with another seed.

    Examples
    --------
    >>> [is_redrawn({"name": name}) for name in ("digits", "synsep", "linear_world", "ads")]
    [False, True, True, False]
    """
    name = data["name"]
    return "seed" in signature(WORLDS[name]).parameters if name in WORLDS else is_drawn(name)


def reward_table(source: PlayedData, data: Options) -> Array:
    """Return the expected reward of every label on every row.

    Examples
    --------
    >>> data = Dataset(np.eye(2), np.array([1, 0]), "tiny", ("a", "b"))
    >>> reward_table(PlayedData(data), {"name": "tiny", "clicks": [0.75, 0.25]})
    array([[0.25, 0.75],
           [0.75, 0.25]])
    """
    if source.rewards is not None:
        return source.rewards
    right, wrong = data.get("clicks", (1.0, 0.0))
    table = np.full((source.data.n_rows, source.data.n_classes), float(wrong))
    table[np.arange(source.data.n_rows), source.data.y] = right
    return table


class Extent(NamedTuple):
    """The number of labels and of features, on which it depends whether a learner can play."""

    n_classes: int
    n_features: int


def extent_of(data: Options) -> Extent:
    """Return the size of a data set; one of the catalogue is not loaded for it."""
    name = data["name"]
    if name in CARDS and data.keys() <= {"name", "clicks"}:
        return Extent(len(CARDS[name].class_names), CARDS[name].n_features)
    return _loaded_extent(msgspec.json.encode(data))


@lru_cache(maxsize=4096)
def _loaded_extent(described: bytes) -> Extent:
    loaded = load_source(msgspec.json.decode(described)).data
    return Extent(loaded.n_classes, loaded.n_features)
