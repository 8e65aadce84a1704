"""Operators of int8, one by one, against LiteRT's default kernels: to the bit.

Unary ones for every element, binary ones for every pair, others for random ones; with scales that
make ties, and zero points that are odd.
"""

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import OpResolverType

from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.graph.reference import evaluate
from tests.support.tflite_files import Given, interpreted, one_operator

ALL = np.arange(-128, 128).astype(np.int8)
PAIRS = [side.reshape(1, 256, 256, 1) for side in np.meshgrid(ALL, ALL)]
DEFAULT = OpResolverType.BUILTIN


def q(*shape, scale, zero=0):
    return Given(shape, "int8", scale=scale, zero=zero)


def constant(rng, *shape, scale, zero=0, low=-127):
    return Given.of(rng.integers(low, 128, shape).astype(np.int8), scale=scale, zero=zero)


def ints(*numbers):
    return Given.of(np.array(numbers, np.int32))


def both(tmp_path, case, arrays, exact=True, least=4):
    """What LiteRT computes, what is computed here, and by which operators."""
    code, inputs, outputs, kind, options = case
    data, path = one_operator(code, inputs, outputs, options, kind), tmp_path / "m.tflite"
    path.write_bytes(data)
    graph = optimize(graph_of(path), standard_passes(exact=exact))
    given, = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True))).values()
    wanted, = interpreted(data, arrays, DEFAULT)
    assert len(np.unique(wanted)) >= least
    return wanted, given, [node.op for node in graph.nodes]


def require_equal(tmp_path, case, arrays, least=4):
    wanted, given, operators = both(tmp_path, case, arrays, least=least)
    np.testing.assert_array_equal(given, wanted)
    return operators


SCALES = [(0.05, 3, 0.04, -9), (0.05, -17, 0.1, 3), (0.0173, 0, 0.0311, -128), (0.1, 5, 0.05, 20)]
UNARY = {
    **{name: (name, "", {}) for name in ("ABS", "ELU", "EXP", "HARD_SWISH", "RELU", "RELU6",
                                         "TANH")},
    "GELU": ("GELU", "GeluOptions", {}),
    "GELU of tanh": ("GELU", "GeluOptions", {"Approximate": True}),
    "LEAKY_RELU": ("LEAKY_RELU", "LeakyReluOptions", {"Alpha": 0.3}),
    "QUANTIZE": ("QUANTIZE", "QuantizeOptions", {}),
}
FROM_ZERO = {name: (name, "", {}) for name in ("LOG", "RSQRT", "SQRT")}
FIXED = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}
LAST_BITS = {"GELU"}
"""Functions whose last bits in float32 differ, which ties show."""


@pytest.mark.parametrize("name", [*UNARY, *FROM_ZERO, "LOGISTIC"])
def test_every_element(name, tmp_path):
    code, kind, options = (UNARY | FROM_ZERO).get(name, (name, "", {}))
    for scale, zero, out, out_zero in SCALES[::2] if code in LAST_BITS else SCALES:
        zero = -128 if name in FROM_ZERO else zero
        out, out_zero = FIXED.get(code, (out, out_zero))
        case = (code, [q(1, 16, 16, 1, scale=scale, zero=zero)],
                [q(1, 16, 16, 1, scale=out, zero=out_zero)], kind, options)
        assert require_equal(tmp_path, case, [ALL.reshape(1, 16, 16, 1)]) == ["qtable"]


