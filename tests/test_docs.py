"""The pages in docs/: one per learner, quoting the sources verbatim, with examples that run unchanged."""

import os
import re
from inspect import Parameter
from math import inf
from pathlib import Path
from textwrap import dedent

import pytest
from pages import ENTRY, INDEXES, prepare

import delaytron as dt
import learner_lists
from delaytron.learners.arguments import own_parameters
from optional import need

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LEARNERS = dt.LEARNERS | {"bold": dt.Bold}
TEXTS = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
CHAPTERS = [
    "Setting",
    "Equation",
    "Pseudo-code and our lines",
    "Late, noisy and missing answers",
    "When to use it, and when not",
    "Cost",
    "Parameters",
    "Source",
]
APART = {"README", "index", "start"}  # the folder on GitHub, the site, and what it shows first
QUOTE = "# src/delaytron/"
LEFT_OUT = "..."
SECTIONS = ("tutorials", "howto", "reference", "explanation")
BLOCKS = [
    pytest.param(page, block, id=f"{page}:{text[: found.start()].count(chr(10)) + 1}")
    for page, text in TEXTS.items()
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for block in found.groups()
]
QUOTES = [case for case in BLOCKS if case.values[1].startswith(QUOTE)]
RUN_ELSEWHERE = ("howto/service.md",)  # it needs a service: tests/service/test_service_page.py
NEEDS = {  # extras
    "howto/gymnasium.md": ("gymnasium",),
    "howto/mlflow.md": ("mlflow",),
    "howto/onnx.md": ("onnx", "onnxruntime"),
    "howto/river.md": ("river",),
}
EXAMPLES = [case for case in BLOCKS if not case.values[1].startswith(QUOTE) and case.values[0] not in RUN_ELSEWHERE]


def page_of(name):
    return TEXTS[f"learners/{name}.md"]


def test_every_learner_has_a_page_and_every_page_a_learner():
    assert {page for page in TEXTS if page.startswith("learners/")} == {f"learners/{name}.md" for name in LEARNERS}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_guide_links_to_every_learner(name):
    assert f"(../learners/{name}.md)" in TEXTS["howto/choosing.md"]


@pytest.mark.parametrize("name", LEARNERS)
def test_the_guide_lists_the_parameters_of_every_learner(name):
    row = re.search(
        rf"^\| \[`(?i:{name})`\]\(.*\| (.*) \|$", chapter(TEXTS["howto/choosing.md"], "All learners"), re.MULTILINE
    )
    assert re.findall(r"`(\w+)`", row[1]) == list(own_parameters(LEARNERS[name]))


def test_learners_are_added_to_the_lists_of_the_docs():
    assert learner_lists.completed() == {page: TEXTS[page] for page in learner_lists.PAGES}, "run learner_lists.py"
    imagined = type("Imagined", (dt.Gap,), {"name": "imagined"})
    mild = type("Mild", (dt.Perceptron,), {"name": "mild", "__init__": dt.Perceptron.__init__})
    pages = learner_lists.completed({**dt.LEARNERS, "imagined": imagined, "mild": mild}, lambda name: f"Is {name}")
    guide, index, api = (set(pages[page].splitlines()) - set(TEXTS[page].splitlines()) for page in learner_lists.PAGES)
    assert guide == {
        "| [`imagined`](../learners/imagined.md) | Is imagined | `gamma`, `eta` |",
        "| [`mild`](../learners/mild.md) | Is mild | none |",
    }
    assert index == {"* [`imagined`](../learners/imagined.md): Is imagined", "* [`mild`](../learners/mild.md): Is mild"}
    assert api == {"   Imagined", "   Mild"}


def listed_in(index):
    """Return the pages in the lists of an index page, as paths in docs/ without their endings."""
    entries = ENTRY.findall(prepare(index, TEXTS[f"{index}.md"]))
    return [os.path.normpath(f"{Path(index).parent}/{entry}") for _, entry in entries]


