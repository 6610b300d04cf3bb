"""Specifications: a TOML file, checked and expanded to conditions and runs, which are named by their hashes."""

import tomllib
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from delaytron._version import __version__
from delaytron.checks import check_choice, check_distinct, check_integer
from delaytron.datasets import has_delays
from delaytron.delays import Delay, OfRows, as_delay
from delaytron.delays.dependent import parts, traces
from delaytron.errors import InvalidInput
from delaytron.experiments.compare import TUNING_SEED_OFFSET
from delaytron.experiments.entrants import is_outside, make_entrant, plain_name, with_digest
from delaytron.experiments.sources import Extent, Options, complete, extent_of, is_redrawn, kind_of, titled
from delaytron.files.atomic import cannot
from delaytron.simulation.scenarios import CHECKPOINTS, SAMPLINGS
from delaytron.simulation.simulate import MOST_ROUNDS, combinations, grid, learner_class, make_learner

FORMAT = "delaytron-run-1"  # changes if the same content would give other numbers


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a learner on one data set at one delay, played several times.

    Parameters
    ----------
    data : dict
        The `name` of the data set and the options of `datasets.load`; of a file also its `sha256`; see `sources`.
    learner : str
        A name in the registry, or `module:Class#` and a digest of the file of that class.
    delay : str
        As on the command line.
    recorded : str
        The SHA-256 of recorded delays: the file that `delay` names may change.
    runs : int
        The runs 0, ..., runs - 1 of the seed.
    checkpoints : int
        The number of log-spaced rounds at which errors are recorded, at most.
    """

    data: Options
    learner: str
    parameters: Options
    delay: str
    rounds: int
    runs: int
    seed: int
    sampling: str
    checkpoints: int = CHECKPOINTS
    recorded: str = ""

    @property
    def content(self) -> str:
        """Canonical JSON of all fields, with the format and the version.

        Examples
        --------
        >>> run = RunSpec(data={"name": "digits"}, learner="delaytron", parameters={"gamma": 0.5}, delay="10", rounds=1,
        ...           runs=1, seed=0, sampling="replacement")
        >>> run.content[:50]
        '{"checkpoints":64,"data":{"name":"digits"},"delay"'
        """
        values = msgspec.structs.asdict(self) | {"format": FORMAT, "version": __version__}
        values["parameters"] = {  # JSON has no infinity: it would become null, which is another parameter
            name: repr(value) if isinstance(value, float) and not isfinite(value) else value
            for name, value in self.parameters.items()
        }
        return msgspec.json.encode(values, order="sorted").decode()

    @property
    def key(self) -> str:
        """The name of its file."""
        return sha256(self.content.encode()).hexdigest()[:32]

    @property
    def n_rounds(self) -> int:
        """The number of rounds of all runs."""
        return self.rounds * self.runs


class Condition(NamedTuple):
    """One learner on one data set at one delay: a reported run for each setting, and a tuning run on other seeds.

    With `report="chosen"` only the setting that the tuning chose is played with the reported seed. With "single" the
    tuning runs on all data sets of that kind choose, `pooled`: a tuple of settings for each of these data sets.
    """

    data: str
    title: str
    delay: str
    reported: tuple[RunSpec, ...]
    tuning: tuple[RunSpec, ...]
    report: str = "all"
    pooled: tuple[tuple[RunSpec, ...], ...] = ()

    @property
    def all_reported(self) -> bool:
        """Whether every setting is played with the reported seed."""
        return self.report == "all" or not self.tuning

    @property
    def untuned(self) -> bool:
        """Whether there is only one setting, so that none was chosen."""
        return len(self.reported) == 1

    @property
    def choosing(self) -> tuple[RunSpec, ...]:
        """The runs that choose the setting, where it is not the reported ones."""
        return tuple(chain.from_iterable(self.pooled)) or self.tuning


def delays_digest(delay: Delay) -> str:
    """Return the SHA-256 of all recorded delays in a model; "" for a model without."""
    recorded = [trace.delays.tobytes() for trace in traces(delay)]
    return sha256(b"".join(recorded)).hexdigest() if recorded else ""


def recorded_delay(delay: str, recorded: str) -> Delay:
    """Return the delay model of a text; raise InvalidInput if its recorded delays are not those of this digest."""
    model = as_delay(delay)
    if delays_digest(model) != recorded:
        raise InvalidInput(
            f"{delay} has changed since the experiment began, or is not the same on a worker",
            "restore it, or begin in another folder",
        )
    return model


OWN = ("name", "title", "delays", "runs", "tuning_runs", "report")  # keys of a learner's table, besides parameters
REPORTS = ("all", "chosen", "single")
SMALL = Extent(10, 1)  # classes and features of a learner that is created only to check its parameters
LIMITS = {  # minimum and maximum
    "rounds": (1, MOST_ROUNDS),
    "runs": (1, 100_000),
    "tuning_runs": (0, 100_000),
    "seed": (0, 2**62),
    "checkpoints": (1, 10_000),
}
MOST_SETTINGS = 10_000  # of one learner
EXPECTED = "see docs/howto/experiments.md for the format"  # hint
BAKEOFF = "write bakeoff = true"  # hint


class LearnerEntry(NamedTuple):
    """A learner of an experiment with all its settings; without a name, the defaults for all learners.

    Parameters
    ----------
    name : str
        As in `RunSpec.learner`.
    """

    delays: tuple[str, ...]
    runs: int
    tuning_runs: int
    report: str
    name: str = ""
    title: str = ""
    settings: list[Options] = []

    @property
    def is_tuned(self) -> bool:
        """Whether runs on other seeds choose its setting."""
        return self.tuning_runs > 0 and len(self.settings) > 1

    def refusal(self, data: Options) -> str:
        """Return why the learner cannot play a data set; "" if it can."""
        kind = kind_of(data)
        if kind != "labels":
            if not is_outside(self.name) and learner_class(self.name).feedback_type == "label":
                return "it learns from the true label, which nobody gives"
            if any("noise" in setting for setting in self.settings):
                return "it has noise, and these answers are random already"
        return _refusal(self.name, tuple(self.settings[0].items()), extent_of(data))


@lru_cache(maxsize=4096)  # many data sets have the same size
def _refusal(learner: str, setting: tuple[tuple[str, Any], ...], extent: Extent) -> str:
    try:
        _make(learner, dict(setting), extent)
    except InvalidInput as problem:
        return problem.problem
    return ""


def _make(learner: str, setting: Options, extent: Extent) -> None:
    """Make a learner; raise InvalidInput if it refuses a parameter or the size."""
    if is_outside(learner):
        make_entrant(learner, *extent, 0, setting)
    else:
        make_learner(learner_class(learner), *extent, setting)


def read_entry(table: Options, shared: LearnerEntry) -> LearnerEntry:
    """Return a learner's table, with the shared values as defaults; raise InvalidInput if it cannot be played."""
    name = table.get("name")
    if not isinstance(name, str):
        raise InvalidInput("a learner must be a table with a name that is text", 'write name = "delaytron"')
    title = table.get("title", name)
    if not isinstance(title, str):
        raise InvalidInput(f"title of {name} must be text, got {_kind(title)}", "put it in quotes")
    check_values(title, {key: value for key, value in table.items() if key != "delays"})
    delays = table.get("delays", shared.delays)
    if not isinstance(delays, list | tuple):
        raise InvalidInput(f"delays of {title} must be a list, got {_kind(delays)}", "write delays = [1, 100]")
    for delay in delays:
        if isinstance(delay, bool) or not isinstance(delay, int | str):
            raise InvalidInput(
                f"delays of {title} must be integers or text, got {_kind(delay)}", 'write delays = [1, "fixed:100"]'
            )
    parameters = {key: value for key, value in table.items() if key not in OWN}
    count = prod(len(value) for value in parameters.values() if isinstance(value, list) and value)
    if count > MOST_SETTINGS:
        raise InvalidInput.of(
            title, f"at most {MOST_SETTINGS:,} settings", got=f"{count:,}", verb="have", hint="give fewer values"
        )
    settings = combinations(parameters) if is_outside(name) else grid(learner_class(name), parameters)
    entry = LearnerEntry(
        delays=tuple(map(str, delays)),
        runs=check_limits("runs", table.get("runs", shared.runs)),
        tuning_runs=check_limits("tuning_runs", table.get("tuning_runs", shared.tuning_runs)),
        report=check_choice("report", table.get("report", shared.report), REPORTS),
        name=with_digest(name) if is_outside(name) else name,
        title=title,
        settings=settings,
    )
    for setting in settings:
        _make(entry.name, setting, SMALL)  # raises if the learner refuses a parameter
    if entry.report != "all" and not entry.tuning_runs and len(entry.settings) > 1:
        raise InvalidInput(
            f"report = {entry.report!r} needs tuning_runs, which choose among the settings of {title}",
            "write tuning_runs = 4",
        )
    return entry


