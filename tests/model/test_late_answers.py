"""Answers after the expiry: the first one is recorded, whatever is said to the one who gives it."""

import pyarrow.parquet
import pytest
from models import small_model

import delaytron as dt
from delaytron.model.answering import answer
from delaytron.model.export import export_journal
from delaytron.model.verify import verify_journal


@pytest.fixture
def late(tmp_path):
    """Return a model with a journal in which decision "a" has expired."""
    with small_model(journal=tmp_path / "a.db", expire_after=1) as model:
        model.decide([1, 0], id="a")
        model.decide([1, 0], id="b")
        yield model


def give(model, correct):
    keeper = model._keeper
    return keeper.run(lambda now: answer(keeper, now, "a", (correct, None, None)))


def test_the_first_late_answer_is_recorded_and_teaches_nothing(late, tmp_path):
    before = late.digest()
    assert give(late, True) == "late_recorded"
    assert give(late, True) == "late_duplicate"
    assert give(late, False) == "late_conflict"
    assert late.feedback("a", correct=False) == "expired"
    assert late.digest() == before
    found = verify_journal(tmp_path / "a.db")
    assert (found.mismatch, found.facts["recorded late"], found.hash) == (None, 1, before)
    export_journal(tmp_path / "a.db", tmp_path / "a.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [(row["id"], row["status"], row["outcome"]) for row in rows] == [("a", "expired", 1.0), ("b", "open", None)]


def test_a_recorded_answer_outlives_a_restart(late, tmp_path):
    assert late.feedback("a", correct=False) == "expired"
    late.close()
    with dt.Model.open(tmp_path / "a.db") as again:
        assert give(again, False) == "late_duplicate"


def test_where_expiry_means_wrong_a_late_answer_corrects(tmp_path):
    with small_model(journal=tmp_path / "a.db", expire_after=1, on_expiry="wrong") as model:
        model.decide([1, 0], id="a")
        model.decide([1, 0], id="b")
        assert give(model, True) == "late_corrected"
        assert give(model, True) == "duplicate"
