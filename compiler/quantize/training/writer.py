"""The form of a quantized network in training: its QDQ form with floats that are rounded.

Weights, biases and activations are those of the QDQ form to the bit, but floats: `fake_quantize`
stands where that quantizes, also for weights, which are learned as floats. Each step size is its
start times 1 plus a number that is learned, ``NAME_step``, and at least `LEAST` of its start; so a
rate means the same for all of them. Zero points stay. Of weights it is then changed by at most
2**-17, so that the requantization of the layer has a multiplier of `MULTIPLIER_BITS` bits: so the
integer form rounds the same numbers.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.quantize.networks.matching import Match
from compiler.quantize.networks.network import Layer, LayeredNetwork, RoundedWeight, built
from compiler.quantize.networks.weights import WEIGHTED, channel_axis, outputs
from compiler.quantize.plans.plan import Plan
from compiler.quantize.plans.rounding import nearest
from compiler.quantize.plans.writer import QdqWriter
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import BIAS_LIMIT, Scale

LEAST = np.float32(1 / 16)
"""The part of its start that a step size keeps."""
MULTIPLIER_BITS = 16
SPLIT = np.float32(2**(24 - MULTIPLIER_BITS) + 1)
"""A factor by which a float32 is split into its leading bits and the rest (T. J. Dekker, 1971)."""

Array = np.ndarray
Arrays = Mapping[str, Array]
Scales = Mapping[str, Scale]


@dataclass(frozen=True, slots=True)
class StepSize:
    """Step sizes: the constant that is learned, from 0; their value in the graph; their start."""

    parameter: str
    value: str
    start: Array

    def of(self, arrays: Arrays) -> Array:
        """As they are now, to the bits of the graph."""
        return self.start * np.maximum(np.float32(1) + arrays[self.parameter], LEAST)


@dataclass(frozen=True, slots=True)
class WeightSize:
    """The step sizes of a layer's weights, for int8 of `bits` of this constant, along an axis. They
    are fitted to the step size of what the first layer with it reads and of what that makes.
    """

    size: StepSize
    weight: str
    axis: int
    bits: int
    value: str
    around: tuple[StepSize, StepSize]

    def of(self, arrays: Arrays) -> Array:
        """As they are now, to the bits of the graph."""
        source, result = (size.of(arrays) for size in self.around)
        ratio = source * self.size.of(arrays) / result
        wide = ratio * SPLIT
        return (wide - (wide - ratio)) * result / source

    @property
    def ends(self) -> tuple[int, int]:
        return -(1 << self.bits - 1), (1 << self.bits - 1) - 1

    def rounded(self, weight: Array, arrays: Arrays) -> RoundedWeight:
        """The integers of the weight."""
        scale = self.of(arrays)
        wide = scale.reshape([-1 if place == self.axis else 1 for place in range(weight.ndim)])
        return RoundedWeight(np.rint((weight / wide).clip(*self.ends)).astype(np.int8), scale)


@dataclass(frozen=True, slots=True)
class TrainingForm:
    """The graph in training and its parameters, constants by name; `activations` has the step size
    of each quantized value, `weights` those of the weights of layers, by `Layer.inner`.
    """

    graph: Graph
    parameters: tuple[str, ...]
    activations: Mapping[str, StepSize]
    weights: Mapping[str, WeightSize]

    def learned(self, network: LayeredNetwork, scales: Scales, arrays: Arrays
                ) -> tuple[dict[str, Array], dict[str, RoundedWeight], dict[str, Scale]]:
        """The constants of the network, the integers of its layers' weights, and the scales, with
        these parameters.
        """
        tensors = {name: arrays.get(name, array) for name, array in network.tensors.items()}
        rounded = {inner: size.rounded(tensors[size.weight], arrays)
                   for inner, size in self.weights.items()}
        return tensors, rounded, {
            value: replace(scale, scale=np.float32(self.activations[value].of(arrays)))
            if value in self.activations else scale for value, scale in scales.items()}


def training_form(network: LayeredNetwork, plan: Plan, scales: Scales) -> TrainingForm:
    """The form of a network in training. Raises QuantizeRefused for layers without a gradient."""
    writer = _TrainingWriter(network, network.layers, plan, scales, network.outputs)
    for layer in network.layers:
        writer.add(layer)
    graph = built(network.graph.name, network.inputs, writer.nodes,
                  {**network.tensors, **writer.constants}, map(writer.seen, network.outputs))
    learned = [name for layer in network.layers if layer.node.op in WEIGHTED
               for name in layer.node.inputs[1:] if name in graph.constants
               and graph.values[name].dtype == "float32"]
    sizes = [size.parameter for size in writer.sizes.values()]
    return TrainingForm(graph, tuple(dict.fromkeys((*learned, *sizes))), {
        value: writer.sizes[group] for value, group in plan.groups.items()
        if group in writer.sizes}, writer.weights)


@dataclass(slots=True)
class _TrainingWriter(QdqWriter):
    """`sizes` are known by the group of a value, or by a weight, its start and its axis."""

    sizes: dict[Hashable, StepSize] = field(default_factory=dict)
    weights: dict[str, WeightSize] = field(default_factory=dict)
    shared_numbers: dict[str, str] = field(default_factory=dict)
    shared_weights: dict[Hashable, WeightSize] = field(default_factory=dict)

    def clamps(self, layer: Layer) -> bool:
        return layer.clamp is not None          # a step size may grow

    def add_matched(self, layer: Layer, match: Match) -> None:
        raise QuantizeRefused(
            f"{self.network.place}: {layer.name} cannot be trained: it is computed as the "
            f"machine's instruction {match.pattern.name}; quantize without the machine")

    def constant_operand(self, value: str) -> str:
        self.quantize(value, value)
        return self.real[value]

    def quantize(self, computed: str, value: str) -> None:
        if value in self.plan.moved and value not in self.results:
            self.real[value] = computed         # its elements are rounded already
            return
        scale, size = self.scales[value], self._of_value(value)
        ends = [limit - int(scale.zero) for limit in scale.limits]
        kept = value in self.results and value in self.plan.quantized
        self.real[value] = self._rounded(value, computed, size.value, 0, ends,
                                         value if kept else "")

    def weighted(self, node: Node, bits: int) -> list[str]:
        data, weight, *more = node.inputs
        real, source = self.dequantized(data), self._of_value(data)
        axis, inner = channel_axis(node), node.outputs[0]
        start = (self.network.rounded.get(inner) or nearest(
            self.network, node, bits, self.scales[data].scale)).scale
        key = weight, axis, bits, start.tobytes()
        self.weights[inner] = self.shared_weights.get(key) or self._weight_size(
            node, self._size(key, weight, start), axis, bits)
        size = self.shared_weights[key] = self.weights[inner]
        if key not in self.shared:
            self.shared[key] = self._rounded(weight, weight, size.value, axis, size.ends)
        inputs = [real, self.shared[key]]
        if more:
            groups = node.attrs.get("group", 1) if axis else 1
            both = self._emit("mul", more[0], [source.value, self._emit(
                "concat", more[0], [size.value] * groups, axis=0)])
            inputs.append(self._rounded(more[0], self._by_channel(node), both, 0,
                                        (-BIAS_LIMIT, BIAS_LIMIT)))
        return inputs

    def _weight_size(self, node: Node, size: StepSize, axis: int, bits: int) -> WeightSize:
        """The step sizes of a weight, fitted to what the layer reads and makes."""
        data, weight = node.inputs[:2]
        made = next(layer.value for layer in self.layers if layer.inner == node.outputs[0])
        source, result = self._of_value(data), self._of_value(made)
        product = self._emit("mul", weight, [source.value, size.value])
        ratio = self._emit("div", weight, [product, result.value])
        wide = self._emit("mul", weight, [ratio, self._number("split", SPLIT)])
        rest = self._emit("sub", weight, [wide, ratio])
        fitted = self._emit("mul", weight, [self._emit("sub", weight, [wide, rest]), result.value])
        return WeightSize(size, weight, axis, bits, self._emit("div", weight, [
            fitted, source.value]), (source, result))

    def _of_value(self, value: str) -> StepSize:
        """The step size of a quantized value."""
        group = self.plan.groups[value]
        return self._size(group, group, np.array(self.scales[value].scale))

    def _by_channel(self, node: Node) -> str:
        """The bias of a node as one number for each output channel."""
        bias, count = node.inputs[2], outputs(node, self.network.tensors[node.inputs[1]])
        row = self._emit("reshape", bias, [bias], shape=(self.network.tensors[bias].size,))
        return self._emit("expand", bias, [row], shape=(count,))

    def _size(self, key: Hashable, name: str, start: Array) -> StepSize:
        """The step size that begins so, computed once."""
        if key not in self.sizes:
            learned = self.constant(f"{name}_step", np.zeros_like(start))
            grown = self._emit("add", name, [learned, self._number("one", 1)])
            kept = self._emit("maximum", name, [grown, self._number("least", LEAST)])
            first = self.constant(f"{name}_first_step", start)
            self.sizes[key] = StepSize(learned, self._emit("mul", name, [first, kept]), start)
        return self.sizes[key]

    def _number(self, name: str, number: float | np.float32) -> str:
        if name not in self.shared_numbers:
            self.shared_numbers[name] = self.constant(name, np.array(number, np.float32))
        return self.shared_numbers[name]

    def _rounded(self, name: str, computed: str, size: str, axis: int, ends: Sequence[int],
                 result: str = "") -> str:
        return self._emit("fake_quantize", name, [computed, size], result, axis=axis, lo=ends[0],
                          hi=ends[1])

    def _emit(self, op: str, name: str, inputs: Sequence[str], result: str = "", **attrs: Any
              ) -> str:
        """Adds a node that serves what has this name; returns its result."""
        result = result or self.names.fresh(f"{name}_{op}")
        self.nodes.append(Node(op, self.node_names.fresh(f"{name}_{op}"), tuple(inputs), (result,),
                               attrs))
        return result
