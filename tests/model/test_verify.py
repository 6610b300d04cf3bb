"""Whatever was done with a model, its journal agrees with its state, before and after it is compacted."""

from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron.model import engine
from delaytron.model.export import export_journal
from delaytron.model.verify import compact_journal, verify_journal

ids = st.integers(0, 12).map("r{}".format)
steps = st.one_of(
    st.tuples(st.just("decide"), ids, st.lists(st.integers(-3, 3), min_size=2, max_size=2), st.booleans()),
    st.tuples(st.just("feedback"), ids, st.sampled_from([0.0, 0.25, 1.0])),
    st.tuples(st.just("other"), ids, st.sampled_from([0.0, 0.25, 1.0])),
    st.tuples(st.just("cancel"), ids),
    st.tuples(st.just("add"), st.sampled_from("abcde")),
    st.tuples(st.just("retire"), st.sampled_from("abcde")),
    st.just(("reopen",)),
    st.just(("compact",)),
)


class Story:
    """A model with a journal to which things happen; what is refused changes nothing."""

    def __init__(self, path, on_expiry):
        self.path = path
        self.model = dt.Model(list("abc"), features=2, journal=path, seed=4, expire_after=4, on_expiry=on_expiry)

    def do(self, what, *args):
        try:
            getattr(self, what)(*args)
        except (dt.InvalidInput, dt.UnknownDecision, dt.ConflictingFeedback, dt.ConflictingDecision):
            assert what not in ("reopen", "compact")

    def decide(self, name, x, restricted):
        self.model.decide(x, id=name, allowed=["a", "b"] if restricted else None)

    def feedback(self, name, reward):
        self.model.feedback(name, reward=reward)

    def other(self, name, reward):
        with dt.Journal(self.path) as journal:
            journal.feedback(name, reward=reward)

    def cancel(self, name):
        self.model.cancel(name)

    def add(self, name):
        self.model.add_class(name)

    def retire(self, name):
        self.model.retire_class(name)

    def reopen(self):
        self.model.close()
        self.model = dt.Model.open(self.path)

    def compact(self):
        state = self.model.digest()  # takes in what waits in the inbox
        self.kept_before = dict(self.model._engine.state.ids)  # open, or correctable
        self.model.close()
        before = verify_journal(self.path)
        found = compact_journal(self.path, "0.000000001s")
        after = verify_journal(self.path)
        assert (after.mismatch, after.hash, before.hash) == (None, state, state)
        assert sum(before.facts.values()) == found.facts_before
        assert sum(after.facts.values()) == found.facts_after
        assert after.purged == after.decided - len(self.kept_before)
        self.model = dt.Model.open(self.path)


def check(story, target):
    """Compare the journal with the model, and what is exported with its counts."""
    found = verify_journal(story.path)
    assert found.mismatch is None
    inside = story.model.digest()
    found = verify_journal(story.path)
    assert (found.mismatch, found.hash) == (None, inside)
    stats = story.model.stats()
    assert (found.decided, found.open, found.answered) == (stats.decisions, stats.open, stats.answered)
    exported = export_journal(story.path, target)
    rows = pq.read_table(target).to_pylist()
    assert len(rows) == exported.decided == found.decided - found.purged == found.decided - exported.purged
    assert Counter(row["status"] for row in rows)["open"] == stats.open
    assert all((row["outcome"] is None) <= (row["status"] != "answered") for row in rows)


@given(on_expiry=st.sampled_from(["drop", "wrong"]), done=st.lists(steps, min_size=5, max_size=40))
def test_whatever_is_done_the_journal_agrees(tmp_path_factory, on_expiry, done):
    folder = tmp_path_factory.mktemp("story")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FACTS_A_SNAPSHOT", 7)
        story = Story(folder / "a.db", on_expiry)
        for step in done:
            story.do(*step)
        check(story, folder / "o.parquet")
        story.model.close()
        assert verify_journal(folder / "a.db").mismatch is None


def test_a_model_writes_its_own_log(tmp_path):
    with dt.Model(["a", "b"], features=2, journal=tmp_path / "a.db", seed=1) as model:
        model.feedback(model.decide([1.0, 0.5], id="first").id, reward=0.7)
        model.decide([0.0, 1.0], id="second")
        assert model.export_log(tmp_path / "own.parquet") == (2, 0)
    export_journal(tmp_path / "a.db", tmp_path / "other.parquet")
    log = dt.logs.read_parquet(tmp_path / "own.parquet")
    assert log.table.equals(dt.logs.read_parquet(tmp_path / "other.parquet").table)
    assert log.table["id"].to_pylist() == ["first", "second"]
    assert log.table["outcome"].to_pylist() == [0.7, None]


def test_classes_that_are_the_same_as_text_are_not_exported(tmp_path):
    with dt.Model([1, "1"], features=2, journal=tmp_path / "a.db", seed=1) as model:
        model.decide([1.0, 0.5])
        with pytest.raises(dt.InvalidInput, match="cannot distinguish 1 from '1'"):
            model.export_log(tmp_path / "own.parquet")
    assert not (tmp_path / "own.parquet").exists()


def test_a_model_without_a_journal_has_no_log(tmp_path):
    with pytest.raises(
        dt.InvalidInput, match="without a journal keeps no decisions to write; make it with journal=path"
    ):
        dt.Model(["a", "b"], features=2).export_log(tmp_path / "own.parquet")
    assert not list(tmp_path.iterdir())
