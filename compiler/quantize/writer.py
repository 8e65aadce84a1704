"""The QDQ form: int8 arithmetic written with float operators.

QuantizeLinear and DequantizeLinear stand around every quantized layer, as ONNX Runtime's quantizer
puts them: activations uint8 with one scale and zero point a tensor, weights int8 with one scale an
output channel and zero point 0, biases int32 with scale = input scale x weight scale. A Relu or
Clip is left out where the QuantizeLinear behind it clamps at its bounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper

from compiler.graph.graph import Graph, TensorType
from compiler.quantize.network import Layer, Network, bounds, model_of, plain
from compiler.quantize.nodes import Names, attribute, rewired
from compiler.quantize.plan import Plan
from compiler.quantize.scales import Scale, quantized_bias, quantized_weight
from compiler.quantize.weights import WEIGHTED, channel_axis, vector

__all__ = ["Written", "write", "write_part"]

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Written:
    """A model, and under which name it has each value of the network as readers see it."""

    model: ModelProto
    names: Mapping[str, str]


def write(network: Network, plan: Plan, scales: Mapping[str, Scale]) -> Written:
    """The QDQ form of a network."""
    writer = _Writer(network, network.layers, plan, scales, network.outputs)
    return writer.written(network.inputs, network.model.graph.output)


def write_part(network: Network, graph: Graph, plan: Plan, scales: Mapping[str, Scale],
               layers: Sequence[Layer], outputs: Iterable[str] = ()) -> Written:
    """The QDQ form of some layers, with what they read from others as inputs of the types that
    `graph`, the float network, has; `outputs` are the values of the network that it gives.
    """
    layers = [*_makers(network, graph, layers), *layers]
    writer = _Writer(network, layers, plan, scales, [])
    made = {value for layer in layers for value in (*layer.made, layer.inner)}
    read = dict.fromkeys(value for layer in layers for value in layer.read
                         if value not in made and value not in network.tensors)
    writer.constants.update((value, graph.constants[value]) for value in read
                            if value in graph.constants)
    inputs = [_input(value, graph.values[value]) for value in read
              if value not in graph.constants]
    return writer.written(inputs, outputs)


def _makers(network: Network, graph: Graph, layers: Sequence[Layer]) -> list[Layer]:
    """The layers that make what these read and the graph cannot hold: lists, empty tensors."""
    made = {value for layer in layers for value in layer.made}

    def missing(layers: Iterable[Layer]) -> list[str]:
        return [value for layer in layers for value in layer.read
                if not (value in graph.values or value in network.tensors or value in made)]

    if not missing(layers):
        return []
    makers = {value: layer for layer in network.layers for value in layer.made}
    chosen: dict[Layer, None] = {}

    def choose(layers: Iterable[Layer]) -> None:
        for value in missing(layers):
            if value in makers:
                choose([makers[value]])
                chosen.setdefault(makers[value])

    choose(layers)
    return list(chosen)


def _input(value: str, type_: TensorType) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype))
    return helper.make_tensor_value_info(value, code, type_.shape)


@dataclass(slots=True)
class _Writer:
    """Nodes and constants of the QDQ form, in order."""

    network: Network
    layers: Sequence[Layer]
    plan: Plan
    scales: Mapping[str, Scale]
    results: Sequence[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)      # dequantized form of a value
    shared: dict[tuple, str] = field(default_factory=dict)  # dequantized constants
    names: Names = field(init=False)
    node_names: Names = field(init=False)

    def __post_init__(self):
        taken = {value for layer in self.layers
                 for value in (*layer.made, layer.inner, *layer.read)}
        self.names = Names(taken.union(self.network.tensors, self.network.outputs))
        self.node_names = Names(name for layer in self.layers for name in layer.names)

    def written(self, inputs: Sequence[onnx.ValueInfoProto],
                outputs: Iterable[onnx.ValueInfoProto | str]) -> Written:
        for layer in self.layers:
            self.add(layer)
        results = [onnx.ValueInfoProto(name=self.seen(one)) if isinstance(one, str) else one
                   for one in outputs]
        model = model_of(self.network.model, self.nodes,
                         {**self.network.tensors, **self.constants}, inputs, results)
        return Written(model, {value: self.seen(value) for layer in self.layers
                               for value in layer.made})

    def seen(self, value: str) -> str:
        """The name by which readers in float know the value."""
        return self.real.get(value, value) if value in self.plan.quantized else value

    def add(self, layer: Layer) -> None:
        if layer.value in self.plan.quantized:
            self._add_quantized(layer)
        else:
            reads = [self.seen(value) for value in layer.node.input]
            self._append(layer, reads, layer.value, clamped=True)

    def _add_quantized(self, layer: Layer) -> None:
        value = layer.value
        computed = (self.names.fresh(f"{value}_QuantizeLinear_Input") if value in self.results
                    else value)
        if layer.node.op_type in WEIGHTED and layer.node.input[1] in self.network.tensors:
            reads = self._weighted(layer.node)
        else:
            reads = [self._dequantized(one) if one in self.scales else one
                     for one in layer.node.input]
        clamp = layer.clamp and bounds(layer.clamp, self.network.tensors)
        clamped = bool(clamp) and self.scales[value].reaches(*clamp)
        self._append(layer, reads, computed, clamped)
        if value in self.scales:
            self._quantize(computed, value)

    def _append(self, layer: Layer, reads: Sequence[str], computed: str, clamped: bool) -> None:
        rest = list(layer.node.output)[1:]
        if layer.clamp is None or not clamped:
            self.nodes.extend(plain(rewired(layer.node, reads, [computed, *rest])))
            return
        self.nodes.extend(plain(rewired(layer.node, reads)))
        self.nodes.append(rewired(layer.clamp, [layer.inner, *layer.clamp.input[1:]], [computed]))

    def _dequantized(self, value: str) -> str:
        """The value's dequantized form, quantizing it first where a float layer or nobody here
        makes it.
        """
        if value not in self.real:
            self._quantize(value, value)
        return self.real[value]

    def _quantize(self, computed: str, value: str) -> None:
        """`computed` is the float value, `value` the name of what it stands for."""
        constants = self._parameters(value)
        stored = self.names.fresh(f"{value}_QuantizeLinear_Output")
        real = (value if value in self.results and value in self.plan.quantized
                else self.names.fresh(f"{value}_DequantizeLinear_Output"))
        self._node("QuantizeLinear", value, [computed, *constants], stored)
        self._node("DequantizeLinear", value, [stored, *constants], real)
        self.real[value] = real

    def _parameters(self, value: str) -> list[str]:
        """Names of the scale and zero point; what only moved has those of where it came from."""
        source = value
        while source in self.plan.moved:
            source = self.plan.moved[source]
        if source not in self.parameters:
            scale = self.scales[source]
            self.parameters[source] = [self._constant(f"{source}_scale", np.array(scale.scale)),
                                       self._constant(f"{source}_zero_point", np.array(scale.zero))]
        return self.parameters[source]

    def _weighted(self, node: NodeProto) -> list[str]:
        """The inputs of the node, with weights and biases as dequantized integers."""
        tensors, axis = self.network.tensors, channel_axis(node)
        data, weight, *more = node.input
        bias, source = vector(node, tensors), self.scales[data].scale
        groups = attribute(node, "group", 1) if node.op_type == "ConvTranspose" else 1
        largest = np.abs(bias).reshape(groups, -1).max(axis=0)
        steps, scale = quantized_weight(tensors[weight], axis, largest, source)
        inputs = [self._dequantized(data), self._steps(weight, steps, scale, axis)]
        if any(more):
            both = source * np.tile(scale, groups)
            inputs.append(self._steps(more[0], quantized_bias(bias, both), both, 0))
        return inputs

    def _steps(self, name: str, steps: Array, scale: Array, axis: int) -> str:
        """Constant integers, dequantized with one scale for each channel along the axis; once for
        all layers that share them.
        """
        key = name, axis, scale.tobytes(), steps.tobytes()
        if key not in self.shared:
            self.shared[key] = self._dequantized_steps(name, steps, scale, axis)
        return self.shared[key]

    def _dequantized_steps(self, name: str, steps: Array, scale: Array, axis: int) -> str:
        constants = [self._constant(f"{name}_quantized", steps),
                     self._constant(f"{name}_scale", scale),
                     self._constant(f"{name}_zero_point", np.zeros(scale.shape, steps.dtype))]
        real = self.names.fresh(f"{name}_DequantizeLinear_Output")
        self._node("DequantizeLinear", name, constants, real, axis=axis)
        return real

    def _node(self, op: str, value: str, inputs: Sequence[str], output: str, **attributes: Any
              ) -> None:
        name = self.node_names.fresh(f"{value}_{op}")
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attributes))

    def _constant(self, name: str, array: Array) -> str:
        name = self.names.fresh(name)
        self.constants[name] = array
        return name
