"""Constants that are computed from quantized ones: as exact as their scales are."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import ArrayLike

from compiler.frontend import convert
from compiler.graph import Builder, Graph, TensorType, evaluate, optimize, standard_passes, verify
from compiler.graph.passes import QuantizedConstants

DTYPES = ("int8", "uint8", "int16", "uint16", "int32")


@dataclass
class Constant:
    """A graph whose only input is added to what is computed from random dequantized constants."""

    seed: int
    builder: Builder = field(default_factory=lambda: Builder("g"))

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def known(self, array: ArrayLike) -> str:
        return self.builder.add_constant(self.builder.fresh("k"), np.asarray(array))

    def floats(self, *shape: int) -> str:
        return self.known((self.rng.uniform(0.1, 2, shape) * self.rng.choice([-1, 1], shape)
                           ).astype(np.float32))

    def dequantized(self, shape: tuple[int, ...], axis: int | None, dtype: str = "int8",
                    zeros: bool = True) -> str:
        limits, count = np.iinfo(dtype), () if axis is None else (shape[axis],)
        low, high = max(limits.min, -2**20), min(limits.max, 2**20)
        arrays = (self.rng.integers(low, high, shape, dtype, endpoint=True),
                  self.rng.uniform(0.01, 0.1, count).astype(np.float32),
                  (self.rng.integers(low, high, count, endpoint=True) * zeros).astype(dtype))
        value = self.builder.fresh("d")
        return self.builder.emit("dequantizelinear", value, [*map(self.known, arrays)], value,
                                 axis=axis or 0)

    def add(self, op: str, *inputs: str, **attrs) -> str:
        value = self.builder.fresh(op)
        return self.builder.emit(op, value, inputs, value, **attrs)

    def graph(self, value: str) -> Graph:
        self.builder.add_input("x", self.builder.values[value])
        return verify(self.builder.finish([self.add("add", "x", value)]))


def assert_near(graph: Graph, made: Graph, rtol: float) -> None:
    x = {"x": np.zeros(graph.values["x"].shape, np.float32)}
    wanted, = evaluate(graph, x).values()
    found, = evaluate(verify(made), x).values()
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0)


STEPS: dict[str, Callable[[Constant, str], str]] = {
    "transpose": lambda one, x: one.add("transpose", x, perm=(2, 0, 1)),
    "joined before": lambda one, x: one.add("reshape", x, shape=(24, 5)),
    "joined behind": lambda one, x: one.add("reshape", x, shape=(4, 30)),
    "split": lambda one, x: one.add("reshape", x, shape=(2, 2, 6, 5)),
    "slice": lambda one, x: one.add("slice", x, begin=(1, 0, 1), end=(4, 6, 5), step=(1, 2, 2)),
    "reverse": lambda one, x: one.add("reverse", x, axes=(1,)),
    "expand": lambda one, x: one.add("expand", one.add("reshape", x, shape=(1, 4, 6, 5)),
                                     shape=(3, 4, 6, 5)),
    "number": lambda one, x: one.add("mul", x, one.floats()),
    "channels": lambda one, x: one.add("mul", one.floats(6, 1), x),
    "divided": lambda one, x: one.add("div", x, one.floats(5)),
    "neg": lambda one, x: one.add("neg", x),
    "zeros": lambda one, x: one.add("mul", x, one.known(np.array([[1], [0], [-2], [0], [3], [1]],
                                                                np.float32))),
    "two": lambda one, x: one.add("transpose", one.add("div", one.add(
        "transpose", x, perm=(0, 2, 1)), one.floats(6)), perm=(1, 2, 0)),
}
MOVES = {"transpose", "joined before", "joined behind", "split", "slice", "reverse", "expand"}
FITS = {None: {*STEPS}, 0: MOVES - {"split"} | {"number", "neg"},
        1: MOVES | {"number", "channels", "neg", "zeros", "two"},
        2: MOVES | {"number", "divided", "neg"}}
"""What has one scale, or one for each slice along an axis, by the axis of the scales before."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name, axis, dtype", [
    (name, axis, dtype) for place, name in enumerate(STEPS)
    for axis in FITS for dtype in DTYPES[place % 2::2]])
def test_what_moves_or_scales_gives_integers(name: str, axis: int | None, dtype: str) -> None:
    one = Constant(len(name) + (axis or 5))
    graph = one.graph(STEPS[name](one, one.dequantized((4, 6, 5), axis, dtype)))
    made = QuantizedConstants()(graph)
    ops = [node.op for node in made.nodes]
    assert ops == (["dequantizelinear", "add"] if name in FITS[axis] else ["add"]), made
    assert_near(graph, made, 0 if name in MOVES else 1e-6)
    assert QuantizedConstants()(made).nodes == made.nodes


