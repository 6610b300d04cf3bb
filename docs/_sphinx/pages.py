"""Pages that are made from the package when the site is built, and links that leave docs/."""

import re
from typing import Any

from commands import commands_page
from http_calls import calls_page

GENERATED = {"commands": commands_page, "http": calls_page}
MARK = re.compile(r"^<!-- made when the site is built: (\w+) -->$", re.MULTILINE)
OUTSIDE = {  # what lies beside docs/, and the page of the site that shows it
    "README.md": "index.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
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
    return text
