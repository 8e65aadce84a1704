"""Products with constant weights, and the constants that follow them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.rewrite import Builder
from compiler.ops.records.operator import Kind
from compiler.ops.records.weights import Weights
from compiler.ops.registry import find

Array = np.ndarray


@dataclass(slots=True, eq=False)
class Sums:
    """A product, whose weight and bias take the constants that follow. `after` are other nodes that
    follow: the sum with the bias, where that is a node of its own, functions like relu, and what
    moves elements.
    """

    product: Node
    weights: Weights
    weight: Array | QuantizedConstant
    bias: Array | None
    output: str                     # what the last of these nodes and constants makes
    added: Node | None = None
    functions: list[Node] = field(default_factory=list)
    changed: bool = False

    @property
    def after(self) -> tuple[Node, ...]:
        return (*((self.added,) if self.added else ()), *self.functions)

    def times(self, factors: Array) -> bool:
        """Multiplies each channel by a number. Returns whether weight and functions allow it."""
        bends = any(find(node.op).kind is Kind.ELEMENTWISE for node in self.functions)
        if bends and not (factors > 0).all():
            return False
        made = self._scaled(factors)
        if made is None:
            return False
        self.weight, self.changed = made, True
        self.bias = None if self.bias is None else self.bias * factors
        return True

    def _scaled(self, factors: Array) -> Array | QuantizedConstant | None:
        attrs, weight = self.product.attrs, self.weight
        if not isinstance(weight, QuantizedConstant):
            return self.weights.scaled(attrs, weight, outward=factors)
        ones = np.ones(weight.integers.shape, np.float32)
        made = weight.times(self.weights.scaled(attrs, ones, outward=factors))
        return made if made is not None and len(made.axes()) < 2 else None

    def plus(self, terms: Array) -> bool:
        """Adds a number to each channel. Returns whether functions allow it."""
        if self.functions:
            return False
        self.bias = terms if self.bias is None else self.bias + terms
        self.changed = True
        return True

    def add_bias(self, node: Node, terms: Array) -> bool:
        """Lets the sum with a bias follow. Returns True."""
        self.added, self.bias = replace(node, op="add"), terms
        self.changed = self.changed or node.op != "add"
        return True

    def follow(self, node: Node) -> bool:
        """Lets another node follow, where factors may come before it as well as after it: above
        zero if it is a function, one for all if it moves elements. Returns whether they may.
        """
        operator = find(node.op)
        passes = isinstance(self.weight, QuantizedConstant) and (
            operator.homogeneous and operator.kind is Kind.ELEMENTWISE
            or operator.picks and operator.kind is Kind.INJECTIVE)
        if passes:
            self.functions.append(node)
        return passes

    def moves(self) -> bool:
        """True if elements of channels are no longer where the product has them."""
        return any(find(node.op).picks for node in self.functions)

    def chain(self, builder: Builder) -> list[Node]:
        """The product with its new constants, which are added, and what follows."""
        weight, *bias = self._constants(builder)
        nodes = [replace(self.product, inputs=(self.product.inputs[0], weight,
                                               *(() if self.added else bias)))]
        if self.added is not None:
            nodes.append(replace(self.added, inputs=(*nodes[-1].outputs, *bias)))
        for function in self.functions:
            nodes.append(replace(function, inputs=nodes[-1].outputs))
        return [*nodes[:-1], replace(nodes[-1], outputs=(self.output,))]

    def _constants(self, builder: Builder) -> Iterator[str]:
        weight, bias = (f"{self.product.name}:{role}" for role in ("weight", "bias"))
        if isinstance(self.weight, QuantizedConstant):
            value = builder.fresh(weight)
            yield self.weight.add_to(builder, value, builder.fresh_node(value), value)
        else:
            yield builder.add_constant(builder.fresh(weight), self.weight)
        if self.bias is not None:
            yield builder.add_constant(builder.fresh(bias), self.bias)
