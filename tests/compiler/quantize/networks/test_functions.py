"""Elementwise operators that the quantizer joins, as tables and as arithmetic of two values."""

from collections.abc import Callable

import numpy as np
import pytest

from compiler.graph import optimize
from compiler.quantize import quantize

SHAPE = (1, 6, 8, 8)


def samples(rng, count: int = 8) -> np.ndarray:
    return rng.standard_normal((count, *SHAPE[1:])).astype(np.float32) * 2


def between(float_model, build: Callable, batch: int | str = "n"):
    """A convolution, what `build` makes of its result, and a convolution."""
    one = float_model()
    x = one.conv(one.input("x", batch, *SHAPE[1:]), 6, 8)
    return one.model(one.conv(build(one, x), 8, 5))


def ops(made) -> list[str]:
    return [node.op for node in optimize(made.graph).nodes]


def own(op: str, **attrs) -> Callable:
    return lambda one, x: one.add(op, x, **attrs)


def silu(one, x):
    return one.add("Mul", x, one.add("Sigmoid", x))


def gelu(one, x):
    half, whole = (one.constant(np.float32(number)) for number in (0.5, 1))
    scaled = one.add("Div", x, one.constant(np.float32(np.sqrt(2))))
    return one.add("Mul", one.add("Mul", x, one.add("Add", one.add("Erf", scaled), whole)), half)


def mish(one, x):
    return one.add("Mul", x, one.add("Tanh", one.add("Softplus", x)))


FUNCTIONS = {"sigmoid": own("Sigmoid"), "tanh": own("Tanh"), "hardswish": own("HardSwish"),
             "elu": own("Elu", alpha=0.7), "erf": own("Erf"),
             "silu": silu, "gelu": gelu, "mish": mish}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name in ("tanh", "elu", "erf") else ())
    for name in FUNCTIONS])
