"""The bake-off: its data, its statistics against brute force, learners from outside, its page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import delaytron as dt
from delaytron import cli
from delaytron.experiments import sources
from delaytron.experiments.bakeoff import (
    Anchors,
    DataCase,
    Score,
    anchors_of,
    duel,
    linear_error,
    read_anchors,
    score,
    scores,
    standing,
    verdict,
    write_anchors,
)
from delaytron.experiments.execute import Watch, Workers, execute
from delaytron.experiments.report.bakeoff import compose_page
from delaytron.experiments.spec import parse_spec
from delaytron.experiments.store import RunStore, missing_rounds, outcomes
from delaytron.simulation.results import Result
from delaytron.simulation.scenarios import checkpoints

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "src/delaytron/experiments/report/bakeoff_notes.md"
TOML = """
name = "small"
bakeoff = true
data = [{glob = "sets/*.npz"}, {glob = "sets/*.npz", clicks = [0.6, 0.2]}, {name = "ads"}]
delays = [1, 20]
rounds = 300
runs = 3
tuning_runs = 2
report = "chosen"
sampling = "drawn"

[[learners]]
name = "bandit_logit"

[[learners]]
name = "delaytron"
gamma = [0.05, 0.3]

[[learners]]
name = "perceptron"
"""
OUTSIDE = """
[[learners]]
name = "mine:EpsilonGreedy"
delays = [1]
epsilon = [0.01, 0.2]
"""


def example():
    """Return the class that the page tells readers to write."""
    return re.search(r"^```python\n(.*?)^```$", NOTES.read_text(), re.DOTALL | re.MULTILINE)[1]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run in a folder with two data sets and a learner of its own."""
    rng = np.random.default_rng(0)
    (tmp_path / "sets").mkdir()
    for name, classes in (("pairs", 2), ("triples", 3)):
        X = rng.normal(size=(120, 4))
        np.savez(tmp_path / f"sets/{name}.npz", X=X, y=(X @ rng.normal(size=(4, classes))).argmax(axis=1))
    (tmp_path / "mine.py").write_text(example())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DELAYTRON_DATA", raising=False)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    return tmp_path


def play(spec, folder="out", *workers):
    played = []
    execute(spec.conditions(), RunStore(Path(folder)), Workers(*workers), Watch(played.append))
    return sum(played)


def contents(folder="out"):
    return {path.name: path.read_bytes() for path in Path(folder, "runs").iterdir()}


