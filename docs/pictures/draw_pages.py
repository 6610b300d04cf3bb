"""Draws the pictures of pages about logs, learners and other libraries: python docs/pictures/draw_pages.py.

Each is the example of its page, with more runs or delays. `notebooks.png` is a screenshot of the example in
notebooks.md.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from river import datasets as river_datasets
from river import evaluate, metrics
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import delaytron as dt
from delaytron.gymnasium import DelayedBanditEnv
from delaytron.river import DelayedClassifier as RiverClassifier
from delaytron.sklearn import DelayedClassifier

HERE = Path(__file__).parent
STYLE = HERE.parent / "_sphinx" / "matplotlibrc"
ROUNDS, RUNS = 20_000, 5
DELAYS = (1, 100, 1000)


def draw_start() -> None:
    """The default learner on digits, as in start.md, at several delays."""
    figure, ax = plt.subplots()
    for delay in DELAYS:
        plot_runs(ax, play("bandit_logit", delay), f"answers after 1 to {delay} rounds" if delay > 1 else "at once")
    finish(figure, ax, "start.png", f"digits, bandit_logit: {RUNS} runs, 95 % interval")


def draw_learner(name: str) -> None:
    """One learner on digits, at several delays."""
    figure, ax = plt.subplots(figsize=(7.2, 3.0))
    for delay in DELAYS:
        plot_runs(ax, play(name, delay), f"delays 1 to {delay}" if delay > 1 else "no delay")
    folder = HERE / "learners"
    folder.mkdir(exist_ok=True)
    finish(figure, ax, f"learners/{name}.png", f"digits, {name}, untuned: {RUNS} runs, 95 % interval")


def play(name: str, delay: int) -> dt.Result:
    """Play runs on the digits, rows of norm 1 but for learners that scale them themselves."""
    scale = None if name in ("bandit_logit", "logistic_ts") else "unit"
    learner = dt.Bold(dt.Delaytron(10, 64)) if name == "bold" else name
    return dt.simulate(learner, dt.datasets.load("digits", scale=scale), delay=delay, rounds=ROUNDS, runs=RUNS, seed=0)


def plot_runs(ax: plt.Axes, result: dt.Result, label: str) -> None:
    """Draw a mean with its interval."""
    errors = result.error_rate.reshape(RUNS, -1)
    middle = errors.mean(axis=0)
    margin = stats.t.ppf(0.975, RUNS - 1) * stats.sem(errors, axis=0)
    (line,) = ax.plot(result.rounds, middle, label=label)
    ax.fill_between(result.rounds, middle - margin, middle + margin, color=line.get_color(), alpha=0.2)


def finish(figure: plt.Figure, ax: plt.Axes, file: str, title: str) -> None:
    """Name the axes of a curve, and save it."""
    ax.axhline(0.898, color="C4", linestyle="--", label="most frequent class")
    ax.set(xscale="log", xlim=(20, ROUNDS), ylim=(0, 1), xlabel="decisions", ylabel="share wrong so far", title=title)
    ax.legend(fontsize=8)
    figure.savefig(HERE / file)
    plt.close(figure)


def draw_sklearn() -> None:
    """What learning has cost in sklearn.md, at several delays."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    figure, ax = plt.subplots()
    for delay in DELAYS:
        classifier = DelayedClassifier(delay=delay, random_state=0).fit(X, y)
        score = classifier.score(X_test, y_test)
        ax.plot(classifier.error_curve_, label=f"delay={delay}, afterwards {score:.2f} of the test set is right")
    ax.set(xlabel="rows", ylabel="error_curve_", ylim=(0, 1), title="digits, one run each")
    ax.legend(fontsize=8)
    figure.savefig(HERE / "sklearn.png")


def draw_river() -> None:
    """Progressive validation as in river.md, at several delays."""
    figure, ax = plt.subplots()
    for delay in (1, 50, 500):
        found = evaluate.iter_progressive_val_score(
            river_datasets.ImageSegments(), RiverClassifier(seed=0), metrics.Accuracy(), delay=delay, step=20
        )
        points = [(one["Step"], one["Accuracy"].get()) for one in found]
        ax.plot(*zip(*points, strict=True), label=f"delay={delay}")
    ax.set(xlabel="labels", ylabel="accuracy so far", ylim=(0, 1), title="ImageSegments, one run each")
    ax.legend(fontsize=8)
    figure.savefig(HERE / "river.png")


