"""Elementwise functions of two quantized values become expressions of integers."""

from collections.abc import Callable

import numpy as np
import pytest

from accel.mapping.selecting.selection import select
from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from examples.machines.int16_deep import machine as DEEP

ALL = np.arange(-128, 128).astype(np.int8)


def own(op: str) -> Callable[..., str]:
    return lambda one, a, b: one.add(op, a, b)


def distance(one, a, b):
    return one.add("Abs", one.add("Sub", a, b))


def bounded(one, a, b):
    """The greater one, at least -0.5, doubled."""
    return one.add("Mul", one.add("Max", a, b, one.constant(np.float32(-0.5))),
                   one.constant(np.float32(2)))


def rectified(one, a, b):
    return one.add("Relu", one.add("Sub", a, b))


FUNCTIONS = [rectified, own("Max"), own("Min"), own("Sub"), own("Mul"),
             distance, bounded]


def model_of(qdq, function, scales, zeros, shapes=((256, 1), (1, 256))) -> Graph:
    """int8 -> dequantized -> function -> int8."""
    one = qdq()
    sides = [one.dequantize(one.input(name, *shape, dtype="int8"), scale, zero, "int8")
             for name, shape, scale, zero in zip("xy", shapes, scales, zeros, strict=False)]
    q = one.quantize(function(one, *sides), scales[2], zeros[2], "int8")
    return convert(one.model(q, dtypes={q: "int8"}), "net")


def assert_within_one_step(model: Graph) -> None:
    """For every pair of values."""
    feeds = {"x": ALL.reshape(256, 1), "y": ALL.reshape(1, 256)}
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    assert [node.op for node in graph.nodes] == ["qmap"] and not graph.notes
    found, wanted = (evaluate(one, feeds)[one.outputs[0]].astype(int) for one in (graph, real))
    assert np.abs(found - wanted).max() <= 1 and np.mean(found == wanted) > 0.98


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_pair_of_values_is_within_one_step(qdq, function) -> None:
    rng = np.random.default_rng(11)
    for _ in range(6):
        a, b = np.exp(rng.uniform(-6, 1, 2))
        out = np.exp(rng.uniform(-2.5, 1.5)) * max(a * b * 100, a, b)
        assert_within_one_step(model_of(qdq, function, (a, b, out), rng.integers(-128, 128, 3)))


@pytest.mark.parametrize("function", [*FUNCTIONS[:4], *FUNCTIONS[5:]])
@pytest.mark.parametrize("zero", [-128, -7, 0, 19])
def test_equal_scales_and_zero_points(qdq, function, zero: int) -> None:
    assert_within_one_step(model_of(qdq, function, (0.05, 0.05, 0.0713), (zero, zero, 11)))


def test_the_common_scale_is_as_fine_as_int32_holds(qdq) -> None:
    """The finest that is tried would make these sums leave it."""
    def sum_of_products(one, a, b):
        return one.add("Add", one.add("Mul", a, b), one.add("Mul", a, a))

    assert_within_one_step(model_of(qdq, sum_of_products, (0.2, 0.1903, 20.0), (-128, -128, -100)))


def test_equal_scales_are_compared_as_they_are(qdq) -> None:
    graph = optimize(model_of(qdq, own("Max"), (0.5, 0.5, 0.5), (3, 3, 3)))
    (node,) = graph.nodes
    assert node.attrs["function"] == "requantize((max(x0, x1) - 3), 32768, 15, 3, -128, 127)"


def test_what_is_behind_it_bounds_the_requantization(qdq) -> None:
    (node,) = optimize(model_of(qdq, rectified, (0.5, 0.5, 0.5), (3, 3, -20))).nodes
    assert node.attrs["function"] == (
        "requantize((x0 - x1), 32768, 15, -20, -20, 127)")


def test_an_error_of_a_step_says_why(qdq) -> None:
    graph = optimize(model_of(qdq, own("Sub"), (1.0, 0.3333, 1e-3), (0, 0, 0)))
    assert "qmap" not in [node.op for node in graph.nodes]
    assert "stays in float: integers of 32 bits could be off by " in graph.notes[0]


