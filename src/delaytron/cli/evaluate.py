"""`delaytron evaluate`: off-policy estimates on a log, for policies that are given by name or file."""

from dataclasses import replace
from math import isnan
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from delaytron.checks import not_there, reason_of
from delaytron.cli.documents import EvaluationDocument
from delaytron.cli.options import Action, Json, option_spelling, print_notes, read_scale
from delaytron.cli.outputs import busy, new_table, progress_bar, show, targets, write
from delaytron.errors import InvalidInput, Setting, Spelling, spelled
from delaytron.evaluation.estimators import ESTIMATORS
from delaytron.evaluation.evaluate import Evaluations, estimate
from delaytron.evaluation.policies import read_name
from delaytron.formats import versions
from delaytron.learners import LEARNERS

if TYPE_CHECKING:
    from delaytron.logs.log import Log

COMPRESSED = (".gz", ".bz2", ".xz")
DSJSON = (".dsjson", ".json", ".jsonl", ".log")
SQLITE = b"SQLite format 3\0"  # how a journal begins
NOTES = {"replay": "the effective size is the number of decisions that were accepted"}


def read_log(
    path: Path, reward_scale: str, action: str | None, skip_bad: bool, spelling: Spelling
) -> "tuple[Log, list[str]]":
    """Return a log, read in the format of its ending (`log.csv.gz` is CSV), and warnings about it.

    `reward_scale`, `action` and `skip_bad` are for dsjson, which has costs, lists of actions and unusable lines. Raises
    InvalidInput if there is no such file, or it is not a log.
    """
    from delaytron import logs  # noqa: PLC0415 - `--help` needs none of it
    from delaytron.logs.events import SKIPPED_ALWAYS, EventTerms, check_scale, read_with_counts  # noqa: PLC0415

    if path.is_dir():
        raise InvalidInput(f"cannot read {str(path)!r}: it is a folder", "name a file in it")
    if not path.is_file():
        raise InvalidInput(f"cannot read {str(path)!r}: there is no such file", not_there(path))
    ending = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
    if ending == ".parquet":
        return logs.read_parquet(path), []
    if ending == ".csv":
        return logs.read_open_bandit(path), []
    if ending in DSJSON:
        low, high = check_scale(read_scale(reward_scale), None)
        skipped = None if skip_bad else SKIPPED_ALWAYS
        hint = (Setting("skip_bad", "True"), " leaves such lines out")
        log, found = read_with_counts([path], EventTerms(action, None, low, high, skipped=skipped, hint=hint))
        return log, [f"{path}: {spelled(doubt, spelling)}" for doubt in found.names.doubts]
    with path.open("rb") as file:
        if file.read(len(SQLITE)) == SQLITE:
            export = f"delaytron export {quote(str(path))} {quote(str(path.with_suffix('.parquet')))}"
            raise InvalidInput(f"{path} is a journal", f"write its log first: {export}")
    endings = f".parquet, .csv, or of dsjson {', '.join(DSJSON)}"
    raise InvalidInput(f"a log must end in {endings}, got {str(path)!r}", "convert it, or rename it")


def read_policy_text(text: str) -> Any:
    """Return a policy as `dt.evaluate` takes it; raise InvalidInput if its file or its parameters cannot be read.

    Examples
    --------
    >>> read_policy_text("gap:gamma=0.1,eta=2"), read_policy_text("uniform")
    ('gap:gamma=0.1,eta=2', 'uniform')
    """
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as problem:
            raise InvalidInput(
                f"{text} cannot be read as an array of probabilities: {reason_of(problem)}",
                "write it with numpy.save, a row for each decision and a column for each class",
            ) from None
    if text.partition(":")[0] in LEARNERS:
        read_name(text, {})  # raises before the log is played
        return text
    if Path(text).is_file():
        from delaytron.model.model import load  # noqa: PLC0415 - only where needed

        return load(text)
    return text