def test_every_page_is_listed_once_on_the_index_page_of_its_section():
    pages = {page.removesuffix(".md") for page in TEXTS} - APART - {f"{section}/index" for section in SECTIONS}
    places = [(page, index) for index in sorted(set(INDEXES.values())) for page in listed_in(index)]
    assert sorted(places) == sorted((page, INDEXES[page.partition("/")[0]]) for page in pages)


@pytest.mark.parametrize("name", ["README.md", "index.md"])
def test_where_reading_begins_leads_to_the_start_and_to_every_section(name):
    for page in ("start", *(f"{section}/index" for section in SECTIONS)):
        assert f"({page}.md)" in TEXTS[name] or f":link: {page}\n" in TEXTS[name]


@pytest.mark.parametrize("index", sorted(set(INDEXES.values())))
def test_every_entry_of_an_index_page_says_what_it_is_for(index):
    for line in re.findall(r"^\* .*", TEXTS[f"{index}.md"], re.MULTILINE):
        assert re.match(r"\* \[[^\]]+\]\([^)]+\): \S", line)


@pytest.mark.parametrize("name", LEARNERS)
def test_all_pages_have_the_same_chapters(name):
    assert re.findall(r"^## (.*)$", page_of(name), re.MULTILINE) == CHAPTERS
    assert any(f"learners/{name}.md" == case.values[0] for case in QUOTES)
    assert chapter(page_of(name), "Equation").count("$$") >= 2


def parts_of(quote):
    """Return the runs of lines between those that say that something is left out."""
    parts = [[]]
    for line in quote.splitlines():
        if line.strip() == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def place_of(part, lines, start):
    """Return where the lines of a part end in a file; their common indent may differ, nothing else."""
    wanted = dedent("\n".join(part))
    for i in range(start, len(lines) - len(part) + 1):
        if lines[i].strip() == part[0].strip() and dedent("\n".join(lines[i : i + len(part)])) == wanted:
            return i + len(part)
    return None


def first_misquoted(quote, source):
    """Return the first part of a quotation that is not in the source after the parts before it."""
    place, lines = 0, source.splitlines()
    for part in parts_of(quote):
        place = place_of(part, lines, place) if part and part[0].strip() else None
        if place is None:
            return "\n".join(part) or "nothing"
    return None


@pytest.mark.parametrize(("page", "block"), QUOTES)
def test_quotations_are_verbatim(page, block):
    first, quote = block.split("\n", maxsplit=1)
    assert first_misquoted(quote, (ROOT / first.removeprefix("# ")).read_text()) is None


SOURCE = "class A:\n    def f(x):\n        y = x + 1\n\n        return y\n\n    def g(x):\n        return x\n"


@pytest.mark.parametrize(
    "quote",
    [
        "def f(x):\n    y = x + 1\n\n    return y\n",
        "    def f(x):\n        y = x + 1\n",
        "def f(x):\n    ...\n    return y\n...\ndef g(x):\n    return x\n",
    ],
)
def test_what_is_in_the_source_may_be_quoted(quote):
    assert first_misquoted(quote, SOURCE) is None


@pytest.mark.parametrize(
    ("quote", "misquoted"),
    [
        ("def f(x):\n    y = x + 2\n", "def f(x):\n    y = x + 2"),  # another line
        ("def f(x):\n    return y\n", "def f(x):\n    return y"),  # a line left out and not said
        ("def f(x):\n     y = x + 1\n", "def f(x):\n     y = x + 1"),  # another indent
        ("def f(x):\n    y = x  + 1\n", "def f(x):\n    y = x  + 1"),  # another space
        ("def g(x):\n...\ndef f(x):\n", "def f(x):"),  # another order
        ("return x\n...\nreturn x\n", "return x"),  # twice what is there once
        ("def f(x):\n...\n", "nothing"),
    ],
)
def test_a_wrong_quotation_is_found(quote, misquoted):
    assert first_misquoted(quote, SOURCE) == misquoted


