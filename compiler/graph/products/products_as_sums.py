"""Products that nothing quantizes, as sums of integers in planes, which any target computes."""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.notes import Note
from compiler.graph.products.emitting import Emitting, product_of
from compiler.graph.products.factors import (IMAGES, IN_INT32, Weight, dequantized_weight,
                                             integer_weight, is_product, of_groups, of_one_row,
                                             scaled_bytes, shifted_bytes, stored_data)
from compiler.graph.products.tensors import product_in_float, product_in_int32
from compiler.graph.rewrite import eliminate_dead_code
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class ProductsAsSums:
    """conv2d(dequantize(x), dequantizelinear(w)) -> dequantizelinear(joined_planes(qconv2d(x, w))),
    and so for dense layers and products of matrices, the second computed too; conv(cast(x) - z, w)
    of int32 -> joined_planes(qconv2d(x, w)) - z * sum(w), and so for einsum, where z is one number
    of the run: what dynamic quantization writes; both factors may be computed.

    Before: operators between quantizations are integer ones, dequantized constants still nodes.
    After: products of an activation in bytes, or in 16 bits, sum integers where int32 holds all
    sums, the weight's zero points are in its integers, and the data has one scale, or each group of
    a convolution has its own. Those that stay in float have a note; with `results` False only those
    in int32 are replaced. The sums are exact, so what was computed in int32 stays the same to the
    bit.
    """

    results: bool = True
    name: ClassVar[str] = "products-as-sums"

    def __call__(self, graph: Graph) -> Graph:
        if not any(find(node.op).sums or node.op in IN_INT32 for node in graph.nodes):
            return graph
        return _Rewriting(graph, self.results).run()