def test_a_function_between_layers_is_one_table(float_model, rng, name: str) -> None:
    made = quantize(between(float_model, FUNCTIONS[name]), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qtable", "qconv2d", "dequantize"]
    assert made.decibels is not None and made.decibels > 28
    (layer,) = (layer for layer in made.layers if layer.op == "function")
    assert layer.quantized and layer.alone_db is not None and layer.alone_db > 28


def gate(one, x):
    """Squeeze and excite."""
    mean = one.conv(one.add("GlobalAveragePool", x), 8, 8)
    return one.add("Mul", x, one.add("Sigmoid", mean))


def distance(one, x):
    return one.add("Abs", one.add("Sub", x, one.conv(x, 8, 8)))


def greater(one, x):
    return one.add("Relu", one.add("Max", x, one.conv(x, 8, 8)))


PAIRS = {"gate": (gate, ["qglobalavgpool", "qconv2d", "qtable", "qmap"]),
         "distance": (distance, ["qconv2d", "qmap"]), "greater": (greater, ["qconv2d", "qmap"])}


@pytest.mark.parametrize("name", PAIRS)
def test_arithmetic_of_two_values_is_one_map(float_model, rng, name: str) -> None:
    build, wanted = PAIRS[name]
    made = quantize(between(float_model, build), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", *wanted, "qconv2d", "dequantize"]
    assert made.decibels is not None and made.decibels > 28


def test_what_others_read_is_a_layer(float_model, rng) -> None:
    """The gate is a table of its own; the product is a table of x again, since x decides both."""
    def build(one, x):
        gate = one.add("Sigmoid", x)
        return one.add("Concat", gate, one.add("Mul", x, gate), axis=1)

    one = float_model()
    x = one.conv(one.input("x", "n", *SHAPE[1:]), 6, 8)
    made = quantize(one.model(one.conv(build(one, x), 16, 5)), samples(rng))
    assert ops(made).count("qtable") == 2 and "dequantize" not in ops(made)[:-1]


def test_a_function_of_a_product_is_two_layers(float_model, rng) -> None:
    """No integer arithmetic computes a sigmoid of two values."""
    def build(one, x):
        return one.add("Sigmoid", one.add("Mul", x, one.conv(x, 8, 8)))

    made = quantize(between(float_model, build), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qconv2d", "qmap", "qtable", "qconv2d",
                         "dequantize"]


def test_an_output_within_a_function_is_kept(float_model, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", "n", *SHAPE[1:]), 6, 8)
    gate = one.add("Sigmoid", x)
    made = quantize(one.model(gate, one.conv(one.add("Mul", x, gate), 8, 5)), samples(rng))
    assert made.graph.outputs[0] == gate and made.decibels is not None and made.decibels > 28


def test_a_factor_behind_a_function_that_others_read_is_a_table(float_model, rng) -> None:
    """And no depthwise convolution."""
    def build(one, x):
        y = one.add("Tanh", x)
        return one.add("Add", one.conv(y, 8, 8), one.add("Mul", y, one.constant(np.float32(-3))))

    made = quantize(between(float_model, build), samples(rng))
    assert sorted(ops(made)) == sorted(["quantize", "qconv2d", "qtable", "qtable", "qconv2d",
                                        "qadd", "qconv2d", "dequantize"])


def test_constants_of_channels_are_no_part_of_a_function(float_model, rng) -> None:
    def build(one, x):
        gain = one.constant(rng.standard_normal((8, 1, 1)).astype(np.float32))
        return one.add("Tanh", one.add("Mul", one.add("Sigmoid", x), gain))

    made = quantize(between(float_model, build), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qtable", "qaffine", "qtable", "qconv2d",
                         "dequantize"]


def test_parts_of_a_log_softmax_stay_in_float(float_model, rng) -> None:
    """Its exponentials read a difference from a maximum, which no layer quantizes."""
    one = float_model()
    x = one.add("MatMul", one.input("x", "n", 16), one.random(16, 16))
    y = one.add("MatMul", one.add("LogSoftmax", x), one.random(16, 3))
    made = quantize(one.model(y), rng.standard_normal((8, 16)).astype(np.float32))
    assert {layer.op for layer in made.layers if layer.quantized} == {"matmul"}
    reasons = {layer.reason for layer in made.layers if layer.op == "function"}
    assert any("which is not quantized" in reason for reason in reasons)


def test_a_gate_at_the_end_stays_in_float(float_model, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", "n", *SHAPE[1:]), 6, 8)
    gate = one.add("Sigmoid", one.add("Reshape", x, one.constant(np.array([-1, 8, 64]))))
    made = quantize(one.model(gate), samples(rng))
    assert [layer.reason for layer in made.layers if layer.op == "function"] == [
        "no quantized layer computes from its result"]


def test_a_hard_sigmoid_folds_into_the_layer_before_it(float_model, rng) -> None:
    made = quantize(between(float_model, own("HardSigmoid")), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qconv2d", "dequantize"]


def test_batch_norms_fold_before_functions_join(float_model, rng) -> None:
    def build(one, x):
        gain, mean = (one.constant(rng.standard_normal((8, 1, 1)).astype(np.float32))
                      for _ in range(2))
        return silu(one, one.add("Mul", one.add("Sub", x, mean), gain))

    made = quantize(between(float_model, build), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qtable", "qconv2d", "dequantize"]


def attention(one, x, weights: int = 12):
    """Scores of tokens with themselves, weighted tokens, and a normalization of the sum."""
    def dense(y):
        return one.add("MatMul", y, one.constant(
            one.rng.normal(size=(12, weights)).astype(np.float32) / 4))

    scores = one.add("MatMul", dense(x), one.add("Transpose", dense(x), perm=[0, 2, 1]))
    y = one.add("MatMul", one.add("Softmax", scores, axis=-1), dense(x))
    ones, zeros = (one.constant(np.full(12, number, np.float32)) for number in (1, 0))
    return dense(one.add("LayerNormalization", one.add("Add", x, dense(y)), ones, zeros, axis=-1))


def test_attention_is_integer_from_end_to_end(float_model, rng) -> None:
    one = float_model()
    model = one.model(attention(one, one.input("x", "n", 9, 12)))
    made = quantize(model, rng.standard_normal((8, 9, 12)).astype(np.float32))
    found = ops(made)
    assert found.count("qbelow_max") == found.count("qsoftmax") == found.count("qlayer_norm") == 1
    assert (found[0], found[-1]) == ("quantize", "dequantize")
    assert not {"quantize", "dequantize"}.intersection(found[1:-1]), found
    functions = [layer for layer in made.layers if layer.op == "function"]
    assert len(functions) == 2 and all(layer.quantized for layer in functions)
    assert made.decibels is not None and made.decibels > 25


def test_a_softmax_whose_powers_others_read_is_no_function(float_model, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", "n", *SHAPE[1:]), 6, 8)
    powers = one.add("Exp", one.add("Sub", x, one.add("ReduceMax", x, axes=[-1], keepdims=1)))
    total = one.add("ReduceSum", powers, one.constant(np.array([-1])), keepdims=1)
    both = one.add("Add", one.add("Div", powers, total), powers)
    made = quantize(one.model(one.conv(both, 8, 5)), samples(rng))
    assert "qsoftmax" not in ops(made)


def test_the_square_of_an_inverse_is_no_normalization(float_model, rng) -> None:
    """Its two factors are one value, which is divided by nothing."""
    def build(one, x: str) -> str:
        root = one.add("Sqrt", one.add("Add", one.add("Mul", x, x), one.constant(np.float32(1))))
        inverse = one.add("Div", one.constant(np.float32(1)), root)
        return one.add("Mul", inverse, inverse)

    made = quantize(between(float_model, build), samples(rng))
    assert ops(made) == ["quantize", "qconv2d", "qtable", "qconv2d", "dequantize"]
