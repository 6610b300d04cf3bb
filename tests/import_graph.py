"""The modules of the package and what they import, and the contract of imports in CONTRIBUTING.md."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "delaytron"
PAGE = ROOT / "CONTRIBUTING.md"


def stages():
    """Return the stages as CONTRIBUTING.md writes them: arrows between stages, bars and blanks within one."""
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


def part_of(module, member=None):
    """Return the package or single module below `delaytron` that a name belongs to, or "root"."""
    names = [name for name in (*module.split("."), member) if name][1:]
    known = names and ((PACKAGE / names[0]).is_dir() or (PACKAGE / f"{names[0]}.py").is_file())
    return names[0] if known else "root"


def parts_used(tree):
    """Return the packages and single modules that a module imports."""
    return {part_of(module, member) for module, member, _ in imports(tree) if module.split(".")[0] == "delaytron"}
