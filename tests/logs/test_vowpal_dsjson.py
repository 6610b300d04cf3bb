"""Vowpal Wabbit itself: it reads the same of a log as we do, and a log of its own decisions is imported."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

import delaytron as dt
from delaytron.cli.import_log import import_dsjson
from delaytron.logs.dsjson import Event, read_records
from delaytron.logs.events import EventTerms
from delaytron.model.verify import verify_journal
from dsjson_lines import DRINKS, MULTI, event, outcome, write

pytestmark = pytest.mark.xdist_group("bandit_logit")

OPTIONS = {
    "learner": "bandit_logit",
    "parameters": {},
    "bits": 12,
    "ngrams": 1,
    "expire_after": None,
    "on_expiry": "drop",
    "correct_within": None,
    "seed": 7,
}
MOODS = ["tired", "thirsty", "hungry"]


@contextmanager
def workspace(pyvw, options):
    vw = pyvw.Workspace(f"--dsjson --quiet {options}")
    try:
        yield vw
    finally:
        vw.finish()


def labels_read_by(pyvw, vw, line):
    """Return the place, the cost and the probability of the action that Vowpal Wabbit takes for the labelled one."""
    examples = vw.parse(json.dumps(line))
    found = []
    for place, example in enumerate(examples[1:] if len(examples) > 1 else []):  # the first one is what all share
        found += [
            (place, cost.cost, cost.probability) for cost in example.get_label(pyvw.LabelType.CONTEXTUAL_BANDIT).costs
        ]
    tags = [example.get_tag() for example in examples[1:]]
    vw.finish_example(examples)
    return found, tags


def test_vowpal_wabbit_reads_the_same_labels(pyvw, tmp_path):
    rng = np.random.default_rng(1)
    lines = [event(f"e{i}", int(rng.integers(3)), float(rng.random()), float(rng.random())) for i in range(50)]
    lines += [
        event("e50", reward=0.0, observed=False),
        event("e51", 2, 1.0, 1.0, context={"_synthetic": False, "a": [1, 2]}),
    ]
    path = write(tmp_path / "log.dsjson", lines)
    with workspace(pyvw, "--cb_explore_adf") as vw:
        for line, record in zip(lines, read_records(path), strict=True):
            ((place, cost, prob),), tags = labels_read_by(pyvw, vw, line)
            assert isinstance(record, Event)
            assert (record.label, np.float32(-record.reward), np.float32(record.prob)) == (place, cost, prob)
            assert [action["_tag"] for action in record.actions] == tags == DRINKS


def test_vowpal_wabbit_learns_from_as_many_lines_as_we_do(pyvw, tmp_path):
    """Lines that are no events, and events whose action was not taken, are passed over by both."""
    lines = [event(f"e{i}", i % 3, 0.5, i % 2) for i in range(20)]
    lines[7:7] = [outcome("e3", 1.0), "[CHECKPOINT INFO LINE]", event("s", reward=1.0, _skipLearn=True)]
    path = write(tmp_path / "log.dsjson", lines)
    found = import_dsjson([path], tmp_path / "shop.db", EventTerms(), OPTIONS)
    with workspace(pyvw, f"--cb_explore_adf -d {path}") as vw:
        vw.run_parser()
        assert vw.get_weighted_examples() == found.learned.recorded == 20


def play(pyvw, rounds):
    """Let Vowpal Wabbit choose drinks and learn; return its log: most outcomes come late, and some never."""
    rng = np.random.default_rng(3)
    lines, waiting = [], []
    with workspace(pyvw, "--cb_explore_adf --epsilon 0.3 -q FT --cb_type ips") as vw:
        for i in range(rounds):
            context = {"FromUrl": [{"mood": MOODS[i % 3], "n": i % 7}]}
            asked = vw.parse(json.dumps({"c": {**context, "_multi": MULTI}, "a": [1, 2, 3], "p": [1, 0, 0]}))
            probs = np.array(vw.predict(asked), float)
            vw.finish_example(asked)
            label = int(rng.choice(3, p=probs / probs.sum()))
            reward = float(rng.random() < (0.9 if label == i % 3 else 0.2))
            line = event(f"e{i}", label, float(np.float32(probs[label])), reward, context=context)
            learned = vw.parse(json.dumps(line))
            vw.learn(learned)
            vw.finish_example(learned)
            ranked = {
                key: value for key, value in line.items() if key not in ("o", "_label_cost", "_original_label_cost")
            }
            lines.append(ranked)
            waiting.append((i + int(rng.integers(1, 40)), outcome(f"e{i}", reward)))
            due = [late for time, late in waiting if time <= i]
            waiting = [(time, late) for time, late in waiting if time > i]
            lines += due
    return lines, {late["EventId"] for _, late in waiting}


def test_a_log_of_vowpal_wabbits_own_decisions_becomes_a_model(pyvw, tmp_path):
    lines, unanswered = play(pyvw, 400)
    path = write(tmp_path / "log.dsjson", lines)
    found = import_dsjson([path], tmp_path / "shop.db", EventTerms(), OPTIONS)
    assert (found.learned.recorded, found.open) == (400, len(unanswered))
    outcomes = [line["RewardValue"] for line in lines if "c" not in line]
    assert found.mean_reward == pytest.approx(np.mean(outcomes))
    assert verify_journal(tmp_path / "shop.db").mismatch is None
    with dt.Model.open(tmp_path / "shop.db") as model:
        assert {waiting.id for waiting in model.open_decisions()} == unanswered
        for number, mood in enumerate(MOODS):
            assert model.predict({"FromUrl": {"mood": mood, "n": 3}}) == DRINKS[number]
