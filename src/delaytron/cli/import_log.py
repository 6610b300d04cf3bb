"""`delaytron import`: a model that starts from the log of Personalizer or Vowpal Wabbit."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, cast

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from delaytron.checks import check_choice, check_number
from delaytron.cli.documents import ImportDocument
from delaytron.cli.journal import started_bar
from delaytron.cli.options import (
    WITHIN_DEFAULT,
    WITHIN_HELP,
    Action,
    Json,
    OnExpiry,
    option_spelling,
    print_notes,
    read_assignments,
    read_scale,
    split_names,
)
from delaytron.cli.outputs import busy, new_table, show
from delaytron.errors import InvalidInput, spelled
from delaytron.formats import with_margin
from delaytron.journal.database import has_journal
from delaytron.journal.ids import check_id
from delaytron.journal.view import JournalView
from delaytron.learners import DEFAULT_LEARNER, LEARNERS
from delaytron.learners.arguments import own_parameters
from delaytron.logs.events import EventTerms, Reading, as_text, check_scale, read_with_counts
from delaytron.model.classes import Name, check_names
from delaytron.model.encoders import FeatureEncoder, make_encoder
from delaytron.model.engine import open_engine, reopen_engine
from delaytron.model.log_import import Advance, Learned, check_answers, learn_from
from delaytron.model.recipe import Recipe, check_same, read_recipe
from delaytron.model.state import State
from delaytron.model.verify import begin

FORMAT = "dsjson"
HARMLESS = ("other", "not_activated", "other_class")  # what a strict import leaves out, too


class ModelOptions(TypedDict):
    """Arguments of `dt.Model`."""

    learner: str
    parameters: dict[str, Any]
    bits: int
    ngrams: int
    expire_after: Any
    on_expiry: str
    correct_within: Any
    seed: int | None


class Imported(NamedTuple):
    """The lines that were read and what was learned from them; the classes and open decisions of the model afterwards.

    `dropped` counts decisions with a weight, kept by the other service when it dropped similar ones (pdrop).
    """

    reading: Reading
    learned: Learned
    classes: list[Name]
    open: int
    dropped: int

    @property
    def omitted(self) -> Counter[str]:
        """The number of lines that were left out, by reason."""
        return self.reading.omitted + Counter(self.learned.omitted)

    @property
    def unused_answers(self) -> Counter[str]:
        """The number of outcomes that were not used, by reason."""
        return self.reading.unused_outcomes + Counter(self.learned.unused_answers)

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the logged policy, in the scale of the log."""
        mean, terms = self.learned.mean_reward, self.reading.terms
        return None if mean is None else terms.low + mean * (terms.high - terms.low)

    @property
    def mean_reward_margin(self) -> float | None:
        """Half the width of its 95 % interval."""
        margin, terms = self.learned.mean_reward_margin, self.reading.terms
        return None if margin is None else margin * (terms.high - terms.low)

    @property
    def varying(self) -> list[Name]:
        """The classes whose own features are not the same in all events."""
        named = self.reading.named
        return [name for name in named.features if name in named.varying]