def test_a_constant_of_more_dimensions_says_why(qdq) -> None:
    def deeper(one, a, b):
        return one.add("Max", a, b, one.constant(np.zeros((1, 1, 1), np.float32)))

    graph = optimize(model_of(qdq, deeper, (0.5, 0.5, 0.5), (3, 3, 3)))
    assert "qmap" not in [node.op for node in graph.nodes]
    assert "a constant gives it more dimensions than its inputs have" in graph.notes[0]


def test_what_is_no_integer_arithmetic_says_why(qdq) -> None:
    graph = optimize(model_of(qdq, own("Div"), (0.1, 0.2, 0.3), (0, 0, 0)))
    assert "qmap" not in [node.op for node in graph.nodes]
    assert graph.notes == ("div2 (div) stays in float: div is no sum, product, minimum, maximum or "
                           "magnitude of its inputs",)


def squared_difference(one, a, b):
    difference = one.add("Sub", a, b)
    return one.add("Mul", difference, difference)


@pytest.mark.parametrize("scales", [(0.05, 0.03, 0.3), (0.013, 0.09, 0.9), (1.0, 0.004, 250.0)])
def test_factors_are_as_coarse_as_their_product_must_be(qdq, scales) -> None:
    assert_within_one_step(model_of(qdq, squared_difference, scales, (3, -9, -128)))


def test_scales_too_far_apart_say_why(qdq) -> None:
    """A product that may be 1e30 steps of the result is out of the multiplier's range."""
    graph = optimize(model_of(qdq, own("Mul"), (1.0, 1.0, 1e-30), (0, 0, 0)))
    assert "qmap" not in [node.op for node in graph.nodes]
    assert "stays in float: requantization scale must be" in graph.notes[0]


def test_scales_that_are_too_far_apart_are_told(qdq) -> None:
    """Nothing of the finer one would be left."""
    graph = optimize(model_of(qdq, own("Max"), (1.0, 1e-6, 1.0), (3, 5, 0)))
    assert [note for note in graph.notes if "its scales on the way, 1 and 1e-06, are too far apart"
            in note], graph.notes


def gate(one, a, b):
    """The first times a part of the second, which is 0 to 1."""
    part = one.add("Clip", one.add("Add", one.add("Mul", b, one.constant(np.float32(0.2))),
                                   one.constant(np.float32(0.5))),
                   one.constant(np.float32(0)), one.constant(np.float32(1)))
    return one.add("Mul", a, part)


def hard_sigmoid(one, a, b):
    return one.add("HardSigmoid", a, alpha=0.2, beta=0.5)


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("function", [rectified, own("Max"), own("Mul"), gate, hard_sigmoid])
def test_maps_of_16_bits_are_within_one_step(qdq, function, dtype: str) -> None:
    one, rng = qdq(opset=21), np.random.default_rng(5)
    middle = 0 if dtype == "int16" else 1 << 15
    sides = [one.dequantize(one.input(name, 64, 64, dtype=dtype), scale, middle + zero, dtype)
             for name, scale, zero in (("x", 1.7e-4, 0), ("y", 1.2e-4, 0))]
    out = 3.1e-5 if function is hard_sigmoid else 9e-4
    q = one.quantize(function(one, *sides), out, middle - 99, dtype)
    model = convert(one.model(q, dtypes={q: dtype}), "net")
    info = np.iinfo(dtype)
    feeds = {name: rng.integers(info.min, info.max, (64, 64), endpoint=True).astype(dtype)
             for name in model.inputs}
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    assert [node.op for node in graph.nodes if not node.op.startswith("to_")] == ["qmap"]
    found, wanted = (evaluate(each, feeds)[q].astype(int) for each in (graph, real))
    assert np.abs(found - wanted).max() <= 1


