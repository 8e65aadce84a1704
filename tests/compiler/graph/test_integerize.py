"""From float operators between quantizations to integer operators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize
from compiler.ops.registry import OPERATORS
from tests.support.effort import tries

BOTH = ["int8", "uint8"]
PAIRS = pytest.mark.parametrize("dtype", BOTH)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def attributes(graph: Graph, name: str, *keys: str) -> tuple:
    return tuple(graph.node(name).attrs[key] for key in keys)


def conv_net(qdq, dtype="uint8", relu=True, **attrs):
    """Input and output scales 0.05 and 0.4, zero points 3 and 9."""
    one = qdq()
    x = one.requantized(one.input("x", 4, 3, 6, 7), 0.05, 3, dtype)
    scales = np.array([0.01, 0.003, 0.02, 0.004, 0.007], np.float32)
    y = one.add("Conv", x, one.weight(5, 3, 3, 2, scale=scales),
                one.bias([100, -200, 3000, 0, 7], np.float32(0.05) * scales), name="conv", **attrs)
    y = one.add("Relu", y, name="act") if relu else y
    return one, one.requantized(y, 0.4, 9, dtype)


@PAIRS
def test_conv_text(qdq, dtype) -> None:
    one, y = conv_net(qdq, dtype, pads=[1, 0, 1, 1], strides=[2, 1])
    graph = optimize(convert(one.model(y), "net"))
    x, z = (3 - 128, 9 - 128) if dtype == "uint8" else (3, 9)
    q, y = (f"quantizelinear{n}.out" + "_stored" * (dtype == "uint8") for n in (0, 6))
    lines = [line for line in str(graph).splitlines() if "crc32" not in line]
    assert lines == [
        "graph net {",
        "  input x: float32[4,3,6,7]",
        f"  {q}: int8[4,3,6,7] = quantize(x) "
        f"{{scale=0.05000000074505806, zp={x}}}  # quantizelinear0",
        f"  {y}: int8[4,5,3,7] = qconv2d({q}, conv:weight, "
        "conv:bias, conv:mult, conv:shift) "
        f"{{hi=127, lo={max(-128, z)}, pad_value={x}, pads=(1,0,1,1), strides=(2,1), zp={z}}}"
        "  # conv",
        f"  dequantizelinear7.out: float32[4,5,3,7] = dequantize({y}) "
        f"{{scale=0.4000000059604645, zp={z}}}  # dequantizelinear7",
        "  output dequantizelinear7.out: float32[4,5,3,7]",
        "}",
    ]
    assert graph.notes == ()


def test_conv_folds_the_zero_point_into_the_bias(qdq) -> None:
    one, y = conv_net(qdq)
    graph = optimize(convert(one.model(y)))
    sums = graph.constants["conv:weight"].astype(int).sum(axis=(1, 2, 3))
    wanted = np.array([100, -200, 3000, 0, 7]) - (3 - 128) * sums
    assert graph.constants["conv:bias"].dtype == np.int32
    assert graph.constants["conv:bias"].tolist() == wanted.tolist()


def test_conv_multipliers(qdq) -> None:
    one, y = conv_net(qdq)
    graph = optimize(convert(one.model(y)))
    reals = np.float32(0.05) * np.float64(np.array([0.01, 0.003, 0.02, 0.004, 0.007], np.float32))
    mult, shift = graph.constants["conv:mult"], graph.constants["conv:shift"]
    np.testing.assert_allclose(mult / 2.0**shift, reals / np.float32(0.4), rtol=2**-16)
    assert mult.min() >= 2**15 and mult.max() < 2**16


# Scales here are no small fractions of each other: 5/6, say, would put a tie in every sixth sum,
# and neither float32 nor a 16-bit multiplier keeps ties of such fractions.
def exact_layers(layers, at_least: float = 0.99) -> None:
    for layer in layers:
        assert layer.largest <= 1 and layer.equal >= at_least, layer


@st.composite
def conv_cases(draw: st.DrawFn) -> dict:
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    pads = [draw(st.integers(0, kernel[side % 2] - 1)) for side in range(4)]
    return {"seed": draw(st.integers(0, 2**32 - 1)), "dtype": draw(st.sampled_from(BOTH)),
            "relu": draw(st.booleans()), "kernel": kernel, "pads": pads,
            "channels": [draw(st.integers(1, 5)) for _ in range(2)],
            "strides": [draw(st.integers(1, 3)) for _ in range(2)],
            "size": [draw(st.integers(4, 9)) for _ in range(2)]}


@settings(max_examples=tries(40))
@given(conv_cases())
def test_random_conv_against_onnx(qdq, layer_differences, case) -> None:
    """Calibrated as a quantizer would: the output's range decides its scale. Enough images for
    shares of elements to mean something.
    """
    images = 60
    one = qdq(seed=case["seed"])
    low = 0 if case["dtype"] == "uint8" else -128
    zeros = [int(one.rng.integers(low, low + 256)) for _ in range(2)]
    inward, outward = case["channels"]
    x = one.input("x", images, inward, *case["size"])
    y = one.add("Conv", one.requantized(x, 0.0213, zeros[0], case["dtype"]),
                one.weight(outward, inward, *case["kernel"]),
                one.constant(normal(one.rng, outward)), pads=case["pads"], strides=case["strides"])
    y = one.add("Relu", y) if case["relu"] else y
    scale = 0.017 * np.sqrt(inward * np.prod(case["kernel"]))
    model = one.model(one.requantized(y, scale, zeros[1], case["dtype"]))
    layers = layer_differences(model, {"x": normal(one.rng, images, inward, *case["size"])})
    by_element = case["channels"] == case["kernel"] == case["strides"] == [1, 1]
    assert [layer.op for layer in layers] == ["quantize", "qaffine" if by_element else "qconv2d"]
    exact_layers(layers, at_least=0.4 if by_element else 0.98)


@PAIRS
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("attrs", [
    {"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"auto_pad": "SAME_LOWER", "strides": [1, 3]}, {},
], ids=str)
def test_conv_against_onnx(qdq, layer_differences, rng, dtype, relu, attrs) -> None:
    one, y = conv_net(qdq, dtype, relu, **attrs)
    layers = layer_differences(one.model(y), {"x": normal(rng, 4, 3, 6, 7, spread=3)})
    assert [layer.op for layer in layers] == ["quantize", "qconv2d"]
    exact_layers(layers)


def normal(rng: np.random.Generator, *shape: int, spread: float = 2) -> np.ndarray:
    return (spread * rng.normal(size=shape)).astype(np.float32)


def test_float_bias_and_no_bias(qdq, layer_differences, rng) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 6, 6))
    first = one.requantized(one.add("Conv", x, one.weight(4, 3, 3, 3),
                                    one.constant(normal(rng, 4)), name="first"), 0.4)
    y = one.requantized(one.add("Conv", first, one.weight(4, 4, 1, 1), name="second"), 0.5)
    model = one.model(y)
    assert ops(optimize(convert(model))) == ["quantize", "qconv2d", "qconv2d", "dequantize"]
    exact_layers(layer_differences(model, {"x": normal(rng, 2, 3, 6, 6)}))


def test_weights_with_one_scale_and_unsigned_weights(qdq, layer_differences, rng) -> None:
    """uint8 weights with zero point 128 are int8 weights with zero point 0."""
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 6, 6))
    x = one.requantized(one.add("Conv", x, one.weight(4, 3, 3, 3, scale=0.01), name="first"), 0.3)
    weight = one.constant(rng.integers(0, 256, (4, 4, 1, 1)).astype(np.uint8))
    y = one.add("Conv", x, one.dequantize(weight, 0.01, 128), name="second")
    model = one.model(one.requantized(y, 0.5))
    graph = optimize(convert(model))
    assert graph.notes == ()
    raw = next(array for name, array in convert(model).constants.items() if name == weight)
    np.testing.assert_array_equal(graph.constants["second:weight"], raw.astype(int) - 128)
    exact_layers(layer_differences(model, {"x": normal(rng, 2, 3, 6, 6)}))


@pytest.mark.parametrize("op", ["plain", "transposed", "matmul"])
def test_dense_against_onnx(qdq, layer_differences, rng, op) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 50, 24))
    if op == "matmul":
        y = one.add("MatMul", x, one.weight(24, 9, axis=1), name="fc")
    elif op == "transposed":
        y = one.add("Gemm", x, one.weight(9, 24), one.constant(normal(rng, 9)), transB=1, name="fc")
    else:
        y = one.add("Gemm", x, one.weight(24, 9, axis=1), one.constant(normal(rng, 1)), name="fc")
    model = one.model(one.requantized(y, 0.2))
    graph = optimize(convert(model))
    assert ops(graph) == ["quantize", "qdense", "dequantize"]
    assert graph.values["fc:weight"].shape == (9, 24)
    exact_layers(layer_differences(model, {"x": normal(rng, 50, 24)}))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("scales", [(0.05, 0.0213, 0.0617), (0.5, 0.001, 0.25), (0.1, 0.1, 0.1)])
def test_add_against_onnx(qdq, layer_differences, rng, scales, relu) -> None:
    one = qdq()
    a = one.requantized(one.input("a", 40, 30), scales[0], 3)
    b = one.requantized(one.input("b", 40, 30), scales[1], 200)
    y = one.add("Add", a, b, name="sum")
    y = one.requantized(one.add("Relu", y) if relu else y, scales[2], 20)
    model = one.model(y)
    ma, mb, c, lo = attributes(optimize(convert(model)), "sum", "ma", "mb", "c", "lo")
    assert 2**15 <= max(ma, mb) < 2**16
    assert c == -((3 - 128) * ma + (200 - 128) * mb)
    assert lo == (20 - 128 if relu else -128)
    exact_layers(layer_differences(model, {"a": normal(rng, 40, 30), "b": normal(rng, 40, 30)}))


@PAIRS
def test_pools_against_onnx(qdq, layer_differences, rng, dtype) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 8, 5, 6, 6), 0.05, 3, dtype)
    x = one.requantized(one.add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                                strides=[2, 2], name="max"), 0.05, 3, dtype)
    y = one.requantized(one.add("GlobalAveragePool", x, name="mean"), 0.0213, 5, dtype)
    flat = one.requantized(one.add("Flatten", y, name="flat"), 0.0213, 5, dtype)
    model = one.model(flat)
    graph = optimize(convert(model))
    assert ops(graph) == ["quantize", "qmaxpool", "qglobalavgpool", "reshape", "dequantize"]
    assert attributes(graph, "mean", "bias") == (-9 * (3 - (128 if dtype == "uint8" else 0)),)
    exact_layers(layer_differences(model, {"x": normal(rng, 8, 5, 6, 6)}))


def test_pool_with_another_scale_is_followed_by_a_rescale(qdq, layer_differences, rng) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 6, 6), 0.05, 3)
    y = one.requantized(one.add("MaxPool", x, kernel_shape=[2, 2], name="max"), 0.07, 1)
    model = one.model(y)
    assert ops(optimize(convert(model))) == ["quantize", "qmaxpool", "qrescale", "dequantize"]
    exact_layers(layer_differences(model, {"x": normal(rng, 2, 3, 6, 6)}))


def test_relu_alone_and_changes_of_scale(qdq, layer_differences, rng) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 60, 30), 0.05, 3)
    x = one.requantized(one.add("Relu", x, name="act"), 0.05, 3)
    y = one.requantized(x, 0.013, 10, "int8")
    same = one.requantized(y, 0.013, 10, "int8")
    other = one.requantized(same, 0.013, 138, "uint8")      # the same stored form
    model = one.model(other)
    graph = optimize(convert(model))
    assert ops(graph) == ["quantize", "qrescale", "qrescale", "dequantize"]
    assert attributes(graph, "act", "bias", "mult", "shift", "lo") == (125, 2**15, 15, -125)
    exact_layers(layer_differences(model, {"x": normal(rng, 60, 30)}))


def test_quantized_inputs_and_outputs_keep_their_types(qdq, onnx_values, rng) -> None:
    one = qdq()
    one.input("u", 2, 3, dtype="uint8")
    one.input("s", 2, 3, dtype="int8")
    y = one.add("Add", one.dequantize("u", 0.05, 100), one.dequantize("s", 0.03, 4, "int8"))
    u, s = one.quantize(y, 0.0617, 120), one.quantize(y, 0.0617, 8, "int8")
    model = one.model(u, s, dtypes={u: "uint8", s: "int8"})
    graph = optimize(convert(model))
    assert sorted(ops(graph)) == ["qadd", "qadd", "to_int8", "to_uint8"]
    assert [str(graph.values[name]) for name in graph.inputs] == ["uint8[2,3]", "int8[2,3]"]
    feeds = {"u": rng.integers(0, 256, (2, 3)).astype(np.uint8),
             "s": rng.integers(-128, 128, (2, 3)).astype(np.int8)}
    ours, theirs = evaluate(graph, feeds), onnx_values(model, feeds)
    for name in (u, s):
        assert ours[name].dtype == theirs[name].dtype
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_two_quantizations_of_one_operator(qdq, layer_differences, rng) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 6, 6))
    c = one.add("Conv", x, one.weight(4, 3, 3, 3), name="conv")
    model = one.model(one.requantized(c, 0.3), one.requantized(c, 0.2))
    graph = optimize(convert(model))
    assert ops(graph).count("qconv2d") == 2
    assert [node.name for node in graph.nodes if node.op == "qconv2d"] == ["conv", "conv_1"]
    exact_layers(layer_differences(model, {"x": normal(rng, 2, 3, 6, 6)}))


def test_a_channel_that_never_moves_has_multiplier_zero(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 1, 2, 2))
    scales = np.array([1e-12, 0.01], np.float32)
    y = one.add("Conv", x, one.weight(2, 1, 1, 1, scale=scales), name="conv")
    graph = optimize(convert(one.model(one.requantized(y))))
    assert graph.constants["conv:mult"][0] == graph.constants["conv:shift"][0] == 0
    assert graph.constants["conv:mult"][1] > 0


def test_float_operators_around_survive(qdq, onnx_values, rng) -> None:
    """A float tail on a quantized trunk: one dequantize between them, weights folded."""
    one = qdq()
    x = one.requantized(one.input("x", 4, 8))
    x = one.requantized(one.add("Gemm", x, one.weight(6, 8), transB=1, name="trunk"), 0.3)
    y = one.add("Gemm", x, one.weight(5, 6), transB=1, name="tail")
    model = one.model(y)
    graph = optimize(convert(model))
    assert ops(graph) == ["quantize", "qdense", "dequantize", "dense"]
    assert graph.notes == (
        "tail (dense) stays in float: a QuantizeLinear is missing behind it, where its result "
        "leaves the network",)
    feeds = {"x": normal(rng, 4, 8)}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y], atol=0.4)


@pytest.mark.parametrize(("build", "reason"), [
    (lambda one, x: one.add("Cos", one.add("Conv", one.requantized(x), one.weight(
        2, 2, 1, 1), name="conv"), name="gate"),
     "a QuantizeLinear is missing between it and gate (cos)"),
    (lambda one, x: one.add("Conv", one.add("Sigmoid", one.requantized(x), name="gate"),
                            one.weight(2, 2, 1, 1), name="conv"),
     "its input 'gate.out' is not quantized"),
    (lambda one, x: one.add("Relu", one.add("Conv", one.requantized(x), one.weight(2, 2, 1, 1),
                                            name="conv")), None),
    (lambda one, x: one.add("Softmax", one.add("Relu", one.add(
        "Conv", x, one.constant(np.ones((2, 2, 1, 1), np.float32)), name="conv")), name="soft"),
     "a QuantizeLinear and a DequantizeLinear are missing behind its input 'x'; a DequantizeLinear "
     "of int8 is missing behind its weight 'k0'; a QuantizeLinear is missing between it and soft"),
])
def test_what_is_missing_is_told(qdq, build, reason: str | None) -> None:
    one = qdq()
    y = build(one, one.input("x", 1, 2, 4, 4))
    graph = optimize(convert(one.model(one.requantized(y))))
    notes = [note for note in graph.notes if note.startswith("conv ")]
    assert [note.startswith(f"conv (conv2d) stays in float: {reason}") for note in notes] == (
        [True] if reason else []), graph.notes


def test_an_operator_without_a_form_on_integers_is_told(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4, 4))
    scales = one.constant(np.array([1, 1, 2, 2], np.float32))
    y = one.add("Resize", x, "", scales, mode="linear", name="resize")
    graph = optimize(convert(one.model(one.requantized(y))))
    assert graph.notes == ("resize (resample) stays in float: it has no form on integers",)
    one = qdq()
    y = one.add("ReduceMean", one.requantized(one.input("x", 1, 6, 4, 4)), axes=[1], name="mean")
    graph = optimize(convert(one.model(one.requantized(one.add("Sqrt", y, name="root")))))
    assert graph.notes == ("root (sqrt) stays in float: it does not stand between a "
                           "DequantizeLinear and a QuantizeLinear",)


def test_reshapes_around_sequences_are_not_told(qdq) -> None:
    """Importers write them: no note is about one, and reasons name what the file has."""
    one = qdq()
    y = one.add("Conv", one.requantized(one.input("x", 1, 2, 8)), one.weight(3, 2, 3), name="conv")
    assert optimize(convert(one.model(one.requantized(y)))).notes == ()
    one = qdq()
    y = one.add("Conv", one.input("x", 1, 2, 8), one.weight(3, 2, 3), name="conv")
    assert optimize(convert(one.model(one.requantized(y)))).notes == (
        "conv.conv2d (conv2d) stays in float: its input 'x' is not quantized",)
    one = qdq()
    x = one.requantized(one.add("Relu", one.input("x", 1, 2, 8), name="act"))
    y = one.add("Conv", x, one.weight(3, 2, 3), name="conv")
    assert optimize(convert(one.model(one.requantized(y)))).notes == (
        "act (relu) stays in float: a QuantizeLinear and a DequantizeLinear are missing behind its "
        "input 'x'",)


def test_integerizing_twice_changes_nothing(qdq) -> None:
    one, y = conv_net(qdq)
    graph = optimize(convert(one.model(y)))
    assert str(optimize(graph)) == str(graph)


def conv_with(one, weight, bias=None, x=None, scale=0.4):
    x = x or one.requantized(one.input("x", 1, 2, 4, 4))
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return one.requantized(one.add("Conv", *inputs, name="conv"), scale)


def wrong_axis(one):
    return conv_with(one, one.weight(2, 2, 1, 1, axis=1))


def float_weight(one):
    return conv_with(one, one.constant(one.rng.normal(size=(2, 2, 1, 1)).astype(np.float32)))


def wide_weight(one):
    return conv_with(one, one.bias(np.ones((2, 2, 1, 1)), 0.1))


def computed_weight(one):
    return conv_with(one, one.requantized(one.input("w", 2, 2, 1, 1)))


def computed_bias(one):
    return conv_with(one, one.weight(2, 2, 1, 1), one.input("b", 2))


def requantized_bias(one):
    return conv_with(one, one.weight(2, 2, 1, 1), one.requantized(one.input("b", 2)))


def wide_bias(one):
    return conv_with(one, one.weight(2, 2, 1, 1, scale=0.01),
                     one.constant(np.array([0, 0.05 * 0.01 * 2**31], np.float32)))


def float_input(one):
    return conv_with(one, one.weight(2, 2, 1, 1), x=one.input("x", 1, 2, 4, 4))


def per_channel_input(one):
    scale = one.constant(np.array([0.1, 0.2], np.float32))
    zero = one.constant(np.array([1, 2], np.uint8))
    q = one.add("QuantizeLinear", one.input("x", 1, 2, 4, 4), scale, zero, name="q")
    return conv_with(one, one.weight(2, 2, 1, 1), x=one.add("DequantizeLinear", q, scale, zero))


def tiny_output_scale(one):
    return conv_with(one, one.weight(2, 2, 1, 1, scale=0.5), scale=1e-7)


def matrix_bias(one):
    x = one.requantized(one.input("x", 2, 3))
    bias = one.constant(np.ones((2, 4), np.float32))
    y = one.add("Gemm", x, one.weight(4, 3), bias, transB=1, name="conv")
    return one.requantized(y)


def constant_add(one):
    k = one.dequantize(one.constant(np.ones((2, 1), np.uint8)))
    return one.requantized(one.add("Add", one.requantized(one.input("a", 2, 3)), k, name="conv"))


def float_add(one):
    k = one.constant(np.ones((2, 3), np.float32))
    return one.requantized(one.add("Add", one.requantized(one.input("a", 2, 3)), k, name="conv"))


def batched_matmul(one):
    x = one.requantized(one.input("x", 2, 3, 4))
    return one.requantized(one.add("MatMul", x, one.weight(2, 4, 5, scale=0.01), name="conv"))


@PAIRS
@pytest.mark.parametrize("shape", [(4, 5, 6), (5, 6)])
def test_a_constant_tensor_is_added(qdq, onnx_values, rng, shape, dtype) -> None:
    """It has a scale of its own, and may be repeated along the first dimensions."""
    one = qdq()
    k = one.dequantize(one.constant(rng.integers(0, 100, shape).astype(dtype)), 0.03, 9, dtype)
    x = one.requantized(one.input("x", 4, 5, 6), 0.05, 7, dtype)
    y = one.requantized(one.add("Add", k, x, name="sum"), 0.0613, 5, dtype)
    graph, feeds = optimize(convert(one.model(y))), {"x": normal(rng, 4, 5, 6)}
    assert graph.node("sum").op == "qadd" and graph.notes == ()
    steps = np.abs(evaluate(graph, feeds)[y] - onnx_values(one.model(y), feeds)[y]) / 0.0613
    assert steps.max() < 1.01 and (steps > 0.5).mean() < 0.02


STAYS = [
    (wrong_axis, "conv2d",
     "its weight 'dequantizelinear0.out' must have its scales along axis 0, not 1"),
    (float_weight, "conv2d", "its weight 'k0' is not quantized, nor int8 times a number for each "
                             "output channel"),
    (wide_weight, "conv2d",
     "its weight 'dequantizelinear0.out' must be of 8 or 16 bits, not int32"),
    (computed_weight, "conv2d", "its weight 'dequantizelinear1.out' is not a constant"),
    (computed_bias, "conv2d", "its bias 'b' is not quantized"),
    (requantized_bias, "conv2d", "its bias 'dequantizelinear2.out' is not a constant"),
    (wide_bias, "conv2d",
     "its accumulator could reach 2.148e+09 in channel 1, beyond 2147483647"),
    (float_input, "conv2d", "its input 'x' is not quantized"),
    (per_channel_input, "conv2d",
     "its input 'dequantizelinear2.out' must be of 8 or 16 bits with one scale"),
    (tiny_output_scale, "conv2d", "requantization scale must be 0 or between 2**-31 and 65535, "
     "not 250000.00080376593"),
    (matrix_bias, "dense", "its bias 'k4' must have 1 or 4 elements, not 8"),
    (constant_add, "add", "its input 'dequantizelinear0.out' is a constant"),
    (float_add, "add", "its constant 'k0' is not quantized"),
    (batched_matmul, "matmul",
     "its weight must have 2 dimensions, not shape (2, 4, 5)"),
]


@pytest.mark.parametrize(("build", "op", "reason"), STAYS,
                         ids=[row[0].__name__ for row in STAYS])
def test_stays_in_float_with_a_note(qdq, onnx_values, rng, build, op, reason) -> None:
    """The note says why, and the float operator still means what ONNX says."""
    one = qdq()
    y = build(one)
    graph = optimize(convert(one.model(y)))
    assert op in ops(graph)
    assert f"conv ({op}) stays in float: {reason}" in graph.notes
    feeds = {name: normal(rng, *graph.values[name].shape) for name in graph.inputs}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               rtol=1e-5, atol=1e-5)


def test_a_per_channel_activation_is_noted(qdq) -> None:
    one = qdq()
    graph = optimize(convert(one.model(per_channel_input(one))))
    assert graph.notes[0] == "q (quantizelinear) stays in float: an activation must have one scale"


def factors(qdq, weights, bias, scale: float = 0.05, dtype: str = "uint8", **attrs):
    """A depthwise convolution of single pixels of (x - 3) * 0.05: a factor, in steps of 0.01, and
    an offset for each channel.
    """
    one, count = qdq(), len(weights)
    x = one.requantized(one.input("x", 8, count, 5, 6), 0.05, 3, dtype)
    kernel = one.constant(np.array(weights, np.int8).reshape(count, 1, 1, 1))
    steps = one.constant(np.full(count, 0.01, np.float32))
    weight = one.add("DequantizeLinear", kernel, steps,
                     one.constant(np.zeros(count, np.int8)), axis=0)
    y = one.add("Conv", x, weight, one.bias(bias, np.full(count, 0.0005)), name="conv",
                **{"group": count, **attrs})
    return one.model(one.requantized(y, scale, 9, dtype))


@PAIRS
def test_a_factor_of_each_channel_is_a_requantization(qdq, layer_differences, rng, dtype) -> None:
    """At most a step off, half of it by offsets in whole steps of the input. Of a channel whose
    factor is 0 the offset is left.
    """
    model = factors(qdq, [100, 37, 1, 0, 0], [50, -37 * 20 + 18, 100, -3000, 0], dtype=dtype)
    conv = optimize(convert(model)).node("conv")
    assert (conv.op, len(conv.inputs)) == ("qaffine", 4)
    layers = layer_differences(model, {"x": normal(rng, 8, 5, 5, 6, spread=3)})
    exact_layers(layers, at_least=0.8)
    assert layers[1].op == "qaffine"


@pytest.mark.parametrize(("weights", "bias"), [
    ([100, -1], [0, 0]),                # a multiplier has no sign
    ([100, 127], [0, 63]),              # half a step of the input is 0.6 of the result's
    ([100, 0], [0, 2**30]),             # beside such an offset the input is not nothing
])
def test_other_factors_of_channels_are_products(qdq, layer_differences, rng, weights, bias) -> None:
    """And so to the bit the convolution."""
    model = factors(qdq, weights, bias)
    graph = optimize(convert(model))
    conv = graph.node("conv")
    assert (conv.op, len(conv.inputs)) == ("qaffine", 5)
    exact_layers(layer_differences(model, {"x": normal(rng, 8, 2, 5, 6, spread=3)}))
    source, *vectors, factor = conv.inputs
    x = rng.integers(-128, 128, (3, 2, 4, 5)).astype(np.int8)
    arrays = [graph.constants[value] for value in (factor, *vectors)]
    attrs = {name: conv.attrs[name] for name in ("zp", "lo", "hi")}
    np.testing.assert_array_equal(
        OPERATORS["qaffine"].meaning(conv.attrs, x, *arrays[1:], arrays[0]),
        OPERATORS["qconv2d"].meaning(
            {**attrs, "group": 2, "strides": (1, 1), "pads": (0,) * 4, "pad_value": 0}, x,
            arrays[0].reshape(2, 1, 1, 1), *arrays[1:]))


@pytest.mark.parametrize("attrs", [{"strides": [2, 1]}, {"pads": [0, 0, 1, 0]}], ids=str)
def test_windows_are_no_factors_of_channels(qdq, attrs) -> None:
    assert optimize(convert(factors(qdq, [5, 7], [0, 0], **attrs))).node("conv").op == "qconv2d"


def test_a_bias_of_another_scale_is_rounded_to_accumulator_steps(qdq) -> None:
    one = qdq()
    weight = one.weight(2, 2, 1, 1, scale=np.array([0.5, 0.25], np.float32))
    bias = one.bias([10, -7], 0.01)
    y = conv_with(one, weight, bias, x=one.requantized(one.input("x", 1, 2, 4, 4), 0.25, 128))
    graph = optimize(convert(one.model(y)))
    assert graph.constants["conv:bias"].tolist() == [round(0.1 / 0.125), round(-0.07 / 0.0625)]


def test_the_accumulator_bound_is_exact(qdq) -> None:
    """2 * 128 * 127 + |bias| just fits at 2**31 - 1 and no longer at 2**31."""
    for extra, op in ((0, "qconv2d"), (1, "conv2d")):
        one = qdq()
        weight = one.dequantize(one.constant(np.full((1, 2, 1, 1), 127, np.int8)), 0.5, 0, "int8")
        bias = one.bias([2**31 - 1 - 2 * 128 * 127 + extra], [0.125])
        x = one.requantized(one.input("x", 1, 2, 2, 2), 0.25, 128)
        y = conv_with(one, weight, bias, x=x, scale=1e6)
        assert op in ops(optimize(convert(one.model(y))))


@PAIRS
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_are_found_in_int8(qdq, dtype, op) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 2, 300, 3, 2), 0.05, 3, dtype)
    graph = optimize(convert(one.model(one.add(op, x, name="place", axis=1, keepdims=0))))
    assert ops(graph) == [
        "quantize", f"q{op.lower()}", "joined_bytes"] and not graph.notes
    rng = np.random.default_rng(1)
    for spread in (0.01, 4):                # few different values, and many
        x = rng.normal(size=(2, 300, 3, 2)).astype(np.float32) * spread
        (found,) = evaluate(graph, {"x": x}).values()
        steps = np.clip(np.rint(x / np.float32(0.05)) + 3, *(
            (-128, 127) if dtype == "int8" else (0, 255)))
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, getattr(np, op.lower())(steps, axis=1))


@pytest.mark.parametrize("attrs", [{"select_last_index": 1}, {}])
def test_other_places_stay_in_float(qdq, attrs) -> None:
    """The last of equals; a scale with which different steps are all infinite."""
    one = qdq()
    x = one.requantized(one.input("x", 2, 5), 0.05 if attrs else 1e38, 3, "int8")
    graph = optimize(convert(one.model(one.add("ArgMax", x, name="place", axis=1, **attrs))))
    assert ops(graph) == ["quantize", "dequantize", "argmax"]
