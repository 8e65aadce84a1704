#!/bin/sh
# Casts to FLOAT8E8M0, the scales of microscaling blocks, by ONNX's reference and by ONNX Runtime.
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
EXPONENTS = [-127, -126, -1, 0]
MODES = ("up", "down", "nearest")


def both(mode, saturate, numbers):
    """The exponents that ONNX's reference and ONNX Runtime cast numbers to; -127 is the least."""
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(numbers)]) for name in "xy"]
    graph = helper.make_graph([
        helper.make_node("Cast", ["x"], ["small"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate),
        helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT)], "g", *([one] for one in floats))
    model = helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 25)])
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = {"x": np.array(numbers, np.float32)}
    return [np.log2(values.astype(np.float64)).tolist()
            for values in (ReferenceEvaluator(model).run(None, x)[0], session.run(None, x)[0])]


print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}, ml_dtypes {ml_dtypes.__version__}")
powers = [2.0 ** exponent for exponent in EXPONENTS]
rounded = {mode: both(mode, 1, powers) for mode in MODES}
for mode, (reference, runtime) in rounded.items():
    print(f"2 to the {EXPONENTS}, which the type has exactly, {mode}: reference 2 to the {reference}, "
          f"ONNX Runtime {runtime}")
small = both("nearest", 0, [2.0 ** -128])
print(f"2 to the -128, nearest, no saturation: reference, ONNX Runtime: {small}")
package = [float(np.log2(float(np.float32(x).astype(ml_dtypes.float8_e8m0fnu)))) for x in (1.4, 1.5, 3.0)]
print(f"ml_dtypes of 1.4, 1.5, 3.0: 2 to the {package}: nearest, ONNX's default is up")
raise SystemExit(not (rounded["up"] == [[-126.0, -126.0, -1.0, 0.0], [-127.0, -126.0, -1.0, 0.0]]
                      and all(rounded[mode][0] == rounded[mode][1] == EXPONENTS for mode in MODES[1:])
                      and small[0] == [-127.0] and np.isnan(small[1][0]) and package == [0, 1, 2]))
END
