"""Float functions of one int8 value as tables of all its values: what `integerize` makes of
elementwise operators that depend on one quantized tensor.
"""

import numpy as np

from compiler.graph.integerize.litert import REAL, kernel_of, stored_steps
from compiler.graph.integerize.quantized import QuantizedView, stored_form
from compiler.graph.integerize.regions import Region
from compiler.graph.reference import evaluate_node
from compiler.ops.families.integer_maps import BYTES
from compiler.ops.records.integer_forms import IntegerNode, StaysFloat


def tabled(view: QuantizedView, region: Region) -> IntegerNode:
    """The `qtable` of a region with one source, exact. Raises StaysFloat with the reason."""
    (source,), result = region.sources, region.nodes[-1].outputs[0]
    if view.shape(source) != view.shape(result):
        raise StaysFloat("a constant gives it more dimensions than its input has")
    signed = view.graph.values[source].dtype == "int8"
    numbers = BYTES if signed else BYTES.view(np.uint8) ^ 128
    return IntegerNode("qtable", (view.stored[source],), {},
                       (("table", stored_form(evaluated(view, region, numbers))),))


def evaluated(view: QuantizedView, region: Region, numbers: np.ndarray) -> np.ndarray:
    """The results of a region with one source for these numbers of it, by the meanings of
    operators, or as the kernels of LiteRT store it. Raises StaysFloat where one is no number."""
    graph, (source,) = view.graph, region.sources
    defined = {node.inputs[0] for node in region.nodes if kernel_of(node) in REAL}
    known: dict[str, np.ndarray] = {source: numbers}
    for node in region.nodes:
        inputs = [known[value] if value in known else graph.constants[value].reshape(())
                  for value in node.inputs]
        made = stored_steps(view, node, known)
        if made is None:
            made = np.asarray(evaluate_node(node, inputs))
        if made.dtype.kind == "f" and np.isnan(made).any() and node.outputs[0] not in defined:
            raise StaysFloat(f"{node.name} is no number for some values of its input")
        known[node.outputs[0]] = made
    return known[region.nodes[-1].outputs[0]]
