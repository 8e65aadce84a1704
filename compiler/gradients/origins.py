"""Finds where a computation ceases to be one of numbers."""

from collections.abc import Mapping

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.reference import evaluate_node


def origin(graph: Graph, inputs: Mapping[str, np.ndarray]) -> str:
    """Says what first gives NaN: an input, or the first node that makes it of what is none; where
    no NaN is made, infinities count. "" if the reference makes only numbers.

    The whole graph is evaluated by the reference, which sums products in float64.
    """
    for wrong, what in ((np.isnan, "NaN"), (np.isinf, "an infinity")):
        for name, array in inputs.items():
            if _any(wrong, array):
                return f"the input {name!r} has {what}"
        node = _first(graph, inputs, wrong)
        if node is not None:
            return f"{node.name} ({node.op}) is the first to make {what}"
    return ""


def _first(graph: Graph, inputs: Mapping[str, np.ndarray], wrong: np.ufunc) -> Node | None:
    """The first node that makes such elements of operands that have none."""
    last = {name: node for node in graph.nodes for name in node.inputs}
    known = {**graph.constants, **inputs}
    bad = {name for name, array in known.items() if _any(wrong, array)}
    for node in graph.nodes:
        made = evaluate_node(node, [known[name] for name in node.inputs])
        if _any(wrong, made):
            if not bad.intersection(node.inputs):
                return node
            bad.add(node.outputs[0])
        known[node.outputs[0]] = made
        for name in node.inputs:
            if last[name] is node:
                known.pop(name, None)
    return None


def _any(wrong: np.ufunc, array: np.ndarray) -> bool:
    return array.dtype.kind not in "biuOSU" and bool(wrong(array).any())
