"""Sums of integers as processors compute them: products of floats, which are exact below 2**24."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.graph.division.layout import RELAYOUT
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.planes import are_planes
from compiler.ops.integers.fixed_point import limits_of

EXACT = 1 << 24
"""Integers up to this magnitude are float32, and so are their sums in any order."""

JOINED = "joined_planes"


@dataclass(frozen=True, slots=True)
class SumsInFloat:
    """joined_planes(qconv2d(x, w)) -> cast(conv2d(cast(x), w)), and so for dense layers and
    products of computed matrices: planes are for targets that store nothing wider.

    Before: any graph. After: no product in planes that is joined here, and whose sums float32
    holds whatever the data is. Exact.
    """

    name: ClassVar[str] = "sums-in-float"

    def __call__(self, graph: Graph) -> Graph:
        if not any(node.op == JOINED for node in graph.nodes):
            return graph
        producers, builder = graph.producers(), Builder.like(graph)
        for node in graph.nodes:
            found = _product(graph, node, producers)
            if found is None:
                builder.add(node)
            else:
                _emit(builder, graph, *found, node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _product(graph: Graph, node: Node, producers: Mapping[str, Node]
             ) -> tuple[Node, tuple[int, ...] | None] | None:
    """The product whose planes a node joins, and the order in which these lie, where sums in float
    are exact."""
    if node.op != JOINED:
        return None
    source, order = producers.get(node.inputs[0]), None
    if source is not None and source.op == RELAYOUT:
        order, source = source.attrs["perm"], producers.get(source.inputs[0])
    if source is None or not are_planes(source) or _bound(graph, source) > EXACT:
        return None
    return source, order


def _bound(graph: Graph, product: Node) -> float:
    """The greatest magnitude that a sum in float, or a part of it, may reach."""
    if product.op == "qmatmul":
        depth = graph.values[product.inputs[0]].shape[-1]
        left, right = (_most("int8", product.attrs.get(name, 0)) for name in ("a_zp", "b_zp"))
        return depth * left * right
    weight = graph.constants.get(product.inputs[1])
    if weight is None:
        return np.inf
    rows = np.abs(weight.reshape(len(weight), -1).astype(np.int64)).sum(axis=1)
    return float(rows.max(initial=0)) * _most(
        graph.values[product.inputs[0]].dtype, product.attrs.get("pad_value", 0))


def _most(dtype: str, zero: int) -> int:
    """The greatest magnitude of an element less a number."""
    low, high = limits_of(dtype)
    return max(zero - low, high - zero)


def _emit(builder: Builder, graph: Graph, product: Node, order: Sequence[int] | None,
          joined: Node) -> None:
    """Adds the product of floats, and the sums in int32."""
    zero = product.attrs.get("pad_value", 0)
    x = _float(builder, product.inputs[0], product.attrs.get("a_zp", zero))
    if product.op == "qmatmul":
        y = _float(builder, product.inputs[1], product.attrs.get("b_zp", 0))
        sums = _step(builder, "matmul", joined, x, y, trans_b=product.attrs["trans_b"])
    elif product.op == "qdense":
        matrix = np.ascontiguousarray(graph.constants[product.inputs[1]].T.astype(np.float32))
        sums = _step(builder, "matmul", joined, x, _constant(builder, joined, matrix))
    else:
        weight = _constant(builder, joined, graph.constants[product.inputs[1]].astype(np.float32))
        attrs = {name: value for name, value in product.attrs.items()
                 if name not in ("planes", "pad_value")}
        sums = _step(builder, "conv2d", joined, x, weight, whole=1, **attrs)
    steps: list[tuple[str, list[str], dict[str, object]]] = [("cast", [], {"to": "int32"})]
    if product.op == "qconv2d" and zero:
        weight = graph.constants[product.inputs[1]]
        totals = weight.reshape(len(weight), -1, 1, 1).sum(axis=1, keepdims=False, dtype=np.int64)
        steps.append(("add", [_constant(builder, joined, (totals * zero).astype(np.int32))], {}))
    if order is not None:
        steps.append((RELAYOUT, [], {"perm": order}))
    *earlier, (op, others, attrs) = steps
    for step, more, own in earlier:
        sums = _step(builder, step, joined, sums, *more, **own)
    builder.emit(op, joined.name, [sums, *others], joined.outputs[0], **attrs)


def _float(builder: Builder, value: str, zero: int) -> str:
    """An activation less its zero point in float32."""
    name = builder.fresh(f"{value}.float")
    number = builder.emit("cast", builder.fresh_node(name), [value], name, to="float32")
    if not zero:
        return number
    point = builder.add_constant(builder.fresh(f"{value}.zero"), np.array(zero, np.float32))
    name = builder.fresh(f"{value}.steps")
    return builder.emit("sub", builder.fresh_node(name), [number, point], name)


def _constant(builder: Builder, joined: Node, array: np.ndarray) -> str:
    return builder.add_constant(builder.fresh(f"{joined.outputs[0]}.constant"), array)


def _step(builder: Builder, op: str, joined: Node, *inputs: str, **attrs: object) -> str:
    value = builder.fresh(f"{joined.outputs[0]}.{op}")
    return builder.emit(op, builder.fresh_node(value), inputs, value, **attrs)
