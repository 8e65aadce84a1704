"""Weights in the forms that declared products of gemm take, found in their bodies."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.intrinsics import SHIPPED, Declaration
from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.memory.weights import products_of, slots_of
from accel.mapping.target import AccelTarget
from compiler import te
from compiler.graph import Graph
from compiler.te import INDEX, Axis, Var
from compiler.tensorize import Intrinsic, Operand
from tests.support.bodies import body_value
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import HALVED, MACHINES, SPARSE, TINY, example


def product(name, shape, terms, weight, index, update="sum"):
    """A product of one's own: `weight` and `index` of a read of wgt, the output and the term."""
    def build(config):
        b, o = Axis(Var("b"), config.batch), Axis(Var("o"), config.block_out)
        j = te.reduce_axis(terms(config), "j")
        inp = te.placeholder((b.extent, config.block_in), "int8", "x")
        wgt = te.placeholder(shape(config), "int8", "w")
        value = (inp[b.var, index(wgt, o.var, j.var)].astype("int32")
                 * weight(wgt, o.var, j.var).astype("int32"))
        return (Intrinsic(name, "gemm", Operand("dst", (b.extent, o.extent), "int32",
                                                (("acc", "int32"),)),
                          (Operand("x", inp.shape, "int8", (("inp", "int8"),)),
                           Operand("w", wgt.shape, "int8", (("wgt", "int8"),))),
                          (b, o), te.sum(value, j), update, loops=6),)
    return Declaration(name, "gemm", build)


TRANSPOSED = product("transposed", lambda c: (c.block_in, c.block_out), lambda c: c.block_in,
                     lambda w, o, j: w[j, o], lambda w, o, j: j)
ONE_OF_ALL = product("one_of_all", lambda c: (2, c.block_out), lambda c: 1,
                     lambda w, o, j: w[j, o], lambda w, o, j: w[1, o] & 3)
BACKWARDS = product("backwards", lambda c: (c.block_out, c.block_in), lambda c: c.block_in,
                    lambda w, o, j: w[o, j], lambda w, o, j: 3 - j)
SHARED = product("shared", lambda c: (3, c.block_out), lambda c: 2,
                 lambda w, o, j: w[j, o], lambda w, o, j: 2 * j + (w[2, o] & 1).astype(INDEX))
HALF = product("half", lambda c: (c.block_out, c.block_in), lambda c: c.block_in // 2,
               lambda w, o, j: w[o, j], lambda w, o, j: 2 * j)
LARGEST = product("largest", lambda c: (c.block_out, c.block_in), lambda c: c.block_in,
                  lambda w, o, j: w[o, j], lambda w, o, j: j, "max")
OTHERS = tuple(one for one in SHIPPED if one.name != "gemm")


def sparse_of(rng, shape):
    """Weights of which two of each four neighbours in the last dimension are zero."""
    weights = rng.integers(-128, 128, shape, dtype=np.int8)
    groups = weights.reshape(-1, 4)
    groups[np.arange(len(groups))[:, None], rng.permuted(
        np.tile(np.arange(4), (len(groups), 1)), axis=1)[:, :2]] = 0
    return weights


def assert_packed(rng, body, weights, passes):
    """The body computes from the packed weights, pass by pass, what the matrix gives."""
    slots = slots_of(body)
    assert slots is not None
    packed = slots.pack(weights)
    assert packed is not None and packed.shape == (*weights.shape[:-2], passes,
                                                   *body.operands[1].shape)
    x = rng.integers(-128, 128, body.operands[0].shape, dtype=np.int8)
    for matrix, entries in zip(weights.reshape(-1, *weights.shape[-2:]),
                               packed.reshape(-1, passes, *packed.shape[-2:]), strict=True):
        sums = sum(body_value(body, {body.operands[0].name: x, body.operands[1].name: entry})
                   for entry in entries)
        np.testing.assert_array_equal(sums, x.astype(np.int32) @ matrix.astype(np.int32).T)


@pytest.mark.parametrize("like", ["tiny-1x4x4", "2x8x8", "1x32x16"])
def test_sparse_weights_take_one_pass_and_others_two(rng, like):
    machine = example("halved", MACHINES[like])
    body, config = machine.intrinsic("sparse"), machine.config
    matrix = (3, config.block_out, config.block_in)
    assert_packed(rng, body, sparse_of(rng, matrix), 1)
    assert_packed(rng, body, rng.integers(1, 128, matrix, dtype=np.int8), 2)
    assert_packed(rng, body, np.zeros(matrix, np.int8), 1)


