"""What pandas and spreadsheets leave in tables: saved indices, counters, and dates in other notations."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

import delaytron as dt

N = 60


def frame():
    numbers = np.random.default_rng(0).normal(size=(N, 3))
    return pd.DataFrame(numbers).assign(label=np.arange(N) % 3)


def both(path, **options):
    """Load a file, and open it as a stream: both say the same."""
    whole, stream = dt.datasets.load(path, **options), dt.datasets.stream(path, **options)
    assert whole.feature_names == stream.feature_names
    return whole


def test_a_named_index_is_an_id(tmp_path):
    frame().rename_axis("row").to_csv(tmp_path / "table.csv")
    with pytest.raises(dt.InvalidInput, match="column 'row' looks like an id: 60 of 60 values differ"):
        dt.datasets.load(tmp_path / "table.csv")


def test_an_index_that_was_saved_and_read_and_saved(tmp_path):
    frame().to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "twice.csv", index=False)
    with pytest.raises(dt.InvalidInput, match=r"looks like an id.*\(--drop 'Unnamed: 0'\)"):
        dt.datasets.load(tmp_path / "twice.csv")
    assert both(tmp_path / "twice.csv", drop=["Unnamed: 0"]).n_features == 3


def test_the_index_of_a_frame_in_parquet_is_no_column(tmp_path):
    rows = pd.concat([frame()[30:], frame()[:30]]).rename(columns=str)
    rows.to_parquet(tmp_path / "table.parquet")
    assert both(tmp_path / "table.parquet").feature_names == ("0", "1", "2")


@pytest.mark.parametrize("first", [0, 1, -7])
def test_of_another_counter_there_is_a_note(tmp_path, first):
    frame().assign(n=np.arange(first, first + N)).to_csv(tmp_path / "table.csv", index=False)
    found = both(tmp_path / "table.csv")
    assert found.n_features == 4
    assert "column 'n' counts the rows; leave it out by drop=['n'] (--drop n) if that is all" in found.notes
    assert not any("counts" in note for note in both(tmp_path / "table.csv", keep=["n"]).notes)


def test_numbers_that_skip_one_count_nothing(tmp_path):
    counts = np.where(np.arange(N) < N - 1, np.arange(N), N)
    frame().assign(n=counts, half=np.arange(N) / 2).to_csv(tmp_path / "table.csv", index=False)
    assert not any("counts" in note for note in both(tmp_path / "table.csv").notes)


@pytest.mark.parametrize(
    ("form", "step", "parts"),
    [
        ("%Y/%m/%d", "D", 3),
        ("%d.%m.%Y", "D", 3),
        ("%Y/%m/%d %H:%M:%S", "7h", 4),
        ("%d.%m.%Y %H:%M", "7h", 4),
        ("%-d.%-m.%Y", "D", 3),
    ],
)
def test_dates_in_other_notations(tmp_path, form, step, parts):
    times = pd.date_range("2024-01-28", periods=N, freq=step)
    frame().assign(when=times.strftime(form)).to_csv(tmp_path / "table.csv", index=False)
    found = both(tmp_path / "table.csv")
    assert found.feature_names[3:] == (("when", "when.hour", "when.weekday", "when.month") if parts == 4 else
                                       ("when", "when.weekday", "when.month"))  # fmt: skip
    assert found.X[0, 3] == datetime(2024, 1, 28, tzinfo=UTC).timestamp()
    assert (found.X[:, 3] == times.to_numpy().astype("datetime64[s]").astype(float)).all()


def test_dates_of_any_order_are_not_called_ids(tmp_path):
    times = pd.date_range("2024-01-28", periods=N).strftime("%m/%d/%Y")
    frame().assign(when=times).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(dt.InvalidInput, match=r"column 'when' may be of dates: .*; write dates as 2024-05-31, leave"):
        dt.datasets.load(tmp_path / "table.csv")


def test_a_measure_that_is_taken_for_the_label(tmp_path):
    frame().drop(columns="label").to_csv(tmp_path / "table.csv", index=False)
    found = both(tmp_path / "table.csv", label=-1)
    assert found.notes[-1] == "labels: 60 classes in 60 rows; if '2' is not the label, pass label (--label)"
    frame().to_csv(tmp_path / "table.csv", index=False)
    assert not any("labels" in note for note in both(tmp_path / "table.csv").notes)
