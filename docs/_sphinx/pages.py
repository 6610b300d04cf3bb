"""Pages that are generated from the package, links that leave docs/, and the navigation of the site."""

import re
from typing import Any

from commands import commands_page
from http_calls import calls_page

GENERATED = {"commands": commands_page, "http": calls_page}
ENTRY = re.compile(r"^\* \[([^\]\n]*)\]\(([^)#\s]+)\.md\)", re.MULTILINE)
INDEXES = {  # by folder: the page whose lists are the navigation of these pages, and say what each is for
    "tutorials": "tutorials/index",
    "howto": "howto/index",
    "reference": "reference/index",
    "explanation": "explanation/index",
    "results": "explanation/index",
    "learners": "explanation/learners",
}
MARK = re.compile(r"^<!-- made when the site is built: (\w+) -->$", re.MULTILINE)
OUTSIDE = {  # what lies beside docs/, and the page of the site that shows it
    "README.md": "index.md",
    "CONTRIBUTING.md": "howto/contributing.md",
    "CHANGELOG.md": "reference/changes.md",
    "benchmarks/RESULTS.md": "reference/benchmarks.md",
}


def setup(app: Any) -> dict[str, bool]:
    """Read every page through `prepare`."""
    app.connect("source-read", lambda _, name, source: source.__setitem__(0, prepare(name, source[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def prepare(name: str, text: str) -> str:
    """Return the text of a page as the site shows it."""
    text = MARK.sub(lambda found: GENERATED[found[1]](), text)
    up = "../" * (name.count("/") + 1)
    for path, page in OUTSIDE.items():
        text = text.replace(f"]({up}{path}", f"]({up[3:]}{page}")
    return text + navigation(text) if name in INDEXES.values() else text


def navigation(text: str) -> str:
    """Return a hidden table of contents for each list of an index page, under the title of its section."""
    tables = ""
    _, *sections = re.split(r"^##? (.*)$", text, flags=re.MULTILINE)
    for title, part in zip(sections[::2], sections[1::2], strict=True):
        if entries := ENTRY.findall(part):
            pages = [f"{label.replace('`', '')} <{page}>" for label, page in entries]
            caption = f":caption: {title}\n" if len(sections) > 2 else ""
            tables += "\n```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(pages) + "\n```\n"
    return tables
