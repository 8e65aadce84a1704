#!/bin/sh
# QLinearAdd of com.microsoft without zero points in ONNX Runtime.
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

onnxruntime.set_default_logger_severity(4)


def computed(op, inputs):
    node = helper.make_node(op, inputs, ["y"], domain="com.microsoft")
    x, y = (helper.make_tensor_value_info(name, TensorProto.INT8, [4]) for name in "xy")
    known = [numpy_helper.from_array(np.array(0.5, np.float32), "s"),
             numpy_helper.from_array(np.array(0, np.int8), "z")]
    graph = helper.make_graph([node], "g", [x], [y], known)
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return session.run(None, {"x": np.array([-100, -3, 5, 40], np.int8)})[0].tolist()
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        return str(error).rpartition("[")[2]


print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
added = computed("QLinearAdd", ["x", "s", "", "x", "s", "", "s"])
given = computed("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"])
print(f"QLinearAdd with zero points of 0: {given}; without, which its documentation says are 0 then: "
      f"{added}")
raise SystemExit(not (isinstance(added, str) and given == [-128, -6, 10, 80]))
END
