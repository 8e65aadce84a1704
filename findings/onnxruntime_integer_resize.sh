#!/bin/sh
# Resize of integers in ONNX Runtime beside ONNX's reference.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnxruntime==1.31.1' 'onnx==1.23.2' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)


def resize(kind, **attrs):
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 4, 4])
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attrs)], "g",
        [helper.make_tensor_value_info("x", kind, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", kind, [1, 1, 4, 4])], [sizes])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(model, full_check=True)
    return model


def computed(model, x):
    try:
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        return str(error)


print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
model, x = resize(TensorProto.INT8, mode="linear", antialias=1), np.full((1, 1, 8, 8), -50, np.int8)
clamped = computed(model, x)
print("int8, linear, antialias, an image of -50:", np.unique(clamped), "reference:",
      np.unique(ReferenceEvaluator(model).run(None, {"x": x})[0]))
model, x = resize(TensorProto.UINT8, mode="cubic"), np.full((1, 1, 8, 8), 50, np.uint8)
failed = computed(model, x)
print("uint8, cubic, an image of 50:", str(failed)[:120], "reference:",
      np.unique(ReferenceEvaluator(model).run(None, {"x": x})[0]))
raise SystemExit(not (np.array_equal(np.unique(clamped), [0]) and isinstance(failed, str)))
END
