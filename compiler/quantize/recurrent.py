"""LSTMs as the operators that they stand for, so that their products can be quantized.

The input's products are one layer for all steps; each step has a product of its own by the
recurrent weights, whose result is added in int8; sigmoids and all that follows stay in float.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from compiler.quantize.nodes import Names, attribute

__all__ = ["unrolled"]

Array = np.ndarray
PLAIN = {"clip": 0.0, "input_forget": 0, "layout": 0}
"""Attributes, and what they must be; `activations` must be those that ONNX takes unless told."""

MOST_STEPS = 1000
"""Each becomes a dozen nodes, which are measured one by one."""

ACTIVATIONS = [b"Sigmoid", b"Tanh", b"Tanh"]


def unrolled(model: ModelProto, shapes: Mapping[str, Sequence[int]], whole: Collection[str] = ()
             ) -> ModelProto:
    """The model with its LSTMs unrolled over time, but for those named in `whole` and those that
    are not plain: with computed weights, lengths, states, peepholes, other activations, or a number
    of steps that `shapes` do not give or that is above `MOST_STEPS`.
    """
    constants = {one.name: one for one in model.graph.initializer}
    plain = [node for node in model.graph.node if node.op_type == "LSTM"
             and node.name not in whole and _is_plain(node, shapes, constants)]
    if not plain:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    names = Names((*constants, *shapes, *(value for node in model.graph.node
                                          for value in node.output)))
    del made.graph.node[:]
    for node in model.graph.node:
        if node not in plain:
            made.graph.node.append(node)
            continue
        weights = [numpy_helper.to_array(constants[name]) for name in node.input[1:4] if name]
        unrolling = _Unrolling(node, names, shapes[node.input[0]][0])
        unrolling.run(*weights)
        made.graph.node.extend(unrolling.nodes)
        made.graph.initializer.extend(unrolling.constants)
    return made


def _is_plain(node: NodeProto, shapes: Mapping[str, Sequence[int]], constants: Collection[str]
              ) -> bool:
    steps = shapes.get(node.input[0], ())
    ways = 2 if attribute(node, "direction", "forward") == "bidirectional" else 1
    return (len(steps) == 3 and 0 < steps[0] <= MOST_STEPS and not any(node.input[4:])
            and all(name in constants for name in node.input[1:4] if name)
            and all(attribute(node, name, value) == value for name, value in PLAIN.items())
            and attribute(node, "activations", ACTIVATIONS * ways) == ACTIVATIONS * ways)


@dataclass
class _Unrolling:
    """One LSTM. Values have ONNX's shapes: x [steps, batch, depth], a state [1, batch, width]."""

    node: NodeProto
    names: Names
    steps: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list = field(default_factory=list)

    def run(self, weights: Array, recurrent: Array, biases: Array | None = None) -> None:
        backwards = attribute(self.node, "direction", "forward") == "reverse"
        ways = [self._direction(weights[number], recurrent[number],
                                None if biases is None else biases[number],
                                backwards or number == 1) for number in range(len(weights))]
        for place, output in enumerate(self.node.output):
            if output:
                parts = [way[place] for way in ways]
                self._add("Concat", "joined", parts, output=output, axis=int(place == 0))

    def _direction(self, weight: Array, recurrent: Array, bias: Array | None, backwards: bool
                   ) -> tuple[str, str, str]:
        """All states [steps, 1, batch, width], the last one, and the last of the cell."""
        width = recurrent.shape[1]
        given = self._add("MatMul", "inputs", [self.node.input[0], self._constant(weight.T)])
        if bias is not None:
            given = self._add("Add", "bias", [given, self._constant(bias.reshape(2, -1).sum(0))])
        states, state, cell, turned = [""] * self.steps, "", "", self._constant(recurrent.T)
        for step in reversed(range(self.steps)) if backwards else range(self.steps):
            sums = self._slice(given, 0, step, step + 1)
            if state:
                moved = self._add("MatMul", "recurrent", [state, turned])
                sums = self._add("Add", "sums", [moved, sums])
            state, cell = self._cell(sums, cell, width)
            states[step] = state
        stacked = self._add("Concat", "stacked", states, axis=0)
        axes = self._constant(np.array([1]))
        return self._add("Unsqueeze", "direction", [stacked, axes]), state, cell

    def _cell(self, sums: str, cell: str, width: int) -> tuple[str, str]:
        """The next state and cell; gates are input, output, forget, and the new value."""
        gates = self._add("Sigmoid", "gates", [self._slice(sums, 2, 0, 3 * width)])
        new = self._add("Tanh", "new", [self._slice(sums, 2, 3 * width, 4 * width)])
        enter, leave, keep = (self._slice(gates, 2, place * width, (place + 1) * width)
                              for place in range(3))
        made = self._add("Mul", "entered", [enter, new])
        if cell:
            made = self._add("Add", "cell", [self._add("Mul", "kept", [keep, cell]), made])
        return self._add("Mul", "state", [leave, self._add("Tanh", "shown", [made])]), made

    def _slice(self, value: str, axis: int, begin: int, end: int) -> str:
        return self._add("Slice", "slice", [value, *(self._constant(np.array([number]))
                                                     for number in (begin, end, axis))])

    def _constant(self, array: Array) -> str:
        name = self.names.fresh(f"{self.node.name}.constant")
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _add(self, op: str, role: str, inputs: Sequence[str], output: str = "", **attributes
             ) -> str:
        name = self.names.fresh(f"{self.node.name}.{role}")
        self.nodes.append(helper.make_node(op, inputs, [output or name], name, **attributes))
        return output or name
