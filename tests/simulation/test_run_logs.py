"""Logs of simulations: every decision as `replay` makes it, its feedback when it is delivered, in bounded memory."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import delaytron as dt
from delaytron.rng import stream
from delaytron.simulation import run_logs
from delaytron.simulation.scenarios import SimulationConfig, draw_delays, draw_rows

SECOND = 10**9
MISSING = np.iinfo(np.int64).min
SPARSE = dt.datasets.load("synsep", n_samples=300)
DENSE = dt.datasets.Dataset(SPARSE.X.toarray(), SPARSE.y, "dense", SPARSE.class_names)


def check(log, data, delay, rounds, seed, run, **parameters):
    """Compare a log with a replay of the same rows, draws and delays."""
    config = SimulationConfig(data.n_rows, rounds, dt.delays.as_delay(delay), seed, "replacement")
    rows = draw_rows(config, run)
    delays = draw_delays(config.delay, rounds, seed, run)
    draws = stream(seed, "exploration", run=run).random(rounds)
    learner = dt.Delaytron(data.n_classes, data.n_features, **parameters)
    played = dt.replay(learner, data.X[rows], data.y[rows], delays, draws)
    assert len(log) == rounds
    assert np.array_equal(log.labels, played.labels)
    assert np.array_equal(log.probs, played.probs)
    t = np.arange(1, rounds + 1)
    came = t + delays <= rounds
    assert np.array_equal(np.isnan(log.outcomes), ~came)
    assert np.array_equal(log.outcomes[came], played.correct[came])
    assert np.array_equal(log.decided_at, t * SECOND)
    assert np.array_equal(log.received_at, np.where(came, (t + delays) * SECOND, MISSING))
    assert np.array_equal(log.occurred_at, log.received_at)
    assert log.until == rounds * SECOND
    assert np.array_equal(*(X.toarray() if data.sparse else X for X in (log.features, data.X[rows])))
    assert log.classes == data.class_names


@pytest.mark.parametrize("data", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("piece", [64, 8192])
@pytest.mark.parametrize(("delay", "rounds"), [(1, 300), (40, 300), (200, 700)])
def test_a_log_has_the_rounds_that_were_played(tmp_path, monkeypatch, data, piece, delay, rounds):
    monkeypatch.setattr(run_logs, "MOST_ROUNDS", piece)
    result = dt.simulate("delaytron", data, delay=delay, rounds=rounds, seed=3, gamma=0.2, log=tmp_path / "a.parquet")
    log = dt.logs.read_parquet(tmp_path / "a.parquet")
    check(log, data, delay, rounds, 3, 0, gamma=0.2)
    plain = dt.simulate("delaytron", data, delay=delay, rounds=rounds, seed=3, gamma=0.2)
    assert np.array_equal(result.mistakes, plain.mistakes)
    assert log.table["learner"].unique().to_pylist() == ["delaytron gamma=0.2"]


def test_several_runs_have_files_of_their_own(tmp_path):
    dt.simulate("delaytron", DENSE, delay=9, runs=3, gamma=[0.1, 0.4], log=tmp_path / "logs")
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == [f"setting-{entry}-run-{run}.parquet" for entry in range(2) for run in range(3)]
    ids = set()
    for entry, gamma in enumerate((0.1, 0.4)):
        for run in range(3):
            log = dt.logs.read_parquet(tmp_path / "logs" / f"setting-{entry}-run-{run}.parquet")
            check(log, DENSE, 9, 300, 0, run, gamma=gamma)
            ids.update(log.table["id"].to_pylist())
    assert len(ids) == 6 * 300


def test_a_stream_is_logged_as_its_file(tmp_path):
    path = tmp_path / "rows.svm"
    lines = [
        f"{y + 1} " + " ".join(f"{i + 1}:{v:.17g}" for i, v in enumerate(x) if v)
        for x, y in zip(DENSE.X, DENSE.y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    streamed = dt.datasets.stream(path)
    dt.simulate("delaytron", streamed, delay=25, gamma=0.2, log=tmp_path / "a.parquet")
    loaded = dt.datasets.load(path)
    check(dt.logs.read_parquet(tmp_path / "a.parquet"), loaded, 25, 300, 0, 0, gamma=0.2)


def test_flipped_feedback_is_logged_as_received(tmp_path):
    dt.simulate("delaytron", DENSE, gamma=0.2, noise=(0.1, 0.3), rounds=2000, log=tmp_path / "a.parquet")
    log = dt.logs.read_parquet(tmp_path / "a.parquet")
    config = SimulationConfig(DENSE.n_rows, 2000, dt.delays.as_delay(1), 0, "replacement")
    right = log.labels == DENSE.y[draw_rows(config, 0)]
    flipped = np.where(right, 0.3, 0.1) > stream(0, "noise", run=0).random(2000)
    came = ~np.isnan(log.outcomes)
    assert 100 < flipped.sum() < 600
    assert np.array_equal(log.outcomes[came], (right ^ flipped)[came])


def test_feedback_after_expiry_is_in_the_log(tmp_path):
    """A learner that stops waiting does not change what is received."""
    dt.simulate("delaytron", DENSE, delay=50, gamma=0.2, expire_after=5, log=tmp_path / "a.parquet")
    log = dt.logs.read_parquet(tmp_path / "a.parquet")
    delays = draw_delays(dt.delays.as_delay(50), 300, 0, 0)
    assert np.isnan(log.outcomes).sum() == (np.arange(1, 301) + delays > 300).sum()


def test_places_and_learners_that_cannot_have_a_log_are_refused(tmp_path):
    with pytest.raises(dt.InvalidInput, match="must be a folder"):
        dt.simulate("delaytron", DENSE, runs=2, log=tmp_path / "a.parquet")
    with pytest.raises(OSError, match="nowhere"):
        dt.simulate("delaytron", DENSE, log=tmp_path / "nowhere" / "a.parquet")
    with pytest.raises(dt.InvalidInput, match="plays several"):
        dt.simulate("dilute", DENSE, log=tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_after_an_error_no_file_is_left(tmp_path):
    def stop(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dt.simulate("delaytron", DENSE, gamma=0.2, log=tmp_path / "a.parquet", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_long_run_is_written_in_pieces(tmp_path):
    dt.simulate("delaytron", DENSE, rounds=40_000, gamma=0.2, log=tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert len(sizes) >= 5
    assert set(sizes[:-1]) == {sizes[0]}
    assert len(dt.logs.read_parquet(tmp_path / "a.parquet")) == 40_000
