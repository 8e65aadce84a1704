"""Sums of integers as processors compute them: in int32, or in floats where these are exact."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from compiler.graph.division.layout import RELAYOUT
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.planes import PLANES, are_planes, ends_of_sums
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.packed.quantized_blocks import OFFSET, grouped_columns

EXACT = 1 << 24
"""Integers up to this magnitude are float32, and so are their sums in any order."""

CUT, JOINED = "cut_planes", "joined_planes"

LETTERS = "abcdefghijklm"
"""Leading dimensions of matrices in an equation."""


@dataclass(frozen=True, slots=True)
class WholeSums:
    """joined_planes(qconv2d(x, w)) -> conv(cast(x), w) in int32, and so for dense layers and
    products of computed matrices: planes are for targets that store nothing wider.

    Before: any graph. After: no product in planes; planes that something else reads are cut out of
    the sums. Where `packed`, kernels of bytes compute dense layers, and kernels of float32 all
    others whose sums this holds whatever the data is. Exact.
    """

    packed: bool = False
    name: ClassVar[str] = "whole-sums"

    def __call__(self, graph: Graph) -> Graph:
        if not any(map(_is_product, graph.nodes)):
            return graph
        return _Rewriting(graph, self.packed).run()


def _is_product(node: Node) -> bool:
    return are_planes(node) and node.op not in (CUT, JOINED)


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    packed: bool
    builder: Builder = field(init=False)
    sums: dict[str, str] = field(default_factory=dict)
    """The sums that values in planes are, in the order of dimensions that these have."""
    joined: dict[str, str] = field(default_factory=dict)
    """The values that are sums already."""
    packed_weights: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The packed form of each weight, and what its sums have too much: steps share them."""

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        for node in self.graph.nodes:
            node = replace(node, inputs=tuple(self.joined.get(each, each) for each in node.inputs))
            source = node.inputs[0] if node.inputs else ""
            if _is_product(node):
                self._cut(node)
            elif node.op == JOINED and source in self.sums:
                self._join(node)
            else:
                if node.op == RELAYOUT and source in self.sums:
                    self.sums[node.outputs[0]] = self._step(RELAYOUT, self.sums[source],
                                                            **node.attrs)
                self.builder.add(node)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _join(self, node: Node) -> None:
        value, sums = node.outputs[0], self.sums[node.inputs[0]]
        if value in self.graph.outputs:
            self.builder.emit("identity", node.name, [sums], value)
        else:
            self.joined[value] = sums

    def _cut(self, node: Node) -> None:
        """Adds the sums of a product, and their planes."""
        value = node.outputs[0]
        bytes_ = self.packed and node.op == "qdense" and self._of_bytes(node)
        self.sums[value] = sums = bytes_ or self._of_numbers(node)
        rank = len(self.graph.values[value].shape)
        self.builder.emit(CUT, node.name, [sums], value, planes=node.attrs[PLANES],
                          axis=1 if node.op == "qconv2d" else rank - 1,
                          dtype=self.graph.values[value].dtype)

    def _of_bytes(self, node: Node) -> str:
        """A dense layer by its kernel for bytes; "" where it is none of these."""
        (x, name), value = node.inputs, node.outputs[0]
        weight = self.graph.constants.get(name)
        if weight is None or weight.dtype != np.int8 or self.graph.values[x].dtype != "int8":
            return ""
        if name not in self.packed_weights:
            self.packed_weights[name] = self._packed(name, weight)
        matrix, offset = self.packed_weights[name]
        if not matrix:
            return ""
        sums = self._step("grouped_matmul", x, matrix)
        shape = (*self.graph.values[value].shape[:-1], len(weight))
        if shape != self.builder.values[sums].shape:
            sums = self._step("slice", sums, begin=(0,) * len(shape), end=shape,
                              step=(1,) * len(shape))
        return self._step("add", sums, offset)

    def _packed(self, name: str, weight: np.ndarray) -> tuple[str, str]:
        """The constants of the kernel for bytes; "" where its sums may not fit int32."""
        rows = weight.astype(np.int64)
        if (2 * OFFSET - 1) * np.abs(rows).sum(axis=1).max(initial=0) >= 1 << 31:
            return "", ""
        offset = (-OFFSET * rows.sum(axis=1)).astype(np.int32)
        return self._constant(name, grouped_columns(weight)), self._constant(name, offset)

    def _of_numbers(self, node: Node) -> str:
        """A product of an activation less what pads are, in float32 where that is exact."""
        is_float = self.packed and _bound(self.graph, node) <= EXACT
        dtype, zero = "float32" if is_float else "int32", node.attrs.get("pad_value", 0)
        x = self._wide(node.inputs[0], node.attrs.get("a_zp", zero), dtype)
        y = self._wide(node.inputs[1], node.attrs.get("b_zp", 0), dtype)
        if node.op == "qconv2d":
            sums = self._convolution(node, x, y, is_float)
        elif is_float:
            if node.op == "qdense" or node.attrs["trans_b"]:
                y = self._turned(y)
            sums = self._step("matmul", x, y)
        else:
            sums = self._step("einsum", x, y, equation=self._equation(node))
        return self._with_pads(node, self._step("cast", sums, to="int32") if is_float else sums)

    def _convolution(self, node: Node, x: str, y: str, is_float: bool) -> str:
        attrs = {name: value for name, value in node.attrs.items()
                 if name not in (PLANES, "pad_value")}
        if is_float:
            return self._step("conv2d", x, y, whole=1, **attrs)
        return self._step("conv", x, y, **{"dilations": (1, 1), "group": 1, **attrs})

    def _with_pads(self, node: Node, sums: str) -> str:
        """Adds what was taken from the activation so that pads are 0."""
        zero = node.attrs.get("pad_value", 0)
        if not zero:
            return sums
        weight = self.graph.constants[node.inputs[1]]
        totals = weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int64) * zero
        return self._step("add", sums, self._constant(
            node.inputs[1], totals.astype(np.int32).reshape(-1, 1, 1)))

    def _equation(self, node: Node) -> str:
        """The letters of a product of matrices, whose leading dimensions broadcast."""
        left, right = (len(self.graph.values[value].shape) - 2 for value in node.inputs)
        turned = node.op == "qdense" or node.attrs["trans_b"]
        around = LETTERS[:max(left, right)]
        first, second = (around[len(around) - count:] for count in (left, right))
        return f"{first}xz,{second}{'yz' if turned else 'zy'}->{around}xy"

    def _wide(self, value: str, zero: int, dtype: str) -> str:
        """A factor less its zero point, in another type."""
        if value in self.graph.constants:
            array = self.graph.constants[value].astype(dtype)
            return self._constant(value, (array - zero).astype(dtype))
        number = self._step("cast", value, to=dtype)
        return self._step("sub", number, self._constant(
            value, np.array(zero, dtype))) if zero else number

    def _turned(self, value: str) -> str:
        """Matrices [..., N, K] as [..., K, N]."""
        if value in self.builder.constants:
            return self._constant(value, np.ascontiguousarray(
                self.builder.constants[value].swapaxes(-1, -2)))
        *around, last, first = range(len(self.builder.values[value].shape))
        return self._step("transpose", value, perm=(*around, first, last))

    def _constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{stem}.constant"), array)

    def _step(self, op: str, *inputs: str, **attrs: object) -> str:
        value = self.builder.fresh(f"{inputs[0]}.{op}")
        return self.builder.emit(op, self.builder.fresh_node(value), inputs, value, **attrs)


def _bound(graph: Graph, product: Node) -> float:
    """The greatest magnitude that a sum in float, or a part of it, may reach."""
    if product.op == "qmatmul":
        depth = graph.values[product.inputs[0]].shape[-1]
        left, right = (max(-low, high) for low, high in (
            _ends("int8", product.attrs.get(name, 0)) for name in ("a_zp", "b_zp")))
        return depth * left * right
    weight = graph.constants.get(product.inputs[1])
    if weight is None:
        return np.inf
    least, greatest = ends_of_sums(weight, *_ends(graph.values[product.inputs[0]].dtype,
                                                  product.attrs.get("pad_value", 0)))
    return max(greatest, -least)


def _ends(dtype: str, zero: int) -> tuple[int, int]:
    """The least and the greatest of an element less a number."""
    low, high = limits_of(dtype)
    return low - zero, high - zero
