"""Data of convolutions that has a scale and a zero point for each channel, in steps of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.integerize.quantized import stored_form
from compiler.graph.products.factors import of_groups
from compiler.graph.rewrite import Builder, eliminate_dead_code

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class DataOfChannels:
    """quantize(y, s, z) -> quantize(y / s + z, 1, 0) for a scale and a zero point of each channel,
    and conv(dequantize(q, s, z), w) + b -> conv(dequantize(q, 1, 0), w) * s + (b - s z sum(w)),
    where pads are integers z. So NNCF quantizes what a depthwise convolution reads.

    Before: dequantizations of constants are nodes. After: bytes that only convolutions with such
    weights read have one scale, where each group of these has one. Numbers that lie halfway between
    steps may be a step other.
    """

    name: ClassVar[str] = "data-of-channels"

    def __call__(self, graph: Graph) -> Graph:
        return _Rewriting(graph).run()


@dataclass(frozen=True, slots=True)
class _Steps:
    """The scales and the zero points of int8 of channels."""

    scales: Array
    zeros: Array


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)
    known: dict[str, _Steps] = field(default_factory=dict)
    """The steps of quantized values, and of what these are dequantized to."""

    def run(self) -> Graph:
        self.producers, self.readers = self.graph.producers(), self.graph.consumers()
        for node in self.graph.nodes:
            steps = self._steps(node) if node.op == "quantizelinear" else None
            if steps is not None:
                self.known[node.outputs[0]] = steps
                self.known |= {reader.outputs[0]: steps for reader in self._read(node)}
        if not self.known:
            return self.graph
        self.builder = Builder.like(self.graph)
        for node in self.graph.nodes:
            self._add(node)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _read(self, node: Node) -> Sequence[Node]:
        return self.readers.get(node.outputs[0], ())

    def _steps(self, quantize: Node) -> _Steps | None:
        """The steps of bytes that only convolutions read, and that have some for each channel."""
        scales, zeros = (self.graph.constants[value] for value in quantize.inputs[1:])
        if (scales.ndim != 1 or quantize.attrs["axis"] != 1 or quantize.inputs[0] in
                self.graph.inputs or zeros.dtype.name not in ("int8", "uint8")
                or quantize.outputs[0] in self.graph.outputs
                or not all(self._is_same(quantize, reader) for reader in self._read(quantize))):
            return None
        steps = _Steps(scales, stored_form(zeros).astype(np.float32))
        if not (scales >= np.finfo(np.float32).tiny).all() or not np.isfinite(scales).all():
            return None
        convolutions = [each for reader in self._read(quantize) for each in self._read(reader)]
        return steps if convolutions and all(
            self._of_outputs(each, steps) is not None for each in convolutions) else None

    def _is_same(self, quantize: Node, reader: Node) -> bool:
        """True if a reader dequantizes what is quantized, for others to read."""
        return (reader.op == "dequantizelinear" and reader.attrs["axis"] == 1
                and reader.outputs[0] not in self.graph.outputs
                and all(np.array_equal(self.graph.constants[own], self.graph.constants[other])
                        for own, other in zip(quantize.inputs[1:], reader.inputs[1:],
                                              strict=True)))

    def _of_outputs(self, node: Node, steps: _Steps) -> _Steps | None:
        """The steps of the data that makes each output of a convolution; None where they differ,
        or where it is another operator."""
        weight = self._weight(node) if node.op == "conv2d" else None
        if weight is None or len(node.inputs) > 2 and node.inputs[2] not in self.graph.constants:
            return None
        made = [of_groups(array, node.attrs.get("group", 1), len(weight.integers))
                for array in (steps.scales, steps.zeros)]
        return None if made[0] is None or made[1] is None else _Steps(made[0], made[1])

    def _weight(self, node: Node) -> QuantizedConstant | None:
        maker = self.producers.get(node.inputs[1])
        return maker and QuantizedConstant.of(self.graph.constants, maker)

    def _add(self, node: Node) -> None:
        steps = self.known.get(node.outputs[0] if node.op.endswith("quantizelinear")
                               else node.inputs[0] if node.inputs else "")
        if steps is None:
            self.builder.add(node)
        elif node.op == "conv2d":
            self._convolve(node, steps)
        else:
            self._in_steps(node, steps)

    def _in_steps(self, node: Node, steps: _Steps) -> None:
        """Adds a quantization, or the reverse, of numbers in steps."""
        value, parameters = node.inputs[0], self._parameters(node)
        if node.op == "quantizelinear":
            value = self._step("mul", value, self._of_channels(node, "factors", 1 / steps.scales))
            if steps.zeros.any():
                value = self._step("add", value, self._of_channels(node, "zeros", steps.zeros))
        self.builder.add(replace(node, inputs=(value, *parameters),
                                 attrs={**node.attrs, "axis": 0}))

    def _convolve(self, node: Node, steps: _Steps) -> None:
        """Adds a convolution of data in steps, and what makes its sums those of the numbers."""
        weight, mine = self._weight(node), self._of_outputs(node, steps)
        assert weight is not None and mine is not None
        data, attrs = node.inputs[0], node.attrs
        if steps.zeros.any() and any(attrs["pads"]):
            data, attrs = self._padded(node, steps), {**attrs, "pads": (0, 0, 0, 0)}
        sums = self.builder.emit("conv2d", node.name, (data, node.inputs[1]), self.builder.fresh(
            f"{node.outputs[0]}_sums"), **attrs)
        totals = weight.numbers().astype(np.float64).sum(axis=(1, 2, 3))
        bias = self.graph.constants[node.inputs[2]] if len(node.inputs) > 2 else 0
        whole = self._step("mul", sums, self._of_channels(node, "scales", mine.scales))
        rest = self._of_channels(node, "rest", bias - mine.scales * mine.zeros * totals)
        self.builder.emit("add", self.builder.fresh_node(f"{node.name}_rest"), (whole, rest),
                          node.outputs[0])

    def _padded(self, node: Node, steps: _Steps) -> str:
        """The data with rows and columns of zero points around it."""
        value, (top, left, bottom, right) = node.inputs[0], node.attrs["pads"]
        for axis, before, after in ((2, top, bottom), (3, left, right)):
            sides = [self._side(node, value, axis, extent, steps) for extent in (before, after)]
            value = self._step("concat", *filter(None, (sides[0], value, sides[1])), axis=axis)
            for op in ("quantizelinear", "dequantizelinear"):
                value = self._step(op, value, *self._parameters(node), axis=0)
        return value

    def _side(self, node: Node, value: str, axis: int, extent: int, steps: _Steps) -> str:
        """Zero points as a dequantized constant; nothing where it has no extent."""
        if not extent:
            return ""
        shape = [*self.builder.values[value].shape]
        shape[axis] = extent
        array = np.broadcast_to(steps.zeros.astype(np.int8)[:, None, None], shape)
        side = self.builder.add_constant(self.builder.fresh(f"{node.name}:side"),
                                         np.ascontiguousarray(array))
        return self._step("dequantizelinear", side, *self._parameters(node), axis=0)

    def _parameters(self, node: Node) -> tuple[str, ...]:
        return tuple(self.builder.add_constant(self.builder.fresh(f"{node.name}:{role}"), array)
                     for role, array in (("step", np.array(1, np.float32)),
                                         ("point", np.array(0, np.int8))))

    def _of_channels(self, node: Node, role: str, array: Array) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{node.name}:{role}"),
                                         array.astype(np.float32)[:, None, None])

    def _step(self, op: str, *inputs: str, **attrs: object) -> str:
        made = self.builder.fresh(f"{inputs[0]}_{op}")
        return self.builder.emit(op, self.builder.fresh_node(made), inputs, made, **attrs)
