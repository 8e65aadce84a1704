"""Nodes that change nothing, wherever they stand, and empty tensors: networks with them quantize as
well as those without.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

from compiler.frontend import convert
from compiler.graph import optimize
from compiler.quantize import quantize

BATCH, CHANNELS, SIDE = 2, 4, 6
SHAPE = (BATCH, CHANNELS, SIDE, SIDE)
PRICE_DB = 20


def ints(one, *numbers: int) -> str:
    return one.constant(np.array(numbers, np.int64))


def number(one, value: float) -> str:
    return one.constant(np.float32(value))


DROPPED: dict[str, Callable] = {
    "Identity": lambda one, x: one.add("Identity", x),
    "Dropout": lambda one, x: one.add("Dropout", x),
    "Dropout in inference": lambda one, x: one.add("Dropout", x, number(one, 0.3),
                                                   one.constant(np.array(False))),
    "Cast": lambda one, x: one.add("Cast", x, to=onnx.TensorProto.FLOAT),
    "CastLike": lambda one, x: one.add("CastLike", x, number(one, 1)),
    "Expand by 1": lambda one, x: one.add("Expand", x, ints(one, 1)),
    "Transpose": lambda one, x: one.add("Transpose", x, perm=[0, 1, 2, 3]),
    "Resize": lambda one, x: one.add("Resize", x, "", one.constant(np.ones(4, np.float32)),
                                     mode="nearest"),
    "Resize, linear": lambda one, x: one.add("Resize", x, "", one.constant(np.ones(4, np.float32)),
                                             mode="linear"),
    "Split": lambda one, x: one.add("Split", x, ints(one, CHANNELS), axis=1),
    "Max": lambda one, x: one.add("Max", x),
    "Min": lambda one, x: one.add("Min", x),
    "Sum": lambda one, x: one.add("Sum", x),
    "Mean": lambda one, x: one.add("Mean", x),
    "Reshape by 0": lambda one, x: one.add("Reshape", x, ints(one, 0, 0, 0, 0)),
    "Reshape by -1": lambda one, x: one.add("Reshape", x, ints(one, -1, CHANNELS, SIDE, SIDE)),
    "Concat": lambda one, x: one.add("Concat", x, axis=1),
    "Slice": lambda one, x: one.add("Slice", x, ints(one, 0), ints(one, 2**62), ints(one, 2)),
    "Pad": lambda one, x: one.add("Pad", x, ints(one, *[0] * 8)),
    "Tile": lambda one, x: one.add("Tile", x, ints(one, 1, 1, 1, 1)),
    "Mul": lambda one, x: one.add("Mul", x, number(one, 1)),
    "Div": lambda one, x: one.add("Div", x, number(one, 1)),
    "Add": lambda one, x: one.add("Add", x, number(one, 0)),
    "Sub": lambda one, x: one.add("Sub", x, number(one, 0)),
    "Pow": lambda one, x: one.add("Pow", x, number(one, 1)),
    "Clip": lambda one, x: one.add("Clip", x),
    "LeakyRelu": lambda one, x: one.add("LeakyRelu", x, alpha=1.0),
}
KEPT: dict[str, Callable] = {
    "Expand": lambda one, x: one.add("Expand", x, ints(one, *SHAPE)),
    "Reshape": lambda one, x: one.add("Reshape", x, ints(one, *SHAPE)),
    "Resize to the size": lambda one, x: one.add("Resize", x, "", "", ints(one, *SHAPE),
                                                 mode="cubic"),
    "Unsqueeze, Squeeze": lambda one, x: one.add(
        "Squeeze", one.add("Unsqueeze", x, ints(one, 0)), ints(one, 0)),
    "Flatten, Reshape": lambda one, x: one.add("Reshape", one.add("Flatten", x),
                                               ints(one, *SHAPE)),
    "MaxPool of 1": lambda one, x: one.add("MaxPool", x, kernel_shape=[1, 1]),
    "AveragePool of 1": lambda one, x: one.add("AveragePool", x, kernel_shape=[1, 1]),
}
"""Nodes that depend on the batch, move nothing in two steps, or also have an integer form."""

FLOAT: dict[str, Callable] = {
    "ReduceSum": lambda one, x: one.add("ReduceSum", x, ints(one), noop_with_empty_axes=1),
    "Where": lambda one, x: one.add("Where", one.constant(np.array(True)), x, number(one, 0)),
    "Gather": lambda one, x: one.add("Gather", x, ints(one, *range(CHANNELS)), axis=1),
    "Cast there and back": lambda one, x: one.add(
        "Cast", one.add("Cast", x, to=onnx.TensorProto.DOUBLE), to=onnx.TensorProto.FLOAT),
    "DepthToSpace": lambda one, x: one.add("DepthToSpace", x, blocksize=1),
    "Einsum": lambda one, x: one.add("Einsum", x, equation="abcd->abcd"),
    "Neg": lambda one, x: one.add("Neg", one.add("Neg", x)),
    "sequence": lambda one, x: one.add("ConcatFromSequence", one.add("SequenceConstruct", x),
                                       axis=1),
    "Optional": lambda one, x: one.add("OptionalGetElement", one.add("Optional", x)),
}
"""Those that nothing looks through; layers around them are quantized all the same."""

PLACES: dict[str, Callable[[Callable, Callable], Callable]] = {
    "at the input": lambda nothing, conv: lambda x: conv(nothing(x)),
    "between": lambda nothing, conv: lambda x: conv(nothing(conv(x))),
    "at the output": lambda nothing, conv: lambda x: nothing(conv(x)),
    "twice": lambda nothing, conv: lambda x: conv(nothing(nothing(conv(x)))),
    "read twice": lambda nothing, conv: lambda x: _sum(nothing, conv, conv(x)),
    "alone": lambda nothing, conv: nothing,
    "everywhere": lambda nothing, conv: lambda x: nothing(
        _sum(nothing, conv, nothing(nothing(conv(nothing(x)))))),
}
CASES = [pytest.param(name, place, marks=() if place == "everywhere" else pytest.mark.slow)
         for name in (*DROPPED, *KEPT, *FLOAT) for place in PLACES]


def _sum(nothing: Callable, conv: Any, x: str) -> str:
    network = conv.keywords["one"]
    return network.add("Add", conv(nothing(x)), x)


def network(float_model, rule: Callable, place: Callable, batch: int | str = BATCH
            ) -> onnx.ModelProto:
    one = float_model()
    conv = partial(_conv, one=one)
    return one.model(place(lambda x: rule(one, x), conv)(one.input("x", batch, *SHAPE[1:])))


def _conv(x: str, one) -> str:
    return one.conv(x, CHANNELS, CHANNELS)


def decibels(real: np.ndarray, other: np.ndarray) -> float:
    return 10 * np.log10(np.sum(real**2) / max(np.sum((real - other)**2), 1e-30))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_it_is_quantized(float_model, onnx_runtime, rng, name, place) -> None:
    samples = rng.standard_normal((4, *SHAPE[1:]), np.float32)
    model = network(float_model, (DROPPED | KEPT | FLOAT)[name], PLACES[place])
    made = quantize(model, samples)
    convolutions = [layer for layer in made.layers if layer.op == "conv2d"]
    assert all(layer.quantized for layer in convolutions), made.layers
    if name not in FLOAT:
        reasons = {layer.reason for layer in made.layers if not layer.quantized}
        assert reasons <= {"it changes nothing"}, made.layers       # about the input
    assert made.decibels is None or made.decibels > PRICE_DB
    convert(made.model)
    real, = onnx_runtime(model, {"x": samples[:BATCH]})
    quantized, = onnx_runtime(made.model, {"x": samples[:BATCH]})
    assert decibels(real, quantized) > PRICE_DB


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DROPPED)
def test_a_relu_is_merged_through_it(float_model, rng, name) -> None:
    """The model leaves the batch open, so the result holds for other batches than the samples'."""
    one = float_model()
    x = DROPPED[name](one, one.conv(one.input("x", "n", *SHAPE[1:]), CHANNELS, CHANNELS))
    made = quantize(one.model(one.add("Relu", x)),
                    rng.standard_normal((4, *SHAPE[1:]), np.float32))
    assert [layer.op for layer in made.layers] == ["conv2d"]
    assert made.layers[0].quantized
    convert(made.model, shapes={"n": 3})


