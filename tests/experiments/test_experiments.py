"""Experiments: specifications, stored results, interruption and resumption, equal bytes on every backend."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import reload
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.cli import experiment
from delaytron.datasets.catalogue import CARDS
from delaytron.experiments import execute as memory
from delaytron.experiments.execute import Watch, Workers, execute, obtain_data
from delaytron.experiments.execute import play as play_job
from delaytron.experiments.report import charts as figures
from delaytron.experiments.sources import file_digest
from delaytron.experiments.spec import RunSpec, built_in, parse_spec, read_spec
from delaytron.experiments.store import RunStore, missing_rounds, outcomes
from delaytron.learners import LEARNERS

TOML = """
name = "small"
data = ["digits", {name = "synsep", n_samples = 500, scale = "unit"}]
delays = [1, "fixed:30"]
rounds = 600
runs = 3
tuning_runs = 2
seed = 4

[[learners]]
name = "delaytron"
gamma = [0.05, 0.2]

[[learners]]
name = "adaptive_delaytron"
title = "adaptive, instant"
tracker = "instant"
gamma = 0.1
delays = [30]
"""

PAPER_DATA = ("cifar10", "fashion_mnist", "usps", "digits", "abalone", "ecoli", "synsep", "synnonsep")
PAPER_DELAYS = ("1", "100", "1000", "2500", "5000")


@pytest.fixture
def spec():
    return parse_spec(TOML.encode())


def contents(folder):
    return {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}


def play(spec, folder, *workers):
    played = []
    execute(spec.conditions(), RunStore(folder), Workers(*workers), Watch(played.append))
    return sum(played)


class TestSpec:
    def test_every_learner_meets_every_data_set_and_delay(self, spec):
        assert [
            (condition.data, condition.title, condition.delay, len(condition.reported), len(condition.tuning))
            for condition in spec.conditions()
        ] == [
            ("digits", "delaytron", "1", 2, 2),
            ("digits", "delaytron", "fixed:30", 2, 2),
            ("synsep", "delaytron", "1", 2, 2),
            ("synsep", "delaytron", "fixed:30", 2, 2),
            ("digits", "adaptive, instant", "30", 1, 0),  # there is nothing to choose
            ("synsep", "adaptive, instant", "30", 1, 0),
        ]

    def test_tuning_has_other_seeds_and_other_rows_where_rows_are_drawn(self, spec):
        condition = spec.conditions()[2]
        assert [(run.seed, run.runs) for run in (condition.reported[0], condition.tuning[0])] == [
            (4, 3),
            (4 + 1000003, 2),
        ]
        assert "seed" not in condition.reported[0].data
        assert condition.tuning[0].data["seed"] == 4 + 1000003
        assert spec.conditions()[0].tuning[0].data == {"name": "digits"}

    def test_a_run_is_named_by_its_content(self, spec, tmp_path):
        runs = [run for condition in spec.conditions() for run in condition.reported + condition.tuning]
        assert len({run.key for run in runs}) == len(runs) == 18
        again = [
            run for condition in parse_spec(TOML.encode()).conditions() for run in condition.reported + condition.tuning
        ]
        assert [run.key for run in runs] == [run.key for run in again]

    @pytest.mark.parametrize("text", ['data = ["{}"]', 'delays = ["trace:{}"]'])
    def test_another_content_of_a_file_is_another_run(self, tmp_path, text):
        file, keys = tmp_path / "own.csv", set()
        for content in ("a,y\n1,2\n3,4\n", "a,y\n1,2\n5,4\n") if "data" in text else ("3\n4\n", "3\n5\n"):
            file.write_text(content)
            toml = 'name = "own"\n' + text.format(file) + ("" if "data" in text else '\ndata = ["digits"]')
            conditions = parse_spec(f'{toml}\n[[learners]]\nname = "banditron"'.encode()).conditions()
            keys.add(conditions[0].reported[0].key)
        assert len(keys) == 2

    def test_fewer_data_sets_and_rounds(self, spec):
        assert {condition.data for condition in spec.only(["synsep"]).conditions()} == {"synsep"}
        assert {
            run.rounds for condition in spec.scaled(0.1).conditions() for run in condition.reported + condition.tuning
        } == {60}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                "seed = 4",
                "sed = 4",
                "a key must be one of name, .*, got 'sed'; did you mean seed",
            ),
            ("seed = 4", "seed = -4", "seed must be an integer of at least 0, got -4"),
            ("seed = 4", "seed = ", "it is no experiment in TOML: Invalid value"),
            ("runs = 3", 'runs = "three"', "Expected `int`, got `str`"),
            ("runs = 3", "runs = 100_001", "runs must be at most 100,000, got 100001"),
            ("runs = 3", "runs = 0", "runs must be an integer of at least 1, got 0"),
            ('"digits"', '"no.csv"', "cannot read 'no.csv': No such file or directory; check the name"),
            ('"digits"', '"synsep"', "data must be at least one, and no two of the same name or title"),
            ('"digits"', "{scale = 1}", "a data set must be a name or a table with a name that is text"),
            ('name = "delaytron"', 'name = "deltron"', "learner must be one of "),
            ('name = "delaytron"', "", "a learner must be a table with a name"),
            ("gamma = [0.05, 0.2]", "gamma = []", "gamma must have at least one value"),
            ("gamma = [0.05, 0.2]", "gamma = {a = 1}", "gamma of delaytron must be a number, .*, got a table"),
            ("gamma = [0.05, 0.2]", "gamma = [[[1]]]", "gamma of delaytron must be a number, .*, got a list"),
            ("gamma = [0.05, 0.2]", "gamma = 1979-05-27", "gamma of delaytron must be a number, .*, got a date"),
            (
                "gamma = [0.05, 0.2]",
                f"gamma = {[i / 200 for i in range(1, 200)]}\neta = {[*range(1, 200)]}",
                "delaytron must have at most 10,000 settings, got 39,601",
            ),
            (
                "gamma = 0.1",
                f"gamma = 0.1\n{'.'.join('a' * 5000)} = 1",
                "a of adaptive, instant must be .*, got a table",
            ),
            ('"digits"', r'"a\u0000b"', r"data set must be one of .*, got 'a\\x00b'"),
            ("delays = [30]", "delays = [true]", "delays of .* must be integers or text, got True"),
            ("delays = [30]", "delays = [[30]]", "delays of .* must be integers or text, got a list"),
            ('title = "adaptive, instant"', "title = {a = 1}", "title of .* must be text, got a table"),
            ("n_samples = 500", "n_samples = {a = 1}", "n_samples of synsep must be .*, got a table"),
            ('name = "delaytron"', 'name = ["delaytron"]', "a learner must be a table with a name that is text"),
            ("rounds = 600", f"rounds = {2**63 - 1}", "rounds must be at most 4,294,967,294, got 9223372036854775807"),
            ("rounds = 600", f"rounds = {'9' * 99}", "rounds must be at most 4,294,967,294, got far more"),
            ("rounds = 600", f"rounds = {'9' * 9999}", "it is no experiment in TOML: Exceeds the limit"),
            ("seed = 4", f"seed = {2**63 - 1}", "seed must be at most 4,611,686,018,427,387,904, got"),
            ("seed = 4", f"checkpoints = {2**63 - 1}", "checkpoints must be at most 10,000, got"),
            ("seed = 4", f"checkpoints = {'[' * 9999}{']' * 9999}", "lists or tables are nested too deeply"),
            ("gamma = [0.05, 0.2]", "gama = 1", "delaytron takes gamma, eta, "),
            ('title = "adaptive, instant"', 'title = "delaytron"', "no two of the same name or title"),
            (
                'delays = [1, "fixed:30"]',
                "delays = [30, 30]",
                "delays of .* must be at least one, and no two of the same",
            ),
            ('"fixed:30"', '"often"', "delay must be "),
            ("gamma = 0.1", "gamma = 0.1\nruns = 0", "runs must be an integer of at least 1, got 0"),
            ("gamma = 0.1", 'gamma = 0.1\nreport = "some"', "report must be one of all, chosen, single, got 'some'"),
            ("gamma = [0.05, 0.2]", "gamma = [0.05, 7]", r"gamma must be in \(0, 1\], got 7"),
            ("delays = [30]", "delays = 30", "delays of adaptive, instant must be a list, got 30"),
            ("tuning_runs = 2", 'report = "chosen"', "report = 'chosen' needs tuning_runs"),
            ("seed = 4", "checkpoints = 0", "checkpoints must be an integer of at least 1, got 0"),
            ("seed = 4", 'sampling = "twice"', "sampling must be one of replacement, epochs, drawn, got 'twice'"),
            ('"fixed:30"', '"recorded"', "digits has no recorded delays, and a delay is recorded; give its table"),
            ('"fixed:30"', '"right=recorded/wrong=1"', "digits has no recorded delays"),
            ('"fixed:30"', '"right=1"', "delay must be right=MODEL/wrong=MODEL"),
            (
                '"digits"',
                '{name = "digits", title = 3}',
                "title of a data set must be text",
            ),
            ('"digits"', '{name = "digits", title = "synsep"}', "no two of the same name or title"),
            ('"digits"', '{name = "digits", rounds = 0}', "rounds must be an integer of at least 1, got 0"),
        ],
    )
    def test_what_cannot_be_played_is_refused_before_anything_is(self, old, new, message):
        with pytest.raises(dt.InvalidInput, match=message):
            parse_spec(TOML.replace(old, new, 1).encode()).conditions()

    def test_a_file_that_is_wrong_is_named(self, tmp_path):
        with pytest.raises(dt.InvalidInput, match=r"cannot read '.*no\.toml': No such file"):
            read_spec(tmp_path / "no.toml")
        (tmp_path / "bad.toml").write_bytes(b"\xff")
        with pytest.raises(dt.InvalidInput, match=r"bad\.toml: it is not text in UTF-8; save the file as UTF-8$"):
            read_spec(tmp_path / "bad.toml")

    def test_a_data_set_may_have_a_title_and_rounds_of_its_own(self):
        toml = TOML.replace('"digits"', '"digits", {name = "digits", title = "few", rounds = 50, scale = "unit"}')
        spec = parse_spec(toml.encode())
        runs = {condition.data: condition.reported[0] for condition in spec.conditions()}
        assert {name: run.rounds for name, run in runs.items()} == {"digits": 600, "few": 50, "synsep": 600}
        assert runs["few"].data == {"name": "digits", "scale": "unit"}
        assert spec.only(["few"]).conditions()[0].reported[0].rounds == 50
        assert {run.rounds for one in spec.scaled(0.1).conditions() for run in one.reported} == {60, 5}


LOG = """
name = "log"
data = [{{name = "{path}", label = "y", decided = "a", answered = "b"}}]
delays = ["recorded", "shuffled", "right=recorded/wrong=class:u=3/else=40", "right=2/wrong=fixed:50", 1]
rounds = 120
runs = 2
learners = [{{name = "delaytron", gamma = [0.1, 0.3], expire_after = [20]}}]
"""


class TestLogs:
    @pytest.fixture
    def log(self, tmp_path):
        rng = np.random.default_rng(0)
        rows = [
            f"{t},{t + rng.integers(1, 90) if rng.random() < 0.8 else ''},{rng.normal():.4f},{'uv'[rng.integers(2)]}"
            for t in rng.permutation(120).tolist()
        ]
        path = tmp_path / "log.csv"
        path.write_text("\n".join(["a,b,x,y", *rows]) + "\n")
        return path

    def test_its_delays_are_those_of_the_simulator(self, log, tmp_path):
        spec = parse_spec(LOG.format(path=log).encode())
        play(spec, tmp_path / "out")
        data = dt.datasets.load(log, label="y", decided="a", answered="b")
        for condition in spec.conditions():
            expected = dt.simulate(
                "delaytron", data, delay=condition.delay, rounds=120, runs=2, gamma=[0.1, 0.3], expire_after=20
            )
            kept = [RunStore(tmp_path / "out").read(run) for run in condition.reported]
            assert np.array_equal(np.concatenate([result.mistakes for result in kept]), expected.mistakes)
        found = {condition.delay: condition.reported[0].key for condition in spec.conditions()}
        assert len(set(found.values())) == 5

    def test_scenarios_of_one_log_are_not_those_of_another(self, log, tmp_path):
        other = tmp_path / "other.csv"
        cells = [line.split(",") for line in log.read_text().splitlines()]
        other.write_text("\n".join(",".join([a, "" if a != "a" else b, x, y]) for a, b, x, y in cells))  # no answers
        table = f'name = "{other}", label = "y", decided = "a", answered = "b"'
        toml = LOG.format(path=log).replace("data = [", f"data = [{{{table}}}, ")
        spec = parse_spec(toml.encode())
        play(spec, tmp_path / "out")
        kept = {
            c.data: RunStore(tmp_path / "out").read(c.reported[0]) for c in spec.conditions() if c.delay == "recorded"
        }
        data = dt.datasets.load(other, label="y", decided="a", answered="b")
        expected = dt.simulate("delaytron", data, rounds=120, runs=2, gamma=0.1, expire_after=20)
        assert np.array_equal(kept[str(other)].mistakes, expected.mistakes)
        assert not np.array_equal(kept[str(log)].mistakes, expected.mistakes)

    def test_the_command_reports_it(self, log, tmp_path):
        (tmp_path / "spec.toml").write_text(LOG.format(path=log))
        result = CliRunner().invoke(
            cli.app,
            ["experiment", str(tmp_path / "spec.toml"), "--output", str(tmp_path / "out")],
            env={"COLUMNS": "150"},
        )
        assert result.exit_code == 0, result.output
        assert "recorded" in (tmp_path / "out" / "report.md").read_text()
        assert (tmp_path / "out" / "figures" / "delay.png").is_file()  # of those whose mean is known

    def test_more_rounds_than_rows_are_one_line(self, log, tmp_path):
        spec = parse_spec(LOG.format(path=log).replace("rounds = 120", "rounds = 121").encode())
        with pytest.raises(
            dt.InvalidInput, match="rounds must be at most 120, as rows with their own delays are played"
        ):
            play(spec, tmp_path / "out")

    @pytest.mark.parametrize(("name", "rows"), [("hotel_resort", [40060]), ("incidents", [8210, 11122, 12000])])
    def test_those_of_the_package_play_every_row_once(self, name, rows):
        assert name in experiment.NAMED
        spec, content = built_in(name)
        assert parse_spec(content) == spec
        conditions = spec.conditions()
        assert sorted({run.rounds for one in conditions for run in one.reported}) == rows
        assert {one.delay for one in conditions} == {"1", "shuffled", "recorded"}
        assert max(rows) == CARDS[name].n_rows


class TestBuiltIn:
    def test_the_paper_is_played_at_the_scale_of_its_authors(self):
        spec, content = built_in("paper")
        conditions = spec.conditions()
        assert parse_spec(content) == spec
        assert {(condition.data, condition.delay) for condition in conditions} == {
            (data, delay) for data in PAPER_DATA for delay in PAPER_DELAYS
        }
        assert {run.rounds for condition in conditions for run in condition.reported + condition.tuning} == {10**6}
        ours = [condition for condition in conditions if condition.title in ("delaytron", "adaptive_delaytron")]
        assert all(condition.all_reported for condition in ours)
        assert sum(run.n_rounds for condition in ours for run in condition.reported) == 14_400_000_000
        assert [run.parameters["gamma"] for run in conditions[0].reported] == [2.0**-k for k in range(10, 1, -1)]

    def test_every_learner_plays_at_every_delay_with_at_most_nine_settings(self):
        conditions = built_in("paper")[0].conditions()
        played = {(condition.reported[0].learner, condition.data, condition.delay) for condition in conditions}
        names = {learner for learner, _, _ in played}
        assert len(names) == 17  # all learners of the first release; later ones are not of the paper
        assert names <= LEARNERS.keys()
        assert len(played) == len(names) * 8 * 5
        assert max(len(condition.reported) for condition in conditions) == 9
        assert all(condition.tuning for condition in conditions if len(condition.reported) > 1)

    @pytest.mark.parametrize("name", ["paper", "quick"])
    def test_the_default_learner_plays_untuned_at_every_delay(self, name):
        spec = built_in(name)[0]
        conditions = [one for one in spec.conditions() if one.title == dt.DEFAULT_LEARNER]
        assert [condition.delay for condition in conditions] == [str(d) for _ in spec.data for d in spec.delays]
        assert all(condition.untuned and not condition.tuning for condition in conditions)
        assert {(run.runs, *run.parameters) for condition in conditions for run in condition.reported} == {(spec.runs,)}

    def test_the_quick_one_needs_no_download(self):
        assert {CARDS[condition.data].origin for condition in built_in("quick")[0].conditions()} == {"made"}


class TestResults:
    def test_they_are_those_of_the_simulator(self, spec, tmp_path):
        play(spec, tmp_path)
        condition = spec.conditions()[3]
        data = dt.datasets.load("synsep", n_samples=500, scale="unit")
        expected = dt.simulate("delaytron", data, delay="fixed:30", rounds=600, runs=3, seed=4, gamma=[0.05, 0.2])
        kept = [RunStore(tmp_path).read(run) for run in condition.reported]
        assert np.array_equal(np.concatenate([result.mistakes for result in kept]), expected.mistakes)
        assert np.array_equal(kept[0].rounds, expected.rounds)

    def test_other_seeds_choose_the_setting(self, spec, tmp_path):
        play(spec, tmp_path)
        for outcome in outcomes(spec.conditions(), RunStore(tmp_path)):
            errors = [
                RunStore(tmp_path).read(run).final_error.mean()
                for run in outcome.condition.tuning or outcome.condition.reported
            ]
            assert outcome.run == outcome.condition.reported[int(np.argmin(errors))]
            assert np.array_equal(outcome.result.mistakes, RunStore(tmp_path).read(outcome.run).mistakes)

    def test_only_the_chosen_setting_is_reported_where_that_is_asked(self, spec, tmp_path):
        chosen = parse_spec(TOML.replace("gamma = [0.05, 0.2]", 'gamma = [0.05, 0.2]\nreport = "chosen"').encode())
        before = sum(missing_rounds(condition, RunStore(tmp_path)) for condition in chosen.conditions())
        assert play(chosen, tmp_path / "chosen") == before == 600 * (6 * 3 + 8 * 2)
        play(spec, tmp_path / "all")
        assert contents(tmp_path / "chosen").items() < contents(tmp_path / "all").items()
        one, other = (
            outcomes(what.conditions(), RunStore(tmp_path / name)) for what, name in ((chosen, "chosen"), (spec, "all"))
        )
        assert [outcome.run for outcome in one] == [outcome.run for outcome in other]

    def test_errors_are_noted_at_as_many_rounds_as_asked(self, spec, tmp_path):
        few = parse_spec(TOML.replace("seed = 4", "seed = 4\ncheckpoints = 3").encode()).only(["digits"])
        play(few, tmp_path / "few")
        play(spec.only(["digits"]), tmp_path / "many")
        few_found, many_found = (
            outcomes(what.conditions(), RunStore(tmp_path / name))
            for what, name in ((few, "few"), (spec.only(["digits"]), "many"))
        )
        assert few_found[0].result.rounds.tolist() == [1, 24, 600]
        assert np.array_equal(few_found[0].result.final_error, many_found[0].result.final_error)

    def test_infinity_is_another_setting_than_nothing(self):
        text = 'name="C"\ndata=["digits"]\ndelays=[1]\n[[learners]]\nname="pab"\nC=[inf, 1.0]'
        contents = [run.content for run in parse_spec(text.encode()).conditions()[0].reported]
        assert '"C":"inf"' in contents[0]
        assert '"C":1.0' in contents[1]

    def test_timings_are_stored_and_a_truncated_line_is_not_read(self, spec, tmp_path):
        play(spec, tmp_path)
        store = RunStore(tmp_path)
        noted = [key for timing in store.timings() for key in timing.runs]
        assert sorted(noted) == sorted(path.stem for path in (tmp_path / "runs").iterdir())
        assert all(timing.seconds > 0 and timing.memory > 2**20 for timing in store.timings())
        before = store.timings()
        assert len(store.log.read_text().splitlines()) == len(before)  # no blank lines
        assert store.log.read_bytes().endswith(b"\n")
        with store.log.open("ab") as file:
            file.write(b'{"runs":["a')
        store.note(before[0])
        store.note(before[1])
        assert store.timings() == [*before, *before[:2]]
        assert len(store.log.read_text().splitlines()) == len(before) + 3

    def test_a_run_and_an_experiment_play_the_same(self, tmp_path):
        """Rows with few non-zeros are played as CSR by both."""
        rng = np.random.default_rng(5)
        X = np.where(rng.random((300, 20)) < 0.15, rng.normal(size=(300, 20)), 0.0)
        path = tmp_path / "few.npz"
        np.savez(path, X=X, y=np.arange(300) % 3)
        how = {"rounds": 600, "runs": 3, "seed": 4, "sampling": "replacement"}
        data = {"name": str(path), "sha256": file_digest(path)}
        run = RunSpec(data=data, learner="exact_pa", parameters={"gamma": 0.1}, delay="20", **how)
        played = dt.simulate("exact_pa", dt.datasets.load(path), delay=20, gamma=0.1, **how)
        assert (play_job((run,)).outcome[0] == played.mistakes).all()
        assert played.form == "sparse"

    def test_a_second_time_gives_the_same_bytes(self, spec, tmp_path):
        play(spec, tmp_path / "a")
        play(spec, tmp_path / "b")
        assert contents(tmp_path / "a") == contents(tmp_path / "b")
        assert len(contents(tmp_path / "a")) == 18

    def test_what_is_there_is_not_played_again(self, spec, tmp_path):
        whole = play(spec, tmp_path)
        assert whole == 600 * (10 * 3 + 8 * 2)
        assert play(spec, tmp_path) == 0
        before = contents(tmp_path)
        lost = spec.conditions()[0].reported[1]
        (tmp_path / "runs" / f"{lost.key}.parquet").unlink()
        assert play(spec, tmp_path) == 600 * 3
        assert contents(tmp_path) == before


def children(word, parent=None):
    """Return the processes that one, by default this one, started and that are called so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            own = f"PPid:\t{parent or os.getpid()}\n" in (folder / "status").read_text()
            found += [int(folder.name)] if own and word in (folder / "cmdline").read_text() else []
    return found


