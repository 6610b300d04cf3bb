"""The documentation site: its references say what the code says, its tutorials are whole. `make docs` builds it."""

import json
import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from commands import commands_page, walk
from http_calls import calls_page
from notebooks import without_site_links
from pages import GENERATED, prepare
from surface import CONSTANTS, describe, missing
from typer.testing import CliRunner

from delaytron.cli import app
from delaytron.service.routes import document

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = dict(walk("delaytron", typer.main.get_command(app)))
TUTORIALS = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.name != "index.md")
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def section_of(page, title):
    return page.partition(f"## `{title}`\n")[2].partition("\n## ")[0]


def words_of(text):
    """Return the words of a text, whatever lines, boxes and marks are around them."""
    return " ".join(re.sub(r"[│╭╮╰╯─*`]", " ", text.replace("&lt;", "<").replace("\\", "")).split())


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_of_help_is_in_the_reference(path):
    section = section_of(commands_page(), path)
    shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "400"}).stdout
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.partition("Examples")[0]))
    assert options
    assert {option for option in options if f"`{option}" not in section and option not in words_of(section)} == set()


@pytest.mark.parametrize("path", [path for path, command in COMMANDS.items() if command.params])
def test_the_help_of_every_parameter_is_in_the_reference(path):
    section = words_of(section_of(commands_page(), path))
    for parameter in COMMANDS[path].params:
        if parameter.help and not getattr(parameter, "hidden", False):
            assert words_of(parameter.help) in section


def test_every_call_is_in_the_reference():
    page = calls_page()
    for path, methods in json.loads(document())["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`\n" in page


def test_every_message_that_is_named_has_a_section():
    page = calls_page()
    titles = {title.lower() for title in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    anchors = set(re.findall(r"\]\(#(\w+)\)", page))
    assert "decisionreply" in anchors <= titles


def test_generated_pages_are_asked_for_and_made():
    asked = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    for name in GENERATED:
        assert f"<!-- made when the site is built: {name} -->" in asked
    assert "## `delaytron run`" in prepare("reference/commands", (DOCS / "reference" / "commands.md").read_text())


@pytest.mark.parametrize(
    ("name", "link", "shown"),
    [
        ("README", "[a](../CONTRIBUTING.md#b)", "[a](howto/contributing.md#b)"),
        ("results/README", "[a](../../benchmarks/RESULTS.md)", "[a](../reference/benchmarks.md)"),
        ("results/README", "[a](../data.md)", "[a](../data.md)"),
    ],
)
def test_links_out_of_the_folder_lead_to_pages_of_the_site(name, link, shown):
    assert prepare(name, link) == shown


def test_the_lists_of_an_index_page_are_the_navigation():
    page = "# A\n[not](this.md)\n## B\n* [c](d.md): e [f](g.md)\n* [h](../../CHANGELOG.md): i\n## J\n* [`k`](../l.md)\n"
    tables = re.compile(r"^```\{toctree\}\n:hidden:\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    blocks = tables.findall(prepare("howto/index", page))
    assert blocks == [":caption: B\n\nc <d>\nh <../reference/changes>\n", ":caption: J\n\nk <../l>\n"]


def test_other_pages_have_no_navigation_of_their_own():
    assert prepare("howto/model", "# A\n* [b](c.md): d\n") == "# A\n* [b](c.md): d\n"


def test_public_names_without_a_page_are_found():
    assert "delaytron.Model" in missing(set())
    assert "delaytron.Model" not in missing({"delaytron.Model"})


@pytest.mark.parametrize("before", [[], [""]])
@pytest.mark.parametrize(
    ("name", "docstring", "shown"),
    [
        (
            "delaytron.Gap.gamma",
            "attrgetter(attr)",
            "The parameter ``gamma`` that the learner was made with.",
        ),
        ("delaytron.DEFAULT_LEARNER", "str(object='') -> str", "The name of the learner that needs no tuning."),
        ("delaytron.Gap.policy", "Explore.", "Explore."),
    ],
)
def test_docstrings_of_types_and_getters_are_replaced(name, docstring, shown, before):
    lines = [*before, docstring, "more"]
    describe(name, lines)
    assert next(filter(None, lines)) == shown


def test_constants_that_are_described_are_public():
    for name in CONSTANTS:
        module, _, constant = name.rpartition(".")
        assert constant in import_module(module).__all__


def do_without(reason):
    """Skip, but not where everything has to be there."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture
def mathml():
    if find_spec("docutils") is None:
        do_without("no docutils is found: run `make docs`, which installs it")
    return import_module("mathml")


def in_mathml(*lines):
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{"".join(lines)}</math>'


def test_an_index_is_beside_an_accented_letter(mathml):
    below = "<munderover><mi>y</mi><mi>s</mi><mo>~</mo></munderover>"
    beside = '<msub><mover accent="true"><mi>y</mi><mo>~</mo></mover><mi>s</mi></msub>'
    assert mathml.with_index_beside(in_mathml(below)) == in_mathml(beside)


@pytest.mark.parametrize("part", ["<munderover><mo>∑</mo><mi>s</mi><mi>T</mi></munderover>", "<mo>&lt;</mo>"])
def test_other_formulas_stay_as_they_are(mathml, part):
    assert mathml.with_index_beside(in_mathml(part)) == in_mathml(part)


def test_entities_of_html_become_their_characters(mathml):
    assert mathml.with_index_beside(in_mathml("<mtext>a&nbsp;b</mtext>")) == in_mathml("<mtext>a\xa0b</mtext>")


def test_every_tutorial_is_listed():
    listed = (DOCS / "tutorials" / "index.md").read_text()
    assert len(TUTORIALS) == 5
    assert all(f"]({path.stem}.md): " in listed for path in TUTORIALS)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_a_notebook_with_a_figure_and_a_download(path):
    text = path.read_text()
    code = "\n".join(re.sub(r"^:.*$", "", cell, flags=re.MULTILINE) for cell in CELL.findall(text))
    compile(code, str(path), "exec")
    assert "format_name: myst" in text
    assert f"<{path.stem}.ipynb>" in text
    assert "plt.show()" in code
    assert "RUNS" in code
    assert "stats.sem" in code


def test_a_downloaded_notebook_reads_well_without_the_site():
    text = "Begin.\n\n{nb-download}`Download this <a.ipynb>`.\n\n[A](../howto/a.md#b), [B](https://b.c), ![C](c.png)"
    cells = [{"cell_type": "markdown", "source": [text]}, {"cell_type": "code", "source": ["x[0](y)"]}]
    plain = json.loads(without_site_links(json.dumps({"cells": cells, "nbformat": 4})))
    assert plain["cells"][0]["source"] == "Begin.\n\nA, [B](https://b.c), ![C](c.png)"
    assert plain["cells"][1]["source"] == ["x[0](y)"]
    assert plain["nbformat"] == 4