def test_what_depends_on_an_open_batch_stays(float_model, rng) -> None:
    """Expand to the samples' batch does nothing to them, and something to one image: a model for
    both cannot be written, a graph for each is made, in which what has no range stays in float.
    """
    model = network(float_model, lambda one, x: one.add("Expand", x, ints(one, *SHAPE)),
                    PLACES["between"], batch="n")
    made = quantize(model, rng.standard_normal((2, *SHAPE[1:]), np.float32))
    assert [layer.quantized for layer in made.layers] == [True] * 2
    assert made.fixed == {"n": BATCH}
    convert(made.model)
    single = made.graph_of({"n": 1})
    assert (single.values["x"].shape[0], single.values[single.outputs[0]].shape) == (1, SHAPE)
    graph = optimize(single)
    assert [sum(node.op == op for node in graph.nodes) for op in ("qconv2d", "conv2d")] == [1, 1]


def test_an_extent_below_zero_is_an_open_one(float_model, rng) -> None:
    """As exporters write it that know no names of dimensions."""
    model = network(float_model, lambda one, x: one.add("Max", x), PLACES["between"], batch=-1)
    made = quantize(model, rng.standard_normal((2, *SHAPE[1:]), np.float32))
    assert [layer.quantized for layer in made.layers] == [True] * 2


