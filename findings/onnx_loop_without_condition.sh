#!/bin/sh
# ONNX: what a Loop does whose condition is left out, and whose body then gives a false one.
#
# The operator's text says that the body's condition is ignored then, so three turns here give 8.
# ONNX Runtime ends after the turn that gives a false condition (2), and ONNX's own reference takes
# the missing condition for a false one and takes no turn (1), even where the body gives true.
# Exit status: 0 as seen, 1 something has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnx==1.23.2' 'onnxruntime==1.31.1' 'numpy<3'
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 8, opset_import: ["" : 18]> g (float[1] x) => (float[1] y) {
  three = Constant <value = int64 {3}> ()
  y = Loop (three, , x) <body = b (int64 i, bool c, float[1] s) => (bool go, float[1] r) {
    r = Add (s, s)
    go = Constant <value = bool {GO}> () }> }"""

print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
seen = {}
for go in (0, 1):
    model = onnx.parser.parse_model(TEXT.replace("GO", str(go)))
    onnx.checker.check_model(model, full_check=True)
    inputs = {"x": np.ones(1, np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    seen[go] = [float(run(None, inputs)[0][0]) for run in
                (session.run, ReferenceEvaluator(model).run)]
    print(f"the body's condition is {bool(go)}: the text says 8, ONNX Runtime gives "
          f"{seen[go][0]:g}, the reference {seen[go][1]:g}")
sys.exit(seen != {0: [2, 1], 1: [8, 1]})
PYTHON
