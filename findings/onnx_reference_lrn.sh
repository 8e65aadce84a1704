#!/bin/sh
# ONNX's reference implementation of LRN computes as many channels as there are images in the batch.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnx==1.23.2' 'numpy<3'
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
g (float[1,3,1,1] x) => (float[1,3,1,1] y) {
    y = LRN<size = 1, alpha = 1.0, beta = 1.0, bias = 1.0>(x)
}""")
x = np.ones((1, 3, 1, 1), np.float32)
found = ReferenceEvaluator(model).run(None, {"x": x})[0].ravel()
print("onnx", onnx.__version__, "LRN of ones, which is 1/2 everywhere:", found)
assert np.array_equal(found, [0.5, 1, 1]), "the behaviour has changed"
PYTHON
