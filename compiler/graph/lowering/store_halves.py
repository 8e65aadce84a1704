"""Products of halves: factors in float16 or bfloat16, sums in float32.

A value that a product reads is stored as halves, and all that read it read those; what only chooses
elements goes on in halves. Everything else computes in float32, from halves made wider::

    relu(x)                              r = relu(x); h = cast(r, float16)
    conv2d(relu(x), w)           ->      conv2d(h, cast(w, float16))          float32
    add(conv2d(...), relu(x))            add(conv2d(...), cast(h, float32))

Casts are computed in the kernels of what makes and reads the value.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import find, infer
from compiler.te import numpy_dtype

FACTORS = 2                 # the first inputs
CHOOSING = ("pool_max", "relayout")     # beside operators of networks that pick


@dataclass(frozen=True, slots=True)
class StoreHalves:
    """product(x, w) of float32 -> product(cast(x, dtype), cast(w, dtype)), summed in float32.

    Before: any graph. After: its products of float32 have factors of `dtype`, ``float16`` or
    ``bfloat16``, and so differ by their rounding; inputs and outputs have their types. The graph
    itself where there are none.
    """

    dtype: str
    name: ClassVar[str] = "store-halves"

    def __call__(self, graph: Graph) -> Graph:
        if not any(_is_product(graph, node) for node in graph.nodes):
            return graph
        return _Halving(graph, self.dtype).run()


def _is_product(graph: Graph, node: Node) -> bool:
    return find(node.op).halves and all(graph.values[value].dtype == "float32"
                                       for value in node.inputs[:FACTORS])


@dataclass(slots=True)
class _Halving:
    graph: Graph
    dtype: str
    builder: Builder = field(init=False)
    halves: dict[str, str] = field(default_factory=dict)
    """The value in halves, of each that has such a form."""

    def __post_init__(self):
        self.builder = Builder.like(self.graph)

    def run(self) -> Graph:
        wanted = self._wanted()
        for value in self.graph.inputs:
            if value in wanted:
                self._store(value)
        for node in self.graph.nodes:
            result = node.outputs[0]
            if _is_product(self.graph, node):
                factors = [self._half(value) for value in node.inputs[:FACTORS]]
                rest = [self._wide(value) for value in node.inputs[FACTORS:]]
                self.builder.add(replace(node, inputs=(*factors, *rest)))
            elif result in wanted and self._chooses(node):
                source, = node.inputs
                self.halves[result] = self.builder.add(replace(
                    node, inputs=(self._half(source),),
                    outputs=(self.builder.fresh(f"{result}.halves"),)))
                if result in self.graph.outputs:
                    self._cast(self.halves[result], "float32", result)
            else:
                self.builder.add(replace(node, inputs=tuple(map(self._wide, node.inputs))))
            if result in wanted and result not in self.halves:
                self._store(result)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _wanted(self) -> set[str]:
        """The values that are stored as halves."""
        wanted: set[str] = set()
        for node in reversed(self.graph.nodes):
            if _is_product(self.graph, node):
                wanted.update(node.inputs[:FACTORS])
            elif node.outputs[0] in wanted and self._chooses(node):
                wanted.update(node.inputs)
        return wanted - self.graph.constants.keys()

    def _chooses(self, node: Node) -> bool:
        """True if the node chooses elements of its one input, as it can of halves."""
        if len(node.inputs) != 1 or not (find(node.op).picks or node.op in CHOOSING):
            return False
        source = self.graph.values[node.inputs[0]]
        if source.dtype != "float32" or node.inputs[0] in self.graph.constants:
            return False
        try:
            return infer(node, [replace(source, dtype=self.dtype)]).dtype == self.dtype
        except TypeRefused:
            return False

    def _store(self, value: str) -> None:
        self.halves[value] = self._cast(value, self.dtype, self.builder.fresh(f"{value}.halves"))

    def _half(self, value: str) -> str:
        if value not in self.halves:
            array = self.graph.constants[value].astype(numpy_dtype(self.dtype))
            self.halves[value] = self.builder.add_constant(
                self.builder.fresh(f"{value}.halves"), array)
        return self.halves[value]

    def _wide(self, value: str) -> str:
        """The value in its own type: each reader of halves makes them wider itself."""
        if value not in self.halves or value in self.graph.constants:
            return value
        return self._cast(self.halves[value], self.graph.values[value].dtype,
                          self.builder.fresh(f"{value}.wide"))

    def _cast(self, source: str, dtype: str, result: str) -> str:
        return self.builder.emit("cast", self.builder.fresh_node(result), [source], result,
                                 to=dtype)
