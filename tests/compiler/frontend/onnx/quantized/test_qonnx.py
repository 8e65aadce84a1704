"""QONNX: its documentation in NumPy, and its own executor where that is installed."""

from itertools import product

import numpy as np
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.spellings import model_of, operators_of, values_of

DOMAIN = "qonnx.custom_op.general"
NEAREST = {
    "ROUND": np.rint, "HALF_EVEN": np.rint, "CEIL": np.ceil, "FLOOR": np.floor, "DOWN": np.trunc,
    "UP": lambda x: np.copysign(np.ceil(np.abs(x)), x),
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    "HALF_DOWN": lambda x: np.copysign(np.ceil(np.abs(x) - np.float32(0.5)), x)}


def ends_of(bits: int, signed: int, narrow: int) -> tuple[int, int]:
    if signed:
        return -2 ** (bits - 1) + narrow, 2 ** (bits - 1) - 1
    return 0, 2 ** bits - 1 - narrow


def quant(x, scale, zero, bits, signed=1, narrow=0, mode="ROUND"):
    """As documented, in float32: bounds come before the rounding."""
    steps = x / scale + zero
    if bits == 1 and signed:
        steps = np.where(steps >= 0, 1, -1)
    else:
        steps = NEAREST[mode](np.clip(steps, *ends_of(bits, signed, narrow)))
    return (steps - zero) * scale


def executed(op: str, version: int, inputs: list, **attributes) -> np.ndarray:
    """What qonnx itself computes; as documented where it is not installed."""
    getCustomOp = pytest.importorskip("qonnx.custom_op.registry").getCustomOp
    names = [f"i{place}" for place in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], domain=DOMAIN, **attributes)
    context = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}
    getCustomOp(node, onnx_opset_version=version).execute_node(context, None)
    return context["y"]


def model(op: str, x: np.ndarray, constants: list, constant: bool = False, version: int = 1,
          domain: str = DOMAIN, **attributes):
    """The operator behind an input, or of a constant that is added to one."""
    names = [f"k{place}" for place in range(len(constants))]
    known = {name: np.asarray(value, np.float32)
             for name, value in zip(names, constants, strict=True)}
    if not constant:
        node = helper.make_node(op, ["x", *names], ["y"], domain=domain, **attributes)
        return model_of(node, {"x": x}, known, domains={domain: version})
    nodes = [helper.make_node(op, ["w", *names], ["q"], domain=domain, **attributes),
             helper.make_node("Mul", ["q", "x"], ["y"])]
    return model_of(nodes, {"x": np.ones(1, np.float32)}, known | {"w": x},
                    domains={domain: version})


def found(op: str, x: np.ndarray, constants: list, **options) -> list[np.ndarray]:
    """As an activation and as a constant, in float and by integers."""
    return [values_of(model(op, x, constants, constant, **options),
                      {"x": np.ones(1, np.float32) if constant else x}, integers)["y"]
            for constant in (False, True) for integers in (False, True)]


def numbers(scale: float, bits: int, shape: tuple[int, ...] = (4, 50)) -> np.ndarray:
    """Numbers within and beyond the range, and many halves of steps."""
    rng = np.random.default_rng(bits)
    x = rng.normal(size=shape) * scale * 2.0 ** min(bits, 12) / 2
    halves = rng.integers(-2 ** min(bits, 8), 2 ** min(bits, 8), shape) * scale / 2
    return np.where(rng.random(shape) < 0.5, x, halves).astype(np.float32)


@pytest.mark.parametrize("bits, signed, narrow", [
    (1, 0, 0), (1, 1, 0), *product((2, 3, 4, 8, 11, 16, 20), (0, 1), (0, 1))])
def test_quant(bits: int, signed: int, narrow: int) -> None:
    x = numbers(0.25, bits)
    wanted = quant(x, np.float32(0.25), np.float32(0), bits, signed, narrow)
    for array in found("Quant", x, [0.25, 0, bits], signed=signed, narrow=narrow,
                       rounding_mode="ROUND"):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("mode", NEAREST)
