"""Float activations and quantized weights: LiteRT quantizes at run time, row by row."""

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import OpResolverType

from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate
from tests.support.tflite_files import KERNELS, Given, interpreted, one_operator

DEFAULT = OpResolverType.BUILTIN
F = np.float32
WINDOW = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def weights(rng, *shape, axis=None):
    """Weights of int8, with one scale or one for each place of an axis."""
    scale = F(0.004) if axis is None else rng.uniform(0.001, 0.01, shape[axis]).astype(F)
    return Given.of(rng.integers(-127, 128, shape).astype(np.int8), scale=scale, axis=axis or 0)


def activations(rng, *shape):
    """Rows and images of very different ranges, the first of them of zeros alone."""
    sizes = rng.uniform(0.1, 5, shape[:2] + (1,) * (len(shape) - 2))
    x = (rng.normal(0.3, 1, shape) * sizes).astype(F)
    x[0, :1] = 0
    return x


def outputs(tmp_path, data, arrays):
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    graph = optimize(graph_of(path))
    given, = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True))).values()
    return given, [node.op for node in graph.nodes]


def require_close(tmp_path, case, arrays, kernels=DEFAULT):
    """The results of LiteRT to the rounding of float32; returns the operators of the graph."""
    code, inputs, shape, kind, options = case
    data = one_operator(code, inputs, [Given(shape)], options, kind)
    given, operators = outputs(tmp_path, data, arrays)
    wanted, = interpreted(data, arrays, kernels)
    assert len(np.unique(wanted)) > 8
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())
    return operators


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_fully_connected(axis, asymmetric, tmp_path):
    rng = np.random.default_rng(1)
    bias = Given.of(rng.normal(size=6).astype(F))
    for shape, out, keep in (((5, 40), (5, 6), False), ((2, 3, 40), (2, 3, 6), True),
                             ((4, 2, 5, 4), (4, 6), False)):
        case = ("FULLY_CONNECTED", [Given(shape), weights(rng, 6, 40, axis=axis), bias], out,
                "FullyConnectedOptions", {"AsymmetricQuantizeInputs": asymmetric,
                                          "KeepNumDims": keep, "FusedActivationFunction": 1})
        operators = require_close(tmp_path, case, [activations(rng, *shape)])
        assert "qdense" in operators and "dequantizelinear" not in operators


@pytest.mark.parametrize("way", ["delegate", "symmetric", "asymmetric"])
def test_integers_to_the_bit(way, tmp_path):
    """The identity shows what becomes of each number: halves of steps are frequent here, and zero
    points between two integers.
    """
    rng = np.random.default_rng(2)
    even = rng.uniform(-1, 1, (60, 32)) * rng.uniform(0.1, 9, (60, 1))
    even[:, 0] = np.abs(even).max(1)
    even[:, 1] = -even[:, 0]
    x = np.stack([*even, rng.integers(-20, 21, 32) / 2, rng.integers(0, 256, 32) / 2,
                  -rng.integers(0, 300, 32) / 4, np.zeros(32), *rng.normal(size=(60, 32)),
                  *rng.integers(-9, 10, (60, 32)) / 2]).astype(F)
    one, shape = np.eye(32, dtype=np.int8), x.shape
    factor = Given.of(one, scale=F(1)) if way == "delegate" else Given((32, 32), "int8", scale=F(1))
    data = one_operator("FULLY_CONNECTED", [Given(shape), factor, None], [Given(shape)],
                        {"AsymmetricQuantizeInputs": way == "asymmetric"}, "FullyConnectedOptions")
    arrays = [x] if way == "delegate" else [x, one]
    given, _ = outputs(tmp_path, data, arrays)
    wanted, = interpreted(data, arrays, DEFAULT if way == "delegate" else KERNELS)
    np.testing.assert_allclose(given, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("padding", "dilation", "channels"), [(0, 1, 6), (1, 2, 6), (0, 1, 2)])
