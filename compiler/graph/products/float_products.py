"""Products of floats that are stored in few bits, between conversions, as one operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.graph.products.factors import IMAGES, outputs_axis
from compiler.ops.records.stored_floats import numbers_of, stored_array
from compiler.ops.registry import find


ONE, ZERO = (np.full((), number, np.float32) for number in (1, 0))

MOVES = ("reshape", "transpose")
"""What only moves elements."""


class FloatTypes(NamedTuple):
    """Types that a machine multiplies: activations of `element`, which it stores too, weights of
    `weight`, so many `lanes` of inputs at once, summed in float32."""

    element: str
    weight: str
    lanes: int


@dataclass(frozen=True, slots=True)
class FloatProducts:
    """encodefloat(relu(conv2d(decodefloat(x), decodefloat(w)) + bias)) -> fconv2d(x, w), relu or
    not, and so fdense for products of rows with a constant matrix. The scales of x and of the
    result are numbers, those of w of the tensor or of outputs; a conversion between float32 and
    bfloat16 is a decodefloat or an encodefloat of the scale 1.

    Before: dequantized constants are still nodes. After: no product without groups stands between
    conversions of the `types`, if some target has such, but with a scale or an offset that float32
    does not have. Sums are those of the same products in the order of that target; scale and bias
    are rounded in other places than before.
    """

    types: FloatTypes | None = None
    name: ClassVar[str] = "float-products"

    def __call__(self, graph: Graph) -> Graph:
        if self.types is None:
            return graph
        return _Rewriting(graph, self.types).run()


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    types: FloatTypes
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, tuple[Node, ...]] = field(init=False)

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        self.producers, self.readers = self.graph.producers(), self.graph.consumers()
        changed = False
        for node in self.graph.nodes:
            found = self._product(node)
            self.builder.add(found or node)
            changed |= found is not None
        return eliminate_dead_code(self.builder.finish(self.graph.outputs)) if changed else (
            self.graph)

    def _product(self, last: Node) -> Node | None:
        """The product that a conversion ends; None where it ends none."""
        scale = self._encodes(last)
        if scale is None:
            return None
        node, relu, bias = self._only(last.inputs[0]), 0, ZERO
        if node and node.op == "relu":
            node, relu = self._only(node.inputs[0]), 1
        if node and node.op == "add":
            node, bias = self._added(node)
        if node is None or (weight := self._weight(node)) is None:
            return None
        product, result = (self.graph.values[one.outputs[0]].shape for one in (node, last))
        if product != result:                   # a bias of more dimensions makes more of it
            return None
        codes, scales = weight
        bias = [bias, *(self.graph.constants.get(value) for value in node.inputs[2:])]
        outputs = len(codes)
        if any(one is None or one.size not in (1, outputs) for one in bias) or (
                source := self._decoded(node.inputs[0])) is None:
            return None
        x, own = source
        with np.errstate(over="ignore"):
            factor, offset = (np.broadcast_to(array / np.float64(scale), outputs).astype(np.float32)
                              for array in (np.float64(scales) * own,
                                            sum(one.reshape(-1) for one in bias)))
        if not np.isfinite((factor, offset)).all():
            return None
        constants = {"weight": np.ascontiguousarray(codes), "scale": factor, "offset": offset}
        names = [self.builder.add_constant(self.builder.fresh(f"{node.name}_{role}"), array)
                 for role, array in constants.items()]
        kept = {name: value for name, value in node.attrs.items()
                if name in ("strides", "pads", "dilations")}
        attrs = {**kept, "relu": relu, "element": self.types.element, "weight": self.types.weight,
                 "lanes": self.types.lanes}
        return Node(find(node.op).floats, node.name, (x, *names), last.outputs, attrs)

    def _only(self, value: str) -> Node | None:
        """The node that makes a value, if one other alone reads that."""
        alone = len(self.readers[value]) == 1 and value not in self.graph.outputs
        return self.producers.get(value) if alone else None

    def _added(self, node: Node) -> tuple[Node | None, np.ndarray]:
        """The product that a constant is added to, and this constant."""
        for value, other in (node.inputs, node.inputs[::-1]):
            if (bias := self.graph.constants.get(other)) is not None:
                rank = len(self.graph.values[node.outputs[0]].shape)
                made = self._only(value)
                at = rank - 1 if made is None or made.op not in IMAGES else 1
                whole = bias.reshape((1,) * (rank - bias.ndim) + bias.shape)
                if whole.size == whole.shape[at]:
                    return made, whole.reshape(-1)
        return None, ZERO

    def _weight(self, node: Node) -> tuple[np.ndarray, np.ndarray] | None:
        """The codes [outputs, ...] of the weight of a product, and the scale of each output."""
        if not find(node.op).floats or node.attrs.get("group", 1) != 1:
            return None
        axis = outputs_axis(node)
        known = self._codes(node.inputs[1], axis)
        if known is None or known[0].ndim > 2 and node.op not in IMAGES:
            return None
        codes, scale = known
        return (codes.T if axis else codes), np.broadcast_to(scale, codes.shape[axis])

    def _codes(self, value: str, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The codes of a constant of the weights' type, and their scales along an axis, or one."""
        dtype, array = self.types.weight, self.graph.constants.get(value)
        if array is not None and array.dtype == np.float32:     # it was converted before
            codes = stored_array(array, dtype)
            return (codes, ONE) if np.array_equal(numbers_of(codes, dtype), array
                                                            ) else None
        node = self.producers.get(value)
        codes = self.graph.constants.get(node.inputs[0]) if node else None
        scale = self._decodes(node, dtype) if node else None
        if node is None or codes is None or scale is None or (
                scale.size > 1 and node.attrs["axis"] != axis):
            return None
        return codes, scale

    def _decoded(self, value: str) -> tuple[str, np.ndarray] | None:
        """The codes of a computed value, and its scale; where elements are only moved, codes are.
        """
        node, moves = self.producers.get(value), list[Node]()
        while node and node.op in MOVES:
            moves.append(node)
            node = self.producers.get(node.inputs[0])
        scale = node and self._decodes(node, self.types.element)
        if node is None or scale is None or scale.ndim or node.inputs[0] in self.graph.constants:
            return None
        carried = node.inputs[0]
        for move in reversed(moves):
            carried = self.builder.emit(
                move.op, self.builder.fresh_node(move.name), [carried],
                self.builder.fresh(f"{move.outputs[0]}_carried"), **move.attrs)
        return carried, scale

    def _decodes(self, node: Node, dtype: str) -> np.ndarray | None:
        """The scale with which a node makes float32 of stored floats of a type."""
        if node.op == "decodefloat" and node.attrs["dtype"] == dtype:
            return self.graph.constants[node.inputs[1]]
        is_cast = node.op == "cast" and node.attrs["to"] == "float32"
        return ONE if is_cast and self.graph.values[node.inputs[0]].dtype == dtype else (
            None)

    def _encodes(self, node: Node) -> np.ndarray | None:
        """The scale, of the whole tensor, with which a node stores float32."""
        dtype = self.types.element
        if node.op == "encodefloat" and node.attrs["dtype"] == dtype:
            scale = self.graph.constants[node.inputs[1]]
            return None if scale.ndim else scale
        is_cast = node.op == "cast" and node.attrs["to"] == dtype
        return ONE if is_cast and self.graph.values[node.inputs[0]].dtype == "float32" \
            else None