class TestData:
    def test_a_pattern_stands_for_all_files_and_clicks_have_a_title_of_their_own(self):
        titles = [title for title, _ in sources.titled(parse_spec(TOML.encode()).data)]
        assert titles == ["pairs", "triples", "pairs clicks 0.6/0.2", "triples clicks 0.6/0.2", "ads"]

    def test_files_are_found_in_the_folder_of_local_copies_with_the_same_runs(self, folder, monkeypatch):
        keys = [run.key for condition in parse_spec(TOML.encode()).conditions() for run in condition.reported]
        (folder / "elsewhere").mkdir()
        (folder / "sets").rename(folder / "elsewhere/sets")
        with pytest.raises(dt.InvalidInput, match=r"no file matches 'sets/\*\.npz'"):
            parse_spec(TOML.encode()).conditions()
        monkeypatch.setenv("DELAYTRON_DATA", str(folder / "elsewhere"))
        conditions = parse_spec(TOML.encode()).conditions()
        assert [run.key for condition in conditions for run in condition.reported] == keys
        assert play(parse_spec(TOML.encode()).only(["pairs"])) > 0

    def test_clicks_are_flipped_answers(self):
        spec = parse_spec(TOML.encode()).only(["triples clicks 0.6/0.2"])
        play(spec)
        found = {
            (one.condition.title, one.condition.delay): one.result
            for one in outcomes(spec.conditions(), RunStore(Path("out")))
        }
        data = dt.datasets.load("sets/triples.npz")
        expected = dt.simulate("bandit_logit", data, delay=20, rounds=300, runs=3, sampling="drawn", noise=(0.2, 0.4))
        assert np.array_equal(found["bandit_logit", "20"].mistakes, expected.mistakes)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("bakeoff = true", "", "pairs clicks 0.6/0.2 belongs into a bake-off; write bakeoff = true"),
            ("[0.6, 0.2]", "[0.2, 0.6]", r"the first of clicks of .* must be above the second, 0.6, got 0.2"),
            ("[0.6, 0.2]", "[0.6]", r"clicks of .* must be \[right, wrong\], two rates, got \[0.6\]"),
            ("[0.6, 0.2]", '"often"', r"clicks of .* must be \[right, wrong\], two rates, got 'often'"),
            ("[0.6, 0.2]", "[1.6, 0.2]", r"the first of clicks of .* must be in \[0, 1\], got 1.6"),
            ('{name = "ads"}', '{name = "ads", clicks = [0.6, 0.2]}', "ads clicks=.* has rates of its own"),
            ('{name = "ads"}', '{name = "ads", size = 3}', "an option of ads must be one of factor, got 'size'"),
            ('{name = "ads"}', '{name = "ads", factor = 3}', r"factor must be in \(0, 1\], got 3"),
            ('{name = "ads"}', '{name = "ads", title = 3}', "title of a data set must be text"),
            ('{name = "ads"}', "{glob = 3}", "a table with a glob must have text there"),
            ('{name = "ads"}', '{glob = "sets/*.npz"}', "data must be at least one, and no two of the same"),
        ],
    )
    def test_data_that_cannot_be_played_are_refused_in_one_line(self, old, new, message):
        with pytest.raises(dt.InvalidInput, match=message) as caught:
            parse_spec(TOML.replace(old, new, 1).encode()).conditions()
        assert "\n" not in str(caught.value)

    def test_learners_that_cannot_play_are_left_out_with_the_reason(self):
        spec = parse_spec(TOML.encode())
        assert {(one.learner, one.data) for one in spec.left_out()} == {
            ("perceptron", data) for data in ("pairs clicks 0.6/0.2", "triples clicks 0.6/0.2", "ads")
        }
        assert {one.reason for one in spec.left_out()} == {"it learns from the true label, which nobody gives"}
        assert {one.data for one in spec.conditions() if one.title == "perceptron"} == {"pairs", "triples"}

    def test_a_learner_that_refuses_the_size_is_left_out(self, folder):
        (folder / "mine.py").write_text(
            example().replace(
                "        self.weights, self.rows", "        assert n_classes != 3\n        self.weights, self.rows"
            )
        )
        left_out = parse_spec((TOML + OUTSIDE).encode()).left_out()
        ours = {one.data: one.reason for one in left_out if one.learner == "mine:EpsilonGreedy"}
        assert ours.keys() == {"triples", "triples clicks 0.6/0.2"}
        assert set(ours.values()) == {"cannot make a mine:EpsilonGreedy: AssertionError: AssertionError"}


class TestWorlds:
    def test_their_runs_have_the_reward_that_was_lost(self):
        spec = parse_spec(TOML.encode()).only(["ads"])
        play(spec)
        condition = spec.conditions()[0]
        result = RunStore(Path("out")).read(condition.reported[0])
        assert result.lost.shape == result.mistakes.shape[:2]
        assert (result.lost <= 0.4 * result.mistakes[:, :, 0] + 1e-9).all()  # the largest difference of its rates
        assert (result.lost[:, -1] > 0).all()

    def test_a_file_without_that_column_or_with_impossible_sums_is_played_again(self):
        spec = parse_spec(TOML.encode()).only(["ads"])
        run = spec.conditions()[0].reported[0]
        count = checkpoints(run.rounds).size
        mistakes = np.zeros((3, count, 2), np.int64)
        store = RunStore(Path("out"))
        for lost, message in (
            (None, "it must have the columns"),
            (np.full((3, count), np.nan), "its sums of lost rewards are impossible"),
            (np.full((3, count), 9.0), "its sums of lost rewards are impossible"),
        ):
            with pytest.raises(dt.InvalidInput, match=message):
                store.write(run, mistakes, lost)

    def test_the_tuning_chooses_by_the_reward(self):
        spec = parse_spec(TOML.replace("[0.05, 0.3]", "[0.05, 0.3, 1.0]").encode()).only(["ads"])
        play(spec)
        store = RunStore(Path("out"))
        for one in outcomes(spec.conditions(), store):
            if one.condition.tuning:
                lost = [store.read(run).lost[:, -1].mean() for run in one.condition.tuning]
                assert one.run.parameters == one.condition.reported[int(np.argmin(lost))].parameters
                assert one.chosen_by == pytest.approx(min(lost) / 300)


