#!/bin/sh
# Float activations and integer weights in LiteRT: its default kernels (XNNPACK's) beside its own.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'ai-edge-litert==2.3.0' 'flatbuffers==25.12.19' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
from importlib import metadata

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KINDS = schema.TensorType
DEFAULT, OWN = OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def tensor(shape, kind, data=None, scale=None, blocks=None):
    made = schema.TensorT()
    made.shape, made.type = list(shape), kind
    if scale or blocks:
        made.quantization = schema.QuantizationParametersT()
    if scale:
        made.quantization.scale, made.quantization.zeroPoint = [scale], [0]
    if blocks:
        details = schema.BlockwiseQuantizationT()
        details.scales, details.zeroPoints, details.blockSize = blocks
        made.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
        made.quantization.details = details
    return made, data


def model(code, version, tensors, reads, writes, options):
    made, graph, operator = schema.ModelT(), schema.SubGraphT(), schema.OperatorT()
    made.version, made.buffers, graph.tensors = 3, [schema.BufferT()], []
    for place, (each, data) in enumerate(tensors):
        buffer = schema.BufferT()
        if data is not None:
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        made.buffers.append(buffer)
        each.name, each.buffer = f"t{place}", len(made.buffers) - 1
        graph.tensors.append(each)
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, reads, [writes]
    operator.builtinOptions = options
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
    graph.operators, graph.outputs = [operator], [writes]
    graph.inputs = [place for place in reads if tensors[place][1] is None]
    made.subgraphs, kind = [graph], schema.OperatorCodeT()
    kind.builtinCode = getattr(schema.BuiltinOperator, code)
    kind.deprecatedBuiltinCode, kind.version = min(kind.builtinCode, 127), version
    made.operatorCodes = [kind]
    build = flatbuffers.Builder(1024)
    build.Finish(made.Pack(build), b"TFL3")
    return bytes(build.Output())


def run(data, kernels, *values):
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for told, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(told["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def both(data, *values):
    return [round(float(run(data, kernels, *values).reshape(-1)[0]), 2) for kernels in (DEFAULT, OWN)]


def packed(array):
    low, high = (array.reshape(-1)[first::2].astype(np.uint8) & 15 for first in (0, 1))
    return low | high << 4


found, one = {}, np.ones((1, 1), np.float32)

options = schema.Conv2DOptionsT()
options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
pixels = np.array([0.3, 0.3, 100, 100], np.float32).reshape(1, 1, 2, 2)
found["CONV_2D of 1x1 of a pixel of 0.3 beside one of 100"] = both(model("CONV_2D", 3, [
    tensor((1, 1, 2, 2), KINDS.FLOAT32), tensor((1, 1, 1, 2), KINDS.INT8, np.int8([1, 0]), 1.0),
    tensor((1,), KINDS.FLOAT32, np.float32([0])), tensor((1, 1, 2, 1), KINDS.FLOAT32)],
    [0, 1, 2], 3, options), pixels)

options = schema.BatchMatMulOptionsT()
found["BATCH_MATMUL of a float 1 and an int8 input of 100 steps of 0.5 (50)"] = both(model(
    "BATCH_MATMUL", 4, [tensor((1, 1, 1), KINDS.FLOAT32), tensor((1, 1, 1), KINDS.INT8, None, 0.5),
                        tensor((1, 1, 1), KINDS.FLOAT32)], [0, 1], 2, options),
    one.reshape(1, 1, 1), np.full((1, 1, 1), 100, np.int8))

options, ones = schema.FullyConnectedOptionsT(), np.ones((1, 32), np.float32)
zeros, result = tensor((4,), KINDS.FLOAT32, np.zeros(4, np.float32)), tensor((1, 4), KINDS.FLOAT32)
found["FULLY_CONNECTED of 32 ones by int4 weights of -8 (-256)"] = both(model("FULLY_CONNECTED", 9, [
    tensor((1, 32), KINDS.FLOAT32), tensor((4, 32), KINDS.INT4, packed(np.full((4, 32), -8)), 1.0),
    zeros, result], [0, 1, 2], 3, options), ones)


def of_blocks(scale, zero):
    return both(model("FULLY_CONNECTED", 14, [
        tensor((1, 32), KINDS.FLOAT32),
        tensor((4, 32), KINDS.INT4, packed(np.full((4, 32), 4)), None, (4, 5, 32)), zeros, result,
        tensor((4, 1), KINDS.FLOAT16, np.full((4, 1), scale, np.float16)),
        tensor((4, 1), KINDS.INT32, np.full((4, 1), zero, np.int32))], [0, 1, 2], 3, options), ones)


found["FULLY_CONNECTED of 32 ones by blocks of 4 whose zero point is 3 (32)"] = of_blocks(1, 3)
found["the same, zero point 0 and scale 1.003 (128.38)"] = of_blocks(1.003, 0)

print("ai-edge-litert", metadata.version("ai-edge-litert"), "(default kernels, its own)")
for what, values in found.items():
    print(f"{what}: {values}")
raise SystemExit([*found.values()] != [[0.3, 0.0], [0.0, 50.0], [-256.0, 256.0], [128.0, 128.0],
                                       [128.0, 128.38]])
END
