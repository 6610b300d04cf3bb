"""`delaytron bounds`: what theory promises, and beside it what was measured."""

import json as json_files
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from delaytron import datasets, delays
from delaytron.cli import options
from delaytron.cli.bound_options import MEASURED, RECORDED, THEORY_ALONE, BoundOptions, given_or
from delaytron.cli.bound_tables import Promises, Studies
from delaytron.cli.data_options import AS_IT_IS, DataOptions, with_data_options
from delaytron.cli.outputs import busy, progress_bar, show, targets, write
from delaytron.errors import InvalidInput
from delaytron.learners import Delaytron
from delaytron.learners.options import COMMON, own_parameters
from delaytron.simulation.results import Setting
from delaytron.theory import measure
from delaytron.theory.arguments import Arguments
from delaytron.theory.statements import table
from delaytron.theory.study import Study, play
from delaytron.theory.trials import Trial, TrialTerms, prepare

EXAMPLES = """
Examples

delaytron bounds --rounds 10000 --classes 10 --gamma 0.1 --norm 2 --delay 100
delaytron bounds --delay lognormal:100,1.5 --missing 0.1 --loss-bound 5 --json
delaytron bounds --data synsep --rounds 20000 --runs 5 --plot synsep.png
delaytron bounds --data iris.csv --label species --delay 10 --csv bounds.csv
delaytron bounds --results out
"""

DataName = Annotated[str | None, typer.Option(metavar="NAME_OR_FILE", help=options.DATA_HELP, show_default="theory")]
Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The --output of `delaytron run delaytron`: measure that again.")
]
Rounds = Annotated[int | None, typer.Option(help="T.", show_default="100000")]
Classes = Annotated[int | None, typer.Option(help="K, where there is no data.", show_default="10")]
Gamma = Annotated[float | None, typer.Option(help="Exploration rate in (0, 1].", show_default="0.05")]
Radius = Annotated[float | None, typer.Option(help="R, the longest row, where there is no data.", show_default="1")]
Norm = Annotated[float | None, typer.Option(help="||W||, where there is no data.", show_default="1")]
Loss = Annotated[float | None, typer.Option(help="Hinge losses of W in all, without data.", show_default="0")]
Delay = Annotated[str | None, typer.Option(metavar="DELAY", help=f"{delays.ALLOWED}.", show_default="1000")]
Missing = Annotated[float | None, typer.Option(metavar="RATE", help="The share of answers that never come.")]
Eta = Annotated[float | None, typer.Option(help="The step of Delaytron.", show_default="the best for each bound")]
LossBound = Annotated[float | None, typer.Option(help="L of Theorems 2 and 4 and Corollary 1.")]
Comparator = Annotated[
    str | None,
    typer.Option(
        help="best: for each bound the W for which loss and bound add up to least; separating: the smallest known W "
        "without loss.",
        show_default="separating if the data set has a certificate, else best",
    ),
]
Runs = Annotated[int | None, typer.Option(help="Runs that are measured.", show_default="20")]
Seed = Annotated[int | None, typer.Option(help="Fixes rows, delays and draws.", show_default="0")]
Sampling = Annotated[str | None, typer.Option(help="replacement or epochs.", show_default="replacement")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw regret and bounds: .png, .pdf or .svg.")]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bounds, with data at every checkpoint.")]


@with_data_options("missing")
def bounds(
    data: DataName = None,
    results: Results = None,
    rounds: Rounds = None,
    classes: Classes = None,
    gamma: Gamma = None,
    radius: Radius = None,
    norm: Norm = None,
    comparator_loss: Loss = None,
    delay: Delay = None,
    missing: Missing = None,
    eta: Eta = None,
    loss_bound: LossBound = None,
    comparator: Comparator = None,
    runs: Runs = None,
    seed: Seed = None,
    sampling: Sampling = None,
    how_to_load: DataOptions = AS_IT_IS,
    workers: options.Workers = None,
    plot: Plot = None,
    csv: Csv = None,
    json: options.Json = False,
) -> None:
    """Show all bounds of the paper and the repaired ones; with data, measured regret beside them.

    With --data, Delaytron, Hinge Delaytron and Adaptive Delaytron play it, each
    with the step that the bound at hand prescribes, and the regret is that
    against the weights W of the same line. With --results, the best delaytron
    line of every delay in DIR/results.json is played again, with its own step;
    a data set made with options needs --data with the same ones.
    """
    files = targets(plot, csv)
    asked = BoundOptions(
        rounds=rounds,
        classes=classes,
        gamma=gamma,
        radius=radius,
        norm=norm,
        comparator_loss=comparator_loss,
        delay=delay,
        missing=missing,
        eta=eta,
        loss_bound=loss_bound,
        comparator=comparator,
        runs=runs,
        seed=seed,
        sampling=sampling,
        workers=workers,
        plot=plot,
    )
    outcome: Promises | Studies
    if data is None and results is None:
        _refuse([*asked.flags(MEASURED), *how_to_load.flags], "needs --data or --results")
        outcome = _promise(asked)
    else:
        _refuse(asked.flags(THEORY_ALONE), "is for theory alone, data bring their own; leave it out")
        if results is not None:
            _refuse(asked.flags(RECORDED), "is recorded in the results; leave it out")
        outcome = _measure(data, results, asked, how_to_load)
    show(outcome.document, outcome.shown, json)
    write(files, outcome, outcome.document, json)


