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
from compiler.te import SMALL

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
    if first.dtype.name in SMALL:
        np.testing.assert_array_equal(first.view(np.uint8), second.view(np.uint8))
    else:
        np.testing.assert_array_equal(first, second)
    return first


def text_codes(x: np.ndarray, name: str, saturate: bool) -> np.ndarray:
    """The codes that ONNX's text gives, each number compared with all of the type: the nearest, of
    two as near the even one, and the type's own for what lies beyond them and for NaN.
    """
    kind = np.dtype(FLOATS[name])
    grid = np.arange(8 if name == "FLOAT4E2M1" else 128, dtype=np.uint8)
    values = grid.view(kind).astype(np.float64)
    grid, values = grid[np.isfinite(values)], values[np.isfinite(values)]
    top, step = values[-1], values[-1] - values[-2]
    sign = 8 if name == "FLOAT4E2M1" else 128
    nan = {"FLOAT8E4M3FN": 127, "FLOAT8E5M2": 126, "FLOAT4E2M1": 8}.get(name, 128)
    codes = []
    for number in x.astype(np.float64):
        if np.isnan(number):
            codes.append(nan)
            continue
        size, negative = min(abs(number), 2 * top), np.signbit(number)
        gaps = np.abs(values - size)
        near = np.flatnonzero(gaps == gaps.min())
        code = int(grid[next((one for one in near if one % 2 == 0), near[0])])
        beyond = size > top + step / 2 or size == top + step / 2 and grid[-1] % 2 == 1
        if beyond and not saturate and name != "FLOAT4E2M1":
            code = {"FLOAT8E5M2": 124, "FLOAT8E4M3FN": 127}.get(name, nan)
        if name.endswith("FNUZ") and code in (0, nan):
            negative = False
        codes.append(code + sign * negative)
    return np.array(codes, np.uint8)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_eight_bits(name: str, saturate: int, dtype: str) -> None:
    """Every number of the type, what lies halfway, nearly so, and beyond, computed and known."""
    bits = 16 if name == "FLOAT4E2M1" else 256
    grid = np.arange(bits, dtype=np.uint8).view(FLOATS[name]).astype(dtype)
    grid = np.unique(grid[np.isfinite(grid)])
    halves = (grid[1:] + grid[:-1]) / 2
    x = np.concatenate([grid, halves, np.nextafter(halves, np.inf), RNG.normal(size=99),
                        np.nextafter(halves, -np.inf), grid[-1:] * [1.03, 1.07, 3], [1e-30, 3e38],
                        [-0.0, np.nan, np.inf]]).astype(dtype)
    x, code = np.concatenate([x, -np.abs(x)]), getattr(TensorProto, name)
    source = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    wanted = text_codes(x, name, bool(saturate))
    known = _array(x, np.dtype(FLOATS[name]), bool(saturate), "up")
    np.testing.assert_array_equal(known.view(np.uint8), wanted)
    graph = made(helper.make_node("Cast", ["x"], ["y"], to=code, saturate=saturate), shape=x.shape,
                 dtype=source, given=code)
    run = found if dtype == "float32" else lambda graph, x: evaluate(graph, {"x": x})["y"]
    np.testing.assert_array_equal(run(graph, x).view(np.uint8), wanted)
    graph = made(helper.make_node("Cast", ["x"], ["q"], to=code, saturate=saturate),
                 helper.make_node("Cast", ["q"], ["y"], to=1), shape=x.shape, dtype=source)
    np.testing.assert_array_equal(run(graph, x), known.astype(np.float32))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str, saturate: int) -> None:
    """Every power, what lies between, and what lies beyond: by the text, which says of numbers
    beyond that they become the nearest or NaN, whatever they would be rounded to.
    """
    powers = 2.0 ** np.arange(-127, 128)
    x = np.concatenate([powers, powers * 1.25, powers * 1.5, powers * (1 + 2 ** -20),
                        powers * (2 - 2 ** -20), [0, -1, 2.0 ** -130, np.inf, np.nan]])
    x = x.astype(np.float32)
    low, high = (np.searchsorted(powers, x.clip(powers[0], powers[-1]), side) - (side == "right")
                 for side in ("right", "left"))
    middle = powers[low] * 1.5
    code = {"up": high, "down": low, "nearest": np.where(x >= middle, high, low)}[mode]
    lost = np.isnan(x) | (~((x >= powers[0]) & (x <= powers[-1])) & (not saturate))
    wanted = np.where(lost, 255, code)
    known = _array(x, np.dtype(ml_dtypes.float8_e8m0fnu), bool(saturate), mode)
    np.testing.assert_array_equal(known.view(np.uint8), wanted)
    graph = made(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0,
                                  saturate=saturate, round_mode=mode), shape=x.shape,
                 given=TensorProto.FLOAT8E8M0)
    np.testing.assert_array_equal(found(graph, x).view(np.uint8), wanted)


