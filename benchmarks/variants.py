"""What each part of the default learner is worth, and what else was tried: variants of it, run by run beside it.

    python benchmarks/variants.py --seed 1 --runs 4            all variants, to choose by
    python benchmarks/variants.py --seed 2 --runs 10 replay=4  some of them, to report
    python benchmarks/variants.py --seed 2 --runs 10 --stored  what was played before

Runs with equal seeds see the same rows, delays and draws, so differences to the default are paired.
"""

import argparse
import sys
from itertools import groupby, product
from pathlib import Path

import numpy as np

from delaytron.simulation.results import mean_of
from report import error_cell
from variant_list import DEFAULT, VARIANTS
from variant_runs import Store, Task, play_variant

DATASETS = ("digits", "usps", "ecoli", "abalone", "fashion_mnist", "cifar10", "synsep", "synnonsep")
STORE = Path("results/variants.jsonl")


def difference(errors, defaults):
    """Return the mean difference of paired runs, with its interval, in 1e-4."""
    return mean_of(1e4 * (np.array(errors) - np.array(defaults)))


def verdict(mean):
    """Return -1 if it is better beyond the interval, 1 if worse, else 0."""
    return int(np.sign(mean.value)) if abs(mean.value) > mean.margin else 0


def difference_cell(mean):
    text = f"{mean.value:+.0f} ± {mean.margin:.0f}"
    return f"**{text}**" if verdict(mean) < 0 else text


def count_cell(differences):
    """Return on how many sets it is better, and on how many worse."""
    verdicts = [verdict(mean) for mean in differences]
    return f"{verdicts.count(-1)} / {verdicts.count(1)}"


def print_defaults(defaults, options):
    """Print the errors of the default itself."""
    print(f"\nSeed {options.seed}, {options.runs} runs, {options.rounds:,} rounds\n")
    print_row("", "D", options.data, "")
    print("|---|--:|" + "--:|" * (len(options.data) + 1))
    for delay in options.delay:
        print_row("default", delay, [error_cell(defaults[data, delay]) for data in options.data], "")


def print_row(name, delay, cells, count):
    print(f"| {name} | {delay} | " + " | ".join(cells) + f" | {count} |")


def print_group(group, played, defaults, options):
    """Print how variants differ from the default, in 1e-4."""
    print(f"\n### {group}\n")
    print_row("", "D", options.data, "better / worse")
    print("|---|--:|" + "--:|" * (len(options.data) + 1))
    for name, errors in played.items():
        for delay in options.delay:
            shown = [(data, delay) for data in options.data if errors.get((data, delay))]
            means = {pair: difference(errors[pair], defaults[pair]) for pair in shown}
            cells = [difference_cell(means[data, delay]) if (data, delay) in means else "-" for data in options.data]
            print_row(name, delay, cells, count_cell(means.values()))


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="variants to play beside the default; all if none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--delay", nargs="+", default=["1", "5000"], help="as `delaytron run --delay` takes it")
    parser.add_argument("--stored", action="store_true", help="play nothing, show what was played before")
    parser.add_argument("--store", type=Path, default=STORE)
    return parser.parse_args(arguments)


def errors_of(variant, options, store):
    """Return the errors of the runs of a variant, by data set and delay."""
    print(f"playing: {variant.name}", file=sys.stderr, flush=True)
    pairs = product(options.data, options.delay)
    tasks = [Task(*pair, options.rounds, options.seed, options.runs) for pair in pairs]
    played = play_variant(variant, tasks, store, options.stored)
    return {(task.data, task.delay): errors for task, errors in played.items() if errors}


def main():
    options = parse()
    store = Store(options.store)
    asked = [one for one in VARIANTS[1:] if not options.names or {one.name, one.group} & {*options.names}]
    defaults = errors_of(DEFAULT, options, store)
    print_defaults(defaults, options)
    for group, members in groupby(asked, key=lambda one: one.group):
        played = {one.name: errors_of(one, options, store) for one in members}
        print_group(group, {name: errors for name, errors in played.items() if errors}, defaults, options)


if __name__ == "__main__":
    main()
