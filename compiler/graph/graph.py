"""Networks as values: a typed, ordered, immutable graph and its text form.

A graph names every tensor. `values` holds the type of each name: inputs, constants and results of
nodes alike; `constants` holds the data of those that are known. Nodes stand in topological order.
Nodes and types are those of `compiler.ops.records.node`; what operators mean,
`compiler.ops.registry` says.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from compiler.ops.records.node import DTYPES, MOST_DIMENSIONS, Attrs, Node, TensorType

__all__ = ["DTYPES", "MOST_DIMENSIONS", "Attrs", "Graph", "Node", "TensorType"]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A network: inputs and outputs are value names, nodes stand in topological order.

    `notes` are sentences for the user about what the compiler could not do, for example which
    layer stays in float and why. Constant arrays are read-only.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: Mapping[str, TensorType]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        constants = {name: _read_only(array) for name, array in self.constants.items()}
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "constants", MappingProxyType(constants))

    def producers(self) -> dict[str, Node]:
        """The node that defines each value; inputs and constants have none."""
        return {value: node for node in self.nodes for value in node.outputs}

    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each value, in order; a value that nobody reads has ()."""
        readers: dict[str, list[Node]] = {value: [] for value in self.values}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                readers[value].append(node)
        return {value: tuple(nodes) for value, nodes in readers.items()}

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise KeyError(f"node must be one of {known}, not {name!r}")

    def __str__(self) -> str:
        typed = self.values
        lines = [f"graph {self.name} {{"]
        lines += [f"  input {name}: {typed[name]}" for name in self.inputs]
        lines += [f"  const {name}: {typed[name]} {_data_text(array)}"
                  for name, array in self.constants.items()]
        lines += [f"  {', '.join(f'{v}: {typed[v]}' for v in node.outputs)} = {node}"
                  for node in self.nodes]
        lines += [f"  output {name}: {typed[name]}" for name in self.outputs]
        lines += [f"  note {note}" for note in self.notes]
        return "\n".join([*lines, "}"]) + "\n"


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
        array.flags.writeable = False
    return array


def _data_text(array: np.ndarray) -> str:
    """The value when it is one number, else a checksum of the little-endian bytes."""
    if array.size == 1:
        return f"= {array.item()!r}"
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return f"crc32={zlib.crc32(little.tobytes()):08x}"
