"""Batch norms, and other products and sums with a number for each channel, in the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.integerize.sums import Sums
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.weights import of_channels
from compiler.ops.registry import find

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class FoldScales:
    """(conv(x, w) + bias) * k + c -> conv(x, w * k) + (bias * k + c), where k and c have one
    number, or one for each output channel: what a batch norm is once its statistics are constants.
    So with - c and / k.

    Before: any graph. After: the result of no convolution or dense layer with constant weights is
    only multiplied or divided by, or added to, such a constant, nor is one only taken from it. Nor
    is a constant left that only these read. Results change by the rounding of weights and biases.

    With `quantized`, this holds for weights that are dequantized constants, and for no others,
    where the scales of the weight can take k: products of matrices are among them, relu(conv(x, w))
    * k becomes relu(conv(x, w * k)) for a positive k, and reshape(conv(x, w)) * k and
    conv(dequantize(q) * k, w) alike where k is one number.
    """

    quantized: bool = False
    name: ClassVar[str] = "fold-scales"

    def __call__(self, graph: Graph) -> Graph:
        return _Folding(graph, self.quantized).run()


@dataclass(slots=True)
class _Folding:
    """One run. `nodes` are those that stay, in order, `sums` the products by what they make."""

    graph: Graph
    quantized: bool
    readers: Mapping[str, Sequence[Node]] = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    nodes: list[Node | Sums] = field(default_factory=list)
    sums: dict[str, Sums] = field(default_factory=dict)

    def __post_init__(self):
        self.readers, self.producers = self.graph.consumers(), self.graph.producers()

    def run(self) -> Graph:
        for node in self.graph.nodes:
            value = next((value for value in node.inputs if value in self.sums), "")
            alone = value not in self.graph.outputs and len(self.readers.get(value, ())) == 1
            if not (value and alone and self._folds(self.sums.pop(value), value, node)):
                self.nodes.append(self._product(node) or node)
        changed = [part for part in self.nodes if isinstance(part, Sums) and part.changed]
        return self._written(changed) if changed else self.graph

    def _written(self, changed: Sequence[Sums]) -> Graph:
        builder = Builder.like(self.graph)
        moved = {node.name for sums in changed for node in sums.after}
        for part in self.nodes:
            if isinstance(part, Sums):
                nodes = part.chain(builder) if part.changed else [part.product]
            else:
                nodes = [] if part.name in moved else [part]
            for node in nodes:
                builder.add(node)
        return eliminate_dead_code(builder.finish(self.graph.outputs))

    def _folds(self, sums: Sums, value: str, node: Node) -> bool:
        """Lets a product take a node that follows it. Returns whether its constants do, so that
        there is no such node any more.
        """
        numbers, folded = self._numbers(sums, value, node), False
        if numbers is None:
            follows = sums.follow(node)
        elif node.op in ("mul", "div"):
            follows = folded = sums.times(numbers)
        elif sums.weights.biased or sums.after:
            follows = folded = sums.plus(numbers)
        else:
            follows = sums.add_bias(node, numbers)
        if follows:
            self.sums[node.outputs[0]], sums.output = sums, node.outputs[0]
        return folded

    def _numbers(self, sums: Sums, value: str, node: Node) -> Array | None:
        """The factor or the term of each channel; None where the node has neither."""
        known, shape = self._operand(value, node), self._shape(value)
        if known is not None and known.size == 1 and node.op in ("mul", "div"):
            made = self._shape(sums.product.outputs[0])
            return np.broadcast_to(known.reshape(-1), (made[sums.weights.axis],))
        if known is None or sums.moves():
            return None
        place = sums.weights.axis % len(shape)
        channels = tuple(extent if axis == place else 1 for axis, extent in enumerate(shape))
        aligned = (1,) * (len(shape) - known.ndim) + known.shape
        fits = aligned in (channels, (1,) * len(shape))
        return np.broadcast_to(known.reshape(-1), shape[place:place + 1]) if fits else None

    def _operand(self, value: str, node: Node) -> Array | None:
        """The constants that the node multiplies a value by, or adds to it, as factors or terms."""
        if node.op not in ("add", "sub", "mul", "div") or len(set(node.inputs)) < 2:
            return None
        place = node.inputs.index(value)
        known = self._known(node.inputs[1 - place])
        if known is None or place and node.op in ("sub", "div"):
            return None
        if node.op == "div":
            return 1 / known if known.all() else None
        return -known if node.op == "sub" else known

    def _known(self, value: str) -> Array | None:
        """A constant, as it is or dequantized."""
        quantized = self._quantized(value)
        return self.graph.constants.get(value) if quantized is None else quantized.numbers()

    def _quantized(self, value: str) -> QuantizedConstant | None:
        producer = self.producers.get(value)
        return None if producer is None else QuantizedConstant.of(self.graph.constants, producer)

    def _product(self, node: Node) -> Sums | None:
        """The node as a product whose constants can take others."""
        weights = find(node.op).weights
        if weights is None:
            return None
        quantized, count = self._quantized(node.inputs[1]), (
            self._shape(node.outputs[0])[weights.axis])
        weight = quantized or self.graph.constants.get(node.inputs[1])
        if weight is None or quantized is None and (self.quantized or not weights.biased) or (
                not weights.biased and len(self._shape(node.inputs[1])) != 2):
            return None
        known = [self._known(value) for value in node.inputs[2:]]
        bias = [None if array is None else of_channels(array, count) for array in known]
        if any(array is None for array in bias):
            return None
        sums = Sums(node, weights, weight, bias[0] if bias else None, node.outputs[0])
        self._take_number_before(sums)
        self.sums[node.outputs[0]] = sums
        return sums

    def _take_number_before(self, sums: Sums) -> None:
        """Lets a quantized weight take the number that a dequantized input is multiplied by."""
        value, *others = sums.product.inputs
        before = self.producers.get(value)
        if not isinstance(sums.weight, QuantizedConstant) or before is None:
            return
        for source in before.inputs:
            factor = self._operand(source, before) if before.op in ("mul", "div") else None
            if factor is None or factor.size > 1 or not self._is_dequantized(source):
                continue
            made = sums.weight.times(factor.reshape(()))
            if made is not None:
                sums.product = replace(sums.product, inputs=(source, *others))
                sums.weight, sums.changed = made, True

    def _is_dequantized(self, value: str) -> bool:
        producer = self.producers.get(value)
        return producer is not None and producer.op == "dequantizelinear"

    def _shape(self, value: str) -> tuple[int, ...]:
        return self.graph.values[value].shape
