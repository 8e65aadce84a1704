#!/bin/sh
# GridSample on integers in ONNX's reference: an image of one number, sampled between its pixels.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnx==1.23.2' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

found = {}
for kind, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.INT16, np.int16)):
    graph = helper.make_graph(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear")], "g",
        [helper.make_tensor_value_info("x", kind, [1, 1, 4, 4]),
         helper.make_tensor_value_info("grid", TensorProto.FLOAT, [1, 1, 1, 2])],
        [helper.make_tensor_value_info("y", kind, [1, 1, 1, 1])])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(model, full_check=True)
    y, = ReferenceEvaluator(model).run(None, {
        "x": np.full((1, 1, 4, 4), 100, dtype), "grid": np.full((1, 1, 1, 2), 0.1, np.float32)})
    found[dtype.__name__] = y.item()
print(f"onnx {onnx.__version__}: an image of 100 between its pixels: {found}")
raise SystemExit(not (abs(found["float32"] - 100) < 1e-3 and found["int16"] != 100))
END
