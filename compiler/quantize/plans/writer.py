"""The QDQ form: int8 arithmetic written with float operators.

quantizelinear and dequantizelinear stand around every quantized layer, as ONNX Runtime's quantizer
puts them: activations uint8 with one scale and zero point a tensor (or int16, zero point 0),
weights int8 with one scale an output channel and zero point 0, biases int32 with scale = input
scale x weight scale. Weights of fewer bits are int8 with few values; with scales of groups they
are int16, integers of few bits times the factor of their group. Activations of fewer than 8 bits
are clipped before they are quantized. A relu or clip is left out where what follows clamps at its
bounds. What an instruction of the machine matches
is a `quantized_map` of the quantized tensors, with that instruction's meaning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.quantize.networks.matching import Match
from compiler.quantize.networks.names import Names
from compiler.quantize.networks.network import Layer, LayeredNetwork, bounds, built
from compiler.quantize.networks.weights import WEIGHTED, channel_axis, vector
from compiler.quantize.plans.meanings import meaning, sum_meaning
from compiler.quantize.plans.plan import Plan
from compiler.quantize.plans.rounding import nearest
from compiler.quantize.ranges.scales import Scale, quantized_bias

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Written:
    """A graph, and the name under which its readers see each value of the network."""

    graph: Graph
    names: Mapping[str, str]


def write(network: LayeredNetwork, plan: Plan, scales: Mapping[str, Scale]) -> Written:
    """The QDQ form of a network."""
    writer = QdqWriter(network, network.layers, plan, scales, network.outputs)
    return writer.written(network.inputs, network.outputs)


def write_part(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Mapping[str, Scale],
               layers: Sequence[Layer], outputs: Iterable[str] = ()) -> Written:
    """The QDQ form of some layers. Values that they read from others become inputs, with the types
    that the float network `graph` has; `outputs` are the values of the network that it returns.
    """
    writer = QdqWriter(network, layers, plan, scales, ())
    results = {value for layer in layers for value in (layer.value, layer.inner)}
    read = dict.fromkeys(value for layer in layers for value in layer.read
                         if value not in results and value not in network.tensors)
    return writer.written({value: graph.values[value] for value in read}, outputs)


@dataclass(slots=True)
class QdqWriter:
    """Nodes and constants of the QDQ form, in order; outputs of the network, in `results`, keep
    their names. The form in training is another class (`compiler.quantize.training.writer`).
    """

    network: LayeredNetwork
    layers: Sequence[Layer]
    plan: Plan
    scales: Mapping[str, Scale]
    results: Sequence[str]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)      # dequantized form of a value
    stored: dict[str, str] = field(default_factory=dict)    # quantized form of a value
    shared: dict[tuple, str] = field(default_factory=dict)  # dequantized constants
    names: Names = field(init=False)
    node_names: Names = field(init=False)

    def __post_init__(self):
        taken = {value for layer in self.layers
                 for value in (layer.value, layer.inner, *layer.read)}
        self.names = Names(taken.union(self.network.tensors, self.network.outputs))
        self.node_names = Names(name for layer in self.layers for name in layer.names)

    def written(self, inputs: Mapping[str, TensorType], outputs: Iterable[str]) -> Written:
        for layer in self.layers:
            self.add(layer)
        graph = built(self.network.graph.name, inputs, self.nodes,
                      {**self.network.tensors, **self.constants}, map(self.seen, outputs))
        return Written(graph, {layer.value: self.seen(layer.value) for layer in self.layers})

    def seen(self, value: str) -> str:
        """The name by which float readers know the value."""
        return self.real.get(value, value) if value in self.plan.quantized else value

    def add(self, layer: Layer) -> None:
        if layer.value in self.plan.quantized:
            self._add_quantized(layer)
        else:
            self._append(layer, [self.seen(value) for value in layer.node.inputs], layer.value,
                         clamped=True)

    def _add_quantized(self, layer: Layer) -> None:
        value = layer.value
        if value in self.network.matched:
            self.add_matched(layer, self.network.matched[value])
            return
        computed = (self.names.fresh(f"{value}_QuantizeLinear_Input") if value in self.results
                    else value)
        if layer.node.op in WEIGHTED and layer.node.inputs[1] in self.network.tensors:
            reads = self.weighted(layer.node, self.network.weight_bits.get(layer.inner, 8))
        else:
            reads = [self.dequantized(value) if value in self.scales else value
                     for value in layer.node.inputs]
        self._append(layer, reads, computed, self.clamps(layer))
        if value in self.scales:
            self.quantize(computed, value)

    def clamps(self, layer: Layer) -> bool:
        """True if the layer's clamp is written: where its quantization does not clamp as much."""
        clamp = layer.clamp and bounds(layer.clamp)
        return bool(clamp) and self.scales[layer.value].reaches(*clamp)

    def add_matched(self, layer: Layer, match: Match) -> None:
        for source in match.sources:
            self.dequantized(source)
        if match.weight:
            self._add_sums(layer, match)
            return
        made, told = (self.names.fresh(f"{layer.value}_Map_Output"),
                      meaning(match, layer.value, self.scales))
        constants = [self.constant(f"{layer.value}_numbers", array.reshape(match.shape))
                     for array in told.constants]
        self.nodes.append(Node("quantized_map", layer.name,
                               (*(self.stored[source] for source in match.sources), *constants),
                               (made,), {"function": told.text}))
        self._dequantize(made, layer.value)

    def _add_sums(self, layer: Layer, match: Match) -> None:
        weight = self.network.tensors[match.weight]
        steps = self.scales[match.weight].steps(weight).reshape(weight.shape[-2:])
        made = self.names.fresh(f"{layer.value}_Terms_Output")
        self.nodes.append(Node(
            "quantized_terms", layer.name, (self.stored[match.sources[0]], self.constant(
                f"{match.weight}_quantized", steps)), (made,),
            sum_meaning(match, layer.value, self.scales, weight.shape[-1])))
        self._dequantize(made, layer.value)

    def _append(self, layer: Layer, reads: Sequence[str], computed: str, clamped: bool) -> None:
        clamp = layer.clamp if clamped else None
        self.nodes.extend(layer.computing(reads, layer.inner if clamp else computed))
        if clamp:
            self.nodes.append(replace(clamp, outputs=(computed,)))

    def dequantized(self, value: str) -> str:
        """The value's dequantized form; a value that a float layer or no layer here makes is
        quantized first. Constants are stored quantized.
        """
        if value in self.network.tensors and value not in self.real:
            self.real[value] = self.constant_operand(value)
        elif value not in self.real:
            self.quantize(value, value)
        return self.real[value]

    def constant_operand(self, value: str) -> str:
        steps = self.scales[value].steps(self.network.tensors[value])
        real = self.names.fresh(f"{value}_DequantizeLinear_Output")
        self._node("DequantizeLinear", value,
                   [self.constant(f"{value}_quantized", steps), *self._parameters(value)], real)
        return real

    def quantize(self, computed: str, value: str) -> None:
        """Quantizes the float value `computed`, which stands for the network's `value`."""
        scale = self.scales[value]
        if scale.bits is not None and value not in self.plan.moved:
            computed = self._bounded(computed, value, scale)
        stored = self.names.fresh(f"{value}_QuantizeLinear_Output")
        self._node("QuantizeLinear", value, [computed, *self._parameters(value)], stored)
        self._dequantize(stored, value)

    def _bounded(self, computed: str, value: str, scale: Scale) -> str:
        """The value within what few bits reach."""
        low, high = scale.bounds()
        within = self.names.fresh(f"{value}_Clip_Output")
        self.nodes.append(Node("clip", self.node_names.fresh(f"{value}_Clip"), (computed,),
                               (within,), {"lo": low, "hi": high}))
        return within

    def _dequantize(self, stored: str, value: str) -> None:
        """Dequantizes the quantized form of the network's `value`."""
        real = (value if value in self.results and value in self.plan.quantized
                else self.names.fresh(f"{value}_DequantizeLinear_Output"))
        self._node("DequantizeLinear", value, [stored, *self._parameters(value)], real)
        self.stored[value], self.real[value] = stored, real

    def _parameters(self, value: str) -> list[str]:
        """The names of the scale and zero point; a moved value has those of its source."""
        source = self.plan.origin(value)
        if source not in self.parameters:
            scale = self.scales[source]
            self.parameters[source] = [self.constant(f"{source}_scale", np.array(scale.scale)),
                                       self.constant(f"{source}_zero_point", np.array(scale.zero))]
        return self.parameters[source]

    def weighted(self, node: Node, bits: int) -> list[str]:
        """The inputs of the node, with weights of so many bits and biases as dequantized integers.
        """
        data, weight, *more = node.inputs
        source, axis = self.scales[data].scale, channel_axis(node)
        chosen = self.network.rounded.get(node.outputs[0]) or nearest(self.network, node, bits,
                                                                      source)
        inputs = [self.dequantized(data), self._steps(weight, chosen.steps, chosen.scale, axis)]
        if more:
            groups = node.attrs.get("group", 1) if axis else 1
            both = source * np.tile(chosen.scale, groups)
            bias = vector(node, self.network.tensors)
            inputs.append(self._steps(more[0], quantized_bias(bias, both), both, 0))
        return inputs

    def _steps(self, name: str, steps: Array, scale: Array, axis: int) -> str:
        """Writes constant integers, dequantized with one scale for each channel along the axis;
        layers that share them share the nodes.
        """
        key = name, axis, scale.tobytes(), steps.tobytes()
        if key not in self.shared:
            self.shared[key] = self._dequantized_steps(name, steps, scale, axis)
        return self.shared[key]

    def _dequantized_steps(self, name: str, steps: Array, scale: Array, axis: int) -> str:
        if scale.size == 1:
            scale, axis = scale.reshape(()), 0
        constants = [self.constant(f"{name}_quantized", steps),
                     self.constant(f"{name}_scale", scale),
                     self.constant(f"{name}_zero_point", np.zeros(scale.shape, steps.dtype))]
        real = self.names.fresh(f"{name}_DequantizeLinear_Output")
        self._node("DequantizeLinear", name, constants, real, axis)
        return real

    def _node(self, role: str, value: str, inputs: Sequence[str], output: str, axis: int = 0
              ) -> None:
        name = self.node_names.fresh(f"{value}_{role}")
        self.nodes.append(Node(role.lower(), name, tuple(inputs), (output,), {"axis": axis}))

    def constant(self, name: str, array: Array) -> str:
        name = self.names.fresh(name)
        self.constants[name] = array
        return name
