"""Two int8 for the sums of a product, so that functions of them are arithmetic of integers.

    x = high + low,  high = int8(x) of coarse steps,  low = int8(x - high) of fine ones

The product is computed twice; its sums meet the negative of the first int8 as they meet a residual.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph.functions.before import FLAT, between
from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.channel_maps import tail_of
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.integerize.maps import INPUTS, is_arithmetic
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.ops.integers.fixed_point import ScaleRefused
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.ops.sums.residuals import WITH_RESIDUAL, with_residual

Array = np.ndarray
Ends = tuple[float, float]

MOST_OFF = 0.5
"""Steps of the result; what its own arithmetic rounds comes on top."""

BITS = (7, 6, 5, 4, 3)
"""By how many low steps may be finer: int8 has room for what is rounded."""

MOST_VALUES = len(INPUTS) // 2
ROUNDED = 1.5           # fine steps that both may be off
COUNT = 1025            # numbers of which a function is tried
OTHERS = np.concatenate([side * np.geomspace(1e-3, 1e3, 25, dtype=np.float32) for side in (-1, 1)])
"""Numbers of another value."""


@dataclass(frozen=True, slots=True)
class BytePair:
    """The scale and the zero point of the int8 of coarse steps of some sums, and by how many bits
    the steps of the other are finer; its zero point is 0."""

    sums: str
    scale: float
    zp: int
    bits: int

    @property
    def fine(self) -> float:
        return self.scale / 2**self.bits


@dataclass(frozen=True, slots=True)
class PairPlace:
    """A function, of `nodes`, of the sums of products that pairs stand for."""

    pairs: tuple[BytePair, ...]
    nodes: tuple[Node, ...]


@dataclass(slots=True)
class PairSearch:
    graph: Graph
    view: QuantizedView
    places: Mapping[str, int]

    def place(self, quantize: Node) -> PairPlace | None:
        """A place for pairs before the function that is quantized."""
        parameters, value = self.view.parameters(quantize), quantize.inputs[0]
        tail = tail_of(self.graph, self.view.producers, value)
        found = self._region(tail.value if tail else value)
        if parameters is None or parameters[2] != "int8" or "litert" in quantize.attrs or (
                found is None):
            return None
        nodes, sums, others = found
        nodes += tail.nodes if tail else ()
        out = Stored(quantize.outputs[0], *parameters)
        try:
            ends = {value: self._ends(value) for value in (*sums, *others)}
        except StaysFloat:                      # a value that has several scales
            return None
        ends |= {value: self._seen(nodes, value, ends, out) for value in sums}
        pairs = [self._pair(value, *ends[value]) for value in sums]
        if None in pairs:
            return None
        place = PairPlace(tuple(filter(None, pairs)), tuple(nodes))
        return place if self._off(place, ends, out) <= MOST_OFF else None

    def _region(self, value: str) -> tuple[list[Node], list[str], list[str]] | None:
        """The arithmetic before a value, in order, the sums of products that it computes from, and
        quantized tensors; None where there are others, or too many, or nothing is multiplied."""
        nodes, sums, others, waiting = dict[str, Node](), list[str](), list[str](), [value]
        while waiting:
            value = waiting.pop()
            node = self.view.producers.get(value)
            constant = self.graph.constants.get(value)
            if value in {*nodes, *sums, *others} or constant is not None and constant.size == 1:
                continue
            if node is None:
                return None
            if self.view.is_computed(value):
                others.append(value)
            elif self._product(value) is not None:
                sums.append(value)
            elif find(node.op).kind is Kind.ELEMENTWISE and is_arithmetic(
                    node, [self.graph.values[each] for each in node.inputs]):
                nodes[value] = node
                waiting += node.inputs
            else:
                return None
        bends = any(node.op == "mul" and not {*node.inputs} & self.graph.constants.keys()
                    for node in nodes.values())
        if not sums or len(sums) + len(others) > MOST_VALUES or not bends:
            return None
        return [nodes[made] for made in sorted(nodes, key=self.places.__getitem__)], sums, others

    def _product(self, value: str) -> Node | None:
        """The convolution or dense layer of quantized data and constants that makes a value."""
        node = self.view.producers.get(value)
        known = node is not None and find(node.op).weights is not None and (
            self._weight(node) is not None and self.view.is_computed(node.inputs[0]))
        return node if known else None

    def _weight(self, node: Node) -> QuantizedConstant | None:
        maker = self.view.producers.get(node.inputs[1])
        return maker and QuantizedConstant.of(self.graph.constants, maker)

    def _ends(self, value: str) -> Ends:
        """The least and the greatest number that a value can be. Raises StaysFloat."""
        node = self._product(value)
        if node is None:
            x = self.view.activation(value)
            type_ = np.iinfo(x.dtype)
            return (type_.min - x.zp) * x.scale, (type_.max - x.zp) * x.scale
        weight, weights = self._weight(node), find(node.op).weights
        assert weight is not None and weights is not None
        axis = weights.scale_axis(node.attrs)
        rows = np.moveaxis(weight.numbers(), axis, 0).reshape(weight.integers.shape[axis], -1)
        low, high = self._ends(node.inputs[0])
        parts = rows * low, rows * high
        bias = self._bias(node)
        if bias.shape[-1:] == (len(rows),) == (bias.size,):
            least = most = bias.reshape(-1)
        else:                               # of rows, or of channels that share weights
            least, most = bias.min(), bias.max()
        return (float((np.minimum(*parts).sum(axis=1) + least).min()),
                float((np.maximum(*parts).sum(axis=1) + most).max()))

    def _bias(self, node: Node) -> Array:
        if len(node.inputs) < 3:
            return np.zeros(1)
        maker = self.view.producers.get(node.inputs[2])
        known = self.graph.constants.get(node.inputs[2])
        if known is None:
            constant = maker and QuantizedConstant.of(self.graph.constants, maker)
            assert constant is not None
            known = constant.numbers()
        return known

    def _seen(self, nodes: Sequence[Node], value: str, ends: Mapping[str, Ends], out: Stored
              ) -> Ends:
        """The ends of the numbers between which results change, for whatever others there are."""
        numbers = np.linspace(*ends[value], COUNT, dtype=np.float32)
        rest = [each for each in ends if each != value]
        known = {each: np.clip(OTHERS, *ends[each]).reshape(-1, *[1] * place)
                 for place, each in enumerate(rest)}
        wide = numbers.reshape(-1, *[1] * len(rest))
        results = self._steps(nodes, known | {value: wide}, out)
        results = results.reshape(COUNT, -1)
        first, last = (int(np.argmin((np.abs(side - side[0]) <= FLAT).all(axis=1)))
                       for side in (results, results[::-1]))
        return (float(numbers[max(first - 1, 0)]), float(numbers[-max(last, 1)]))

    def _steps(self, nodes: Sequence[Node], known: Mapping[str, Array], out: Stored) -> Array:
        """The results for numbers [...], in steps, [..., channels]."""
        made = {value: numbers[..., None] for value, numbers in known.items()}
        for node in nodes:
            made[node.outputs[0]] = np.asarray(evaluate_node(node, [
                made[value] if value in made else self.graph.constants[value].reshape(-1)
                for value in node.inputs]))
        return np.clip(made[nodes[-1].outputs[0]] / np.float32(out.scale) + out.zp, -128, 127)

    def _off(self, place: PairPlace, ends: Mapping[str, Ends], out: Stored) -> float:
        """The steps by which results of random numbers differ by what is rounded of sums."""
        rng = np.random.default_rng(0)
        known = {value: rng.uniform(*span, COUNT).astype(np.float32)
                 for value, span in ends.items()}
        first = self._steps(place.nodes, known, out)
        return sum(float(np.abs(self._steps(place.nodes, known | {
            pair.sums: known[pair.sums] + np.float32(ROUNDED * pair.fine)}, out) - first).max())
                   for pair in place.pairs)

    def _pair(self, value: str, low: float, high: float) -> BytePair | None:
        """The finest pair of which the product has the integer forms."""
        made = between(low, high)
        return next((pair for bits in BITS if self._has_forms(
            pair := BytePair(value, made.scale, made.zp, bits))), None)

    def _has_forms(self, pair: BytePair) -> bool:
        """True if the product has the integer forms that both int8 need."""
        core = self.view.producers[pair.sums]
        form, ends = find(core.op).integer, (-np.inf, np.inf)
        assert form is not None
        high, low = Stored("", pair.scale, pair.zp), Stored("", pair.fine, 0)
        try:
            made = [form(self.view, core, each, ends) for each in (high, low)]
            if not {each.op for each in made} <= {*WITH_RESIDUAL}:
                return False
            with_residual(self.view, made[1], high, low, (1, -1))
        except (StaysFloat, ScaleRefused):
            return False
        return self.view.activation(core.inputs[0]).dtype == "int8"


def read_by(places: Collection[PairPlace]) -> dict[str, BytePair]:
    """The widest pair of each product."""
    found: dict[str, BytePair] = {}
    for place in places:
        for pair in place.pairs:
            if pair.sums not in found or pair.scale > found[pair.sums].scale:
                found[pair.sums] = pair
    return found
