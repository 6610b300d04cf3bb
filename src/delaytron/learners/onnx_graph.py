"""A linear form as an ONNX graph, in 64-bit floats throughout; it needs the extra `onnx`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from delaytron._version import __version__
from delaytron.errors import InvalidInput
from delaytron.kernels.standard import LARGEST
from delaytron.learners.linear_form import LinearForm
from delaytron.learners.onnx_sums import Graph, add_sums

OPSET = 17
IR_VERSION = 8  # that of the same release as the operators: older runtimes read it, too
MOST_BYTES = 2**31 - 2**24  # of weights: a file of Protocol Buffers ends at 2 GiB
ROWS = "rows"  # the name of the free dimension


def make_graph(
    form: LinearForm,
    labels: Any = None,
    *,
    exact: bool = True,
    missing: bool = False,
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Return the file of a graph from rows `X` to `label`, `scores` and, of a softmax, `probabilities`.

    Parameters
    ----------
    labels : array of str or int64, optional
        What the classes are called; by default their numbers.
    exact : bool
        Take sums in the order of the learner; or leave it to a matrix product.
    missing : bool
        Whether NaN in a row counts as 0.
    notes : dict of str
        What else the file says of itself.

    Examples
    --------
    >>> import onnx
    >>> model = onnx.load_from_string(make_graph(LinearForm(np.eye(2, 3), np.zeros(2)), exact=False))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'ArgMax', 'Identity']
    """
    if form.weights.nbytes > MOST_BYTES:
        raise InvalidInput(
            f"an ONNX file holds 2 GiB, these weights have {form.weights.nbytes} bytes; use fewer features"
        )
    graph = Graph()
    row = _without_missing(graph) if missing else "X"
    lead = _add_scores(graph, form, row, exact)
    outputs = [_add_label(graph, lead, labels), _tensor("scores", (ROWS, len(form.weights)))]
    _finish_scores(graph, form, lead)
    if form.sharpness is not None:
        outputs.append(_add_probabilities(graph, form.sharpness, len(form.weights)))
    inputs = [_tensor("X", (ROWS, form.weights.shape[1]))]
    made = helper.make_graph(graph.nodes, "delaytron", inputs, outputs, graph.constants)
    return _as_file(made, notes or {})


def _tensor(name: str, shape: Sequence[Any], kind: int = TensorProto.DOUBLE) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _without_missing(graph: Graph) -> str:
    graph.constant("zero", np.float64(0.0))
    graph.add("IsNaN", ["X"], "is_missing")
    return graph.add("Where", ["is_missing", "zero", "X"], "row")


def _add_scores(graph: Graph, form: LinearForm, row: str, exact: bool) -> str:
    """Add what the greedy label is found by; return its name."""
    if form.standard is not None:
        row = _standardize(graph, form, row)
    if exact:
        add_sums(graph, form, row, "products")
    else:
        graph.add("MatMul", [row, graph.constant("weights", form.weights.T)], "products")
    lead = graph.add("Add", ["products", graph.constant("constant", form.constant)], "sums")
    return lead if form.standard is None else graph.add("Div", [lead, "length"], "lead")


def _standardize(graph: Graph, form: LinearForm, row: str) -> str:
    """Add the standardised row, and its length with a constant 1 behind it."""
    assert form.standard is not None  # noqa: S101 - for the type checker
    graph.add("Sub", [row, graph.constant("centre", form.standard.centre)], "off")
    graph.add("Mul", ["off", graph.constant("inverse", form.standard.inverse)], "deviations")
    limits = [graph.constant("lowest", np.float64(-LARGEST)), graph.constant("highest", np.float64(LARGEST))]
    graph.add("Clip", ["deviations", *limits], "z")
    graph.add("ReduceSumSquare", ["z"], "squares", axes=[1], keepdims=1)
    graph.add("Add", ["squares", graph.constant("one", np.float64(1.0))], "squared_length")
    graph.add("Sqrt", ["squared_length"], "length")
    return "z"


def _add_label(graph: Graph, lead: str, labels: Any) -> Any:
    """Add the label: the first of those that lead."""
    if labels is None:
        graph.add("ArgMax", [lead], "label", axis=1, keepdims=0, select_last_index=0)
        return _tensor("label", (ROWS,), TensorProto.INT64)
    graph.add("ArgMax", [lead], "place", axis=1, keepdims=0, select_last_index=0)
    graph.add("Gather", [graph.constant("labels", labels), "place"], "label", axis=0)
    is_text = labels.dtype.kind in "OU"
    return _tensor("label", (ROWS,), TensorProto.STRING if is_text else TensorProto.INT64)


def _finish_scores(graph: Graph, form: LinearForm, lead: str) -> None:
    if form.scale == 1.0:
        graph.add("Identity", [lead], "scores")
    else:
        graph.add("Mul", [lead, graph.constant("scale", np.float64(form.scale))], "scores")


def _add_probabilities(graph: Graph, sharpness: float, n_classes: int) -> Any:
    graph.add("Mul", ["scores", graph.constant("sharpness", np.float64(sharpness))], "logits")
    graph.add("Softmax", ["logits"], "probabilities", axis=1)
    return _tensor("probabilities", (ROWS, n_classes))


def _as_file(graph: Any, notes: Mapping[str, str]) -> bytes:
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    model.producer_name = "delaytron"
    model.producer_version = __version__
    helper.set_model_props(model, dict(notes))
    return bytes(model.SerializeToString())