@pytest.mark.parametrize(("code", "kind", "op"), [
    ("ADD", "AddOptions", "qmap"), ("SUB", "SubOptions", "qmap"),
    ("MUL", "MulOptions", "quantize"),
    ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", "qmap")])
def test_every_pair(code, kind, op, tmp_path):
    for (a, b, out), zeros in (((0.05, 0.05, 0.1), (3, 3, 1)), ((0.05, 0.02, 0.06), (3, -4, 1)),
                               ((0.013, 0.09, 0.031), (-128, 7, -5))):
        out *= 4 if code == "SQUARED_DIFFERENCE" else 1
        for options in ({},) if code == "SQUARED_DIFFERENCE" else (
                {}, {"FusedActivationFunction": 1}):
            case = (code, [q(1, 256, 256, 1, scale=a, zero=zeros[0]),
                           q(1, 256, 256, 1, scale=b, zero=zeros[1])],
                    [q(1, 256, 256, 1, scale=out, zero=zeros[2])], kind, options)
            assert require_equal(tmp_path, case, PAIRS)[-1] == op


def test_constants_of_channels(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (2, 9, 8, 5)).astype(np.int8)
    given, result = q(2, 9, 8, 5, scale=0.05, zero=3), q(2, 9, 8, 5, scale=0.07, zero=1)
    for code, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
        operand = constant(rng, 5, scale=0.03, zero=2)
        require_equal(tmp_path, (code, [given, operand], [result], kind, {}), [x])
    slope = constant(rng, 1, 1, 5, scale=0.003, zero=2)
    require_equal(tmp_path, ("PRELU", [given, slope], [result], "", {}), [x])


def test_an_operand_that_broadcasts(tmp_path):
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 9, 8, 5),
                                                                          (2, 1, 1, 5))]
    case = ("MUL", [q(2, 9, 8, 5, scale=0.05, zero=3), q(2, 1, 1, 5, scale=0.02, zero=-4)],
            [q(2, 9, 8, 5, scale=0.06, zero=1)], "MulOptions", {})
    require_equal(tmp_path, case, arrays)


def convolution(rng, code, channels):
    """A convolution of 3x3 of 6 channels that the scale of each channel tells apart."""
    scales = rng.uniform(0.001, 0.004, channels).astype(np.float32)
    axis = 3 if code == "DEPTHWISE_CONV_2D" else 0
    shape = (1, 3, 3, channels) if axis else (channels, 3, 3, 6)
    weight = Given.of(rng.integers(-127, 128, shape).astype(np.int8),
                      scale=tuple(scales.tolist()), axis=axis)
    bias = Given.of(rng.integers(-900, 900, channels).astype(np.int32),
                    scale=tuple((scales * np.float32(0.05)).tolist()))
    return weight, bias


@pytest.mark.parametrize("activation", [0, 1, 3])
def test_products_with_constants(activation, tmp_path):
    rng = np.random.default_rng(activation)
    x = rng.integers(-128, 128, (2, 16, 15, 6)).astype(np.int8)
    given = q(2, 16, 15, 6, scale=0.05, zero=3)
    windows = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": activation}
    out = q(2, 16, 15, 12, scale=0.031, zero=-9)
    weight, bias = convolution(rng, "CONV_2D", 12)
    operators = require_equal(
        tmp_path, ("CONV_2D", [given, weight, bias], [out], "Conv2DOptions", windows), [x])
    assert operators == ["transpose", "qconv2d", "transpose"]
    weight, bias = convolution(rng, "DEPTHWISE_CONV_2D", 12)
    require_equal(tmp_path, ("DEPTHWISE_CONV_2D", [given, weight, bias], [out],
                             "DepthwiseConv2DOptions", {**windows, "DepthMultiplier": 2}), [x])
    dense = constant(rng, 24, 90, scale=0.0023)
    operators = require_equal(tmp_path, (
        "FULLY_CONNECTED", [q(32, 90, scale=0.05, zero=3), dense, None],
        [q(32, 24, scale=0.07, zero=2)], "FullyConnectedOptions",
        {"FusedActivationFunction": activation}), [x.reshape(32, 90)])
    assert operators == ["qdense"]


