"""Vowpal Wabbit tuned on eight data sets, without delay: the error of the labels it plays.

Forms (scaling of the rows, update) are compared first, then all explorers at all learning rates with the best forms,
then the best of these over more rounds: all of it on tuning orders, whose seeds are not those reported. The setting
that is left plays the rows of `dt.simulate(..., seed=0)`, run by run. Finished runs are stored, and not played again.
With --raw there is no scaling to choose, and every update goes on to the explorers and rates.
"""

import argparse
import csv
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np

from delaytron.simulation.results import mean_of
from report import Sheet, markdown
from vowpal_runs import Run, Store, forget_data, load, play
from vowpal_settings import (
    BEST_FORMS,
    QUICK,
    RAW_FORMS,
    UNTOUCHED,
    Plan,
    Setting,
    best_settings,
    form_settings,
    forms_for_grid,
    grid_settings,
)

DATASETS = ("cifar10", "fashion_mnist", "usps", "digits", "abalone", "ecoli", "synsep", "synnonsep")
STORE = Path("results/vowpal.jsonl")
SECONDS_BETWEEN_LINES = 10


class Reported(NamedTuple):
    """A row of the table."""

    data: str
    rounds: int
    setting: Setting
    errors: tuple[float, ...]
    microseconds: float  # of CPU time a round


class Player:
    """Plays runs that are not stored, and prints its progress."""

    def __init__(self, store):
        self.store = store
        self._said = monotonic()

    def errors(self, title, runs):
        """Return the error of every run."""
        return [outcome.error for outcome in self.outcomes(title, runs)]

    def outcomes(self, title, runs):
        found = []
        for number, run in enumerate(runs, 1):
            found.append(self._outcome(run))
            self._say(f"{title}: {number} of {len(runs)} runs", number == len(runs))
        return found

    def _outcome(self, run):
        outcome = self.store.get(run)
        if outcome is None:
            outcome = play(run)
            self.store.put(run, outcome)
        return outcome

    def _say(self, text, now):
        if now or monotonic() - self._said > SECONDS_BETWEEN_LINES:
            print(text, flush=True)
            self._said = monotonic()


def tune(player, plan, data, raw=False):
    """Return the best setting of each final."""

    def errors(stage, settings, rounds):
        title = f"{data}, {stage}, {rounds:,} rounds"
        runs = [Run(data, setting, rounds, i, tuning=True) for setting in settings for i in range(plan.tuning_runs)]
        found = np.array(player.errors(title, runs)).reshape(len(settings), plan.tuning_runs)
        return dict(zip(settings, found.tolist(), strict=True))

    forms = RAW_FORMS if raw else forms_for_grid(errors("forms", form_settings(), plan.grid_rounds))
    left = errors("explorers and rates", grid_settings(forms), plan.grid_rounds)
    chosen = []
    for rounds, count in plan.finals:
        left = errors("final", best_settings(left, count), rounds)
        chosen += best_settings(left, 1)
        print(f"{data}, {rounds:,} rounds: chosen {chosen[-1]}", flush=True)
    return chosen


def report(player, plan, data, settings):
    """Play each setting over its rounds of the reports, and VW untouched beside it."""
    rows = []
    for rounds, setting in zip(plan.reported, settings[-len(plan.reported) :], strict=True):
        for shown in (UNTOUCHED, setting):
            runs = [Run(data, shown, rounds, i, tuning=False) for i in range(plan.runs)]
            outcomes = player.outcomes(f"{data}, reported, {rounds:,} rounds", runs)
            microseconds = 1e6 * float(np.mean([outcome.seconds for outcome in outcomes])) / rounds
            rows.append(Reported(data, rounds, shown, tuple(o.error for o in outcomes), microseconds))
            print(_line(rows[-1]), flush=True)
    return rows


def _line(row):
    return f"{row.data}, {row.rounds:,} rounds, {row.setting}: {interval(row.errors)}"


def interval(errors):
    """Return mean and half width of the 95 % interval by Student's t."""
    mean = mean_of(np.array(errors))
    return f"{mean.value:.4f} ± {mean.margin:.4f}"


