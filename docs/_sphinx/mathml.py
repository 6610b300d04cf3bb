"""Formulas as MathML, which browsers draw themselves: no script and no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml

OTHER_NAMES = {r"\big": r"\bigl", r"\Big": r"\Bigl", r"\lt": "<", r"\gt": ">"}  # what docutils calls otherwise


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx how formulas are written; `html_math_renderer` in conf.py names it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(_known(node.astext()), as_block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    text = _known(node.astext())
    environment = pick_math_environment(text)
    if "\\begin{align" not in text and "\\\\" in text:
        text = f"\\begin{{{environment}}}{text}\\end{{{environment}}}"
    writer.body.append(f'<div class="math-display">{tex2mathml(text, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _known(text: str) -> str:
    return re.sub(r"\\([Bb]ig|lt|gt)(?![A-Za-z])", lambda found: OTHER_NAMES[found[0]], text)
