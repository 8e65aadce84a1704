#!/bin/sh
# onnx.reference evaluates no QDQ network of opsets 10 to 18, which most quantizers write: it has
# DequantizeLinear from version 19 on, and takes it for no older one, though onnx.checker accepts
# the file and both versions mean the same for one scale. Exit status: 0 while it is so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnx==1.23.2' 'numpy<3'
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

TEXT = """
<ir_version: 8, opset_import: ["": %d]>
net (float[4] x) => (float[4] y) <float scale = {0.5}, uint8 zero = {128}> {
    q = QuantizeLinear(x, scale, zero)
    y = DequantizeLinear(q, scale, zero)
}
"""
print("onnx", onnx.__version__)
x, outcome = np.array([-1, 0, 0.7, 9], np.float32), {}
for opset in (10, 13, 17, 18, 19, 21):
    model = parser.parse_model(TEXT % opset)
    onnx.checker.check_model(model, full_check=True)
    try:
        outcome[opset] = str(ReferenceEvaluator(model).run(None, {"x": x})[0].tolist())
    except RuntimeError as error:
        outcome[opset] = f"RuntimeError: {error}"
    print(f"opset {opset}: {outcome[opset]}")
same = all(outcome[opset].startswith("RuntimeError") == (opset < 19) for opset in outcome)
sys.exit(0 if same else 1)
PYTHON
