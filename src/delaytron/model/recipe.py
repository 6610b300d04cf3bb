"""The recipe of a model: its checked configuration with all settings of the learner, as a journal keeps it."""

import json
import re
from datetime import timedelta
from math import isfinite
from typing import Any, NamedTuple

from delaytron.checks import check_choice, check_integer, did_you_mean
from delaytron.errors import InvalidInput, Setting, shown
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.arguments import COMMON, own_parameters
from delaytron.learners.book import CORRECT_WITHIN, ON_EXPIRY, Expiry
from delaytron.learners.files import Described, describe, make
from delaytron.model.classes import check_names
from delaytron.model.encoders import FeatureEncoder, make_encoder
from delaytron.records import NEVER

OWN = (  # the arguments of a model that are not its learner's
    *("classes", "learner", "features", "bits", "ngrams"),
    *("journal", "durability", "expire_after", "on_expiry", "correct_within", "seed"),
)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
NS = 10**9
LONGEST = 100 * 365 * 86400  # seconds
FORMS = "a number of decisions, a timedelta, or a text such as '30s', '15m', '6h', '7d' or '2w'"


class Wait(NamedTuple):
    """A limit: a number of `rounds`, or a time on the `clock` in ns; the other one is None."""

    rounds: int | None = None
    clock: int | None = None