def test_scales_that_vary_along_two_axes_may_come_together_again() -> None:
    one = Constant(3)
    split = one.add("reshape", one.dequantized((4, 6), 0), shape=(2, 2, 6))
    graph = one.graph(one.add("reshape", split, shape=(4, 6)))
    made = QuantizedConstants()(graph)
    assert [node.op for node in made.nodes] == ["dequantizelinear", "add"]
    assert_near(graph, made, 0)


def test_equal_scales_of_an_axis_that_is_split_stay() -> None:
    one = Constant(4)
    scale, zero = np.repeat(np.array([0.5, 0.25], np.float32), 3), np.zeros(6, np.int8)
    value = one.add("dequantizelinear", one.known(np.arange(30, dtype=np.int8).reshape(6, 5)),
                    one.known(scale), one.known(zero), axis=0)
    made = QuantizedConstants()(one.graph(one.add("reshape", value, shape=(2, 3, 5))))
    assert [node.op for node in made.nodes] == ["dequantizelinear", "add"]
    assert made.constants[made.nodes[0].inputs[1]].tolist() == [0.5, 0.25]


@pytest.mark.parametrize("axes", [(None, None), (0, 0), (0, None), (1, 1)])
def test_joined_constants_have_the_scales_of_all(axes) -> None:
    one = Constant(5)
    parts = [one.dequantized((4, 6), axis) for axis in axes]
    graph = one.graph(one.add("concat", *parts, axis=0))
    made = QuantizedConstants()(graph)
    assert len(made.nodes) == (1 if axes == (1, 1) else 2)
    assert_near(graph, made, 0)


@pytest.mark.parametrize(("least", "zero", "found"), [
    (-127, 0, (127, 0)), (-128, 0, (127, -1)), (-128, 5, (127, -6)), (-3, -128, (2, 127))])
def test_a_negative_factor_negates_integers_where_they_fit(least: int, zero: int, found) -> None:
    """Else both, integers and zero point, are complements."""
    one = Constant(6)
    value = one.add("dequantizelinear", one.known(np.array([[least, 1]], np.int8)),
                    one.known(np.float32(0.5)), one.known(np.int8(zero)), axis=0)
    graph = one.graph(one.add("neg", value))
    made = QuantizedConstants()(graph)
    integers, _, point = (made.constants[value] for value in made.nodes[0].inputs)
    assert (integers[0, 0], point) == found
    assert_near(graph, made, 0)


@pytest.mark.parametrize("factor", [np.inf, np.nan, 1e-30, 1e30])
def test_a_factor_without_a_scale_stays(factor: float) -> None:
    one = Constant(7)
    value = one.add("mul", one.dequantized((4, 6), 0), one.known(np.float32(factor)))
    graph = one.graph(one.add("mul", value, one.known(np.float32(factor))))
    assert [node.op for node in QuantizedConstants()(graph).nodes[-2:]] == ["mul", "add"]


def test_a_quantized_constant_that_is_quantized_again_is_one() -> None:
    one = Constant(8)
    value = one.add("transpose", one.dequantized((4, 6), 0), perm=(1, 0))
    parameters = one.known(np.float32(0.07)), one.known(np.uint8(100))
    again = one.add("quantizelinear", value, *parameters, axis=0)
    graph = one.graph(one.add("dequantizelinear", again, *parameters, axis=0))
    made = QuantizedConstants()(graph)
    assert [node.op for node in made.nodes] == ["dequantizelinear", "add"]
    assert_near(graph, made, 0)


def test_a_chain_of_hundreds_is_one_constant() -> None:
    one = Constant(9)
    value = one.dequantized((2, 3), 1)
    for _ in range(300):
        value = one.add("transpose", one.add("reverse", value, axes=(0,)), perm=(1, 0))
    assert len(QuantizedConstants()(one.graph(value)).nodes) == 2


