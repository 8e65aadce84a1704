#!/bin/sh
# Casts of floats to types of 2, 4 and 8 bits in ONNX Runtime, beside ONNX's text and its reference.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'onnxruntime==1.31.1' 'onnx==1.23.2' 'numpy==2.4.6' 'ml_dtypes==0.6.0'
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)


def both(kind, numbers, **attrs):
    """What ONNX Runtime and ONNX's reference make of a cast to a type and back."""
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(numbers)]) for name in "xy"]
    graph = helper.make_graph([
        helper.make_node("Cast", ["x"], ["small"], to=getattr(TensorProto, kind), **attrs),
        helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT)], "g", *([one] for one in floats))
    model = helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 25)])
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = {"x": np.array(numbers, np.float32)}
    runtime, reference = session.run(None, x)[0].tolist(), ReferenceEvaluator(model).run(None, x)[0].tolist()
    print(f"{kind} {attrs or ''} of {numbers}: {runtime}; reference: {reference}")
    return str(runtime), str(reference)


print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
print("Integers of 4 and 2 bits are rounded, where int8 is cut, so that numbers within the range leave it:")
found = [both("INT8", [1.6, 2.5, 7.5]), both("INT4", [1.6, 2.5, 7.5]), both("INT2", [0.4, 1.5])]
print("Without saturation, what rounds to a number beyond the greatest is Inf in E5M2 and NaN in E4M3FN by the text:")
found += [both("FLOAT8E5M2", [57344, 61440, 65536], saturate=0), both("FLOAT8E4M3FN", [448, 465, 480, 512], saturate=0)]
expected = [("[1.0, 2.0, 7.0]", "[1.0, 2.0, 7.0]"), ("[2.0, 3.0, -8.0]", "[1.0, 2.0, 7.0]"),
            ("[0.0, -2.0]", "[0.0, 1.0]"), ("[57344.0, nan, inf]", "[57344.0, inf, inf]"),
            ("[448.0, nan, 448.0, nan]", "[448.0, nan, nan, nan]")]
raise SystemExit(found != expected)
END
