"""What a model predicts as an ONNX file: for features of a fixed form."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from delaytron.errors import InvalidInput
from delaytron.learners.linear_form import linear_form
from delaytron.learners.onnx_file import write_form
from delaytron.model.core import Core
from delaytron.model.fixed import DenseEncoder, NamedEncoder
from delaytron.model.keeper import Keeper


def export(keeper: Keeper, path: str | Path, exact: bool) -> None:
    """Write the graph of `predict` among the classes that may be chosen, by their names."""
    encoder = keeper.encoder
    if not isinstance(encoder, DenseEncoder):
        raise InvalidInput(
            "hashed features cannot be exported: an ONNX graph reads numbers; give features=[names] or n"
        )
    form, names, learner = keeper.read(_known)
    notes = {"learner": learner, "classes": json.dumps(names), "features": json.dumps(encoder._names)}
    write_form(form, path, _as_labels(names), exact=exact, missing=isinstance(encoder, NamedEncoder), notes=notes)


def _known(core: Core) -> tuple[Any, list[Any], str]:
    """Return what a model predicts by now."""
    form = linear_form(core.learner).only(core.classes.allowed(None))
    return form, core.classes.active, core.learner.name


def _as_labels(names: list[Any]) -> Any:
    """Return the names as one tensor."""
    if all(isinstance(name, int) for name in names):
        return np.array(names, np.int64)
    if all(isinstance(name, str) for name in names):
        return np.array(names, object)
    raise InvalidInput("classes must be all text or all integers to be exported; a tensor cannot hold both")
