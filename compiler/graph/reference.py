"""The meaning of a graph, in NumPy: the judge of all that is compiled from it.

Every operator means what its record says. Float operators follow ONNX; products are summed in
float64 and rounded to float32 once. Integer operators are exact.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.ops.registry import find
from compiler.te import numpy_dtype

Array = np.ndarray


def evaluate(graph: Graph, inputs: Mapping[str, Array],
             values: Iterable[str] | None = None) -> dict[str, Array]:
    """The named values (the graph's outputs unless told) for the given inputs.

    Every input must be given with exactly its declared type.
    """
    known = dict(graph.constants) | check_inputs(graph, inputs)
    for node in graph.nodes:
        known[node.outputs[0]] = evaluate_node(node, [known[name] for name in node.inputs])
    return {name: known[name] for name in (graph.outputs if values is None else values)}


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs, when there is one of the declared type for each of the graph's and no other;
    else ValueError.
    """
    checked = {name: _checked(graph, inputs, name) for name in graph.inputs}
    for name in inputs:
        if name not in graph.inputs:
            raise ValueError(f"input must be one of {', '.join(graph.inputs)}, not {name!r}")
    return checked


def _checked(graph: Graph, inputs: Mapping[str, Array], name: str) -> Array:
    if name not in inputs:
        raise ValueError(f"input {name!r} must be given")
    array, wanted = np.asarray(inputs[name]), graph.values[name]
    if array.shape != wanted.shape or array.dtype != numpy_dtype(wanted.dtype):
        given = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
        raise ValueError(f"input {name!r} must be {wanted}, not {given}")
    return array


def evaluate_node(node: Node, inputs: Sequence[Array]) -> Array:
    """The node's output for these inputs. Float overflow and division by zero
    give infinities, as in ONNX."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return find(node.op).meaning(node.attrs, *inputs)