def test_a_depthwise_convolution_of_1x1(tmp_path):
    """Elsewhere it is a factor for each channel of int8; here it has XNNPACK's rounding."""
    rng = np.random.default_rng(12)
    x, scales = rng.integers(-128, 128, (2, 8, 7, 5)).astype(np.int8), rng.uniform(.001, .004, 5)
    weight = Given.of(rng.integers(-127, 128, (1, 1, 1, 5)).astype(np.int8),
                      scale=tuple(scales), axis=3)
    bias = Given.of(rng.integers(-900, 900, 5).astype(np.int32), scale=tuple(scales * 0.05))
    for activation in (0, 1):
        case = ("DEPTHWISE_CONV_2D", [q(2, 8, 7, 5, scale=0.05, zero=3), weight, bias],
                [q(2, 8, 7, 5, scale=0.011, zero=-9)], "DepthwiseConv2DOptions",
                {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1,
                 "FusedActivationFunction": activation})
        assert "qconv2d" in require_equal(tmp_path, case, [x])


COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


@pytest.mark.parametrize(("a", "b"), [
    ((0.3, 0), (0.1, 0)), ((0.001, 3), (0.001, 3)), ((0.7, 1), (0.9, -4)), ((0.05, 3), (0.05, 3))])
def test_comparisons_of_every_pair(a, b, tmp_path):
    """In 256ths: of small scales several steps are alike."""
    sides = [q(1, 256, 256, 1, scale=scale, zero=zero) for scale, zero in (a, b)]
    for code in COMPARISONS:
        require_equal(tmp_path, (code, sides, [Given((1, 256, 256, 1), "bool")], "", {}), PAIRS,
                      least=2)


def test_comparisons_with_constants(tmp_path):
    constant = Given.of(np.int8(30), scale=0.1)
    case = ("GREATER", [q(1, 16, 16, 1, scale=0.3), constant], [Given((1, 16, 16, 1), "bool")], "",
            {})
    require_equal(tmp_path, case, [ALL.reshape(1, 16, 16, 1)], least=2)


def test_a_logarithm_below_zero_is_the_least_step(tmp_path):
    for zero, out_zero in ((0, 0), (3, -20), (-100, 127)):
        case = ("LOG", [q(1, 16, 16, 1, scale=0.05, zero=zero)],
                [q(1, 16, 16, 1, scale=0.04, zero=out_zero)], "", {})
        assert require_equal(tmp_path, case, [ALL.reshape(1, 16, 16, 1)]) == ["qtable"]


def test_where_it_differs_on_purpose(tmp_path):
    """LiteRT negates the code, with what zero point ever, and divides by few bits."""
    x, y = q(1, 16, 16, 1, scale=0.05, zero=20), q(1, 16, 16, 1, scale=0.05, zero=20)
    wanted, given, _ = both(tmp_path, ("NEG", [x], [y], "", {}), [ALL.reshape(1, 16, 16, 1)])
    np.testing.assert_array_equal(wanted.reshape(-1), -ALL)
    np.testing.assert_array_equal(given.reshape(-1), np.clip(40 - ALL.astype(int), -128, 127))
    a, b = (np.array([[value]], np.int8).repeat(4, 1) for value in (1, -128))
    sides = [q(1, 4, scale=0.05), q(1, 4, scale=0.05)]
    wanted, given, _ = both(tmp_path, ("DIV", sides, [q(1, 4, scale=0.05)], "DivOptions", {}),
                            [a, b], least=1)
    assert (wanted == -128).all() and (given == 0).all()


def test_ties_of_products(tmp_path):
    """A sixtieth, which no float32 is: its products with sums that are multiples of 30 are ties in
    float32 alone.
    """
    rng = np.random.default_rng(10)
    x = rng.integers(-128, 128, (64, 24)).astype(np.int8)
    weight = Given.of(rng.integers(-3, 4, (40, 24)).astype(np.int8), scale=0.02)
    case = ("FULLY_CONNECTED", [q(64, 24, scale=0.05, zero=3), weight, None],
            [q(64, 40, scale=0.06, zero=2)], "FullyConnectedOptions", {})
    require_equal(tmp_path, case, [x])


