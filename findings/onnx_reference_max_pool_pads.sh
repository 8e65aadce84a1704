#!/bin/sh
# ONNX's reference implementation of MaxPool takes uneven pads for those of another axis.
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
g (uint8[1,1,3,1] x) => (uint8[1,1,2,1] y) {
    y = MaxPool<kernel_shape = [3, 1], pads = [0, 0, 1, 0]>(x)
}""")
x = np.arange(3, dtype=np.uint8).reshape(1, 1, 3, 1)
found = ReferenceEvaluator(model).run(None, {"x": x})[0]
inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0]
shape = [one.dim_value for one in inferred.type.tensor_type.shape.dim]
print("onnx", onnx.__version__, "MaxPool gives", found.shape, "and shape inference", shape)
assert (found.shape, shape) == ((1, 1, 1, 2), [1, 1, 2, 1]), "the behaviour has changed"
PYTHON
