#!/bin/sh
# int8 operators of LiteRT on one element each, with valid scales and zero points, beside the numbers
# that they stand for.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'ai-edge-litert==2.3.0' 'tflite==2.18.0' \
    'flatbuffers==25.12.19' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
from importlib import metadata

import flatbuffers
import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter


def table(build, kind, **fields):
    getattr(tflite, f"{kind}Start")(build)
    for name, value in fields.items():
        getattr(tflite, f"{kind}Add{name}")(build, value)
    return getattr(tflite, f"{kind}End")(build)


def vector(build, tables):
    build.StartVector(4, len(tables), 4)
    for one in reversed(tables):
        build.PrependUOffsetTRelative(one)
    return build.EndVector()


def model(code, tensors, options="", version=1):
    """One operator of all tensors but the last, which it makes; a tensor is (scale, zero point), or
    None for booleans."""
    build, numbers = flatbuffers.Builder(512), lambda values: build.CreateNumpyVector(
        np.array(values, np.int32))
    made = []
    for place, told in enumerate(tensors):
        fields = {"Shape": numbers([1]), "Name": build.CreateString(f"t{place}")}
        if told is not None:
            scale = build.CreateNumpyVector(np.array(told[:1], np.float32))
            zero = build.CreateNumpyVector(np.array(told[1:], np.int64))
            fields["Quantization"] = table(build, "QuantizationParameters", Scale=scale,
                                           ZeroPoint=zero)
        kind = tflite.TensorType.BOOL if told is None else tflite.TensorType.INT8
        made.append(table(build, "Tensor", Type=kind, Buffer=0, **fields))
    reads, writes = range(len(tensors) - 1), [len(tensors) - 1]
    given = {"Inputs": numbers(reads), "Outputs": numbers(writes)}
    if options:
        given["BuiltinOptions"] = table(build, options)
        given["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, options)
    operators = vector(build, [table(build, "Operator", OpcodeIndex=0, **given)])
    graph = table(build, "SubGraph", Tensors=vector(build, made), Inputs=numbers(reads),
                  Outputs=numbers(writes), Operators=operators)
    number = getattr(tflite.BuiltinOperator, code)
    codes = table(build, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=number,
                  Version=version)
    build.Finish(table(build, "Model", Version=3, OperatorCodes=vector(build, [codes]),
                       Subgraphs=vector(build, [graph]), Buffers=vector(build, [
                           table(build, "Buffer")])), file_identifier=b"TFL3")
    return bytes(build.Output())


def run(data, *values):
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    for told, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(told["index"], np.array([value], np.int8))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0].item()


found = {
    "NEG of code 30, scale 0.05, zero point 20 (0.5), as codes of the same; right is 10":
        run(model("NEG", [(0.05, 20), (0.05, 20)]), 30),
    "DIV of code 1 by -128, scales 0.05, to scale 0.05 (-1/128 is code 0)":
        run(model("DIV", [(0.05, 0), (0.05, 0), (0.05, 0)], "DivOptions"), 1, -128),
    "GREATER of code 10, scale 1.5 (15), and code 20, scale 0.5 (10); right is True":
        run(model("GREATER", [(1.5, 0), (0.5, 0), None], version=2), 10, 20),
}
print('ai-edge-litert', metadata.version('ai-edge-litert'))
for what, value in found.items():
    print(f"{what}: {value}")
raise SystemExit(list(found.values()) != [-30, -128, False])
END
