"""The results folder: files of runs and studies, damage, facts about data, and what other versions stored."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixtures.make_runs import conditions, errors, runs

import delaytron as dt
from delaytron import datasets
from delaytron.datasets.catalogue import CARDS
from delaytron.experiments import spec as specs
from delaytron.experiments import store
from delaytron.experiments.execute import Watch, Workers, execute
from delaytron.experiments.spec import RunSpec, parse_spec
from delaytron.experiments.store import (
    RunStore,
    decode_run,
    decode_theory,
    encode_run,
    encode_theory,
    facts_of_card,
    facts_of_data,
    read_facts,
    write_facts,
)
from delaytron.experiments.theory import play_theory, theory_specs
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


NO_DIGEST = b"sha256:" + b"0" * 64


def without_digest(given, content=RUN.content):
    """Return a file of these columns, with zeros in the place of the digest."""
    sink = pa.BufferOutputStream()
    table = pa.table(given)
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"delaytron": content, "digest": NO_DIGEST})
    return sink.getvalue().to_pybytes()


def with_digest(content):
    """Return a file, whatever is in it, with its digest: in the place of the zeros, or at its end."""
    before, zeros, after = content.rpartition(NO_DIGEST)
    before, after = (before, after) if zeros else (content, b"")
    return before + b"sha256:" + sha256(before + NO_DIGEST + after).hexdigest().encode() + after


def with_value(name, place, value):
    given = columns()
    given[name][place] = value
    return given


def test_a_file_has_what_was_written_and_is_ordinary_parquet(tmp_path):
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


def test_a_file_needs_its_digest():
    content = without_digest(columns())
    assert np.array_equal(decode_run(RUN, with_digest(content)).mistakes, some_mistakes())
    for other in (content, content.replace(NO_DIGEST, b"no digest"), b""):
        with pytest.raises(dt.InvalidInput, match="its digest is not that of its content"):
            decode_run(RUN, other)


def refusal(content):
    """Return why a file is refused, nothing if it is not."""
    try:
        decode_run(RUN, content)
    except dt.InvalidInput as problem:
        return str(problem)
    return ""


def test_a_damaged_file_with_a_true_digest_never_ends_in_anything_but_one_line():
    content = np.frombuffer(without_digest(columns()), np.uint8)
    rng = np.random.default_rng(0)
    reasons = []
    for _ in range(1000):
        damaged = content.copy()
        damaged[rng.integers(content.size, size=3)] = rng.integers(256, size=3)
        part = damaged[: rng.choice([content.size, rng.integers(content.size)])].tobytes()
        reasons.append(refusal(with_digest(part)))
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
        decode_run(RUN, with_digest(without_digest(given)))


def test_the_file_of_another_run_is_refused():
    with pytest.raises(dt.InvalidInput, match="it holds another run than its name says"):
        decode_run(RUN, with_digest(without_digest(columns(), content="another")))


@pytest.mark.parametrize("damage", [lambda old: b"PAR1", lambda old: old[:-9], lambda old: old[:99] + b"?" + old[100:]])
def test_a_damaged_file_is_named_and_played_again(tmp_path, damage):
    conditions = parse_spec(TOML).conditions()
    execute(conditions, RunStore(tmp_path))
    one, other = conditions[0].reported
    path = RunStore(tmp_path).runs.file(one)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    with pytest.raises(dt.InvalidInput, match=rf"{one.key}\.parquet is damaged: .*; the same command plays it again"):
        RunStore(tmp_path).read(one)
    warnings, played = [], []
    store = RunStore(tmp_path, warn=warnings.append)
    assert store.has(other)
    execute(conditions, store, watch=Watch(played.append))
    assert sum(played) == 300 * 2
    assert path.read_bytes() == before
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{path} is damaged and is played again: ")
    assert store.has(one)


def test_without_a_command_that_is_a_warning_of_python(tmp_path):
    store = RunStore(tmp_path)
    store.runs.path.mkdir()
    store.runs.file(RUN).write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged and is played again: its digest is not"):
        assert not store.has(RUN)


def test_impossible_counts_are_not_written(tmp_path):
    with pytest.raises(dt.InvalidInput, match="impossible"):
        RunStore(tmp_path).write(RUN, some_mistakes() + 901)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.fixture(scope="module")
def study():
    return theory_specs(["usps", "digits"], [3], rounds=200)[0]


@pytest.fixture(scope="module")
def rows(study):
    return play_theory(study)


class TestTheory:
    def test_a_file_has_what_was_measured_and_a_changed_bit_is_found(self, study, rows):
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
            store = RunStore(tmp_path / backend)
            execute([], store, Workers(backend, 1), Watch(played.append), [study])
            assert sum(played) == study.n_rounds == 200 * 5 * 4
            execute([], RunStore(tmp_path / backend), Workers(backend, 1), Watch(played.append), [study])
            assert sum(played) == study.n_rounds
            assert RunStore(tmp_path / backend).theory.read(study) == rows
            assert [timing.runs for timing in store.timings()] == [(study.key,)]


# Runs that released versions stored are read


FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(path.parent.name for path in FIXTURES.glob("*/errors.json"))


def test_runs_of_this_version_are_stored():
    assert dt.__version__ in VERSIONS, "run tests/experiments/fixtures/make_runs.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_of_a_released_version_are_read(version, tmp_path, monkeypatch):
    monkeypatch.setattr(specs, "__version__", version)
    folder = shutil.copytree(FIXTURES / version, tmp_path / "kept")
    stored = json.loads((folder / "errors.json").read_text())
    assert errors(RunStore(folder)) == stored
    assert {path.stem for path in folder.rglob("*.parquet")} == stored.keys()


def test_what_this_version_has_stored_is_not_played_again(tmp_path):
    folder = shutil.copytree(FIXTURES / dt.__version__, tmp_path / "kept")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    execute(conditions(), RunStore(folder))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before


def test_another_version_leaves_them_alone_and_plays_its_own(tmp_path, monkeypatch):
    folder = shutil.copytree(FIXTURES / dt.__version__, tmp_path / "kept")
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    monkeypatch.setattr(specs, "__version__", "99.0")
    assert runs(RunStore(folder)) == {}
    execute(conditions(), RunStore(folder))
    assert {path: path.read_bytes() for path in before} == before
    assert len(runs(RunStore(folder))) == len(before)


# Facts about data sets: written once beside the results, and read without loading any data


def conditions_of(data):
    return parse_spec(
        f'name = "x"\ndata = [{data}]\ndelays = [1]\n[[learners]]\nname = "banditron"'.encode()
    ).conditions()


@pytest.mark.parametrize("name", ["digits", "synsep", "synnonsep"])
def test_facts_of_a_card_are_those_of_its_data(name):
    assert facts_of_card(name, CARDS[name]) == facts_of_data(name, datasets.load(name))


def test_named_data_sets_are_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "load_source", lambda *_, **__: pytest.fail("loaded"))
    conditions = conditions_of('"cifar10", "ecoli"')
    write_facts(conditions, tmp_path)
    kept = read_facts(conditions, tmp_path)
    assert kept["cifar10"].majority_error == pytest.approx(0.9)
    assert (kept["cifar10"].storage, kept["ecoli"].storage) == ("sparse", "dense")
    assert kept["ecoli"].majority_error == pytest.approx(1 - 143 / 336)


def test_options_and_files_are_looked_at(tmp_path):
    file = tmp_path / "pets.csv"
    file.write_text("weight,kind\n1,cat\n2,cat\n3,dog\n4,cat\n")
    conditions = conditions_of(f'{{name = "synsep", n_samples = 50}}, {{name = "{file}", label = "kind"}}')
    write_facts(conditions, tmp_path)
    kept = read_facts(conditions, tmp_path)
    assert kept["synsep"].rows == 50
    assert kept["synsep"].storage == "sparse"
    assert kept["synsep"].majority_error == 1 - np.bincount(datasets.load("synsep", n_samples=50).y).max() / 50
    assert (kept[str(file)].rows, kept[str(file)].classes, kept[str(file)].majority_error) == (4, 2, 0.25)
    file.write_text("weight,kind\n1,cat\n2,dog\n")
    assert str(file) not in read_facts(conditions_of(f'{{name = "{file}", label = "kind"}}'), tmp_path)


def test_facts_are_written_once_and_again_where_the_file_is_damaged(tmp_path, monkeypatch):
    conditions = conditions_of('{name = "synsep", n_samples = 50}')
    write_facts(conditions, tmp_path)
    (path,) = (tmp_path / "data").iterdir()
    first = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(store, "load_source", lambda *_, **__: pytest.fail("loaded"))
        write_facts(conditions, tmp_path)
    for damaged in (first[:20], first.replace(b'"rows":50', b'"rows":51')):
        assert damaged != first
        path.write_bytes(damaged)
        assert read_facts(conditions, tmp_path) == {}
        write_facts(conditions, tmp_path)
        assert path.read_bytes() == first


def test_where_the_data_are_gone_there_are_none(tmp_path):
    file = tmp_path / "pets.csv"
    file.write_text("weight,kind\n1,cat\n2,dog\n")
    conditions = conditions_of(f'{{name = "{file}", label = "kind"}}')
    file.unlink()
    write_facts(conditions, tmp_path)
    assert read_facts(conditions, tmp_path) == {}
