"""Networks as values: a typed, ordered, immutable graph and its text form.

A graph names every tensor. `values` holds the type of each name: inputs, constants and results of
nodes alike; `constants` holds the data of those that are known. Nodes stand in topological order.
Nothing here knows what an operator means: `ops` has the shape rules, `reference` the meaning.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

import numpy as np

__all__ = ["MOST_DIMENSIONS", "Attrs", "Graph", "Node", "TensorType"]

DTYPES = ("float32", "int8", "uint8", "int32", "int64", "bool", "float16", "bfloat16", "float64",
          "int16", "uint16", "uint32", "uint64")
MOST_DIMENSIONS = 64
"""NumPy's limit."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type; a scalar has shape (). The text form is `int8[1,16,8,8]`."""

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if any(type(extent) is not int or extent < 1 for extent in self.shape):
            raise ValueError(f"shape must hold integers of at least 1, not {self.shape!r}")
        if len(self.shape) > MOST_DIMENSIONS:
            raise ValueError(f"shape must have {MOST_DIMENSIONS} dimensions at most, not "
                             f"{len(self.shape)}")
        if prod(self.shape) >= 1 << 63:
            raise ValueError(f"shape must hold less than 2^63 elements, not {self.shape!r}")

    @classmethod
    def of(cls, array: np.ndarray) -> "TensorType":
        return cls(tuple(array.shape), array.dtype.name)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Attrs(Mapping[str, object]):
    """An immutable, hashable mapping of attribute names to int, float, str or tuple of int."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, object] | None = None):
        frozen = ((name, _frozen(name, value)) for name, value in (items or {}).items())
        self._items = dict(sorted(frozen))

    def __getitem__(self, name: str):
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return f"Attrs({self._items!r})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={_attr_text(value)}" for name, value in self._items.items())


def _frozen(name: str, value: object) -> object:
    match value:
        case str():
            return value
        case bool():
            pass
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value)
        case tuple() | list() if all(isinstance(v, int | np.integer) for v in value):
            return tuple(map(int, value))
    raise ValueError(
        f"attribute {name!r} must be an int, float, str or tuple of ints, not {value!r}")


def _attr_text(value: object) -> str:
    return f"({','.join(map(str, value))})" if isinstance(value, tuple) else repr(value)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: reads the values `inputs`, defines the values `outputs`.

    `name` identifies the node in reports and is unique in its graph; it is the name of the layer
    in the source model wherever there is one.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping = field(default_factory=Attrs)

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "outputs", tuple(self.outputs))
        object.__setattr__(self, "attrs", Attrs(self.attrs))

    def __str__(self) -> str:
        attrs = f" {{{self.attrs}}}" if self.attrs else ""
        return f"{self.op}({', '.join(self.inputs)}){attrs}  # {self.name}"


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
