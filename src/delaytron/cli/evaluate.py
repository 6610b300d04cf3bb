"""`delaytron evaluate`: what other policies would have done on a log."""

from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from delaytron.cli.documents import EvaluationDocument
from delaytron.cli.evaluate_tables import evaluation_table
from delaytron.cli.log_files import Action, read_log, read_policy_text
from delaytron.cli.options import Json, tell
from delaytron.cli.outputs import busy, progress_bar, show, targets, write
from delaytron.evaluation.estimators import ESTIMATORS
from delaytron.evaluation.results import Evaluation, Evaluations, EvaluationWarning
from delaytron.formats import versions

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

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="A log: .parquet, .dsjson or .json (also .gz), .csv.")]
Policies = Annotated[list[str], typer.Option("--policy", metavar="POLICY", help=POLICY_HELP)]
Method = Annotated[str, typer.Option(help=", ".join(ESTIMATORS) + ".")]
Quantity = Annotated[str, typer.Option(help="reward, or error: 1 - reward.")]
Missing = Annotated[
    float | None, typer.Option(metavar="REWARD", help="What no outcome in time means.", show_default="it may yet come")
]
Waiting = Annotated[str | None, typer.Option(metavar="TIME", help="With --missing: how long an outcome may take, 7d.")]
Clip = Annotated[float | None, typer.Option(help="The largest weight.", show_default="no limit")]
RewardScale = Annotated[
    str, typer.Option(metavar="LOW,HIGH", help="Of dsjson: rewards from LOW to HIGH become 0 to 1.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Of dsjson: leave out lines that cannot be used.")]
Seed = Annotated[int, typer.Option(help="Of learners that learn from the log, and of the rejections of replay.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw values and intervals: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line per policy.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="Write evaluation.csv, evaluation.json, and .png.")]


def evaluate(
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

    Each policy gets a value with its 95 % interval, and the effective size: how
    many decisions of its own would tell as much. Outcomes that are late are not
    counted as wrong: those that have come stand for them. A learner that is
    given by its name learns from the log as it goes along; with --method replay
    it plays, and learns from the decisions that it would have made itself.
    """
    files = targets(plot, csv, output, "evaluation", "evaluation")
    with busy(f"reading {log}"):
        given, doubts = read_log(log, reward_scale, action, skip_bad)
    tell(doubts, "warning")
    asked = [read_policy_text(text) for text in policy]
    options = {"method": method, "quantity": quantity, "missing": missing, "wait": wait, "clip": clip, "seed": seed}
    with progress_bar(len(given) * len(asked), tenths=False) as advance:
        entries = [_evaluated(given, text, one, options, advance) for text, one in zip(policy, asked, strict=True)]
    found = Evaluations(log.name, tuple(entries))
    document = evaluation_document(found, given, doubts)
    show(document, evaluation_table(found, given), json)
    write(files, found, document, json)


def _evaluated(log: Any, text: str, policy: Any, options: dict[str, Any], advance: Any) -> Evaluation:
    """Evaluate one policy under the name that the user gave it; its warnings are in it."""
    from dataclasses import replace  # noqa: PLC0415 - only here

    from delaytron.evaluation.evaluate import evaluate  # noqa: PLC0415 - `--help` needs none of it

    with catch_warnings():
        simplefilter("ignore", EvaluationWarning)
        found = evaluate(log, policy, **options, advance=advance or (lambda _: None))
    return replace(found, policy=text)


def evaluation_document(found: Evaluations, log: Any, warnings: list[str]) -> EvaluationDocument:
    """Return an evaluation as one JSON document."""
    return {
        "log": found.log,
        "rounds": len(log),
        "classes": log.n_classes,
        "evaluations": [entry.row() for entry in found.entries],
        "warnings": warnings,
        "versions": versions(),
    }
