"""From what a user asks for to a learner, an encoder and names; and what of it a journal keeps."""

import json
from typing import Any, NamedTuple

from delaytron.checks import check_choice, did_you_mean, shown
from delaytron.errors import InvalidInput
from delaytron.learners import LEARNERS, Learner
from delaytron.learners.files import Described, describe, make
from delaytron.learners.options import COMMON, own_parameters
from delaytron.model.classes import Classes, check_names
from delaytron.model.core import Core
from delaytron.model.encoding import FeatureEncoder, make_encoder
from delaytron.model.waiting import Wait, as_given, read_wait
from delaytron.records import NEVER

OWN = (  # what a model takes itself
    *("classes", "learner", "features", "bits", "ngrams"),
    *("journal", "durability", "expire_after", "on_expiry", "seed"),
)
BY_MODEL = NEVER - 1  # the rounds after which a learner itself would stop waiting: the model does it before


class Recipe(NamedTuple):
    """All that makes a model: `asked` is what was asked for, `learner` the learner with all its settings."""

    asked: dict[str, Any]
    learner: Described

    def as_bytes(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(self._asdict(), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Recipe":
        """Read it."""
        return cls(**json.loads(stored))


def read_recipe(
    classes: Any,
    learner: Any,
    features: dict[str, Any],
    waiting: dict[str, Any],
    seed: Any,
    parameters: dict[str, Any],
) -> Recipe:
    """Check what a user asks for; return it with all settings of the learner."""
    names = check_names(classes)
    encoder = make_encoder(**features)
    wait = read_wait(waiting["expire_after"])
    as_wrong = check_choice("on_expiry", waiting["on_expiry"], ("drop", "wrong")) == "wrong"
    if as_wrong and wait is None:
        raise InvalidInput("on_expiry='wrong' needs expire_after=..., after which no answer means wrong")
    name = learner if not isinstance(learner, type) else getattr(learner, "name", "")
    cls: Any = LEARNERS[check_choice("learner", name, LEARNERS)]
    if not cls.rule.restricts:
        raise InvalidInput(
            f"{name} plays sets of labels, a Model chooses one class; take another learner, or dt.{cls.__name__}"
        )
    _check_parameters(cls, parameters)
    expiry = {"expire_after": BY_MODEL, "on_expiry": "wrong"} if as_wrong else {}
    made = cls(len(names), encoder.n_features, seed=seed, **expiry, **parameters)
    settings = made.settings()
    asked = {
        "classes": names,
        "learner": cls.name,
        "parameters": {name: settings[name] for name in parameters},
        **encoder.settings(),
        "expire_after": None if wait is None else wait._asdict(),
        "on_expiry": waiting["on_expiry"],
        "seed": None if seed is None else made.seed,
    }
    return Recipe(json.loads(json.dumps(asked)), json.loads(json.dumps(describe(made))))


def _check_parameters(cls: type[Learner], parameters: dict[str, Any]) -> None:
    """Raise if the learner does not take them, or the model has its own."""
    taken = [name for name in (*own_parameters(cls), *COMMON) if name not in OWN]
    for name in parameters:
        if name not in taken:
            hint = did_you_mean(name, [*OWN, *taken]) or f"; {cls.name} takes {', '.join(taken)}"
            raise TypeError(f"Model() got an unexpected keyword argument {name!r}{hint}")


def make_core(recipe: Recipe) -> Core:
    """Return a model that knows nothing yet."""
    asked = recipe.asked
    wait = None if asked["expire_after"] is None else Wait(**asked["expire_after"])
    learner: Any = make(recipe.learner, with_state=True)
    encoder = _encoder_of(asked)
    learner._reset_state(encoder.sparse)
    return Core(learner, encoder, Classes(asked["classes"]), wait, asked["on_expiry"] == "wrong")


def _encoder_of(asked: dict[str, Any]) -> FeatureEncoder:
    return make_encoder(asked["features"], **{name: asked[name] for name in ("bits", "ngrams") if name in asked})


def check_same(stored: Recipe, asked: Recipe, path: Any) -> None:
    """Raise if a journal was made for another model; a seed that is not given is that of the journal."""
    for name, value in asked.asked.items():
        if value != stored.asked[name] and not (name == "seed" and value is None):
            both = (stored.asked[name], value)
            there, here = map(as_given, both) if name == "expire_after" else both
            raise InvalidInput(
                f"{path} was made with {name}={shown(there)}, not {shown(here)}; "
                "give the same, use dt.Model.open, or give another file"
            )
