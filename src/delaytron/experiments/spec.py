"""Specifications: a TOML file that says what is played, checked before anything is."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from delaytron.checks import check_choice, check_distinct, check_integer
from delaytron.comparison.tuning import TUNING_SEED_OFFSET
from delaytron.datasets import DATASETS, is_drawn
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.experiments.runs import Condition, RunSpec, delays_digest, file_digest
from delaytron.simulation.scenarios import CHECKPOINTS
from delaytron.simulation.simulate import grid, learner_class

Table = dict[str, Any]
OWN = ("name", "title", "delays", "runs", "tuning_runs", "report")  # keys of a learner's table that are no parameters
REPORTS = ("all", "chosen")
SMALL = (10, 1)  # classes and features of a learner that is made only to check its parameters
MINIMUM = {"rounds": 1, "runs": 1, "tuning_runs": 0, "seed": 0, "checkpoints": 1}


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an experiment plays: every learner with each of its settings, on all data sets, at all delays.

    Parameters
    ----------
    data : list of str or table
        Names or files; a table has a `name` and options of `datasets.load`.
    learners : list of table
        The `name` of a learner and its parameters; a list tries each of its values. A `title` tells two entries of the
        same learner apart; `delays`, `runs`, `tuning_runs` and `report` are its own, if not those of all.
    tuning_runs : int
        How many runs, on other seeds than those reported, choose the setting that stands for a learner. With 0 the
        reported runs choose, which flatters.
    report : {"all", "chosen"}
        Play the reported runs of all settings, or only of the one that was chosen.
    checkpoints : int
        At how many rounds, log-spaced, errors are noted at most.
    """

    name: str
    data: list[str | Table]
    learners: list[Table]
    delays: tuple[int | str, ...] = (1, 100, 1000, 2500, 5000)
    rounds: int = 1_000_000
    runs: int = 20
    tuning_runs: int = 0
    report: str = "all"
    seed: int = 0
    sampling: str = "replacement"
    checkpoints: int = CHECKPOINTS

    def conditions(self) -> list[Condition]:
        """Return every learner on every data set at every delay; refuse what cannot be played."""
        for name, least in MINIMUM.items():
            check_integer(name, getattr(self, name), at_least=least)
        check_choice("sampling", self.sampling, ("replacement", "epochs"))
        check_distinct("data", [_name(data) for data in self.data], "name or title")
        titled = {(_title(entry), entry["name"]) for entry in self.learners}
        check_distinct("learners", [title for title, _ in titled], "name or title")
        for title, _ in titled:
            own = [entry for entry in self.learners if _title(entry) == title]
            check_distinct(
                f"delays of {title}", [str(delay) for entry in own for delay in self._delays(entry)], "name or title"
            )
        return [
            self._condition(data, entry, str(delay))
            for entry in self.learners
            for data in map(_options, self.data)
            for delay in self._delays(entry)
        ]

    def _delays(self, entry: Table) -> list[Any]:
        delays = entry.get("delays", self.delays)
        if not isinstance(delays, list | tuple):
            raise InvalidInput(f"delays of {_title(entry)} must be a list, got {delays!r}")
        return list(delays)

    def _condition(self, data: Table, entry: Table, delay: str) -> Condition:
        own = {name: entry.get(name, getattr(self, name)) for name in ("runs", "tuning_runs", "report")}
        for name in ("runs", "tuning_runs"):
            check_integer(name, own[name], at_least=MINIMUM[name])
        settings = grid(learner_class(entry["name"]), {key: entry[key] for key in entry if key not in OWN})
        _check(learner_class(entry["name"]), settings)
        shared: Table = {"learner": entry["name"], "delay": delay, "recorded": delays_digest(as_delay(delay))}
        shared |= {"rounds": self.rounds, "sampling": self.sampling, "checkpoints": self.checkpoints}
        reported = tuple(RunSpec(data=data, parameters=s, runs=own["runs"], seed=self.seed, **shared) for s in settings)
        apart = self.seed + TUNING_SEED_OFFSET
        other: Table = {"data": _drawn_anew(data, apart), "seed": apart, "runs": own["tuning_runs"]}
        chosen_by = settings if own["tuning_runs"] and len(settings) > 1 else []
        tuning = tuple(RunSpec(parameters=s, **other, **shared) for s in chosen_by)
        if check_choice("report", own["report"], REPORTS) == "chosen" and not own["tuning_runs"] and len(settings) > 1:
            raise InvalidInput(
                f"report = 'chosen' needs tuning_runs, which choose among the settings of {_title(entry)}"
            )
        return Condition(data["name"], _title(entry), delay, reported, tuning, own["report"])

    def only(self, names: list[str]) -> "Spec":
        """Return the same with these data sets only; with all if none is named."""
        known = [_name(data) for data in self.data]
        for name in names:
            check_choice("a data set of the experiment", name, known)
        return msgspec.structs.replace(self, data=[d for d in self.data if not names or _name(d) in names])

    def scaled(self, share: float) -> "Spec":
        """Return the same with a share of the rounds."""
        if not 0 < share <= 1:
            raise InvalidInput(f"scale must be in (0, 1], got {share}")
        return msgspec.structs.replace(self, rounds=max(1, round(self.rounds * share)))


def read_spec(path: Path) -> Spec:
    """Read a TOML file."""
    try:
        return parse_spec(path.read_bytes())
    except OSError as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {problem.strerror}") from None
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def built_in(name: str) -> tuple[Spec, bytes]:
    """Return an experiment that comes with the package, "paper" or "quick", and its text.

    Examples
    --------
    >>> built_in("paper")[0].name
    'The paper'
    """
    content = files("delaytron.experiments").joinpath("specs", f"{name}.toml").read_bytes()
    return parse_spec(content), content


def parse_spec(content: bytes) -> Spec:
    r"""Read the text of a specification.

    Examples
    --------
    >>> spec = parse_spec(b'name="tiny"\ndata=["digits"]\ndelays=[1, 10]\n[[learners]]\nname="banditron"')
    >>> [(line.data, line.title, line.delay) for line in spec.conditions()]
    [('digits', 'banditron', '1'), ('digits', 'banditron', '10')]
    """
    try:
        return msgspec.convert(tomllib.loads(content.decode()), Spec)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as problem:
        raise InvalidInput(f"must be an experiment in TOML: {problem}") from None


def _check(cls: Any, settings: list[Table]) -> None:
    """Raise if no learner can have these parameters, before hours of others are played."""
    for setting in settings:
        cls(*SMALL, seed=0, **setting)


def _name(data: str | Table) -> str:
    name = data if isinstance(data, str) else data.get("name")
    if not isinstance(name, str):
        raise InvalidInput(f"a data set must be a name or a table with a name, got {data!r}")
    return name


def _title(entry: Table) -> str:
    if not isinstance(entry.get("name"), str):
        raise InvalidInput(f"a learner must be a table with a name, got {entry!r}")
    return str(entry.get("title", entry["name"]))


def _options(data: str | Table) -> Table:
    """Return how a data set is loaded; a file is known by its content, too."""
    name = _name(data)
    options = {"name": name} if isinstance(data, str) else dict(data)
    return options if name in DATASETS else options | {"sha256": file_digest(Path(name))}


def _drawn_anew(data: Table, seed: int) -> Table:
    """Return how a synthetic data set is drawn for the tuning; others have but one set of rows."""
    return data | {"seed": seed} if is_drawn(data["name"]) else data