def evaluation_table(found: Evaluations, log: "Log") -> RenderableType:
    """Return the table of estimates, and a line for each warning with the policies that it is about."""
    first = found.entries[0]
    caption = f"{first.method}; {first.n_rounds:,} of {len(log):,} decisions, {first.n_outcomes:,} with an outcome"
    if first.method in NOTES:
        caption += f"\n{NOTES[first.method]}"
    table = new_table("policy", first.quantity, "95 % interval", "effective size", caption=escape(caption))
    for column in table.columns[1:]:
        column.justify = "right"
    warned: dict[str, list[str]] = {}
    for entry in found.entries:
        interval = "-" if isnan(entry.low) else f"{entry.low:.4f} to {entry.high:.4f}"
        table.add_row(escape(entry.policy), f"{entry.value:.4f}", interval, f"{entry.effective_size:,.0f}")
        for message in entry.warnings:
            warned.setdefault(message, []).append(entry.policy)
    lines = (f"warning, {', '.join(policies)}: {message}" for message, policies in warned.items())
    return Group(table, *map(Text, lines))


EXAMPLES = """
Examples

delaytron evaluate log.parquet --policy bandit_logit --policy uniform
delaytron evaluate log.dsjson --policy always:tea --policy logged --method snips
delaytron evaluate log.parquet --policy gap:gamma=0.1 --method replay --output out
delaytron evaluate log.parquet --policy new.safetensors --policy probabilities.npy
delaytron evaluate clicks.parquet --policy uniform --missing 0 --wait 7d --json
"""
POLICY_HELP = (
    "logged, uniform, always:CLASS; a learner that learns from the log, as gap:gamma=0.1,eta=2; a saved learner or "
    "model; or a .npy of probabilities. Repeatable."
)

LogFile = Annotated[
    Path,
    typer.Argument(
        metavar="LOG", help="A log: .parquet, .csv or .dsjson (also .json, .jsonl, .log); text also as .gz."
    ),
]
Policies = Annotated[list[str], typer.Option("--policy", metavar="POLICY", help=POLICY_HELP)]
Method = Annotated[str, typer.Option(help=", ".join(ESTIMATORS) + ".")]
Quantity = Annotated[str, typer.Option(help="reward, or error: 1 - reward.")]
Missing = Annotated[
    float | None,
    typer.Option(
        metavar="REWARD", help="Reward of a decision without an outcome in time.", show_default="it may still come"
    ),
]
Waiting = Annotated[
    str | None, typer.Option(metavar="TIME", help="With --missing: how long an outcome may take, such as 7d.")
]
Clip = Annotated[float | None, typer.Option(help="Largest weight of a decision.", show_default="no limit")]
RewardScale = Annotated[
    str, typer.Option(metavar="LOW,HIGH", help="Of dsjson: rewards from LOW to HIGH become 0 to 1.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Of dsjson: leave out lines that cannot be used.")]
Seed = Annotated[int, typer.Option(help="Random seed of learners that learn from the log, and of replay.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw values and intervals: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line per policy.")]
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write evaluation.csv, evaluation.json and evaluation.png.")
]


def evaluate(
    context: typer.Context,
    log: LogFile,
    policy: Policies,
    method: Method = "dr",
    quantity: Quantity = "reward",
    missing: Missing = None,
    wait: Waiting = None,
    clip: Clip = None,
    reward_scale: RewardScale = "0,1",
    action: Action = None,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    plot: Plot = None,
    csv: Csv = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Estimate what other policies would have earned on a log of decisions with their probabilities.

    Each policy gets a value with its 95 % interval and an effective size: the
    estimate is as certain as the mean of that many decisions of its own. Late
    outcomes are not counted as wrong: those that have come get larger weights
    instead. A learner that is given by its name learns from the log round by
    round; with --method replay it plays, and learns only from the decisions
    that it would have made itself.
    """
    spelling = option_spelling(context.command.params)
    files = targets(plot, csv, output, "evaluation", "evaluation")
    with busy(f"reading {log}"):
        given, warnings = read_log(log, reward_scale, action, skip_bad, spelling)
    print_notes(warnings, "warning")
    asked = [read_policy_text(text) for text in policy]
    options: dict[str, Any] = {"quantity": quantity, "missing": missing, "wait": wait, "clip": clip, "seed": seed}
    with progress_bar(len(given) * len(asked), tenths=False) as advance:
        options |= {"advance": advance or (lambda _: None), "spelling": spelling}
        entries = [
            replace(estimate(given, one, method, **options), policy=text)
            for text, one in zip(policy, asked, strict=True)
        ]
    found = Evaluations(log.name, tuple(entries))
    document = EvaluationDocument(
        log=found.log,
        rounds=len(given),
        classes=given.n_classes,
        evaluations=[entry.row() for entry in found.entries],
        warnings=warnings,
        versions=versions(),
    )
    show(document, evaluation_table(found, given), json)
    write(files, found, document, json)