def draw_gymnasium() -> None:
    """The right labels that an agent played in the environment of gymnasium.md, and the rewards that it received."""
    env = DelayedBanditEnv("digits", delay=dt.delays.Uniform(100), rounds=1500)
    learner = dt.Delaytron(n_classes=10, n_features=64, gamma=0.1, seed=0)
    row, info = env.reset(seed=0)
    decisions, received, truncated = [], [], False
    while not truncated:
        for number, reward in info["feedback"]:
            learner.feedback(decisions[number - 1].id, correct=reward == 1)
        decisions.append(learner.decide(row))
        row, reward, _, truncated, info = env.step(decisions[-1].label)
        received.append(reward)
    right = [decision.label == y for decision, y in zip(decisions, env.data.y, strict=False)]
    figure, ax = plt.subplots()
    ax.plot(np.cumsum(right), label="right labels played")
    ax.plot(np.cumsum(received), label='rewards received in info["feedback"]')
    ax.set(xlabel="steps", ylabel="sum so far", title="digits, answers after 1 to 100 steps, one episode")
    ax.legend(fontsize=8)
    figure.savefig(HERE / "gymnasium.png")


def draw_evaluate() -> None:
    """The estimates of evaluate.md beside what is true."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 2))
    labels = rng.integers(0, 3, 3000)
    best = np.where(X[:, 0] > 0.5, 0, np.where(X[:, 1] > 0, 1, 2))
    rewards = rng.random(3000) < np.where(labels == best, 0.8, 0.2)
    log = dt.logs.from_arrays(features=X, labels=labels, probs=np.full(3000, 1 / 3), rewards=rewards, n_classes=3)
    asked = {
        "always the best label": np.eye(3)[best],
        "the log itself": "logged",
        "a learner that reads along": "bandit_logit",
    }
    figure, ax = plt.subplots(figsize=(7.2, 3.2))
    for k, method in enumerate(("ips", "snips", "dr")):
        found = [dt.evaluate(log, policy, method=method) for policy in asked.values()]
        values = np.array([one.value for one in found])
        error = [values - [one.low for one in found], [one.high for one in found] - values]
        ax.errorbar(values, np.arange(3) + 0.2 * (k - 1), xerr=error, fmt="o", capsize=3, label=method)
    ax.vlines([0.8, 0.4], [-0.4, 0.6], [0.4, 1.4], color="C4", linestyle="--", label="true")
    ax.set_yticks(range(3), list(asked))
    ax.invert_yaxis()
    ax.set(
        xlabel="reward of a decision, 95 % interval", title="Three policies, estimated from 3,000 decisions at random"
    )
    ax.legend(fontsize=8)
    figure.savefig(HERE / "evaluate.png")


def draw_log() -> None:
    """The last decisions of the simulated log in logs.md: when each was made, and when its outcome was received."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "run.parquet")
        data = dt.datasets.load("synsep", n_samples=1000)
        dt.simulate("banditron", data, delay=dt.delays.Uniform(50), gamma=0.2, log=file)
        log = dt.logs.read_parquet(file)
    last = np.arange(len(log))[-80:]
    made, received = log.decided_at[last] / 1e9, log.received_at[last] / 1e9
    figure, ax = plt.subplots()
    groups = {
        "right": log.outcomes[last] == 1,
        "wrong": log.outcomes[last] == 0,
        "none yet": np.isnan(log.outcomes[last]),
    }
    for (name, chosen), colour in zip(groups.items(), ("C2", "C1", "C4"), strict=True):
        until = np.where(np.isnan(log.outcomes[last]), len(log), received)[chosen]
        ax.hlines(
            last[chosen], made[chosen], until, color=colour, label=name, linestyle=":" if name == "none yet" else "-"
        )
    ax.set(xlabel="round", ylabel="decision", title="decided_at to received_at: the last 80 decisions of a log")
    ax.legend(title="outcome", fontsize=8, loc="upper left")
    figure.savefig(HERE / "log.png")


if __name__ == "__main__":
    with plt.rc_context(fname=STYLE):
        draw_start()
        draw_sklearn()
        draw_river()
        draw_gymnasium()
        draw_evaluate()
        draw_log()
        for page in sorted((HERE.parent / "learners").glob("*.md")):
            draw_learner(page.stem)
