"""Products of two tensors that the run computes, as sums in planes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.products.emitting import Emitting, product_of
from compiler.graph.products.factors import IMAGES, scaled_bytes, shifted_bytes, stored_data
from compiler.ops.records.planes import SUM_BITS, planes_for


@dataclass(frozen=True, slots=True)
class TensorFactor:
    """(value - zero) * scale of bytes: the zero point is a number, or a value of int32 that the run
    knows; so is the scale, and there is none where integers are multiplied."""

    value: str
    zero: int | str
    scale: float | str | None = None

    @classmethod
    def of(cls, graph: Graph, value: str, producers: Mapping[str, Node], rows: bool
           ) -> "TensorFactor | None":
        """The factor that a float value is; with `rows` each row may have a scale and a zero point
        of its own."""
        stored = stored_data(graph, value, producers)
        if stored is not None:
            known = graph.values[stored.inputs[0]].dtype == "int8"
            return cls(stored.inputs[0], stored.attrs["zp"], stored.attrs["scale"]
                       ) if known else None
        found = scaled_bytes(graph, value, producers, rows)
        return found and cls(found[0].value, found[0].zero or 0, found[1])


def product_in_float(emitting: Emitting, node: Node) -> bool:
    """Replaces a product of two quantized tensors, where it can."""
    if node.op in IMAGES:
        return False
    a, b = (TensorFactor.of(emitting.graph, value, emitting.producers, rows=not place)
            for place, value in enumerate(node.inputs[:2]))
    if a is None or b is None:
        return False
    known = None
    if isinstance(a.scale, float) and isinstance(b.scale, float):
        known = product_of(np.array(b.scale), a.scale)
        if known is None:
            return False
    sums = _sums(emitting, node, a, b, node.attrs.get("trans_b", 0))
    if sums is None:
        return False
    if known is not None:
        emitting.dequantized(node, sums, known, np.array(0, np.int32))
    else:
        scales = (each.scale if isinstance(each.scale, str) else emitting.constant(
            node, "scale", np.array(each.scale, np.float32)) for each in (a, b))
        emitting.scaled(node, sums, emitting.step("mul", *scales))
    return True


def product_in_int32(emitting: Emitting, node: Node) -> bool:
    """Replaces a product of two tensors of bytes less zero points, where it can."""
    turned = _is_turned(node.attrs["equation"]) if node.op == "einsum" else None
    found = turned is not None and [
        shifted_bytes(emitting.graph, value, emitting.producers, rows=not place)
        for place, value in enumerate(node.inputs)]
    if not found or None in found:
        return False
    a, b = (TensorFactor(each.value, each.zero or 0) for each in found if each is not None)
    return _sums(emitting, node, a, b, int(bool(turned)), node.outputs[0]) is not None


def _is_turned(equation: str) -> bool | None:
    """True for products of matrices of which the second is turned, False for other products of
    matrices, with the same dimensions around both or none around the second; else None."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != 2 or min(map(len, terms)) < 2:
        return None
    (*around, row, depth), (*others, first, second) = terms
    turned = second == depth
    column = first if turned else second
    letters = [*around, row, depth, column]
    fits = (depth in (first, second) and [*others] in ([], [*around]) and len({*letters}) == len(
        letters) and [*result] == [*around, row, column])
    return turned if fits else None


def _sums(emitting: Emitting, node: Node, a: TensorFactor, b: TensorFactor, turned: int,
          value: str = "") -> str | None:
    """Adds the sums of a product; None where int32 may not hold them.

    Zero points that the run knows come behind it: ``sum (x - p)(y - q)`` is ``sum x * y - q * sum x
    - p * sum (y - q)``.
    """
    depth = emitting.graph.values[a.value].shape[-1]
    x, y = (_Stored.of(emitting, node, each) for each in (a, b))
    bound = x.greatest * y.greatest * depth
    if x.farthest * y.farthest * depth >= 1 << SUM_BITS - 1:
        return None
    less = list[str]()
    if y.point:
        less.append(emitting.step("mul", x.totals(emitting, node, -1), y.point))
    if x.point:
        totals = y.totals(emitting, node, -1 if turned else -2)
        if y.point:
            whole = emitting.constant(node, "depth", np.array(depth, np.int32))
            totals = emitting.step("sub", totals, emitting.step("mul", whole, y.point))
        if turned:
            *around, columns, _ = emitting.builder.values[totals].shape
            totals = emitting.step("reshape", totals, shape=(*around, 1, columns))
        less.append(emitting.step("mul", totals, x.point))
    sums = emitting.joined(node, "qmatmul", [x.value, y.value], planes_for(bound, "int8"),
                           "" if less else value, trans_b=turned, a_zp=x.zero, b_zp=y.zero)
    for place, each in enumerate(less, 1):
        made = value if place == len(less) and value else emitting.builder.fresh(f"{sums}_less")
        sums = emitting.builder.emit("sub", emitting.builder.fresh_node(f"{node.name}.less"),
                                     [sums, each], made)
    return sums


@dataclass(frozen=True, slots=True)
class _Stored:
    """A factor as int8, less a zero point that is known or, else, a value of int32."""

    value: str
    zero: int
    point: str

    @classmethod
    def of(cls, emitting: Emitting, node: Node, factor: TensorFactor) -> "_Stored":
        value, half = emitting.in_int8(factor.value)
        if isinstance(factor.zero, int):
            return cls(value, factor.zero - half, "")
        offset = emitting.constant(node, "half", np.array(half, np.int32))
        return cls(value, 0, emitting.step("sub", factor.zero, offset) if half else factor.zero)

    @property
    def greatest(self) -> int:
        """The greatest magnitude of what a product multiplies."""
        return max(self.zero + 128, 127 - self.zero)

    @property
    def farthest(self) -> int:
        """The greatest magnitude of what it stands for, less any zero point of its type."""
        return 255 if self.point else self.greatest

    def totals(self, emitting: Emitting, node: Node, axis: int) -> str:
        """The sums of what a product multiplies along an axis, which is kept."""
        wide, shape = emitting.step("cast", self.value, to="int32"), emitting.builder.values[
            self.value].shape
        sums = emitting.step("reduce_sum", wide, axes=(len(shape) + axis,), keepdims=1)
        if not self.zero:
            return sums
        offset = np.array(self.zero * shape[axis], np.int32)
        return emitting.step("sub", sums, emitting.constant(node, "offset", offset))
