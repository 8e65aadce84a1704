"""The QDQ form of a float network: int8 arithmetic written with float operators.

QuantizeLinear and DequantizeLinear stand around every operator, as ONNX Runtime's quantizer puts
them: activations uint8 with one scale and zero point a tensor, from the least and greatest value
that calibration found; weights int8 with one scale an output channel and zero point 0; biases
int32 with scale = input scale x weight scale. Batch norms are folded into the convolutions before
them. A Relu or Clip is left out: the QuantizeLinear behind one clamps at its range.

Max-pool and flatten keep the scale of their input. All inputs of a concatenation have the scale
of its result, which spans them all, so that joining them moves bytes and computes nothing; where
that makes the range wider than a Relu's or Clip's own, it stays.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

__all__ = ["quantized"]

WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
CLAMPED = (*WEIGHTED, "Add")                    # a Relu or Clip behind these goes into the range
SAME_SCALE = ("MaxPool", "Flatten")
OPERATORS = (*CLAMPED, *SAME_SCALE, "Concat", "GlobalAveragePool")
WEIGHT_LIMIT = 127

Array = np.ndarray
Ranges = Mapping[str, tuple[float, float]]


def quantized(model: onnx.ModelProto, ranges: Ranges) -> onnx.ModelProto:
    """The QDQ form of a float32 model with one input and one output, whose values all have
    shapes. `ranges` gives the least and greatest element of every value.

    Operators are those of `OPERATORS`, a Gemm has transB = 1, a Clip starts from 0. Raises
    ValueError for others, and for a batch norm, Relu or Clip that cannot be folded.
    """
    graph = model.graph
    tensors = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    nodes, clamps = _folded(graph.node, tensors)
    for node in nodes:
        if node.op_type not in OPERATORS:
            raise ValueError(f"{node.name} must be one of {', '.join(OPERATORS)}, "
                             f"not {node.op_type}")
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
              for value in values}
    source, result = graph.input[0].name, graph.output[0].name
    joined = _joined(nodes, ranges)
    writer = _Writer(shapes, _scales(nodes, joined, source), result)
    writer.quantize(source, source)
    for node in nodes:
        value = node.output[0]
        clamp = clamps.get(value)
        kept = clamp is not None and _is_wider(clamp, joined[value], ranges[value])
        writer.add(node, tensors, clamp if kept else None)
    made = helper.make_graph(writer.nodes, graph.name, graph.input, graph.output,
                             writer.initializers, value_info=writer.value_info)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version,
                             producer_name=model.producer_name)


def _folded(nodes: Sequence[NodeProto], tensors: dict[str, Array]
            ) -> tuple[list[NodeProto], dict[str, NodeProto]]:
    """The nodes without batch norms, Relus and Clips; what they made is made by the nodes before
    them, whose new weights and biases stand in `tensors`. The Relus and Clips, by what they made.
    """
    readers = Counter(value for node in nodes for value in node.input)
    made: dict[str, NodeProto] = {}
    clamps: dict[str, NodeProto] = {}
    for node in nodes:
        value = node.output[0]
        if node.op_type not in ("BatchNormalization", "Relu", "Clip"):
            made[value] = NodeProto()
            made[value].CopyFrom(node)
            continue
        wanted = ("Conv",) if node.op_type == "BatchNormalization" else CLAMPED
        before = made.pop(node.input[0], None)
        if before is None or before.op_type not in wanted or readers[node.input[0]] > 1:
            raise ValueError(f"{node.name} must alone read the result of {' or '.join(wanted)}")
        if node.op_type == "BatchNormalization":
            _fold(before, node, tensors)
        else:
            clamps[value] = node
        before.output[0] = value
        made[value] = before
    return list(made.values()), clamps


def _fold(conv: NodeProto, norm: NodeProto, tensors: dict[str, Array]) -> None:
    """The one convolution that equals the two nodes."""
    weight, bias, mean, variance = (tensors[name] for name in norm.input[1:])
    epsilon = {one.name: one.f for one in norm.attribute}.get("epsilon", 1e-5)
    gain = weight / np.sqrt(variance + np.float32(epsilon))
    before = tensors[conv.input[2]] if len(conv.input) == 3 else np.float32(0)
    data, old, new = conv.input[0], conv.input[1], f"{conv.name}.bias"
    tensors[old] = tensors[old] * gain[:, None, None, None]
    tensors[new] = bias + (before - mean) * gain
    del conv.input[:]
    conv.input.extend([data, old, new])


@dataclass(frozen=True, slots=True)
class _Scale:
    """real = (stored - zero) * scale; `name` begins the names of its two constants."""

    name: str
    scale: np.float32
    zero: np.uint8

    @classmethod
    def of(cls, name: str, low: float, high: float) -> "_Scale":
        """0 is always a value, since padding needs it."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / 255 or 1)
        return cls(name, scale, np.uint8(np.clip(np.rint(-low / scale), 0, 255)))


def _joined(nodes: Sequence[NodeProto], ranges: Ranges) -> dict[str, tuple[float, float]]:
    """The ranges, those around a concatenation made one."""
    joined = dict(ranges)
    for node in nodes:
        if node.op_type == "Concat":
            lows, highs = zip(*(joined[value] for value in node.input), strict=True)
            joined.update(dict.fromkeys((*node.input, *node.output), (min(lows), max(highs))))
    return joined


