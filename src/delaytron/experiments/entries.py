"""The learners of a specification: their tables, checked and with the defaults filled in."""

from math import prod
from typing import Any, NamedTuple

from delaytron.checks import check_choice, check_integer
from delaytron.errors import InvalidInput
from delaytron.experiments.runs import Options
from delaytron.simulation.simulate import grid, learner_class

OWN = ("name", "title", "delays", "runs", "tuning_runs", "report")  # keys of a learner's table that are no parameters
REPORTS = ("all", "chosen")
SMALL = (10, 1)  # classes and features of a learner that is made only to check its parameters
LIMITS = {  # least and most
    "rounds": (1, 2**32 - 2),  # their numbers have 32 bits
    "runs": (1, 100_000),
    "tuning_runs": (0, 100_000),
    "seed": (0, 2**62),
    "checkpoints": (1, 10_000),
}
MOST_SETTINGS = 10_000  # of one learner


class LearnerEntry(NamedTuple):
    """A learner of an experiment with all its settings; without a name, what is shared by all."""

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


def read_entry(table: Options, shared: LearnerEntry) -> LearnerEntry:
    """Return a learner's table with what is shared where it has nothing of its own; raise if it cannot be played."""
    name = table.get("name")
    if not isinstance(name, str):
        raise InvalidInput("a learner must be a table with a name that is text")
    title = table.get("title", name)
    if not isinstance(title, str):
        raise InvalidInput(f"title of {name} must be text, got {_kind(title)}")
    check_values(title, {key: value for key, value in table.items() if key != "delays"})
    entry = LearnerEntry(
        delays=_delays(title, table["delays"]) if "delays" in table else shared.delays,
        runs=check_limits("runs", table.get("runs", shared.runs)),
        tuning_runs=check_limits("tuning_runs", table.get("tuning_runs", shared.tuning_runs)),
        report=check_choice("report", table.get("report", shared.report), REPORTS),
        name=name,
        title=title,
        settings=_settings(name, title, {key: value for key, value in table.items() if key not in OWN}),
    )
    if entry.report == "chosen" and not entry.tuning_runs and len(entry.settings) > 1:
        raise InvalidInput(f"report = 'chosen' needs tuning_runs, which choose among the settings of {title}")
    return entry


def check_limits(name: str, value: Any) -> int:
    """Return an integer that is neither too small nor too large for what it counts."""
    least, most = LIMITS[name]
    if check_integer(name, value, at_least=least) > most:
        raise InvalidInput(f"{name} must be at most {most:,}, got {value if value < 2**64 else 'far more'}")
    return int(value)


def check_values(what: str, options: Options) -> None:
    """Raise if a value is neither a number, text, true or false, nor a list of these or of pairs of them."""
    for key, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            for part in one if isinstance(one, list) else [one]:
                if not isinstance(part, bool | int | float | str):
                    raise InvalidInput(
                        f"{key} of {what} must be a number, text, true or false, or a list of them; got {_kind(part)}"
                    )


def _delays(title: str, delays: Any) -> tuple[str, ...]:
    if not isinstance(delays, list | tuple):
        raise InvalidInput(f"delays of {title} must be a list, got {_kind(delays)}")
    for delay in delays:
        if isinstance(delay, bool) or not isinstance(delay, int | str):
            raise InvalidInput(f"delays of {title} must be integers or text, got {_kind(delay)}")
    return tuple(map(str, delays))


def _settings(name: str, title: str, parameters: Options) -> list[Options]:
    """Return every combination of the parameters; raise if the learner cannot have one of them."""
    cls: Any = learner_class(name)
    count = prod(len(value) for value in parameters.values() if isinstance(value, list) and value)
    if count > MOST_SETTINGS:
        raise InvalidInput(f"{title} must have at most {MOST_SETTINGS:,} settings, got {count:,}")
    settings = grid(cls, parameters)
    for setting in settings:
        cls(*SMALL, seed=0, **setting)
    return settings


def _kind(value: Any) -> str:
    """Return in a word what a value of TOML is, however large it is."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:40] if isinstance(value, str | int | float) else f"a {type(value).__name__}"