def import_dsjson(
    logs: Sequence[str | Path],
    journal: str | Path,
    terms: EventTerms,
    options: ModelOptions,
    strict: bool = False,
    started: Callable[[int], Advance] | None = None,
) -> Imported:
    """Let the model of a journal learn from logs of Personalizer or Vowpal Wabbit, and return what was done.

    A journal that exists must have been created by an import with the same options; new classes are added to its
    model, and decisions that it has already are not recorded again. Raises InvalidInput if the logs or the options
    cannot be used; then no journal is created.

    Parameters
    ----------
    logs
        Files of dsjson, plain or compressed, the oldest first.
    journal
        Where the model is kept.
    terms
        How the logs are read; `classes` are texts.
    options
        The arguments of the model.
    strict
        Raise at the first line that would be left out, before anything is written.
    started
        Called with the number of decisions; returns the callback for the number of those just recorded.
    """
    check_scale((terms.low, terms.high), terms.default)
    if terms.classes is not None:
        check_names(terms.classes)
    answering = State.new(_recipe(["a", "b"], options)).answering
    terms = terms._replace(logged_names=True, check_range=True)
    if strict:
        encoder = make_encoder("hashed", options["bits"], options["ngrams"])
        terms = terms._replace(skipped=HARMLESS, hint="fix it, or leave it out: run without --strict")
        terms = terms._replace(check=partial(_why_unusable, encoder))
    engine = None
    if has_journal(journal):
        terms = terms._replace(action=_same_origin(journal, terms))
        engine = reopen_engine(journal, "full")  # before the logs are read: fails early if another process owns it
    try:
        log, reading = read_with_counts([Path(path) for path in logs], terms)
        if not answering.rewards and answering.feedback_type != "label" and reading.between is not None:
            reward, place = reading.between  # `check_answers` would refuse it, too, without the line
            problem = f"{place}: this learner takes right or wrong only, got the reward {as_text(reward)}"
            raise InvalidInput(problem, "take another --learner")
        check_answers(answering, log)
        if engine is None:
            origin = {"import": _origin(terms, reading.names.way)}
            engine = open_engine(_recipe(log.classes, options), journal, "full", origin)
        else:
            check_same(engine.recipe, _recipe(engine.recipe.asked["classes"], options), journal)
            known = {str(name) for name in engine.state.classes.names}
            for name in log.classes:
                if str(name) not in known:
                    engine.run(partial(engine.add_class, name=name))
        learned = learn_from(engine, log, "", True, started)
        dropped = 0 if log.weights is None else int((log.weights != 1.0).sum())
        return Imported(reading, learned, list(engine.state.classes.names), engine.state.pending, dropped)
    finally:
        if engine is not None:
            engine.close()


def _recipe(classes: Sequence[Name], options: ModelOptions) -> Recipe:
    shape = {"features": "hashed", "bits": options["bits"], "ngrams": options["ngrams"]}
    waiting = {name: options[name] for name in ("expire_after", "on_expiry", "correct_within")}
    return read_recipe(classes, options["learner"], shape, waiting, options["seed"], options["parameters"])


def _why_unusable(encoder: FeatureEncoder, id: str, features: dict[str, Any]) -> tuple[str, str] | None:
    """Return why an event cannot be recorded, as a word and a text; None if it can."""
    try:
        check_id(id)
    except InvalidInput as problem:
        return "bad_id", str(problem)
    try:
        encoder.encode(features)
    except InvalidInput as problem:
        return "features", str(problem)
    return None


def _origin(terms: EventTerms, way: str | None) -> dict[str, str | None]:
    """Return the options of an import that are stored in its journal, by their flags."""
    return {
        "format": FORMAT,
        "action": way,
        "reward-scale": f"{as_text(terms.low)},{as_text(terms.high)}",
        "default-reward": None if terms.default is None else as_text(terms.default),
        "action-features": "yes" if terms.action_features == "all" else None,
    }


def _same_origin(journal: str | Path, terms: EventTerms) -> str | None:
    """Return the stored --action of a journal; raise unless it was created by an import with the same options."""
    with JournalView(journal) as view:
        begin(view)
        stored = json.loads(view.config).get("import")
    if not isinstance(stored, dict):
        raise InvalidInput(f"{journal} exists, and was not created by an import", "give another --journal")
    for name, value in _origin(terms, terms.action or stored.get("action")).items():
        if stored.get(name) != value:
            there, here = (
                f"without --{name}" if v is None else f"with --{name} {v}" for v in (stored.get(name), value)
            )
            raise InvalidInput(f"{journal} was created {there}, not {here}", "give the same, or another --journal")
    return cast("str | None", stored.get("action"))


