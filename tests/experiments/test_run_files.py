"""Files of results: what is damaged is refused in one line, named and played again; what was written before stays."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delaytron as dt
from delaytron.experiments.execute import Watch, execute
from delaytron.experiments.run_files import decode_run, encode_run
from delaytron.experiments.runs import RunSpec
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import Store
from delaytron.experiments.theory import decode_theory, encode_theory, play_theory, theory_specs
from delaytron.experiments.workers import Workers
from delaytron.simulation.scenarios import checkpoints

RUN = RunSpec(
    data={"name": "digits"},
    learner="delaytron",
    parameters={"gamma": 0.1},
    delay="10",
    rounds=900,
    runs=3,
    seed=0,
    sampling="replacement",
)
ROUNDS = checkpoints(900)
TOML = b'name="x"\ndata=["digits"]\ndelays=[1]\nrounds=300\nruns=2\n[[learners]]\nname="delaytron"\ngamma=[0.1, 0.2]'


def some_mistakes():
    """Half of the rounds wrong, a third with the greedy labels."""
    return np.stack([np.stack([ROUNDS // 2, ROUNDS // 3], axis=1)] * RUN.runs)


def columns():
    mistakes = some_mistakes()
    return {
        "run": np.repeat(np.arange(RUN.runs), ROUNDS.size),
        "round": np.tile(ROUNDS, RUN.runs),
        "mistakes": mistakes[:, :, 0].ravel(),
        "greedy_mistakes": mistakes[:, :, 1].ravel(),
    }


def without_digest(given, content=RUN.content):
    """Return a file as earlier versions have written it."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(given, metadata={b"delaytron": content}), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def with_value(name, place, value):
    given = columns()
    given[name][place] = value
    return given


def test_a_file_says_what_was_written_and_is_ordinary_parquet(tmp_path):
    content = encode_run(RUN, some_mistakes())
    result = decode_run(RUN, content)
    assert np.array_equal(result.mistakes, some_mistakes())
    assert np.array_equal(result.rounds, ROUNDS)
    (tmp_path / "run.parquet").write_bytes(content)
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.column_names == ["run", "round", "mistakes", "greedy_mistakes"]
    assert table.schema.metadata[b"delaytron"].decode() == RUN.content


def test_every_single_bit_counts():
    content = encode_run(RUN, some_mistakes())
    for place in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(dt.InvalidInput) as caught:
            decode_run(RUN, bytes(flipped))
        assert "\n" not in str(caught.value)


def test_a_file_without_digest_is_valid_if_its_content_is():
    assert np.array_equal(decode_run(RUN, without_digest(columns())).mistakes, some_mistakes())


def refusal(content):
    """Return why a file is refused, nothing if it is not."""
    try:
        decode_run(RUN, content)
    except dt.InvalidInput as problem:
        return str(problem)
    return ""


def test_a_damaged_file_without_digest_never_ends_in_anything_but_one_line():
    content = np.frombuffer(without_digest(columns()), np.uint8)
    rng = np.random.default_rng(0)
    reasons = []
    for _ in range(1000):
        damaged = content.copy()
        damaged[rng.integers(content.size, size=3)] = rng.integers(256, size=3)
        reasons.append(refusal(damaged[: rng.choice([content.size, rng.integers(content.size)])].tobytes()))
    assert sum(map(bool, reasons)) > 600
    assert not any("\n" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({name: values[:-1] for name, values in columns().items()}, "it must have 156 rows, got 155"),
        ({name: values for name, values in columns().items() if name != "round"}, "must have the columns run, round"),
        (columns() | {"mistakes": columns()["mistakes"].astype(str)}, "must have the columns .*, all of integers"),
        (columns() | {"mistakes": columns()["mistakes"] / 2}, "must have the columns .*, all of integers"),
        (columns() | {"mistakes": pa.array([None, *columns()["mistakes"][1:]])}, "counts are missing in it"),
        (with_value("mistakes", 0, -1), "impossible: negative, falling, or above the rounds"),
        (with_value("mistakes", 5, 0), "impossible"),
        (with_value("greedy_mistakes", 50, 901), "impossible"),
        (with_value("greedy_mistakes", 0, 2), "impossible"),
        (with_value("round", 3, 7), "the numbers of its runs or rounds are not those of the run"),
        (with_value("run", 155, 1), "the numbers of its runs or rounds are not those of the run"),
    ],
)
def test_what_no_run_can_give_is_refused(given, message):
    with pytest.raises(dt.InvalidInput, match=message):
        decode_run(RUN, without_digest(given))


def test_the_file_of_another_run_is_refused():
    with pytest.raises(dt.InvalidInput, match="it holds another run than its name says"):
        decode_run(RUN, without_digest(columns(), content="another"))


@pytest.mark.parametrize("damage", [lambda old: b"PAR1", lambda old: old[:-9], lambda old: old[:99] + b"?" + old[100:]])
def test_a_damaged_file_is_named_and_played_again(tmp_path, damage):
    conditions = parse_spec(TOML).conditions()
    execute(conditions, Store(tmp_path))
    one, other = conditions[0].reported
    path = Store(tmp_path).runs.file(one)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    with pytest.raises(dt.InvalidInput, match=rf"{one.key}\.parquet is damaged: .*; the same command plays it again"):
        Store(tmp_path).read(one)
    warnings, played = [], []
    store = Store(tmp_path, warn=warnings.append)
    assert store.has(other)
    execute(conditions, store, watch=Watch(played.append))
    assert sum(played) == 300 * 2
    assert path.read_bytes() == before
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{path} is damaged and is played again: ")
    assert store.has(one)


def test_without_a_command_that_is_a_warning_of_python(tmp_path):
    store = Store(tmp_path)
    store.runs.path.mkdir()
    store.runs.file(RUN).write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged and is played again: it cannot be read"):
        assert not store.has(RUN)


def test_impossible_counts_are_not_written(tmp_path):
    with pytest.raises(dt.InvalidInput, match="impossible"):
        Store(tmp_path).write(RUN, some_mistakes() + 901)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.fixture(scope="module")
def study():
    return theory_specs(["usps", "digits"], [3], rounds=200)[0]


@pytest.fixture(scope="module")
def rows(study):
    return play_theory(study)


class TestTheory:
    def test_a_file_says_what_was_measured_and_every_bit_of_it_counts(self, study, rows):
        content = encode_theory(study, rows)
        assert decode_theory(study, content) == rows
        for place in range(0, 8 * len(content), 7):
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            with pytest.raises(dt.InvalidInput, match="its digest is not that of its content"):
                decode_theory(study, bytes(flipped))

    def test_it_is_about_its_own_study_only(self, study, rows):
        other = theory_specs(["digits"], [4], rounds=200)[0]
        with pytest.raises(dt.InvalidInput, match="it holds another study than its name says"):
            decode_theory(study, encode_theory(other, rows))

    def test_it_is_played_once_and_counted_and_the_same_on_every_backend(self, study, rows, tmp_path):
        for backend in ("threads", "processes"):
            played = []
            store = Store(tmp_path / backend)
            execute([], store, Workers(backend, 1), Watch(played.append), [study])
            assert sum(played) == study.n_rounds == 200 * 5 * 4
            execute([], Store(tmp_path / backend), Workers(backend, 1), Watch(played.append), [study])
            assert sum(played) == study.n_rounds
            assert Store(tmp_path / backend).theory.read(study) == rows
            assert [timing.runs for timing in store.timings()] == [(study.key,)]
