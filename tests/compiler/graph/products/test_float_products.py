"""The pass that makes one operator of a product between conversions of stored floats."""

import numpy as np
import pytest

from compiler.graph import TensorType, evaluate, verify
from compiler.graph.products.float_products import FloatProducts, FloatTypes
from compiler.graph.rewrite import Builder
from compiler.ops.records.stored_floats import numbers_of, stored_array

E4, E5, BF = "float8_e4m3fn", "float8_e5m2", "bfloat16"


class Writer:
    """Writes a graph of products between conversions of some types."""

    def __init__(self, types=(E4, E4), scaled: bool = True):
        self.builder, self.types, self.scaled = Builder("net"), types, scaled
        self.rng, self.count = np.random.default_rng(4), 0

    def constant(self, array) -> str:
        self.count += 1
        return self.builder.add_constant(f"k{self.count}", np.asarray(array, np.float32))

    def emit(self, op: str, *inputs: str, **attrs) -> str:
        self.count += 1
        return self.builder.emit(op, f"{op}_{self.count}", list(inputs), f"v{self.count}", **attrs)

    def input(self, *shape: int) -> str:
        return self.builder.add_input("x", TensorType(shape, "float32"))

    def stored(self, x: str, scale: float) -> str:
        """A tensor that is stored as a float of few bits."""
        if self.types[0] == BF:
            return self.emit("cast", self.emit("cast", x, to=BF), to="float32")
        name, attrs = self.constant(np.float32(scale)), {"axis": 0, "dtype": self.types[0]}
        return self.emit("decodefloat", self.emit("encodefloat", x, name, **attrs), name, **attrs)

    def weight(self, *shape: int, axis: int = 0) -> str:
        self.count += 1
        codes = stored_array(self.rng.normal(size=shape).astype(np.float32), self.types[1])
        if self.types[1] == BF:                         # conversions of constants are folded
            return self.constant(codes)
        name = self.builder.add_constant(f"w{self.count}", codes)
        scales = self.constant(self.rng.random(shape[axis]) + 0.5)
        return self.emit("decodefloat", name, scales, axis=axis, dtype=self.types[1])

    def bias(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def made(self, y: str, types: FloatTypes | None = None):
        """The graph, what the pass makes of it, and the operators of that."""
        graph = verify(self.builder.finish([y]))
        types = types or FloatTypes(self.types[0], self.types[1], 4)
        changed = verify(FloatProducts(types)(graph))
        return graph, changed, [node.op for node in changed.nodes]


@pytest.mark.parametrize("types", [(E4, E4), (E5, E4), (BF, BF)])
def test_convolutions_and_rows_become_one_operator(types, rng):
    """What they compute is what the float graph does, but for the order of sums."""
    net = Writer(types)
    conv = {"strides": (2, 1), "pads": (1, 1, 0, 1)}
    y = net.stored(net.input(2, 3, 6, 5), 0.01)
    y = net.stored(net.emit("relu", net.emit("conv2d", y, net.weight(4, 3, 3, 3), net.bias(4),
                                             **conv)), 0.05)
    y = net.emit("reshape", y, shape=(2, 60))
    y = net.stored(net.emit("dense", y, net.weight(7, 60), net.bias(7), trans_b=1), 0.1)
    y = net.stored(net.emit("add", net.emit("matmul", y, net.weight(7, 5, axis=1)), net.bias(5)),
                   0.2)
    graph, made, ops = net.made(y)
    assert [op for op in ops if op not in ("cast", "encodefloat", "decodefloat")] == [
        "fconv2d", "reshape", "fdense", "fdense"]
    assert [node.attrs["relu"] for node in made.nodes if node.op[0] == "f"] == [1, 0, 0]
    x = {"x": rng.normal(size=(2, 3, 6, 5)).astype(np.float32)}
    (wanted,), (found,) = (tuple(evaluate(one, x).values()) for one in (graph, made))
    assert (np.abs(found - wanted) <= np.abs(wanted) / 4 + 0.02).all()
    assert (found == wanted).mean() > 0.9 and np.abs(wanted).max() > 1


def test_what_does_not_stand_between_conversions_stays():
    conv = {"strides": (1, 1), "pads": (0, 0, 0, 0)}

    def ops(change, types=None):
        net = Writer()
        x = net.stored(net.input(1, 4, 3, 3), 0.01)
        return net.made(change(net, x), types)[2]

    def product(net, x, w=None, **more):
        return net.emit("conv2d", x, w or net.weight(4, 4, 1, 1), **conv | more)

    assert "fconv2d" in ops(lambda net, x: net.stored(product(net, x), 0.1))
    whole = FloatTypes(E4, E4, 4)
    for name, change, types in (
            ("no result", lambda net, x: product(net, x), whole),
            ("another type", lambda net, x: net.stored(product(net, x), 0.1),
             FloatTypes(E5, E4, 4)),
            ("another type of weights", lambda net, x: net.stored(product(net, x), 0.1),
             FloatTypes(E4, E5, 4)),
            ("groups", lambda net, x: net.stored(
                product(net, x, net.weight(4, 2, 1, 1), group=2), 0.1), whole),
            ("two readers", lambda net, x: net.emit(
                "add", y := product(net, x), net.stored(y, 0.1)), whole),
            ("scales of inputs", lambda net, x: net.stored(
                product(net, x, net.weight(4, 4, 1, 1, axis=1)), 0.1), whole),
            ("a float weight", lambda net, x: net.stored(
                product(net, x, net.bias(4, 4, 1, 1)), 0.1), whole),
            ("another function", lambda net, x: net.stored(
                net.emit("tanh", product(net, x)), 0.1), whole)):
        assert "conv2d" in ops(change, types), name
    net = Writer()
    graph = net.builder.finish([net.stored(product(net, net.stored(net.input(1, 4, 3, 3), 1)), 1)])
    assert FloatProducts()(graph) is graph


def test_sums_are_scaled_and_moved_once():
    """The result is ``sum * scale + offset`` of the codes, with the scales of all three."""
    net = Writer()
    x = net.stored(net.input(1, 2), 0.5)
    y = net.stored(net.emit("dense", x, net.weight(3, 2), net.bias(3), trans_b=1), 0.25)
    _, made, _ = net.made(y)
    node = next(node for node in made.nodes if node.op == "fdense")
    codes, scale, offset = (made.constants[value] for value in node.inputs[1:])
    given = np.array([[3, -1.5]], np.float32)
    found = evaluate(made, {"x": given})[y]
    sums = (given / 0.5) @ numbers_of(codes, E4).T
    np.testing.assert_allclose(found, sums * scale * 0.25 + offset * 0.25, rtol=0.07, atol=1e-3)


@pytest.mark.parametrize("bias", [(3,), (1, 3), (1, 1, 3), (1, 1, 1, 3)])
def test_a_bias_of_more_dimensions_keeps_the_shape(bias):
    """It makes the result's shape another one than the product's, which then stays as it is."""
    net = Writer()
    product = net.emit("matmul", net.stored(net.input(2, 4), 0.5), net.weight(4, 3, axis=1))
    y = net.stored(net.emit("add", product, net.bias(*bias)), 0.25)
    before, after, operators = net.made(y)
    assert before.values[y] == after.values[y] and ("fdense" in operators) == (len(bias) < 3)


def test_small_scales_count_though_their_products_are_no_float32(rng):
    """The product of the scales of x and of the weight is below what float32 has; it is divided by
    a scale that is as small."""
    net = Writer()
    x = net.stored(net.input(2, 8), 1e-22)
    codes = net.builder.add_constant("codes", stored_array(
        rng.normal(size=(8, 4)).astype(np.float32) * 100, E4))
    weight = net.emit("decodefloat", codes, net.constant(np.full(4, 1e-23)), axis=1, dtype=E4)
    graph, made, ops = net.made(net.stored(net.emit("matmul", x, weight), 1e-42))
    assert "fdense" in ops
    x = {"x": rng.normal(size=(2, 8)).astype(np.float32) * np.float32(1e-20)}
    (wanted,), (found,) = (tuple(evaluate(one, x).values()) for one in (graph, made))
    assert (np.abs(found - wanted) <= np.abs(wanted) / 8).all() and wanted.any()


@pytest.mark.parametrize("constant", ["scale", "bias"])
def test_scales_that_are_no_float32_stay_in_float(constant):
    """An infinite scale makes NaN of a sum of 0."""
    net = Writer()
    y = net.emit("matmul", net.stored(net.input(2, 8), 1.0), net.weight(8, 4, axis=1))
    if constant == "bias":
        y = net.emit("add", y, net.constant(np.full(4, 1e5)))
    graph, made, ops = net.made(net.stored(y, 1e-40 if constant == "scale" else 1e-36))
    assert made is graph
