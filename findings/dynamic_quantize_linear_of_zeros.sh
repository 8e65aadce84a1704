#!/bin/sh
# DynamicQuantizeLinear of zeros: its text gives a scale of 0, ONNX's reference 1/255, ONNX Runtime 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnx==1.23.2' 'onnxruntime==1.31.1' 'numpy<3'
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import parser
from onnx.reference import ReferenceEvaluator

model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (uint8[4] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }""")
onnx.checker.check_model(model)
x = {"x": np.zeros(4, np.float32)}
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
reference = ReferenceEvaluator(model).run(None, x)[1]
runtime = session.run(None, x)[1]
print("onnx", onnx.__version__, "scale of zeros:", reference)
print("onnxruntime", onnxruntime.__version__, "scale of zeros:", runtime)
assert reference == np.float32(1 / 255) and runtime == 1, "the behaviour has changed"
PYTHON