def _empty_roi(one, x: str) -> str:
    roi = one.add("Constant", value=onnx.numpy_helper.from_array(np.zeros(0, np.float32)))
    scales = one.constant(np.array([1, 1, 2, 2], np.float32))
    return one.add("Resize", x, roi, scales, mode="linear")


def _computed_roi(one, x: str) -> str:
    none = one.add("Slice", one.add("Shape", x), ints(one, 0), ints(one, 0))
    scales = one.constant(np.array([1, 1, 2, 2], np.float32))
    return one.add("Resize", x, one.add("Cast", none, to=onnx.TensorProto.FLOAT), scales,
                   mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")


EMPTY: dict[str, Callable] = {
    "roi": _empty_roi, "computed roi": _computed_roi,
    "roi and scales": lambda one, x: one.add(
        "Resize", x, one.constant(np.zeros(0, np.float32)), one.constant(np.zeros(0, np.float32)),
        ints(one, BATCH, CHANNELS, 12, 12), mode="linear"),
    "joined constant": lambda one, x: one.add("Concat", x, one.add(
        "ConstantOfShape", ints(one, BATCH, 0, SIDE, SIDE)), axis=1),
    "joined slice": lambda one, x: one.add("Concat", x, one.add(
        "Slice", x, ints(one, 0), ints(one, 0), ints(one, 1)), axis=1),
    "start of a shape": lambda one, x: one.add("Reshape", x, one.add(
        "Concat", one.add("Slice", one.add("Shape", x), ints(one, 0), ints(one, 0)),
        one.add("Shape", x), axis=0)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_inputs(float_model, onnx_runtime, rng, name) -> None:
    samples = rng.standard_normal((4, *SHAPE[1:]), np.float32)
    model = network(float_model, EMPTY[name], PLACES["between"])
    made = quantize(model, samples, budget="1dB")
    assert all(layer.quantized for layer in made.layers if layer.op == "conv2d"), made.layers
    real, = onnx_runtime(model, {"x": samples[:BATCH]})
    quantized, = onnx_runtime(made.model, {"x": samples[:BATCH]})
    assert decibels(real, quantized) > PRICE_DB