def _refuse(flags: Sequence[str], why: str) -> None:
    if flags:
        raise InvalidInput(f"{flags[0]} {why}")


def _promise(asked: BoundOptions) -> Promises:
    """Return the bounds for the delays of one run."""
    terms = asked.terms.checked()
    run = measure(terms.delays())
    arguments: Arguments = {
        "n_rounds": run.n_rounds,
        "n_classes": given_or(asked.classes, 10),
        "gamma": terms.gamma,
        "radius": given_or(asked.radius, 1.0),
        "norm": given_or(asked.norm, 1.0),
        "comparator_loss": given_or(asked.comparator_loss, 0.0),
        "eta": terms.eta,
        "loss_bound": terms.loss_bound,
        "missing": run.missing,
        "delay_received": run.delay_received,
        "total_delay": run.total_delay,
        "outstanding": run.outstanding,
        "max_outstanding": run.max_outstanding,
    }
    return Promises(asked.delay_text, terms.seed, arguments, table(arguments))


def _measure(name: str | None, results: Path | None, asked: BoundOptions, how_to_load: DataOptions) -> Studies:
    """Play what is asked for, or once more what was played before."""
    n_jobs = options.check_workers(asked.workers)
    lines = [] if results is None else _recorded(results, asked.delay)
    data = how_to_load.load(_data_name(lines) if name is None else name, asked.terms.seed)
    trials: list[Trial] = []
    with busy("looking for weights to compare with"):
        for terms in [line.terms(asked.terms, asked.delay) for line in lines] or [asked.terms]:
            trials.append(prepare(data, terms, trials[0].comparators if trials else None))
    with progress_bar(sum(trial.n_rounds for trial in trials)) as advance:
        studies = [play(trial, advance, n_jobs) for trial in trials]
    for study, line in zip(studies, lines, strict=bool(lines)):
        line.check_same(study)
    return Studies(studies)


class _Line(NamedTuple):
    """What a line of results.json says of its runs."""

    dataset: str
    delay: str
    parameters: Setting
    rounds: int
    runs: int
    seed: int
    sampling: str
    final_errors: list[float]

    def terms(self, asked: TrialTerms, delay: str | None) -> TrialTerms:
        """Return the terms of these runs; a delay that is given is theirs."""
        other = self.parameters.keys() & COMMON.keys()
        if other:
            raise InvalidInput(
                f"no bound is about runs with {', '.join(sorted(other))}, as in these results; run it without"
            )
        own = own_parameters(Delaytron) | self.parameters
        return replace(
            asked,
            delay=_model(self.delay) if delay is None else delay,
            gamma=own["gamma"],
            eta=own["eta"],
            rounds=self.rounds,
            runs=self.runs,
            seed=self.seed,
            sampling=self.sampling,
        )

    def check_same(self, study: Study) -> None:
        """Raise if runs are not those recorded."""
        result = study.results["delaytron"][0]  # of Theorem 1, with the step given
        if result.final_error.tolist() != self.final_errors:
            errors = f"error {result.final_error.mean():.6f}, but {np.mean(self.final_errors):.6f} in the results"
            raise InvalidInput(f"played again, {self.dataset} has the {errors}; give --data and the options it had")


def _recorded(folder: Path, delay: str | None) -> list[_Line]:
    """Return the best line of delaytron for every delay, or for the one that is asked for."""
    path = folder / "results.json"
    if not path.is_file():
        raise InvalidInput(f"there is no {str(path)!r}; --results must be the --output of `delaytron run delaytron`")
    try:
        rows = [row for row in json_files.loads(path.read_bytes()) if row["learner"] == "delaytron" and row["best"]]
        lines = [_Line(**{name: row[name] for name in _Line._fields}) for row in rows]
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{str(path)!r} is not what `delaytron run --output` writes; run that again") from None
    wanted = [line for line in lines if delay is None or line.delay == str(delays.parse(delay))]
    if not wanted:
        there = ", ".join(line.delay for line in lines)
        played = f" with delay {delay}; it has {there}" if there else ", which bounds are about: name it in `run`"
        raise InvalidInput(f"{str(path)!r} has no delaytron{played}")
    return wanted


def _data_name(lines: Sequence[_Line]) -> str:
    if lines[0].dataset not in datasets.DATASETS:
        raise InvalidInput(f"the results are of the file {lines[0].dataset}; give --data, with the options it had")
    return lines[0].dataset


def _model(text: str) -> delays.Delay:
    """Read a delay model as results name it; recorded delays that came from no file are known by their size only."""
    try:
        return delays.parse(text)
    except InvalidInput:
        raise InvalidInput(f"the results do not hold the delays of {text}; give --delay") from None
