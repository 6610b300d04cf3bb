"""Facts about data sets: written once beside the results, and read without loading any data."""

import numpy as np
import pytest

from delaytron import datasets
from delaytron.datasets.catalogue import CARDS
from delaytron.experiments import facts
from delaytron.experiments.facts import facts_of_card, facts_of_data, read_facts, write_facts
from delaytron.experiments.spec import parse_spec


def conditions_of(data):
    return parse_spec(
        f'name = "x"\ndata = [{data}]\ndelays = [1]\n[[learners]]\nname = "banditron"'.encode()
    ).conditions()


@pytest.mark.parametrize("name", ["digits", "synsep", "synnonsep"])
def test_a_card_says_what_the_data_say(name):
    assert facts_of_card(name, CARDS[name]) == facts_of_data(name, datasets.load(name))


def test_named_data_sets_are_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "load", lambda *_, **__: pytest.fail("loaded"))
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
        patch.setattr(facts, "load", lambda *_, **__: pytest.fail("loaded"))
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
