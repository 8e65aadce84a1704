"""Products of parts with scales of their own, and of phases, are sums of integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from tests.support.effort import tries


def assert_alike(one, *outputs: str, feeds: dict | None = None) -> Graph:
    """As exact as float32 is, by float's own meaning of the same network."""
    model = one.model(*outputs)
    graph = optimize(convert(model), standard_passes(sums=True))
    real = optimize(convert(model), standard_passes(integerize=False))
    feeds = feeds or {value: (3 * one.rng.normal(size=real.values[value].shape)).astype(np.float32)
                      for value in real.inputs}
    for found, wanted in zip(evaluate(graph, feeds).values(), evaluate(real, feeds).values(),
                             strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    return graph


def in_planes(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.attrs.get("planes") and node.op[0] == "q"]


def parts(one, axis: int, *shapes: tuple[int, ...]) -> str:
    """Quantized tensors side by side, each with a scale and a zero point of its own."""
    types = ["int8", "uint8", "int8"]
    return one.add("Concat", *(one.requantized(
        one.input(f"x{place}", *shape), 0.02 * (place + 1), 7 * place, types[place])
        for place, shape in enumerate(shapes)), axis=axis)


def bias(one, count: int) -> str:
    return one.constant(one.rng.normal(size=count).astype(np.float32))


def test_channels_of_several_scales(qdq) -> None:
    one = qdq(seed=1, opset=21)
    x = parts(one, 1, (2, 3, 6, 5), (2, 4, 6, 5), (2, 1, 6, 5))
    y = one.add("Conv", x, one.weight(6, 8, 3, 2), bias(one, 6), pads=[1, 0, 2, 1], name="product")
    graph = assert_alike(one, one.add("Relu", y))
    assert in_planes(graph) == ["qconv2d"] * 3
    assert not any(note.startswith(("product ", "concat")) for note in graph.notes)


@pytest.mark.parametrize(("op", "shapes", "axis", "products"), [
    ("Gemm", [(3, 5), (3, 12)], 1, 2), ("Gemm", [(3, 17), (2, 17)], 0, 2),
    ("MatMul", [(2, 3, 5), (2, 3, 12)], -1, 2), ("MatMul", [(2, 3, 17), (2, 1, 17)], 1, 2),
    ("MatMul", [(1, 3, 17), (2, 3, 17)], 0, 2)])
def test_rows_of_several_scales(qdq, op: str, shapes: list, axis: int, products: int) -> None:
    one = qdq(seed=2, opset=21)
    more = [bias(one, 7)] if op == "Gemm" else []
    y = one.add(op, parts(one, axis, *shapes), one.weight(17, 7, axis=1), *more)
    assert in_planes(assert_alike(one, y)) == ["qdense"] * products


@pytest.mark.parametrize("case", ["groups", "rows of images", "a part in float", "a bias of rows"])
def test_other_concatenations_stay_in_float(qdq, case: str) -> None:
    one = qdq(seed=3, opset=21)
    if case == "a bias of rows":
        x = parts(one, 0, (3, 5), (2, 5))
        y = one.add("Gemm", x, one.weight(5, 4, axis=1),
                    one.constant(one.rng.normal(size=(5, 4)).astype(np.float32)))
    else:
        shapes = [(1, 2, 5, 5), (1, 2, 5, 5)]
        x = parts(one, 2 if case == "rows of images" else 1, *shapes)
        if case == "a part in float":
            x = one.add("Concat", one.add("Relu", one.input("f", 1, 2, 5, 5)), x, axis=1)
        group, count = (2, 2) if case == "groups" else (1, 6 if case == "a part in float" else 4)
        count = 2 if case in ("groups", "rows of images") else 6
        y = one.add("Conv", x, one.weight(6, count, 3, 3), group=group)
    assert in_planes(assert_alike(one, y)) == []


def scaled(one, feeds: dict, name: str, *shape: int) -> str:
    """Bytes whose zero point and scale the run knows."""
    feeds[name] = one.rng.integers(0, 256, shape).astype(np.uint8)
    feeds[f"z{name}"], feeds[f"s{name}"] = np.uint8(77), np.float32(0.03)
    x, z = (one.add("Cast", value, to=6) for value in (
        one.input(name, *shape, dtype="uint8"), one.input(f"z{name}", dtype="uint8")))
    return one.add("Mul", one.add("Cast", one.add("Sub", x, z), to=1), one.input(f"s{name}"))


@pytest.mark.parametrize(("op", "products"), [("Concat", 2), ("ConvTranspose", 4)])
def test_scales_that_the_run_knows(qdq, op: str, products: int) -> None:
    one, feeds = qdq(seed=5, opset=21), {}
    x = scaled(one, feeds, "x", 1, 3, 5, 5)
    if op == "Concat":
        whole = one.add("Concat", x, scaled(one, feeds, "y", 1, 3, 5, 5), axis=1)
        made = one.add("Conv", whole, one.weight(4, 6, 3, 3), pads=[1] * 4)
    else:
        made = one.add("ConvTranspose", x, one.weight(3, 4, 2, 2, axis=1), strides=[2, 2])
    assert in_planes(assert_alike(one, made, feeds=feeds)) == ["qconv2d"] * products


@settings(max_examples=tries(20))
@given(st.data())
def test_transposed_convolutions(qdq, data) -> None:
    """Any window is right, also where no tap reaches some pixels, or pads are wide."""
    draw = data.draw
    one = qdq(seed=draw(st.integers(0, 1 << 16)), opset=21)
    group = draw(st.sampled_from([1, 2]))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(3))
    more = [draw(st.integers(0, stride - 1)) for stride in strides]
    extents = [(5 - 1) * s + (k - 1) * d + 1 + a
               for s, k, d, a in zip(strides, kernel, dilations, more)]
    pads = [draw(st.integers(0, (extents[axis % 2] - 1) // 2)) for axis in range(4)]
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    x = one.requantized(one.input("x", 2, 4, 5, 5), 0.03, 9, dtype)
    w = one.weight(4, 6 // group, *kernel, axis=1)
    add = [bias(one, 6)] if draw(st.booleans()) else []
    y = one.add("ConvTranspose", x, w, *add, strides=strides, dilations=dilations, group=group,
                pads=pads, output_padding=more)
    graph = assert_alike(one, one.add("Relu", y))
    assert {*in_planes(graph)} == {"qconv2d"}
    assert "convtranspose2d" not in [node.op for node in graph.nodes] and not any(
        note.startswith("convtranspose") for note in graph.notes)


def test_as_many_products_as_a_transposed_convolution_has(qdq) -> None:
    one = qdq(opset=21)
    x = one.requantized(one.input("x", 1, 4, 5, 5))
    graph = assert_alike(one, one.add("ConvTranspose", x, one.weight(4, 6, 3, 2, axis=1),
                                      strides=[2, 2], pads=[1, 0, 1, 0]))
    kernels = [graph.constants[node.inputs[1]].shape for node in graph.nodes
               if node.op == "qconv2d"]
    assert sorted(kernels) == [(6, 4, 1, 1)] * 2 + [(6, 4, 2, 1)] * 2


def test_what_meets_the_sums_of_a_transposed_convolution(qdq) -> None:
    """It is added in float, and the sums are integers all the same."""
    one = qdq(seed=6, opset=21)
    x, r = (one.requantized(one.input(name, *shape), 0.03, 128)
            for name, shape in (("x", (1, 4, 3, 3)), ("r", (1, 5, 6, 6))))
    y = one.add("ConvTranspose", x, one.weight(4, 5, 2, 2, axis=1), strides=[2, 2])
    model = one.model(one.requantized(one.add("Add", y, r), 0.05, 128))
    graph, real = (optimize(convert(model), passes) for passes in (
        standard_passes(sums=True), standard_passes(integerize=False)))
    assert in_planes(graph) == ["qconv2d"] * 4
    feeds = {value: one.rng.normal(size=real.values[value].shape).astype(np.float32)
             for value in real.inputs}
    (found,), (wanted,) = (evaluate(each, feeds).values() for each in (graph, real))
    assert wanted.std() > 0.3 and np.abs(found - wanted).max() <= 1.01 * 0.05
