#!/bin/sh
# ONNX's reference implementation of ConvTranspose adds the first channels' biases in every group.
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
g (float[1,2,1,1] x, float[2,1,1,1] w, float[2] b) => (float[1,2,1,1] y) {
    y = ConvTranspose<group = 2>(x, w, b)
}""")
feeds = {"x": np.zeros((1, 2, 1, 1), np.float32), "w": np.ones((2, 1, 1, 1), np.float32),
         "b": np.array([1, 2], np.float32)}
found = ReferenceEvaluator(model).run(None, feeds)[0].ravel()
print("onnx", onnx.__version__, "ConvTranspose of zeros in 2 groups, which is the bias 1, 2:", found)
assert np.array_equal(found, [1, 1]), "the behaviour has changed"
PYTHON
