"""`delaytron datasets`: the list, what is shown of one, and the features that it builds."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import delaytron as dt
from delaytron.cli import app
from delaytron.cli.datasets import bar, percent, sketch
from delaytron.datasets import images
from delaytron.datasets import plots as dataset_plots
from delaytron.datasets.catalogue import CARDS

REAL = Path(os.environ.get("DELAYTRON_DATA", "absent"))
needs_data = pytest.mark.skipif(not REAL.is_dir(), reason="DELAYTRON_DATA names no folder with the real data")


def delaytron(*arguments, columns=120):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["datasets", *map(str, arguments)])


def output_of(*arguments, columns=120):
    result = delaytron(*arguments, columns=columns)
    assert result.exit_code == 0, result.output
    return result.stdout


def line_of(*arguments):
    """Return the one line of an error."""
    result = delaytron(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("delaytron: ")


@pytest.fixture
def empty_machine(tmp_path, monkeypatch):
    monkeypatch.delenv("DELAYTRON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "delaytron"


@pytest.fixture
def own_file(tmp_path):
    path = tmp_path / "pets.csv"
    lines = [f"{i % 7},{i % 3},{'[cat]' if i % 4 else 'dog'}" for i in range(60)]
    path.write_text("\n".join(["legs,age,species", *lines]) + "\n")
    return path


class TestList:
    def test_json_has_the_facts_of_every_data_set(self):
        rows = {row["dataset"]: row for row in json.loads(output_of("--json"))}
        assert rows.keys() == dt.datasets.DATASETS.keys()
        assert rows["synsep"]["options"] == {"n_samples": 100_000, "seed": 0, "normalize": False}
        assert rows["fashion_mnist"]["options"] == {"features": "cnn", "part": "all"}
        for name, card in CARDS.items():
            row = rows[name]
            assert (row["rows"], row["features"], row["classes"]) == (
                card.n_rows,
                card.n_features,
                len(card.class_names),
            )
            assert (row["description"], row["source"], row["licence"]) == (card.title, card.source, card.licence)
            assert (row["nonzeros"], row["sparse"]) == (card.nonzeros, card.sparse)

    @pytest.mark.parametrize("columns", [80, 120])
    def test_the_tables_fit_and_name_everything(self, columns):
        shown = output_of(columns=columns)
        assert max(map(len, shown.splitlines())) <= columns
        for name, card in CARDS.items():
            (line,) = (line for line in shown.splitlines() if re.match(rf"{name} +[\d,]+ ", line))
            numbers = [f"{card.n_rows:,}", f"{card.n_features:,}", str(len(card.class_names))]
            assert line.split()[1:4] == numbers
            assert percent(card.nonzeros) in line
            assert card.title in shown
            assert card.source.partition("//")[2] in shown
        assert "no licence stated" in shown
        assert "CC BY 4.0" in shown

    @needs_data
    def test_it_says_what_is_on_this_machine(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert {row["availability"] for row in json.loads(output_of("--json"))} == {"yes"}

    def test_it_says_how_to_get_what_is_not(self, empty_machine):
        here = {row["dataset"]: row["availability"] for row in json.loads(output_of("--json"))}
        made = dict.fromkeys(("digits", "synsep", "synnonsep"), "yes")
        built = dict.fromkeys(("cifar10", "fashion_mnist"), "build")
        logs = dict.fromkeys(("hotel_resort", "incidents"), "prepare")
        assert here == {**dict.fromkeys(CARDS, "download"), **made, **built, **logs}
        assert re.search(r"^cifar10 .* build +part=all *$", output_of(), flags=re.M)


class TestShow:
    def test_json_has_the_classes_and_where_it_comes_from(self):
        document = json.loads(output_of("show", "digits", "--json"))
        data = dt.datasets.load("digits")
        assert document["class_counts"] == dict(zip("0123456789", np.bincount(data.y).tolist(), strict=True))
        assert document["majority_error"] == pytest.approx(1 - 183 / 1797)
        assert document["nonzeros"] == pytest.approx((data.X != 0).mean())
        assert document["feature_names"] == list(data.feature_names)
        assert (document["rows"], document["features"], document["classes"]) == (1797, 64, 10)
        assert document["availability"] == "yes"
        assert document["citation"] == CARDS["digits"].citation

    @needs_data
    @pytest.mark.parametrize(("name", "columns"), [("abalone", 80), ("news20", 80), ("ecoli", 120)])
    def test_the_terminal_shows_facts_and_bars(self, name, columns):
        shown, card = output_of("show", name, columns=columns), CARDS[name]
        assert max(map(len, shown.splitlines())) <= columns
        assert shown.startswith(f"{name}  {card.title}\n")
        assert (
            f"{card.n_features:,}, {'sparse' if card.sparse else 'dense'}, {percent(card.nonzeros)} non-zero" in shown
        )
        assert card.citation in " ".join(shown.split())
        longest = max(card.class_counts)
        for label, count in zip(card.class_names, card.class_counts, strict=True):
            row = (
                rf"^{re.escape(label)} +{count:,} +{re.escape(percent(count / card.n_rows))} +{bar(count / longest)} *$"
            )
            assert re.search(row, shown, flags=re.M)

    @needs_data
    def test_many_feature_names_are_shown_by_their_ends(self):
        assert "aa | aaa | aachen | aamir | ... | zyeh | zyxel | zz | zzzzzz" in output_of("show", "news20")
        assert "mcg | gvh | lip | chg | aac | alm1 | alm2" in output_of("show", "ecoli")

    def test_one_image_of_every_class_is_sketched(self):
        data = dt.datasets.load("digits")
        lines = [line for line in output_of("show", "digits", columns=98).splitlines() if re.match("[ ▀▄█]+$", line)]
        for k in range(10):
            drawn = [line[10 * k : 10 * k + 8].ljust(8) for line in lines[:4]]
            assert drawn == sketch(data.X[data.y == k][0].reshape(8, 8))

    def test_a_sketch_is_two_pixels_high_and_black_or_white(self):
        assert sketch(np.array([[0, 1], [1, 1], [1, 0]])) == ["▄█", "▀ "]

    def test_bars_and_shares_are_never_nothing_where_there_is_something(self):
        assert [bar(share) for share in (0, 1e-9, 0.5, 1)] == ["", "▏", "█" * 15, "█" * 30]
        assert [percent(share) for share in (0, 0.0002, 0.5, 1)] == ["0 %", "0.02 %", "50.0 %", "100 %"]

    @needs_data
    def test_parts_and_pixels_can_be_asked_for(self):
        document = json.loads(output_of("show", "fashion_mnist", "--input", "pixels", "--part", "test", "--json"))
        assert (document["rows"], document["features"]) == (10_000, 784)
        assert document["class_counts"]["Ankle boot"] == 1000

    def test_a_file_is_shown_like_a_data_set(self, own_file):
        shown = output_of("show", own_file, "--label", "species")
        assert re.search(r"^\[cat\] +45 +75\.0 % ", shown, flags=re.M)
        assert "legs | age" in shown
        document = json.loads(output_of("show", own_file, "--label", "species", "--json"))
        assert document["class_counts"] == {"[cat]": 45, "dog": 15}
        assert (document["rows"], document["features"], document["majority_error"]) == (60, 2, 0.25)

    def test_of_very_many_classes_the_largest_are_shown(self, tmp_path):
        path = tmp_path / "many.csv"
        labels = [k for k in range(60) for _ in range(1 + (k >= 20))]
        path.write_text("x,y\n" + "".join(f"{i},c{k}\n" for i, k in enumerate(labels)))
        shown = output_of("show", path, "--plot", tmp_path / "many.png")
        assert "and 20 smaller classes" in shown
        assert len(re.findall(r"^c\d+ +2 ", shown, flags=re.M)) == 40
        assert (tmp_path / "many.png").stat().st_size > 10_000


class TestPlot:
    @pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
    def test_a_picture_is_written(self, tmp_path, ending, start):
        path = tmp_path / f"digits.{ending}"
        assert output_of("show", "digits", "--plot", path).endswith(f"wrote {path}\n")
        assert path.read_bytes().startswith(start)

    @needs_data
    @pytest.mark.parametrize("name", ["ecoli", "news20"])
    def test_rows_without_pixels_are_a_cloud(self, tmp_path, name):
        result = delaytron("show", name, "--plot", tmp_path / "cloud.png", "--json")
        assert json.loads(result.stdout)["dataset"] == name
        assert result.stderr == f"wrote {tmp_path / 'cloud.png'}\n"
        assert (tmp_path / "cloud.png").stat().st_size > 20_000

    def test_the_cloud_has_the_coordinates_of_principal_components(self):
        from sklearn.decomposition import PCA
        from sklearn.preprocessing import StandardScaler

        X = np.random.default_rng(0).normal(size=(40, 5)) @ np.diag([5, 1, 1, 1, 0.1]) @ np.ones((5, 5)).cumsum(axis=1)
        points, shares = dataset_plots._project(X)
        plane = PCA(2).fit(StandardScaler().fit_transform(X))
        np.testing.assert_allclose(abs(points), abs(plane.transform(StandardScaler().fit_transform(X))), atol=1e-6)
        np.testing.assert_allclose(shares, plane.explained_variance_ratio_, atol=1e-9)

    @pytest.mark.parametrize("X", [np.zeros((2, 1)), np.array([[0.0], [1.0], [2.0]]), np.ones((3, 3))])
    def test_a_cloud_of_few_points_is_drawn(self, tmp_path, X):
        data = dt.datasets.as_dataset((X, np.arange(len(X)) % 2))
        dataset_plots.plot_dataset(data, tmp_path / "tiny.png")
        assert (tmp_path / "tiny.png").exists()


class TestBuild:
    @pytest.fixture
    def quick(self, monkeypatch):
        """A network that is done at once."""

        def build(name, folder, seed, progress):
            path = folder / CARDS[name].files["train"][0].path
            path.parent.mkdir(parents=True)
            np.savez(path, seed=seed)
            return path

        monkeypatch.setattr(images, "inputs", lambda name: [])
        monkeypatch.setattr(images, "build", build)

    def test_the_features_go_to_the_cache(self, quick, empty_machine):
        path = empty_machine / "fashion_mnist" / "cnn_features.npz"
        assert output_of("build", "fashion_mnist", "--seed", "3") == f"wrote {path}\n"
        assert np.load(path)["seed"] == 3
        assert {
            row["availability"] for row in json.loads(output_of("--json")) if row["dataset"] == "fashion_mnist"
        } == {"cached"}

    def test_the_features_go_to_a_folder(self, quick, tmp_path):
        path = tmp_path / "data" / "cifar10" / "vgg16_features.npz"
        assert output_of("build", "cifar10", "--output", tmp_path / "data") == f"wrote {path}\n"

    def test_nothing_is_downloaded_without_torch(self, empty_machine, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        assert line_of("build", "cifar10") == "building features needs PyTorch; pip install 'delaytron[features]'"
        assert not empty_machine.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("show digit", "data set must be one of cifar10, fashion_mnist,"),
        ("show digit", "got 'digit'; did you mean digits?"),
        ("show digits --part test", "data set digits takes no options; got --part"),
        ("show fashion_mnist --input raw", "input must be one of cnn, pixels, words, numbers, got 'raw'"),
        ("show digits --plot digits.gif", "got 'digits.gif'; end it in .png, .pdf, .svg"),
        ("show digits --plot no/such/folder.png", "there is no folder 'no/such'"),
        ("show", "Missing argument 'NAME_OR_FILE'; see delaytron datasets show --help"),
        ("build digits", "data set to build must be one of cifar10, fashion_mnist, got 'digits'"),
        ("build fashion_mnist --seed one", "--seed must be an integer, got 'one'; see delaytron datasets build --help"),
        ("list", "No such command 'list'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(flags, message):
    assert message in line_of(*shlex.split(flags))


@needs_data
@pytest.mark.parametrize("command", [[], ["show"], ["build"]])
def test_the_examples_in_the_help_run(command, tmp_path, monkeypatch, own_file):
    monkeypatch.chdir(tmp_path)
    own_file.rename(tmp_path / "iris.csv")
    lines = output_of(*command, "--help", columns=80).partition("Examples")[2].splitlines()
    found = [shlex.split(line)[2:] for line in lines if line.strip().startswith("delaytron ")]
    assert len(found) >= 2
    for example in found:
        assert command != ["build"] or example[0] == "build"
        if example[:1] != ["build"]:
            output_of(*example)
