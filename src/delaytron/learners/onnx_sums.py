"""Sums of products in an ONNX graph, in the order in which `kernels.linear` takes them: the same bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from delaytron.learners.linear_form import LinearForm


class Graph:
    """Nodes and constants, each by a name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with one output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def slice(self, name: str, begin: int, end: int, output: str) -> str:
        """Add a part of the first axis."""
        ends = [self.constant(f"{output}_{word}", np.array([place])) for word, place in (("from", begin), ("to", end))]
        return self.add("Slice", [name, *ends, self.constant(f"{output}_axis", np.array([0]))], output)


def add_sums(graph: Graph, form: LinearForm, row: str, output: str) -> None:
    """Add W x for every row.

    Several sums side by side take their products one step after another, in a loop of the graph (`Scan`): what a
    matrix product does with them is up to the runtime. Rows stand side by side, so that a step is long.
    """
    K, d = form.weights.shape
    whole = d if form.sparse else d - d % form.lanes
    graph.add("Transpose", [row], "columns", perm=[1, 0])
    graph.add("Shape", [row], "n_rows", end=1)
    lanes = _zeros(graph, (form.lanes, K))
    if whole:
        steps = _by_turns(graph) if form.sparse else _in_order(graph, whole, form.lanes)
        each = (whole, 1) if form.sparse else (whole // form.lanes, form.lanes)
        weights = graph.constant("weights", form.weights[:, :whole].T.reshape(*each, K, 1))
        body = _step(form.lanes, K)
        lanes = graph.add("Scan", [lanes, steps, weights], "lanes", num_scan_inputs=2, body=body)
    sums = _halve(graph, lanes, form.lanes)
    for j in range(whole, d):
        graph.slice("columns", j, j + 1, f"x_{j}")
        graph.add("Mul", [f"x_{j}", graph.constant(f"w_{j}", form.weights[:, j, None])], f"product_{j}")
        sums = graph.add("Add", [sums, f"product_{j}"], f"sums_{j}")
    graph.add("Transpose", [sums], output, perm=[1, 0])


def _in_order(graph: Graph, whole: int, lanes: int) -> str:
    """Add what each step takes of dense rows: the next numbers, one for each lane; (steps, lanes, 1, rows)."""
    graph.slice("columns", 0, whole, "whole")
    graph.add(
        "Concat", [graph.constant("lanes_of_a_step", np.array([whole // lanes, lanes, 1])), "n_rows"], "form", axis=0
    )
    return graph.add("Reshape", ["whole", "form"], "steps", allowzero=1)


def _by_turns(graph: Graph) -> str:
    """Add what each step takes of sparse rows: one number, or 0, for each of two lanes; the non-zeros take turns."""
    none, unit = graph.constant("none", np.float64(0.0)), graph.constant("unit", np.float64(1.0))
    graph.add("Equal", ["columns", none], "is_zero")
    graph.add("Where", ["is_zero", none, unit], "is_there")
    graph.add("CumSum", ["is_there", graph.constant("first_axis", np.int64(0))], "count", exclusive=1)
    graph.add("Mod", ["count", graph.constant("two", np.float64(2.0))], "turn", fmod=1)
    graph.add("Equal", ["turn", none], "is_even")
    axes = graph.constant("lane_axes", np.array([1, 2]))
    for name, inputs in (("even", ["is_even", "columns", none]), ("odd", ["is_even", none, "columns"])):
        graph.add("Where", inputs, f"{name}_numbers")
        graph.add("Unsqueeze", [f"{name}_numbers", axes], name)
    return graph.add("Concat", ["even", "odd"], "steps", axis=1)


def _zeros(graph: Graph, tile: tuple[int, int]) -> str:
    """Add what the sums begin with, as (lanes, K, rows)."""
    graph.add("Concat", [graph.constant("tile", np.array(tile)), "n_rows"], "shape", axis=0)
    return graph.add("ConstantOfShape", ["shape"], "zeros", value=numpy_helper.from_array(np.zeros(1)))


def _step(lanes: int, K: int) -> Any:
    """Return the body of the loop: sums + x w."""
    shapes = {"sums_in": [lanes, K, None], "part": [lanes, 1, None], "factors": None, "sums_out": [lanes, K, None]}
    infos = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name, shape in shapes.items()]
    product = helper.make_node("Mul", ["part", "factors"], ["part_product"])
    added = helper.make_node("Add", ["sums_in", "part_product"], ["sums_out"])
    return helper.make_graph([product, added], "step", infos[:3], infos[3:])


def _halve(graph: Graph, sums: str, lanes: int) -> str:
    """Add the upper half of the sums to the lower, until one is left."""
    width = lanes
    while width > 1:
        width //= 2
        lower, upper = (graph.slice(sums, begin, begin + width, f"half_{width}_{begin}") for begin in (0, width))
        sums = graph.add("Add", [lower, upper], f"halved_{width}")
    return graph.add("Squeeze", [sums, graph.constant("lane_axis", np.array([0]))], "totals")
