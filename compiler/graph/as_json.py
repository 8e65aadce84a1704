"""Graphs as JSON, but for the data of their constants, which whoever writes them keeps his way."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.graph.graph import Attrs, Graph, Node, TensorType
from compiler.graph.verify import verify


def graph_json(graph: Graph, constants: Mapping[str, Any]) -> dict[str, Any]:
    """The graph, with what stands for the data of each constant."""
    return {
        "name": graph.name, "inputs": graph.inputs, "outputs": graph.outputs,
        "nodes": [{"op": node.op, "name": node.name, "inputs": node.inputs,
                   "outputs": node.outputs, "attrs": Attrs(node.attrs).json()}
                  for node in graph.nodes],
        "values": {name: {"dtype": type_.dtype, "shape": type_.shape}
                   for name, type_ in graph.values.items()},
        "constants": dict(constants), "notes": graph.notes}


def graph_from(entry: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> Graph:
    """The graph that `graph_json` wrote, with these constants; refuses one that `verify` refuses.
    """
    nodes = (Node(node["op"], node["name"], tuple(node["inputs"]), tuple(node["outputs"]),
                  Attrs.from_json(node["attrs"]))
             for node in entry["nodes"])
    values = {name: TensorType(tuple(type_["shape"]), type_["dtype"])
              for name, type_ in entry["values"].items()}
    return verify(Graph(entry["name"], tuple(entry["inputs"]), tuple(entry["outputs"]),
                        tuple(nodes), values, constants, tuple(entry["notes"])))