EXAMPLES = """
Examples

delaytron import events.dsjson --journal shop.db
delaytron import january.dsjson.gz february.dsjson.gz --journal shop.db
delaytron import events.dsjson --journal shop.db --reward-scale -1,5
"""
COMMON = ("standardize", "ties")  # parameters of every learner that have no option of their own
MOST_DIGITS = 18
OMITTED = {
    "duplicate": "an earlier line has its id",
    "not_activated": "its action was deferred and never taken",
    "other_class": "its action is not among the classes",
    "unnamed_action": "an action has no name of its own",
    "no_label": "it does not say which action was taken",
    "no_probability": "no probability above 0 and up to 1",
    "no_actions": "no list of actions",
    "features": "its features cannot be encoded",
    "bad_id": "its id is not of 1 to 200 bytes",
    "wrong_type": "a value of a wrong type",
    "damaged": "not valid JSON",
    "too_long": "a line longer than 16 MB",
    "other": "neither an event nor an outcome",
}
UNUSED = {
    "no_event": "there is no such event",
    "again": "the event was answered already",
    "conflicting": "the event has another answer",
    "no_number": "the outcome is not a number",
}
MOST_NAMES = 8  # classes that are listed

Logs = Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files of dsjson, plain or .gz, the oldest first.")]
JournalFile = Annotated[
    Path, typer.Option(metavar="FILE", help="The journal of the model; an interrupted import is resumed.")
]
ClassNames = Annotated[
    list[str], typer.Option(metavar="A,B", help="The classes of the model.", show_default="all actions of the log")
]
RewardScale = Annotated[str, typer.Option(metavar="LOW,HIGH", help="Rewards from LOW to HIGH become 0 to 1.")]
DefaultReward = Annotated[
    float | None, typer.Option(help="The reward of events that have none.", show_default="they stay open")
]
ActionFeatures = Annotated[
    bool, typer.Option("--action-features", help="Include the features of all actions in each row.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at a line that would be left out; write nothing.")]
LearnerName = Annotated[str, typer.Option(help="A name from `delaytron learners`.")]
Setting = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner. Repeatable.")
]
Bits = Annotated[int, typer.Option(help="Hashed features have 2**bits columns.")]
Ngrams = Annotated[int, typer.Option(help="Longest phrase of free text that is a feature, in words.")]
ExpireAfter = Annotated[
    str | None,
    typer.Option(
        metavar="N|TIME", help="Decisions, or a time such as 6h or 30d, after which one expires.", show_default="never"
    ),
]
CorrectWithin = Annotated[str | None, typer.Option(metavar="N|TIME", help=WITHIN_HELP, show_default=WITHIN_DEFAULT)]
Seed = Annotated[int | None, typer.Option(help="Random seed of the exploration.", show_default="random")]


