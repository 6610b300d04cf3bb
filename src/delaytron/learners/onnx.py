"""The greedy prediction of a learner as an ONNX file (extra `onnx`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delaytron._version import __version__
from delaytron.checks import check_path
from delaytron.errors import InvalidInput
from delaytron.extras import needs
from delaytron.files.atomic import replace_file
from delaytron.kernels.standardize import LARGEST
from delaytron.learners.learner import Learner
from delaytron.learners.predictions import LinearForm, linear_form

OPSET = 17
IR_VERSION = 8  # of the release that brought these operators, so that older runtimes can read the file
MOST_BYTES = 2**31 - 2**24  # of weights: Protocol Buffers are limited to 2 GiB
LEAST_SQUARE = 1e-300  # of a row's length, by which is divided
ROWS = "rows"  # the name of the dimension of any size


def make_graph(
    form: LinearForm,
    labels: Any = None,
    *,
    missing: bool = False,
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Return the ONNX file of a graph from rows `X` to `label`, `scores` and, with a softmax, `probabilities`.

    Raises InvalidInput if the weights are too large for a file.

    Parameters
    ----------
    labels : array of str or int64, optional
        The names of the classes; by default their numbers.
    missing : bool
        Whether NaN in a row counts as 0.
    notes : dict of str
        Metadata of the file.

    Examples
    --------
    >>> import onnx
    >>> model = onnx.load_from_string(make_graph(LinearForm(np.eye(2, 3), np.zeros(2))))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'ArgMax', 'Identity']
    """
    if form.weights.nbytes > MOST_BYTES:
        raise InvalidInput(
            f"an ONNX file holds 2 GiB, these weights have {form.weights.nbytes} bytes", "use fewer features"
        )
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - needs an extra

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def tensor(name: str, shape: Sequence[Any], kind: int = TensorProto.DOUBLE) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    n_classes, n_features = form.weights.shape
    row = "X"
    if missing:
        add("IsNaN", ["X"], "is_missing")
        row = add("Where", ["is_missing", constant("zero", np.float64(0.0)), "X"], "row")
    if form.standard is not None:
        add("Sub", [row, constant("centre", form.standard.centre)], "off")
        add("Mul", ["off", constant("inverse", form.standard.inverse)], "deviations")
        limits = [constant("lowest", np.float64(-LARGEST)), constant("highest", np.float64(LARGEST))]
        row = add("Clip", ["deviations", *limits], "z")
        if form.standard.zero is not None:
            row = add("Sub", [row, constant("zeros", form.standard.zero)], "differences")
    add("MatMul", [row, constant("weights", form.weights.T)], "products")
    lead = add("Add", ["products", constant("constant", form.constant)], "sums")
    if form.standard is not None:  # by the length of the standardised row with a constant 1 behind it
        add("ReduceSumSquare", [row], "squares", axes=[1], keepdims=1)
        # Without a constant a row of zeros has length 0, and its products are 0 as well.
        add("Add", ["squares", constant("constant_squared", np.float64(form.standard.squared_constant))], "sum")
        add("Max", ["sum", constant("least", np.float64(LEAST_SQUARE))], "squared_length")
        lead = add("Div", [lead, add("Sqrt", ["squared_length"], "length")], "scaled")
    if form.offset is not None:
        lead = add("Add", [lead, constant("offset", form.offset)], "lead")

    # ArgMax takes the first of the highest, as the kernels do.
    if labels is None:
        add("ArgMax", [lead], "label", axis=1, keepdims=0, select_last_index=0)
        kind = TensorProto.INT64
    else:
        add("ArgMax", [lead], "place", axis=1, keepdims=0, select_last_index=0)
        add("Gather", [constant("labels", labels), "place"], "label", axis=0)
        kind = TensorProto.STRING if labels.dtype.kind in "OU" else TensorProto.INT64
    outputs = [tensor("label", (ROWS,), kind), tensor("scores", (ROWS, n_classes))]
    if form.scale == 1.0:
        add("Identity", [lead], "scores")
    else:
        add("Mul", [lead, constant("scale", np.float64(form.scale))], "scores")
    if form.sharpness is not None:
        add("Mul", ["scores", constant("sharpness", np.float64(form.sharpness))], "logits")
        add("Softmax", ["logits"], "probabilities", axis=1)
        outputs.append(tensor("probabilities", (ROWS, n_classes)))

    graph = helper.make_graph(nodes, "delaytron", [tensor("X", (ROWS, n_features))], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "delaytron"
    model.producer_version = __version__
    helper.set_model_props(model, dict(notes or {}))
    return bytes(model.SerializeToString())


def export(learner: Learner, path: str | Path) -> None:
    """Write the graph of a learner's `predict` and `scores`; raise as `write_form` and `linear_form` do."""
    write_form(linear_form(learner), path, notes={"learner": learner.name})


def write_form(
    form: LinearForm,
    path: str | Path,
    labels: Any = None,
    *,
    missing: bool = False,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the graph of a linear form; see `make_graph`.

    Raises MissingLibrary without the package onnx, InvalidInput for a wrong path, OSError if it cannot be written.
    """
    needs("onnx")
    replace_file(check_path("path", path), make_graph(form, labels, missing=missing, notes=notes))