class TestSingle:
    def test_one_setting_is_chosen_for_all_data_sets_of_a_kind(self):
        spec = parse_spec(
            TOML.replace("gamma = [0.05, 0.3]", 'report = "single"\ngamma = [0.02, 0.1, 0.3, 0.9]').encode()
        )
        before = sum(missing_rounds(condition, RunStore(Path("out"))) for condition in spec.conditions())
        assert play(spec) == before
        store = RunStore(Path("out"))
        found = [one for one in outcomes(spec.conditions(), store) if one.condition.title == "delaytron"]
        for kind in sources.KINDS:
            for delay in ("1", "20"):
                own = [one for one in found if sources.kind_of(one.run.data) == kind and one.condition.delay == delay]
                logs = np.zeros(4)
                for one in own:
                    for place, run in enumerate(one.condition.tuning):
                        result = store.read(run)
                        lost = result.mistakes[:, -1, 0] if result.lost is None else result.lost[:, -1]
                        logs[place] += np.log(lost.mean() / 300 + 1 / 300)
                chosen = own[0].condition.reported[int(logs.argmin())].parameters
                assert [one.run.parameters for one in own] == [chosen] * len(own)
        assert play(spec) == 0


class TestOutside:
    def test_the_example_of_the_page_plays_and_is_tuned(self):
        spec = parse_spec((TOML + OUTSIDE).encode())
        play(spec)
        found = [one for one in outcomes(spec.conditions(), RunStore(Path("out"))) if ":" in one.condition.title]
        assert {(one.condition.data, one.condition.delay) for one in found} == {
            (data, "1") for data in ("pairs", "triples", "pairs clicks 0.6/0.2", "triples clicks 0.6/0.2", "ads")
        }
        errors = {one.condition.data: one.result.final_error.mean() for one in found}
        assert errors["pairs"] < 0.35
        assert errors["triples"] < 0.5

    def test_what_is_there_is_not_played_again_and_another_content_is_another_learner(self, folder, monkeypatch):
        spec = parse_spec((TOML + OUTSIDE).encode())
        whole = play(spec)
        assert play(spec) == 0
        lost = next(one for one in spec.conditions() if ":" in one.title).tuning[1]
        Path("out/runs", f"{lost.key}.parquet").unlink()
        assert play(spec) == lost.n_rounds
        before = contents()
        (folder / "mine.py").write_text(example().replace("rate=0.1", "rate=0.2"))
        monkeypatch.delitem(__import__("sys").modules, "mine")
        again = play(parse_spec((TOML + OUTSIDE).encode()))
        assert 0 < again < whole
        assert before.items() <= contents().items()

    @pytest.mark.xdist_group("experiments")
    def test_processes_give_the_same_bytes(self):
        spec = parse_spec((TOML + OUTSIDE).encode())
        play(spec, "threads")
        play(spec, "processes", "processes", 2)
        assert contents("threads") == contents("processes")

    def test_a_file_that_changes_meanwhile_is_refused(self, folder):
        spec = parse_spec((TOML + OUTSIDE).encode())
        conditions = spec.conditions()
        (folder / "mine.py").write_text(example() + "\n")
        with pytest.raises(
            dt.InvalidInput, match="the file of mine:EpsilonGreedy has changed since the experiment began"
        ):
            execute(conditions, RunStore(Path("out")))

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("mine:Eps", "yours:Eps", "cannot import 'yours' of yours:EpsilonGreedy: ModuleNotFoundError"),
            ("mine:EpsilonGreedy", "mine:Greedy", "there is no class 'Greedy' in mine"),
            ("mine:EpsilonGreedy", "mine:np", "there is no class 'np' in mine"),
            ("mine:EpsilonGreedy", "pathlib:Path", "pathlib:Path has no method decide and no method feedback"),
            ("epsilon = [0.01, 0.2]", "eps = 1", "cannot make a mine:EpsilonGreedy: TypeError: .*'eps'"),
            ("bakeoff = true", "", "belongs into a bake-off|is a learner of a bake-off"),
        ],
    )
    def test_one_that_cannot_play_is_refused_in_one_line(self, old, new, message):
        with pytest.raises(dt.InvalidInput, match=message) as caught:
            parse_spec((TOML + OUTSIDE).replace(old, new, 1).encode()).conditions()
        assert "\n" not in str(caught.value)

    def test_one_that_fails_ends_the_command_in_one_line(self, folder):
        (folder / "mine.py").write_text(example().replace("return label", "return -1"))
        Path("spec.toml").write_text(TOML + OUTSIDE)
        result = CliRunner().invoke(cli.app, ["experiment", "spec.toml", "--only", "pairs"])
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].endswith("decide must return a label in 0..1, got -1")


