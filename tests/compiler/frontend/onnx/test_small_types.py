"""Numbers of types that no processor has, computed: as ml_dtypes converts them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.frontend.onnx.operators.casts import _array
from compiler.graph import evaluate, verify
from compiler.graph.passes.pipeline import optimize, standard_passes

RNG = np.random.default_rng(8)
FLOATS = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E5M2": ml_dtypes.float8_e5m2,
          "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
          "FLOAT4E2M1": ml_dtypes.float4_e2m1fn}
WHOLE = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2,
         "UINT2": ml_dtypes.uint2}
NEWEST = onnx.defs.onnx_opset_version()


def made(*nodes, shape, constants=(), dtype: int = TensorProto.FLOAT, given: int = 1):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", given, None)],
        [numpy_helper.from_array(array, name) for name, array in constants])
    return convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)]), "m")


def found(graph, x: np.ndarray) -> np.ndarray:
    first, second = (run({"x": x})["y"] for run in
                     (lambda inputs: evaluate(verify(graph), inputs), CpuTarget().compile(graph)))
    np.testing.assert_array_equal(first, second)
    return first


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_eight_bits(name: str, saturate: int) -> None:
    """Every number of the type, what lies halfway, and what lies beyond."""
    bits = 16 if name == "FLOAT4E2M1" else 256
    numbers = np.arange(bits, dtype=np.uint8).astype(np.uint8)
    grid = (numbers.view(FLOATS[name]) if bits == 256 else
            np.array([0.5, 1, 1.5, 2, 3, 4, 6], np.float32)).astype(np.float32)
    grid = np.unique(grid[np.isfinite(grid)])
    halves = (grid[1:] + grid[:-1]) / 2
    x = np.concatenate([grid, halves, np.nextafter(halves, np.float32(1e9)), RNG.normal(size=99),
                        grid[-1:] * [1.03, 1.07, 3], [1e-30, 3e38]])
    x = np.concatenate([x, -x, [] if bits == 16 else [np.nan, np.inf, -np.inf]]).astype(np.float32)
    code = getattr(TensorProto, name)
    graph = made(helper.make_node("Cast", ["x"], ["q"], to=code, saturate=saturate),
                 helper.make_node("Cast", ["q"], ["y"], to=1), shape=x.shape)
    wanted = _array(x, np.dtype(FLOATS[name]), bool(saturate), "up").astype(np.float32)
    np.testing.assert_array_equal(found(graph, x), wanted)


@pytest.mark.parametrize("name", WHOLE)
def test_integers_of_few_bits(name: str) -> None:
    x = np.arange(-20, 300, dtype=np.int32)
    graph = made(helper.make_node("Cast", ["x"], ["q"], to=getattr(TensorProto, name)),
                 helper.make_node("Cast", ["q"], ["y"], to=6), shape=x.shape,
                 dtype=TensorProto.INT32, given=TensorProto.INT32)
    wanted = x.astype(np.int8).astype(WHOLE[name]).astype(np.int32)
    np.testing.assert_array_equal(found(graph, x), wanted)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("name", WHOLE)
def test_quantized_to_few_bits(name: str, axis: int | None) -> None:
    info, x = ml_dtypes.iinfo(WHOLE[name]), (RNG.normal(size=(4, 3)) * 5).astype(np.float32)
    scale = np.array([0.5, 1, 0.25] if axis else 0.5, np.float32)
    zero = np.full(scale.shape, 1).astype(WHOLE[name])
    graph = made(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
                 helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
                 shape=x.shape, constants=(("s", scale), ("z", zero)))
    steps = np.clip(np.rint(x / scale) + 1, int(info.min), int(info.max))
    np.testing.assert_array_equal(found(graph, x), (steps - 1) * scale)


def test_integers_of_few_bits_become_integer_operators() -> None:
    """Weights and activations of four bits, of a product between quantizations."""
    constants = (("s", np.float32(0.1)), ("z", np.array(0, WHOLE["INT4"])),
                 ("w", RNG.integers(-8, 8, (3, 5)).astype(WHOLE["INT4"])))
    graph = made(*(helper.make_node(op, [value, "s", "z"], [result]) for op, value, result in (
        ("QuantizeLinear", "x", "q"), ("DequantizeLinear", "q", "d"),
        ("DequantizeLinear", "w", "v"))), helper.make_node("MatMul", ["d", "v"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]), shape=(4, 3),
        constants=constants)
    integers = optimize(graph, standard_passes())
    assert "qdense" in {node.op for node in integers.nodes}, str(integers)
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    assert np.abs(evaluate(integers, {"x": x})["y"] - evaluate(graph, {"x": x})["y"]).max() < 0.11


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_quantized_to_eight_bits(name: str) -> None:
    x, scale = (RNG.normal(size=(4, 3)) * 300).astype(np.float32), np.float32(0.25)
    graph = made(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                 helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]), shape=x.shape,
                 constants=(("s", np.array(scale)), ("z", np.zeros((), FLOATS[name]))))
    most = float(ml_dtypes.finfo(FLOATS[name]).max)
    wanted = np.clip(x / scale, -most, most).astype(FLOATS[name]).astype(np.float32) * scale
    np.testing.assert_array_equal(found(graph, x), wanted)


def test_types_that_are_refused() -> None:
    """As an output, and where numbers of the type are computed in no other."""
    for name in ("INT4", "FLOAT8E5M2"):
        code = getattr(TensorProto, name)
        with pytest.raises(ImportRefused) as refused:
            made(helper.make_node("Cast", ["x"], ["y"], to=code), shape=[2], given=code)
        assert str(refused.value) == (
            f"m: output 'y' must be of a type that processors have, not {name}")
    with pytest.raises(ImportRefused, match=(
            r"n \(Cast\): what is converted to float8_e8m0fnu must be a constant: no processor has "
            "the type; ")):
        made(helper.make_node("Cast", ["x"], ["y"], "n", to=TensorProto.FLOAT8E8M0), shape=[2])


@pytest.mark.parametrize("name", WHOLE)
def test_weights_of_few_bits_are_quantized_weights(name: str) -> None:
    """A product between quantizations has them in bytes, as if the file had."""
    info = ml_dtypes.iinfo(WHOLE[name])
    numbers = RNG.integers(info.min, info.max + 1, (6, 4))
    zeros = RNG.integers(info.min, info.max + 1, 4)
    constants = [(name, np.asarray(array)) for name, array in (
        ("w", numbers.astype(WHOLE[name])), ("zeros", zeros.astype(WHOLE[name])),
        ("scales", np.linspace(0.01, 0.04, 4, dtype=np.float32)), ("s", np.float32(0.05)),
        ("z", np.int8(3)))]
    graph = made(
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "scales", "zeros"], ["wd"], axis=1),
        helper.make_node("MatMul", ["xd", "wd"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
        shape=[2, 6], constants=constants)
    integers = optimize(graph)
    dense, = (node for node in integers.nodes if node.op == "qdense")
    np.testing.assert_array_equal(integers.constants[dense.inputs[1]].T, numbers - zeros)
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    np.testing.assert_array_equal(found(integers, x), evaluate(graph, {"x": x})["y"])