def test_rounding_modes(mode: str) -> None:
    x = numbers(0.25, 5)
    wanted = quant(x, np.float32(0.25), np.float32(0), 5, mode=mode)
    for spelled in (mode, mode.lower()):
        for array in found("IntQuant", x, [0.25, 0, 5], rounding_mode=spelled, signed=1):
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("zero", [3, 8, -2, 2.5])
@pytest.mark.parametrize("signed", [0, 1])
def test_zero_points(zero: float, signed: int) -> None:
    """Halves of steps go to the even integer before an odd zero point, and behind one."""
    x = numbers(0.3, 4)
    x = x[np.abs(x / np.float32(0.3) * 2 % 2 - 1) > 1e-3]
    wanted = quant(x, np.float32(0.3), np.float32(zero), 4, signed)
    for array in found("Quant", x, [0.3, zero, 4], signed=signed):
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 5, 1), (4,), (3, 5, 1)])
@pytest.mark.parametrize("bits", [4, 8])
def test_scales_of_channels(shape: tuple[int, ...], bits: int) -> None:
    rng = np.random.default_rng(bits)
    x, scale = numbers(0.5, bits, (3, 5, 4)), rng.choice([0.25, 0.5, 2], shape).astype(np.float32)
    wanted = quant(x, scale, np.float32(0), bits)
    for array in found("Quant", x, [scale, 0, bits], signed=1, narrow=0):
        np.testing.assert_array_equal(array, wanted)
    graph = convert(model("Quant", x, [scale, 0, bits], constant=True))
    assert ("dequantizelinear" in [node.op for node in graph.nodes]) == (shape != (3, 5, 1))


@pytest.mark.parametrize("zero, dtype", [(0, "uint8"), (60, "uint8"), (200, "int8")])
def test_weights_without_a_sign(zero: int, dtype: str) -> None:
    """Bytes with a zero point, where bytes do not hold what that leaves."""
    ends = (0, 255) if dtype == "uint8" else (zero - 128, zero - 1)
    x = (np.linspace(*ends, 60, dtype=np.float32).reshape(3, 20) - np.float32(zero)) / 4
    made = convert(model("Quant", x, [0.25, zero, 8], True, signed=0))
    assert [array.dtype for array in made.constants.values() if array.size >= 20] == [dtype]
    wanted = quant(x, np.float32(0.25), np.float32(zero), 8, 0)
    for array in found("Quant", x, [0.25, zero, 8], signed=0):
        np.testing.assert_array_equal(array, wanted)


def test_one_scale_with_more_dimensions_than_the_tensor() -> None:
    x, one = numbers(0.25, 4), np.full((1, 1, 1, 1), 0.25, np.float32)
    wanted = quant(x, np.float32(0.25), np.float32(0), 4)
    for op, constants in (("Quant", [one, np.zeros((1, 1, 1)), 4]), ("BipolarQuant", [one])):
        for array in found(op, x, constants):
            assert array.shape == x.shape
            np.testing.assert_array_equal(
                array, wanted if op == "Quant" else np.where(x >= 0, 0.25, -0.25))


