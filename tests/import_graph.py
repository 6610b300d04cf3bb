"""Draw in CONTRIBUTING.md which package imports which: `python tests/import_graph.py`; test_layers.py checks it.

A row imports what is marked in it. In the order of the contract every mark is left of the diagonal.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "delaytron"
PAGE = ROOT / "CONTRIBUTING.md"
DRAWING = re.compile(r"(<!-- import graph -->\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


def stages():
    """Return the stages as CONTRIBUTING.md writes them: arrows between stages, bars and blanks between siblings."""
    line = re.search(r"<!-- contract -->\n`(.*?)`", PAGE.read_text(), re.DOTALL).group(1)
    return [re.findall(r"\w+", stage) for stage in line.split("->")]


@cache
def modules():
    """Return (name, syntax tree) of every module; the root has no name."""
    return tuple((_name_of(path), ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py")))


def _name_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def imports(tree):
    """Yield (module, member, at the top level of the file) of everything imported but for the type checker."""
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = {child for block in guarded for child in ast.walk(block)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.module, alias.name, node in tree.body
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node in tree.body


def room_of(module, member=None):
    """Return the package or loose module below `delaytron` that a name belongs to; the root is a room, too."""
    parts = [part for part in (*module.split("."), member) if part][1:]
    known = parts and ((PACKAGE / parts[0]).is_dir() or (PACKAGE / f"{parts[0]}.py").is_file())
    return parts[0] if known else "root"


def rooms_used(tree):
    return {room_of(module, member) for module, member, _ in imports(tree) if module.split(".")[0] == "delaytron"}


def graph():
    """Return what each package or loose module imports of the others."""
    used = {room: set() for stage in stages() for room in stage}
    for name, tree in modules():
        room = room_of(f"delaytron.{name}")
        if room in used:
            used[room] |= rooms_used(tree) - {room}
    return used


def drawing():
    """Return the graph as text: a row and a column for each package, in the order of the contract."""
    used = graph()
    width = max(map(len, used))
    lines = [" " * (width + 4) + "".join(f"{place:3}" for place in range(1, len(used)))]
    for place, (room, others) in enumerate(used.items(), start=1):
        marks = "".join("  x" if other in others else "  ." for other in list(used)[: place - 1])
        lines.append(f"{place:2} {room:<{width}} {marks}".rstrip())
    return "\n".join(lines) + "\n"


def redrawn(text):
    """Return the page with the graph as it is now."""
    return DRAWING.sub(lambda found: found[1] + drawing() + found[3], text, count=1)


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text()))
