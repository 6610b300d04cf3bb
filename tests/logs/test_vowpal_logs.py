"""Vowpal Wabbit itself reads what `dt.logs` writes, and `dt.logs` reads what it decided, with the same meaning."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import delaytron as dt
from dsjson_lines import MULTI, event, outcome, write

OPTIONS = "--cb_explore_adf --epsilon 0.3 --cb_type ips -q FT -q ::"
RUN = "import sys; from vowpalwabbit import pyvw; vw = pyvw.Workspace(sys.argv[1]); vw.finish()"
MOODS = ["tired", "thirsty", "hungry"]


def what_vowpal_says(path, options="--cb_explore_adf --quiet"):
    """Let Vowpal Wabbit read a log in a process of its own; return all that it prints."""
    command = [sys.executable, "-c", RUN, f"--dsjson -d {path} {options}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def progressive(pyvw, path, options):
    """Return the average loss that Vowpal Wabbit reports, and of how many decisions."""
    vw = pyvw.Workspace(f"--dsjson --quiet -d {path} {options}")
    vw.run_parser()
    found = vw.get_sum_loss() / vw.get_weighted_examples(), vw.get_weighted_examples()
    vw.finish()
    return found


def play(pyvw, rounds, options=OPTIONS):
    """Let Vowpal Wabbit choose drinks and learn at once; return its log as it writes it, in 32-bit floats."""
    rng = np.random.default_rng(3)
    lines = []
    vw = pyvw.Workspace(f"--dsjson --quiet {options}")
    for i in range(rounds):
        kinds = MULTI if i % 5 else [MULTI[k] for k in (2, 0, 1)]  # another order every fifth time
        if i % 7 == 3:
            kinds = kinds[:2]
        context = {
            "FromUrl": [{"mood": MOODS[i % 3]}, {"n": i % 7}],
            "Time": {"hour": i % 24, "_text": "late at night"},
        }
        asked = vw.parse(json.dumps({"c": {**context, "_multi": kinds}, "a": [1], "p": [1]}))
        probs = np.array(vw.predict(asked), float)
        vw.finish_example(asked)
        label = int(rng.choice(len(kinds), p=probs / probs.sum()))
        reward = float(rng.random() < (0.9 if kinds[label]["_tag"] == MULTI[i % 3]["_tag"] else 0.2))
        line = event(f"e{i}", label, probs[label], reward, context=context, multi=kinds)
        line["p"] = [probs[k - 1] for k in line["a"]]
        line["Timestamp"] = f"2021-02-04T16:{i // 60 % 60:02}:{i % 60:02}.2460000Z"
        learned = vw.parse(json.dumps(line))
        vw.learn(learned)
        vw.finish_example(learned)
        lines.append(line)
    vw.finish()
    return lines


@pytest.fixture(scope="module")
def played(pyvw):
    return play(pyvw, 400)


def test_its_progressive_estimate_of_the_logged_policy_is_ours(pyvw, played, tmp_path):
    """Vowpal Wabbit that learns from what we write decides again as it did: its estimate is that of the logged policy.

    Each of its probabilities must be the logged one for that, so every feature, label and probability comes through.
    """
    log = dt.logs.read_dsjson(write(tmp_path / "vw.dsjson", played))
    dt.logs.write_dsjson(log, tmp_path / "ours.dsjson")
    loss, count = progressive(pyvw, tmp_path / "ours.dsjson", OPTIONS)
    own = log.probabilities[np.arange(len(log)), log.labels]
    assert count == len(log) == 400
    assert loss == pytest.approx(-np.mean(log.outcomes * own / log.probs), abs=1e-6)
    assert loss == pytest.approx(-log.outcomes.mean(), abs=1e-6)
    assert progressive(pyvw, tmp_path / "vw.dsjson", OPTIONS) == (loss, count)


@pytest.mark.parametrize("form", ["dense", "sparse", "named"])
def test_its_estimate_of_a_uniform_policy_is_ours(pyvw, tmp_path, form):
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(300, 4)), 3) * (rng.random((300, 4)) < 0.5)
    P = rng.dirichlet(np.ones(3), 300) * 0.9 + 1 / 30
    labels = np.array([rng.choice(3, p=p) for p in P])
    features = {"dense": X, "sparse": csr_matrix(X), "named": [{"a": x[0], "b": {"c": x[1]}} for x in X.tolist()]}[form]
    rewards = rng.random(300)
    probs = P[np.arange(300), labels]
    log = dt.logs.from_arrays(
        features=features, labels=labels, probs=probs, rewards=rewards, n_classes=3, probabilities=P
    )
    dt.logs.write_dsjson(log, tmp_path / "ours.dsjson")
    loss, count = progressive(pyvw, tmp_path / "ours.dsjson", "--cb_explore_adf --epsilon 1.0 --cb_type ips")
    assert count == 300
    assert loss == pytest.approx(-np.mean(rewards / (3 * probs)), abs=2e-6)


def test_it_reads_our_lines_without_a_warning(pyvw, played, tmp_path):
    log = dt.logs.read_dsjson(write(tmp_path / "vw.dsjson", played))
    outcomes = np.where(np.arange(len(log)) % 4 == 0, np.nan, log.outcomes)
    late = dt.logs.from_arrays(
        features=log.features,
        labels=log.labels,
        probs=log.probs,
        rewards=outcomes,
        classes=log.classes,
        allowed=log.allowed,
        decided_at=log.decided_at,
        received_at=log.decided_at + 5,
        weights=np.where(np.arange(len(log)) % 3 == 0, 2.0, 1.0),
    )
    dt.logs.write_dsjson(late, tmp_path / "ours.dsjson")
    assert what_vowpal_says(tmp_path / "ours.dsjson") == ("", "")
    _, loud = what_vowpal_says(tmp_path / "ours.dsjson", "--cb_explore_adf")
    assert "number of examples = 400" in loud
    assert "warning" not in loud.lower()


def labels_in(pyvw, path):
    """Return all that Vowpal Wabbit reads of a log: features, labels, weights and tags of every action."""
    vw = pyvw.Workspace("--dsjson --quiet --cb_explore_adf")
    found = []
    for line in path.read_text().splitlines():
        examples = vw.parse(line)
        found.append([_read(pyvw, example) for example in examples])
        vw.finish_example(examples)
    vw.finish()
    return found


def _read(pyvw, example):
    features = sorted(
        (example.feature(space, i), example.feature_weight(space, i))
        for space in range(example.num_namespaces())
        for i in range(example.num_features_in(space))
    )
    costs = example.get_label(pyvw.LabelType.CONTEXTUAL_BANDIT).costs
    return example.get_tag(), features, [(cost.cost, cost.probability) for cost in costs]


def test_a_log_of_its_own_goes_out_as_it_came_in(pyvw, played, tmp_path):
    """Vowpal Wabbit reads the same of both files: tags, hashed features, labels, in the same order of actions."""
    rng = np.random.default_rng(0)
    lines = [line | ({"pdrop": 0.75} if rng.random() < 0.3 else {}) for line in played]
    path = write(tmp_path / "vw.dsjson", lines)
    log = dt.logs.read_dsjson(path)
    dt.logs.write_dsjson(log, tmp_path / "ours.dsjson")
    assert labels_in(pyvw, tmp_path / "ours.dsjson") == labels_in(pyvw, path)
    assert progressive(pyvw, tmp_path / "ours.dsjson", OPTIONS) == progressive(pyvw, path, OPTIONS)
    again = [json.loads(line) for line in (tmp_path / "ours.dsjson").read_text().splitlines()]
    for one, other in zip(lines, again, strict=True):
        for name in ("EventId", "Timestamp", "a", "p", "_label_cost", "_label_probability", "_labelIndex", "o"):
            assert other[name] == one[name], name
        assert other.get("pdrop") == one.get("pdrop")
    assert dt.logs.read_dsjson(tmp_path / "ours.dsjson").table.equals(log.table, check_metadata=True)


def test_features_of_actions_that_change_come_through(pyvw, tmp_path):
    lines = []
    for i in range(30):
        multi = [{"_tag": name, "j": {"price": i * 0.25 if name == "b" else 1.0}} for name in "abc"]
        lines.append(event(f"e{i}", i % 3, 0.5, i % 2, multi=multi))
    path = write(tmp_path / "vw.dsjson", lines)
    log = dt.logs.read_dsjson(path)
    assert log.features[2]["_action"] == {"b": {"j": {"price": 0.5}}}
    assert log.actions == ({"_tag": "a", "j": {"price": 1.0}}, {"_tag": "b"}, {"_tag": "c", "j": {"price": 1.0}})
    dt.logs.write_dsjson(log, tmp_path / "ours.dsjson")
    assert labels_in(pyvw, tmp_path / "ours.dsjson") == labels_in(pyvw, path)


def test_outcomes_of_lines_of_their_own_are_joined(pyvw, played, tmp_path):
    answers = ("o", "_label_cost", "_original_label_cost")
    lines = [{key: value for key, value in line.items() if key not in answers} for line in played[:100]]
    lines += [outcome(line["EventId"], -line["_label_cost"]) for line in played[:50]]
    log = dt.logs.read_dsjson(write(tmp_path / "vw.dsjson", lines))
    expected = [-line["_label_cost"] for line in played[:50]]
    assert log.outcomes[:50].tolist() == expected
    assert np.isnan(log.outcomes[50:]).all()
    assert set(log.received_at[:50].tolist()) == {1612489718423000000}
    assert set(log.received_at[50:].tolist()) == {np.iinfo(np.int64).min}
    assert log.delays.tolist() == [99 - row for row in range(50)] + [-1] * 50
    dt.logs.write_dsjson(log, tmp_path / "ours.dsjson")
    again = dt.logs.read_dsjson(tmp_path / "ours.dsjson")
    assert again.table.drop_columns("delay").equals(log.table.drop_columns("delay"), check_metadata=True)
    assert again.delays.tolist() == [0] * 50 + [-1] * 50  # in dsjson, an outcome beside its decision has no delay
    loss, _ = progressive(pyvw, tmp_path / "ours.dsjson", "--cb_explore_adf --epsilon 1.0")
    counts = [2 if log.allowed is not None and log.allowed[i].sum() == 2 else 3 for i in range(50)]
    assert loss * 100 / 50 == pytest.approx(-np.mean(log.outcomes[:50] / (counts * log.probs[:50])), abs=2e-6)


names = st.text(min_size=1, max_size=6).filter(lambda name: not name.startswith("_"))
numbers = st.floats(-1e6, 1e6, width=32)
values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.text(max_size=8)
    | st.lists(names, max_size=3)
    | st.lists(numbers, max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def parser(pyvw):
    vw = pyvw.Workspace("--dsjson --quiet --cb_explore_adf")
    yield vw
    vw.finish()


@given(rows=st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=4))
def test_it_reads_whatever_features_we_write(pyvw, parser, tmp_path_factory, rows):
    log = dt.logs.from_arrays(
        features=rows, labels=[0] * len(rows), probs=[0.5] * len(rows), rewards=[1] * len(rows), classes=["a", "b"]
    )
    path = tmp_path_factory.mktemp("features") / "ours.dsjson"
    dt.logs.write_dsjson(log, path)
    for line in path.read_bytes().decode().split("\n")[:-1]:
        examples = parser.parse(line)
        assert [example.get_tag() for example in examples[1:]] == ["a", "b"]
        (cost,) = examples[1].get_label(pyvw.LabelType.CONTEXTUAL_BANDIT).costs
        assert (cost.cost, cost.probability) == (-1.0, 0.5)
        parser.finish_example(examples)