def check_limits(name: str, value: Any) -> int:
    """Return an integer within the limits of its name; raise InvalidInput if it is not."""
    least, most = LIMITS[name]
    if check_integer(name, value, at_least=least) > most:
        raise InvalidInput.of(name, f"at most {most:,}", value, got=str(value) if value < 2**64 else "far more")
    return int(value)


def check_values(what: str, options: Options) -> None:
    """Raise InvalidInput if a value is neither a number, text, true or false, nor a list of these or of pairs."""
    for key, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            for part in one if isinstance(one, list) else [one]:
                if not isinstance(part, bool | int | float | str):
                    raise InvalidInput(
                        f"{key} of {what} must be a number, text, true or false, or a list of them, got {_kind(part)}",
                        "write a value of such a type",
                    )


def _kind(value: Any) -> str:
    """Return a short description of a value of TOML."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:40] if isinstance(value, str | int | float) else f"a {type(value).__name__}"


class Entered(NamedTuple):
    """A data set of an experiment."""

    title: str
    data: Options
    rounds: int


class Refusal(NamedTuple):
    """A learner that a bake-off leaves out on a data set, and the reason."""

    learner: str
    data: str
    reason: str


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an experiment plays: every learner with each of its settings, on all data sets, at all delays.

    Parameters
    ----------
    data : list of str or table
        Names or files; a table has a `name` and options of `dt.datasets.load`. A `title` distinguishes two entries of
        the same name; `rounds` are its own, if not those of all. See `sources` for more of them.
    learners : list of table
        The `name` of a learner and its parameters; a list tries each of its values; `noise = [[rho0, rho1]]` flips
        answers. A `title` distinguishes two entries of the same learner; `delays`, `runs`, `tuning_runs` and `report`
        are its own, if not those of all.
    tuning_runs : int
        The number of runs, on other seeds than those reported, that choose the setting of a learner. With 0 the
        reported runs choose, which is biased in its favour.
    report : {"all", "chosen", "single"}
        Play the reported runs of all settings; only of the one that was chosen; or only of the one that the tuning runs
        on all data sets of a kind chose.
    checkpoints : int
        The number of log-spaced rounds at which errors are recorded, at most.
    bakeoff : bool
        Learners from outside, clicks and worlds are allowed, a learner is left out where it cannot play, and the report
        is that of many data sets.
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
    bakeoff: bool = False

    def conditions(self) -> list[Condition]:
        """Return every learner on every data set at every delay; raise InvalidInput if something cannot be played."""
        for name in ("rounds", "runs", "tuning_runs", "seed", "checkpoints"):
            check_limits(name, getattr(self, name))
        check_choice("sampling", self.sampling, SAMPLINGS)
        entries = self._entries()
        tables = self._tables()
        found = [
            self._condition(one, entry, delay)
            for entry in entries
            for one in tables
            if not (self.bakeoff and entry.refusal(one.data))
            for delay in entry.delays
        ]
        return [_pooled(condition, found) if condition.report == "single" else condition for condition in found]

    def left_out(self) -> list[Refusal]:
        """Return the learners that a bake-off leaves out on some of its data sets."""
        if not self.bakeoff:
            return []
        tables = self._tables()
        reasons = (
            Refusal(entry.title, one.title, entry.refusal(one.data)) for entry in self._entries() for one in tables
        )
        return list(dict.fromkeys(one for one in reasons if one.reason))

    def _entries(self) -> list[LearnerEntry]:
        """Return the learners, checked."""
        shared = LearnerEntry(
            delays=tuple(map(str, self.delays)), runs=self.runs, tuning_runs=self.tuning_runs, report=self.report
        )
        entries = [read_entry(table, shared) for table in self.learners]
        named = {(entry.title, entry.name) for entry in entries}
        check_distinct("learners", [title for title, _ in named], "name or title")
        for title, name in named:
            if is_outside(name) and not self.bakeoff:
                raise InvalidInput(f"{plain_name(name)} is a learner of a bake-off", BAKEOFF)
            delays = [delay for entry in entries if entry.title == title for delay in entry.delays]
            check_distinct(f"delays of {title}", delays, "name or title")
        return entries

    def _tables(self) -> list[Entered]:
        """Return the data sets, with the digests of files, checked."""
        tables = titled(self.data)
        check_distinct("data", [title for title, _ in tables], "name or title")
        for title, table in tables:
            check_values(title, table)
            if not self.bakeoff and kind_of(table) != "labels":
                raise InvalidInput(f"{title} belongs into a bake-off", BAKEOFF)
        return [
            Entered(title, complete(title, table), check_limits("rounds", table.get("rounds", self.rounds)))
            for title, table in tables
        ]

    def _condition(self, entered: Entered, entry: LearnerEntry, delay: str) -> Condition:
        title, data, rounds = entered
        model = as_delay(delay)
        if any(isinstance(part, OfRows) for part in parts(model)) and not has_delays(data["name"], data):
            hint = 'give its table the columns of times, decided = "COLUMN" and answered = "COLUMN"'
            raise InvalidInput(f"{title} has no recorded delays, and a delay is {delay}", hint)
        seed = self.seed + TUNING_SEED_OFFSET
        pattern = RunSpec(
            data=data,
            learner=entry.name,
            parameters={},
            delay=delay,
            rounds=rounds,
            runs=entry.runs,
            seed=self.seed,
            sampling=self.sampling,
            checkpoints=self.checkpoints,
            recorded=delays_digest(model),
        )
        # Synthetic data are drawn again for the tuning; others have only one set of rows.
        other = data | {"seed": seed} if is_redrawn(data) else data
        on_other_seeds = msgspec.structs.replace(pattern, data=other, seed=seed, runs=entry.tuning_runs)
        reported, tuning = (
            tuple(msgspec.structs.replace(run, parameters=setting) for setting in entry.settings)
            for run in (pattern, on_other_seeds)
        )
        return Condition(title, entry.title, delay, reported, tuning if entry.is_tuned else (), entry.report)

    def only(self, names: list[str]) -> "Spec":
        """Return the same with these data sets only, or with all if none is named; raise InvalidInput for others."""
        known = titled(self.data)
        for name in names:
            check_choice("a data set of the experiment", name, [title for title, _ in known])
        left = [table | {"title": title} for title, table in known if title in names]
        return msgspec.structs.replace(self, data=left) if names else self

    def scaled(self, share: float) -> "Spec":
        """Return the same with a share of the rounds; raise InvalidInput unless it is in (0, 1]."""
        if not 0 < share <= 1:
            raise InvalidInput.of("share", "in (0, 1]", share)
        check_limits("rounds", self.rounds)

        def of(rounds: int) -> int:
            return max(1, round(rounds * share))

        data = [
            one | {"rounds": of(check_limits("rounds", one["rounds"]))}
            if isinstance(one, dict) and "rounds" in one
            else one
            for one in self.data
        ]
        return msgspec.structs.replace(self, rounds=of(self.rounds), data=data)


def read_spec(path: Path) -> Spec:
    """Return the specification in a TOML file; raise InvalidInput, with the name of the file, if it is not valid."""
    try:
        return parse_spec(path.read_bytes())
    except OSError as problem:
        raise cannot("read", path, problem) from None
    except InvalidInput as problem:
        raise problem.at(str(path)) from None


def built_in(name: str) -> tuple[Spec, bytes]:
    """Return an experiment that comes with the package, such as "paper" or "quick", and its text.

    Examples
    --------
    >>> built_in("paper")[0].name
    'The paper'
    """
    content = files("delaytron.experiments").joinpath("specs", f"{name}.toml").read_bytes()
    return parse_spec(content), content


def parse_spec(content: bytes) -> Spec:
    r"""Return the specification in a text; raise InvalidInput if it is not valid.

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
        raise InvalidInput("it is not text in UTF-8", "save the file as UTF-8") from None
    except RecursionError:
        raise InvalidInput("lists or tables are nested too deeply", EXPECTED) from None
    except InvalidInput:
        raise
    except (ValueError, OverflowError, msgspec.ValidationError) as problem:  # tomllib's errors are ValueErrors
        raise InvalidInput(f"it is no experiment in TOML: {problem}", EXPECTED) from None


def _pooled(condition: Condition, conditions: list[Condition]) -> Condition:
    """Return a condition whose setting is chosen by the tuning runs on all data sets of its kind."""
    kind = kind_of(condition.reported[0].data)
    alike = [
        other.tuning
        for other in conditions
        if (other.title, other.delay) == (condition.title, condition.delay) and kind_of(other.reported[0].data) == kind
    ]
    return condition._replace(pooled=tuple(alike) if condition.tuning else ())
