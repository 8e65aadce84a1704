"""Draws typed graphs: values with their arrays, and the nodes that compute them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.values.reference import OPSET, computed

Array = np.ndarray
MOST_ELEMENTS = 2048
LARGEST = 1e6               # beyond it float32 says little about quantized networks


name_of = lru_cache(None)(attrgetter("name"))     # NumPy makes the name anew each time


class Unfit(Exception):
    """A rule cannot read this value."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of the graph that is drawn, and its elements for the inputs that were drawn.
    `scale` and `zero` say which numbers its steps are, where it is quantized.
    """

    name: str
    array: Array
    scale: float | None = None
    zero: int = 0

    @property
    def dtype(self) -> str:
        return name_of(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A model and its inputs; `pairs` are the kinds of reader, mover and type that it has."""

    number: int
    model: onnx.ModelProto
    inputs: dict[str, Array]
    pairs: tuple[tuple[str, str, str], ...] = ()


@dataclass(slots=True)
class Drawer:
    """Writes one graph, node by node. Everything follows from the random numbers. `types` are those
    of quantized tensors.
    """

    rng: np.random.Generator
    types: Sequence[str] = ("int8", "uint8", "int16", "uint16")
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Value] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choice(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def below(self, end: int, begin: int = 0) -> int:
        """A number from `begin` to before `end`."""
        return int(self.rng.integers(begin, end))

    def number(self, low: float, high: float) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def normal(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)

    def input(self, array: Array, scale: float | None = None, zero: int = 0) -> Value:
        value = Value(f"x{len(self.inputs)}", array, scale, zero)
        self.inputs[value.name] = value
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: str = "") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(array, dtype or None)
        return name

    def emit(self, op: str, *inputs: "Value | str | None", steps: tuple[float | None, int] = (
            None, 0), **attributes: Any) -> Value:
        """The first output of a new node."""
        return self.emit_all(op, *inputs, steps=steps, **attributes)[0]

    def emit_all(self, op: str, *inputs: "Value | str | None", outputs: int = 1,
                 steps: tuple[float | None, int] = (None, 0), **attributes: Any) -> list[Value]:
        """All outputs of a new node, the last of the graph so far. `steps`: their scale and zero
        point. Unfit where it cannot be computed, or is too large, or has no elements.
        """
        names = [one.name if isinstance(one, Value) else one or "" for one in inputs]
        number = len(self.nodes)
        given: dict[str, Any] = {name: one for name, one in attributes.items()
                                 if not isinstance(one, list) or one}
        node = helper.make_node(op, names, [f"v{number}_{place}" if place else f"v{number}"
                                            for place in range(outputs)],
                                name=f"n{number}", **given)
        arrays = [one.array if isinstance(one, Value) else self.constants[one] if one else None
                  for one in inputs]
        try:
            found = computed(node, arrays)[:outputs]
        except (ValueError, IndexError, RuntimeError, TypeError, AssertionError,
                NotImplementedError, KeyError, AttributeError, OverflowError) as error:
            raise Unfit(f"{op}: {error}") from None
        for array in found:
            if not 0 < array.size <= MOST_ELEMENTS or array.ndim > 6 or (
                    array.dtype.kind == "f" and not np.all(np.abs(array) < LARGEST)):
                raise Unfit(f"{op} gives {array.shape} up to {np.abs(array).max(initial=0)}")
        self.nodes.append(node)
        self.read.update(names)
        made = [Value(name, array, *steps) for name, array in zip(node.output, found, strict=True)]
        self.values.extend(made)
        return made

    def mark(self) -> tuple[int, ...]:
        return len(self.nodes), len(self.values), len(self.inputs)

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Forgets what was drawn since; constants without readers are left out in the end."""
        nodes, values, inputs = mark
        del self.nodes[nodes:], self.values[values:]
        for name in list(self.inputs)[inputs:]:
            del self.inputs[name]
        self.read = {name for node in self.nodes for name in node.input}

    def model(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        """The graph as a model with these outputs."""
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes, "values", [_typed(value) for value in self.inputs.values()],
            [_typed(value) for value in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()
             if name in used])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                                 ir_version=11)


def _typed(value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.array.dtype)
    return helper.make_tensor_value_info(value.name, kind, value.shape)