def test_activations_and_weights_are_integers() -> None:
    """A convolution between Quants is one of int8."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(4, 2, 3, 3)).astype(np.float32),
                 "s": np.float32(0.1), "z": np.float32(0), "b": np.float32(4),
                 "ws": rng.uniform(0.1, 0.3, (4, 1, 1, 1)).astype(np.float32)}
    nodes = [helper.make_node("Quant", ["x", "s", "z", "b"], ["q"], domain=DOMAIN, signed=0),
             helper.make_node("Quant", ["w", "ws", "z", "b"], ["v"], domain=DOMAIN, narrow=1),
             helper.make_node("Conv", ["q", "v"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Quant", ["r", "s", "z", "b"], ["y"], domain=DOMAIN, signed=0)]
    x = rng.normal(size=(1, 2, 5, 5)).astype(np.float32)
    made = model_of(nodes, {"x": x}, constants)
    assert operators_of(made) == {"clip": 1, "quantize": 1, "qconv2d": 1, "dequantize": 1}
    wanted, integers = (values_of(made, {"x": x}, each)["y"] for each in (False, True))
    np.testing.assert_allclose(integers, wanted, atol=0.1001)


@pytest.mark.parametrize("shape", [(), (4, 1)])
def test_bipolar_quant(shape: tuple[int, ...]) -> None:
    x = numbers(0.5, 3)
    scale = np.full(shape, 0.75, np.float32)
    for array in found("BipolarQuant", x, [scale], domain="finn.custom_op.general"):
        np.testing.assert_array_equal(array, np.where(x >= 0, scale, -scale))


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "FLOOR"])
def test_trunc(mode: str) -> None:
    """Version 1 keeps the scale; version 2 has bounds and a scale of the result."""
    x = numbers(0.25, 8)
    steps = np.rint(x / np.float32(0.25))
    for array in found("Trunc", x, [0.25, 0, 8, 5], rounding_mode=mode):
        np.testing.assert_array_equal(array, NEAREST[mode](steps / 8) * np.float32(0.25))
    bounded = NEAREST[mode](np.clip(steps / 4, *ends_of(5, 1, 1)))
    for array in found("Trunc", x, [0.25, 0, 8, 1, 5], rounding_mode=mode, version=2, narrow=1,
                       signed=1):
        np.testing.assert_array_equal(array, bounded)


@pytest.mark.parametrize("exponent, mantissa, most", [(4, 3, 448), (2, 1, 1e9), (5, 2, 57344)])
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "CEIL"])
def test_float_quant(exponent: int, mantissa: int, most: float, mode: str) -> None:
    bias = 2 ** (exponent - 1) - 1
    rng = np.random.default_rng(exponent)
    x = (rng.normal(size=(3, 40)) * 2.0 ** rng.integers(-12, 20, (3, 40))).astype(np.float32)
    x[0, :4] = [0, 1, -2, 2.0 ** (1 - bias)]
    powers = np.maximum(np.frexp(np.abs(x))[1] - 1, 1 - bias)
    step = np.ldexp(np.float32(1), powers - mantissa)
    largest = min(most, (2 - 2.0 ** -mantissa) * 2.0 ** (2 ** exponent - 1 - bias))
    wanted = np.clip(step * NEAREST[mode](x / step), -largest, largest).astype(np.float32)
    constants = [1, exponent, mantissa, bias, most]
    for array in found("FloatQuant", x, constants, rounding_mode=mode):
        np.testing.assert_array_equal(array, wanted)
    beyond = np.where(np.abs(step * NEAREST[mode](x / step)) > largest, np.copysign(np.inf, x),
                      wanted)
    for array in found("FloatQuant", x, constants, rounding_mode=mode, saturation=0, has_inf=1):
        np.testing.assert_array_equal(array, beyond)


@pytest.mark.parametrize("op, version, constants, attributes", [
    ("Quant", 1, [0.25, 0, 4], {"signed": 1, "narrow": 1, "rounding_mode": "HALF_DOWN"}),
    ("Quant", 1, [0.3, 2, 8], {"signed": 0, "narrow": 0, "rounding_mode": "ROUND"}),
    ("Quant", 1, [0.3, 0, 1], {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}),
    ("BipolarQuant", 1, [0.7], {}),
    ("Trunc", 1, [0.25, 2, 8, 5], {"rounding_mode": "FLOOR"}),
    ("Trunc", 2, [0.25, 4, 8, 1, 6], {"rounding_mode": "ROUND", "narrow": 0, "signed": 1}),
    ("FloatQuant", 1, [0.5, 3, 2, 3, 20], {"rounding_mode": "ROUND", "has_inf": 0, "has_nan": 0,
                                           "has_subnormal": 1, "saturation": 1})])
def test_as_qonnx_itself(op: str, version: int, constants: list, attributes: dict) -> None:
    x = np.random.default_rng(len(constants)).normal(size=(3, 70)).astype(np.float32) * 12
    wanted = executed(op, version, [x, *(np.float32(value) for value in constants)], **attributes)
    for array in found(op, x, constants, version=version, **attributes):
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op, constants, attributes, reason", [
    ("Quant", [0.5, 0, 4.5], {}, "its bit width must be an integer of 1 to 64, not 4.5"),
    ("Quant", [0.5, 0, [4, 4]], {}, "its bit width must be one number, not 2"),
    ("Quant", [0.5, 0, 4], {"rounding_mode": "ODD"}, "rounding_mode must be one of CEIL, FLOOR"),
    ("Trunc", [0.5, 0, 8, 0, 4], {}, "every scale must be positive and finite"),
    ("Quant", [0.5, 0], {}, "must have 4 inputs, not 3"),
    ("BipolarQuant", [0.5], {"signed": 1}, "attribute 'signed' is not supported"),
    ("FloatQuant", [1, 9, 2, 3, 9], {}, "its exponent must have 1 to 8 bits"),
    ("FloatQuant", [1, 4, 3, 7, 9], {"saturation": 0}, "it must saturate, or have infinities")])
def test_refusals(op: str, constants: list, attributes: dict, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        convert(model(op, np.ones((2, 2), np.float32), constants, version=1 + (op == "Trunc"),
                      **attributes))