def test_convolution(padding, dilation, channels, tmp_path):
    rng = np.random.default_rng(3)
    for axis in (None, 0):
        if channels == 2 and axis is None and padding:
            continue
        side = 8 if not padding else 8 - 2 * dilation
        case = ("CONV_2D", [Given((3, 8, 8, 6)), weights(rng, 4 if channels == 6 else 6, 3, 3,
                                                         channels, axis=axis),
                            Given.of(rng.normal(size=4 if channels == 6 else 6).astype(F))],
                (3, side, side, 4 if channels == 6 else 6), "Conv2DOptions",
                {**WINDOW, "Padding": padding, "DilationHFactor": dilation,
                 "DilationWFactor": dilation, "FusedActivationFunction": 3})
        assert "qconv2d" in require_close(tmp_path, case, [activations(rng, 3, 8, 8, 6)])


@pytest.mark.parametrize(("stride", "channels"), [(1, 6), (2, 6), (1, 3)])
def test_convolutions_of_1x1(stride, channels, tmp_path):
    """XNNPACK quantizes pixels, one by one, where such a one is a product of matrices."""
    rng = np.random.default_rng(14)
    case = ("CONV_2D", [Given((3, 6, 6, 6)), weights(rng, 4, 1, 1, channels, axis=0),
                        Given.of(rng.normal(size=4).astype(F))],
            (3, 6 // stride, 6 // stride, 4), "Conv2DOptions",
            {**WINDOW, "StrideH": stride, "StrideW": stride})
    require_close(tmp_path, case, [activations(rng, 3, 6, 6, 6)])
    case = ("CONV_2D", [Given((3, 6, 6, 1)), weights(rng, 1, 1, 1, 1),
                        Given.of(np.zeros(1, F))], (3, 6, 6, 1), "Conv2DOptions", WINDOW)
    require_close(tmp_path, case, [activations(rng, 3, 6, 6, 1)])


def test_depthwise_and_transposed_convolution(tmp_path):
    rng = np.random.default_rng(4)
    bias, x = Given.of(rng.normal(size=10).astype(F)), activations(rng, 3, 8, 8, 5)
    case = ("DEPTHWISE_CONV_2D", [Given(x.shape), weights(rng, 1, 3, 3, 10, axis=3), bias],
            (3, 4, 4, 10), "DepthwiseConv2DOptions",
            {**WINDOW, "StrideH": 2, "StrideW": 2, "DepthMultiplier": 2})
    require_close(tmp_path, case, [x])
    shape = Given.of(np.array([3, 16, 16, 4], np.int32))
    case = ("TRANSPOSE_CONV", [shape, weights(rng, 4, 3, 3, 5, axis=0), Given(x.shape)],
            (3, 16, 16, 4), "TransposeConvOptions", {"StrideH": 2, "StrideW": 2})
    require_close(tmp_path, case, [x])


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_products_of_matrices(computed, turned, tmp_path):
    """XNNPACK gives zeros where the second is computed; LiteRT's own kernels do not."""
    rng = np.random.default_rng(5)
    x = activations(rng, 2, 40, 5) if turned[0] else activations(rng, 2, 5, 40)
    factor = weights(rng, *((2, 6, 40) if turned[1] else (2, 40, 6)))
    array = factor.array
    if computed:
        factor = Given(factor.shape, "int8", scale=factor.scale)
    for asymmetric in (False, True):
        case = ("BATCH_MATMUL", [Given(x.shape), factor], (2, 5, 6), "BatchMatMulOptions",
                {"AdjX": turned[0], "AdjY": turned[1], "AsymmetricQuantizeInputs": asymmetric})
        require_close(tmp_path, case, [x, array] if computed else [x],
                      KERNELS if computed else DEFAULT)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_lstm(asymmetric, tmp_path):
    rng = np.random.default_rng(6)
    biases = [Given.of(rng.normal(size=4).astype(F)) for _ in range(4)]
    states = [Given((2, 4), variable=True)] * 2
    inputs = [Given((2, 5, 3)), *(weights(rng, 4, 3) for _ in range(4)),
              *(weights(rng, 4, 4) for _ in range(4)), None, None, None, *biases, None, None,
              *states]
    for clip in (0, 0.4):
        case = ("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (2, 5, 4),
                "UnidirectionalSequenceLSTMOptions",
                {"FusedActivationFunction": 4, "AsymmetricQuantizeInputs": asymmetric,
                 "CellClip": clip})
        operators = require_close(tmp_path, case, [activations(rng, 2, 5, 3)])
        assert operators.count("qdense") == 5       # of all inputs, and of each state but the first


def test_weights_around_another_zero_and_dequantized_ones_stay_in_float(tmp_path):
    """What LiteRT's kernels for int8 weights do not take."""
    rng = np.random.default_rng(7)
    around = Given.of(rng.integers(-99, 99, (6, 40)).astype(np.int8), scale=F(0.004), zero=3)
    x = activations(rng, 5, 40)
    data = one_operator("FULLY_CONNECTED", [Given((5, 40)), around, None], [Given((5, 6))], {},
                        "FullyConnectedOptions")
    given, _ = outputs(tmp_path, data, [x])
    np.testing.assert_allclose(given, x @ ((around.array - F(3)) * F(0.004)).T, rtol=1e-4,
                               atol=1e-5)


def test_a_batch_that_is_open(tmp_path):
    rng = np.random.default_rng(8)
    data = one_operator("CONV_2D", [Given((1, 6, 6, 3), signature=(-1, -1, -1, 3)),
                                    weights(rng, 4, 3, 3, 3, axis=0),
                                    Given.of(np.zeros(4, F))],
                        [Given((1, 6, 6, 4), signature=(-1, -1, -1, 4))],
                        {**WINDOW, "Padding": 0}, "Conv2DOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    x = activations(rng, 2, 7, 5, 3)
    graph = optimize(graph_of(path, arrays={"t0": x}))
    given, = evaluate(graph, {"t0": x}).values()
    wanted, = interpreted(data, [x], DEFAULT)
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def few(rng, *shape, bits=4, axis=None):
    """Weights of a few bits: LiteRT's own kernels do not compute with the least of them."""
    least = 1 - (1 << bits - 1)
    scale = F(0.04) if axis is None else rng.uniform(0.01, 0.1, shape[axis]).astype(F)
    return Given(shape, "int8", rng.integers(least, -least + 1, shape).astype(np.int8), scale,
                 axis=axis or 0, bits=bits)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("columns", [40, 41])
def test_weights_of_4_bits(axis, columns, tmp_path):
    rng = np.random.default_rng(9)
    x = activations(rng, 5, columns)
    case = ("FULLY_CONNECTED", [Given(x.shape), few(rng, 6, columns, axis=axis), None], (5, 6),
            "FullyConnectedOptions", {})
    require_close(tmp_path, case, [x])
    x = activations(rng, 2, 8, 8, 4)
    case = ("CONV_2D", [Given(x.shape), few(rng, 6, 3, 3, 4, axis=axis),
                        Given.of(rng.normal(size=6).astype(F))], (2, 6, 6, 6), "Conv2DOptions",
            {**WINDOW, "Padding": 1})
    require_close(tmp_path, case, [x])


@pytest.mark.parametrize("block", [16, 32, 48, 64])
def test_blocks(block, tmp_path):
    """XNNPACK takes multiples of 32, and rounds their scales to bfloat16."""
    rng = np.random.default_rng(10)
    x, factor = activations(rng, 5, 192), few(rng, 6, 192)
    scales = rng.uniform(0.001, 0.1, (6, 192 // block)).astype(np.float16)
    factor = Given(factor.shape, "int8", factor.array, bits=4, block=block, block_scales=scales)
    case = ("FULLY_CONNECTED", [Given(x.shape), factor, Given.of(rng.normal(size=6).astype(F))],
            (5, 6), "FullyConnectedOptions", {})
    require_close(tmp_path, case, [x])


def test_zero_points_of_blocks_count(tmp_path):
    """LiteRT reads none; the schema has them."""
    rng = np.random.default_rng(11)
    x, factor = activations(rng, 5, 64), few(rng, 6, 64)
    scales, zeros = rng.uniform(0.001, 0.1, (6, 4)), rng.integers(-3, 4, (6, 4))
    given, _ = outputs(tmp_path, one_operator("FULLY_CONNECTED", [Given(x.shape), Given(
        factor.shape, "int8", factor.array, bits=4, block=16, block_scales=scales,
        block_zeros=zeros), None], [Given((5, 6))], {}, "FullyConnectedOptions"), [x])
    real = (factor.array - zeros.repeat(16, 1)) * scales.astype(np.float16).astype(F).repeat(16, 1)
    np.testing.assert_allclose(given, x @ real.T, rtol=0, atol=2e-2 * np.abs(given).max())


@pytest.mark.parametrize("block", [0, 16])
def test_embeddings_of_4_bits(block, tmp_path):
    rng = np.random.default_rng(12)
    table, places = few(rng, 9, 32, axis=0), np.array([3, 0, 8, 3], np.int32)
    if block:
        table = Given(table.shape, "int8", table.array, bits=4, block=block,
                      block_scales=rng.uniform(0.001, 0.1, (9, 2)))
    data = one_operator("EMBEDDING_LOOKUP", [Given((4,), "int32"), table], [Given((4, 32))])
    given, _ = outputs(tmp_path, data, [places])
    np.testing.assert_array_equal(given, interpreted(data, [places], DEFAULT)[0])


@pytest.mark.parametrize("bits", [4, 2])
def test_int8_activations_and_weights_of_few_bits_are_integers(bits, tmp_path):
    rng = np.random.default_rng(13)
    factor = few(rng, 6, 40, bits=bits, axis=0)
    bias = Given.of(rng.integers(-500, 500, 6).astype(np.int32), scale=factor.scale * F(0.05))
    x = rng.integers(-128, 128, (5, 40)).astype(np.int8)
    data = one_operator("FULLY_CONNECTED", [Given(x.shape, "int8", scale=0.05, zero=3), factor,
                                            bias], [Given((5, 6), "int8", scale=0.3, zero=-4)], {},
                        "FullyConnectedOptions")
    given, operators = outputs(tmp_path, data, [x])
    assert "dequantize" not in operators
    if bits == 4:
        assert np.abs(given.astype(int) - interpreted(data, [x], DEFAULT)[0]).max() <= 1
    exact = (x.astype(int) - 3) @ factor.array.T.astype(int) + bias.array
    steps = np.clip(np.rint(exact * (0.05 * factor.scale / 0.3)) - 4, -128, 127)
    assert len(np.unique(steps)) > 4 and np.abs(given - steps).max() <= 1


def test_int8_images_and_weights_of_4_bits_are_integers(tmp_path):
    rng = np.random.default_rng(15)
    factor = few(rng, 6, 3, 3, 4, axis=0)
    bias = Given.of(rng.integers(-500, 500, 6).astype(np.int32), scale=factor.scale * F(0.05))
    x = rng.integers(-128, 128, (2, 8, 8, 4)).astype(np.int8)
    data = one_operator("CONV_2D", [Given(x.shape, "int8", scale=0.05, zero=3), factor, bias],
                        [Given((2, 8, 8, 6), "int8", scale=0.2, zero=-4)], WINDOW,
                        "Conv2DOptions")
    given, operators = outputs(tmp_path, data, [x])
    wanted, = interpreted(data, [x], DEFAULT)
    assert "qconv2d" in operators and len(np.unique(wanted)) > 50
    assert np.abs(given.astype(int) - wanted).max() <= 1


def test_blocks_that_are_no_part_of_an_axis_are_refused(tmp_path):
    from compiler.frontend import ImportRefused

    factor = Given((6, 64), "int8", np.zeros((6, 64), np.int8), bits=4, block=48,
                   block_scales=np.ones((6, 1)))
    path = tmp_path / "m.tflite"
    path.write_bytes(one_operator("FULLY_CONNECTED", [Given((5, 64)), factor, None],
                                  [Given((5, 6))], {}, "FullyConnectedOptions"))
    with pytest.raises(ImportRefused, match="tensor 't1' must have blocks that its last axis holds "
                                            "whole, not of 48 elements$"):
        graph_of(path)
