"""The protocol of targets, held by the one that every machine has."""

from functools import partial

import numpy as np

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.partition import partition
from compiler.target import Compiled, Target


def relu() -> Graph:
    values = {name: TensorType((4,), "float32") for name in "xy"}
    return Graph("g", ("x",), ("y",), (Node("relu", "n", ("x",), ("y",)),), values, {})


def test_the_cpu_is_a_target():
    target: Target = CpuTarget()
    assert isinstance(target, Target) and target.name == "cpu"
    graph = relu()
    assert len(partition(graph, partial(target.refusal, graph)).segments) == 1
    compiled = target.compile(graph)
    assert isinstance(compiled, Compiled)
    x = np.array([-1, 0, 2, 3], np.float32)
    np.testing.assert_array_equal(compiled({"x": x})["y"], np.maximum(x, 0))


def test_something_else_is_no_target():
    assert not isinstance(relu(), Target)