def sheet(rows, largest_class, plan, raw=False):
    """Return the table: a row for each data set and number of rounds."""
    tuned_name = "VW tuned, raw rows" if raw else "VW tuned"
    header = ["data", "rounds", "most frequent class", "VW untouched", tuned_name, "runs", "us a round", "the setting"]
    pairs = zip(rows[::2], rows[1::2], strict=True)
    cells = [
        [
            tuned.data,
            f"{tuned.rounds:,}",
            f"{1 - largest_class[tuned.data]:.4f}",
            interval(untouched.errors),
            interval(tuned.errors),
            str(len(tuned.errors)),
            f"{tuned.microseconds:.1f}",
            f"{tuned.setting.form.scaling}: `{tuned.setting.options}`",
        ]
        for untouched, tuned in pairs
    ]
    return Sheet("Vowpal Wabbit, tuned, without delay", header, cells, notes(plan, raw))


def notes(plan, raw):
    """Return notes on how the figures were measured."""
    finals = ", ".join(f"{count} over {rounds:,} rounds" for rounds, count in plan.finals)
    return [
        "Error of the played labels with the 95 % interval by Student's t, every answer learned from at once. Run i "
        "shows the rows of run i of `dt.simulate(..., seed=0)`. Most frequent class: the error of always playing it.",
        f"Tuned on {plan.tuning_runs} orders of other seeds (synsep and synnonsep: other rows too), "
        f"{plan.grid_rounds:,} rounds: {_grid_note(raw)}. Then "
        f"the best {finals}; the last two of these choose for the shorter and for the longer runs reported.",
        _scaling_note(raw),
        "VW untouched: raw rows, `--cbify K` with its defaults. us a round: CPU time of `learn` and of reading the "
        "prediction, from Python, one thread, of the tuned setting.",
    ]


def _grid_note(raw):
    each_form = len(grid_settings([UNTOUCHED.form]))
    if raw:
        return f"{each_form} settings of explorer and learning rate for each of {len(RAW_FORMS)} updates"
    return (
        f"{len(form_settings())} settings to compare scalings and updates, then {each_form} of explorer and learning "
        f"rate for each of the best {BEST_FORMS} of these and the default"
    )


def _scaling_note(raw):
    if raw:
        return "Rows come as they are in the data set."
    return (
        "Scaling is tuned with the rest. standard: columns of mean 0 and deviation 1, by the moments of the whole data "
        "set, rows to come included: an advantage that no learner playing online has. unit: rows of norm 1."
    )


def write_csv(path, rows, raw=False):
    """Write every row, with unrounded numbers."""
    tuned_name = "vowpal_wabbit tuned, raw rows" if raw else "vowpal_wabbit tuned"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "learner", "delay", "rounds", "scaling", "setting", "error", "error margin", "runs"])
        for row in rows:
            name = "vowpal_wabbit untouched" if row.setting == UNTOUCHED else tuned_name
            mean = mean_of(np.array(row.errors))
            setting = [row.setting.form.scaling, row.setting.options]
            writer.writerow([row.data, name, 1, row.rounds, *setting, mean.value, mean.margin, len(row.errors)])


def share_of_largest_class(data):
    return float(np.bincount(data.y).max() / data.y.size)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=None, help="only these (default: all eight)")
    parser.add_argument("--raw", action="store_true", help="tune on raw rows, as a learner that plays online gets them")
    parser.add_argument("--quick", action="store_true", help="few rounds on digits: whether it works, no figures")
    parser.add_argument("--store", type=Path, default=STORE, help=f"finished runs, read and added to ({STORE})")
    parser.add_argument("--csv", type=Path, help="also write the table to this file, such as results/vowpal.csv")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, as Markdown")
    return parser.parse_args()


def main():
    options = parse_options()
    if find_spec("vowpalwabbit") is None:
        raise SystemExit("vowpalwabbit is not installed: `make setup` installs it")
    plan = QUICK if options.quick else Plan()
    names = options.data or (["digits"] if options.quick else DATASETS)
    player = Player(Store(options.store))
    rows = []
    largest = {}
    for name in names:
        settings = tune(player, plan, name, options.raw)
        rows += report(player, plan, name, settings)
        largest[name] = share_of_largest_class(load(name, tuning=False))
        forget_data()
    table = markdown(sheet(rows, largest, plan, options.raw))
    print(table)
    if options.csv:
        write_csv(options.csv, rows, options.raw)
    if options.markdown:
        options.markdown.write_text(table)


if __name__ == "__main__":
    main()
