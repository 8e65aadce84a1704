"""Products whose sums leave the accelerator as they are, an element at a time."""

import numpy as np
import pytest

from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine
from accel.mapping.plans.text import described
from accel.mapping.plans.work import block_products
from accel.mapping.target import AccelTarget
from compiler.graph import Graph, evaluate
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import LONG, MACHINES, SHORT, SPARSE, TINY


def convolved(channels, size, outputs, kernel, planes=3, element="int8", shape=1, **attrs) -> Graph:
    net = Net(element=element)
    x = net.input(shape, channels, *size)
    group = attrs.get("group", 1)
    weight = net.rng.integers(-128, 128, (outputs, channels // group, *kernel)).astype(np.int8)
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "pad_value": 0, **attrs}
    sums = net.add_node("qconv2d", x, net.constant(weight), planes=planes, **window)
    return net.graph(sums)


def multiplied(shape, outputs, planes=3, element="int8", weight=None) -> Graph:
    net = Net(element=element)
    x = net.input(*shape)
    if weight is None:
        weight = net.rng.integers(-128, 128, (outputs, shape[-1])).astype(np.int8)
    return net.graph(net.add_node("qdense", x, net.constant(weight), planes=planes))


def computed(a, b, planes=3, **attrs) -> Graph:
    net = Net()
    one, other = net.input(*a, name="a"), net.input(*b, name="b")
    return net.graph(net.add_node("qmatmul", one, other, planes=planes, **{"trans_b": 0, **attrs}))


def samples(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.integers(*_limits(graph, name), graph.values[name].shape).astype(
        graph.values[name].dtype) for name in graph.inputs}


def _limits(graph: Graph, name: str) -> tuple[int, int]:
    info = np.iinfo(graph.values[name].dtype)
    return info.min, info.max + 1


CONVOLUTIONS = [
    ("tiny-1x4x4", convolved(3, (5, 6), 5, (3, 2), pads=(1, 0, 2, 1), pad_value=-7)),
    ("tiny-1x4x4", convolved(8, (4, 4), 8, (1, 1), planes=2, strides=(2, 1))),
    ("tiny-1x4x4", convolved(8, (4, 3), 8, (3, 3), group=8, pads=(1, 1, 1, 1))),
    ("tiny-1x4x4", convolved(6, (4, 3), 6, (3, 3), group=6)),
    ("tiny-1x4x4", convolved(8, (4, 3), 16, (2, 2), group=2)),
    ("2x8x8", convolved(9, (3, 5), 7, (2, 2), shape=3)),
    ("1x32x16", convolved(5, (3, 5), 40, (3, 3), planes=4)),
    (SHORT.config.name, convolved(11, (6, 5), 9, (3, 3), pads=(1, 1, 1, 1))),
]


@pytest.mark.parametrize(("name", "graph"), CONVOLUTIONS)
def test_a_convolution(name, graph) -> None:
    assert_right(MACHINES[name], graph, samples(graph))


@pytest.mark.parametrize(("name", "shape", "outputs"), [
    ("tiny-1x4x4", (1, 24), 10), ("tiny-1x4x4", (7, 6), 9), ("2x8x8", (5, 33), 21),
    ("2x8x8", (2, 3, 17), 8), ("1x32x16", (3, 70), 33), (SHORT.config.name, (3, 90), 13)])
def test_a_dense_layer(name, shape, outputs) -> None:
    graph = multiplied(shape, outputs)
    assert_right(MACHINES[name], graph, samples(graph))


@pytest.mark.parametrize(("name", "a", "b", "attrs"), [
    ("tiny-1x4x4", (5, 9), (9, 6), {}), ("tiny-1x4x4", (2, 5, 9), (2, 6, 9), {"trans_b": 1}),
    ("tiny-1x4x4", (3, 5, 8), (3, 8, 4), {"a_zp": -128, "b_zp": 7}),
    ("2x8x8", (2, 5, 9), (2, 9, 11), {"a_zp": 3, "b_zp": -4}),
    ("1x32x16", (1, 2, 5, 9), (1, 2, 7, 9), {"trans_b": 1, "b_zp": 5})])
def test_computed_matrices(name, a, b, attrs) -> None:
    graph = computed(a, b, **attrs)
    assert_right(MACHINES[name], graph, samples(graph))


@pytest.mark.parametrize("value", [-128, 127, 0, 1, -1])
def test_sums_at_their_ends(value) -> None:
    """Every byte that a sum may have, and both signs."""
    weight = np.array([[-128] * 40, [127] * 40, [1] + [0] * 39, [-1] + [0] * 39], np.int8)
    graph = multiplied((2, 40), 4, weight=weight)
    assert_right(TINY, graph, {"x": np.full((2, 40), value, np.int8)})


def test_an_activation_of_16_bits_has_half_as_many() -> None:
    for graph in (multiplied((3, 21), 6, planes=2, element="int16"),
                  convolved(3, (4, 5), 5, (3, 3), planes=2, element="int16")):
        assert_right(LONG, graph, samples(graph))


@pytest.mark.parametrize("name", ["tiny-1x4x4", "2x8x8"])
def test_weights_of_9_bits(name) -> None:
    """Bytes less their zero points, in two terms."""
    weight = np.random.default_rng(3).integers(-255, 256, (6, 21)).astype(np.int16)
    graph = multiplied((3, 21), 6, weight=weight)
    assert_right(MACHINES[name], graph, samples(graph))
    assert not AccelTarget(MACHINES[name]).refusal(graph, graph.nodes[0])


def test_a_product_of_the_machine() -> None:
    graph = multiplied((3, 24), 6)
    assert_right(SPARSE, graph, samples(graph))


def test_gemm_computes_each_sum_once() -> None:
    """Planes take vector, not the array."""
    graph = multiplied((8, 64), 16)
    layer, = AccelTarget(TINY).compile(graph).layers
    assert (layer.macs, block_products(layer)) == (8 * 64 * 16, 8 * 16 * 4)
    assert layer.note == "sums of 3 bytes"


@pytest.mark.parametrize("accumulator", ["int24", "int40"])
def test_accumulators_of_other_widths(accumulator) -> None:
    """Planes that acc does not have are the sign."""
    machine = Machine(TINY.config, instructions(accumulator=accumulator))
    graph = multiplied((2, 21), 6, planes=4)
    assert_right(machine, graph, samples(graph))


def test_a_machine_that_does_not_shift_is_refused() -> None:
    machine = Machine(TINY.config, tuple(one for one in TINY.declarations if one.name != "shr"))
    graph = multiplied((2, 21), 6)
    assert AccelTarget(machine).refusal(graph, graph.nodes[0]) == (
        "no instruction of the machine computes its result from what acc holds")


def test_tilings_are_those_of_as_many_planes() -> None:
    """What is planned for a layer depends on them."""
    texts = {described(layer.operator) for planes in (2, 3)
             for layer in AccelTarget(TINY).compile(multiplied((3, 24), 6, planes)).layers}
    assert len(texts) == 2


def test_groups_that_are_no_whole_blocks_are_computed_as_one() -> None:
    graph = convolved(21, (3, 3), 21, (3, 3), group=7)
    layer, = AccelTarget(TINY).compile(graph).layers
    assert layer.note == ("7 groups of 3 to 3 channels are computed as one, with zero weights "
                          "between them: they are no whole blocks; sums of 3 bytes")
    assert_right(TINY, graph, samples(graph))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "graph"), [
    CONVOLUTIONS[0], ("2x8x8", multiplied((5, 33), 21)),
    ("tiny-1x4x4", computed((3, 5, 8), (3, 8, 4), a_zp=-128, b_zp=7))])
def test_the_simulators_agree(name, graph) -> None:
    given = samples(graph)
    program = assert_right(MACHINES[name], graph, given)
    assert_simulators_agree(MACHINES[name], program, given)


def test_the_meaning() -> None:
    """The bytes of each sum, lowest first, are those of its two's complement."""
    graph = multiplied((2, 30), 5, planes=4)
    given = samples(graph)
    (found,) = evaluate(graph, given).values()
    weight = next(iter(graph.constants.values()))
    sums = given["x"].astype(np.int32) @ weight.T.astype(np.int32)
    wanted = sums.astype("<i4").view(np.int8).reshape(2, 5, 4).transpose(0, 2, 1).reshape(2, 20)
    np.testing.assert_array_equal(found, wanted)
