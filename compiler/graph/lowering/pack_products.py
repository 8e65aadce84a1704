"""Products with constant matrices, whose columns are packed into blocks of 16."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.lowering.block_constants import nearest
from compiler.graph.lowering.integers import Integers
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.packed.quantized_blocks import (OFFSET, for_sums, for_sums_met,
                                                  grouped_columns)
from compiler.ops.records.blocks import LANES
from compiler.ops.records.planes import are_planes
from compiler.ops.registry import find

FEW_ROWS = 8
STORED = ("float32", "int8")


@dataclass(frozen=True, slots=True)
class PackProducts:
    """matmul(x, w [K,N]) -> packed_matmul(x, w [N/16,K,16]), and so for products of int8.

    Before: any graph. After: the same values of inputs and outputs; products of float32 with a
    constant matrix read it packed where it has a block of columns at least, or there is one row.
    Most rows of one tensor, each multiplied by the same matrix, as an unrolled loop does, are
    multiplied together. Products of int8 read [N/16,K/4,16,4], of any number of columns, or words
    [N/16,K/2,16,2] where `integers` stores these. Of two computed matrices, of either type, the
    second is packed when it is there. Products of other types than these `dtypes` stay. The graph
    itself where there are no such products.
    """

    dtypes: Collection[str] = STORED
    integers: Integers = Integers()
    name: ClassVar[str] = "pack-products"

    def __call__(self, graph: Graph) -> Graph:
        taken = {node.name for node in graph.nodes if node.inputs
                 and graph.values[node.inputs[0]].dtype in self.dtypes
                 and (_is_packable(graph, node) or _is_quantized(graph, node)
                      or _is_computed(graph, node))}
        return _Packing(graph, taken, self.integers).run() if taken else graph


def _is_packable(graph: Graph, node: Node) -> bool:
    if node.op not in ("dense", "matmul") or node.inputs[1] not in graph.constants:
        return False
    x, w = (graph.values[value] for value in node.inputs[:2])
    columns = w.shape[0 if node.attrs.get("trans_b", 0) else -1]
    return (len(w.shape) == 2 and len(x.shape) >= 2 and x.dtype == w.dtype == "float32"
            and 0 not in (*x.shape, columns)
            and (columns >= LANES or prod(x.shape[:-1]) == 1))


def _is_quantized(graph: Graph, node: Node) -> bool:
    """True if it is a product of bytes in int32 with constants, perhaps beside what its sums meet.
    """
    operator = find(node.op)
    if not operator.scales or are_planes(node):
        return False
    x, weight, *parameters = (node.inputs[0], *node.inputs[operator.data_inputs:])
    return (len(graph.values[weight].shape) == 2
            and all(value in graph.constants for value in (weight, *parameters))
            and all(graph.values[value].dtype == "int8" for value in (x, weight))
            and node.attrs.get("sums", "int32") == "int32"
            and 0 not in (*graph.values[x].shape, *graph.values[weight].shape))


def _is_computed(graph: Graph, node: Node) -> bool:
    """True if it is a product of two computed matrices, of floats or of bytes, the second without a
    zero point and of floats not turned, of as many rows and columns as make up for packing.
    """
    if node.op not in ("matmul", "qmatmul") or node.attrs.get("b_zp", 0) or are_planes(node):
        return False
    (a, b), y = (graph.values[value] for value in node.inputs), graph.values[node.outputs[0]]
    if node.op == "matmul" and (
            (a.dtype, b.dtype) != ("float32", "float32") or node.attrs.get("trans_b", 0)):
        return False
    return (len(a.shape) == len(b.shape) >= 2 and a.shape[:-2] == b.shape[:-2]
            and y.shape[-2] >= FEW_ROWS and (y.shape[-1] >= LANES or node.op == "qmatmul")
            and 0 not in (*a.shape, *b.shape))


@dataclass(slots=True)
class _Packing:
    graph: Graph
    taken: Collection[str]
    """The names of nodes that become packed products."""
    integers: Integers
    builder: Builder = field(init=False)
    packed: dict[tuple[str, bool], str] = field(default_factory=dict)
    """The packed matrices, by the constant and whether it is turned."""
    together: dict[str, "_Rows"] = field(default_factory=dict)
    """Products of rows of one tensor, by the names of their nodes."""

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        self.together = _together(self.graph)
        for node in self.graph.nodes:
            if node.name not in self.taken:
                self.builder.add(node)
            elif _is_packable(self.graph, node):
                self._pack(node)
            elif _is_computed(self.graph, node):
                (self._group if node.op == "qmatmul" else self._block)(node)
            elif not (_is_quantized(self.graph, node) and self._pack_quantized(node)):
                self.builder.add(node)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _pack(self, node: Node) -> None:
        """The product, and its bias where there is one."""
        x, w, *bias = node.inputs
        value = node.outputs[0]
        shape = self.graph.values[value].shape
        key = w, bool(node.attrs.get("trans_b", 0))
        if key not in self.packed:
            matrix = self.graph.constants[w]
            self.packed[key] = self._constant(w, _packed(matrix.T if key[1] else matrix))
        product: _Step = ("packed_matmul", node.name, [self.packed[key]], {"columns": shape[-1]})
        if node.name in self.together:
            rows = self.together[node.name]
            x, row = self._product(rows, product), rows.numbers[node.name]
            product = ("slice", node.name, [], {
                "begin": (row, 0), "end": (row + 1, shape[-1]), "step": (1, 1)})
        self._emit(x, [product, *([("add", f"{node.name}.bias", bias, {})] if bias else [])], value)

    def _block(self, node: Node) -> None:
        """The product with the second matrix, packed when it is there."""
        (a, b), value = node.inputs, node.outputs[0]
        packed = self.builder.fresh(f"{value}.packed")
        self.builder.emit("block_columns", self.builder.fresh_node(packed), [b], packed)
        self._emit(a, [("packed_matmul", node.name, [packed],
                        {"columns": self.graph.values[value].shape[-1]})], value)

    def _pack_quantized(self, node: Node) -> bool:
        """The product and what is to be cut off; False where sums may not fit."""
        data = find(node.op).data_inputs
        (x, *met), (w, *parameters) = node.inputs[:data], node.inputs[data:]
        weight, *vectors = (self.graph.constants[value] for value in (w, *parameters))
        weight = self.integers.stored(weight)
        found = (for_sums_met if met else for_sums)(weight, *vectors)
        if found is None:
            return False
        found, near = nearest(weight, found, self.integers.fused)
        value, attrs = node.outputs[0], {name: node.attrs[name] for name in (
            "zp", "lo", "hi", "fine") if name in node.attrs} | near
        constants = [self._constant(w, grouped_columns(weight))]
        for name, vector in zip(parameters, found, strict=False):
            wide = np.zeros(-(-len(vector) // LANES) * LANES, vector.dtype)
            wide[:len(vector)] = vector
            constants.append(self._constant(name, wide))
        op = "qpacked_matmul_add" if met else "qpacked_matmul"
        self._emit(x, [(op, node.name, [*met, *constants], attrs),
                       *_cut(node, self.graph.values[value].shape)], value)
        return True

    def _group(self, node: Node) -> None:
        """Sums of the first matrix plus 128, less those of its columns."""
        (a, b), value = node.inputs, node.outputs[0]
        packed, totals = (self.builder.fresh(f"{value}.{part}") for part in ("packed", "totals"))
        self.builder.emit("group_columns", self.builder.fresh_node(packed), [b], packed,
                          trans_b=node.attrs["trans_b"])
        *leading, _, depth = self.graph.values[a].shape
        one = self._constant(value, np.full((*leading, 1, depth), 1 - OFFSET, np.int8))
        self.builder.emit("grouped_matmul", self.builder.fresh_node(totals), [one, packed], totals)
        attrs = {name: number for name, number in node.attrs.items()
                 if name not in ("trans_b", "b_zp")}
        self._emit(a, [
            ("grouped_matmul", node.name, [packed], {}),
            ("qproducts", f"{node.name}.requantized", [totals], {"a_zp": 0, **attrs}),
            *_cut(node, self.graph.values[value].shape)], value)

    def _emit(self, x: str, steps: Sequence["_Step"], value: str) -> None:
        """One operator after the other, of x and others, the last of which gives the value."""
        for place, (op, name, others, attrs) in enumerate(steps):
            output = value if place == len(steps) - 1 else self.builder.fresh(f"{value}.{op}")
            name = self.builder.fresh_node(name) if place else name
            x = self.builder.emit(op, name, [x, *others], output, **attrs)

    def _product(self, rows: "_Rows", step: "_Step") -> str:
        """All rows times the matrix, computed where the first is."""
        if not rows.product:
            name = self.builder.fresh(f"{rows.source}.rows")
            seen = self.builder.emit("reshape", self.builder.fresh_node(name), [rows.source], name,
                                     shape=(rows.count, rows.depth))
            product, (op, _, weight, attrs) = self.builder.fresh(f"{rows.source}.products"), step
            rows.product = self.builder.emit(
                op, self.builder.fresh_node(product), [seen, *weight], product, **attrs)
        return rows.product

    def _constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{stem}.packed"), array)


_Step = tuple[str, str, list[str], dict]
"""An operator, the name of a node, its inputs but for the first, and attributes."""


def _cut(node: Node, shape: tuple[int, ...]) -> list[_Step]:
    """Leaves the columns that are none."""
    return [] if shape[-1] % LANES == 0 else [("slice", f"{node.name}.columns", [], {
        "begin": (0,) * len(shape), "end": shape, "step": (1,) * len(shape)})]


@dataclass(slots=True)
class _Rows:
    """Products of rows of `source`, which has `count` of `depth` elements: the number of each row,
    by the name of its node.
    """

    source: str
    count: int
    depth: int
    numbers: dict[str, int] = field(default_factory=dict)
    product: str = ""


def _together(graph: Graph) -> dict[str, _Rows]:
    producers, found = graph.producers(), dict[tuple, _Rows]()
    for node in graph.nodes:
        if not _is_packable(graph, node):
            continue
        shape = graph.values[node.inputs[0]].shape
        depth = shape[-1]
        if len(shape) != 2 or shape[0] != 1:
            continue
        source, begin = _shown(graph, producers, node.inputs[0])
        size = prod(graph.values[source].shape)
        if source == node.inputs[0] or begin % depth or size % depth:
            continue
        key = source, node.inputs[1], node.attrs.get("trans_b", 0), depth
        rows = found.setdefault(key, _Rows(source, size // depth, depth))
        rows.numbers[node.name] = begin // depth
    return {name: rows for rows in found.values() for name in rows.numbers
            if len(set(rows.numbers.values())) > max(rows.count // 2, 1)}


def _shown(graph: Graph, producers: Mapping[str, Node], value: str) -> tuple[str, int]:
    """The value that a chain of views shows, and at which of its elements."""
    begin = 0
    while (node := producers.get(value)) is not None and (view := find(node.op).view) and view(
            node.attrs, graph.values[node.inputs[0]].shape, graph.values[value].shape):
        whole = graph.values[node.inputs[0]].shape
        begin += sum(first * prod(whole[axis + 1:])
                     for axis, first in enumerate(node.attrs.get("begin", ())))
        value = node.inputs[0]
    return value, begin


def _packed(matrix: np.ndarray) -> np.ndarray:
    """[K,N] as [N/16,K,16], zeros in columns that are none."""
    depth, columns = matrix.shape
    wide = np.ascontiguousarray(matrix)
    if columns % LANES:
        wide = np.zeros((depth, -(-columns // LANES) * LANES), np.float32)
        wide[:, :columns] = matrix
    return np.ascontiguousarray(wide.reshape(depth, -1, LANES).transpose(1, 0, 2))