def some_scores(seed, learners="abc"):
    """Return random losses of three learners in twelve cases; the last learner is missing in some."""
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(12):
        case = DataCase("labels", f"set {number // 2}", str(1 + number % 2))
        level = rng.random()
        for learner in learners[: 2 + number % 2]:
            losses = np.abs(level + 0.1 * rng.normal(size=5))
            found.setdefault(case, {})[learner] = Score(losses, 0.001, float(losses.mean() / 2), {})
    return found


class TestStatistics:
    def test_the_verdict_is_that_of_a_paired_t_test(self):
        rng = np.random.default_rng(1)
        seen = []
        for _ in range(300):
            first, second = rng.normal(size=(2, 5)) + np.array([[0.0], [rng.normal()]])
            test = ttest_rel(first, second)
            expected = 0 if test.pvalue > 0.05 else int(-np.sign(test.statistic))
            assert verdict(first, second) == expected
            seen.append(expected)
        assert {-1, 0, 1} == set(seen)

    def test_equal_differences_are_certain(self):
        losses = np.array([0.5, 0.25, 0.75])
        assert (verdict(losses, losses + 0.125), verdict(losses + 0.125, losses), verdict(losses, losses)) == (1, -1, 0)

    @pytest.mark.parametrize("seed", range(5))
    def test_duels_are_those_counted_one_by_one(self, seed):
        found = some_scores(seed)
        for first, second in (("a", "b"), ("b", "c"), ("c", "a")):
            wins = losses = cases = 0
            ratios = {}
            for case, here in found.items():
                if first in here and second in here:
                    cases += 1
                    said = verdict(here[first].losses, here[second].losses)
                    wins += said == 1
                    losses += said == -1
                    ratios[case] = here[first].losses.mean() / here[second].losses.mean()
            one = duel(found, first, second)
            assert (one.wins, one.losses, one.cases) == (wins, losses, cases)
            assert one.ratio == pytest.approx(np.prod(list(ratios.values())) ** (1 / cases))
            assert one.worst == max(ratios.values())
            assert ratios[one.where] == one.worst
            other = duel(found, second, first)
            assert (other.wins, other.losses) == (losses, wins)

    def test_a_learner_without_delay_stands_in_where_that_is_asked(self):
        found = {
            DataCase("labels", "one", delay): {"a": Score(np.array([0.5, 0.5]), 0.1, None, {})} for delay in ("1", "9")
        }
        found[DataCase("labels", "one", "1")]["b"] = Score(np.array([0.25, 0.25]), 0.1, None, {})
        assert duel(found, "a", "b", ["9"]).cases == 0
        assert duel(found, "a", "b", ["9"], rest=True).ratio == pytest.approx(2.0)

    def test_small_losses_count_as_the_floor_in_ratios(self):
        case = DataCase("labels", "one", "1")
        found = {case: {"a": Score(np.array([0.004]), 0.01, None, {}), "b": Score(np.array([0.05]), 0.01, None, {})}}
        assert duel(found, "b", "a").ratio == pytest.approx(5.0)

    @pytest.mark.parametrize("seed", range(3))
    def test_standings_are_those_counted_one_by_one(self, seed):
        found = some_scores(seed)
        for learner in "abc":
            own = {case: here for case, here in found.items() if learner in here}
            behind = {case: here[learner].mean / min(one.mean for one in here.values()) for case, here in own.items()}
            one = standing(found, learner, "labels")
            assert one.behind == pytest.approx(np.exp(np.mean(np.log(list(behind.values())))))
            assert one.worst == pytest.approx(max(behind.values()))
            assert one.runs == 5 * len(own)
            bad = 0
            for here in own.values():
                losses = sorted(here[learner].losses)
                bad += sum(loss > 1.15 * losses[2] for loss in losses)
            assert one.bad == bad
            for delay in ("1", "2"):
                values = [here[learner].normalised for case, here in own.items() if case.delay == delay]
                assert one.normalised.get(delay) == (pytest.approx(np.mean(values)) if values else None)
        assert standing(found, "a", "clicks") is None

    def test_shares_are_those_of_the_last_quarter(self):
        rounds = np.array([1, 10, 60, 80, 100])
        mistakes = np.zeros((2, 5, 2), np.int64)
        mistakes[:, :, 0] = [[1, 9, 30, 34, 38], [0, 8, 20, 20, 20]]
        result = Result("a", "d", "1", rounds, [{}] * 2, np.arange(2), mistakes)
        anchors = Anchors(random=0.75, constant=0.5, linear=0.1)
        one = score(result, "clicks", anchors, {})
        assert one.losses == pytest.approx([8 / 40 / 0.75, 0.0])
        assert one.normalised == pytest.approx((0.1 - 0.1) / 0.4)
        plain = score(result, "labels", anchors, {})
        assert plain.losses.tolist() == [0.38, 0.2]
        assert plain.normalised == pytest.approx((0.29 - 0.1) / 0.4)
        assert score(result, "clicks", None, {}) is None
        assert score(result, "labels", None, {}).normalised is None
        assert score(result, "labels", Anchors(random=0.5, constant=0.3, linear=0.295), {}).normalised is None

    def test_normalised_losses_are_cut(self):
        result = Result("a", "d", "1", np.array([100]), [{}], np.arange(1), np.array([[[90, 90]]]))
        assert score(result, "labels", Anchors(random=0.5, constant=0.2, linear=0.1), {}).normalised == 2.0