def import_log(
    context: typer.Context,
    logs: Logs,
    journal: JournalFile,
    classes: ClassNames = [],  # noqa: B006 - typer does not change it
    action: Action = None,
    reward_scale: RewardScale = "0,1",
    default_reward: DefaultReward = None,
    action_features: ActionFeatures = False,
    strict: Strict = False,
    learner: LearnerName = DEFAULT_LEARNER,
    set_: Setting = [],  # noqa: B006
    bits: Bits = 18,
    ngrams: Ngrams = 1,
    expire_after: ExpireAfter = None,
    on_expiry: OnExpiry = "drop",
    correct_within: CorrectWithin = None,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Start a model from the log of Azure Personalizer or Vowpal Wabbit.

    Every event of the log becomes a decision of the model with the id EventId
    and the logged probability; its reward, in whichever line, is the answer.
    Lines that cannot be used are left out and counted.
    """
    low, high = read_scale(reward_scale)
    default = None if default_reward is None else check_number("--default-reward", default_reward)
    names = tuple(split_names(classes)) or None
    terms = EventTerms(action, names, low, high, default, "all" if action_features else "none")
    parameters = read_assignments(set_)
    known = (*own_parameters(LEARNERS[check_choice("learner", learner, LEARNERS)]), *COMMON)
    for name, values in parameters.items():
        check_choice(f"a parameter of {learner}", name, known)
        if len(values) != 1:
            raise InvalidInput(f"--set must have one value for {name}, got {len(values)}", "give one of them")
    options: ModelOptions = {
        "learner": learner,
        "parameters": {name: values[0] for name, values in parameters.items()},
        "bits": bits,
        "ngrams": ngrams,
        "expire_after": _read_wait(expire_after),
        "on_expiry": on_expiry,
        "correct_within": _read_wait(correct_within),
        "seed": seed,
    }
    with ExitStack() as bars, ExitStack() as reading:
        reading.enter_context(busy(f"reading {', '.join(map(str, logs))}"))

        def started(total: int) -> Any:
            reading.close()
            return started_bar(bars, "decisions")(total)

        found = import_dsjson(logs, journal, terms, options, strict, started)
    warnings = [spelled(doubt, option_spelling(context.command.params)) for doubt in found.reading.names.doubts]
    learned = found.learned
    document = ImportDocument(
        journal=str(journal),
        logs=[str(log) for log in logs],
        events=found.reading.events,
        imported=learned.recorded,
        imported_before=learned.recorded_before,
        answered=learned.answered,
        answered_after_expiry=learned.answered_after_expiry,
        open=found.open,
        omitted=_in_order(found.omitted, OMITTED),
        unused_answers=_in_order(found.unused_answers, UNUSED),
        class_names=list(found.classes),
        classes_by=found.reading.names.way,
        varying_actions=len(found.varying),
        reward_scale=[low, high],
        mean_reward=found.mean_reward,
        mean_reward_margin=found.mean_reward_margin,
        warnings=warnings,
    )
    show(document, Group(*import_parts(journal, found)), json)
    print_notes(warnings, "warning")


def _read_wait(text: str | None) -> int | str | None:
    """Return a number of decisions as an integer, and other texts as they are, which the model reads."""
    return int(text) if text is not None and text.isdecimal() and len(text) < MOST_DIGITS else text


def _in_order(counts: Counter[str], words: dict[str, str]) -> dict[str, int]:
    return {reason: counts[reason] for reason in words if counts[reason]}


def import_parts(journal: Path, found: Imported) -> Iterator[RenderableType]:
    """Iterate over the table of counts and the notes below it: the classes, what was left out and why."""
    reading, learned = found.reading, found.learned
    table = new_table("log", "")
    table.columns[1].justify = "right"
    table.add_row("events imported", f"{learned.recorded:,}")
    if learned.recorded_before:
        table.add_row("events that were in the journal", f"{learned.recorded_before:,}")
    table.add_row("events answered", f"{learned.answered:,}")
    table.add_row("decisions open now", f"{found.open:,}")
    table.add_section()
    for reason, number in _in_order(found.omitted, OMITTED).items():
        table.add_row(f"left out: {OMITTED[reason]}", f"{number:,}")
    for reason, number in _in_order(found.unused_answers, UNUSED).items():
        table.add_row(f"answers not used: {UNUSED[reason]}", f"{number:,}")
    table.add_section()
    table.add_row(f"classes, by {escape(reading.names.way)}", f"{len(found.classes):,}")
    mean = "-" if found.mean_reward is None else with_margin(found.mean_reward, found.mean_reward_margin)
    table.add_row("mean reward of the logged policy", mean)
    yield table
    names = ", ".join(map(str, found.classes[:MOST_NAMES])) + ", ..." * (len(found.classes) > MOST_NAMES)
    yield Text(f"classes, identified by {reading.names.way}: {names}")
    for way, place in reading.names.lost.items():
        yield Text(f"not by {way}: {place} has an action without one of its own")
    if found.varying:
        count = len(found.varying)
        those = f"the own features of {count:,} {'class' if count == 1 else 'classes'} vary between events"
        if reading.terms.action_features == "all":
            yield Text(f"{those}; rows have them under _action")
        else:
            yield Text(f"{those}, and are left out; --action-features adds them to the rows")
    if reading.unnamed:
        yield Text(f"{reading.unnamed:,} events have no EventId; their ids are their file and line")
    if reading.apprenticed:
        chosen = f"{reading.apprenticed:,} rewards say whether the service chose as its caller did"
        yield Text(f"{chosen} (apprentice mode)")
    if found.dropped:
        yield Text(f"{found.dropped:,} events have a weight, since similar ones were dropped (pdrop)")
    if late := learned.answered_after_expiry:
        yield Text(f"{late:,} answers came after their decisions had expired: they are kept, and not learned from")
    yield Text(f"the model is in {journal}: dt.Model.open({str(journal)!r})")
