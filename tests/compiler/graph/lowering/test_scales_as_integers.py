"""Requantization by integers and one shift: the same numbers, or scales that stay."""

import numpy as np
import pytest

from compiler.graph import Builder, TensorType, evaluate, verify
from compiler.graph.lowering import PutChannelsLast, ScalesAsIntegers
from compiler.ops.records.node import Node
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import infer

RESULT = {"zp": 3, "lo": -128, "hi": 127}


def network(shifts: tuple[int, int] = (22, 26), mult: int | None = None,
            biases: tuple[int, int] = (-2**20, 2**20)):
    """Convolutions of both kinds and a product, of which shifts and biases lie between these."""
    rng, net = np.random.default_rng(7), Builder("net")

    def parameters(count: int) -> list[str]:
        mults = rng.integers(2**15, 2**16, count) if mult is None else np.full(count, mult)
        arrays = (rng.integers(*biases, count), mults, rng.integers(*shifts, count))
        return [net.add_constant(net.fresh("k"), array.astype(np.int32)) for array in arrays]

    def weight(*shape: int) -> str:
        return net.add_constant(net.fresh("w"), rng.integers(-128, 128, shape).astype(np.int8))

    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "pad_value": -5, **RESULT}
    x = net.add_input("x", TensorType((2, 16, 6, 5), "int8"))
    x = net.emit("qconv2d", "conv", [x, weight(20, 16, 3, 3), *parameters(20)], "a", **window)
    x = net.emit("qconv2d", "each", [x, weight(20, 1, 3, 3), *parameters(20)], "b", group=20,
                 **window)
    x = net.emit("reshape", "flat", [x], "c", shape=(2, 600))
    return net.finish([net.emit("qdense", "dense", [x, weight(9, 600), *parameters(9)], "d",
                                **RESULT)])


def itself(graph):
    return graph


def last(graph):
    return PutChannelsLast(("int8",))(graph)


def direct(graph):
    return PutChannelsLast(("int8",), pieces=False, lanes=4)(graph)


@pytest.mark.parametrize(("lowered", "ops"), [
    (itself, ["qconv2d", "qconv2d", "qdense"]),
    (last, ["qconv2d_last", "qdepthwise_last", "qdense"]),
    (direct, ["qconv2d_direct", "qdepthwise_last", "qdense"])])
def test_networks_compute_the_same(lowered, ops: list[str]) -> None:
    plain = lowered(network())
    made = verify(ScalesAsIntegers()(plain))
    whole = [node for node in made.nodes if "shift" in node.attrs]
    assert [node.op for node in whole] == ops
    for node in whole:
        factors = made.constants[node.inputs[-1]]
        assert factors.dtype == np.int32 and 2**30 <= factors.max()
        assert len(node.inputs) == 4
    given = {"x": np.random.default_rng(1).integers(-128, 128, (2, 16, 6, 5)).astype(np.int8)}
    np.testing.assert_array_equal(evaluate(made, given)["d"], evaluate(plain, given)["d"])


@pytest.mark.parametrize("options", [
    {"shifts": (18, 46)},                       # scales too far apart for 31 bits
    {"mult": 0},                                # nothing but zeros
    {"biases": (2**31 - 9, 2**31 - 1)}])        # sums may wrap
def test_multipliers_that_stay(options: dict) -> None:
    graph = network(**options)
    assert ScalesAsIntegers()(graph) is graph


def test_a_scale_in_the_place_of_another_type_is_refused() -> None:
    graph = ScalesAsIntegers()(network())
    node = next(node for node in graph.nodes if node.op == "qdense")
    scale = node.inputs[3]
    with pytest.raises(TypeRefused) as refusal:
        infer(Node("qdense", "n", node.inputs, ("y",), RESULT),
              [graph.values[value] for value in node.inputs])
    assert str(refusal.value) == f"n: input '{scale}' must be float32, not int32"
