"""Means and maxima along axes as what quantization knows: means that become one integer operator,
and pools."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class ReductionsAsPools:
    """div(reduce_sum(x), n) -> mean(x); reduce_max(x) -> maxpool(x), over the rows and columns of
    images, or over axes right before the last, behind a transpose; over the columns of images, kept
    as one, a mean is avgpool(x).

    Before: any graph. After: no such mean or maximum is left that reads a dequantized tensor and is
    quantized again or, `before_products`, that only products with constant weights read. Those
    inside of norms read floats, and subtractions read them: they stay. Maxima are the same to the
    bit, and so are means but for the order of sums.
    """

    before_products: bool = False
    name: ClassVar[str] = "reductions-as-pools"

    def __call__(self, graph: Graph) -> Graph:
        if not any(node.op in ("reduce_sum", "reduce_max") for node in graph.nodes):
            return graph
        return _Rewriting(graph, self.before_products).run()


@dataclass(slots=True)
class _Rewriting:
    graph: Graph
    before_products: bool
    builder: Builder = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)
    producers: Mapping[str, Node] = field(init=False)

    def __post_init__(self):
        self.builder = Builder.like(self.graph)
        self.readers, self.producers = self.graph.consumers(), self.graph.producers()

    def run(self) -> Graph:
        changed = False
        for node in self.graph.nodes:
            total = self._total(node)
            if total is not None and self._is_along_columns(total) and self._fits(total, node):
                self.builder.emit("avgpool", node.name, total.inputs, node.outputs[0],
                                  **self._columns(total), include_pad=1)
            elif total is not None and self._fits(total, node):
                self.builder.emit("mean", node.name, total.inputs, node.outputs[0], **total.attrs)
            elif node.op == "reduce_max" and self._fits(node, node):
                self._pool(node)
            else:
                self.builder.add(node)
                continue
            changed = True
        return eliminate_dead_code(self.builder.finish(self.graph.outputs)) if changed else (
            self.graph)

    def _total(self, node: Node) -> Node | None:
        """The sum that the node divides by the number of its elements."""
        total = self.producers.get(node.inputs[0]) if node.op == "div" else None
        if total is None or total.op != "reduce_sum":
            return None
        divisor = self.graph.constants.get(node.inputs[1])
        shape = self.graph.values[total.inputs[0]].shape
        count = prod(shape[axis] for axis in total.attrs["axes"])
        return total if divisor is not None and divisor.size == 1 and divisor == count else None

    def _fits(self, reduction: Node, last: Node) -> bool:
        source = reduction.inputs[0]
        type_, hindrance = self.graph.values[source], find("mean").hindrance
        assert hindrance is not None
        if type_.dtype != "float32" or (hindrance(reduction.attrs, [type_.shape])
                                        and not self._is_along_columns(reduction)):
            return False
        if self.before_products:
            return self._is_read(last.outputs[0], self._is_product)
        return self._is_dequantized(source) and self._is_read(
            last.outputs[0], lambda reader, value: reader.op == "quantizelinear")

    def _is_along_columns(self, reduction: Node) -> bool:
        """True if it reduces the columns of images alone, between quantizations."""
        rank, axes = len(self.graph.values[reduction.inputs[0]].shape), reduction.attrs["axes"]
        return not self.before_products and (rank, tuple(axes)) == (4, (3,)) and bool(
            reduction.attrs["keepdims"])

    def _columns(self, reduction: Node) -> dict[str, object]:
        """The window of a whole row of an image."""
        columns = self.graph.values[reduction.inputs[0]].shape[3]
        return {"kernel": (1, columns), "strides": (1, 1), "pads": (0, 0, 0, 0)}

    def _is_read(self, value: str, fits: Callable[[Node, str], bool]) -> bool:
        """True if there are readers, behind what moves or bounds elements, and all of them fit."""
        readers = self.readers[value]
        return value not in self.graph.outputs and bool(readers) and all(
            fits(reader, value) or (self._passes(reader)
                                    and self._is_read(reader.outputs[0], fits))
            for reader in readers)

    def _passes(self, node: Node) -> bool:
        operator = find(node.op)
        return operator.picks or operator.bounds is not None or node.op == "identity"

    def _is_product(self, reader: Node, value: str) -> bool:
        return (find(reader.op).weights is not None and reader.inputs[0] == value
                and reader.inputs[1] in self.graph.constants)

    def _is_dequantized(self, value: str) -> bool:
        node = self.producers.get(value)
        while node is not None and find(node.op).picks:
            node = self.producers.get(node.inputs[0])
        return node is not None and node.op == "dequantizelinear"

    def _pool(self, node: Node) -> None:
        """The maximum of whole images; other tensors become images of one row first."""
        (x,), axes = node.inputs, tuple(node.attrs["axes"])
        shape = self.graph.values[x].shape
        if self._is_along_columns(node):
            self.builder.emit("maxpool", node.name, [x], node.outputs[0], **self._columns(node))
            return
        if len(shape) != 4 or axes != (2, 3):
            outer, count, channels = prod(shape[:axes[0]]), prod(shape[axes[0]:-1]), shape[-1]
            x = self._step(node, "reshape", x, shape=(outer, count, channels))
            x = self._step(node, "transpose", x, perm=(0, 2, 1))
            x = self._step(node, "reshape", x, shape=(outer, channels, 1, count))
        pooled = self._step(node, "maxpool", x, kernel=self.builder.values[x].shape[2:],
                            strides=(1, 1), pads=(0, 0, 0, 0))
        self.builder.emit("reshape", node.name, [pooled], node.outputs[0],
                          shape=self.graph.values[node.outputs[0]].shape)

    def _step(self, node: Node, op: str, x: str, **attrs: object) -> str:
        name = self.builder.fresh_node(f"{node.name}.{op}")
        return self.builder.emit(op, name, [x], self.builder.fresh(f"{name}.out"), **attrs)
