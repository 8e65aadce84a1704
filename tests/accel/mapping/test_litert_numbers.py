"""Products that are scaled as LiteRT scales them: machines have multipliers of 16 bits."""

from dataclasses import replace

import numpy as np

import lockstep
from accel.mapping.target import AccelTarget
from compiler.graph.graph import Graph
from compiler.graph.reference import evaluate
from compiler.ops.records.node import TensorType
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

REASON = "it scales as LiteRT does; the accelerator has multipliers of 16 bits"


def scaled(net: Net, graph: Graph) -> Graph:
    """The one product of the graph, with scales in float32."""
    node, = graph.nodes
    channels = len(graph.constants[node.inputs[2]])
    scale = np.full(channels, 0.003, np.float32)
    return replace(graph, nodes=(replace(node, inputs=(*node.inputs[:3], "scale")),),
                   constants={**graph.constants, "scale": scale},
                   values={**graph.values, "scale": TensorType.of(scale)})


def test_scales_in_float32_stay_on_the_host() -> None:
    net = Net(3)
    graph = scaled(net, net.graph(net.dense(net.input(3, 8), 5)))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[0]) == REASON
    module = lockstep.compile(graph, "accel", machine=TINY, sim="functional")
    samples = net.samples()
    found, = module(samples).values()
    assert not module.accelerated
    np.testing.assert_array_equal(found, *evaluate(graph, samples).values())


def test_two_roundings_stay_on_the_host() -> None:
    net = Net(1)
    graph = net.graph(net.matmul(net.input(4, 8), net.input(8, 4, name="y")))
    node = graph.nodes[-1]
    twice = replace(node, attrs={**node.attrs, "bias": 0, "mult": 2**30, "shift": 40, "twice": 1})
    graph = replace(graph, nodes=(*graph.nodes[:-1], twice))
    assert AccelTarget(TINY).refusal(graph, twice) == REASON
