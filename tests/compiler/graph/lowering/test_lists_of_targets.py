"""The lists of passes that targets have: each pass keeps what the graph computes, is verified, and
stands in a list.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from compiler.cpu_gpu_backends.c.lowering import PASSES
from compiler.cpu_gpu_backends.cpu.lowering import passes
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import AVX512, SMALL
from compiler.cpu_gpu_backends.gpu.lowering import passes as gpu_passes
from compiler.cpu_gpu_backends.gpu.segment import ValueForms
from compiler.graph import Graph, GraphRefused, evaluate, lowering
from compiler.graph.passes.pipeline import Pass, lower
from tests.support.float_graphs import FloatNet, assert_near, inputs_of
from tests.support.integer_graphs import Net, sums

LISTS: dict[str, tuple[Pass, ...]] = {
    "vectors": passes(Vectors(AVX512)),
    "scalar": passes(Vectors(SMALL, doubles=False)),
    "tensor cores": gpu_passes(ValueForms(("int8", "float32"), "float16", rows=True)),
    "plain kernels": gpu_passes(ValueForms()),
    "c": PASSES,
}
HALVES = 2e-2           # what factors in float16 may change, in units of the values


def floats() -> tuple[Graph, dict[str, np.ndarray]]:
    net = FloatNet(1, 16, 8, 7)
    x = net.op("relu", net.conv("x", 16))
    x = net.op("globalavgpool", net.op("add", net.conv(x, 16, group=16), x))
    x = net.op("reshape", x, shape=(1, 16))
    weight = net.constant(16, 17)
    equal = net.add_constant("equal", net.constants[weight].copy())
    x = net.op("add", net.op("matmul", x, weight), net.op("matmul", x, equal))
    graph = net.finish([x])
    return graph, inputs_of(graph)


def bytes_() -> tuple[Graph, dict[str, np.ndarray]]:
    net = Net()
    x = net.conv(net.input(1, 16, 8, 7), 16, pads=(1, 1, 1, 1), pad_value=3)
    x = net.average(net.conv(x, 16, pads=(1, 1, 1, 1), group=16))
    graph = net.graph(net.dense(net.reshape(x, 1, 16), 17))
    return graph, net.samples()


@pytest.mark.parametrize("network", [floats, bytes_, sums])
@pytest.mark.parametrize("name", LISTS)
def test_every_pass_keeps_inputs_outputs_and_values(network, name: str) -> None:
    graph, given = network()
    wanted = evaluate(graph, given)
    for made in lower(graph, LISTS[name])[1].values():
        assert (made.inputs, made.outputs) == (graph.inputs, graph.outputs)
        for value, array in evaluate(made, given).items():
            if network is not floats:
                np.testing.assert_array_equal(array, wanted[value])
            elif name == "tensor cores":
                assert np.abs(array - wanted[value]).max() <= HALVES * np.abs(wanted[value]).max()
            else:
                assert_near(array, wanted[value])


@pytest.mark.parametrize("name", LISTS)
def test_processors_join_no_planes(name: str) -> None:
    graph, _ = sums()
    *_, made = lower(graph, LISTS[name])[1].values()
    assert not any("planes" in node.attrs for node in made.nodes)
    whole, given = sums()
    alone = lower(replace(whole, outputs=tuple(
        node.inputs[0] for node in whole.nodes if node.op == "joined_planes")), LISTS[name])[0]
    assert {node.op for node in alone.nodes if "planes" in node.attrs} == {"cut_planes"}
    for value, array in evaluate(alone, given).items():
        np.testing.assert_array_equal(array, evaluate(whole, given, [value])[value])


def test_every_pass_of_the_folder_is_in_a_list_once() -> None:
    listed = {type(one).__name__ for every in LISTS.values() for one in every}
    assert listed == set(lowering.__all__)
    for every in LISTS.values():
        assert len({one.name for one in every}) == len(every)


@pytest.mark.parametrize("name", lowering.__all__)
def test_every_pass_has_its_contract(name: str) -> None:
    contract = getattr(lowering, name).__doc__ or ""
    assert "->" in contract and "Before: any graph. After: " in contract


def test_a_pass_that_breaks_the_graph_is_refused() -> None:
    class Forgets:
        name: ClassVar[str] = "forgets"

        def __call__(self, graph: Graph) -> Graph:
            return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes[1:], graph.values,
                         graph.constants)

    with pytest.raises(GraphRefused, match=r"^graph net: relu: input 'conv2d' must be a known "
                                           r"value$"):
        lower(floats()[0], [Forgets()])