class TestAnchors:
    def test_they_are_those_of_scikit_learn_and_of_the_table(self):
        data = dt.datasets.load("sets/triples.npz")
        X = StandardScaler().fit_transform(data.X)
        fitted = LogisticRegression(C=100, max_iter=1000).fit(X, data.y)
        assert linear_error(data) == np.mean(fitted.predict(X) != data.y)
        anchors = anchors_of(sources.PlayedData(data), {"name": "triples"})
        assert anchors.random == pytest.approx(2 / 3)
        assert anchors.constant == data.majority_error

    def test_of_a_world_they_are_rewards(self):
        table = {"name": "ads", "factor": 0.5}
        world = sources.load_source(table)
        best = world.rewards.max(axis=1).mean()
        anchors = anchors_of(world, table)
        assert anchors.random == pytest.approx(best - world.rewards.mean())
        assert anchors.constant == pytest.approx(best - max(world.rewards.mean(axis=0)))
        assert anchors.linear == 0

    def test_they_are_kept_and_damage_is_repaired(self):
        conditions = parse_spec(TOML.encode()).conditions()
        write_anchors(conditions, Path("out"))
        whole = read_anchors(conditions, Path("out"))
        assert len(whole) == 5
        assert whole["pairs"] == whole["pairs clicks 0.6/0.2"]
        for path in Path("out/data").iterdir():
            path.write_bytes(path.read_bytes()[:-5])
        assert read_anchors(conditions, Path("out")) == {}
        write_anchors(conditions, Path("out"))
        assert read_anchors(conditions, Path("out")) == whole

    def test_best_players_lose_what_the_anchors_say(self):
        """The shares of always the best label and of labels at random are 1 and 0."""
        anchors = anchors_of(sources.load_source({"name": "ads"}), {"name": "ads"})
        lost = np.array([[0.0], [anchors.random * 100]])
        result = Result("a", "ads", "1", np.array([100]), [{}] * 2, np.arange(2), np.zeros((2, 1, 2), int), lost=lost)
        assert score(result, "rewards", anchors, {}).losses.tolist() == pytest.approx([0.0, 1.0])