def eventually(find):
    """Return what is found as soon as it is there."""
    deadline = time.monotonic() + 120
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def is_alive(process):
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    return False


def playing(parent):
    """Return the workers of a process that ignore Ctrl-C already: they have a task."""
    ignoring = 1 << (signal.SIGINT - 1)
    return [
        worker
        for worker in children("LokyProcess", parent)
        if int(re.search(r"SigIgn:\t(\w+)", Path(f"/proc/{worker}/status").read_text())[1], 16) & ignoring
    ]


LONG = TOML.replace("rounds = 600", "rounds = 200_000").replace("tuning_runs = 2", "tuning_runs = 0")


PLAY = """
from pathlib import Path
from delaytron.experiments.execute import execute
from delaytron.experiments.spec import read_spec
from delaytron.experiments.store import RunStore
execute(read_spec(Path("spec.toml")).conditions(), RunStore(Path("out")))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    play(parse_spec(LONG.encode()), folder)
    return contents(folder)


@pytest.mark.xdist_group("experiments")
class TestEndings:
    def test_kill_9_costs_only_the_job_that_was_played(self, tmp_path, undisturbed):
        (tmp_path / "spec.toml").write_text(LONG)
        command = [sys.executable, "-c", PLAY]
        process = subprocess.Popen(command, cwd=tmp_path)
        while process.poll() is None and not list(tmp_path.glob("out/runs/*.parquet")):
            time.sleep(0.01)
        process.kill()
        process.wait()
        kept = contents(tmp_path / "out")
        whole = {name: content for name, content in kept.items() if name.endswith(".parquet")}
        assert 0 < len(whole) < len(undisturbed)
        assert whole.items() <= undisturbed.items()
        subprocess.run(command, cwd=tmp_path, check=True)
        again = contents(tmp_path / "out")
        assert {name: again[name] for name in undisturbed} == undisturbed

    def test_a_worker_that_is_killed_costs_a_retry(self, tmp_path, undisturbed):
        killed = []

        def kill():
            killed.append(eventually(lambda: playing(os.getpid()))[0])
            os.kill(killed[0], signal.SIGKILL)

        killer = Thread(target=kill)
        killer.start()
        play(parse_spec(LONG.encode()), tmp_path, "processes", 2)
        killer.join()
        assert killed
        assert contents(tmp_path) == undisturbed

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
    @pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130), ("SIGKILL", -9)])
    def test_no_process_is_left_when_the_command_is_ended(self, tmp_path, name, code):
        (tmp_path / "spec.toml").write_text(LONG.replace("200_000", "40_000_000"))
        command = [sys.executable, "-m", "delaytron", "experiment", "spec.toml", "--output", "out"]
        process = subprocess.Popen(
            [*command, "--backend", "processes", "--workers", "2"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        workers = eventually(lambda: len(found := playing(process.pid)) == 2 and found)
        process.send_signal(getattr(signal, name))
        message = process.communicate(timeout=60)[1]
        assert process.returncode == code
        assert ("what was played is kept in out" in message) == (name != "SIGKILL")
        assert "Traceback" not in message
        assert eventually(lambda: not any(is_alive(worker) for worker in workers))


@pytest.mark.parametrize("backend", ["threads", "processes"])
@pytest.mark.parametrize("workers", [1, 2])
def test_every_backend_gives_the_same_bytes(spec, tmp_path, backend, workers):
    play(spec, tmp_path / "a")
    assert play(spec, tmp_path / "b", backend, workers) == 600 * (10 * 3 + 8 * 2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


class TestCommand:
    @pytest.fixture(autouse=True)
    def quickly(self, monkeypatch):
        """Drawing takes seconds, and test_charts.py looks at what is drawn."""
        monkeypatch.setattr(figures, "save_figure", lambda _, path: path.write_text("<svg></svg>"))

    def run(self, folder, *flags):
        (folder / "spec.toml").write_text(TOML)
        arguments = ["experiment", str(folder / "spec.toml"), "--output", str(folder / "out"), *flags]
        return CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "120"}, prog_name="delaytron")

    def test_it_prints_what_is_kept(self, tmp_path, spec):
        rows = json.loads(self.run(tmp_path, "--json").stdout)
        store = RunStore(tmp_path / "out")
        assert [row["final_errors"] for row in rows] == [
            outcome.result.final_error.tolist() for outcome in outcomes(spec.conditions(), store)
        ]
        assert (tmp_path / "out" / "spec.toml").read_text() == TOML
        table = self.run(tmp_path).stdout
        for row in rows:
            assert f"{row['error']:.4f} ± {row['error_margin']:.4f}" in table
            assert f"{row['greedy_error']:.4f} ± {row['greedy_error_margin']:.4f}" in table
        majority = {row["dataset"]: row["majority_error"] for row in rows}
        assert majority["digits"] == dt.datasets.load("digits").majority_error
        assert all(f"{error:.4f}" in table for error in majority.values())
        assert " ".join(table.split()).count("always the most") == len(majority) == 2
        names = ["delay", "gamma-delaytron", "learners", "rounds-adaptive-instant", "rounds-delaytron"]
        pictures = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
        assert pictures == [f"{name}{ending}" for name in names for ending in (".png", ".svg")]
        assert "report.html" in table

    def test_the_examples_in_the_help_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "spec.toml").write_text(TOML)
        lines = [line.split()[1:] for line in experiment.EXAMPLES.splitlines() if line.startswith("delaytron ")]
        assert len(lines) == 2
        for line in lines:
            assert CliRunner().invoke(cli.app, [*line, "--json"]).exit_code == 0

    def test_the_paper_can_be_reproduced_in_small(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        flags = ["--quick", "--only", "digits", "--share", "0.005", "--json"]
        rows = json.loads(CliRunner().invoke(cli.app, ["reproduce", *flags]).stdout)
        assert {(row["dataset"], row["rounds"], row["runs"]) for row in rows} == {("digits", 500, 5)}
        kept = list((tmp_path / "results" / "paper" / "runs").iterdir())
        untuned = [row for row in rows if row["learner"] == "bandit_logit"]
        assert [row["parameters"] for row in untuned] == [{}] * 4
        assert len(kept) == 2 * 4 * (len(rows) - 4) + 4  # tuned and reported, four gammas; the default as it is
        measured = list((tmp_path / "results" / "paper" / "theory").iterdir())
        assert len(measured) == 4  # delays
        again = CliRunner().invoke(cli.app, ["reproduce", *flags])
        assert json.loads(again.stdout) == rows

    def test_only_and_scale(self, tmp_path):
        rows = json.loads(self.run(tmp_path, "--only", "synsep", "--share", "0.5", "--json").stdout)
        assert {(row["dataset"], row["rounds"]) for row in rows} == {("synsep", 300)}

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--share", "nan"], "--share must be in (0, 1], got nan"),
            (["--only", "usps"], "a data set of the experiment must be one of digits, synsep, got 'usps'"),
            (["--share", "0"], "--share must be in (0, 1], got 0.0"),
            (["--backend", "fog"], "--backend must be one of threads, processes, dask, ray, got 'fog'"),
            (["--workers", "0"], "--workers must be an integer of at least 1, got 0"),
        ],
    )
    def test_bad_input_is_one_line_and_exit_code_2(self, tmp_path, flags, message):
        result = self.run(tmp_path, *flags)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"delaytron: {message}\n"


def test_what_others_have_played_is_kept_when_a_learner_without_parameters_is_added(tmp_path):
    text = 'name = "x"\ndata = ["digits"]\nrounds = 50\nruns = 2\ntuning_runs = 1\ndelays = [3]\n'
    text += '[[learners]]\nname = "pab"\ngamma = [0.1, 0.2]\n'
    assert play(parse_spec(text.encode()), tmp_path) == 50 * (2 * 2 + 2)
    text += f'[[learners]]\nname = "{dt.DEFAULT_LEARNER}"\nreport = "chosen"\n'
    assert play(parse_spec(text.encode()), tmp_path) == 50 * 2
    assert play(parse_spec(text.encode()), tmp_path) == 0


class TestBeforeAnythingIsPlayed:
    TEXT = 'name = "x"\ndata = ["digits", "cifar10"]\nrounds = 50\nruns = 1\ndelays = [1]\n[[learners]]\nname = "pab"'

    def test_a_data_set_that_is_nowhere_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        with pytest.raises(dt.InvalidInput, match=r"vgg16_features\.npz is not on this machine; make it by"):
            play(parse_spec(self.TEXT.encode()), tmp_path / "out")
        assert not list((tmp_path / "out").rglob("*.parquet"))

    def test_one_that_is_there_is_not_read(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DELAYTRON_DATA", str(tmp_path))
        (tmp_path / "cifar10").mkdir()
        (tmp_path / "cifar10" / "vgg16_features.npz").write_bytes(b"")
        monkeypatch.setattr("delaytron.experiments.execute.load_source", None)
        runs = [condition.reported[0] for condition in parse_spec(self.TEXT.encode()).conditions()]
        assert obtain_data(runs) is None

    @pytest.mark.parametrize("expiring", [False, True])
    def test_more_rounds_than_fit_the_memory_are_refused(self, tmp_path, monkeypatch, expiring):
        own = "\nexpire_after = 9" if expiring else ""
        spec = parse_spec((self.TEXT.replace(', "cifar10"', "").replace("50", "1_000_000_000") + own).encode())
        monkeypatch.setattr("delaytron.experiments.execute.installed_memory", lambda: 27 * 10**9)
        needed = "140.0 GB" if expiring else "28.0 GB"
        with pytest.raises(dt.InvalidInput, match=f"the rounds take {needed}, and this machine has 27.0 GB; take"):
            play(spec, tmp_path)

    def test_memory_is_not_checked_where_it_is_not_known(self, monkeypatch):
        monkeypatch.delattr(os, "sysconf")
        assert memory.installed_memory() is None
        spec = parse_spec(self.TEXT.replace("50", "4_000_000_000").encode()).only(["digits"])
        assert memory.check_memory(spec.conditions()[0].reported) is None

    def test_a_system_without_the_module_resource_has_no_peak(self, monkeypatch):
        assert memory.peak_memory() > 2**20
        monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
        try:
            assert reload(memory).peak_memory() == 0
        finally:
            monkeypatch.undo()
            reload(memory)