def printed(line, promised):
    """Whether a line is what the example says, where three dots match anything."""
    return re.fullmatch(".*".join(map(re.escape, promised.split(LEFT_OUT))), line) is not None


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_examples_run_and_print_what_they_say(page, block, tmp_path, monkeypatch, capsys):
    need(*NEEDS.get(page, ()))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"docs/{page}", "exec"), {})  # noqa: S102
    promised = re.findall(r"^ *print\(.*\)\s+# (.*)$", block, re.MULTILINE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(promised)
    for line, promise in zip(lines, promised, strict=True):
        assert printed(line, promise), f"{line} is printed, {promise} is promised"


def test_three_dots_match_anything_and_nothing_else_does():
    assert printed("0.9271", "0.92...")
    assert printed("3 0.9271 x", "3 ... x")
    assert not printed("0.9171", "0.92...")
    assert not printed("0.92", "0392")


def chapter(text, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE).group(1)


def rows_of(name):
    """Return the cells of the table of parameters, by parameter."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| .* \|$", chapter(page_of(name), "Parameters"), re.MULTILINE)
    assert len(rows) == len({row[0] for row in rows})
    return {row[0]: row[1:] for row in rows}


def values_in(cell):
    """Return the values that a cell shows, each as code; `2**-2` to `2**-5` means the powers of two between."""
    powers = re.fullmatch(r"`2\*\*(-?\d+)` to `2\*\*(-?\d+)`", cell)
    if powers:
        first, last = map(int, powers.groups())
        return tuple(2.0**k for k in (range(first, last + 1) if first < last else range(first, last - 1, -1)))
    return tuple(eval(code, {"inf": inf}) for code in re.findall(r"`(.*?)`", cell))


def test_the_values_in_a_cell_are_read():
    assert values_in("`2**-2` to `2**-5`") == (0.25, 0.125, 0.0625, 0.03125)
    assert values_in("`2**-1` to `2**2`") == (0.5, 1.0, 2.0, 4.0)
    assert values_in("`inf`, `0.25`, `None`, `'I'`") == (inf, 0.25, None, "I")
    assert values_in("-") == ()


@pytest.mark.parametrize("name", LEARNERS)
def test_parameters_and_defaults_are_those_of_the_class(name):
    own = own_parameters(LEARNERS[name])
    rows = rows_of(name)
    assert list(rows) == list(own)
    for parameter, default in own.items():
        shown = rows[parameter][0]
        if default is Parameter.empty:
            assert shown == "required"
        else:
            assert repr(values_in(shown)) == repr((default,))


@pytest.mark.parametrize("name", LEARNERS)
def test_grids_are_those_of_the_class(name):
    grid = LEARNERS[name].grid
    for parameter, (_, shown) in rows_of(name).items():
        assert values_in(shown) == tuple(grid.get(parameter, ()))


def prose_of(text):
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def links_in(text):
    links = re.findall(r"\]\(([^)\s]+)\)", prose_of(text))
    return [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]


def test_links_are_found_outside_of_code():
    assert links_in("[a](b.md#c) [d](https://e.f) [g](#h)\n```python\nx[0](y)\n```\n") == ["b.md"]


@pytest.mark.parametrize(("page", "link"), [(page, link) for page, text in TEXTS.items() for link in links_in(text)])
def test_links_lead_somewhere(page, link):
    assert (DOCS / page).parent.joinpath(link).exists()


EATEN = re.compile(r"\\[^A-Za-z\s]|[^A-Za-z0-9]_|[*<]|^[-+=#>].*", re.MULTILINE)


def spoiled(text):
    """Return what GitHub's Markdown would eat of the formulas before they are typeset."""
    prose = prose_of(text)
    displayed = re.findall(r"^\$\$\n(.*?)^\$\$$", prose, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", prose)
    assert prose.count("$") == 4 * len(displayed) + 2 * len(inline)
    return [bad for formula in displayed + inline for bad in EATEN.findall(formula)]


def test_what_would_be_eaten_of_a_formula_is_found():
    text = "$$\na \\, b, \\{c\\}, (W x)_j, d * e \\lt f_{g}\n= h\n$$\nand $(i)_j$"
    assert spoiled(text) == ["\\,", "\\{", "\\}", ")_", "*", "= h", ")_"]


@pytest.mark.parametrize("page", TEXTS)
def test_formulas_survive_markdown(page):
    assert spoiled(TEXTS[page]) == []