class TestPage:
    @pytest.fixture
    def written(self):
        Path("spec.toml").write_text(TOML + OUTSIDE)
        result = CliRunner().invoke(cli.app, ["experiment", "spec.toml", "--output", "out", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def test_the_command_writes_page_table_and_figure(self, written):
        text = Path("out/bakeoff.md").read_text()
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
            "One right label",
            "Clicks: one label is best, and answers are rare or random",
            "Dense rewards: several labels are good",
            "Left out",
            "What the numbers mean",
            "Enter your own learner",
            "How it was made",
        ]
        assert "* `perceptron` on pairs clicks 0.6/0.2, triples clicks 0.6/0.2, ads: it learns" in text
        assert Path("out/figures/bakeoff.png").read_bytes().startswith(b"\x89PNG")
        lines = Path("out/bakeoff.csv").read_text().splitlines()
        assert len(lines) == 1 + len(written) == 1 + 10 + 10 + 4 + 5
        assert not Path("out/report.html").exists()

    def test_its_numbers_are_those_of_the_runs(self, written):
        spec = parse_spec((TOML + OUTSIDE).encode())
        conditions = spec.conditions()
        found = scores(outcomes(conditions, RunStore(Path("out"))), read_anchors(conditions, Path("out")))
        text = Path("out/bakeoff.md").read_text()
        for kind in sources.KINDS:
            one = standing(found, "delaytron", kind)
            values = one.normalised if kind == "labels" else one.shares
            cells = " | ".join(f"{values[delay]:.3f}" for delay in ("1", "20"))
            assert f"| `delaytron` | {cells} | {one.behind:.2f} | {one.worst:.2f} (" in text
            both = duel(found, "bandit_logit", "delaytron", kind=kind)
            assert f"{both.wins} : {both.losses}" in text
        rest = duel(found, "bandit_logit", "mine:EpsilonGreedy", ["20"], "labels", rest=True)
        assert f"| {rest.wins} : {rest.losses}, {rest.ratio:.2f}° |" in text  # it played without delay only

    def test_the_same_runs_give_the_same_page(self, written):
        before = {name: Path("out", name).read_bytes() for name in ("bakeoff.md", "bakeoff.csv", "figures/bakeoff.png")}
        CliRunner().invoke(cli.app, ["experiment", "spec.toml", "--output", "out"])
        assert {name: Path("out", name).read_bytes() for name in before} == before

    def test_data_that_are_gone_leave_errors_only(self, written):
        spec = parse_spec(TOML.encode())
        conditions = spec.conditions()
        page = compose_page(spec, outcomes(conditions, RunStore(Path("out"))), {}, [])
        assert "## One right label" in page.markdown
        assert "## Clicks" not in page.markdown
        column = page.rows.columns.index("loss")
        assert [row[column] is None for row in page.rows.rows] == [row[0] != "labels" for row in page.rows.rows]


def test_the_bake_off_of_the_results_is_a_specification(monkeypatch):
    spec = parse_spec((ROOT / "docs/results/bakeoff.toml").read_bytes())
    assert spec.bakeoff
    assert spec.delays == (1, 1000, 5000)
    assert (spec.rounds, spec.runs) == (20_000, 5)
    vowpal = [one["options"] for one in spec.learners if "options" in one]
    assert [len(set(options)) for options in vowpal] == [16, 16]
    assert vowpal[0] == vowpal[1]
