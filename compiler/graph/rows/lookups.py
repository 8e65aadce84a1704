"""Rows of a constant table, taken by computed numbers, as an integer operator of rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.gathers import MOST_ROWS, NUMBER_BYTES
from compiler.ops.registry import find

TakesRows = Callable[..., bool]
"""Whether some target has an instruction of its own for an operator of rows: ``takes(operator,
elements of a row, attributes, *constants)``."""


def every_row(operator: str, elements: int, attrs: Mapping[str, Any], *constants: np.ndarray
              ) -> bool:
    """Takes all."""
    return True


def no_row(operator: str, elements: int, attrs: Mapping[str, Any], *constants: np.ndarray) -> bool:
    """Takes none."""
    return False


@dataclass(frozen=True, slots=True)
class LookupsAsRows:
    """quantize(gather(table, x)) -> qgather(numbers_in_bytes(x), quantized table), and a gather
    from a table of int8 alike: what a unit that gathers has. Exact, since a quantization of one
    scale does to every element the same.

    Before: any graph whose quantizations are ONNX's. After: no quantization of one scale to 8 bits
    reads rows of a constant matrix that a computed tensor names, if some target `takes` that
    matrix; nor are such rows of int8 taken by another operator.
    """

    takes: TakesRows = every_row
    name: ClassVar[str] = "lookups-as-rows"

    def __call__(self, graph: Graph) -> Graph:
        lookups = [node for node in graph.nodes if node.op == "gather"]
        return _Lookups(graph, self.takes).run() if lookups else graph


@dataclass(slots=True)
class _Lookups:
    graph: Graph
    takes: TakesRows
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    named: dict[tuple[str, int], str] = field(default_factory=dict)
    """The numbers in bytes of each tensor of places, for tables of so many rows."""
    kept: set[str] = field(default_factory=set)     # names of gathers that others read as well

    def run(self) -> Graph:
        self.builder, self.producers = Builder.like(self.graph), self.graph.producers()
        readers = self.graph.consumers()
        self.kept = {node.name for node in self.graph.nodes if node.op == "gather" and (
            node.outputs[0] in self.graph.outputs
            or any(reader.op != "quantizelinear" for reader in readers[node.outputs[0]]))}
        for node in self.graph.nodes:
            if not (node.op == "gather" and self._of_int8(node)
                    or node.op == "quantizelinear" and self._of_quantized(node)):
                self.builder.add(node)
        if not self.named:
            return self.graph
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _of_int8(self, gather: Node) -> bool:
        table = self.graph.constants.get(gather.inputs[0])
        if table is None or table.dtype != np.int8 or not self._names_rows(gather, table) or (
                not self.takes("qgather", NUMBER_BYTES, {}, table)):
            return False
        self._looked_up(gather, gather.name, table, gather.outputs[0])
        return True

    def _of_quantized(self, quantize: Node) -> bool:
        gather = self.producers.get(quantize.inputs[0])
        steps = [self.graph.constants.get(value) for value in quantize.inputs[1:]]
        if gather is None or gather.op != "gather" or any(
                step is None or step.shape for step in steps) or (
                self.graph.values[quantize.outputs[0]].dtype not in ("int8", "uint8")):
            return False
        table = self._array(gather.inputs[0])
        if table is None or not self._names_rows(gather, table):
            return False
        stored = find("quantizelinear").meaning({**quantize.attrs, "axis": 0}, table, *steps)
        if not self.takes("qgather", NUMBER_BYTES, {}, stored.view(np.int8)):
            return False
        name = quantize.name if gather.name in self.kept else gather.name
        self.kept.add(gather.name)          # its name is taken
        value, = quantize.outputs
        if stored.dtype == np.int8:
            self._looked_up(gather, name, stored, value)
        else:
            signed = self._looked_up(gather, name, (stored ^ 0x80).view(np.int8),
                                     self.builder.fresh(f"{value}_stored"))
            self.builder.emit("to_uint8", self.builder.fresh_node(f"{value}_to_uint8"), [signed],
                              value)
        return True

    def _array(self, value: str) -> np.ndarray | None:
        """The numbers of a constant, or of one that is dequantized."""
        maker = self.producers.get(value)
        if maker is None or maker.op != "dequantizelinear":
            return self.graph.constants.get(value)
        arrays = [self.graph.constants.get(one) for one in maker.inputs]
        if any(array is None for array in arrays):
            return None
        return find(maker.op).meaning(maker.attrs, *arrays)

    def _names_rows(self, gather: Node, table: np.ndarray) -> bool:
        """True if computed numbers take rows of a matrix that are few enough to have such."""
        places = gather.inputs[1]
        return (gather.attrs["axis"] == 0 and table.ndim == 2 and 1 <= len(table) <= MOST_ROWS
                and places not in self.graph.constants and bool(self.graph.values[places].shape))

    def _looked_up(self, gather: Node, name: str, table: np.ndarray, value: str) -> str:
        """Adds the rows of a table under a name of a node and of a value."""
        places = gather.inputs[1]
        key = places, len(table)
        if key not in self.named:
            stem = self.builder.fresh(f"{places}_in_bytes")
            self.named[key] = self.builder.emit(
                "numbers_in_bytes", self.builder.fresh_node(stem), [places], stem, rows=len(table))
        stored = self.builder.add_constant(self.builder.fresh(f"{name}:table"), table)
        return self.builder.emit("qgather", name, [self.named[key], stored], value)