def test_transposed_convolution(tmp_path):
    rng = np.random.default_rng(5)
    x = rng.integers(-128, 128, (2, 9, 8, 6)).astype(np.int8)
    weight, _ = convolution(rng, "TRANSPOSE_CONV", 7)
    case = ("TRANSPOSE_CONV", [ints(2, 18, 16, 7), weight, q(2, 9, 8, 6, scale=0.05, zero=3)],
            [q(2, 18, 16, 7, scale=0.021, zero=-9)], "TransposeConvOptions",
            {"Padding": 0, "StrideH": 2, "StrideW": 2})
    assert "qconvtranspose2d" in require_equal(tmp_path, case, [x])


@pytest.mark.parametrize("zero", [0, -5])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_matrices(turned, zero, tmp_path):
    """XNNPACK's rounding where the second has the zero point 0, else LiteRT's; of computed ones and
    of constants, in batches or not.
    """
    rng = np.random.default_rng(6)
    for batch in ((3,), (1, 2), ()):
        a, b = (rng.integers(-128, 128, (*batch, *shape)).astype(np.int8)
                for shape in ((33, 24), (40, 24) if turned else (24, 40)))
        given, result = q(*a.shape, scale=0.05, zero=3), q(*batch, 33, 40, scale=0.13, zero=1)
        for second, arrays in ((q(*b.shape, scale=0.03, zero=zero), [a, b]),
                               (Given.of(b, scale=0.03, zero=zero), [a])):
            case = ("BATCH_MATMUL", [given, second], [result], "BatchMatMulOptions",
                    {"AdjY": turned})
            assert require_equal(tmp_path, case, arrays)[-1] == "qmatmul"


@pytest.mark.parametrize(("code", "axes", "out", "keep"), [
    ("MEAN", (1, 2), (8, 14), False), ("MEAN", (1, 2), (8, 1, 1, 14), True),
    ("MEAN", (3,), (8, 6, 7, 1), True), ("SUM", (1, 2), (8, 14), False)])
def test_sums(code, axes, out, keep, tmp_path):
    rng = np.random.default_rng(7)
    for scale, zero, out_scale, out_zero in ((0.05, 46, 0.05, 34), (0.02, 3, 0.013, -9),
                                             (0.0137, -24, 0.0137, 127), (0.071, 5, 0.0355, 3)):
        x = np.clip(np.rint(rng.normal(zero, 30, (8, 6, 7, 14))), -128, 127).astype(np.int8)
        out_scale *= 20 if code == "SUM" else 1
        case = (code, [q(8, 6, 7, 14, scale=scale, zero=zero), ints(*axes)],
                [q(*out, scale=out_scale, zero=out_zero)], "ReducerOptions", {"KeepDims": keep})
        assert "reduce_sum" in require_equal(tmp_path, case, [x])


@pytest.mark.parametrize("exact", [True, False])
def test_averages_on_every_target(exact, tmp_path):
    rng = np.random.default_rng(8)
    x = rng.integers(-128, 128, (2, 12, 11, 16)).astype(np.int8)
    for padding, window, out in ((0, 3, (12, 11)), (1, 2, (11, 10)), (1, 11, (2, 1))):
        case = ("AVERAGE_POOL_2D", [q(2, 12, 11, 16, scale=0.05, zero=3)],
                [q(2, *out, 16, scale=0.05, zero=3)], "Pool2DOptions",
                {"Padding": padding, "StrideH": 1, "StrideW": 1, "FilterHeight": window,
                 "FilterWidth": window})
        wanted, given, operators = both(tmp_path, case, [x], exact)
        np.testing.assert_array_equal(given, wanted)
        assert "qavgpool" in operators


@pytest.mark.parametrize("options", [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}])
def test_resized_images(options, tmp_path):
    rng = np.random.default_rng(11)
    x = rng.integers(-128, 128, (2, 6, 5, 7)).astype(np.int8)
    for size in ((12, 10), (9, 7), (4, 13), (6, 11)):
        case = ("RESIZE_BILINEAR", [q(2, 6, 5, 7, scale=0.05, zero=3), ints(*size)],
                [q(2, *size, 7, scale=0.05, zero=3)], "ResizeBilinearOptions", options)
        assert "shr" in require_equal(tmp_path, case, [x])


