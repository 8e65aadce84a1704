#!/bin/sh
# DynamicQuantizeLSTM of com.microsoft in ONNX Runtime with one thread and with two.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnxruntime==1.31.1' 'onnx==1.23.2' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng, width, hidden, batch = np.random.default_rng(1), 5, 6, 8
x = rng.normal(size=(4, batch, width)).astype(np.float32)
constants = {}
for name, rows in (("w", width), ("r", hidden)):
    constants |= {name: rng.integers(-31, 32, (1, rows, 4 * hidden)).astype(np.int8),
                  f"{name}s": np.full(1, 0.02, np.float32), f"{name}z": np.zeros(1, np.int8)}
node = helper.make_node("DynamicQuantizeLSTM", ["x", "w", "r", *[""] * 5, "ws", "wz", "rs", "rz"],
                        ["y"], domain="com.microsoft", hidden_size=hidden)
graph = helper.make_graph(
    [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1, batch, hidden])],
    [numpy_helper.from_array(array, name) for name, array in constants.items()])
model = helper.make_model(graph, ir_version=10, opset_imports=[
    helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def computed(threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
again = np.abs(computed(1) - computed(1)).max()
apart = np.abs(computed(1) - computed(2)).max()
print(f"8 sequences: one thread against one: {again:.1e}, against two: {apart:.1e}: each thread "
      "quantizes the states of its own sequences")
raise SystemExit(not (again == 0 and apart > 1e-4))
END
