"""Which quantizations an operator lacks so that it would be one of integers: what `integerize`
tells of operators that stay in float.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.graph.graph import Graph, Node
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

UNQUANTIZED = "it does not stand between a DequantizeLinear and a QuantizeLinear"


@dataclass(slots=True)
class MissingQuantizations:
    """The quantizations that operators of one graph lack."""

    graph: Graph
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)
    unquantized: str = field(init=False)
    any_at_all: bool = field(init=False)

    def __post_init__(self):
        self.producers, self.readers = self.graph.producers(), self.graph.consumers()
        of_floats = any(node.op in ("encodefloat", "decodefloat") for node in self.graph.nodes)
        self.unquantized = UNQUANTIZED + " of integers" * of_floats
        self.any_at_all = any(node.op == "quantizelinear" for node in self.graph.nodes)

    def around(self, node: Node) -> str:
        """The quantization that is missing around a float operator, and where. That it has none is
        all that is told in a network without quantizations, and of elementwise operators among
        others, which become one operator together.
        """
        if not self.any_at_all:
            return self.unquantized
        alone = find(node.op).kind is not Kind.ELEMENTWISE
        behind = self._behind(node) if alone else ()
        return "; ".join((*self._before(node), *behind)) or self.unquantized

    def _before(self, node: Node) -> Iterator[str]:
        """The lack of its first input in float, and of its weight; a bias may be in float."""
        told = False
        for place, value in enumerate(node.inputs[:2]):
            value = before_reshapes(value, self.producers)
            producer = self.producers.get(value)
            if producer is not None and (producer.op == "dequantizelinear" or (
                    {find(producer.op).kind, find(node.op).kind} == {Kind.ELEMENTWISE})):
                continue
            if value not in self.graph.constants and not told:
                told = True
                if producer is not None and not _has_integers(producer):
                    yield f"{producer.name} ({producer.op}) before it has no form on integers"
                    continue
                place_of = (f"between {producer.name} ({producer.op}) and it" if producer
                            else f"behind its input {value!r}")
                yield f"a QuantizeLinear and a DequantizeLinear are missing {place_of}"
            elif value in self.graph.constants and place and find(node.op).weights is not None:
                yield f"a DequantizeLinear of int8 is missing behind its weight {value!r}"

    def _behind(self, node: Node) -> Iterator[str]:
        """The lack of its result; bounds may stand between."""
        value = node.outputs[0]
        while value not in self.graph.outputs and len(self.readers[value]) == 1 and (
                find(self.readers[value][0].op).bounds):
            value = self.readers[value][0].outputs[0]
        if value in self.graph.outputs:
            yield "a QuantizeLinear is missing behind it, where its result leaves the network"
            return
        reader = next((reader for reader in self.readers[value]
                       if reader.op != "quantizelinear"), None)
        if reader is not None:
            yield f"a QuantizeLinear is missing between it and {reader.name} ({reader.op})"


def before_reshapes(value: str, producers: Mapping[str, Node]) -> str:
    """The value that reshapes made this one of: importers put them around sequences, so messages
    name what the file has.
    """
    while (node := producers.get(value)) is not None and node.op == "reshape":
        value = node.inputs[0]
    return value


def _has_integers(node: Node) -> bool:
    """True if the operator, perhaps with others, may be one of integers."""
    operator = find(node.op)
    return bool(operator.integer or operator.bounds or operator.picks or operator.fills
                or operator.kind is Kind.ELEMENTWISE)
