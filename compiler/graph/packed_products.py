"""Float products with constant matrices, whose columns are packed into blocks of 16."""

from dataclasses import dataclass, field
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.blocks import LANES

__all__ = ["with_packed_products"]


def with_packed_products(graph: Graph) -> Graph:
    """Before: any graph. After: the same values of inputs and outputs; products of float32 with a
    constant matrix read it packed, [N/16,K,16]: where it has whole blocks of columns, and where
    there is one row, of which what is beyond N is cut off. The graph itself where there are none.
    """
    if not any(_is_packable(graph, node) for node in graph.nodes):
        return graph
    return _Packing(graph).run()


def _is_packable(graph: Graph, node: Node) -> bool:
    if node.op not in ("dense", "matmul") or node.inputs[1] not in graph.constants:
        return False
    x, w = (graph.values[value] for value in node.inputs[:2])
    columns = w.shape[0 if node.attrs.get("trans_b", 0) else -1]
    return (len(w.shape) == 2 and len(x.shape) >= 2 and x.dtype == w.dtype == "float32"
            and 0 not in (*x.shape, columns)
            and (columns % LANES == 0 or prod(x.shape[:-1]) == 1))


@dataclass(slots=True)
class _Packing:
    graph: Graph
    builder: Builder = field(init=False)
    packed: dict[tuple[str, bool], str] = field(default_factory=dict)
    """The packed matrices, by the constant and whether it is turned."""

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        for node in self.graph.nodes:
            if _is_packable(self.graph, node):
                self._pack(node)
            else:
                self.builder.add(node)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _pack(self, node: Node) -> None:
        """The product, its bias where there is one, and what is to be cut off."""
        x, w, *bias = node.inputs
        value = node.outputs[0]
        shape = self.graph.values[value].shape
        key = w, bool(node.attrs.get("trans_b", 0))
        if key not in self.packed:
            matrix = self.graph.constants[w]
            self.packed[key] = self._constant(w, _packed(matrix.T if key[1] else matrix))
        steps = [("packed_matmul", node.name, [self.packed[key]], {})]
        cut = [("slice", f"{node.name}.columns", [], {
            "begin": (0,) * len(shape), "end": shape, "step": (1,) * len(shape)})]
        if shape[-1] % LANES == 0:
            cut = []
        added = [("add", f"{node.name}.bias", bias, {})] if bias else []
        if cut and bias and (array := self.graph.constants.get(bias[0])) is not None and (
                array.size == shape[-1]):
            wide = np.zeros(-(-shape[-1] // LANES) * LANES, np.float32)
            wide[:shape[-1]] = array.reshape(-1)
            added = [("add", f"{node.name}.bias", [self._constant(bias[0], wide)], {})]
            steps += [*added, *cut]
        else:
            steps += [*cut, *added]
        for place, (op, name, others, attrs) in enumerate(steps):
            output = value if place == len(steps) - 1 else self.builder.fresh(f"{value}.{op}")
            name = self.builder.fresh_node(name) if place else name
            x = self.builder.emit(op, name, [x, *others], output, **attrs)

    def _constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(f"{stem}.packed"), array)


def _packed(matrix: np.ndarray) -> np.ndarray:
    """[K,N] as [N/16,K,16], zeros in columns that are none."""
    depth, columns = matrix.shape
    wide = np.zeros((depth, -(-columns // LANES) * LANES), np.float32)
    wide[:, :columns] = matrix
    return np.ascontiguousarray(wide.reshape(depth, -1, LANES).transpose(1, 0, 2))
