"""The notebooks that can be downloaded, without links and directives that only work on the site."""

import json
import re
from pathlib import Path
from typing import Any

DOWNLOAD = re.compile(r"^\{nb-download\}.*\n*", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)\s]+\)")


def setup(app: Any) -> dict[str, bool]:
    """Clean the notebooks when the build has finished."""
    app.connect("build-finished", _clean_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _clean_all(app: Any, problem: Exception | None) -> None:
    if problem is None:
        for path in Path(app.outdir).glob("_downloads/*/*.ipynb"):
            path.write_text(without_site_links(path.read_text()))


def without_site_links(notebook: str) -> str:
    """Return a notebook whose texts neither offer it for download nor link to other pages of the site."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = as_plain("".join(cell["source"]))
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def as_plain(text: str) -> str:
    """Return the text of a cell without the download link, and with the texts of links only."""
    return LINK.sub(r"\1", DOWNLOAD.sub("", text))