@dataclass(slots=True)
class _Rewriting(Emitting):
    results: bool
    replaced: set[str] = field(default_factory=set)
    weights: dict[tuple[str, bool], Weight | None] = field(default_factory=dict)
    """The integers of each constant, for windows and for rows: products may share one."""
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    """The constants that integers are: steps of a sequence have equal ones."""

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if self._in_float(node) or self._in_int32(node):
                self.replaced.add(node.name)
            else:
                self.builder.add(node)
        if not self.replaced:
            return self.graph
        self.builder.notes[:] = [text for text in self.builder.notes if not self._is_over(text)]
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _is_over(self, text: str) -> bool:
        note = Note.of(text)
        return note is not None and note.node in self.replaced

    def _in_float(self, node: Node) -> bool:
        """Replaces a product in float, where it can."""
        if not self.results or not find(node.op).sums:
            return False
        x, weight = stored_data(self.graph, node.inputs[0], self.producers), self._weight(node)
        if weight is None:
            return product_in_float(self, node)
        if x is None:
            return self._of_channels(node, weight) or self._of_scaled(node, weight)
        return self._of_weight(node, x, weight)

    def _weight(self, node: Node) -> Weight | None:
        """The integers of the second factor; None where it has none."""
        key = _key(node)
        if key not in self.weights:
            self.weights[key] = integer_weight(self.graph, node) if node.op in IN_INT32 else (
                dequantized_weight(self.graph, node, self.producers))
        return self.weights[key]

    def _of_weight(self, node: Node, x: Node, weight: Weight) -> bool:
        source, zero = x.inputs[0], x.attrs["zp"]
        scale = product_of(weight.scales, x.attrs["scale"])
        if scale is None or weight.planes(self.builder.values[source].dtype) is None:
            return False
        self.dequantized(node, self._sums(node, source, weight, zero), scale,
                         (weight.totals * zero).astype(np.int32))
        return True

    def _of_channels(self, node: Node, weight: Weight) -> bool:
        """Replaces a convolution of bytes with scales and zero points of groups of channels."""
        x = self.producers.get(node.inputs[0])
        if node.op not in IMAGES or x is None or x.op != "dequantizelinear" or (
                x.inputs[0] in self.graph.constants or not weight.takes_any_zero):
            return False
        count, dtype = len(weight.steps), self.graph.values[x.inputs[0]].dtype
        scales, zeros = (of_groups(self.graph.constants[value], node.attrs.get("group", 1), count)
                         for value in x.inputs[1:])
        scale = None if scales is None else product_of(weight.scales, scales)
        if scale is None or zeros is None or x.attrs["axis"] != 1 or dtype not in ("int8", "uint8"):
            return False
        source, half = self.in_int8(x.inputs[0])
        points = self._seen(node, source, weight) * (zeros.astype(np.int64) - half)[:, None, None]
        point = self.constant(node, "points", points.astype(np.int32))
        sums = self.step("sub", self._sums(node, source, weight, 0), point)
        self.dequantized(node, sums, scale, np.zeros(count, np.int32))
        return True

    def _of_scaled(self, node: Node, weight: Weight) -> bool:
        """Replaces a product of bytes whose scale and zero point the run knows."""
        rows = node.op not in IMAGES
        found = scaled_bytes(self.graph, node.inputs[0], self.producers, rows)
        if found is None or not weight.takes_any_zero:
            return False
        data, scale = found
        source, half = self.in_int8(data.value)
        sums = self.builder.fresh(f"{node.outputs[0]}_sums")
        self._shifted(node, source, weight, data.zero, half, sums)
        channels = (-1, 1, 1) if node.op in IMAGES else (-1,)
        scales = weight.scales.astype(np.float32).reshape(channels)
        factors = self.step("mul", scale, self.constant(node, "scale", scales))
        self.scaled(node, sums, factors)
        return True

    def _in_int32(self, node: Node) -> bool:
        """Replaces a product of int32 that bytes, and a constant or others, are, where it can."""
        if node.op not in IN_INT32 or len(node.inputs) != 2:
            return False
        if node.inputs[1] not in self.graph.constants:
            return product_in_int32(self, node)
        if not is_product(self.graph, node):
            return False
        data = shifted_bytes(self.graph, node.inputs[0], self.producers)
        weight = data and self._weight(node)
        if data is None or weight is None or weight.planes("int8") is None:
            return False
        source, half = self.in_int8(data.value)
        is_sequence = node.op in IMAGES and len(self.graph.values[data.value].shape) == 3
        (self._of_sequences if is_sequence else self._shifted)(
            node, source, weight, data.zero, half, node.outputs[0])
        return True

    def _of_sequences(self, node: Node, source: str, weight: Weight, zero: str | None, half: int,
                      value: str) -> None:
        """Replaces a convolution of sequences, as one of images of one row."""
        images, length, extent = self.builder.values[source].shape
        source = self.step("reshape", source, shape=(images, length, 1, extent))
        image = self.builder.fresh(f"{value}_image")
        self._shifted(replace(node, attrs=of_one_row(node.attrs)), source, weight, zero, half,
                      image)
        self.builder.emit("reshape", self.builder.fresh_node(image), [image], value,
                          shape=self.graph.values[value].shape)

    def _shifted(self, node: Node, source: str, weight: Weight, zero: str | None, half: int,
                 value: str) -> None:
        """Adds the sums of data less its zero point; that of the stored form is less by half."""
        if zero is None and not half:
            self._sums(node, source, weight, 0, value)
        else:
            self._less(node, source, self._sums(node, source, weight, 0), weight, zero, half, value)

    def _less(self, node: Node, source: str, sums: str, weight: Weight, zero: str | None, half: int,
              value: str) -> None:
        """Takes the zero point, less that of the stored form, times sums of weights from sums."""
        seen = self._seen(node, source, weight).astype(np.int32)
        totals = self.constant(node, "totals", seen)
        offset = self.constant(node, "half", np.array(-half, np.int32))
        point = self.step("add", zero, offset) if zero else offset
        self.builder.emit("sub", self.builder.fresh_node(f"{node.name}.less"),
                          [sums, self.step("mul", totals, point)], value)

    def _seen(self, node: Node, source: str, weight: Weight) -> np.ndarray:
        """The sum of the weights that lie on an image, of every place where pads make it differ;
        of a product of rows one for each column."""
        if node.op not in IMAGES:
            return weight.totals
        if not any(node.attrs["pads"]):
            return weight.totals.reshape(-1, 1, 1)
        _, *image = self.builder.values[source].shape
        attrs = {"dilations": (1, 1), "group": 1, **node.attrs}
        return find("conv").meaning(attrs, np.ones((1, *image), np.int32),
                                    weight.steps.astype(np.int32))

    def _sums(self, node: Node, source: str, weight: Weight, pad_value: int, value: str = ""
              ) -> str:
        """Adds the sums of a product, which int32 holds."""
        planes = weight.planes(self.builder.values[source].dtype)
        assert planes is not None
        op, attrs = "qdense", {}
        if node.op in IMAGES:
            op, attrs = "qconv2d", {**node.attrs, "pad_value": pad_value}
        known = weight.steps.shape, weight.steps.dtype, sha256(weight.steps.tobytes()).digest()
        if known not in self.names:
            self.names[known] = self.constant(node, "weight", weight.steps)
        return self.joined(node, op, [source, self.names[known]], planes, value, **attrs)


def _key(node: Node) -> tuple[str, bool]:
    """The constant that a product reads, and whether it is [outputs, ...]."""
    weights = find(node.op).weights
    return node.inputs[1], node.op in IMAGES or bool(weights and not weights.scale_axis(node.attrs))
