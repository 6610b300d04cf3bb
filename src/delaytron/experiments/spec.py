"""Specifications: a TOML file that says what is played, checked before anything is."""

import tomllib
from importlib.resources import files
from pathlib import Path

import msgspec

from delaytron.checks import check_choice, check_distinct
from delaytron.comparison.tuning import TUNING_SEED_OFFSET
from delaytron.datasets import is_drawn, names_file
from delaytron.delays import as_delay
from delaytron.errors import InvalidInput
from delaytron.experiments.entries import LearnerEntry, check_limits, check_values, read_entry
from delaytron.experiments.runs import Condition, Options, RunSpec, delays_digest, file_digest
from delaytron.files.advice import with_advice
from delaytron.simulation.scenarios import CHECKPOINTS


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an experiment plays: every learner with each of its settings, on all data sets, at all delays.

    Parameters
    ----------
    data : list of str or table
        Names or files; a table has a `name` and options of `datasets.load`.
    learners : list of table
        The `name` of a learner and its parameters; a list tries each of its values. A `title` distinguishes two entries
        of the same learner; `delays`, `runs`, `tuning_runs` and `report` are its own, if not those of all.
    tuning_runs : int
        How many runs, on other seeds than those reported, choose the setting that stands for a learner. With 0 the
        reported runs choose, which flatters.
    report : {"all", "chosen"}
        Play the reported runs of all settings, or only of the one that was chosen.
    checkpoints : int
        At how many rounds, log-spaced, errors are noted at most.
    """

    name: str
    data: list[str | Options]
    learners: list[Options]
    delays: tuple[int | str, ...] = (1, 100, 1000, 2500, 5000)
    rounds: int = 1_000_000
    runs: int = 20
    tuning_runs: int = 0
    report: str = "all"
    seed: int = 0
    sampling: str = "replacement"
    checkpoints: int = CHECKPOINTS

    def conditions(self) -> list[Condition]:
        """Return every learner on every data set at every delay; raise if something cannot be played."""
        for name in ("rounds", "runs", "tuning_runs", "seed", "checkpoints"):
            check_limits(name, getattr(self, name))
        check_choice("sampling", self.sampling, ("replacement", "epochs"))
        check_distinct("data", [_name(data) for data in self.data], "name or title")
        entries = self._entries()
        data_sets = [_options(data) for data in self.data]
        return [
            self._condition(data, entry, delay) for entry in entries for data in data_sets for delay in entry.delays
        ]

    def _entries(self) -> list[LearnerEntry]:
        """Return the learners, each with what is its own or that of all."""
        shared = LearnerEntry(
            delays=tuple(map(str, self.delays)), runs=self.runs, tuning_runs=self.tuning_runs, report=self.report
        )
        entries = [read_entry(table, shared) for table in self.learners]
        titled = {(entry.title, entry.name) for entry in entries}
        check_distinct("learners", [title for title, _ in titled], "name or title")
        for title, _ in titled:
            delays = [delay for entry in entries if entry.title == title for delay in entry.delays]
            check_distinct(f"delays of {title}", delays, "name or title")
        return entries

    def _condition(self, data: Options, entry: LearnerEntry, delay: str) -> Condition:
        seed = self.seed + TUNING_SEED_OFFSET
        pattern = RunSpec(
            data=data,
            learner=entry.name,
            parameters={},
            delay=delay,
            rounds=self.rounds,
            runs=entry.runs,
            seed=self.seed,
            sampling=self.sampling,
            checkpoints=self.checkpoints,
            recorded=delays_digest(as_delay(delay)),
        )
        on_other_seeds = msgspec.structs.replace(
            pattern, data=_drawn_anew(data, seed), seed=seed, runs=entry.tuning_runs
        )
        reported = _with_settings(pattern, entry.settings)
        tuning = _with_settings(on_other_seeds, entry.settings) if entry.is_tuned else ()
        return Condition(data["name"], entry.title, delay, reported, tuning, entry.report)

    def only(self, names: list[str]) -> "Spec":
        """Return the same with these data sets only; with all if none is named."""
        known = [_name(data) for data in self.data]
        for name in names:
            check_choice("a data set of the experiment", name, known)
        return msgspec.structs.replace(self, data=[d for d in self.data if not names or _name(d) in names])

    def scaled(self, share: float) -> "Spec":
        """Return the same with a share of the rounds."""
        if not 0 < share <= 1:
            raise InvalidInput(f"share must be in (0, 1], got {share}")
        check_limits("rounds", self.rounds)
        return msgspec.structs.replace(self, rounds=max(1, round(self.rounds * share)))


def read_spec(path: Path) -> Spec:
    """Read a TOML file."""
    try:
        return parse_spec(path.read_bytes())
    except OSError as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {with_advice(problem)}") from None
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
    >>> [(condition.data, condition.title, condition.delay) for condition in spec.conditions()]
    [('digits', 'banditron', '1'), ('digits', 'banditron', '10')]
    """
    try:
        table = tomllib.loads(content.decode())
        for key in table:
            check_choice("a key", key, Spec.__struct_fields__)
        return msgspec.convert(table, Spec)
    except UnicodeDecodeError:
        raise InvalidInput("must be text in UTF-8; save the file as such") from None
    except RecursionError:
        raise InvalidInput("must be an experiment in TOML: lists or tables are nested too deeply") from None
    except (ValueError, OverflowError, msgspec.ValidationError) as problem:  # TOML and UTF-8 have ValueErrors
        raise InvalidInput(f"must be an experiment in TOML: {problem}") from None


def _with_settings(pattern: RunSpec, settings: list[Options]) -> tuple[RunSpec, ...]:
    return tuple(msgspec.structs.replace(pattern, parameters=setting) for setting in settings)


def _name(data: str | Options) -> str:
    name = data if isinstance(data, str) else data.get("name")
    if not isinstance(name, str):
        raise InvalidInput("a data set must be a name or a table with a name that is text")
    return name


def _options(data: str | Options) -> Options:
    """Return how a data set is loaded; a file is known by its content, too."""
    name = _name(data)
    options = {"name": name} if isinstance(data, str) else dict(data)
    check_values(name, options)
    return options | {"sha256": file_digest(Path(name))} if names_file(name) else options


def _drawn_anew(data: Options, seed: int) -> Options:
    """Return how a synthetic data set is drawn for the tuning; others have but one set of rows."""
    return data | {"seed": seed} if is_drawn(data["name"]) else data
