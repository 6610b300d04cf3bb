"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in PYTHON:
        exec(block, names)  # noqa: S102
    pending, accuracy = capsys.readouterr().out.split()
    assert int(pending) == 100
    assert accuracy.startswith("0.92")
    assert names["result"].final_error.shape == (60,)
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w/.-]+)\)", README))
def test_links_lead_somewhere(link):
    assert (Path(__file__).parents[1] / link).exists()
