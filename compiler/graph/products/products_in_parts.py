"""Products that are several: of the parts of a concatenation, and of the phases of a transposed
convolution."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.products.factors import narrow, outputs_axis, type_of_bytes
from compiler.graph.notes import Note
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.convolutions import outputs_first
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class ProductsInParts:
    """conv2d(concat(x, y), w) -> conv2d(x, w[:, :n]) + conv2d(y, w[:, n:]) where x and y have
    scales of their own, and so for products of rows; or, where it joins rows, the concatenation of
    their products. convtranspose2d(x, w) -> the pixels of several conv2d(x, part of w), side by
    side.

    Before: operators between quantizations are integer ones, dequantized constants still nodes.
    After: no product in float of quantized constants reads a concatenation of quantized tensors
    along the axis that it sums, nor of rows, and none of a quantized tensor is a transposed
    convolution; but where 32 bits may not hold the sums. The order of float sums is another. Not
    without `sums`: only targets that have products as sums of integers gain.
    """

    sums: bool = False
    name: ClassVar[str] = "products-in-parts"

    def __call__(self, graph: Graph) -> Graph:
        if not self.sums or not any(node.op in ("concat", "convtranspose2d")
                                    for node in graph.nodes):
            return graph
        return _Rewriting(graph).run()


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)

    def run(self) -> Graph:
        self.builder, self.producers = Builder.like(self.graph), self.graph.producers()
        kept = [self._keeps(node) for node in self.graph.nodes]
        if all(kept):
            return self.graph
        live = eliminate_dead_code(self.builder.finish(self.graph.outputs))
        gone = {node.name for node in self.graph.nodes} - {node.name for node in live.nodes}
        return replace(live, notes=tuple(text for text in live.notes if not (
            (note := Note.of(text)) and note.node in gone)))

    def _keeps(self, node: Node) -> bool:
        """Adds a node, or in its place its parts. Returns True where it is the node."""
        transposed = node.op == "convtranspose2d"
        if (transposed or find(node.op).sums) and (weight := self._weight(node)) is not None:
            if self._of_phases(node, weight) if transposed else self._of_parts(node, weight):
                return False
        self.builder.add(node)
        return True

    def _weight(self, node: Node) -> QuantizedConstant | None:
        """The weight of a product, whose scales are those of outputs."""
        source = self.producers.get(node.inputs[1])
        weight = source and QuantizedConstant.of(self.graph.constants, source)
        if not weight or not {*weight.axes()} <= {outputs_axis(node)}:
            return None
        return weight

    # Parts of a concatenation

    def _of_parts(self, node: Node, weight: QuantizedConstant) -> bool:
        """Replaces a product of concatenated tensors, where these are quantized."""
        joined = self.producers.get(node.inputs[0])
        if joined is None or joined.op != "concat" or weight.integers.ndim not in (2, 4) or (
                node.attrs.get("group", 1) != 1):
            return False
        rank, images = len(self.graph.values[node.inputs[0]].shape), node.op == "conv2d"
        if not all(self._type(value, not images) for value in joined.inputs):
            return False
        axis = joined.attrs["axis"] % rank
        if axis == (1 if images else rank - 1):
            self._summed(node, joined, weight, axis)
        elif (axis == 0 or not images) and all(len(self.graph.values[bias].shape) < 2
                                               for bias in node.inputs[2:]):
            self._joined(node, joined, axis)
        else:
            return False
        return True

    def _type(self, value: str, rows: bool) -> str | None:
        """The type of the integers that data of a product are; None where they are none."""
        return type_of_bytes(self.graph, value, self.producers, rows)

    def _summed(self, node: Node, joined: Node, weight: QuantizedConstant, axis: int) -> None:
        """Adds the products of each part and the weights that it meets; the first has the bias."""
        depth, begin, sums = 1 - outputs_axis(node), 0, list[str]()
        for place, value in enumerate(joined.inputs):
            end = begin + self.graph.values[value].shape[axis]
            integers = weight.integers.take(range(begin, end), depth)
            cut = self._constant(node, replace(weight, integers=integers))
            more = () if place else node.inputs[2:]
            sums.append(self._product(node, place, (value, cut, *more)))
            begin = end
        total = sums[0]
        for place, value in enumerate(sums[1:], 2):
            made = node.outputs[0] if place == len(sums) else self.builder.fresh(
                f"{node.outputs[0]}_sum")
            total = self.builder.emit("add", self.builder.fresh_node(f"{node.name}_sum"),
                                      [total, value], made)

    def _joined(self, node: Node, joined: Node, axis: int) -> None:
        """Adds the products of each part of the rows, or of the images, side by side."""
        parts = [self._product(node, place, (value, *node.inputs[1:]))
                 for place, value in enumerate(joined.inputs)]
        self.builder.emit("concat", self.builder.fresh_node(f"{node.name}_joined"), parts,
                          node.outputs[0], axis=axis)

    def _product(self, node: Node, place: int, inputs: tuple[str, ...]) -> str:
        """A part of a product; the first has its name."""
        name = self.builder.fresh_node(f"{node.name}_{place}") if place else node.name
        return self.builder.add(replace(node, name=name, inputs=inputs, outputs=(
            self.builder.fresh(f"{node.outputs[0]}_{place}"),)))

    # Phases of a transposed convolution

    def _of_phases(self, node: Node, weight: QuantizedConstant) -> bool:
        """Replaces a transposed convolution of a quantized tensor."""
        dtype, group = self._type(node.inputs[0], rows=False), node.attrs.get("group", 1)
        if dtype is None:
            return False
        first = QuantizedConstant(outputs_first(weight.integers, group), *(
            array if array.size == 1 else np.tile(array.reshape(-1), group).reshape(-1, 1, 1, 1)
            for array in (weight.scale, weight.zero)))
        sums = narrow(first.integers.astype(np.int64) - first.zero, np.ones(len(first.integers)))
        if sums is None or sums.planes(dtype) is None:
            return False
        whole = self._side_by_side(node, _Phases.of(node, self.graph), first)
        if node.inputs[2:]:
            count, = self.graph.values[node.inputs[2]].shape
            bias = self._step("reshape", node.inputs[2], shape=(count, 1, 1))
            self.builder.emit("add", self.builder.fresh_node(f"{node.name}_bias"), [whole, bias],
                              node.outputs[0])
        else:
            self.builder.emit("identity", self.builder.fresh_node(f"{node.name}_whole"), [whole],
                              node.outputs[0])
        return True

    def _side_by_side(self, node: Node, phases: "_Phases", weight: QuantizedConstant) -> str:
        """The pixels of all phases, each where it belongs, and no more of them than there are."""
        images, channels, *extents = self.graph.values[node.outputs[0]].shape
        (tall, wide), (down, across) = phases.counts, phases.strides
        rows, place = list[str](), 0
        for row in phases.along(0):
            columns = []
            for column in phases.along(1):
                part = self._phase(node, place, weight, (row, column), (images, channels))
                columns.append(self._step("reshape", part,
                                          shape=(images, channels, tall, wide, 1)))
                place += bool(row.taps and column.taps)
            rows.append(self._step("reshape", self._concat(columns, 4),
                                   shape=(images, channels, tall, 1, wide * across)))
        whole = self._step("reshape", self._concat(rows, 3),
                           shape=(images, channels, tall * down, wide * across))
        return self._cut(whole, (0, 0), (images, channels, *extents))

    def _phase(self, node: Node, place: int, weight: QuantizedConstant,
               axes: tuple["_Phase", "_Phase"], shape: tuple[int, int]) -> str:
        """The pixels of a phase: a convolution by the taps that reach it, or zeros."""
        row, column = axes
        if not (row.taps and column.taps):
            zeros = np.zeros((*shape, row.count, column.count), np.float32)
            return self.builder.add_constant(self.builder.fresh(f"{node.name}:zeros"), zeros)
        integers = np.ascontiguousarray(weight.integers[:, :, row.taps][..., column.taps])
        kernel = self._constant(node, replace(weight, integers=integers))
        made = replace(node, op="conv2d", attrs={
            "strides": (1, 1), "dilations": (row.dilation, column.dilation),
            "group": node.attrs.get("group", 1),
            "pads": (row.before, column.before, row.after, column.after)})
        sums = self._product(made, place, (node.inputs[0], kernel))
        return self._cut(sums, (row.left_out, column.left_out), (
            *shape, row.left_out + row.count, column.left_out + column.count))

    def _cut(self, value: str, begin: tuple[int, int], end: tuple[int, ...]) -> str:
        """The rows and columns of images from `begin` on, up to the `end` of all dimensions."""
        if (*begin, *end) == (0, 0, *self.builder.values[value].shape):
            return value
        return self._step("slice", value, begin=(0, 0, *begin), end=end, step=(1,) * 4)

    def _concat(self, values: Sequence[str], axis: int) -> str:
        return values[0] if len(values) == 1 else self._step("concat", *values, axis=axis)

    # Both

    def _constant(self, node: Node, constant: QuantizedConstant) -> str:
        """Adds the weight of a part."""
        value = self.builder.fresh(f"{node.name}:part")
        return constant.add_to(self.builder, value, self.builder.fresh_node(value), value)

    def _step(self, op: str, *inputs: str, **attrs: object) -> str:
        value = self.builder.fresh(f"{inputs[0]}_{op}")
        return self.builder.emit(op, self.builder.fresh_node(value), inputs, value, **attrs)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Each stride-th pixel along one axis: a convolution by the `taps` of the kernel that reach
    these, whose first results are `left_out`, so that pads are none below zero."""

    taps: list[int]
    count: int
    before: int = 0
    after: int = 0
    left_out: int = 0
    dilation: int = 1


