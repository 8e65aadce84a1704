"""The graph that `integerize` makes: integer operators, their constants, and what computes their
inputs."""

from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.rewrite import Builder
from compiler.graph.verify import GraphRefused
from compiler.ops.records.integer_forms import IntegerNode, StaysFloat, Stored
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import infer


@dataclass(slots=True)
class Writing:
    """A graph, the one that takes its place, and the view of quantized tensors in the first."""

    graph: Graph
    accumulator_bits: int
    exact: bool
    builder: Builder = field(init=False)
    view: QuantizedView = field(init=False)

    def __post_init__(self):
        self.builder = Builder.like(self.graph)
        self.view = QuantizedView(self.graph, self.graph.producers(), self.constant,
                                  accumulator_bits=self.accumulator_bits, exact=self.exact)

    def check_type(self, core: Node, out: Stored, *steps: IntegerNode) -> None:
        """StaysFloat where integer operators, of which each reads the one before, refuse what they
        read, compute from other bits than the result has, or give another type than it has.
        """
        wanted, made = TensorType(self.view.shape(out.value), out.dtype), None
        for step in steps:
            for value in step.inputs:
                dtype = self._type(value, core).dtype
                if dtype not in (out.dtype, "int64"):       # an int64 is a position
                    raise StaysFloat(f"its input {value!r} is {dtype} and its result {out.dtype}")
            made = self._type(step, core, made)
        if made != wanted:
            raise StaysFloat(f"on integers it would be {made}, not {wanted}")

    def _type(self, part: str | IntegerNode, core: Node, before: TensorType | None = None
              ) -> TensorType:
        """The type of a value, or of what an operator makes of `before` and its own inputs."""
        if isinstance(part, str):
            return self.builder.values[part]
        first = () if before is None else (before,)
        names = (*(core.name for _ in first), *map(str, part.inputs),
                 *(f"{core.name}:{role}" for role, _ in part.constants))
        types = (*first, *(self._type(each, core) for each in part.inputs),
                 *(TensorType.of(array) for _, array in part.constants))
        try:
            return infer(Node(part.op, core.name, names, core.outputs, part.attrs), types)
        except TypeRefused as reason:
            raise StaysFloat(str(reason).removeprefix(f"{core.name}: ")) from None

    def step(self, op: str, stem: str, *inputs: str, **attrs: object) -> str:
        """Adds an operator under a name that is free; returns its result."""
        value = self.builder.fresh(stem)
        return self.builder.emit(op, self.builder.fresh_node(value), inputs, value, **attrs)

    def constant(self, stem: str, array: np.ndarray) -> str:
        """Adds a constant under a name that is free; returns that."""
        return self.builder.add_constant(self.builder.fresh(stem), array)

    def define(self, value: str, integer: IntegerNode, name: str) -> None:
        """Adds the node that defines the stored form of `value`, and the value itself where it has
        no sign: whoever reads the name gets the number."""
        inputs, type_ = self.inputs(integer, name), self.graph.values[value]
        dtype, wanted = type_.dtype, replace(type_, dtype=type_.dtype.removeprefix("u"))
        stored = value if dtype == wanted.dtype else self.builder.fresh(f"{value}_stored")
        self.builder.emit(integer.op, name, inputs, stored, **integer.attrs)
        if self.builder.values[stored] != wanted:
            raise GraphRefused(f"{name}: the stored form of {value!r} must be {wanted}, not "
                               f"{self.builder.values[stored]}")
        self.view.stored[value] = stored
        if stored != value:
            self.builder.emit(f"to_{dtype}", self.builder.fresh_node(f"{value}_to_{dtype}"),
                              [stored], value)

    def inputs(self, integer: IntegerNode, name: str) -> list[str]:
        """Adds what computes inputs of an operator, and its constants."""
        made = []
        for part in integer.inputs:
            if isinstance(part, IntegerNode):
                value = self.builder.fresh(f"{name}:{part.op}")
                self.builder.emit(part.op, self.builder.fresh_node(value),
                                  self.inputs(part, name), value, **part.attrs)
                part = value
            made.append(part)
        return made + [self.constant(f"{name}:{role}", array) for role, array in integer.constants]