SMALL_NAMES = (*FLOATS, *WHOLE)


@pytest.mark.parametrize("target", SMALL_NAMES)
def test_between_small_types(target: str) -> None:
    """Every code of every type, in another one: as its number is converted."""
    for name in SMALL_NAMES:
        kind = np.dtype({**FLOATS, **WHOLE}[name])
        bits = 8 if name.startswith("FLOAT8") else 2 if name.endswith("INT2") else 4
        x = np.arange(1 << bits, dtype=np.uint8).view(kind)
        x = x[np.isfinite(x.astype(np.float32))]
        graph = made(helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, target)),
                     shape=x.shape, dtype=getattr(TensorProto, name),
                     given=getattr(TensorProto, target))
        numbers = x.astype(np.float32)
        if target in FLOATS:
            wanted = text_codes(numbers, target, True)
            if target == name:
                wanted = x.view(np.uint8)
        else:
            wide = 2 if target.endswith("INT2") else 4
            wanted = numbers.astype(np.int64).astype(np.uint8) & ((1 << wide) - 1)
        np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"].view(np.uint8), wanted, name)


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


def test_way_of_rounding() -> None:
    with pytest.raises(ImportRefused, match=(
            r"n \(Cast\): round_mode must be one of up, down, nearest, not 'even'; ")):
        made(helper.make_node("Cast", ["x"], ["y"], "n", to=TensorProto.FLOAT8E8M0,
                              round_mode="even"), shape=[2], given=TensorProto.FLOAT8E8M0)


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


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
@pytest.mark.parametrize("scale", [np.float32(0.3), np.array([0.5, 3, 0.01], np.float32)])
def test_known_scales_make_operators_of_their_own(name: str, scale: np.ndarray):
    """So that a product between them can be one of a machine."""
    zero = np.zeros(scale.shape, FLOATS[name])
    nodes = (helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1))
    x = (RNG.normal(size=(2, 3, 7)) * 100).astype(np.float32)
    graph = made(*nodes, shape=x.shape, constants=(("s", scale), ("z", zero)))
    assert [node.op for node in graph.nodes] == ["encodefloat", "decodefloat"]
    steps = np.moveaxis(x, 1, -1) / scale
    most = np.float32(ml_dtypes.finfo(FLOATS[name]).max)
    codes = np.clip(steps, -most, most).astype(FLOATS[name])
    np.testing.assert_array_equal(found(graph, x), np.moveaxis(
        codes.astype(np.float32) * scale, -1, 1))
    one = np.ones(scale.shape, FLOATS[name])
    plain = made(*nodes, shape=x.shape, constants=(("s", scale), ("z", one)))
    assert "encodefloat" not in [node.op for node in plain.nodes]


def test_constants_stay_codes_for_the_product_that_reads_them():
    """A weight with a scale for each output is no float32 yet, so that its numbers are exact."""
    w = RNG.integers(-8, 9, (4, 3)).astype(ml_dtypes.float8_e4m3fn)
    scales = np.array([1, 2, 3, 4], np.float32)
    graph = made(helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0),
                 helper.make_node("Gemm", ["x", "d"], ["y"], transB=1), shape=(2, 3),
                 constants=(("w", w), ("s", scales)))
    assert [node.op for node in graph.nodes] == ["decodefloat", "dense"]
    folded = optimize(graph, standard_passes())
    assert [node.op for node in folded.nodes][-1] == "dense" and len(folded.nodes) <= 2
    x = RNG.integers(-9, 9, (2, 3)).astype(np.float32)
    np.testing.assert_array_equal(found(graph, x), x @ (
        w.astype(np.float32) * scales[:, None]).T)