def test_steps_of_16_bits_are_finer_by_15_bits_at_most(qdq) -> None:
    """A zero point gives data 17 bits, so that the factor of finer steps must fit 16."""
    one = qdq(opset=21)
    x = one.dequantize(one.input("x", 1 << 16, dtype="uint16"), 1.6070409e-4, 32603, "uint16")
    q = one.quantize(hard_sigmoid(one, x, x), 3.06e-5, 32768, "uint16")
    model = convert(one.model(q, dtypes={q: "uint16"}), "net")
    feeds = {"x": np.arange(1 << 16).astype(np.uint16)}
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    (node,) = [node for node in graph.nodes if node.op == "qmap"]
    assert "* 16384)" in node.attrs["function"]
    found, wanted = (evaluate(each, feeds)[q].astype(int) for each in (graph, real))
    assert np.abs(found - wanted).max() <= 1


def hard_swish(one, a, b):
    return one.add("HardSwish", a)


@pytest.mark.parametrize(("function", "scales", "zeros"), [
    (hard_swish, (1.1e-4, 1.0), (19000, 0, 4000)), (hard_swish, (1.3e-4, 1.0), (0, 0, 0)),
    (hard_swish, (2.3e-4, 1.0), (65535, 0, 60000)), (hard_sigmoid, (1.5e-4, 1.0), (20000, 0, 0)),
    (own("Mul"), (1.2e-4, 1 / 65535), (4369, 0, 4321)),
    (own("Mul"), (1.2e-4, 1.7e-4), (0, 65535, 65535))])
def test_maps_of_16_bits_take_any_zero_point(qdq, function, scales, zeros) -> None:
    """All numbers of the first, with some of the second."""
    one, everything = qdq(opset=21), np.arange(1 << 16).astype(np.uint16)
    sides = [one.dequantize(one.input(name, 1 << 16, dtype="uint16"), scale, zero, "uint16")
             for name, scale, zero in zip("xy", scales, zeros, strict=False)]
    real = [(everything.astype(float) - zero) * scale for scale, zero in zip(scales, zeros)]
    out = 1 / 65535 if function is hard_sigmoid else np.abs(real[0]).max() / 65000 * (
        np.abs(real[1]).max() if function is not hard_swish else 1)
    q = one.quantize(function(one, *sides), out, zeros[2], "uint16")
    model = convert(one.model(q, dtypes={q: "uint16"}), "net")
    feeds = {"x": everything, "y": one.rng.permutation(everything)}
    graph, plain = optimize(model), optimize(model, standard_passes(integerize=False))
    maps = [node for node in graph.nodes if node.op == "qmap"]
    made = [node.op for node in graph.nodes if not node.op.startswith("to_")]
    assert made == ["qmap"], graph.notes
    found, wanted = (evaluate(each, feeds)[q].astype(int) for each in (graph, plain))
    assert np.ptp(wanted) > 1000 and np.abs(found - wanted).max() <= 1
    assert all(select(DEEP, graph, node).steps for node in maps)


def test_a_multiplier_that_is_too_far_off_says_why(qdq) -> None:
    """It lies in the middle of two of 16 bits, so that it could be a step off at the end."""
    one = qdq(opset=21)
    a, b = (one.dequantize(one.input(name, 4, dtype="uint16"), 2**-13, 0, "uint16")
            for name in "ab")
    q = one.quantize(one.add("Mul", a, b), 32768 / 32768.5 * 2**-10, 0, "uint16")
    notes = optimize(convert(one.model(q, dtypes={q: "uint16"}))).notes
    assert any("integers of 32 bits could be off by 1 steps" in note for note in notes)


def test_arithmetic_of_16_bits_stays_where_it_is_quantized(qdq) -> None:
    """What the host has quantized it computes with, too: an accelerator would be a detour."""
    one = qdq(opset=21)
    x = one.requantized(one.add("Erf", one.input("x", 4)), 1e-4, 0, "int16")
    y = one.add("Mul", x, one.dequantize(one.input("y", 4, dtype="int16"), 1e-4, 0, "int16"),
                name="part")
    graph = optimize(convert(one.model(one.requantized(y, 1e-4, 0, "int16"))))
    assert "qmap" not in [node.op for node in graph.nodes]
    assert any(note == "part (mul) stays in float: what it reads is quantized from float"
               for note in graph.notes)