def test_softmax(tmp_path):
    rng = np.random.default_rng(9)
    x = rng.integers(-128, 128, (200, 37)).astype(np.int8)
    case = ("SOFTMAX", [q(200, 37, scale=0.08)], [q(200, 37, scale=1 / 256, zero=-128)],
            "SoftmaxOptions", {"Beta": 1.0})
    require_equal(tmp_path, case, [x])


def test_floats_at_the_border(tmp_path):
    steps = np.arange(-600, 600).astype(np.float32) * np.float32(0.5)
    for scale, zero in ((0.031, 3), (0.07, -20)):
        case = ("QUANTIZE", [Given((1, 1200))], [q(1, 1200, scale=scale, zero=zero)],
                "QuantizeOptions", {})
        require_equal(tmp_path, case, [(steps * np.float32(scale)).reshape(1, -1)])


def test_functions_of_one_tensor_are_one_table(tmp_path):
    """x * hard_sigmoid(x) and the like: the steps between are those of LiteRT."""
    for scale, zero, out, out_zero in SCALES:
        x = q(1, 16, 16, 1, scale=scale, zero=zero)
        case = ("MUL", [x, Given.of(np.int8(77), scale=0.03, zero=2)],
                [q(1, 16, 16, 1, scale=out, zero=out_zero)], "MulOptions", {})
        assert require_equal(tmp_path, case, [ALL.reshape(1, 16, 16, 1)]) == ["qtable"]


FAR = [(1e-30, 1e30), (1e30, 1e-30), (1e-3, 1e3), (1e3, 1e-3), (3e38, 1e-38), (1e-38, 3e38)]


@pytest.mark.parametrize(("scale", "out"), FAR)
def test_scales_that_no_kernel_takes_are_compiled(scale, out, tmp_path):
    """LiteRT gives up on some; here there is some result for each."""
    x, y, result = (q(1, 4, 4, 8, scale=each, zero=3) for each in (scale, scale, out))
    two = {name: [x, y] for name in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE")}
    rng, path = np.random.default_rng(1), tmp_path / "m.tflite"
    kinds = {"LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 0.3}), "GELU": ("GeluOptions", {})}
    for code in (*two, "PRELU", "FULLY_CONNECTED", "MEAN", *(name for name in UNARY if " " not in
                                                             name)):
        inputs, made = two.get(code, [x]), result
        if code == "PRELU":
            inputs = [x, constant(rng, 1, 1, 8, scale=scale)]
        elif code == "FULLY_CONNECTED":
            inputs, made = [x, constant(rng, 5, 128, scale=scale), None], q(1, 5, scale=out)
        elif code == "MEAN":
            inputs, made = [x, ints(1, 2)], q(1, 8, scale=out, zero=3)
        kind, options = kinds.get(code, ("", {}))
        path.write_bytes(one_operator(code, inputs, [made], options, kind))
        with np.errstate(all="ignore"):
            graph = optimize(graph_of(path), standard_passes(exact=True))
            arrays = {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
                      for name in graph.inputs}
            given, = evaluate(graph, arrays).values()
        assert given.dtype == np.int8


def test_beside_an_accelerator_operators_are_those_of_machines(tmp_path):
    """Multipliers of 16 bits: within a step."""
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (8, 90)).astype(np.int8)
    case = ("FULLY_CONNECTED", [q(8, 90, scale=0.05, zero=3), constant(rng, 24, 90, scale=0.0023),
                                None], [q(8, 24, scale=0.07, zero=2)], "FullyConnectedOptions", {})
    wanted, given, operators = both(tmp_path, case, [x], exact=False)
    assert np.abs(given.astype(int) - wanted).max() <= 1
    assert operators == ["qdense"]