WEIGHTS = {
    "transposed": lambda one: one.add("Transpose", one.weight(7, 12), perm=[1, 0]),
    "reshaped": lambda one: one.add("Reshape", one.weight(3, 4, 7, axis=2),
                                    one.constant(np.array([12, 7]))),
    "squeezed": lambda one: one.add("Flatten", one.weight(12, 7, 1, 1, axis=1), axis=1),
    "sliced": lambda one: one.add("Slice", one.weight(12, 20, axis=1), *(
        one.constant(np.array([number])) for number in (3, 10, 1))),
    "scaled": lambda one: one.add("Mul", one.weight(12, 7, scale=0.01), one.constant(
        one.rng.uniform(-1, 1, 7).astype(np.float32))),
    "scaled and transposed": lambda one: one.add("Transpose", one.add(
        "Div", one.weight(7, 12), one.constant(one.rng.uniform(1, 2, (7, 1)).astype(np.float32))),
        perm=[1, 0]),
    "unsqueezed": lambda one: one.add("Unsqueeze", one.weight(12, 7, axis=1),
                                      one.constant(np.array([0]))),
    "quantized here": lambda one: one.requantized(one.constant(
        one.rng.uniform(-1, 1, (12, 7)).astype(np.float32)), 0.008, 0, "int8"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_products_of_them_are_integer_layers(qdq, layer_differences, name: str) -> None:
    one = qdq(seed=len(name))
    x = one.requantized(one.input("x", 2, 5, 12), 0.03, 5)
    model = one.model(one.requantized(one.add("MatMul", x, WEIGHTS[name](one), name="product"),
                                      0.05, 120))
    feeds = {"x": one.rng.normal(size=(2, 5, 12)).astype(np.float32)}
    *_, layer = layer_differences(model, feeds)
    assert (layer.name, layer.op) == ("product", "qdense") and layer.largest <= 1, layer
    graph = optimize(convert(model))
    assert graph.notes == ()
    plain = optimize(convert(model), standard_passes(integerize=False))
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * 0.05


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_values_stay_whatever_the_weight_is(qdq, seed: int) -> None:
    """Zero points, signs, and what lies between: those without integers stay in float."""
    one = qdq(seed=seed)
    dtype, axis = one.rng.choice(["int8", "uint8"]), int(one.rng.integers(2))
    integers = one.rng.integers(*((-128, 128) if dtype == "int8" else (0, 256)), (7, 12))
    scale = one.rng.uniform(0.002, 0.02, (7, 12)[axis]).astype(np.float32)
    zero = one.rng.integers(0, 100, scale.shape).astype(dtype)
    weight = one.add("DequantizeLinear", one.constant(integers.astype(dtype)),
                     one.constant(scale), one.constant(zero), axis=axis)
    weight = one.add("Mul", one.add("Transpose", weight, perm=[1, 0]), one.constant(
        one.rng.choice([-2, -1, 0, 0.5], (7,) if seed % 2 else (12, 1)).astype(np.float32)))
    x = one.requantized(one.input("x", 5, 12), 0.03, 5)
    model = one.model(one.requantized(one.add("MatMul", x, weight), 0.1, 120))
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    feeds = {"x": one.rng.normal(size=(5, 12)).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * 0.1


def test_scales_along_two_axes_are_told(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 4, 12), 0.03, 5)
    weight = one.add("Reshape", one.weight(3, 8, 7, axis=1), one.constant(np.array([12, 14])),
                     name="split")
    graph = optimize(convert(one.model(one.requantized(one.add("MatMul", x, weight, name="p")))))
    assert graph.notes[0] == ("p (matmul) stays in float: its weight 'split.out' is not quantized, "
                              "nor int8 times a number for each output channel")


def test_readers_of_one_constant_have_integers_of_their_own(qdq, layer_differences) -> None:
    """An embedding's rows, and a product with its columns, as tied weights have it."""
    one = qdq(seed=3)
    weight = one.weight(12, 12, scale=0.02)
    x = one.requantized(one.input("x", 4, 12), 0.03, 5)
    first = one.requantized(one.add("MatMul", x, weight, name="straight"), 0.1, 120)
    turned = one.add("Transpose", weight, perm=[1, 0])
    second = one.requantized(one.add("MatMul", x, turned, name="turned"), 0.1, 120)
    model = one.model(first, second)
    layers = layer_differences(model, {"x": one.rng.normal(size=(4, 12)).astype(np.float32)})
    assert {layer.name: layer.op for layer in layers}.items() >= {
        "straight": "qdense", "turned": "qdense"}.items()
    assert max(layer.largest for layer in layers) <= 1


def test_dequantized_data_is_left_alone() -> None:
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 3), "int8"))
    parameters = [builder.add_constant("s", np.array(0.5, np.float32)),
                  builder.add_constant("z", np.array(3, np.int8))]
    builder.emit("dequantizelinear", "d", ["x", *parameters], "d", axis=0)
    builder.emit("transpose", "y", ["d"], "y", perm=(1, 0))
    graph = builder.finish(["y"])
    assert QuantizedConstants()(graph) is graph