@pytest.mark.parametrize("declared, passes", [(TRANSPOSED, 1), (ONE_OF_ALL, 4), (BACKWARDS, 1)])
def test_any_pattern(rng, declared, passes):
    body = Machine(TINY.config, (*OTHERS, declared)).intrinsic(declared.name)
    assert_packed(rng, body, rng.integers(1, 128, (5, 4, 4), dtype=np.int8), passes)


def test_what_is_no_product_of_constant_weights():
    """Slots must not share bits, every input must have one, and products must be summed."""
    for declared in (SHARED, LARGEST):
        assert slots_of(Machine(TINY.config, (*OTHERS, declared)).intrinsic(declared.name)) is None
    slots = slots_of(Machine(TINY.config, (*OTHERS, HALF)).intrinsic("half"))
    assert slots is not None and slots.pack(np.ones((4, 4), np.int8)) is None


def test_products_of_machines():
    assert products_of(TINY) == (None,)
    assert [form and form.body.name for form in products_of(SPARSE)] == [None, "sparse"]
    assert [form and form.body.name for form in products_of(HALVED)] == ["sparse"]


def pruned(graph: Graph, *values: str) -> Graph:
    """The graph with 2:4 sparse weights along the input channels of these values, or of all."""
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node.op not in ("qconv2d", "qdense") or values and node.outputs[0] not in values:
            continue
        weights = constants[node.inputs[1]].copy()
        groups = np.moveaxis(weights, 1, -1)
        whole = groups[..., :groups.shape[-1] // 4 * 4]
        least = np.argsort(np.abs(whole.astype(int)).reshape(*whole.shape[:-1], -1, 4), axis=-1)
        cut = np.take_along_axis(whole.reshape(*whole.shape[:-1], -1, 4), least, -1)
        cut[..., :2] = 0
        kept = np.empty_like(cut)
        np.put_along_axis(kept, least, cut, -1)
        groups[..., :whole.shape[-1]] = kept.reshape(whole.shape)
        constants[node.inputs[1]] = np.moveaxis(groups, -1, 1)
    return replace(graph, constants=constants)


def network(net: Net) -> str:
    x = net.conv(net.input(1, 3, 9, 8), 12, (3, 3), pads=(1, 1, 1, 1), pad_value=4)
    x = net.conv(x, 12, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=12)
    x = net.conv(x, 8, (3, 2), pad_value=-3)
    x = net.conv(net.conv_transpose(x, 8), 16, (1, 1), group=2)
    return net.dense(net.flatten(net.average(x)), 10)


@pytest.mark.parametrize("name, like", [
    ("halved", "tiny-1x4x4"),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("halved", "2x8x8"), ("halved", "1x32x16"), ("sparse", "2x8x8"), ("sparse", "1x32x16")))])
def test_a_network(name: str, like: str) -> None:
    """Groups, strides, phases and dense layers, with sparse weights and others."""
    machine, net = example(name, MACHINES[like]), Net(7)
    graph = net.graph(network(net))
    assert_right(machine, graph, net.samples())
    assert_right(machine, pruned(graph), net.samples())


def test_each_layer_takes_the_cheapest_product() -> None:
    """Without gemm a layer takes two passes where its weights are not sparse."""
    net = Net(3)
    x = net.conv(net.input(1, 16, 5, 5), 16, (3, 3))
    y = net.conv(x, 16, (3, 3))
    graph = pruned(net.graph(net.conv(y, 16, (1, 1))), y)

    def notes(machine):
        return [layer.note for layer in AccelTarget(machine).compile(graph).layers]

    assert notes(SPARSE) == ["", "by sparse", ""]
    assert notes(HALVED) == ["by sparse in 2 passes", "by sparse", "by sparse in 2 passes"]
    sizes = [[layer.size("w") for layer in AccelTarget(machine).compile(graph).layers]
             for machine in (TINY, SPARSE)]
    assert sizes[1] == [sizes[0][0], sizes[0][1] * 12 // 16, sizes[0][2]]


def test_products_of_computed_matrices_need_a_matrix() -> None:
    net = Net(4)
    graph = net.graph(net.matmul(net.input(1, 2, 5, 8), net.input(1, 2, 8, 6, name="y")))
    assert_right(SPARSE, graph, net.samples())
    with pytest.raises(LoweringError, match="no instruction of gemm multiplies two computed "
                                            "matrices"):
        AccelTarget(HALVED).compile(graph)
    assert AccelTarget(HALVED).refusal(graph, graph.nodes[0]) == (
        "no instruction of gemm multiplies two computed matrices")


@pytest.mark.slow
@pytest.mark.parametrize("machine", [HALVED, SPARSE], ids=["halved", "sparse"])
def test_the_simulators_agree(machine: Machine) -> None:
    net = Net(7)
    graph = pruned(net.graph(network(net)))
    assert_simulators_agree(machine, AccelTarget(machine).compile(graph).program, net.samples())
