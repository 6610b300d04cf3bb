"""Not one bit of learning changes: the digests of tools/guards.py are those recorded before the rebuild."""

import platform
from copy import deepcopy

import numpy as np
import pytest

import delaytron as dt
import guards

RECORDED_ON = (platform.system(), platform.machine()) == ("Linux", "x86_64")


@pytest.mark.skipif(not RECORDED_ON, reason="recorded on x86-64 Linux; elsewhere logarithms may have other last bits")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.torture)])
@pytest.mark.parametrize("group", guards.GROUPS)
def test_digests_are_the_recorded_ones(group, every):
    """A third of them; all, for which many more combinations of settings are compiled, by `make torture`."""
    assert guards.differences(group, every) == []


def test_every_learner_of_the_record_is_guarded():
    assert guards.FORMS.keys() <= dt.LEARNERS.keys()  # one that was added later has no digest from before
    for name in guards.FORMS:
        kinds = [key.split("/")[0] for key in guards.recorded(name)]
        n_models = 0 if name in guards.PLAYS_SETS else 18
        assert (kinds.count("learner"), kinds.count("replay"), kinds.count("simulate")) == (30, 30, 10)
        assert kinds.count("model") >= n_models


@pytest.fixture(scope="module")
def parts_of_guards():
    """Return all guards of two groups, frozen."""
    return {key: deepcopy(parts) for group in ("reference", "banditron") for key, parts in guards.guards(group)}


def test_guards_see_every_kind_of_event(parts_of_guards):
    streams = [parts for key, parts in parts_of_guards.items() if key.startswith("learner/")]
    models = [parts for key, parts in parts_of_guards.items() if key.startswith("model/")]
    pending = {play["kind"] for parts in streams + models for play in parts["pending"][1]}
    assert pending == {"answer", "wrong", "correction"}
    assert {play["indices"] is None for parts in streams for play in parts["open"]} == {True, False}
    assert {status for parts in streams for status, _ in parts["statuses"]} == {"open", "answered", "expired"}
    assert {status for parts in models for status, _ in parts["statuses"][1]} == {
        "open",
        "answered",
        "expired",
        "cancelled",
    }
    assert {reply for parts in streams for _, reply in parts["replies"]} == {"accepted", "duplicate", "conflict"}
    assert {reply for parts in models for _, reply in parts["replies"]} == {
        "accepted",
        "duplicate",
        "conflict",
        "cancelled",
    }
    assert {value for parts in streams for _, value in parts["statuses"]} - {None, 0.0, 1.0}  # rewards


def altered(value):
    """Yield copies of a value, each with one leaf that differs by the least possible, or with one entry less."""
    if isinstance(value, dict):
        for name in value:
            yield {key: part for key, part in value.items() if key != name}
            for other in altered(value[name]):
                yield value | {name: other}
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield [*value[:i], *value[i + 1 :]]
            for other in altered(item):
                yield [*value[:i], other, *value[i + 1 :]]
    elif isinstance(value, np.ndarray):
        yield value.reshape(1, *value.shape)
        for i in range(value.size):
            other = value.copy()
            flat = other.reshape(-1)
            flat[i] = next(iter(altered(flat[i].item())))
            yield other
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield float(np.nextafter(value, np.inf))
    else:
        yield "another" if value != "another" else None


@pytest.mark.parametrize("kind", ["reference", "learner", "replay", "model"])
def test_digests_depend_on_every_bit_of_every_part(parts_of_guards, kind):
    """In the first guard of a kind that has no empty part: "pending" begins with a number."""
    full = (parts for key, parts in parts_of_guards.items() if key.startswith(kind) and parts.get("pending", [0, 1])[1])
    parts = next(parts for parts in full if parts.get("open", True))
    for part in parts.values():
        assert guards.digest(part) not in [guards.digest(other) for other in altered(part)]


def played(extra_answer=False, extra_round=False):
    learner = dt.Banditron(3, 2, gamma=0.3, seed=5, expire_after=3, on_expiry="wrong")
    for t in range(12 + extra_round):
        decision = learner.decide([1.0, float(t % 3)])
        if t % 2:
            learner.feedback(decision.id, correct=t % 4 == 1)
    if extra_answer:
        learner.feedback(11, correct=True)
    return learner


def digests_of(learner):
    return {name: guards.digest(part) for name, part in guards.knowledge_parts(learner, lambda _: True).items()}


def changed(one, other):
    return {name for name in one if one[name] != other[name]}


def test_digests_depend_on_the_learner_itself():
    first = digests_of(played())
    assert changed(first, digests_of(played())) == set()
    assert changed(first, digests_of(played(extra_answer=True))) == {"open", "pending"}
    assert changed(first, digests_of(played(extra_round=True))) == {"state", "open", "pending", "draw"}
    learner = played()
    for array in guards.ADAPTER.state(learner).values():
        before = digests_of(learner)
        bits = array.reshape(-1).view(np.uint8)
        bits[0] ^= 1
        assert changed(before, digests_of(learner)) == {"state"}


def test_recorded_digests_are_not_overwritten(tmp_path):
    path = tmp_path / "guards.json"
    assert guards.record(["reference"], path) == 24
    assert guards.recorded("reference", path) == guards.digests("reference")
    with pytest.raises(FileExistsError):
        guards.record(["reference"], path)
