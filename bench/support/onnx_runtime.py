"""ONNX Runtime beside ours: its sessions, and its own quantizer."""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

Array = np.ndarray
Values = Mapping[str, Array]


class Peer:
    """A model, or a file of one, in ONNX Runtime; a call takes inputs and returns outputs by name.
    Where it is `plain`, every node is computed by itself, as ONNX defines it.
    """

    def __init__(self, model: ModelProto | str, plain: bool = False, threads: int = 1):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)      # errors: some models have idle tensors
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if plain:
            options.graph_optimization_level = (
                onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        given = model if isinstance(model, str) else model.SerializeToString()
        self.session = onnxruntime.InferenceSession(given, options,
                                                    providers=["CPUExecutionProvider"])
        self.inputs = {value.name for value in self.session.get_inputs()}
        self.outputs = [value.name for value in self.session.get_outputs()]

    def __call__(self, values: Values) -> dict[str, Array]:
        given = {name: array for name, array in values.items() if name in self.inputs}
        made = self.session.run(self.outputs, given)
        return dict(zip(self.outputs, map(np.asarray, made), strict=True))


def bound(model: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """The model with constants in place of these inputs."""
    made = ModelProto()
    made.CopyFrom(model)
    for value in list(made.graph.input):
        if value.name in values:
            made.graph.input.remove(value)
            made.graph.initializer.append(numpy_helper.from_array(values[value.name], value.name))
    return made


def is_int8(model: ModelProto) -> bool:
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in model.graph.node)


def in_float(model: ModelProto) -> ModelProto:
    """The float network that an int8 one stands for: values are not quantized, weights are the
    products of their integers and scales. A Relu that a quantizer left out, because the integers
    end at zero, is not there.
    """
    made = ModelProto()
    made.CopyFrom(model)
    tensors = {one.name: one for one in made.graph.initializer}
    before: dict[str, str] = {}         # values by their quantized form
    same: dict[str, str] = {}
    nodes: list[NodeProto] = []
    outputs = {value.name for value in made.graph.output}
    for node in made.graph.node:
        node.input[:] = [same.get(value, value) for value in node.input]
        if node.op_type == "QuantizeLinear":
            before[node.output[0]] = node.input[0]
        elif node.op_type == "DequantizeLinear" and node.input[0] in before:
            same[node.output[0]] = before[node.input[0]]
            if node.output[0] in outputs:
                nodes.append(helper.make_node("Identity", [before[node.input[0]]], node.output))
        elif node.op_type == "DequantizeLinear":
            made.graph.initializer.append(_dequantized(node, tensors))
        else:
            nodes.append(node)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _dequantized(node: NodeProto, tensors: Mapping[str, TensorProto]) -> TensorProto:
    given = [tensors[name] for name in node.input]
    result = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "weight", [], [result], given)
    alone = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (array,) = ReferenceEvaluator(alone).run(None, {})
    return numpy_helper.from_array(np.asarray(array), node.output[0])


def quantized_by_onnx_runtime(model: ModelProto, samples: Sequence[Values]) -> ModelProto:
    """Quantizes by ONNX Runtime: static, QDQ, int8, a scale for each output channel, after its own
    preparation. Forms that its quantizer turns into invalid models are rewritten before.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            names = {value.name for value in model.graph.input}
            self.rest = iter([{name: array for name, array in one.items() if name in names}
                              for one in samples])

        def get_next(self) -> Any:
            return next(self.rest, None)

    with _errors_only(), tempfile.TemporaryDirectory() as folder:
        plain, ready, made = (Path(folder, name) for name in ("a.onnx", "b.onnx", "c.onnx"))
        onnx.save(_with_scales_of_channels(model), plain)
        quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        onnx.save(_with_flat_biases(onnx.load(ready)), ready)
        quantize_static(str(ready), str(made), Reader(), per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)
        return onnx.load(made)


@contextmanager
def _errors_only() -> Iterator[None]:
    """Hides warnings of the root logger, in whose name the quantizer warns."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)


SCALES_OF_CHANNELS = 13     # the first opset whose DequantizeLinear has an axis


def _with_scales_of_channels(model: ModelProto) -> ModelProto:
    """The same network in an opset that has scales for channels."""
    (opset,) = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if opset >= SCALES_OF_CHANNELS:
        return model
    return version_converter.convert_version(model, SCALES_OF_CHANNELS)


def _with_flat_biases(model: ModelProto) -> ModelProto:
    """The same network with biases [1, N] of Gemm as [N], which Gemm also accepts."""
    biases = {node.input[2] for node in model.graph.node
              if node.op_type == "Gemm" and len(node.input) == 3}
    for one in model.graph.initializer:
        if one.name in biases and len(one.dims) == 2 and one.dims[0] == 1:
            del one.dims[0]
    return model