def _is_wider(clamp: NodeProto, joined: tuple[float, float], own: tuple[float, float]) -> bool:
    """Whether a range lets values pass that the Relu, or the Clip from 0 up, does not."""
    return joined[0] < 0 or (clamp.op_type == "Clip" and joined[1] > own[1])


def _scales(nodes: Sequence[NodeProto], ranges: Ranges, source: str) -> dict[str, _Scale]:
    """The scale of every value, by its name."""
    scales = {source: _Scale.of(source, *ranges[source])}
    for node in nodes:
        value = node.output[0]
        scales[value] = (scales[node.input[0]] if node.op_type in SAME_SCALE
                         else _Scale.of(value, *ranges[value]))
    return scales


@dataclass(slots=True)
class _Writer:
    """Nodes and constants of the QDQ form, in order. Names are those that ONNX Runtime gives."""

    shapes: Mapping[str, list[int]]
    scales: Mapping[str, _Scale]
    result: str
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    value_info: list[onnx.ValueInfoProto] = field(default_factory=list)

    def quantize(self, computed: str, value: str) -> None:
        """`computed` is the float value, `value` the name of what it stands for."""
        scale, shape = self.scales[value], self.shapes[value]
        if scale.name == value:
            self._constant(f"{value}_scale", np.array(scale.scale))
            self._constant(f"{value}_zero_point", np.array(scale.zero))
        constants = [f"{scale.name}_scale", f"{scale.name}_zero_point"]
        stored, real = f"{value}_QuantizeLinear_Output", self._dequantized(value)
        self._node("QuantizeLinear", f"{value}_QuantizeLinear", [computed, *constants], stored)
        self._node("DequantizeLinear", f"{value}_DequantizeLinear", [stored, *constants], real)
        self._typed(stored, TensorProto.UINT8, shape)
        if real != self.result:
            self._typed(real, TensorProto.FLOAT, shape)

    def add(self, node: NodeProto, tensors: Mapping[str, Array], clamp: NodeProto | None) -> None:
        """The operator, the Relu or Clip behind it when there is one, and the quantization."""
        value = node.output[0]
        if node.op_type in WEIGHTED:
            inputs = self._weighted(node, tensors)
        else:
            inputs = [self._dequantized(one) for one in node.input]
        computed = f"{value}_QuantizeLinear_Input" if value == self.result else value
        if clamp is not None:
            self._copy(node, inputs, f"{node.name}.out", value)
            inputs, node = [f"{node.name}.out"], clamp
        self._copy(node, inputs, computed, value)
        self.quantize(computed, value)

    def _copy(self, node: NodeProto, inputs: Sequence[str], output: str, value: str) -> None:
        """The node between other values; its result has the shape of `value`."""
        made = NodeProto()
        made.CopyFrom(node)
        del made.input[:], made.output[:]
        made.input.extend(inputs)
        made.output.append(output)
        self.nodes.append(made)
        self._typed(output, TensorProto.FLOAT, self.shapes[value])

    def _weighted(self, node: NodeProto, tensors: Mapping[str, Array]) -> list[str]:
        """The inputs of the node, with weights and biases as dequantized integers."""
        axis = 1 if node.op_type == "ConvTranspose" else 0
        data, weight, *bias = node.input
        array = tensors[weight]
        channels = [-1 if i == axis else 1 for i in range(array.ndim)]
        greatest = np.abs(array).max(axis=tuple(i for i in range(array.ndim) if i != axis))
        scale = np.where(greatest > 0, greatest / np.float32(WEIGHT_LIMIT), np.float32(1))
        steps = np.rint(array / scale.reshape(channels)).astype(np.int8)
        inputs = [self._dequantized(data), self._steps(weight, steps, scale, axis)]
        for name in bias:
            both = self.scales[data].scale * scale
            steps = np.rint(tensors[name] / both).astype(np.int32)
            inputs.append(self._steps(name, steps, both, 0))
        return inputs

    def _steps(self, name: str, steps: Array, scale: Array, axis: int) -> str:
        """Constant integers, dequantized with one scale for each channel along the axis."""
        constants = {f"{name}_quantized": steps, f"{name}_scale": scale,
                     f"{name}_zero_point": np.zeros(scale.shape, steps.dtype)}
        for constant, array in constants.items():
            self._constant(constant, array)
        real = self._dequantized(name)
        self._node("DequantizeLinear", f"{name}_DequantizeLinear", list(constants), real, axis=axis)
        self._typed(real, TensorProto.FLOAT, list(steps.shape))
        return real

    def _dequantized(self, value: str) -> str:
        return value if value == self.result else f"{value}_DequantizeLinear_Output"

    def _node(self, op: str, name: str, inputs: Sequence[str], output: str, **attributes: Any
              ) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attributes))

    def _constant(self, name: str, array: Array) -> None:
        self.initializers.append(numpy_helper.from_array(array, name))

    def _typed(self, value: str, dtype: int, shape: Sequence[int]) -> None:
        self.value_info.append(helper.make_tensor_value_info(value, dtype, shape))