@dataclass(frozen=True, slots=True)
class _Phases:
    """Along rows and columns: pixels of input and result, kernel, and attributes."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @classmethod
    def of(cls, node: Node, graph: Graph) -> "_Phases":
        x, w, y = (graph.values[value].shape[2:] for value in (*node.inputs[:2], *node.outputs))
        return cls(x, y, w, *(tuple(node.attrs.get(name, (1, 1)))
                              for name in ("strides", "pads", "dilations")))

    @property
    def counts(self) -> tuple[int, ...]:
        """The pixels of each phase; some phases have one less."""
        return tuple(-(-extent // stride)
                     for extent, stride in zip(self.outputs, self.strides, strict=True))

    def along(self, axis: int) -> Iterator[_Phase]:
        """The phases along an axis: tap k of pixel ``t * stride + phase`` reads the pixel ``t +
        (phase + pad - k * dilation) / stride`` where that is whole."""
        stride, pad, dilation = (of[axis] for of in (self.strides, self.pads, self.dilations))
        for phase in range(stride):
            taps = [k for k in reversed(range(self.kernel[axis]))
                    if (phase + pad - k * dilation) % stride == 0]
            if not taps:
                yield _Phase([], self.counts[axis])
                continue
            first, apart = (phase + pad - taps[0] * dilation) // stride, dilation // gcd(
                stride, dilation)
            before, left_out = max(-first, 0), max(first, 0)
            count = self.counts[axis]
            after = left_out + count + (len(taps) - 1) * apart - self.inputs[axis] - before
            yield _Phase(taps, count, before, max(after, 0), left_out, apart)
