"""Every error that the package raises on purpose is one line that says what is allowed or what to do next."""

import ast
import re
from pathlib import Path

import pytest

import delaytron
from delaytron import errors
from delaytron.service import problems

SOURCE = Path(delaytron.__file__).parent
OURS = {
    name
    for module in (errors, problems)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, errors.DelaytronError)
}
HELPS = re.compile(
    r"\bmust .|\bneeds? |; .|as in |\b(give|use|leave|leave it) "  # what is allowed, or what to do
    r"|\}$"  # ends with what another message says
)
REASONS = {  # texts that stand within the message of whoever reads the file, which has the next step
    "experiments/run_files.py",
    "experiments/sealed.py",
    "experiments/theory.py",
    "learners/file_checks.py",
    "learners/files.py",
    "learners/pool.py",
    "model/snapshots.py",
}


def text_of(node):
    """Return a literal message, with `{...}` for what is put into it; None if it is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{...}" for part in node.values)
    if isinstance(node, ast.BinOp):
        return "".join(text_of(side) or "{...}" for side in (node.left, node.right))
    return None


def messages_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OURS and node.args:
            text = text_of(node.args[0])
            if text is not None:
                yield node.lineno, text


MESSAGES = [
    pytest.param(text, id=f"{path.relative_to(SOURCE)}:{line}")
    for path in sorted(SOURCE.rglob("*.py"))
    for line, text in messages_in(ast.parse(path.read_text()))
    if str(path.relative_to(SOURCE)) not in REASONS
]


def test_messages_are_found():
    tree = ast.parse('raise InvalidInput(f"x must be {low}" + more) from None\nraise ValueError("other")')
    assert list(messages_in(tree)) == [(1, "x must be {...}{...}")]
    assert len(MESSAGES) > 400


@pytest.mark.parametrize("text", MESSAGES)
def test_a_message_is_one_line_that_helps(text):
    assert "\n" not in text
    assert not text.endswith((".", "!"))
    assert HELPS.search(text), "say what is allowed (x must be ..., got ...), or what to do next (...; give ...)"


@pytest.mark.parametrize("text", ["the file is damaged", "x is not a number", "label 7 makes no sense", "it must"])
def test_a_message_that_leaves_its_reader_alone_is_found(text):
    assert not HELPS.search(text)
