"""A model that begins with the log of another service: its decisions are adopted, its rewards are the answers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from delaytron.errors import InvalidInput
from delaytron.journal.answers import Answering
from delaytron.journal.tables import has_journal
from delaytron.journal.view import JournalView
from delaytron.model.classes import Name, check_names
from delaytron.model.encoding import make_encoder
from delaytron.model.fact_checks import begin
from delaytron.model.keeper import Keeper
from delaytron.model.log_events import Counts, LogEvents
from delaytron.model.log_survey import LogTerms, Survey, as_text, records_of, survey_logs
from delaytron.model.making import Recipe, check_same, make_core, read_recipe
from delaytron.model.opening import open_keeper, reopen_keeper

FORMAT = "dsjson"

Advance = Callable[[int], object]


class ModelOptions(TypedDict):
    """What makes the model, as `dt.Model` takes it."""

    learner: str
    parameters: dict[str, Any]
    bits: int
    ngrams: int
    expire_after: Any
    on_expiry: str
    seed: int | None


class Imported(NamedTuple):
    """What became of a log: counts, the classes and what tells them apart, and how many decisions are open now.

    `lost` has the ways that failed to tell actions apart, with the first place where they did; `varying` the classes
    whose own features are not always the same. The `warnings` say why the model may make no sense.
    """

    counts: Counts
    terms: LogTerms
    classes: list[Name]
    way: str
    lost: dict[str, str]
    varying: list[Name]
    open: int
    warnings: list[str]

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the policy that was logged, as the log counts rewards."""
        mean = self.counts.mean.value
        return None if mean is None else self.terms.low + mean * (self.terms.high - self.terms.low)

    @property
    def mean_reward_margin(self) -> float | None:
        """Half of its 95 % interval."""
        margin = self.counts.mean.margin
        return None if margin is None else margin * (self.terms.high - self.terms.low)


def import_dsjson(
    logs: Sequence[str | Path],
    journal: str | Path,
    terms: LogTerms,
    options: ModelOptions,
    started: Callable[[int], Advance] | None = None,
) -> Imported:
    """Begin a model with logs of Personalizer or Vowpal Wabbit, in the order of their lines.

    The logs are read twice: first to see what they are, then to write. If the journal is there already, it must have
    been begun in the same way; what it has is passed over, and the import goes on.

    Parameters
    ----------
    logs
        Files of dsjson, plain or compressed, the oldest first.
    journal
        Where the model is kept.
    terms
        How the logs are taken.
    options
        What makes the model.
    started
        Called with the number of lines; returns what is called with how many were just done.
    """
    paths = [_check_file(Path(log)) for log in logs]
    _check_terms(terms)
    answering = make_core(_recipe(["a", "b"], options)).answering
    keeper = None
    if has_journal(journal):
        terms = _stored_terms(journal, terms)
        keeper = reopen_keeper(journal, "full")
    try:
        survey = survey_logs(paths, terms, make_encoder("hashed", options["bits"], options["ngrams"]))
        _raise_if_not_taken(answering, survey)
        keeper = _begun(journal, survey, options) if keeper is None else _extended(keeper, journal, survey, options)
        keeper.warm_up()
        advance = (lambda _: None) if started is None else started(survey.lines)
        counts = LogEvents(keeper, survey).take((record for _, record in records_of(paths)), advance)
        return _summary(keeper, survey, counts)
    finally:
        if keeper is not None:
            keeper.close()


def _check_file(path: Path) -> Path:
    if path.exists() and not path.is_file():
        raise InvalidInput(
            f"cannot read {str(path)!r}: a log is read twice, so it must be a file; save it to one first"
        )
    return path


def _check_terms(terms: LogTerms) -> None:
    if terms.classes is not None:
        check_names(terms.classes)
    low, high = as_text(terms.low), as_text(terms.high)
    if not terms.low < terms.high:
        raise InvalidInput(f"--reward-scale must be LOW,HIGH with LOW below HIGH, got {low},{high}")
    if terms.default is not None and not terms.low <= terms.default <= terms.high:
        raise InvalidInput(f"--default-reward must be from {low} to {high}, got {as_text(terms.default)}")


def _recipe(classes: Sequence[Name], options: ModelOptions) -> Recipe:
    shape = {"features": "hashed", "bits": options["bits"], "ngrams": options["ngrams"]}
    waiting = {"expire_after": options["expire_after"], "on_expiry": options["on_expiry"]}
    return read_recipe(classes, options["learner"], shape, waiting, options["seed"], options["parameters"])


def _origin(terms: LogTerms, way: str | None) -> dict[str, str | None]:
    """Return what a journal keeps of how its import was begun, by the names of the options."""
    return {
        "format": FORMAT,
        "action": way,
        "reward-scale": f"{as_text(terms.low)},{as_text(terms.high)}",
        "default-reward": None if terms.default is None else as_text(terms.default),
        "action-features": "yes" if terms.action_features else None,
    }


def _stored_terms(journal: str | Path, terms: LogTerms) -> LogTerms:
    """Return the terms with which an import goes on; raise if the journal was begun in another way."""
    with JournalView(journal) as view:
        begin(view)
        stored = json.loads(view.config).get("import")
    if not isinstance(stored, dict):
        raise InvalidInput(f"{journal} is there already, and was not begun by an import; give another --journal")
    for name, value in _origin(terms, terms.action or stored.get("action")).items():
        if stored.get(name) != value:
            there, here = (
                f"without --{name}" if v is None else f"with --{name} {v}" for v in (stored.get(name), value)
            )
            raise InvalidInput(f"{journal} was begun {there}, not {here}; give the same, or another --journal")
    return terms._replace(action=stored.get("action"))


def _raise_if_not_taken(answering: Answering, survey: Survey) -> None:
    """Raise if the learner cannot take the answers of a log."""
    if answering.told == "label":
        raise InvalidInput("this learner wants to be told the right class, and a log has rewards; take another one")
    if survey.terms.default is not None:
        survey.count_reward(survey.terms.default, "--default-reward")
    if not answering.rewards and survey.between is not None:
        reward, place = survey.between
        raise InvalidInput(
            f"{place}: this learner takes right or wrong only, got the reward {as_text(reward)}; take another learner"
        )


def _begun(journal: str | Path, survey: Survey, options: ModelOptions) -> Keeper:
    """Make the journal."""
    return open_keeper(
        _recipe(survey.classes(), options), journal, "full", {"import": _origin(survey.terms, survey.way)}
    )


def _extended(keeper: Keeper, journal: str | Path, survey: Survey, options: ModelOptions) -> Keeper:
    """Go on with a journal; classes that it does not have are added."""
    check_same(keeper.recipe, _recipe(keeper.recipe.asked["classes"], options), journal)
    for name in survey.classes():
        if name not in keeper.core.classes.names:
            keeper.run(lambda now, name=name: keeper.add_class(name, now))  # type: ignore[misc]
    return keeper


def _summary(keeper: Keeper, survey: Survey, counts: Counts) -> Imported:
    varying = [name for name in survey.named.features if name in survey.named.varying]
    names = list(keeper.core.classes.names)
    actions, waiting = survey.actions, len(keeper.core.open)
    return Imported(counts, survey.terms, names, survey.way, actions.lost, varying, waiting, actions.doubts)
