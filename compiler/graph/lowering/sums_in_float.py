"""Sums of integers as processors compute them: products of floats, which are exact below 2**24."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from compiler.graph.division.layout import RELAYOUT
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.planes import PLANES, are_planes
from compiler.ops.integers.fixed_point import limits_of

EXACT = 1 << 24
"""Integers up to this magnitude are float32, and so are their sums in any order."""

CUT, JOINED = "cut_planes", "joined_planes"


@dataclass(frozen=True, slots=True)
class SumsInFloat:
    """joined_planes(qconv2d(x, w)) -> cast(conv2d(cast(x), w)), and so for dense layers and
    products of computed matrices: planes are for targets that store nothing wider.

    Before: any graph. After: no product in planes whose sums float32 holds whatever the data is;
    planes that something else reads are cut out of the sums. Exact.
    """

    name: ClassVar[str] = "sums-in-float"

    def __call__(self, graph: Graph) -> Graph:
        if not any(_is_product(graph, node) for node in graph.nodes):
            return graph
        return _Rewriting(graph).run()


def _is_product(graph: Graph, node: Node) -> bool:
    return are_planes(node) and node.op not in (CUT, JOINED) and _bound(graph, node) <= EXACT


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
    rows = weight.reshape(len(weight), -1).astype(np.int64)
    low, high = _ends(graph.values[product.inputs[0]].dtype, product.attrs.get("pad_value", 0))
    above, below = (np.maximum(rows * one, rows * other).clip(0).sum(axis=1).max(initial=0)
                    for one, other in ((low, high), (-low, -high)))
    return float(max(above, below))


def _ends(dtype: str, zero: int) -> tuple[int, int]:
    """The least and the greatest of an element less a number."""
    low, high = limits_of(dtype)
    return low - zero, high - zero


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    builder: Builder = field(init=False)
    sums: dict[str, str] = field(default_factory=dict)
    """The sums that values in planes are, in the order of dimensions that these have."""
    joined: dict[str, str] = field(default_factory=dict)
    """The values that are sums already."""

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        for node in self.graph.nodes:
            node = replace(node, inputs=tuple(self.joined.get(each, each) for each in node.inputs))
            source = node.inputs[0] if node.inputs else ""
            if _is_product(self.graph, node):
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
        """Adds the product of floats, its sums in int32, and their planes."""
        value, x = node.outputs[0], node.inputs[0]
        sums = self._step("cast", self._product(node), to="int32")
        zero = node.attrs.get("pad_value", 0)
        if zero:
            weight = self.graph.constants[node.inputs[1]]
            totals = weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int64) * zero
            sums = self._step("add", sums, self._constant(
                value, totals.astype(np.int32).reshape(-1, 1, 1)))
        self.sums[value] = sums
        rank = len(self.graph.values[value].shape)
        self.builder.emit(CUT, node.name, [sums], value, planes=node.attrs[PLANES],
                          axis=1 if node.op == "qconv2d" else rank - 1,
                          dtype=self.graph.values[x].dtype)

    def _product(self, node: Node) -> str:
        """The product of an activation without its zero point, or what pads are, in float32."""
        x, y = node.inputs
        x = self._float(x, node.attrs.get("a_zp", node.attrs.get("pad_value", 0)))
        if node.op == "qmatmul":
            return self._step("matmul", x, self._float(y, node.attrs.get("b_zp", 0)),
                              trans_b=node.attrs["trans_b"])
        weight = self.graph.constants[y].astype(np.float32)
        if node.op == "qdense":
            return self._step("matmul", x, self._constant(y, np.ascontiguousarray(weight.T)))
        attrs = {name: value for name, value in node.attrs.items()
                 if name not in (PLANES, "pad_value")}
        return self._step("conv2d", x, self._constant(y, weight), whole=1, **attrs)

    def _float(self, value: str, zero: int) -> str:
        """An activation less its zero point in float32."""
        number = self._step("cast", value, to="float32")
        return self._step("sub", number, self._constant(
            value, np.array(zero, np.float32))) if zero else number

    def _constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{stem}.constant"), array)

    def _step(self, op: str, *inputs: str, **attrs: object) -> str:
        value = self.builder.fresh(f"{inputs[0]}.{op}")
        return self.builder.emit(op, self.builder.fresh_node(value), inputs, value, **attrs)
