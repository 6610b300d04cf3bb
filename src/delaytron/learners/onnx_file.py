"""A learner's greedy prediction as an ONNX file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delaytron.checks import check_bool, check_path
from delaytron.extras import needs
from delaytron.files.atomic import replace_file
from delaytron.learners.base import Learner
from delaytron.learners.linear_form import LinearForm, linear_form


def export(learner: Learner, path: str | Path, exact: bool) -> None:
    """Write the graph of `predict` and `scores`."""
    write_form(linear_form(learner), path, exact=exact, notes={"learner": learner.name})


def write_form(
    form: LinearForm,
    path: str | Path,
    labels: Any = None,
    *,
    exact: bool = True,
    missing: bool = False,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the graph of a linear form; see `onnx_graph.make_graph`."""
    needs("onnx")
    from delaytron.learners.onnx_graph import make_graph  # noqa: PLC0415 - needs an extra

    target = check_path("path", path)
    replace_file(target, make_graph(form, labels, exact=check_bool("exact", exact), missing=missing, notes=notes))
