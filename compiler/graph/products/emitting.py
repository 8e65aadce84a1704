"""Parts that all products in planes are made with: sums, and the numbers that these stand for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.products.factors import IMAGES
from compiler.graph.rewrite import Builder


@dataclass(slots=True)
class Emitting:
    """Adds nodes to the graph that is made in the place of another."""

    graph: Graph
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    signed: dict[str, str] = field(init=False, default_factory=dict)
    """The stored form of each value of uint8: products may share one."""

    def __post_init__(self):
        self.builder, self.producers = Builder.like(self.graph), self.graph.producers()

    def in_int8(self, value: str) -> tuple[str, int]:
        """The stored form of bytes, and by how much that is less."""
        if self.graph.values[value].dtype != "uint8":
            return value, 0
        if value not in self.signed:
            self.signed[value] = self.step("to_int8", value)
        return self.signed[value], 128

    def joined(self, node: Node, op: str, inputs: list[str], planes: int, value: str = "",
               **attrs: object) -> str:
        """The sums in int32 of an integer product in the place of a node."""
        bytes_ = self.builder.emit(op, node.name, inputs, self.builder.fresh(
            f"{node.outputs[0]}_planes"), planes=planes, **attrs)
        return self.builder.emit(
            "joined_planes", self.builder.fresh_node(f"{node.name}_joined"), [bytes_],
            value or self.builder.fresh(f"{node.outputs[0]}_sums"), axis=self.axis(node),
            planes=planes)

    def dequantized(self, node: Node, sums: str, scale: np.ndarray, point: np.ndarray) -> None:
        """Adds the numbers that sums are, and the bias where there is one."""
        factors = (self.constant(node, "scale", scale), self.constant(node, "zero_point", point))
        self.with_bias(node, lambda value: self.builder.emit(
            "dequantizelinear", self.builder.fresh_node(f"{node.name}_dequantize"),
            [sums, *factors], value, axis=self.axis(node) if scale.ndim else 0))

    def scaled(self, node: Node, sums: str, factors: str) -> None:
        """Adds sums times numbers that the run knows, and the bias where there is one."""
        self.with_bias(node, lambda value: self.builder.emit(
            "mul", self.builder.fresh_node(f"{node.name}_scaled"),
            [self.step("cast", sums, to="float32"), factors], value))

    def with_bias(self, node: Node, emit: Callable[[str], str]) -> None:
        """Adds what makes a value, which is the product's or, with a bias, is added to that."""
        bias, value = node.inputs[2:], node.outputs[0]
        whole = emit(self.builder.fresh(value) if bias else value)
        if bias:
            if node.op in IMAGES:
                count = self.graph.values[bias[0]].shape[0]
                bias = (self.step("reshape", bias[0], shape=(count, 1, 1)),)
            self.builder.emit("add", self.builder.fresh_node(f"{node.name}_bias"),
                              [whole, *bias], value)

    def axis(self, node: Node) -> int:
        """The axis of the outputs."""
        return 1 if node.op in IMAGES else len(self.graph.values[node.outputs[0]].shape) - 1

    def constant(self, node: Node, role: str, array: np.ndarray) -> str:
        """Adds a constant of a product."""
        return self.builder.add_constant(self.builder.fresh(f"{node.name}:{role}"), array)

    def step(self, op: str, *inputs: str, **attrs: object) -> str:
        """Adds an operator under a name that is free; returns its result."""
        value = self.builder.fresh(f"{inputs[0]}_{op}")
        return self.builder.emit(op, self.builder.fresh_node(value), inputs, value, **attrs)


def product_of(scales: np.ndarray, others: np.ndarray | float) -> np.ndarray | None:
    """The scales of sums in float32; None where it does not have them."""
    with np.errstate(over="ignore", under="ignore"):
        product = (scales.astype(np.float64) * others).astype(np.float32)
    return product if ((product > 0) & np.isfinite(product)).all() else None
