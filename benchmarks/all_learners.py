"""Time per round of every learner of the registry on SynSep as CSR, side by side with Delaytron's in one run."""

import sys
from time import process_time

import delaytron as dt

ROUNDS, RUNS, TURNS = 200_000, 2, 5
VARIANTS = {
    "soba": [{"matrix": "diagonal"}],
    "newtron": [{"matrix": "diagonal", "play": "sample"}, {"matrix": "diagonal", "play": "argmax"}],
    "confidit": [{"matrix": "diagonal"}],
    "ova_logistic": [{"explore": "epsilon"}, {"explore": "squarecb"}],
    "exact_pa": [{"refute": "all"}, {"refute": "best"}],
    "rcnbf": [{"rho0": 0.1, "rho1": 0.1}, {"estimate": True}],
}


def seconds(name, parameters, data):
    begin = process_time()
    dt.simulate(name, data, delay=1000, rounds=ROUNDS, runs=RUNS, n_jobs=1, **parameters)
    return process_time() - begin


def main(names):
    data = dt.datasets.load("synsep")
    cases = [(name, parameters) for name in names or dt.LEARNERS for parameters in VARIANTS.get(name, [{}])]
    for name, parameters in [("delaytron", {}), *cases]:
        dt.simulate(name, data, rounds=100, n_jobs=1, **parameters)  # compiles
    print("| learner | us a round | of Delaytron's |\n|---|--:|--:|")
    for name, parameters in cases:
        ours, yardstick = [], []
        for _ in range(TURNS):
            yardstick.append(seconds("delaytron", {}, data))
            ours.append(seconds(name, parameters, data))
        settings = ", ".join(f"{key}={value}" for key, value in parameters.items())
        label = f"`{name}`" + (f" ({settings})" if settings else "")
        print(f"| {label} | {min(ours) / ROUNDS / RUNS * 1e6:.2f} | {min(ours) / min(yardstick):.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
