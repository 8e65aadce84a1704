"""The protocol of targets, held by the one that every machine has."""

from functools import partial

import numpy as np

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph.division.partition import partition
from compiler.graph.division.protocols import HOST, Compiled, Executable, Target
from compiler.graph.graph import Graph, Node, TensorType
from compiler.native import digest, processor


def relu() -> Graph:
    values = {name: TensorType((4,), "float32") for name in "xy"}
    return Graph("g", ("x",), ("y",), (Node("relu", "n", ("x",), ("y",)),), values, {})


def test_the_cpu_is_a_target():
    target: Target = CpuTarget()
    assert isinstance(target, Target) and target.name == HOST
    assert target.fingerprint == digest([processor()])
    graph = relu()
    assert len(partition(graph, partial(target.refusal, graph)).segments) == 1
    compiled = target.compile(graph)
    assert isinstance(compiled, Compiled)
    execute = compiled.on(None)
    assert isinstance(execute, Executable)
    x = np.array([-1, 0, 2, 3], np.float32)
    for outcome in (execute({"x": x}), execute.profile({"x": x})[0]):
        np.testing.assert_array_equal(outcome.values["y"], np.maximum(x, 0))
        assert outcome.run is None


def test_something_else_is_no_target():
    assert not isinstance(relu(), Target)