class Recipe(NamedTuple):
    """The configuration of a model: `asked` as the user gave it, `learner` with all settings of the learner."""

    asked: dict[str, Any]
    learner: Described

    def as_bytes(self) -> bytes:
        """Return the recipe as JSON."""
        return json.dumps(self._asdict(), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Recipe":
        """Return the recipe that `as_bytes` wrote."""
        return cls(**json.loads(stored))

    @classmethod
    def of_config(cls, config: bytes) -> "Recipe":
        """Return the recipe in the configuration of a journal; raise KeyError, TypeError or ValueError without one."""
        return cls(**json.loads(config)["recipe"])

    def check(self) -> None:
        """Raise an error of `UNREADABLE` if no state can be made of it; allocates no arrays."""
        check_names(self.asked["classes"])
        self.new_encoder()
        self.expiry()
        make(self.learner, allocate=False)

    def new_learner(self) -> Learner:
        """Return the learner, untrained."""
        return make(self.learner)

    def new_encoder(self) -> FeatureEncoder:
        """Return the encoder of features, with an empty table of names."""
        asked = self.asked
        return make_encoder(asked["features"], **{name: asked[name] for name in ("bits", "ngrams") if name in asked})

    def expiry(self) -> Expiry:
        """Return when decisions expire, and when those that counted as wrong are released."""
        if self.asked["expire_after"] is None:
            return Expiry()
        wait = Wait(**self.asked["expire_after"])
        within = self.asked["correct_within"]
        released = []
        for name, limit in wait._asdict().items():
            if limit is None:
                released.append(NEVER)
            else:
                released.append(min(NEVER, limit + (CORRECT_WITHIN * limit if within is None else within[name])))
        rounds, clock = (NEVER if limit is None else min(NEVER, limit) for limit in wait)
        return Expiry(rounds, clock, True, *released) if self.asked["on_expiry"] == "wrong" else Expiry(rounds, clock)


def read_recipe(
    classes: Any,
    learner: Any,
    features: dict[str, Any],
    waiting: dict[str, Any],
    seed: Any,
    parameters: dict[str, Any],
) -> Recipe:
    """Return the recipe of a model that a user asks for.

    `features` has the arguments of `make_encoder`, `waiting` those of the expiry, `parameters` those of the learner.
    Raises InvalidInput for a value, and TypeError for a parameter, that the model cannot take.
    """
    names = check_names(classes)
    encoder = make_encoder(**features)
    expiry = _read_waiting(**waiting)
    name = learner if not isinstance(learner, type) else getattr(learner, "name", "")
    cls: Any = LEARNERS[check_choice("learner", name, LEARNERS)]
    if not cls.rule.restricts:
        raise InvalidInput(
            f"{name} plays sets of labels, a Model chooses one class",
            f"choose another learner, or use dt.{cls.__name__} itself",
            parameter="learner",
        )
    if cls.feedback_type == "label" and expiry["on_expiry"] == "wrong":
        raise InvalidInput(
            f"{name} learns from the true label, which a missing answer does not have",
            ("leave out ", Setting("on_expiry", "'wrong'")),
            parameter="on_expiry",
        )
    taken = [each for each in (*own_parameters(cls), *COMMON) if each not in OWN]
    for given in parameters:
        if given not in taken:
            hint = did_you_mean(given, [*OWN, *taken]) or f"{cls.name} takes {', '.join(taken)}"
            raise TypeError(f"Model() got an unexpected keyword argument {given!r}; {hint}")
    made = cls(len(names), encoder.n_features, seed=seed, **parameters)
    settings = made.settings()
    asked = {
        "classes": names,
        "learner": cls.name,
        "parameters": {given: settings[given] for given in parameters},
        **encoder.settings(),
        **expiry,
        "seed": None if seed is None else made.seed,
    }
    # Through JSON and back: `check_same` compares it with what a journal has stored.
    return Recipe(json.loads(json.dumps(asked)), json.loads(json.dumps(describe(made))))


def _read_waiting(expire_after: Any, on_expiry: Any, correct_within: Any) -> dict[str, Any]:
    """Return the checked arguments of the expiry, for JSON; raise InvalidInput if they do not fit together."""
    wait = read_wait("expire_after", expire_after)
    as_wrong = check_choice("on_expiry", on_expiry, ON_EXPIRY) == "wrong"
    if as_wrong and wait is None:
        raise InvalidInput(
            (Setting("on_expiry", "'wrong'"), " needs ", Setting("expire_after", "...")),
            "say after how many decisions, or after which time, no answer means wrong",
            parameter="on_expiry",
        )
    within = read_wait("correct_within", correct_within, at_least=0)
    if within is not None and not as_wrong:
        raise InvalidInput(
            (Setting("correct_within"), " needs ", Setting("on_expiry", "'wrong'")),
            "leave it out: only a decision that counted as wrong can be corrected",
            parameter="correct_within",
        )
    if wait is not None and within is not None and (wait.clock is None) != (within.clock is None):
        if within != Wait(rounds=0):
            raise InvalidInput.of(
                "correct_within",
                "a number of decisions" if wait.clock is None else "a time",
                correct_within,
                ("give it in the unit of ", Setting("expire_after", shown(expire_after))),
            )
        within = Wait(clock=0)  # 0 needs no unit
    return {
        "expire_after": None if wait is None else wait._asdict(),
        "on_expiry": on_expiry,
        "correct_within": None if within is None else within._asdict(),
    }


def check_same(stored: Recipe, asked: Recipe, path: Any) -> None:
    """Raise InvalidInput if a journal was made for another model; a seed that is not given is that of the journal."""
    for name, value in asked.asked.items():
        if value != stored.asked.get(name) and not (name == "seed" and value is None):
            both = (stored.asked.get(name), value)
            there, here = map(as_given, both) if name in ("expire_after", "correct_within") else both
            raise InvalidInput(
                (f"{path} was made with ", Setting(name, shown(there)), f", not {shown(here)}"),
                "give the same, use dt.Model.open, or give another file",
                parameter=name,
            )


def read_wait(name: str, given: Any, at_least: int = 1) -> Wait | None:
    """Return a limit that a user gives, None for None; raise InvalidInput for anything that is no limit.

    Examples
    --------
    >>> read_wait("expire_after", "6h"), read_wait("expire_after", 500)
    (Wait(rounds=None, clock=21600000000000), Wait(rounds=500, clock=None))
    """
    if given is None:
        return None
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, str):
        parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", given)
        if parts is None:
            raise InvalidInput.of(name, FORMS, given)
        seconds = float(parts[1]) * SECONDS[parts[2]]
    else:
        try:
            return Wait(rounds=check_integer(name, given, at_least))
        except InvalidInput:
            raise InvalidInput.of(name, FORMS, given) from None
    if not isfinite(seconds) or not 0 <= seconds <= LONGEST or (seconds == 0 and at_least > 0):
        low = "above 0" if at_least > 0 else "at least 0"
        raise InvalidInput.of(name, f"{low} and at most 100 years", given)
    return Wait(clock=max(1, round(seconds * NS)) if seconds else 0)


def as_given(stored: Any) -> int | str | None:
    """Return a stored limit as a user gives it.

    Examples
    --------
    >>> as_given({"rounds": None, "clock": 21600000000000}), as_given(None)
    ('21600s', None)
    """
    if stored is None:
        return None
    rounds, clock = Wait(**stored)
    return rounds if clock is None else f"{clock / NS:.10g}s"
