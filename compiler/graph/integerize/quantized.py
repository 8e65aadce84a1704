"""The view that `integerize` has of a graph: quantized activations, weights and biases.

All zero points are in stored form (a uint8 tensor is stored as x - 128, its zero point as
zp - 128; a uint16 tensor as x - 32768). What does not fit the integer operators raises StaysFloat
with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.missing import before_reshapes
from compiler.ops.integers.fixed_point import limits_of, multiplier_error
from compiler.ops.records.broadcasting import along
from compiler.ops.records.integer_forms import ACCUMULATOR_BITS, StaysFloat, Stored
from compiler.ops.records.operator import Kind
from compiler.ops.records.weights import of_channels
from compiler.ops.registry import find


QUANTIZED = ("int8", "uint8", "int16", "uint16")
"""Element types of quantized tensors."""


def stored_form(array: np.ndarray) -> np.ndarray:
    """The int8 form of an int8 or uint8 array, the int16 form of an int16 or uint16 array."""
    if array.dtype.kind == "i":
        return array
    half = array.dtype.type(1 << 8 * array.dtype.itemsize - 1)
    return (array ^ half).view(array.dtype.name.removeprefix("u"))


@dataclass(slots=True)
class QuantizedView:
    """A graph, its producers, and the name of the stored form of each tensor that has one: the
    `compiler.ops.records.integer_forms.QuantizedInputs` of integer forms. `constant` adds an array
    to the graph that is made, under the name that it gives.
    """

    graph: Graph
    producers: dict[str, Node]
    constant: Callable[[str, np.ndarray], str]
    stored: dict[str, str] = field(default_factory=dict)
    accumulator_bits: int = ACCUMULATOR_BITS
    exact: bool = False
    operands: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    """The stored form of each constant that is an operand, repeated to a shape."""

    def shape(self, value: str) -> tuple[int, ...]:
        return self.graph.values[value].shape

    def producer(self, value: str) -> Node | None:
        return self.producers.get(value)

    def parameters(self, node: Node) -> tuple[float, int, str] | None:
        """Scale, stored zero point and its type, of a (de)quantization of int8, uint8, int16 or
        uint16 with one scale; None for any other node.
        """
        if node.op not in ("quantizelinear", "dequantizelinear"):
            return None
        scale, zero = (self.graph.constants[value] for value in node.inputs[1:])
        if scale.ndim or zero.dtype.name not in QUANTIZED:
            return None
        stored = stored_form(zero.reshape(1))
        return float(scale), int(stored[0]), stored.dtype.name

    def is_computed(self, value: str) -> bool:
        """True if the value is quantized and no constant."""
        node = self.producers.get(value)
        return (node is not None and node.op == "dequantizelinear"
                and node.inputs[0] not in self.graph.constants)

    def is_constant(self, value: str) -> bool:
        """True if the value is a constant, as it is or dequantized."""
        node = self.producers.get(value)
        return value in self.graph.constants or (
            node is not None and node.op == "dequantizelinear"
            and node.inputs[0] in self.graph.constants)

    def activation(self, value: str) -> Stored:
        node = self.producers.get(value)
        if node is None or node.op != "dequantizelinear":
            told = before_reshapes(value, self.producers)
            raise StaysFloat(f"its input {told!r} is not quantized{self._between(node)}")
        source, parameters = node.inputs[0], self.parameters(node)
        if source in self.graph.constants:
            raise StaysFloat(f"its input {value!r} is a constant")
        if parameters is None or source not in self.stored:
            raise StaysFloat(f"its input {value!r} must be of 8 or 16 bits with one scale")
        return Stored(self.stored[source], *parameters)

    def operand(self, value: str, shape: tuple[int, ...] | None = None) -> Stored:
        node = self.producers.get(value)
        if node is None or node.op != "dequantizelinear" or (
                node.inputs[0] not in self.graph.constants):
            if value in self.graph.constants:
                raise StaysFloat(f"its constant {value!r} is not quantized")
            return self.activation(value)
        array, parameters = self.graph.constants[node.inputs[0]], self.parameters(node)
        if parameters is None or array.dtype.name not in QUANTIZED:
            raise StaysFloat(f"its constant {value!r} must be of 8 or 16 bits with one scale")
        shape = array.shape if shape is None else shape
        key = node.inputs[0], shape
        if key not in self.operands:
            whole = np.ascontiguousarray(np.broadcast_to(stored_form(array), shape))
            self.operands[key] = self.constant(f"{node.inputs[0]}_stored", whole)
        return Stored(self.operands[key], *parameters)

    def weight(self, value: str, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """The weight less its zero points, int8 where it fits or else int16, and a float64 scale
        for each of the channels along the axis."""
        node, source = self._constant(value, "weight")
        scale, zero = (self.graph.constants[name] for name in node.inputs[1:])
        if source.dtype.name not in QUANTIZED:
            raise StaysFloat(f"its weight {value!r} must be of 8 or 16 bits, not {source.dtype}")
        if scale.ndim and node.attrs["axis"] != axis:
            raise StaysFloat(f"its weight {value!r} must have its scales along axis {axis}, "
                             f"not {node.attrs['axis']}")
        scales, zeros = (np.broadcast_to(array, source.shape[axis:axis + 1])
                         for array in (scale.astype(np.float64), stored_form(zero.reshape(-1))))
        return _moved(value, stored_form(source), along(zeros, source.ndim, axis)), scales

    def bias(self, value: str, scales: np.ndarray, out: Stored) -> np.ndarray:
        """The bias in accumulator steps: integers in float64, one for each channel.

        A bias that was quantized with these scales keeps its integers; any other is rounded to
        the nearest step. StaysFloat where that, and what the multiplier is off, are more than a
        step of the result, `out`: the steps of the sums are coarser than its own.
        """
        if value in self.graph.constants:
            exact = _vector(value, self.graph.constants[value], scales) / scales
            return _rounded(value, exact, scales / out.scale, out)
        node, source = self._constant(value, "bias")
        scale, zero = (self.graph.constants[name].astype(np.float64) for name in node.inputs[1:])
        zeros = along(zero, source.ndim, node.attrs["axis"])
        steps = _vector(value, source.astype(np.float64) - zeros, scales)
        if np.allclose(scale, scales, rtol=1e-5, atol=0):
            return steps
        return _rounded(value, steps * scale / scales, scales / out.scale, out)

    def _between(self, node: Node | None) -> str:
        """The operator of elements that stands between a dequantization and who reads it."""
        if node is None or find(node.op).kind not in (Kind.ELEMENTWISE, Kind.INJECTIVE) or not any(
                before is not None and before.op == "dequantizelinear"
                for before in map(self.producers.get, node.inputs)):
            return ""
        return f": {node.name} ({node.op}) stands behind the DequantizeLinear"

    def _constant(self, value: str, role: str) -> tuple[Node, np.ndarray]:
        node = self.producers.get(value)
        if value in self.graph.constants and role == "weight":
            raise StaysFloat(f"its weight {value!r} is not quantized, nor int8 times a number for "
                             "each output channel")
        if node is None or node.op != "dequantizelinear":
            raise StaysFloat(f"its {role} {value!r} is not quantized{self._between(node)}")
        if node.inputs[0] not in self.graph.constants:
            raise StaysFloat(f"its {role} {value!r} is not a constant")
        return node, self.graph.constants[node.inputs[0]]


def _rounded(value: str, exact: np.ndarray, factors: np.ndarray, out: Stored) -> np.ndarray:
    """The nearest integers, where results that have these, times the factors as multipliers have
    them, are within a step of the exact ones."""
    rounded = np.rint(exact)
    reach = max(abs(limit - out.zp) for limit in limits_of(out.dtype))
    apart = np.abs(rounded - exact) * factors
    off = max((float(one) + multiplier_error(float(factor)) * reach
               for one, factor in zip(apart, factors, strict=True) if one), default=0.0)
    if off > 1:
        raise StaysFloat(f"its bias {value!r} in steps of the sums is {off:.3g} steps of the "
                         "result off")
    return rounded


def _moved(value: str, weight: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """The difference of weights and zero points, in the type of the weights or else in int16."""
    if not zeros.any():
        return weight
    moved = weight.astype(np.int32) - zeros
    for dtype in (weight.dtype, np.dtype(np.int16)):
        if (moved == moved.astype(dtype)).all():
            return moved.astype(dtype)
    raise StaysFloat(f"its weight {value!r} less its zero point must fit int16, not reach "
                     f"{moved.flat[np.abs(moved).argmax()]}")


def _vector(value: str, array: np.ndarray, scales: np.ndarray) -> np.ndarray:
    if array.size not in (1, scales.size):
        raise StaysFloat(f"its bias {value!r} must have 1 or {scales.size} elements, "
                         f"not {array.size}")
    bias = of_channels(array, scales.size)
    if bias is None:
        raise StaysFloat(f"its bias {value!r} must have one element for each channel, "
                         f"not shape {array.shape}")
    return bias.astype(np.float64)
