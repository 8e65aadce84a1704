"""Functions whose results are finite: no step on the way overflows, in any type, but for powers
that Sigmoid divides by.
"""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import convert
from compiler.graph import optimize
from compiler.graph.reference import evaluate
from tests.support.onnx_runtime import run_onnx

FUNCTIONS = {
    "Sigmoid": {}, "Elu": {"alpha": 1.5}, "Selu": {}, "Celu": {"alpha": 0.5}, "Softplus": {},
    "Mish": {}, "Gelu": {"approximate": "none"}, "Gelu by tanh": {"approximate": "tanh"},
    "Swish": {"alpha": 1.5}, "Softsign": {}, "HardSwish": {}, "HardSigmoid": {}, "Tanh": {},
    "Erf": {}, "Softmax": {}, "LogSoftmax": {}, "ReduceLogSumExp": {"keepdims": 1},
}
POWERS = ("Sigmoid", "Swish")
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
         "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
ENDS = [1e4, 300, 89, 88, 60, 12, 3, 1, 0.01]
X = np.array([[-x for x in ENDS] + [0.0] + ENDS[::-1]])
TOLERANCE = {"float32": 2e-6, "float64": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""Tolerances relative to a result, or to 1; ONNX Runtime calculates with float32."""


def model(name: str, code: int):
    op = name.partition(" ")[0]
    node = helper.make_node(op, ["x"], ["y"], **FUNCTIONS[name])
    infos = [helper.make_tensor_value_info(one, code, shape)
             for one, shape in (("x", X.shape), ("y", None))]
    return helper.make_model(helper.make_graph([node], "test", infos[:1], infos[1:]),
                             ir_version=10, opset_imports=[helper.make_opsetid("", OPSET[op])])


OPSET = dict.fromkeys((name.partition(" ")[0] for name in FUNCTIONS), 20) | {"Swish": 24}


def wanted(name: str, x: np.ndarray) -> np.ndarray:
    """What ONNX Runtime gives in float32, and for what it lacks its definition."""
    if name == "Swish":
        return x / (1 + np.exp(np.minimum(-1.5 * x, 700)))
    return run_onnx(model(name, TensorProto.FLOAT), {"x": x.astype(np.float32)})["y"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_step_is_finite(name, dtype) -> None:
    graph = convert(model(name, TYPES[dtype]))
    values = [node.outputs[0] for node in graph.nodes]
    x = X.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    steps = evaluate(graph, {"x": x}, values)
    native = CpuTarget().compile(optimize(graph, ()))({"x": x})["y"]
    for value, array in steps.items():
        wide = array.astype(np.float64)
        assert (np.isfinite(wide) | (wide == np.inf) & (name in POWERS)).all(), (value, array)
    expected = wanted(name, x.astype(np.float64)).astype(np.float64)
    for made in (steps["y"], native):
        assert made.dtype == x.dtype
        wrong = np.abs(made.astype(np.float64) - expected) / np.maximum(np.abs(expected), 1)
        assert wrong.max() <= TOLERANCE[dtype], (made, expected)


@pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16"))
def test_the_least_number_times_its_sigmoid_is_0(dtype) -> None:
    """Not some -2, which it is where a sigmoid never becomes less than 1 / e^88."""
    x = np.full(X.shape, -3e38).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    graph = convert(model("Swish", TYPES[dtype]))
    for made in (evaluate(graph, {"x": x})["y"],
                 CpuTarget().compile(optimize(graph, ()))({"x": x})["y"]):
        assert not made.any()
