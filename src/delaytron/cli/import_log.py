"""`delaytron import`: a model that begins with the log of Personalizer or Vowpal Wabbit."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group

from delaytron.checks import check_choice, check_number
from delaytron.cli.import_tables import import_document, import_notes, import_table
from delaytron.cli.journal import started_bar
from delaytron.cli.log_files import Action, read_scale
from delaytron.cli.options import Json, read_assignments, split_names, tell
from delaytron.cli.outputs import busy, show
from delaytron.errors import InvalidInput
from delaytron.learners import DEFAULT_LEARNER, LEARNERS
from delaytron.learners.options import own_parameters

EXAMPLES = """
Examples

delaytron import events.dsjson --journal shop.db
delaytron import january.dsjson.gz february.dsjson.gz --journal shop.db
delaytron import events.dsjson --journal shop.db --reward-scale -1,5
"""
COMMON = ("average", "standardize", "ties")  # what other parameters a learner may have
MOST_DIGITS = 18

Logs = Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files of dsjson, plain or .gz, the oldest first.")]
JournalFile = Annotated[
    Path, typer.Option(metavar="FILE", help="Where the model is kept; an import that broke off goes on there.")
]
ClassNames = Annotated[
    list[str], typer.Option(metavar="A,B", help="The classes of the model.", show_default="all actions of the log")
]
RewardScale = Annotated[str, typer.Option(metavar="LOW,HIGH", help="Rewards from LOW to HIGH become 0 to 1.")]
DefaultReward = Annotated[
    float | None, typer.Option(help="The reward of events that have none.", show_default="they stay open")
]
ActionFeatures = Annotated[
    bool, typer.Option("--action-features", help="Let rows have the own features of all actions, too.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at a line that would be left out; nothing is written.")]
LearnerName = Annotated[str, typer.Option(help="A name from `delaytron learners`.")]
Setting = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter of it. Repeatable.")]
Bits = Annotated[int, typer.Option(help="Hashed features have 2**bits places.")]
Ngrams = Annotated[int, typer.Option(help="Of free text, phrases of up to so many words count.")]
ExpireAfter = Annotated[
    str | None, typer.Option(metavar="N|TIME", help="Wait for an answer for so many decisions, or for 6h, 30d.")
]
Expiry = Annotated[str, typer.Option(help="What no answer in time means: drop (nothing) or wrong (until corrected).")]
Seed = Annotated[int | None, typer.Option(help="Fixes the exploration of the model.", show_default="random")]


def import_log(
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
    on_expiry: Expiry = "drop",
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Begin a model with the log of Azure Personalizer or Vowpal Wabbit.

    Every event of the log becomes a decision of the model under its EventId,
    with its probability; its reward is the answer, in whichever line it stands.
    Lines that cannot be used are left out and counted.
    """
    from delaytron.model.log_import import import_dsjson  # noqa: PLC0415 - `--help` needs none of it
    from delaytron.model.log_survey import LogTerms  # noqa: PLC0415

    low, high = read_scale(reward_scale)
    default = None if default_reward is None else check_number("--default-reward", default_reward)
    names = tuple(split_names(classes)) or None
    terms = LogTerms(action, names, low, high, default, action_features, strict)
    options: Any = {
        "learner": learner,
        "parameters": _read_parameters(learner, set_),
        "bits": bits,
        "ngrams": ngrams,
        "expire_after": _read_wait(expire_after),
        "on_expiry": on_expiry,
        "seed": seed,
    }
    with ExitStack() as bars, ExitStack() as reading:
        reading.enter_context(busy(f"reading {', '.join(map(str, logs))}"))

        def started(total: int) -> Any:
            reading.close()
            return started_bar(bars, "lines")(total)

        found = import_dsjson(logs, journal, terms, options, started)
    document = import_document(logs, journal, found)
    show(document, Group(import_table(found), *import_notes(journal, found)), json)
    tell(document["warnings"], "warning")


def _read_parameters(learner: str, texts: list[str]) -> dict[str, Any]:
    found = read_assignments(texts)
    known = (*own_parameters(LEARNERS[check_choice("learner", learner, LEARNERS)]), *COMMON)
    for name, values in found.items():
        check_choice(f"a parameter of {learner}", name, known)
        if len(values) != 1:
            raise InvalidInput(f"--set must have one value for {name}, got {len(values)}")
    return {name: values[0] for name, values in found.items()}


def _read_wait(text: str | None) -> int | str | None:
    """Return a number of decisions as one; what else it may be is read by the model."""
    return int(text) if text is not None and text.isdecimal() and len(text) < MOST_DIGITS else text
