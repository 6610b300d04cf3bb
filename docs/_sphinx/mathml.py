"""Formulas as MathML, which browsers render without scripts or a network."""

import re
from html import escape, unescape
from typing import Any
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.utils.math import MathError, pick_math_environment
from docutils.utils.math.latex2mathml import accents, tex2mathml
from sphinx.util import logging

OTHER_NAMES = {r"\big": r"\bigl", r"\Big": r"\Bigl", r"\lt": "<", r"\gt": ">"}  # docutils has other names for them
MATHML = "http://www.w3.org/1998/Math/MathML"
ACCENTS = set(accents.values())
ET.register_namespace("", MATHML)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer of formulas; `html_math_renderer` in conf.py names it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, _known(node.astext()), as_block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    text = _known(node.astext())
    if pick_math_environment(text) == "align*":
        text = f"\\begin{{align*}}{text}\\end{{align*}}"
    writer.body.append(f'<div class="math-display">{_mathml(node, text, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Node, text: str, *, as_block: bool) -> str:
    try:
        return with_index_beside(str(tex2mathml(text, as_block=as_block)))
    except MathError as problem:
        logging.getLogger(__name__).warning("a formula cannot be drawn: %s %s", problem, text, location=node)
        return escape(text)


def _known(text: str) -> str:
    return re.sub(r"\\([Bb]ig|lt|gt)(?![A-Za-z])", lambda found: OTHER_NAMES[found[0]], text)


def with_index_beside(formula: str) -> str:
    """Return a formula in which the index of an accented letter is beside it; docutils puts it below."""
    plain = re.sub(r"&(?!amp;|lt;|gt;)\w+;", lambda found: unescape(found[0]), formula)  # XML has no &nbsp;
    root = ET.fromstring(plain)  # noqa: S314 - made by docutils
    for both in root.iter(f"{{{MATHML}}}munderover"):
        letter, index, accent = both
        if accent.text in ACCENTS:
            accented = ET.Element(f"{{{MATHML}}}mover", accent="true")
            accented.extend([letter, accent])
            both.tag, both[:] = f"{{{MATHML}}}msub", [accented, index]
    return ET.tostring(root, encoding="unicode")
