#!/bin/sh
# Casts of float64 to 8-bit floats, which ml_dtypes, ONNX's reference and ONNX Runtime round to float32 first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnxruntime==1.31.1' 'onnx==1.23.2' 'numpy==2.4.6' 'ml_dtypes==0.6.0'
"$folder/venv/bin/python" - <<'END'
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)
# A little more than half way from 1 to the next number of each type; in float32 it is half way.
KINDS = {"FLOAT8E4M3FN": (ml_dtypes.float8_e4m3fn, 1.0625 + 1e-12), "FLOAT8E5M2": (ml_dtypes.float8_e5m2, 1.125 + 1e-12)}


def cast(kind, number):
    """What ONNX's reference and ONNX Runtime make of a cast of float64."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["small"], to=getattr(TensorProto, kind)),
         helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT)], "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    model = helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 25)])
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = {"x": np.array([number])}
    return float(ReferenceEvaluator(model).run(None, x)[0][0]), float(session.run(None, x)[0][0])


print(f"ml_dtypes {ml_dtypes.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
found = []
for kind, (dtype, number) in KINDS.items():
    numbers = np.sort(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    nearest = float(numbers[np.abs(numbers - number).argmin()])
    once = float(np.float64(number).astype(dtype))
    found.append((nearest, once, *cast(kind, number)))
    print(f"{number!r} as {kind}: the nearest is {nearest}; ml_dtypes {once}, reference and runtime {found[-1][2:]}")
print("ONNX's text asks for the nearest number; all three give the other neighbour, as float32 holds a tie.")
raise SystemExit(found != [(1.125, 1.0, 1.0, 1.0), (1.25, 1.0, 1.0, 1.0)])
END
